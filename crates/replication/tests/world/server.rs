//! A shared store in memory, and its client as a process has it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::rc::Rc;

use adit_replication::StorePosition;
use adit_store::{
    AppendError, RecordChange, RecordKey, RecordKind, RecordName, RecordNumber, RecordStore,
    StoreChange, StoreError, Upkeep,
};
use adit_types::Nanos;

use super::random::ReplicationRandom;

/// What the server has.
#[derive(Debug, Default)]
pub(super) struct SharedServer {
    pub(super) is_down: bool,
    pub(super) epoch: u64,
    pub(super) last: StorePosition,
    /// All groups in the order in which they were applied.
    pub(super) log: Vec<Vec<RecordChange>>,
    records: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
}

impl SharedServer {
    fn apply(&mut self, position: StorePosition, changes: Vec<RecordChange>) {
        assert!(position > self.last, "{position:?} after {:?}", self.last);
        self.last = position;
        for change in &changes {
            let RecordName::Number(number) = change.name else { panic!("only numbers here") };
            let key = (change.kind as u8, number.to_be_bytes().to_vec());
            match &change.value {
                Some(value) => self.records.insert(key, value.clone()),
                None => self.records.remove(&key),
            };
        }
        self.log.push(changes);
    }
}

/// The client of one holder of the lease.
#[derive(Debug)]
pub(super) struct ServerClient {
    server: Rc<RefCell<SharedServer>>,
    random: ReplicationRandom,
    epoch: u64,
    appended: RecordNumber,
    /// Groups that this client does not know to be at the server.
    waiting: VecDeque<(RecordNumber, Vec<RecordChange>)>,
    durable: RecordNumber,
    /// The network between it and the server is down.
    is_cut_off: Rc<Cell<bool>>,
    /// So many groups reach the server before its process crashes.
    groups_left: Option<u64>,
}

impl ServerClient {
    /// Takes the lease; `None` while the server is down.
    pub(super) fn take_lease(
        server: &Rc<RefCell<SharedServer>>,
        random: &ReplicationRandom,
    ) -> Option<Self> {
        let mut state = server.borrow_mut();
        if state.is_down {
            return None;
        }
        state.epoch += 1;
        Some(Self {
            server: Rc::clone(server),
            random: random.clone(),
            epoch: state.epoch,
            appended: RecordNumber(0),
            waiting: VecDeque::new(),
            durable: RecordNumber(0),
            is_cut_off: Rc::default(),
            groups_left: None,
        })
    }

    /// Its process crashes when it has appended so many further groups, each of which reaches the server.
    pub(super) fn crash_after(&mut self, groups: u64) {
        self.groups_left = Some(groups);
    }

    pub(super) fn cut_off(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.is_cut_off)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn write(&mut self, most: usize) -> Result<(), StoreError> {
        let mut state = self.server.borrow_mut();
        if state.is_down || self.is_cut_off.get() {
            return Err(StoreError::Unavailable("it is down".to_owned()));
        }
        if state.epoch > self.epoch {
            return Err(StoreError::Fenced { holder: "another".to_owned() });
        }
        let epoch = self.epoch;
        let has = if state.last.epoch == epoch { state.last.number } else { RecordNumber(0) };
        let missing = self.waiting.iter().filter(|(number, _)| *number > has);
        for (number, changes) in missing.take(most) {
            state.apply(StorePosition { epoch, number: *number }, changes.clone());
        }
        Ok(())
    }

    /// Receives what the server acknowledges.
    fn note_durable(&mut self) {
        let state = self.server.borrow();
        if state.last.epoch == self.epoch {
            self.durable = state.last.number;
            self.waiting.retain(|(number, _)| *number > state.last.number);
        }
    }
}

impl RecordStore for ServerClient {
    fn group_octets_max(&self) -> usize {
        1 << 20
    }

    fn append(&mut self, changes: &[StoreChange<'_>]) -> Result<RecordNumber, AppendError> {
        if self.waiting.len() > 60 || self.groups_left == Some(0) {
            return Err(AppendError::Backlog);
        }
        // Numbers may have gaps.
        self.appended.0 += 1 + self.random.below(2);
        let owned = changes.iter().map(|change| RecordChange {
            kind: change.key.kind,
            name: RecordName::of(change.key.id),
            value: change.value.map(<[u8]>::to_vec),
        });
        self.waiting.push_back((self.appended, owned.collect()));
        if let Some(left) = &mut self.groups_left {
            *left -= 1;
            self.write(usize::MAX).map_err(|_| AppendError::Backlog)?;
        }
        Ok(self.appended)
    }

    fn commit(&mut self) -> Result<RecordNumber, StoreError> {
        self.write(usize::MAX)?;
        self.note_durable();
        Ok(self.durable)
    }

    fn durable(&self) -> RecordNumber {
        self.durable
    }

    fn maintain(&mut self) -> Result<Upkeep, StoreError> {
        Ok(Upkeep::Idle)
    }

    fn visit(
        &mut self,
        kinds: &[RecordKind],
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        let state = self.server.borrow();
        for ((kind, id), value) in &state.records {
            let found = kinds.iter().find(|wanted| **wanted as u8 == *kind);
            let number = u64::from_be_bytes(id.as_slice().try_into().unwrap());
            if let Some(kind) = found {
                visitor(RecordKey::number(*kind, number), value);
            }
        }
        Ok(())
    }

    fn poll(&mut self, _now: Nanos) -> Result<(), StoreError> {
        let most = usize::try_from(self.random.below(4)).unwrap();
        self.write(if self.random.permille(500) { most } else { 0 })?;
        if !self.is_cut_off.get() && self.random.permille(300) {
            self.note_durable();
        }
        Ok(())
    }
}
