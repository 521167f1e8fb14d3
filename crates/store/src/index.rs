//! The live records: where the latest value of each key stands.

use std::collections::{BTreeSet, HashMap};

use crate::record::{RecordId, RecordKey, RecordKind};

/// Tables per kind of identifier. A table that grows moves all its entries; this many keep that
/// below a millisecond with millions of records.
const SHARDS: usize = 256;

/// The place of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The low bits of the segment's number. Segments that exist at the same time differ in them.
    pub segment: u32,
    /// Octets of payload from the segment's start.
    pub offset: u32,
    /// Octets of the change.
    pub len: u32,
}

/// All live records.
#[derive(Debug)]
pub(crate) struct LiveIndex {
    numbers: Vec<HashMap<(RecordKind, u64), Place>>,
    octets: HashMap<(RecordKind, Box<[u8]>), Place>,
    live_octets: u64,
    /// Octets of the live records of each segment that has some.
    by_segment: HashMap<u32, u64>,
}

impl LiveIndex {
    pub(crate) fn new() -> Self {
        Self {
            numbers: (0..SHARDS).map(|_| HashMap::new()).collect(),
            octets: HashMap::new(),
            live_octets: 0,
            by_segment: HashMap::new(),
        }
    }

    /// Octets of the changes that put the live records.
    pub(crate) const fn live_octets(&self) -> u64 {
        self.live_octets
    }

    /// Live records.
    pub(crate) fn len(&self) -> usize {
        self.octets.len() + self.numbers.iter().map(HashMap::len).sum::<usize>()
    }

    pub(crate) fn get(&self, key: RecordKey<'_>) -> Option<Place> {
        match key.id {
            RecordId::Number(number) => {
                self.numbers.get(shard_of(number))?.get(&(key.kind, number)).copied()
            }
            RecordId::Octets(octets) => self.octets.get(&(key.kind, Box::from(octets))).copied(),
        }
    }

    pub(crate) fn put(&mut self, key: RecordKey<'_>, place: Place) {
        let former = match key.id {
            RecordId::Number(number) => {
                let shard = self.numbers.get_mut(shard_of(number));
                shard.and_then(|shard| shard.insert((key.kind, number), place))
            }
            RecordId::Octets(octets) => self.octets.insert((key.kind, Box::from(octets)), place),
        };
        self.live_octets += u64::from(place.len);
        *self.by_segment.entry(place.segment).or_default() += u64::from(place.len);
        self.forget(former);
    }

    pub(crate) fn remove(&mut self, key: RecordKey<'_>) {
        let former = match key.id {
            RecordId::Number(number) => {
                let shard = self.numbers.get_mut(shard_of(number));
                shard.and_then(|shard| shard.remove(&(key.kind, number)))
            }
            RecordId::Octets(octets) => self.octets.remove(&(key.kind, Box::from(octets))),
        };
        self.forget(former);
    }

    fn forget(&mut self, former: Option<Place>) {
        let Some(Place { segment, len, .. }) = former else { return };
        self.live_octets -= u64::from(len);
        let Some(live) = self.by_segment.get_mut(&segment) else { return };
        *live -= u64::from(len);
        if *live == 0 {
            self.by_segment.remove(&segment);
        }
    }

    /// Forgets the live records of a segment.
    pub(crate) fn forget_segment(&mut self, segment: u32) {
        let Some(octets) = self.by_segment.remove(&segment) else { return };
        self.live_octets -= octets;
        self.octets.retain(|_, place| place.segment != segment);
        for shard in &mut self.numbers {
            shard.retain(|_, place| place.segment != segment);
        }
    }

    /// Octets of the live records of a segment.
    pub(crate) fn live_in(&self, segment: u32) -> u64 {
        self.by_segment.get(&segment).copied().unwrap_or(0)
    }

    /// The segments with live records of these kinds.
    pub(crate) fn segments_with(&self, kinds: &[RecordKind]) -> BTreeSet<u32> {
        let numbers = self.numbers.iter().flatten().map(|(key, place)| (key.0, place.segment));
        let octets = self.octets.iter().map(|(key, place)| (key.0, place.segment));
        let all = numbers.chain(octets).filter(|(kind, _)| kinds.contains(kind));
        all.map(|(_, segment)| segment).collect()
    }
}

/// Mixes all bits of the number into the choice: SEIDs differ in their low bits, or in high ones.
fn shard_of(number: u64) -> usize {
    usize::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
}
