//! Words of the store, and its contract.

use core::fmt;
use core::time::Duration;

use adit_types::Nanos;

use crate::error::{AppendError, StoreError};
use crate::groups::GroupQueue;

/// What a record is about.
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
    /// The standby that may have groups which the store lacks; see the room `replication`.
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
    /// What the record is about.
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

/// The number of a group in the order of all groups. The first one is 1. Numbers may have gaps.
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
    /// What the record is about.
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
    /// The name of a record as its store tells it.
    #[must_use]
    pub fn of(id: RecordId<'_>) -> Self {
        match id {
            RecordId::Number(number) => Self::Number(number),
            RecordId::Octets(octets) => Self::Octets(octets.to_vec()),
        }
    }

    /// The same, borrowed.
    #[must_use]
    pub fn as_id(&self) -> RecordId<'_> {
        match self {
            Self::Number(number) => RecordId::Number(*number),
            Self::Octets(octets) => RecordId::Octets(octets),
        }
    }
}

impl RecordChange {
    /// The same, borrowed.
    #[must_use]
    pub fn as_change(&self) -> StoreChange<'_> {
        let key = RecordKey { kind: self.kind, id: self.name.as_id() };
        StoreChange { key, value: self.value.as_deref() }
    }
}

/// What a store can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreState {
    /// Everything.
    #[default]
    Working,
    /// What is left is a reserve: for what is under way, and for groups that do not let the records grow, above all
    /// removals. Whoever makes groups begins nothing that needs more records.
    Full,
    /// Nothing becomes durable.
    Failing,
}

/// What a call of [`RecordStore::maintain`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Nothing needs to be done.
    Idle,
    /// A part; there may be more to do.
    Worked,
    /// Nothing can be done before a sync that is under way has ended.
    Waiting,
}

/// One life of a standby. Another value after each start: what an earlier life had in memory is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

/// Where records are kept.
///
/// A node hands its changes out in groups and answers a request once [`RecordStore::durable`] has reached the
/// group's number. The groups stand in one queue, [`RecordStore::groups`], under one number each. The calls that take time, [`RecordStore::commit`], [`RecordStore::maintain`] and
/// [`RecordStore::visit`], belong on a thread of their own.
pub trait RecordStore {
    /// Appends a group to the queue. It is not durable before a commit. A refused group has changed nothing.
    ///
    /// # Errors
    /// [`AppendError`]: the queue has no room now, or the group can never become durable.
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError>;

    /// Makes all appended groups durable, and what [`RecordStore::set_standby`] wants. Returns the number of the last group.
    ///
    /// # Errors
    /// The store cannot make them durable now. Those up to [`RecordStore::durable`] are; the others stay
    /// appended, and the next commit tries again.
    fn commit(&mut self) -> Result<RecordNumber, StoreError>;

    /// The groups that are not durable in this store, and those before them that it may need again.
    fn groups(&self) -> &GroupQueue;

    /// The last durable group.
    fn durable(&self) -> RecordNumber {
        self.groups().durable()
    }

    /// True if what is left is a reserve; see [`StoreState::Full`]. A store says so while everything that may be under
    /// way still fits.
    fn is_full(&self) -> bool {
        false
    }

    /// True while the store has records that it cannot read. They stand in memory, too, as long as the process lives.
    fn is_damaged(&self) -> bool {
        false
    }

    /// How often the store has lost records, all or some. Whoever has them appends all of them after each time, and then calls
    /// [`RecordStore::set_complete`].
    fn losses(&self) -> u64 {
        0
    }

    /// All that the store lost is appended again.
    fn set_complete(&mut self) {}

    /// Has the store name the standby whose word makes groups durable, or none, with one of the next polls or commits.
    fn set_standby(&mut self, standby: Option<Incarnation>) {
        let _ = standby;
    }

    /// The standby that the store names, durably. `None` while another name may be on its way.
    fn standby(&self) -> Option<Incarnation> {
        None
    }

    /// Does a bounded part of the work that keeps commits short and the store small.
    ///
    /// # Errors
    /// The part was not done. Nothing is lost; the caller tries again later.
    fn maintain(&mut self) -> Result<Upkeep, StoreError>;

    /// Calls `visitor` with each durable record of these kinds and its value, in no particular order.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError>;

    /// Makes groups durable as far as that is possible without waiting for another host. A store that has no need to wait
    /// commits.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses. It tries again by itself. After [`StoreError::Fenced`] there is nothing to try:
    /// no group becomes durable any more.
    fn poll(&mut self, now: Nanos) -> Result<(), StoreError> {
        let _ = now;
        self.commit().map(|_| ())
    }

    /// Blocks until [`RecordStore::poll`] may have something to do, for at most `limit`.
    fn wait(&mut self, limit: Duration) {
        let _ = limit;
    }
}
