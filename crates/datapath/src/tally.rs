//! Counts one step locally; the counts are added to the worker's counters once per step.

use adit_rules::{DropReason, PuntReason, TapOrigin, TapSet};
use adit_tables::{Counter, SHAPING_DELAY_SLOTS, WorkerCounters};
use adit_types::limits::INTERFACES_MAX;
use adit_types::{Direction, InterfaceId, InterfaceSet, Nanos};

use crate::late_packets::{EndedWait, LatePacket, LatePackets, WaitEnd};

/// How many packets wait, by reason, except those that wait for a neighbor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingCounts {
    /// Buffered by a FAR, until rules change.
    pub by_far: usize,
    /// Queued for their rates.
    pub by_rate: usize,
    /// Waiting for other fragments.
    pub by_fragment: usize,
    /// Waiting for room in a transmit queue.
    pub by_port: usize,
}

impl WaitingCounts {
    /// No packet waits.
    pub(crate) const NONE: Self = Self { by_far: 0, by_rate: 0, by_fragment: 0, by_port: 0 };
}

/// A sum of packets and of their octets, from the Ethernet header on.
#[derive(Debug, Clone, Copy, Default)]
struct PacketSum {
    pkts: u64,
    bytes: u64,
}

impl PacketSum {
    #[inline]
    fn add_many(&mut self, pkts: usize, bytes: usize) {
        self.pkts += pkts as u64;
        self.bytes += bytes as u64;
    }
}

/// The counts of one step.
#[derive(Debug)]
pub(crate) struct StepTally {
    usual: UsualSums,
    rare: RareSums,
    /// True if `rare` may have changed.
    has_rare: bool,
    /// True if packets waited when the counts were last added.
    had_waiting: bool,
    /// True while arriving packets are taken over from another worker, which counted their arrival.
    is_taken_over: bool,
    /// True while arriving packets were counted when they arrived before: reassembled packets, and
    /// packets that are switched locally.
    is_recirculated: bool,
    drops: [u64; DropReason::COUNT],
    punts: [u64; PuntReason::COUNT],
    /// Packets that waited for their rates, by the slot of their delay.
    delays: [u64; SHAPING_DELAY_SLOTS],
    is_delayed: bool,
    /// Interfaces with counts in `rx` or `tx`.
    busy: InterfaceSet,
    rx: [PacketSum; INTERFACES_MAX],
    tx: [PacketSum; INTERFACES_MAX],
    /// Packets whose wait ended, for reports to taps.
    late: Option<Box<LatePackets>>,
}

/// The counts that change in steps with usual packets.
#[derive(Debug, Clone, Copy, Default)]
struct UsualSums {
    received: PacketSum,
    uplink: PacketSum,
    downlink: PacketSum,
    bursts: u64,
    fast_path: u64,
}

/// All other counts of a step, except those by reason, delay or interface.
#[derive(Debug, Clone, Copy, Default)]
struct RareSums {
    taken_over: u64,
    handed_off: u64,
    handed_across_nodes: u64,
    fragments_added: u64,
    locally_switched: u64,
    mss_clamped: u64,
    dropped: u64,
    punted: u64,
    originated: u64,
    originated_lost: u64,
    duplicated: u64,
    duplicates_lost: u64,
    tx_waited: u64,
    events_lost: u64,
    events_limited: u64,
}

impl StepTally {
    pub(crate) fn new() -> Self {
        Self {
            usual: UsualSums::default(),
            rare: RareSums::default(),
            has_rare: false,
            had_waiting: false,
            is_taken_over: false,
            is_recirculated: false,
            drops: [0; DropReason::COUNT],
            punts: [0; PuntReason::COUNT],
            delays: [0; SHAPING_DELAY_SLOTS],
            is_delayed: false,
            busy: InterfaceSet::NONE,
            rx: [PacketSum::default(); INTERFACES_MAX],
            tx: [PacketSum::default(); INTERFACES_MAX],
            late: None,
        }
    }

    /// Allocates memory for packets whose wait ends, for reports to taps.
    pub(crate) fn reserve_late_packets(&mut self) {
        self.late = Some(Box::new(LatePackets::new()));
    }

    /// Sets whether drops from here on are noted for taps. Returns the previous setting.
    pub(crate) fn note_late_drops(&mut self, is_on: bool) -> bool {
        self.late.as_mut().is_some_and(|late| late.note_drops(is_on))
    }

    /// Removes and returns the oldest packet whose wait ended and that is to be reported to taps.
    pub(crate) fn take_late_packet(&mut self) -> Option<LatePacket> {
        self.late.as_mut()?.take_first()
    }

    /// Returns the taps that selected the current packet. They also record how its wait ends.
    pub(crate) fn taps_of_current_packet(&self) -> TapSet {
        self.late.as_ref().map_or(TapSet::NONE, |late| late.in_hand)
    }

    /// Sets which taps selected the packet that is processed from here on.
    pub(crate) fn set_taps_of_current_packet(&mut self, taps: TapSet) {
        if let Some(late) = &mut self.late {
            late.in_hand = taps;
        }
    }

    /// Notes the end of the wait of a packet if taps selected the packet.
    #[cold]
    pub(crate) fn end_wait(&mut self, end: WaitEnd, waited: EndedWait, frame: &[u8]) {
        if let Some(late) = &mut self.late
            && !waited.taps.is_empty()
        {
            late.note(end, Some(waited), frame);
        }
    }

    /// Returns where packets that arrive now come from, for taps.
    pub(crate) const fn tap_origin(&self) -> TapOrigin {
        match (self.is_recirculated, self.is_taken_over) {
            (true, _) => TapOrigin::Recirculated,
            (false, true) => TapOrigin::Handoff,
            (false, false) => TapOrigin::Port,
        }
    }

    /// Returns the outcomes of packets in the step so far.
    pub(crate) fn outcomes(&self) -> TalliedOutcomes {
        let RareSums { handed_off, locally_switched, .. } = self.rare;
        TalliedOutcomes { drops: self.drops, punts: self.punts, handed_off, locally_switched }
    }

    /// Returns the counts that usual packets do not change, for a change of one.
    // PERF (adit-bench datapath --burst 1): `has_rare` lets a step skip these counts.
    #[inline]
    fn rare(&mut self) -> &mut RareSums {
        self.has_rare = true;
        &mut self.rare
    }

    /// Counts a burst with packets.
    pub(crate) fn burst(&mut self) {
        self.usual.bursts += 1;
    }

    /// Sets whether packets that arrive from here on are taken over from another worker.
    pub(crate) fn set_taken_over(&mut self, is_taking: bool) {
        self.is_taken_over = is_taking;
    }

    /// Sets whether packets that arrive from here on have arrived before, as fragments or from
    /// another UE. Returns the previous setting.
    pub(crate) fn set_recirculated(&mut self, is_again: bool) -> bool {
        core::mem::replace(&mut self.is_recirculated, is_again)
    }

    /// Counts a packet that is switched from one UE to another.
    pub(crate) fn count_local_switch(&mut self) {
        self.rare().locally_switched += 1;
    }

    /// Counts a SYN that leaves with a lower MSS.
    #[cold]
    pub(crate) fn count_lower_mss(&mut self) {
        self.rare().mss_clamped += 1;
    }

    /// True if packets were switched from one UE to another in this step.
    pub(crate) fn has_switched_locally(&self) -> bool {
        self.rare.locally_switched > 0
    }

    /// Counts fragments: `pkts` more packets than the one that was fragmented.
    pub(crate) fn add_fragments(&mut self, pkts: usize) {
        self.rare().fragments_added += pkts as u64;
    }

    /// Counts packets that go to another worker.
    pub(crate) fn hand_off(&mut self, pkts: usize) {
        self.rare().handed_off += pkts as u64;
    }

    /// Counts packets that waited in another worker and now wait in this one.
    #[cold]
    pub(crate) fn take_over_waiting(&mut self, pkts: usize) {
        self.rare().taken_over += pkts as u64;
    }

    /// Counts those packets of [`Self::hand_off`] that go to a worker on another NUMA node.
    #[cold]
    pub(crate) fn count_across_nodes(&mut self, pkts: usize) {
        self.rare().handed_across_nodes += pkts as u64;
    }

    /// Counts a received packet of `bytes` octets.
    #[inline]
    pub(crate) fn receive(&mut self, bytes: usize) {
        self.receive_many(1, bytes);
    }

    #[inline]
    fn receive_many(&mut self, pkts: usize, bytes: usize) {
        if self.is_recirculated {
            return;
        }
        if self.is_taken_over {
            self.rare().taken_over += pkts as u64;
        } else {
            self.usual.received.add_many(pkts, bytes);
        }
    }

    /// Counts a received packet for `interface`.
    #[inline]
    pub(crate) fn receive_on(&mut self, interface: InterfaceId, bytes: usize) {
        self.receive_many_on(interface, 1, bytes);
    }

    #[inline]
    fn receive_many_on(&mut self, interface: InterfaceId, pkts: usize, bytes: usize) {
        if self.is_taken_over || self.is_recirculated {
            return;
        }
        self.busy = self.busy.with(interface);
        if let Some(traffic) = self.rx.get_mut(usize::from(interface.0)) {
            traffic.add_many(pkts, bytes);
        }
    }

    /// Counts a packet for `interface` even if it is taken over: no other thread has counted it.
    #[inline]
    pub(crate) fn count_first_seen_on(&mut self, interface: InterfaceId, bytes: usize) {
        self.busy = self.busy.with(interface);
        if let Some(traffic) = self.rx.get_mut(usize::from(interface.0)) {
            traffic.add_many(1, bytes);
        }
    }

    /// Counts packets of `bytes` octets in all that arrived on `interface` and took the fast path.
    pub(crate) fn receive_fast(&mut self, interface: InterfaceId, pkts: usize, bytes: usize) {
        self.usual.fast_path += pkts as u64;
        self.receive_many(pkts, bytes);
        self.receive_many_on(interface, pkts, bytes);
    }

    /// Counts received packets of `bytes` octets in all that left through `interface`.
    pub(crate) fn transmit_many(
        &mut self,
        interface: InterfaceId,
        direction: Direction,
        pkts: usize,
        bytes: usize,
    ) {
        match direction {
            Direction::Uplink => self.usual.uplink.add_many(pkts, bytes),
            Direction::Downlink => self.usual.downlink.add_many(pkts, bytes),
        }
        self.transmit_many_on(interface, pkts, bytes);
    }

    /// Counts frames of any origin that left through an interface.
    #[inline]
    fn transmit_many_on(&mut self, interface: InterfaceId, pkts: usize, bytes: usize) {
        self.busy = self.busy.with(interface);
        if let Some(traffic) = self.tx.get_mut(usize::from(interface.0)) {
            traffic.add_many(pkts, bytes);
        }
    }

    /// Counts a dropped packet.
    #[inline]
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.rare().dropped += 1;
        self.drops[reason.index()] += 1;
    }

    /// Counts a dropped packet that waited before. `frame`: the packet's octets by now.
    #[cold]
    pub(crate) fn drop_waiting(&mut self, reason: DropReason, frame: &[u8]) {
        self.drop(reason);
        if let Some(late) = &mut self.late {
            late.note_drop(reason, frame);
        }
    }

    /// Counts a dropped packet that waited before and that taps may have selected.
    #[cold]
    pub(crate) fn drop_waited(&mut self, reason: DropReason, waited: EndedWait, frame: &[u8]) {
        match waited.taps.is_empty() {
            true => self.drop_waiting(reason, frame),
            false => {
                self.drop(reason);
                self.end_wait(WaitEnd::Dropped(reason), waited, frame);
            }
        }
    }

    /// Counts a packet that the slow path consumed.
    #[inline]
    pub(crate) fn punt(&mut self, reason: PuntReason) {
        self.rare().punted += 1;
        self.punts[reason.index()] += 1;
    }

    /// Counts a packet that leaves after it waited for its rates.
    pub(crate) fn delay(&mut self, delay: Nanos) {
        self.is_delayed = true;
        self.has_rare = true;
        self.delays[delay_slot(delay, SHAPING_DELAY_SLOTS)] += 1;
    }

    /// Counts packets of `bytes` octets in all that Adit made and that left through `interface`.
    pub(crate) fn originate(&mut self, interface: InterfaceId, pkts: usize, bytes: usize) {
        self.rare().originated += pkts as u64;
        self.transmit_many_on(interface, pkts, bytes);
    }

    /// Counts the loss of a frame that another worker had counted.
    #[cold]
    pub(crate) fn lose_counted(&mut self) {
        self.rare().taken_over += 1;
        self.drop(DropReason::TxQueueFull);
    }

    /// Counts a packet of our own that was not made or not transmitted.
    pub(crate) fn lose_originated(&mut self) {
        self.rare().originated_lost += 1;
    }

    /// Counts copies of packets, of `bytes` octets in all, that left through `interface`.
    pub(crate) fn duplicate(&mut self, interface: InterfaceId, pkts: usize, bytes: usize) {
        self.rare().duplicated += pkts as u64;
        self.transmit_many_on(interface, pkts, bytes);
    }

    /// Counts a copy of a packet that could not be made or transmitted.
    pub(crate) fn lose_duplicate(&mut self) {
        self.rare().duplicates_lost += 1;
    }

    /// Counts a guaranteed packet that waits because the transmit queue of its port is full.
    pub(crate) fn count_wait_for_port(&mut self) {
        self.rare().tx_waited += 1;
    }

    /// Counts an event that is lost because its ring is full.
    pub(crate) fn lose_event(&mut self) {
        self.rare().events_lost += 1;
    }

    /// Counts an event that a limit dropped.
    pub(crate) fn drop_event(&mut self) {
        self.rare().events_limited += 1;
    }

    /// True if every packet that arrived or waited has exactly one outcome. `before` and `after`:
    /// how many packets waited at the beginning and at the end of the step.
    pub(crate) fn identity_holds(&self, before: usize, after: usize) -> bool {
        let UsualSums { received, uplink, downlink, .. } = self.usual;
        let RareSums { taken_over, fragments_added, handed_off, dropped, punted, .. } = self.rare;
        let state = uplink.pkts + downlink.pkts + dropped + punted + handed_off;
        let came = received.pkts + taken_over + fragments_added;
        came + before as u64 == state + after as u64
    }

    /// Adds all counts to the worker's counters and sets them to zero. `waiting`: how many packets
    /// wait; `counts` returns them by reason. Readers see all of the additions or none.
    ///
    /// Cost: once per step that did something; skips counts of zero.
    #[inline]
    pub(crate) fn flush(
        &mut self,
        counters: &WorkerCounters,
        waiting: usize,
        counts: impl FnOnce() -> WaitingCounts,
    ) {
        counters.update(|counters| {
            core::mem::take(&mut self.usual).add_to(counters);
            self.add_interfaces_to(counters);
            if waiting != 0 || self.had_waiting {
                self.had_waiting = waiting != 0;
                set_waiting(counters, waiting, &counts());
            }
            if self.has_rare {
                self.add_rare_to(counters);
            }
        });
    }

    /// Adds the counters that usual packets do not change.
    #[cold]
    fn add_rare_to(&mut self, counters: &WorkerCounters) {
        self.has_rare = false;
        core::mem::take(&mut self.rare).add_to(counters, &mut self.drops, &mut self.punts);
        if core::mem::take(&mut self.is_delayed) {
            add_all(&counters.shaping_delays, &mut self.delays);
        }
    }

    #[inline]
    fn add_interfaces_to(&mut self, counters: &WorkerCounters) {
        let mut busy = core::mem::replace(&mut self.busy, InterfaceSet::NONE).0;
        while busy != 0 {
            let at = busy.trailing_zeros() as usize;
            busy &= busy - 1;
            let (rx, tx) = (core::mem::take(&mut self.rx[at]), core::mem::take(&mut self.tx[at]));
            let counter = &counters.interfaces[at];
            counter.rx_pkts.add(rx.pkts);
            counter.rx_bytes.add(rx.bytes);
            counter.tx_pkts.add(tx.pkts);
            counter.tx_bytes.add(tx.bytes);
        }
    }
}

/// The counts of outcomes at some moment of a step.
#[derive(Debug, Clone)]
pub(crate) struct TalliedOutcomes {
    drops: [u64; DropReason::COUNT],
    punts: [u64; PuntReason::COUNT],
    pub handed_off: u64,
    pub locally_switched: u64,
}

impl TalliedOutcomes {
    /// Returns the first reason for which packets were dropped since `before`.
    pub(crate) fn drop_since(&self, before: &Self) -> Option<DropReason> {
        let is_new =
            |reason: &&DropReason| self.drops[reason.index()] > before.drops[reason.index()];
        DropReason::ALL.iter().find(is_new).copied()
    }

    /// Returns the first reason for which packets were consumed since `before`.
    pub(crate) fn punt_since(&self, before: &Self) -> Option<PuntReason> {
        let is_new =
            |reason: &&PuntReason| self.punts[reason.index()] > before.punts[reason.index()];
        PuntReason::ALL.iter().find(is_new).copied()
    }
}

impl UsualSums {
    #[inline]
    fn add_to(self, counters: &WorkerCounters) {
        counters.bursts.add(self.bursts);
        counters.received_pkts.add(self.received.pkts);
        counters.received_bytes.add(self.received.bytes);
        counters.express_pkts.add(self.fast_path);
        counters.count_transmitted(Direction::Uplink, self.uplink.pkts, self.uplink.bytes);
        counters.count_transmitted(Direction::Downlink, self.downlink.pkts, self.downlink.bytes);
    }
}

impl RareSums {
    /// Adds these sums, and the lists, which are set to zero.
    fn add_to(self, counters: &WorkerCounters, drops: &mut [u64], punts: &mut [u64]) {
        counters.handed_off_pkts.add(self.handed_off);
        counters.handed_across_nodes_pkts.add(self.handed_across_nodes);
        counters.taken_over_pkts.add(self.taken_over);
        counters.fragments_added_pkts.add(self.fragments_added);
        counters.locally_switched_pkts.add(self.locally_switched);
        counters.mss_clamped_pkts.add(self.mss_clamped);
        counters.originated_pkts.add(self.originated);
        counters.originated_lost_pkts.add(self.originated_lost);
        counters.duplicated_pkts.add(self.duplicated);
        counters.duplicates_lost_pkts.add(self.duplicates_lost);
        counters.tx_waited_pkts.add(self.tx_waited);
        counters.events_lost.add(self.events_lost);
        counters.events_limited.add(self.events_limited);
        if self.dropped != 0 {
            add_all(&counters.drops, drops);
        }
        if self.punted != 0 {
            add_all(&counters.punts, punts);
        }
    }
}

/// Writes how many packets wait, in all and by reason.
#[cold]
fn set_waiting(counters: &WorkerCounters, waiting: usize, counts: &WaitingCounts) {
    counters.buffered_pkts.set(waiting as u64);
    counters.buffered_by_far_pkts.set(counts.by_far as u64);
    counters.shaped_pkts.set(counts.by_rate as u64);
    counters.reassembly_pkts.set(counts.by_fragment as u64);
    counters.tx_waiting_pkts.set(counts.by_port as u64);
}

fn add_all(counters: &[Counter], numbers: &mut [u64]) {
    for (counter, number) in counters.iter().zip(numbers) {
        counter.add(core::mem::take(number));
    }
}

/// Returns the slot of a delay in a histogram: slot 0 is below 1 µs, slot n below 2^n µs.
fn delay_slot(delay: Nanos, slots: usize) -> usize {
    let micros = delay.0 / 1000;
    let slot = (u64::BITS - micros.leading_zeros()) as usize;
    slot.min(slots.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_slots_are_powers_of_two_of_microseconds_and_the_last_takes_the_rest() {
        let slot = |nanos| delay_slot(Nanos(nanos), 12);
        assert_eq!([0, 999, 1000, 1999, 2000, 3999, 4000].map(slot), [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!([1_023_999, 1_024_000, u64::MAX].map(slot), [10, 11, 11]);
    }
}
