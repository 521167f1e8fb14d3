//! Which worker owns a group of sessions, and how a group changes its owner while packets pass.
//!
//! The sessions of a group ([`Owners`]) change owners together. The control thread publishes each
//! stage of the change, and publishes the next one when every thread has begun a step with it
//! ([`OwnerChanges`]):
//!
//! 1. *Park*: the new owner parks the packets of the group that it receives, from ports and from
//!    rings.
//! 2. *Redirect*: all other threads hand packets of the group to the new owner. The previous owner
//!    processes packets that it receives itself, and those that were handed to it before.
//! 3. *Release*: no packet of the group is on its way to the previous owner any more. It processes
//!    the packets in its rings, hands the packets that wait for rules or rates to the control
//!    thread in a [`WaitingParcel`], and no longer owns the group.
//! 4. *Owned*: the new owner empties the parcel, then processes the packets that it parked, in
//!    order, and owns the group.
//!
//! So the packets of a session that one thread received keep their order, none is lost unless too
//! many are parked, and at each moment at most one worker writes the data of a session. Frames that
//! only wait for a link-layer address or a transmit queue stay with the previous owner, which waits
//! for them before it releases the group, but at most [`RELEASE_MAX`].
//!
//! Threads: the word of a group has all that a thread reads, so a thread may see the words of some
//! groups earlier than others. Only one thread at a time uses a parcel: the control thread puts
//! parcels into a mailbox before it publishes a stage, and takes them out after the worker has
//! ended that stage.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::shaper::{QueueKey, QueuedPacket};
use adit_tables::{Boundary, Publisher};
use adit_types::limits::{BURST_MAX, WORKERS_MAX};
use adit_types::{Nanos, OWNER_GROUPS, Owners, SessionIndex, WorkerId, owner_group};

use crate::buffering::MovedPacket;
use crate::first_fragments::{FIRST_FRAGMENTS_MAX, RememberedFragment};
use crate::shaping::ReadyFrame;

/// Longest time that the previous owner waits until frames have left that wait for a neighbor or a
/// transmit queue.
pub(crate) const RELEASE_MAX: Nanos = Nanos::from_millis(20);

/// Number of groups of sessions.
const GROUPS: usize = OWNER_GROUPS as usize;

/// The owner of each group of sessions.
pub type GroupOwners = [WorkerId; GROUPS];

/// A set of groups of sessions, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupSet(u64);

const _: () = assert!(GROUPS == 64, "one bit per group");

impl GroupSet {
    pub(crate) const NONE: Self = Self(0);

    /// True if the group of `session` is in the set.
    #[inline(always)]
    // PERF (adit-bench handoff): runs for every packet if there are several workers.
    pub(crate) const fn has(self, session: SessionIndex) -> bool {
        self.0 >> owner_group(session) & 1 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn insert(&mut self, group: usize) {
        self.0 |= 1 << group;
    }

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Stage of the change of a group's owner, see the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ChangeStage {
    /// No change: the group has one owner.
    Owned,
    Park,
    Redirect,
    Release,
}

/// The state of one group that threads read, packed into an atomic word.
#[derive(Debug, Clone, Copy)]
struct GroupWord {
    former: WorkerId,
    owner: WorkerId,
    stage: ChangeStage,
}

impl GroupWord {
    const fn owned(owner: WorkerId) -> Self {
        Self { former: owner, owner, stage: ChangeStage::Owned }
    }

    fn pack(self) -> u32 {
        u32::from_le_bytes([self.former.0, self.owner.0, self.stage as u8, 0])
    }

    fn unpack(word: u32) -> Self {
        let [former, owner, stage, _] = word.to_le_bytes();
        let stages = [ChangeStage::Park, ChangeStage::Redirect, ChangeStage::Release];
        let stage = stages.into_iter().find(|known| *known as u8 == stage);
        let stage = stage.unwrap_or(ChangeStage::Owned);
        Self { former: WorkerId(former), owner: WorkerId(owner), stage }
    }
}

/// Packets that wait, with their state, on the way from one worker to another.
pub(crate) struct WaitingParcel<B> {
    to: WorkerId,
    /// Packets that FARs buffer; each session's packets are in order.
    pub buffered: Vec<MovedPacket<B>>,
    /// Packets that wait for their rates; each queue's packets are in order.
    pub shaped: Vec<(QueueKey, QueuedPacket<ReadyFrame<B>>)>,
    /// First fragments of users' packets of which later fragments may come.
    pub fragments: Vec<RememberedFragment>,
}

impl<B> WaitingParcel<B> {
    /// Returns how many packets the parcel has.
    pub(crate) fn pkts(&self) -> usize {
        self.buffered.len() + self.shaped.len()
    }

    fn is_empty(&self) -> bool {
        self.pkts() == 0 && self.fragments.is_empty()
    }
}

/// Maximum of packets that wait in a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingCapacity {
    /// Packets that FARs buffer.
    pub buffered_pkts: usize,
    /// Packets that wait for their rates.
    pub shaped_pkts: usize,
}

/// State of all groups, which threads and the control thread share.
pub(crate) struct OwnerMap<B> {
    /// Counts publications; incremented after the words are written.
    version: AtomicU32,
    /// [`GroupWord`]s, by group.
    groups: [AtomicU32; GROUPS],
    /// The groups that their previous owners have released.
    released: AtomicU64,
    /// The groups that their new owners have taken, with the packets that waited.
    taken: AtomicU64,
    /// The parcels of each worker, by worker.
    mailboxes: Box<[Mutex<Vec<WaitingParcel<B>>>]>,
}

impl<B> core::fmt::Debug for OwnerMap<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OwnerMap").field("version", &self.version).finish_non_exhaustive()
    }
}

impl<B> OwnerMap<B> {
    fn new(owners: &GroupOwners) -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU32::new(0),
            groups: owners.map(|owner| AtomicU32::new(GroupWord::owned(owner).pack())),
            released: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            mailboxes: (0..WORKERS_MAX).map(|_| Mutex::new(Vec::new())).collect(),
        })
    }

    /// Locks the parcels of a worker without waiting. `None` if another thread has locked them,
    /// which the stages exclude.
    fn mailbox(&self, worker: WorkerId) -> Option<MutexGuard<'_, Vec<WaitingParcel<B>>>> {
        match self.mailboxes.get(usize::from(worker.0))?.try_lock() {
            Ok(mailbox) => Some(mailbox),
            Err(TryLockError::Poisoned(mailbox)) => Some(mailbox.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Returns which worker owns each group of sessions when the workers begin. `workers` is how many
/// there are.
#[must_use]
pub fn first_owners(workers: usize) -> GroupOwners {
    let owners = Owners::new(workers);
    core::array::from_fn(|group| owners.of_group(u32::try_from(group).unwrap_or_default()))
}

/// The owners of groups as one thread knows them.
pub(crate) struct KnownOwners<B> {
    id: WorkerId,
    map: Arc<OwnerMap<B>>,
    version: u32,
    own: GroupSet,
    /// The thread that packets of a group go to; this thread if it owns the group or parks them.
    targets: GroupOwners,
    /// The groups that this worker has to release.
    leaving: GroupSet,
    leaving_since: Option<Nanos>,
    /// The groups that this worker owns by now and of which it has not taken the parcels.
    arrived: GroupSet,
}

impl<B> core::fmt::Debug for KnownOwners<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { own, leaving, .. } = self;
        f.debug_struct("KnownOwners")
            .field("own", own)
            .field("leaving", leaving)
            .finish_non_exhaustive()
    }
}

impl<B> KnownOwners<B> {
    /// Returns the initial state of each thread, in the order of threads, if `workers` share the
    /// sessions.
    pub(crate) fn of_threads(workers: usize) -> impl Iterator<Item = Self> {
        let owners = first_owners(workers);
        let map = OwnerMap::new(&owners);
        (0..).map(move |id| {
            let mut known = Self {
                id: WorkerId(id),
                map: Arc::clone(&map),
                version: 0,
                own: GroupSet::NONE,
                targets: owners,
                leaving: GroupSet::NONE,
                leaving_since: None,
                arrived: GroupSet::NONE,
            };
            known.read();
            known.arrived = GroupSet::NONE;
            known
        })
    }

    /// True if this worker owns `session`, which must not be `SessionIndex::NONE`.
    #[inline(always)]
    // PERF (adit-bench handoff): runs for every packet if there are several workers.
    pub(crate) const fn owns(&self, session: SessionIndex) -> bool {
        self.own.has(session)
    }

    /// Returns the thread that packets of `session` go to: this one if it owns the session or parks
    /// its packets.
    #[inline]
    pub(crate) fn target(&self, session: SessionIndex) -> WorkerId {
        self.targets.get(owner_group(session) as usize).copied().unwrap_or(self.id)
    }

    /// True if owners have changed, or this worker has groups to release or to take.
    ///
    /// Cost: one load of a line that is written only when owners change.
    #[inline]
    pub(crate) fn has_change(&self) -> bool {
        self.map.version.load(Ordering::Relaxed) != self.version
            || !self.leaving.union(self.arrived).is_empty()
    }

    /// Reads the owners again. To be called between bursts, after the tables were observed.
    #[cold]
    pub(crate) fn read(&mut self) {
        self.version = self.map.version.load(Ordering::Acquire);
        let before = self.own;
        (self.own, self.leaving) = (GroupSet::NONE, GroupSet::NONE);
        let released = GroupSet(self.map.released.load(Ordering::Relaxed));
        for (group, (word, target)) in self.map.groups.iter().zip(&mut self.targets).enumerate() {
            let GroupWord { former, owner, stage } =
                GroupWord::unpack(word.load(Ordering::Acquire));
            let is_former = former == self.id;
            let is_released = released.0 >> group & 1 != 0;
            let (owns, to) = match stage {
                ChangeStage::Owned => (owner == self.id, owner),
                ChangeStage::Park if owner == self.id => (false, owner),
                ChangeStage::Park => (is_former, former),
                ChangeStage::Release if is_released => (false, owner),
                ChangeStage::Redirect | ChangeStage::Release if is_former => (true, former),
                ChangeStage::Redirect | ChangeStage::Release => (false, owner),
            };
            *target = to;
            if owns {
                self.own.insert(group);
            }
            if owns && stage == ChangeStage::Release {
                self.leaving.insert(group);
            }
        }
        self.arrived = self.arrived.union(self.own.without(before));
        if self.leaving.is_empty() {
            self.leaving_since = None;
        }
    }

    /// Returns since when this worker has groups to release; `None` if it has none.
    pub(crate) fn leaving_since(&mut self, now: Nanos) -> Option<Nanos> {
        match self.leaving.is_empty() {
            true => None,
            false => Some(*self.leaving_since.get_or_insert(now)),
        }
    }

    /// Fills parcels with the waiting packets of the groups to release. `fill` fills one parcel;
    /// its second parameter returns whether a session's packets belong into it. Returns how many
    /// packets the parcels have; `None` if the parcels are locked: the caller tries again in the
    /// next step.
    pub(crate) fn fill_parcels(
        &self,
        mut fill: impl FnMut(&mut WaitingParcel<B>, &dyn Fn(SessionIndex) -> bool),
    ) -> Option<usize> {
        let mut mailbox = self.map.mailbox(self.id)?;
        let mut pkts = 0;
        for parcel in mailbox.iter_mut().filter(|parcel| parcel.to != self.id) {
            let groups = self.groups_for(parcel.to);
            fill(parcel, &|session| groups.has(session));
            pkts += parcel.pkts();
        }
        Some(pkts)
    }

    /// Returns those of the groups to release whose new owner is `to`.
    fn groups_for(&self, to: WorkerId) -> GroupSet {
        let mut groups = GroupSet::NONE;
        for (group, word) in self.map.groups.iter().enumerate() {
            let is_leaving = self.leaving.0 >> group & 1 != 0;
            if is_leaving && GroupWord::unpack(word.load(Ordering::Relaxed)).owner == to {
                groups.insert(group);
            }
        }
        groups
    }

    /// Ends the release: this worker no longer writes data of the groups.
    pub(crate) fn end_release(&mut self) {
        self.map.released.fetch_or(self.leaving.0, Ordering::Release);
        self.read();
    }

    /// True if this worker owns groups of which it has not taken the parcels.
    pub(crate) const fn has_groups_to_take(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Empties the parcels for this worker. Returns false if they are locked: the caller tries
    /// again in the next step.
    pub(crate) fn empty_parcels(&mut self, mut empty: impl FnMut(&mut WaitingParcel<B>)) -> bool {
        let Some(mut mailbox) = self.map.mailbox(self.id) else { return false };
        mailbox.iter_mut().filter(|parcel| parcel.to == self.id).for_each(&mut empty);
        let taken = core::mem::take(&mut self.arrived);
        self.map.taken.fetch_or(taken.0, Ordering::Release);
        true
    }

    /// Creates the control thread's side of the changes of owners.
    pub(crate) fn changes(&self, workers: usize) -> OwnerChanges<B> {
        let map = Arc::clone(&self.map);
        OwnerChanges { map, workers, owners: first_owners(workers), pending: None }
    }
}

/// A change of owners that is in progress.
#[derive(Debug)]
struct PendingOwnerChange {
    next: GroupOwners,
    moving: GroupSet,
    stage: ChangeStage,
    /// The boundary that all threads have to pass before the next stage.
    boundary: Boundary,
}

/// The control thread's side of the owners: assigns groups of sessions to other workers while
/// packets pass.
///
/// The caller begins only while no command for sessions is pending, and publishes no rules and
/// sends no such command from [`OwnerChanges::begin`] until [`OwnerChanges::turn`] returns false.
/// So all workers agree on the rules, and no command finds a session that has no owner for the
/// moment.
pub struct OwnerChanges<B> {
    map: Arc<OwnerMap<B>>,
    workers: usize,
    owners: GroupOwners,
    pending: Option<PendingOwnerChange>,
}

impl<B> core::fmt::Debug for OwnerChanges<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OwnerChanges").field("pending", &self.pending).finish_non_exhaustive()
    }
}

impl<B> OwnerChanges<B> {
    /// Returns the owner of each group; during a change the previous one.
    #[must_use]
    pub const fn owners(&self) -> &GroupOwners {
        &self.owners
    }

    /// Returns how many workers share the sessions.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// True while a change is in progress.
    #[must_use]
    pub const fn is_changing(&self) -> bool {
        self.pending.is_some()
    }

    /// Begins to assign the groups to the owners in `next`, which are below the number of workers.
    /// `room`: maximum of packets that wait in a worker. Returns false if `next` changes nothing or
    /// names another thread, or if a change is in progress.
    pub fn begin(
        &mut self,
        next: &GroupOwners,
        room: WaitingCapacity,
        publisher: &mut Publisher,
    ) -> bool {
        let is_worker = |owner: &WorkerId| usize::from(owner.0) < self.workers;
        if self.pending.is_some() || !next.iter().all(is_worker) {
            return false;
        }
        let mut moving = GroupSet::NONE;
        let mut pairs = Vec::new();
        for (group, (former, owner)) in self.owners.iter().zip(next).enumerate() {
            if former != owner {
                moving.insert(group);
                pairs.push((*former, *owner));
            }
        }
        if moving.is_empty() {
            return false;
        }
        pairs.sort_unstable();
        pairs.dedup();
        for (from, to) in pairs {
            if let Some(mut mailbox) = self.map.mailbox(from) {
                mailbox.push(WaitingParcel {
                    to,
                    buffered: Vec::with_capacity(room.buffered_pkts),
                    // Queues exceed their capacity by one burst at most.
                    shaped: Vec::with_capacity(room.shaped_pkts + BURST_MAX),
                    fragments: Vec::with_capacity(FIRST_FRAGMENTS_MAX),
                });
            }
        }
        // Every thread that was online has passed the last stage of the previous change, so none
        // reads `released` and `taken` of that change any more.
        self.map.released.store(0, Ordering::Relaxed);
        self.map.taken.store(0, Ordering::Relaxed);
        self.publish(*next, moving, ChangeStage::Park, publisher);
        true
    }

    /// Publishes the next stage of a change if all threads have passed the present one. Returns
    /// false when the change is done. Sets `has_published` if it published a stage; the caller then
    /// wakes all threads.
    pub fn turn(&mut self, publisher: &mut Publisher, has_published: &mut bool) -> bool {
        let Some(pending) = &self.pending else { return false };
        let PendingOwnerChange { next, moving, stage, boundary } = *pending;
        if !publisher.has_passed(boundary) {
            return true;
        }
        let following = match stage {
            ChangeStage::Park => ChangeStage::Redirect,
            ChangeStage::Redirect => ChangeStage::Release,
            ChangeStage::Release => {
                let released = GroupSet(self.map.released.load(Ordering::Acquire));
                if !moving.without(released).is_empty() || !self.deliver_parcels() {
                    return true;
                }
                ChangeStage::Owned
            }
            ChangeStage::Owned => {
                let taken = GroupSet(self.map.taken.load(Ordering::Acquire));
                if !moving.without(taken).is_empty() {
                    return true;
                }
                self.owners = next;
                self.pending = None;
                for worker in (0..WORKERS_MAX).filter_map(|at| u8::try_from(at).ok()) {
                    if let Some(mut mailbox) = self.map.mailbox(WorkerId(worker)) {
                        debug_assert!(mailbox.iter().all(|parcel| parcel.pkts() == 0));
                        mailbox.clear();
                    }
                }
                return false;
            }
        };
        self.publish(next, moving, following, publisher);
        *has_published = true;
        true
    }

    /// Moves the parcels of previous owners to the new ones. False if a worker has locked its
    /// parcels.
    fn deliver_parcels(&self) -> bool {
        for from in (0..self.workers).filter_map(|worker| u8::try_from(worker).ok()).map(WorkerId) {
            let Some(mut mailbox) = self.map.mailbox(from) else { return false };
            let others: Vec<_> = mailbox.extract_if(.., |parcel| parcel.to != from).collect();
            drop(mailbox);
            for parcel in others.into_iter().filter(|parcel| !parcel.is_empty()) {
                // The new owner takes the parcel when the next stage is published.
                match self.map.mailbox(parcel.to) {
                    Some(mut mailbox) => mailbox.push(parcel),
                    None => debug_assert!(false, "a mailbox is in hand between two stages"),
                }
            }
        }
        true
    }

    fn publish(
        &mut self,
        next: GroupOwners,
        moving: GroupSet,
        stage: ChangeStage,
        publisher: &mut Publisher,
    ) {
        for (group, word) in self.map.groups.iter().enumerate() {
            if moving.0 >> group & 1 != 0 {
                let (former, owner) = (self.owners[group], next[group]);
                word.store(GroupWord { former, owner, stage }.pack(), Ordering::Release);
            }
        }
        self.map.version.fetch_add(1, Ordering::Release);
        let boundary = publisher.boundary();
        self.pending = Some(PendingOwnerChange { next, moving, stage, boundary });
    }
}
