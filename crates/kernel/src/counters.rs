//! The counters of a kernel port: a worker is the only writer; other threads read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a port, or of the part of a port that belongs to one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Packets received.
    pub rx_pkts: u64,
    /// Octets received, with the Ethernet headers.
    pub rx_bytes: u64,
    /// Packets that the kernel dropped because adit did not read them in time.
    pub rx_missed_pkts: u64,
    /// Packets lost because no buffer was free.
    pub rx_no_buffer_pkts: u64,
    /// Packets lost because they do not fit a buffer or are no IP packets.
    pub rx_unusable_pkts: u64,
    /// Packets sent.
    pub tx_pkts: u64,
    /// Octets sent, with the Ethernet headers.
    pub tx_bytes: u64,
    /// Packets that the kernel refused: no route, a filter, or a device that is down.
    pub tx_refused_pkts: u64,
    /// Frames that the device cannot carry, such as ARP.
    pub tx_unusable_pkts: u64,
    /// System calls that received packets.
    pub rx_calls: u64,
    /// System calls that sent packets.
    pub tx_calls: u64,
}

macro_rules! cells {
    ($($field:ident),+ $(,)?) => {
        #[derive(Debug, Default)]
        pub(crate) struct CounterCells { $(pub(crate) $field: AtomicU64),+ }

        impl CounterCells {
            fn read(&self) -> PortCounters {
                PortCounters { $($field: self.$field.load(Ordering::Relaxed)),+ }
            }
        }

        impl core::ops::AddAssign for PortCounters {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

cells!(
    rx_pkts,
    rx_bytes,
    rx_missed_pkts,
    rx_no_buffer_pkts,
    rx_unusable_pkts,
    tx_pkts,
    tx_bytes,
    tx_refused_pkts,
    tx_unusable_pkts,
    rx_calls,
    tx_calls,
);

/// Adds to a counter that only the caller writes.
#[inline]
pub(crate) fn add(cell: &AtomicU64, count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// Reads the counters of one worker's part of a port.
#[derive(Debug, Clone, Default)]
pub struct KernelCounters(pub(crate) Arc<CounterCells>);

impl KernelCounters {
    /// Returns the present values.
    #[must_use]
    pub fn read(&self) -> PortCounters {
        self.0.read()
    }
}
