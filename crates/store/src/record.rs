//! Records, their kinds and keys, and changes of them.

use core::fmt;

/// The kind of a record: the object whose state it keeps.
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
    /// Volume that a session has counted.
    Usage = 5,
    /// Usage reports of a session that its CP function has not acknowledged.
    Report = 6,
    /// An answer that was sent, to be sent again if the request is retransmitted.
    Answer = 7,
    /// The standby that may have groups which the store lacks; see `shared_store::replication`.
    Standby = 8,
}

impl RecordKind {
    /// All kinds, in the order in which a node restores their records.
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

/// The identifier of a record among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordId<'a> {
    /// A number, such as a SEID.
    Number(u64),
    /// 1 to 255 octets, such as a Node ID.
    Octets(&'a [u8]),
}

/// The key of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey<'a> {
    /// The kind of the record.
    pub kind: RecordKind,
    /// The identifier among the records of this kind.
    pub id: RecordId<'a>,
}

impl<'a> RecordKey<'a> {
    /// The key of a record with a numeric identifier.
    #[must_use]
    pub const fn number(kind: RecordKind, number: u64) -> Self {
        Self { kind, id: RecordId::Number(number) }
    }

    /// The key of a record whose identifier is octets.
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

/// A change of one record: puts a value, or removes the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreChange<'a> {
    /// The key of the record.
    pub key: RecordKey<'a>,
    /// The new value; `None` removes the record.
    pub value: Option<&'a [u8]>,
}

impl<'a> StoreChange<'a> {
    /// A change that sets the record to `value`.
    #[must_use]
    pub const fn put(key: RecordKey<'a>, value: &'a [u8]) -> Self {
        Self { key, value: Some(value) }
    }

    /// A change that removes the record.
    #[must_use]
    pub const fn remove(key: RecordKey<'a>) -> Self {
        Self { key, value: None }
    }
}

/// The number of a group of changes in the order of all groups. The first number is 1; numbers may
/// have gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupNumber(pub u64);

/// A [`RecordId`] that owns its octets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnedRecordId {
    /// A number, such as a SEID.
    Number(u64),
    /// Octets, such as an address.
    Octets(Vec<u8>),
}

/// A [`StoreChange`] that owns its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// The kind of the record.
    pub kind: RecordKind,
    /// The identifier of the record within its kind.
    pub name: OwnedRecordId,
    /// The new value; `None` removes the record.
    pub value: Option<Vec<u8>>,
}

/// A group: changes that become durable together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordGroup {
    /// The number of the group among those of the node that made it, from 1 on.
    pub number: GroupNumber,
    /// The changes; no record occurs twice. May be empty.
    pub changes: Vec<RecordChange>,
}

impl OwnedRecordId {
    /// Copies an identifier.
    #[must_use]
    pub fn of(id: RecordId<'_>) -> Self {
        match id {
            RecordId::Number(number) => Self::Number(number),
            RecordId::Octets(octets) => Self::Octets(octets.to_vec()),
        }
    }

    /// Borrows the identifier.
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

/// The state of a store: which changes it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreState {
    /// Accepts all changes.
    #[default]
    Working,
    /// Accepts changes, but only a reserve of space is left: for procedures under way, and for
    /// groups that add no records, such as removals. The node begins nothing that adds records.
    Full,
    /// Accepts changes, but cannot make them durable.
    Failing,
}

/// The result of a call of [`RecordStore::maintain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// There was nothing to do.
    Idle,
    /// Some work was done; there may be more.
    Worked,
    /// Waits: nothing can be done before the running sync has ended.
    Waiting,
}

/// Identifies one run of a standby process. Each start draws another value, as the memory of the
/// former run is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);
