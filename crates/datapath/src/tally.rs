//! What happened in one step, counted locally and added to the worker's counters once per step.

use adit_rules::{DropReason, PuntReason};
use adit_tables::WorkerCounters;
use adit_types::limits::INTERFACES_MAX;
use adit_types::{Direction, InterfaceId};

/// Packets and octets, from the Ethernet header on.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    pkts: u64,
    bytes: u64,
}

impl Traffic {
    #[inline]
    fn add(&mut self, bytes: usize) {
        self.add_many(1, bytes);
    }

    #[inline]
    fn add_many(&mut self, pkts: usize, bytes: usize) {
        self.pkts += pkts as u64;
        self.bytes += bytes as u64;
    }
}

/// The outcomes of one step.
#[derive(Debug)]
pub(crate) struct Tally {
    bursts: u64,
    /// Packets are taken over from another worker, which counted their arrival.
    is_taking: bool,
    received: Traffic,
    taken_over: u64,
    handed_off: u64,
    uplink: Traffic,
    downlink: Traffic,
    dropped: u64,
    drops: [u64; DropReason::COUNT],
    punted: u64,
    punts: [u64; PuntReason::COUNT],
    originated: u64,
    originated_lost: u64,
    express: u64,
    duplicated: u64,
    duplicates_lost: u64,
    events_lost: u64,
    rx: [Traffic; INTERFACES_MAX],
    tx: [Traffic; INTERFACES_MAX],
}

impl Tally {
    /// Nothing counted.
    pub fn new() -> Self {
        Self {
            bursts: 0,
            is_taking: false,
            received: Traffic::default(),
            taken_over: 0,
            handed_off: 0,
            uplink: Traffic::default(),
            downlink: Traffic::default(),
            dropped: 0,
            drops: [0; DropReason::COUNT],
            punted: 0,
            punts: [0; PuntReason::COUNT],
            originated: 0,
            originated_lost: 0,
            express: 0,
            duplicated: 0,
            duplicates_lost: 0,
            events_lost: 0,
            rx: [Traffic::default(); INTERFACES_MAX],
            tx: [Traffic::default(); INTERFACES_MAX],
        }
    }

    /// One burst with packets arrived.
    pub fn burst(&mut self) {
        self.bursts += 1;
    }

    /// Tells whether what arrives next is taken over from another worker.
    pub fn take_over(&mut self, is_taking: bool) {
        self.is_taking = is_taking;
    }

    /// Packets went to another worker.
    pub fn hand_off(&mut self, pkts: usize) {
        self.handed_off += pkts as u64;
    }

    /// One packet of `bytes` octets arrived.
    #[inline]
    pub fn receive(&mut self, bytes: usize) {
        self.receive_many(1, bytes);
    }

    #[inline]
    fn receive_many(&mut self, pkts: usize, bytes: usize) {
        if self.is_taking {
            self.taken_over += pkts as u64;
        } else {
            self.received.add_many(pkts, bytes);
        }
    }

    /// The packet that arrived belongs to `interface`.
    #[inline]
    pub fn receive_on(&mut self, interface: InterfaceId, bytes: usize) {
        self.receive_many_on(interface, 1, bytes);
    }

    #[inline]
    fn receive_many_on(&mut self, interface: InterfaceId, pkts: usize, bytes: usize) {
        if self.is_taking {
            return;
        }
        if let Some(traffic) = self.rx.get_mut(usize::from(interface.0)) {
            traffic.add_many(pkts, bytes);
        }
    }

    /// Packets of `bytes` octets together arrived on `interface` and took the express.
    pub fn receive_express(&mut self, interface: InterfaceId, pkts: usize, bytes: usize) {
        self.express += pkts as u64;
        self.receive_many(pkts, bytes);
        self.receive_many_on(interface, pkts, bytes);
    }

    /// Received packets of `bytes` octets together left through `interface`.
    pub fn transmit_many(
        &mut self,
        interface: InterfaceId,
        direction: Direction,
        pkts: usize,
        bytes: usize,
    ) {
        match direction {
            Direction::Uplink => self.uplink.add_many(pkts, bytes),
            Direction::Downlink => self.downlink.add_many(pkts, bytes),
        }
        if let Some(traffic) = self.tx.get_mut(usize::from(interface.0)) {
            traffic.add_many(pkts, bytes);
        }
    }

    /// One packet was dropped.
    #[inline]
    pub fn drop(&mut self, reason: DropReason) {
        self.dropped += 1;
        self.drops[reason.index()] += 1;
    }

    /// One packet was consumed by the slow path.
    #[inline]
    pub fn punt(&mut self, reason: PuntReason) {
        self.punted += 1;
        self.punts[reason.index()] += 1;
    }

    /// One received packet was transmitted.
    #[inline]
    pub fn transmit(&mut self, direction: Direction, bytes: usize) {
        match direction {
            Direction::Uplink => self.uplink.add(bytes),
            Direction::Downlink => self.downlink.add(bytes),
        }
    }

    /// One packet that Adit made was transmitted.
    pub fn originate(&mut self) {
        self.originated += 1;
    }

    /// One packet that Adit made, or wanted to make, was not transmitted.
    pub fn lose_originated(&mut self) {
        self.originated_lost += 1;
    }

    /// One copy of a packet was transmitted.
    pub fn duplicate(&mut self) {
        self.duplicated += 1;
    }

    /// One copy of a packet could not be made or transmitted.
    pub fn lose_duplicate(&mut self) {
        self.duplicates_lost += 1;
    }

    /// One frame of any kind left through `interface`.
    #[inline]
    pub fn transmit_on(&mut self, interface: InterfaceId, bytes: usize) {
        if let Some(traffic) = self.tx.get_mut(usize::from(interface.0)) {
            traffic.add(bytes);
        }
    }

    /// One event found its ring full.
    pub fn lose_event(&mut self) {
        self.events_lost += 1;
    }

    /// True when every packet that arrived, or had been waiting, has one outcome. `before` and
    /// `after` are the packets that waited at the beginning and at the end of the step.
    pub fn identity_holds(&self, before: usize, after: usize) -> bool {
        let out = self.uplink.pkts + self.downlink.pkts + self.dropped + self.punted;
        self.received.pkts + self.taken_over + before as u64 == out + self.handed_off + after as u64
    }

    /// Adds everything to the worker's counters, of which `buffered` packets are waiting now, and
    /// starts again; `by_far` of them wait for other rules. Readers see all of it or nothing.
    ///
    /// Cost: once per step that did something; skips what is zero.
    pub fn flush(&mut self, counters: &WorkerCounters, buffered: usize, by_far: usize) {
        counters.update(|counters| {
            counters.buffered_pkts.set(buffered as u64);
            counters.buffered_by_far_pkts.set(by_far as u64);
            self.add_to(counters);
        });
        *self = Self::new();
    }

    fn add_to(&self, counters: &WorkerCounters) {
        counters.bursts.add(self.bursts);
        counters.received_pkts.add(self.received.pkts);
        counters.received_bytes.add(self.received.bytes);
        counters.handed_off_pkts.add(self.handed_off);
        counters.taken_over_pkts.add(self.taken_over);
        counters.originated_pkts.add(self.originated);
        counters.originated_lost_pkts.add(self.originated_lost);
        counters.express_pkts.add(self.express);
        counters.duplicated_pkts.add(self.duplicated);
        counters.duplicates_lost_pkts.add(self.duplicates_lost);
        counters.events_lost.add(self.events_lost);
        counters.count_transmitted(Direction::Uplink, self.uplink.pkts, self.uplink.bytes);
        counters.count_transmitted(Direction::Downlink, self.downlink.pkts, self.downlink.bytes);
        if self.dropped != 0 {
            for (counter, n) in counters.drops.iter().zip(self.drops) {
                counter.add(n);
            }
        }
        if self.punted != 0 {
            for (counter, n) in counters.punts.iter().zip(self.punts) {
                counter.add(n);
            }
        }
        for ((counter, rx), tx) in counters.interfaces.iter().zip(&self.rx).zip(&self.tx) {
            if rx.pkts != 0 {
                counter.rx_pkts.add(rx.pkts);
                counter.rx_bytes.add(rx.bytes);
            }
            if tx.pkts != 0 {
                counter.tx_pkts.add(tx.pkts);
                counter.tx_bytes.add(tx.bytes);
            }
        }
    }
}
