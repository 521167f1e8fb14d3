//! The ways to GTP-U peers that follow route tables.
//!
//! The FAR of a tunnel names the index of a next hop, which stays the same while its rules do. If a
//! route table leads to the peer, the index is one of a *tunnel path*: all FARs with the same peer
//! and interfaces share the path, and a change of routes changes its one word. The index also has
//! the slot of the tunnel, by a hash of TEID and peer, in case that the route has several next
//! hops. So tunnels follow changed routes without being published again.

use core::net::IpAddr;
use std::collections::{HashMap, VecDeque};

use adit_types::limits::NEXT_HOPS_MAX;
use adit_types::{InterfaceSet, NextHopIndex, Teid};

use crate::hash::{fold, high, low};
use crate::hop_groups::{HopGroups, SLOT_BITS, slot_of};
use crate::large::LargeArray;
use crate::publish::Epoch;
use crate::route_value::RouteValue;
use crate::sync::{Arc, AtomicU32, Ordering};

/// Bit of the index of a tunnel path. The slot is in the lowest bits.
const PATH: u32 = 1 << 31;

/// Returns a hash of a tunnel, which selects one of several next hops to its peer. Zero stands for
/// the TEID of messages about the path.
#[must_use]
pub fn tunnel_hash(teid: Teid, peer: IpAddr) -> u32 {
    let (upper, lower) = match peer {
        IpAddr::V4(addr) => (0, addr.to_bits().into()),
        IpAddr::V6(addr) => (high(addr.to_bits()), low(addr.to_bits())),
    };
    let mix = |a: u64, b: u64| {
        let folded = fold(a ^ 0x9e37_79b9_7f4a_7c15, b ^ 0xbf58_476d_1ce4_e5b9);
        folded.wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let [.., d, c, b, a] = mix(mix(upper, lower), u64::from(teid.0)).to_le_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// The readers' side.
pub(crate) struct TunnelPaths {
    /// By number: the bits of a [`RouteValue`], zero without a route.
    values: LargeArray<AtomicU32>,
    groups: Arc<HopGroups>,
}

impl core::fmt::Debug for TunnelPaths {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TunnelPaths").finish_non_exhaustive()
    }
}

impl TunnelPaths {
    /// Returns the next hop of a tunnel whose FAR names `index`, which is beyond all next hops;
    /// `None` for [`NextHopIndex::NONE`] and without a route.
    #[inline]
    pub(crate) fn hop(&self, index: NextHopIndex) -> Option<NextHopIndex> {
        let number = TunnelPathWriter::number(index);
        let bits = self.values.get(number as usize)?.load(Ordering::Acquire);
        let value = match RouteValue::from_bits(bits) {
            RouteValue::Group(group) => {
                self.groups.select(group, index.0 << (u32::BITS - SLOT_BITS), InterfaceSet::ALL)?
            }
            value => value,
        };
        match value {
            RouteValue::Gateway(_, index) => Some(index),
            _ => None,
        }
    }
}

/// The interfaces and the peer of a path.
pub(crate) type TunnelEnd = (InterfaceSet, IpAddr);

/// A path on the control side.
#[derive(Debug)]
struct PathRecord {
    number: u32,
    /// FARs, published or not yet reclaimed, that name it.
    fars: u32,
}

/// The writer's side of [`TunnelPaths`].
#[derive(Debug)]
pub(crate) struct TunnelPathWriter {
    paths: Arc<TunnelPaths>,
    records: HashMap<TunnelEnd, PathRecord>,
    /// By number.
    ends: Vec<Option<TunnelEnd>>,
    free: Vec<u32>,
    limbo: VecDeque<(Epoch, u32)>,
}

impl TunnelPathWriter {
    /// Creates a table without paths.
    pub(crate) fn new(groups: &Arc<HopGroups>) -> Self {
        let room = if cfg!(any(loom, miri)) { 16 } else { NEXT_HOPS_MAX };
        let paths = TunnelPaths { values: LargeArray::zeroed(room), groups: Arc::clone(groups) };
        Self {
            paths: Arc::new(paths),
            records: HashMap::new(),
            ends: Vec::new(),
            free: Vec::new(),
            limbo: VecDeque::new(),
        }
    }

    pub(crate) fn paths(&self) -> &Arc<TunnelPaths> {
        &self.paths
    }

    /// Returns true for the index of a tunnel path.
    pub(crate) fn is_path(index: NextHopIndex) -> bool {
        index != NextHopIndex::NONE && index.0 & PATH != 0
    }

    /// Counts one more FAR of a tunnel that sends to `end`. Returns the index for it, and whether
    /// the path is new; `None` without room.
    pub(crate) fn hold(&mut self, end: TunnelEnd, teid: Teid) -> Option<(NextHopIndex, bool)> {
        let (number, is_new) = match self.records.get_mut(&end) {
            Some(record) => {
                record.fars += 1;
                (record.number, false)
            }
            None => {
                let number = self.add(end)?;
                self.records.insert(end, PathRecord { number, fars: 1 });
                (number, true)
            }
        };
        let slot = slot_of(tunnel_hash(teid, end.1));
        Some((NextHopIndex(PATH | number << SLOT_BITS | slot), is_new))
    }

    fn add(&mut self, end: TunnelEnd) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.ends[number as usize] = Some(end);
            return Some(number);
        }
        let number = self.ends.len();
        if number >= self.paths.values.len() {
            return None;
        }
        self.ends.push(Some(end));
        u32::try_from(number).ok()
    }

    /// Counts one FAR fewer that names the path of `index`. Returns the value of a path that no FAR
    /// names any more.
    pub(crate) fn release(&mut self, index: NextHopIndex, epoch: Epoch) -> Option<RouteValue> {
        let number = Self::number(index);
        let end = (*self.ends.get(number as usize)?)?;
        let record = self.records.get_mut(&end)?;
        record.fars = record.fars.saturating_sub(1);
        if record.fars > 0 {
            return None;
        }
        self.records.remove(&end);
        self.ends[number as usize] = None;
        self.limbo.push_back((epoch, number));
        self.value(number)
    }

    pub(crate) fn reclaim(&mut self, passed: Epoch) {
        while let Some((_, number)) = self.limbo.pop_front_if(|(since, _)| *since <= passed) {
            self.paths.values[number as usize].store(0, Ordering::Relaxed);
            self.free.push(number);
        }
    }

    /// Returns the number of the path of `index`.
    pub(crate) const fn number(index: NextHopIndex) -> u32 {
        (index.0 & !PATH) >> SLOT_BITS
    }

    /// Returns all paths, with their ends.
    pub(crate) fn ends(&self) -> Vec<(u32, TunnelEnd)> {
        let ends = (0..).zip(&self.ends);
        ends.filter_map(|(number, end)| Some((number, (*end)?))).collect()
    }

    /// Returns the value of a path.
    pub(crate) fn value(&self, number: u32) -> Option<RouteValue> {
        let bits = self.paths.values.get(number as usize)?.load(Ordering::Relaxed);
        (bits != 0).then(|| RouteValue::from_bits(bits))
    }

    /// Leads a path elsewhere.
    pub(crate) fn set(&self, number: u32, value: Option<RouteValue>) {
        if let Some(cell) = self.paths.values.get(number as usize) {
            cell.store(value.map_or(0, RouteValue::to_bits), Ordering::Release);
        }
    }
}
