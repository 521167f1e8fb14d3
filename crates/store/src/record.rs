//! Words of the store.

use core::fmt;

/// The subject of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// The node itself: its recovery time stamp, the seeds of its identifiers.
    Node = 1,
    /// An association with a control plane function.
    Association = 2,
    /// The PFDs of an application.
    Pfds = 3,
    /// A PFCP session.
    Session = 4,
    /// Counted volume of a session.
    Usage = 5,
    /// Usage reports of a session that its control plane function has not acknowledged.
    Report = 6,
    /// An answer, for a retransmission of its request.
    Answer = 7,
    /// The standby that may have groups which the store lacks; see `shared_store::replication`.
    Standby = 8,
}

impl RecordKind {
    /// All kinds, in the order in which a node restores them.
    pub const ALL: [Self; 8] = [
        Self::Standby,
        Self::Node,
        Self::Association,
        Self::Pfds,
        Self::Usage,
        Self::Session,
        Self::Report,
        Self::Answer,
    ];

    pub(crate) fn from_octet(octet: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == octet)
    }
}

/// Which record of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordId<'a> {
    /// A number, such as a SEID.
    Number(u64),
    /// 1 to 255 octets, such as a Node ID.
    Octets(&'a [u8]),
}

/// The name of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey<'a> {
    /// The subject of the record.
    pub kind: RecordKind,
    /// Which one of its kind.
    pub id: RecordId<'a>,
}

impl<'a> RecordKey<'a> {
    /// The record of `kind` with this number.
    #[must_use]
    pub const fn number(kind: RecordKind, number: u64) -> Self {
        Self { kind, id: RecordId::Number(number) }
    }

    /// The record of `kind` with these octets.
    #[must_use]
    pub const fn octets(kind: RecordKind, octets: &'a [u8]) -> Self {
        Self { kind, id: RecordId::Octets(octets) }
    }
}

impl fmt::Display for RecordKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RecordKind::Node => "node",
            RecordKind::Association => "association",
            RecordKind::Pfds => "PFDs",
            RecordKind::Session => "session",
            RecordKind::Usage => "usage",
            RecordKind::Report => "report",
            RecordKind::Answer => "answer",
            RecordKind::Standby => "standby",
        };
        match self.id {
            RecordId::Number(number) => write!(f, "{kind} {number:#x}"),
            RecordId::Octets(octets) => write!(f, "{kind} {}", octets.escape_ascii()),
        }
    }
}

/// A change of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreChange<'a> {
    /// The record that changes.
    pub key: RecordKey<'a>,
    /// Its new value, or none if the record is removed.
    pub value: Option<&'a [u8]>,
}

impl<'a> StoreChange<'a> {
    /// The record gets this value.
    #[must_use]
    pub const fn put(key: RecordKey<'a>, value: &'a [u8]) -> Self {
        Self { key, value: Some(value) }
    }

    /// The record is removed.
    #[must_use]
    pub const fn remove(key: RecordKey<'a>) -> Self {
        Self { key, value: None }
    }
}

/// The number of a change group in the order of all groups. The first one is 1. Numbers may have
/// gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordNumber(pub u64);

/// Which record of its kind, owned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordName {
    /// A number, such as a SEID.
    Number(u64),
    /// Octets, such as an address.
    Octets(Vec<u8>),
}

/// A change of one record, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// The subject of the record.
    pub kind: RecordKind,
    /// Which one.
    pub name: RecordName,
    /// Its new value, or none if the record is removed.
    pub value: Option<Vec<u8>>,
}

/// Changes that become durable together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordGroup {
    /// The place in the order of all groups of the node that made it, from 1 on.
    pub number: RecordNumber,
    /// The changes, each record once. There may be none.
    pub changes: Vec<RecordChange>,
}

impl RecordName {
    /// The name of a record as its store has it.
    #[must_use]
    pub fn of(id: RecordId<'_>) -> Self {
        match id {
            RecordId::Number(number) => Self::Number(number),
            RecordId::Octets(octets) => Self::Octets(octets.to_vec()),
        }
    }

    /// Borrows the name.
    #[must_use]
    pub fn as_id(&self) -> RecordId<'_> {
        match self {
            Self::Number(number) => RecordId::Number(*number),
            Self::Octets(octets) => RecordId::Octets(octets),
        }
    }
}

impl RecordChange {
    /// Borrows the change.
    #[must_use]
    pub fn as_change(&self) -> StoreChange<'_> {
        let key = RecordKey { kind: self.kind, id: self.name.as_id() };
        StoreChange { key, value: self.value.as_deref() }
    }
}

/// Which changes a store accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreState {
    /// Everything.
    #[default]
    Working,
    /// The remaining space is a reserve: for changes under way, and for groups that do not let the
    /// records grow, above all removals. The writer of groups begins nothing that needs more
    /// records.
    Full,
    /// Nothing becomes durable.
    Failing,
}

/// The result of a call of [`RecordStore::maintain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing needs to be done.
    Idle,
    /// A part; there may be more to do.
    Worked,
    /// Nothing can be done before a sync that is under way has ended.
    Waiting,
}

/// One life of a standby. Another value after each start: the memory of an earlier life is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);
