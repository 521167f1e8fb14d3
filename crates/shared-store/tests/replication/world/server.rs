//! A shared store in memory, and its client as a process has it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use adit_store::{
    AppendError, GroupNumber, GroupPosition, GroupQueue, Incarnation, QueuedGroup, RecordKey,
    RecordKind, RecordStore, StoreChange, StoreError, Upkeep,
};
use adit_types::Nanos;

use super::random::ReplicationRandom;

/// Octets that wait in a client at most.
const WAITING_OCTETS_MAX: usize = 12_000;

/// The contents and state of the server.
#[derive(Debug, Default)]
pub(super) struct SharedServer {
    pub(super) is_down: bool,
    pub(super) epoch: u64,
    /// The standby that may have groups which are not here.
    pub(super) standby: Option<Incarnation>,
    /// All groups in the order in which they were applied.
    pub(super) log: Vec<(GroupPosition, QueuedGroup)>,
}

impl SharedServer {
    pub(super) fn last(&self) -> GroupPosition {
        self.log.last().map_or(GroupPosition::default(), |(position, _)| *position)
    }

    /// The groups behind a position.
    pub(super) fn after(&self, position: GroupPosition) -> &[(GroupPosition, QueuedGroup)] {
        &self.log[self.log.partition_point(|(of, _)| *of <= position)..]
    }

    /// The last group of a writer.
    fn last_of(&self, epoch: u64) -> GroupNumber {
        let last = self.last();
        if last.epoch == epoch { last.number } else { GroupNumber(0) }
    }
}

/// A name on its way to the server.
#[derive(Debug, Clone, Copy)]
struct SentName {
    standby: Option<Incarnation>,
    has_arrived: bool,
}

/// The client of one holder of the lease.
#[derive(Debug)]
pub(super) struct ServerClient {
    server: Rc<RefCell<SharedServer>>,
    random: ReplicationRandom,
    epoch: u64,
    groups: GroupQueue,
    wanted: Option<Incarnation>,
    sent: Option<SentName>,
    /// The last name that the server has acknowledged.
    known: Option<Incarnation>,
    /// The network between it and the server is down.
    is_cut_off: Rc<Cell<bool>>,
    /// Groups and names that still reach the server before the client's writes fail.
    writes_left: u64,
}

impl ServerClient {
    /// Takes the lease as the standby `own` or as somebody else.
    ///
    /// # Errors
    /// The server names this standby.
    pub(super) fn take_lease(
        server: &Rc<RefCell<SharedServer>>,
        random: &ReplicationRandom,
        own: Option<Incarnation>,
    ) -> Result<Self, Incarnation> {
        let mut state = server.borrow_mut();
        assert!(!state.is_down, "nobody gets the lease from a server that is down");
        if let Some(named) = state.standby.filter(|named| own != Some(*named)) {
            return Err(named);
        }
        state.epoch += 1;
        Ok(Self {
            server: Rc::clone(server),
            random: random.clone(),
            epoch: state.epoch,
            groups: GroupQueue::new(GroupNumber(0)),
            wanted: state.standby,
            sent: None,
            known: state.standby,
            is_cut_off: Rc::default(),
            writes_left: u64::MAX,
        })
    }

    /// Its process loses the server for good after so many further groups and names.
    pub(super) fn lose_after(&mut self, writes: u64) {
        self.writes_left = writes;
    }

    pub(super) fn cut_off(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.is_cut_off)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Writes so many groups, and the name before or behind them.
    fn write(&mut self, most: usize) -> Result<(), StoreError> {
        let state = self.server.borrow();
        if state.is_down || self.is_cut_off.get() {
            return Err(StoreError::Unavailable("it is down".to_owned()));
        }
        if state.epoch > self.epoch {
            return Err(StoreError::Fenced { holder: "another".to_owned() });
        }
        drop(state);
        let is_name_first = self.random.permille(500);
        if is_name_first {
            self.write_name()?;
        }
        self.write_groups(most)?;
        if is_name_first { Ok(()) } else { self.write_name() }
    }

    fn write_groups(&mut self, most: usize) -> Result<(), StoreError> {
        let mut state = self.server.borrow_mut();
        for group in self.groups.after(state.last_of(self.epoch)).take(most) {
            use_up(&mut self.writes_left)?;
            let position = GroupPosition { epoch: self.epoch, number: group.number };
            assert!(position > state.last(), "{position} after {}", state.last());
            state.log.push((position, group.clone()));
        }
        Ok(())
    }

    fn write_name(&mut self) -> Result<(), StoreError> {
        if let Some(sent) = self.sent.as_mut().filter(|sent| !sent.has_arrived) {
            use_up(&mut self.writes_left)?;
            self.server.borrow_mut().standby = sent.standby;
            sent.has_arrived = true;
        }
        if self.sent.is_none() && self.wanted != self.known {
            self.sent = Some(SentName { standby: self.wanted, has_arrived: false });
        }
        Ok(())
    }

    /// Receives the groups that the server acknowledges.
    fn note_durable(&mut self) {
        let last = self.server.borrow().last_of(self.epoch);
        self.groups.set_durable(last);
        let kept = usize::try_from(self.random.below(4) * 1000).unwrap();
        self.groups.trim(kept);
        if let Some(sent) = self.sent.take_if(|sent| sent.has_arrived) {
            self.known = sent.standby;
        }
    }
}

fn use_up(writes_left: &mut u64) -> Result<(), StoreError> {
    let left = writes_left.checked_sub(1);
    *writes_left = left.ok_or_else(|| StoreError::Unavailable("it is lost".to_owned()))?;
    Ok(())
}

impl RecordStore for ServerClient {
    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<GroupNumber, AppendError> {
        match self.groups.waiting_octets() > WAITING_OCTETS_MAX {
            true => Err(AppendError::Backlog),
            false => self.groups.append(changes, 1 << 20),
        }
    }

    fn commit(&mut self) -> Result<GroupNumber, StoreError> {
        // The server answers the name that was sent before the one that is wanted now.
        while self.groups.is_waiting() || self.sent.is_some() || self.wanted != self.known {
            self.write(1)?;
            self.note_durable();
        }
        Ok(self.durable())
    }

    fn groups(&self) -> &GroupQueue {
        &self.groups
    }

    fn set_standby(&mut self, standby: Option<Incarnation>) {
        self.wanted = standby;
    }

    fn standby(&self) -> Option<Incarnation> {
        // The answer is open while another name may be on its way.
        self.known.filter(|_| self.sent.is_none())
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        Ok(Upkeep::Idle)
    }

    fn visit(
        &mut self,
        _kinds: &[RecordKind],
        _visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        Ok(())
    }

    fn poll(&mut self, _now: Nanos) -> Result<(), StoreError> {
        let most = usize::try_from(self.random.below(4)).unwrap();
        self.write(if self.random.permille(500) { most } else { 0 })?;
        if self.random.permille(300) {
            self.note_durable();
        }
        Ok(())
    }
}
