//! A map with which a journal is compared, and random changes for both.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]

use std::collections::BTreeMap;

use adit_store::{
    Journal, JournalOptions, OpenReport, RecordId, RecordKey, RecordKind, RecordStore, StoreChange,
    StoreError, Upkeep,
};
use adit_testkit::memory_folder::{FolderImage, MemoryFiles, MemoryFolder};
use rand::rngs::StdRng;
use rand::{Rng, RngCore};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelId {
    Number(u64),
    Octets(Vec<u8>),
}

pub type ModelRecords = BTreeMap<(RecordKind, ModelId), Vec<u8>>;

#[derive(Debug, Clone)]
pub struct ModelChange {
    pub kind: RecordKind,
    pub id: ModelId,
    pub value: Option<Vec<u8>>,
}

impl ModelChange {
    pub fn borrowed(&self) -> StoreChange<'_> {
        let id = match &self.id {
            ModelId::Number(number) => RecordId::Number(*number),
            ModelId::Octets(octets) => RecordId::Octets(octets),
        };
        StoreChange { key: RecordKey { kind: self.kind, id }, value: self.value.as_deref() }
    }
}

/// How the changes of a run look.
#[derive(Debug, Clone, Copy)]
pub struct ChangeShape {
    pub keys: u64,
    pub value_octets: usize,
    pub group_max: usize,
}

pub const SMALL: ChangeShape = ChangeShape { keys: 12, value_octets: 300, group_max: 3 };

pub fn random_group(random: &mut StdRng, shape: ChangeShape) -> Vec<ModelChange> {
    (0..random.random_range(1..=shape.group_max)).map(|_| random_change(random, shape)).collect()
}

fn random_change(random: &mut StdRng, shape: ChangeShape) -> ModelChange {
    let kind = RecordKind::ALL[random.random_range(0..RecordKind::ALL.len())];
    let number = random.random_range(0..shape.keys);
    let id = match number % 4 {
        0 => ModelId::Octets(format!("peer{number}.example").into_bytes()),
        _ => ModelId::Number(number << 32),
    };
    let value = random.random_bool(0.7).then(|| {
        let mut value = vec![0; random.random_range(0..=shape.value_octets)];
        random.fill_bytes(&mut value);
        value
    });
    ModelChange { kind, id, value }
}

pub fn apply(records: &mut ModelRecords, group: &[ModelChange]) {
    for change in group {
        let key = (change.kind, change.id.clone());
        match &change.value {
            Some(value) => records.insert(key, value.clone()),
            None => records.remove(&key),
        };
    }
}

pub fn options(segment_bytes: u32) -> JournalOptions {
    JournalOptions { segment_bytes, ..JournalOptions::new(0x1122_3344_5566_7788) }
}

pub fn records_of(journal: &mut Journal<MemoryFiles>) -> Result<ModelRecords, StoreError> {
    let mut records = ModelRecords::new();
    journal.visit(&RecordKind::ALL, &mut |key, value| {
        let id = match key.id {
            RecordId::Number(number) => ModelId::Number(number),
            RecordId::Octets(octets) => ModelId::Octets(octets.to_vec()),
        };
        assert!(records.insert((key.kind, id), value.to_vec()).is_none(), "{key} came twice");
    })?;
    assert_eq!(journal.figures().records, records.len());
    Ok(records)
}

/// The contents of a journal after it was opened.
#[derive(Debug)]
pub struct Reopened {
    pub records: ModelRecords,
    pub durable: u64,
    pub report: OpenReport,
}

pub fn reopen(image: FolderImage, options: &JournalOptions) -> Result<Reopened, StoreError> {
    let folder = MemoryFolder::from_image(image);
    let (mut journal, report) = Journal::open(folder.files(), options)?;
    let records = records_of(&mut journal)?;
    Ok(Reopened { records, durable: journal.durable().0, report })
}

/// A journal and its model.
pub struct Run {
    pub folder: MemoryFolder,
    pub journal: Option<Journal<MemoryFiles>>,
    pub options: JournalOptions,
    /// The records after each group.
    pub states: BTreeMap<u64, ModelRecords>,
    pub appended: u64,
    /// Number of polls after which a parallel sync ends.
    pub sync_polls: u32,
}

impl Run {
    pub fn new(segment_bytes: u32) -> Self {
        Self::on(MemoryFolder::new(), segment_bytes)
    }

    pub fn on(folder: MemoryFolder, segment_bytes: u32) -> Self {
        let options = options(segment_bytes);
        let (journal, _) = Journal::open(folder.files(), &options).unwrap();
        let states = BTreeMap::from([(0, ModelRecords::new())]);
        Self { folder, journal: Some(journal), options, states, appended: 0, sync_polls: 0 }
    }

    pub fn delay_syncs(&mut self, polls: u32) {
        self.sync_polls = polls;
        self.folder.delay_syncs(polls);
    }

    pub fn journal(&mut self) -> &mut Journal<MemoryFiles> {
        self.journal.as_mut().unwrap()
    }

    pub fn records(&self) -> &ModelRecords {
        &self.states[&self.appended]
    }

    pub fn append(&mut self, group: &[ModelChange]) -> bool {
        let changes: Vec<StoreChange<'_>> = group.iter().map(ModelChange::borrowed).collect();
        let Ok(number) = self.journal().append(&changes) else { return false };
        let mut records = self.records().clone();
        apply(&mut records, group);
        self.appended = number.0;
        assert!(self.states.insert(number.0, records).is_none(), "a number came twice");
        true
    }

    pub fn commit(&mut self) {
        let durable = self.journal().commit().unwrap();
        assert_eq!(durable.0, self.appended);
    }

    pub fn maintain_all(&mut self) {
        for _ in 0..1000 {
            if self.journal().maintain().unwrap() == Upkeep::Idle {
                return;
            }
        }
        panic!("upkeep has no end");
    }

    /// Checks that a journal holds the state of one of the groups from `durable` on.
    pub fn check(&self, reopened: &Reopened, durable: u64, place: &str) {
        assert!(reopened.durable >= durable, "{place}: {} of {durable}", reopened.durable);
        let state = self.states.get(&reopened.durable);
        assert!(state == Some(&reopened.records), "{place}: not the state of {}", reopened.durable);
    }

    /// The process ends and another one starts; the machine goes on, and octets that no sync has
    /// covered may still be lost.
    pub fn restart_process(&mut self) {
        let durable = self.journal().durable().0;
        self.journal = None;
        let (mut journal, _) = Journal::open(self.folder.files(), &self.options).unwrap();
        let records = records_of(&mut journal).unwrap();
        self.appended = journal.durable().0;
        assert!(self.appended >= durable);
        assert_eq!(&records, self.records());
        let appended = self.appended;
        self.states.retain(|number, _| *number <= appended);
        self.journal = Some(journal);
    }

    /// Restarts after a crash with the remaining files.
    pub fn restart(&mut self, image: FolderImage) {
        let durable = self.journal.as_ref().map_or(0, |journal| journal.durable().0);
        self.journal = None;
        self.folder = MemoryFolder::from_image(image);
        self.folder.delay_syncs(self.sync_polls);
        let (mut journal, _) = Journal::open(self.folder.files(), &self.options).unwrap();
        let records = records_of(&mut journal).unwrap();
        let report = OpenReport::default();
        let reopened = Reopened { records, durable: journal.durable().0, report };
        self.check(&reopened, durable, "restart");
        self.appended = reopened.durable;
        self.states.retain(|number, _| *number <= reopened.durable);
        self.journal = Some(journal);
    }
}
