//! Counters of packets that exceed the rate of a bucket: they wait or are dropped.

use adit_types::Nanos;

use crate::counters::Counter;

/// Counts of packets that waited or were dropped. Rare, and therefore in a separate table.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
pub(crate) struct ExcessCounters {
    pub(crate) dropped_pkts: Counter,
    pub(crate) dropped_bytes: Counter,
    pub(crate) queued_pkts: Counter,
    /// Queueing delay of the packet that left the queue last, sent or dropped. Unit: ns.
    pub(crate) delay_ns: Counter,
}

/// Counts the packets that wait for a bucket. For the worker that owns the session.
#[derive(Debug, Clone, Copy)]
pub struct WaitCounts<'a>(&'a ExcessCounters);

impl<'a> WaitCounts<'a> {
    #[inline]
    pub(crate) const fn of(counters: &'a ExcessCounters) -> Self {
        Self(counters)
    }

    /// Counts a packet that begins to wait.
    #[inline]
    pub fn add(self) {
        self.0.queued_pkts.add(1);
    }

    /// Counts packets that stop waiting; the last one waited for `delay`.
    #[inline]
    pub fn remove(self, pkts: u64, delay: Nanos) {
        let queued = &self.0.queued_pkts;
        queued.set(queued.load().saturating_sub(pkts));
        self.0.delay_ns.set(delay.0);
    }
}
