//! The counts of each session's flows when they were last read.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::flows::card::FlowCounts;
use crate::{OffloadCounts, OffloadUsage, share_per_part};
use adit_types::{Direction, Nanos, SessionIndex};

/// How many sessions' counters are allocated together.
const SESSIONS_PER_CHUNK: usize = 1 << 10;

/// Packets and octets of uplink, then of downlink, then when the last packet was counted.
type SessionCells = [AtomicU64; 5];

/// Index of the time of the last packet in [`SessionCells`].
const LAST_PACKET_AT: usize = 4;

/// Counters by session. A chunk is allocated when one of its sessions gets a flow.
pub(crate) struct FlowUsage {
    chunks: Box<[OnceLock<Box<[SessionCells]>>]>,
}

impl fmt::Debug for FlowUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowUsage").field("chunks", &self.chunks.len()).finish()
    }
}

impl FlowUsage {
    pub(crate) fn new(sessions: usize) -> Arc<Self> {
        let chunks = (0..sessions.div_ceil(SESSIONS_PER_CHUNK)).map(|_| OnceLock::new());
        Arc::new(Self { chunks: chunks.collect() })
    }

    /// Adds what one direction's flows counted since their last reading; `bytes` counts inner IP
    /// packets. There may be only one writer.
    pub(crate) fn add(
        &self,
        session: SessionIndex,
        direction: Direction,
        more: FlowCounts,
        now: Nanos,
    ) {
        let at = session.0 as usize;
        let Some(chunk) = self.chunks.get(at / SESSIONS_PER_CHUNK) else { return };
        let cells = chunk
            .get_or_init(|| (0..SESSIONS_PER_CHUNK).map(|_| SessionCells::default()).collect());
        let cells = &cells[at % SESSIONS_PER_CHUNK];
        let first = match direction {
            Direction::Uplink => 0,
            Direction::Downlink => 2,
        };
        for (cell, more) in cells[first..].iter().zip([more.pkts, more.bytes]) {
            let sum = cell.load(Ordering::Relaxed).wrapping_add(more);
            cell.store(sum, Ordering::Relaxed);
        }
        cells[LAST_PACKET_AT].store(now.0.max(1), Ordering::Relaxed);
    }
}

impl OffloadUsage for FlowUsage {
    fn counted(&self, session: SessionIndex) -> OffloadCounts {
        let at = session.0 as usize;
        let cells = self.chunks.get(at / SESSIONS_PER_CHUNK).and_then(OnceLock::get);
        let Some(cells) = cells else { return OffloadCounts::default() };
        let [ul_pkts, ul_bytes, dl_pkts, dl_bytes, last] =
            cells[at % SESSIONS_PER_CHUNK].each_ref().map(|cell| cell.load(Ordering::Relaxed));
        let last = (last != 0).then_some(Nanos(last));
        OffloadCounts { ul_pkts, ul_bytes, dl_pkts, dl_bytes, last }
    }

    fn take_back(&self, _: SessionIndex) {}

    /// Divides among `others` only: the publisher reserves the volume of flows in advance.
    fn divide(&self, _: SessionIndex, more: u64, others: u64) -> u64 {
        share_per_part(more, others)
    }
}
