//! The counters of the packet path: one block per worker.
//!
//! Only the worker writes its block, with relaxed loads and stores (no locked instruction); any
//! thread may read it. A worker writes its block once per step, in [`WorkerCounters::update`]. The
//! generation number of the block lets a reader see it as it was between two steps, so the packet
//! identity ([`Snapshot::identity_holds`]) holds in every snapshot.

use adit_rules::{DropReason, OffloadTotals, PuntReason};
use adit_types::limits::INTERFACES_MAX;
use adit_types::{Direction, InterfaceId};

use crate::sync::{AtomicU64, Ordering, fence};

/// How often a reader reads a block while it is written before it accepts a torn copy. A worker
/// writes for well below a microsecond per step, so only one that lost its core is met twice.
pub(crate) const READ_ATTEMPTS_MAX: u32 = 10_000;

/// Slots of the histogram of shaping delays. The last slot counts all delays from 8.4 s on.
pub const SHAPING_DELAY_SLOTS: usize = 24;

/// A number that one thread writes and other threads read.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; wraps after 2^64. For the owning worker only: a second writer loses counts.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Subtracts `n`; wraps below zero. For the owning worker only.
    #[inline]
    pub(crate) fn sub(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// Replaces the value, for a gauge. For the owning worker only.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value.
    #[inline]
    #[must_use]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for Counter {
    /// A counter with the same value.
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.load()))
    }
}

/// The counters of one worker on one logical interface.
#[derive(Debug, Default)]
pub struct InterfaceCounters {
    /// Frames received.
    pub rx_pkts: Counter,
    /// Octets of these frames from the Ethernet header on.
    pub rx_bytes: Counter,
    /// Frames handed to the port for transmission.
    pub tx_pkts: Counter,
    /// Octets of these frames from the Ethernet header on.
    pub tx_bytes: Counter,
}

/// The counters of an interface, all read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterfaceSnapshot {
    /// Frames received.
    pub rx_pkts: u64,
    /// Octets of the received frames from the Ethernet header on.
    pub rx_bytes: u64,
    /// Frames handed to the port for transmission.
    pub tx_pkts: u64,
    /// Octets of the transmitted frames from the Ethernet header on.
    pub tx_bytes: u64,
}

macro_rules! counters {
    ($( $field:ident, $text:literal; )*) => {
        /// All counters of one worker. Blocks of different workers never share a cache line.
        #[derive(Debug)]
        #[repr(align(128))]
        pub struct WorkerCounters {
            $( #[doc = $text] pub $field: Counter, )*
            /// A generation number, odd while the worker writes the block.
            generation: AtomicU64,
            /// Packets dropped, by [`DropReason::index`].
            pub drops: [Counter; DropReason::COUNT],
            /// Packets consumed by the slow path, by [`PuntReason::index`].
            pub punts: [Counter; PuntReason::COUNT],
            /// Packets that waited for their rates and left, by how long they waited: slot 0 below
            /// 1 µs, slot *n* below 2^*n* µs.
            pub shaping_delays: [Counter; SHAPING_DELAY_SLOTS],
            /// Counters by logical interface ([`InterfaceId`]).
            pub interfaces: [InterfaceCounters; INTERFACES_MAX],
        }

        impl Default for WorkerCounters {
            fn default() -> Self {
                Self {
                    $( $field: Counter::default(), )*
                    generation: AtomicU64::new(0),
                    drops: core::array::from_fn(|_| Counter::default()),
                    punts: core::array::from_fn(|_| Counter::default()),
                    shaping_delays: core::array::from_fn(|_| Counter::default()),
                    interfaces: core::array::from_fn(|_| InterfaceCounters::default()),
                }
            }
        }

        /// Counters of all workers together, read at one moment.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Snapshot {
            $( #[doc = $text] pub $field: u64, )*
            /// Packets dropped, by [`DropReason::index`].
            pub drops: [u64; DropReason::COUNT],
            /// Packets consumed by the slow path, by [`PuntReason::index`].
            pub punts: [u64; PuntReason::COUNT],
            /// See [`WorkerCounters::shaping_delays`].
            pub shaping_delays: [u64; SHAPING_DELAY_SLOTS],
            /// Counters by logical interface ([`InterfaceId`]).
            pub interfaces: [InterfaceSnapshot; INTERFACES_MAX],
        }

        impl Default for Snapshot {
            fn default() -> Self {
                Self {
                    $( $field: 0, )*
                    drops: [0; DropReason::COUNT],
                    punts: [0; PuntReason::COUNT],
                    shaping_delays: [0; SHAPING_DELAY_SLOTS],
                    interfaces: [InterfaceSnapshot::default(); INTERFACES_MAX],
                }
            }
        }

        impl Snapshot {
            /// Adds the present values of a block, which the worker may be changing.
            fn add_once(&mut self, worker: &WorkerCounters) {
                $( self.$field = self.$field.wrapping_add(worker.$field.load()); )*
                add_all(&mut self.drops, &worker.drops);
                add_all(&mut self.punts, &worker.punts);
                add_all(&mut self.shaping_delays, &worker.shaping_delays);
                for (sum, counters) in self.interfaces.iter_mut().zip(&worker.interfaces) {
                    sum.rx_pkts = sum.rx_pkts.wrapping_add(counters.rx_pkts.load());
                    sum.rx_bytes = sum.rx_bytes.wrapping_add(counters.rx_bytes.load());
                    sum.tx_pkts = sum.tx_pkts.wrapping_add(counters.tx_pkts.load());
                    sum.tx_bytes = sum.tx_bytes.wrapping_add(counters.tx_bytes.load());
                }
            }

            /// Returns name, value and explanation of every single counter, in a fixed order.
            #[must_use]
            pub fn scalars(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![ $( (stringify!($field), self.$field, $text), )* ]
            }
        }
    };
}

counters! {
    received_pkts, "Packets received from ports.";
    received_bytes, "Octets received from ports, from the Ethernet header on.";
    handed_off_pkts, "Packets handed to the worker that owns their session.";
    handed_across_nodes_pkts, "Packets handed to a worker on another NUMA node; among those handed off.";
    taken_over_pkts, "Packets taken over from other workers, which had received them.";
    transmitted_uplink_pkts, "Packets received from tunnels and transmitted.";
    transmitted_uplink_bytes, "Octets of them as transmitted, from the Ethernet header on.";
    transmitted_downlink_pkts, "Packets received from data networks and transmitted.";
    transmitted_downlink_bytes, "Octets of them as transmitted, from the Ethernet header on.";
    locally_switched_pkts, "Packets from one UE to another that turned round inside; their outcome is that of the other UE's session.";
    mss_clamped_pkts, "SYNs of TCP whose MSS was lowered: tcp_mss of the interface to their data network.";
    originated_pkts, "Packets that Adit made itself and transmitted: ARP, ICMP, GTP-U echo; and frames of kernel twins.";
    originated_lost_pkts, "Packets that Adit made itself and could not transmit.";
    express_pkts, "Packets that took the fast path; among the transmitted ones.";
    offloaded_pkts, "Packets that an offload (XDP, a card) forwarded before workers received them; among the received and transmitted ones.";
    duplicated_pkts, "Copies of packets that FARs asked for, transmitted.";
    duplicates_lost_pkts, "Copies that could not be made or transmitted: no buffer, no way out, too big.";
    fragments_added_pkts, "Packets that fragmentation added: the fragments of each packet but the first.";
    buffered_pkts, "Packets held now, waiting for a link-layer address, other rules, rates, fragments or room in a transmit queue.";
    shaped_pkts, "Those of them that wait for the rates of their QERs.";
    buffered_by_far_pkts, "Those of them that wait because their FAR buffers.";
    reassembly_pkts, "Those of them that are fragments of tunnel packets and wait for the rest.";
    tx_waiting_pkts, "Those of them that are within a guaranteed bit rate and wait for room in the transmit queue of their port.";
    tx_waited_pkts, "Packets within a guaranteed bit rate that found the transmit queue of their port full and waited, or wait now.";
    bursts, "Bursts received that held at least one packet.";
    events_lost, "Events that found the ring to the control thread full.";
    events_limited, "Messages of GTP-U peers and neighbors that were not reported: unasked, or too many.";
}

fn add_all(sums: &mut [u64], counters: &[Counter]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum = sum.wrapping_add(counter.load());
    }
}

impl WorkerCounters {
    /// Counts `n` packets dropped for `reason`.
    #[inline]
    pub fn count_drops(&self, reason: DropReason, n: u64) {
        self.drops[reason.index()].add(n);
    }

    /// Counts one packet consumed by the slow path for `reason`.
    #[inline]
    pub fn count_punt(&self, reason: PuntReason) {
        self.punts[reason.index()].add(1);
    }

    /// Counts packets of one direction as transmitted.
    #[inline]
    pub fn count_transmitted(&self, direction: Direction, pkts: u64, bytes: u64) {
        let (pkts_counter, bytes_counter) = match direction {
            Direction::Uplink => (&self.transmitted_uplink_pkts, &self.transmitted_uplink_bytes),
            Direction::Downlink => {
                (&self.transmitted_downlink_pkts, &self.transmitted_downlink_bytes)
            }
        };
        pkts_counter.add(pkts);
        bytes_counter.add(bytes);
    }

    /// Returns the counters of one logical interface; `None` if the id is out of range.
    #[inline]
    #[must_use]
    pub fn interface(&self, id: InterfaceId) -> Option<&InterfaceCounters> {
        self.interfaces.get(usize::from(id.0))
    }
}

impl WorkerCounters {
    /// Runs `write`, which may change any counter of this block; readers see all its changes as
    /// one. For the owning worker only.
    ///
    /// Cost: two stores; no locked instruction, no waiting.
    #[inline(always)]
    // PERF (adit-bench datapath --burst 1): once per step.
    pub fn update(&self, write: impl FnOnce(&Self)) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation.store(generation.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        write(self);
        self.generation.store(generation.wrapping_add(2), Ordering::Release);
    }
}

impl Snapshot {
    /// Adds the counts of one worker as they were between two of its steps.
    pub fn add(&mut self, worker: &WorkerCounters) {
        let mut sum = self.clone();
        for _ in 0..READ_ATTEMPTS_MAX {
            let before = worker.generation.load(Ordering::Acquire);
            sum.clone_from(self);
            sum.add_once(worker);
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && worker.generation.load(Ordering::Relaxed) == before {
                break;
            }
            core::hint::spin_loop();
        }
        *self = sum;
    }

    /// Adds the counts of an offload, which receives and transmits each packet in one operation.
    pub(crate) fn add_offloaded(&mut self, totals: &OffloadTotals) {
        for (of, sum) in totals.interfaces.iter().zip(&mut self.interfaces) {
            let (pkts, bytes) =
                (of.ul_pkts.wrapping_add(of.dl_pkts), of.ul_bytes.wrapping_add(of.dl_bytes));
            // A packet is counted at its output interface, so that no packet is half counted.
            for (counter, more) in [
                (&mut self.offloaded_pkts, pkts),
                (&mut self.received_pkts, pkts),
                (&mut self.received_bytes, of.rx_bytes),
                (&mut self.transmitted_uplink_pkts, of.ul_pkts),
                (&mut self.transmitted_uplink_bytes, of.ul_bytes),
                (&mut self.transmitted_downlink_pkts, of.dl_pkts),
                (&mut self.transmitted_downlink_bytes, of.dl_bytes),
                (&mut sum.rx_pkts, of.rx_pkts),
                (&mut sum.rx_bytes, of.rx_bytes),
                (&mut sum.tx_pkts, pkts),
                (&mut sum.tx_bytes, bytes),
            ] {
                *counter = counter.wrapping_add(more);
            }
        }
    }

    /// Sums the counters of `workers`.
    pub fn sum<'a>(workers: impl IntoIterator<Item = &'a WorkerCounters>) -> Self {
        let mut sum = Self::default();
        workers.into_iter().for_each(|worker| sum.add(worker));
        sum
    }

    /// Returns the packets transmitted in both directions, without those that Adit made itself.
    #[must_use]
    pub fn transmitted_pkts(&self) -> u64 {
        self.transmitted_uplink_pkts.wrapping_add(self.transmitted_downlink_pkts)
    }

    /// Returns the packets dropped for any reason.
    #[must_use]
    pub fn dropped_pkts(&self) -> u64 {
        self.drops.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// Returns the packets consumed by the slow path.
    #[must_use]
    pub fn punted_pkts(&self) -> u64 {
        self.punts.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// Returns every drop reason with its count.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().copied().zip(self.drops.iter().copied())
    }

    /// Returns every punt reason with its count.
    pub fn punts(&self) -> impl Iterator<Item = (PuntReason, u64)> + '_ {
        PuntReason::ALL.iter().copied().zip(self.punts.iter().copied())
    }

    /// True if every packet has exactly one outcome (a packet handed off has the outcome "handed
    /// off" at the worker that received it): received + taken over + fragments added = transmitted
    /// + Σ drops + Σ punts + buffered + handed off.
    ///
    /// Holds for each worker, and so for the sum over all workers. In the sum, packets handed off
    /// minus packets taken over are those in the rings between workers.
    #[must_use]
    pub fn identity_holds(&self) -> bool {
        let outcomes =
            [self.dropped_pkts(), self.punted_pkts(), self.buffered_pkts, self.handed_off_pkts];
        let sum = outcomes.iter().fold(self.transmitted_pkts(), |sum, n| sum.wrapping_add(*n));
        let came = [self.taken_over_pkts, self.fragments_added_pkts];
        came.iter().fold(self.received_pkts, |sum, n| sum.wrapping_add(*n)) == sum
    }
}

/// Traffic forwarded for one session. Octets are those of the inner IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionTraffic {
    /// Uplink packets.
    pub ul_pkts: u64,
    /// Uplink octets.
    pub ul_bytes: u64,
    /// Downlink packets.
    pub dl_pkts: u64,
    /// Downlink octets.
    pub dl_bytes: u64,
}

impl SessionTraffic {
    /// Returns the sum of both; wraps.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            ul_pkts: self.ul_pkts.wrapping_add(other.ul_pkts),
            ul_bytes: self.ul_bytes.wrapping_add(other.ul_bytes),
            dl_pkts: self.dl_pkts.wrapping_add(other.dl_pkts),
            dl_bytes: self.dl_bytes.wrapping_add(other.dl_bytes),
        }
    }
}
