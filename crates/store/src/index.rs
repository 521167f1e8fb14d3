//! The index of live records: where the journal has the latest value of each key.

use std::collections::{BTreeSet, HashMap};

use crate::record::{RecordId, RecordKey, RecordKind};

/// How many hash tables share the numeric identifiers. A table that grows moves all its entries;
/// with this many tables that takes less than a millisecond with millions of records.
const SHARD_COUNT: usize = 256;

/// Where a change stands in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// Low bits of the segment's number, which differ between all segments that exist at a time.
    pub segment: u32,
    /// Offset from the segment's start, counted in octets of payload.
    pub offset: u32,
    /// Length of the encoded change. Unit: octets.
    pub len: u32,
}

/// The index of all live records.
#[derive(Debug)]
pub(crate) struct LiveIndex {
    numbers: Vec<HashMap<(RecordKind, u64), RecordPlace>>,
    octets: HashMap<(RecordKind, Box<[u8]>), RecordPlace>,
    live_octets: u64,
    /// Octets of live records, for each segment that has any.
    by_segment: HashMap<u32, u64>,
}

impl LiveIndex {
    pub(crate) fn new() -> Self {
        Self {
            numbers: (0..SHARD_COUNT).map(|_| HashMap::new()).collect(),
            octets: HashMap::new(),
            live_octets: 0,
            by_segment: HashMap::new(),
        }
    }

    /// Returns the octets of the encoded changes that hold the live records.
    pub(crate) const fn live_octets(&self) -> u64 {
        self.live_octets
    }

    /// Returns how many records are live.
    pub(crate) fn len(&self) -> usize {
        self.octets.len() + self.numbers.iter().map(HashMap::len).sum::<usize>()
    }

    pub(crate) fn get(&self, key: RecordKey<'_>) -> Option<RecordPlace> {
        match key.id {
            RecordId::Number(number) => {
                self.numbers.get(shard_of(number))?.get(&(key.kind, number)).copied()
            }
            RecordId::Octets(octets) => self.octets.get(&(key.kind, Box::from(octets))).copied(),
        }
    }

    pub(crate) fn put(&mut self, key: RecordKey<'_>, place: RecordPlace) {
        let former = match key.id {
            RecordId::Number(number) => {
                let shard = self.numbers.get_mut(shard_of(number));
                shard.and_then(|shard| shard.insert((key.kind, number), place))
            }
            RecordId::Octets(octets) => self.octets.insert((key.kind, Box::from(octets)), place),
        };
        self.live_octets += u64::from(place.len);
        *self.by_segment.entry(place.segment).or_default() += u64::from(place.len);
        self.subtract_former(former);
    }

    pub(crate) fn remove(&mut self, key: RecordKey<'_>) {
        let former = match key.id {
            RecordId::Number(number) => {
                let shard = self.numbers.get_mut(shard_of(number));
                shard.and_then(|shard| shard.remove(&(key.kind, number)))
            }
            RecordId::Octets(octets) => self.octets.remove(&(key.kind, Box::from(octets))),
        };
        self.subtract_former(former);
    }

    fn subtract_former(&mut self, former: Option<RecordPlace>) {
        let Some(RecordPlace { segment, len, .. }) = former else { return };
        self.live_octets -= u64::from(len);
        let Some(live) = self.by_segment.get_mut(&segment) else { return };
        *live -= u64::from(len);
        if *live == 0 {
            self.by_segment.remove(&segment);
        }
    }

    /// Removes all records from the index whose value stands in this segment.
    pub(crate) fn forget_segment(&mut self, segment: u32) {
        let Some(octets) = self.by_segment.remove(&segment) else { return };
        self.live_octets -= octets;
        self.octets.retain(|_, place| place.segment != segment);
        for shard in &mut self.numbers {
            shard.retain(|_, place| place.segment != segment);
        }
    }

    /// Returns the octets of live records in a segment.
    pub(crate) fn live_octets_in(&self, segment: u32) -> u64 {
        self.by_segment.get(&segment).copied().unwrap_or(0)
    }

    /// Returns the segments that have live records of these kinds.
    pub(crate) fn segments_with(&self, kinds: &[RecordKind]) -> BTreeSet<u32> {
        let numbers = self.numbers.iter().flatten().map(|(key, place)| (key.0, place.segment));
        let octets = self.octets.iter().map(|(key, place)| (key.0, place.segment));
        let all = numbers.chain(octets).filter(|(kind, _)| kinds.contains(kind));
        all.map(|(_, segment)| segment).collect()
    }
}

/// Chooses the table of a numeric identifier. Multiplies, so that all bits count: some SEIDs differ
/// in their low bits only, others in high ones.
fn shard_of(number: u64) -> usize {
    usize::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
}
