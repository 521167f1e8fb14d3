//! The taps of a worker: which packets it reports, and the ring that takes the records of packets.
//!
//! A packet that a tap selects takes the stages alone ([`crate::model`]), so that its state is
//! visible between them. Its record is assembled in a buffer, and enters the ring as a whole or not
//! at all. While no tap is active, none of this runs.

use adit_rules::{
    DropReason, TAP_OCTETS_MAX, TapDropFilter, TapFilter, TapId, TapItem, TapKey, TapOutcome,
    TapPacket, TapRequest, TapSet, TapStage, TapWait,
};
use adit_types::limits::{TAP_RECORD_LEN, TAPS_MAX, URRS_PER_PDR_MAX};
use adit_types::{InterfaceId, InterfaceSet, Nanos, UrrId, UsageSlot, WorkerId};
use arrayvec::ArrayVec;
use rtrb::Producer;

use crate::interfaces::TxTarget;
use crate::path_record::FastPathTrialRecord;

/// Room, in items, that a record leaves in the ring for reports of skipped packets and of stops.
const RING_MARGIN_ITEMS: usize = 4 * TAPS_MAX;

/// How many items of a record are kept free of octets of frames.
const OTHER_ITEMS_MAX: usize = 96;

/// A worker's side of a tap.
pub struct TapPort {
    /// Takes the tap's records; none if it has room for fewer than
    /// `TAP_RECORD_LEN + 2 * RING_MARGIN_ITEMS`.
    pub records: Producer<TapItem>,
    /// Returns the time. Called between the stages for packets that a tap selected.
    pub clock: Box<dyn Fn() -> Nanos + Send>,
}

impl core::fmt::Debug for TapPort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TapPort").finish_non_exhaustive()
    }
}

/// The point of a packet's path at which a tap may select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TapPoint {
    /// Before the fast path, by session, address, tunnel or interface of the packet.
    Arrival,
    /// Before the stages, for taps of drops of any packets: only the stages name drop reasons.
    Stages,
}

impl TapPoint {
    const fn is_of(self, filter: &TapFilter) -> bool {
        let is_of_stages = matches!(filter.key, TapKey::Any) && filter.drop.is_some();
        is_of_stages == matches!(self, Self::Stages)
    }
}

struct ActiveTap {
    request: TapRequest,
    started: Nanos,
    /// How many packets with the tap's key came. Wraps.
    seen: u32,
    /// How many more records the tap may get.
    left: u64,
    skipped: u64,
}

/// The taps of one worker.
pub(crate) struct Tap {
    ring: Producer<TapItem>,
    active: [Option<ActiveTap>; TAPS_MAX],
    /// `None` while a record is being assembled in it.
    record: Option<Box<TapRecord>>,
    worker: WorkerId,
}

impl Tap {
    /// Allocates all memory that will be used.
    pub(crate) fn new(port: TapPort, worker: WorkerId) -> Self {
        let record = Some(Box::new(TapRecord::new(port.clock)));
        Self { ring: port.records, active: [const { None }; TAPS_MAX], record, worker }
    }

    /// Returns the id of the worker.
    pub(crate) const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Starts a tap; replaces the one with the same id.
    pub(crate) fn start(&mut self, now: Nanos, TapId(id): TapId, request: TapRequest) {
        if let Some(place) = self.active.get_mut(usize::from(id)) {
            let left = request.pkts_max;
            *place = Some(ActiveTap { request, started: now, seen: 0, left, skipped: 0 });
        }
    }

    /// Stops a tap, and confirms that in the ring.
    pub(crate) fn stop(&mut self, id: TapId) {
        if let Some(place) = self.active.get_mut(usize::from(id.0)) {
            report_skipped(&mut self.ring, id, place);
            *place = None;
        }
        // There is room: records leave it ([`RING_MARGIN_ITEMS`]).
        let _ = self.ring.push(TapItem::Stopped(id));
    }

    /// True while any tap is active.
    pub(crate) fn is_active(&self) -> bool {
        self.active.iter().any(Option::is_some)
    }

    /// True if any tap selects packets at `point`.
    pub(crate) fn selects_at(&self, point: TapPoint) -> bool {
        self.active.iter().flatten().any(|tap| point.is_of(&tap.request.filter))
    }

    /// Returns the taps that select a packet at `point`. `has_key` returns whether the packet has a
    /// key. Without room for a record, counts the packet as skipped.
    pub(crate) fn select(
        &mut self,
        point: TapPoint,
        now: Nanos,
        has_key: impl Fn(&TapKey) -> bool,
    ) -> TapSet {
        let has_room = self.has_room();
        let mut taps = TapSet::NONE;
        for (id, place) in (0..).map(TapId).zip(&mut self.active) {
            let Some(tap) = place else { continue };
            let TapRequest { filter, until, .. } = &tap.request;
            if tap.left == 0 || now >= *until || !point.is_of(filter) || !has_key(&filter.key) {
                continue;
            }
            tap.seen = tap.seen.wrapping_add(1);
            if filter.one_of > 1 && tap.seen % filter.one_of != 0 {
                continue;
            }
            match has_room && self.record.is_some() {
                true => taps = taps.with(id),
                false => tap.skipped += 1,
            }
        }
        taps
    }

    fn has_room(&self) -> bool {
        self.ring.slots() >= TAP_RECORD_LEN + 2 * RING_MARGIN_ITEMS
    }

    /// Returns those of `selected` that did select a packet which waited for `time`: a tap that was
    /// started meanwhile has the id of another one, but not its packets.
    pub(crate) fn taps_of_wait(&self, selected: TapSet, now: Nanos, time: Nanos) -> TapSet {
        let mut taps = TapSet::NONE;
        for (id, place) in (0..).map(TapId).zip(&self.active) {
            let Some(tap) = place.as_ref().filter(|_| selected.contains(id)) else { continue };
            let is_its = tap.started.0.saturating_add(time.0) <= now.0;
            if is_its && tap.left > 0 && now < tap.request.until && self.has_room() {
                taps = taps.with(id);
            }
        }
        taps
    }

    /// Returns the taps that record this drop of a packet that waited, whatever its session.
    pub(crate) fn taps_of_late_drop(&self, reason: DropReason, now: Nanos) -> TapSet {
        let mut taps = TapSet::NONE;
        for (id, place) in (0..).map(TapId).zip(&self.active) {
            let Some(tap) = place else { continue };
            let TapFilter { key, drop, one_of } = tap.request.filter;
            let is_of = drop.map_or(one_of <= 1, |of| of.includes(reason));
            let is_of = matches!(key, TapKey::Any) && is_of;
            if is_of && tap.left > 0 && now < tap.request.until && self.has_room() {
                taps = taps.with(id);
            }
        }
        taps
    }

    /// Begins the record of a packet in `frame`. `None` while another record is being assembled.
    pub(crate) fn begin(&mut self, packet: TapPacket, frame: &[u8]) -> Option<Box<TapRecord>> {
        let mut record = self.record.take()?;
        record.has_stages = false;
        record.has_path = false;
        record.snap_bytes = 0;
        for (id, place) in (0..).map(TapId).zip(&self.active) {
            if let Some(tap) = place.as_ref().filter(|_| packet.taps.contains(id)) {
                record.has_stages |= tap.request.has_stages;
                record.has_path |= tap.request.has_path;
                record.snap_bytes = record.snap_bytes.max(tap.request.snap_bytes.into());
            }
        }
        record.begin(packet, frame);
        Some(record)
    }

    pub(crate) fn discard(&mut self, record: Box<TapRecord>) {
        self.record = Some(record);
    }

    /// Ends a record, and reports it to the taps whose filter matches this outcome.
    pub(crate) fn commit(&mut self, mut record: Box<TapRecord>, outcome: TapOutcome) {
        let mut taps = TapSet::NONE;
        for (id, place) in (0..).map(TapId).zip(&mut self.active) {
            let Some(tap) = place else { continue };
            if record.taps.contains(id) && gets_record(&tap.request.filter, &record, outcome) {
                tap.left = tap.left.saturating_sub(1);
                taps = taps.with(id);
            }
        }
        if !taps.is_empty() {
            if let Some(answer) = record.path.end(outcome) {
                record.push(TapItem::FastPath(answer));
            }
            record.finish(taps, outcome);
            for (id, place) in (0..).map(TapId).zip(&mut self.active) {
                report_skipped(&mut self.ring, id, place);
            }
            // There was room for a whole record when it began.
            if let Ok(chunk) = self.ring.write_chunk_uninit(record.items.len()) {
                chunk.fill_from_iter(record.items.iter().copied());
            }
        }
        self.record = Some(record);
    }
}

/// True if a tap with `filter`, which selected the packet of `record`, gets the record.
fn gets_record(filter: &TapFilter, record: &TapRecord, outcome: TapOutcome) -> bool {
    let is_here = match filter.key {
        // The packet was on the interface when its wait began.
        TapKey::Interface(_) if record.has_waited => true,
        TapKey::Interface(interface) => record.interfaces.contains(interface),
        _ => true,
    };
    let is_drop = |of: TapDropFilter| match outcome {
        TapOutcome::Dropped(reason) => of.includes(reason),
        _ => false,
    };
    is_here && filter.drop.is_none_or(is_drop)
}

fn report_skipped(ring: &mut Producer<TapItem>, id: TapId, place: &mut Option<ActiveTap>) {
    if let Some(tap) = place
        && tap.skipped > 0
        && ring.push(TapItem::Skipped(id, tap.skipped)).is_ok()
    {
        tap.skipped = 0;
    }
}

/// A record that is being assembled.
pub(crate) struct TapRecord {
    clock: Box<dyn Fn() -> Nanos + Send>,
    items: ArrayVec<TapItem, TAP_RECORD_LEN>,
    taps: TapSet,
    /// The interfaces on which the packet arrived and frames leave.
    interfaces: InterfaceSet,
    /// True if a tap selected the packet when its wait began.
    has_waited: bool,
    snap_bytes: usize,
    has_stages: bool,
    /// True if a tap requests a trial of the fast path.
    pub has_path: bool,
    /// The trial of the fast path with the packet.
    pub path: FastPathTrialRecord,
    stage_began: Nanos,
    /// The URRs of the packet's PDR, with their counters before the packet.
    pub urrs: ArrayVec<(UrrId, UsageSlot, u64), { URRS_PER_PDR_MAX + 1 }>,
}

impl TapRecord {
    fn new(clock: Box<dyn Fn() -> Nanos + Send>) -> Self {
        Self {
            clock,
            items: ArrayVec::new(),
            taps: TapSet::NONE,
            interfaces: InterfaceSet::NONE,
            has_waited: false,
            snap_bytes: 0,
            has_stages: false,
            has_path: false,
            path: FastPathTrialRecord::new(),
            stage_began: Nanos(0),
            urrs: ArrayVec::new(),
        }
    }

    fn begin(&mut self, packet: TapPacket, frame: &[u8]) {
        self.items.clear();
        self.urrs.clear();
        self.path.clear();
        self.has_waited = false;
        self.taps = packet.taps;
        self.interfaces = packet.interface.map_or(InterfaceSet::NONE, InterfaceSet::only);
        self.push(TapItem::Packet(packet));
        self.push_octets(frame);
        if self.has_stages {
            self.stage_began = (self.clock)();
        }
    }

    /// Appends an item if there is room.
    pub(crate) fn push(&mut self, item: TapItem) {
        let _ = self.items.try_push(item);
    }

    /// Appends an item about stages or rules if a tap requests such items.
    pub(crate) fn push_detail(&mut self, item: impl FnOnce() -> TapItem) {
        if self.has_stages {
            self.push(item());
        }
    }

    /// True if a tap requests items about stages and rules.
    pub(crate) const fn has_details(&self) -> bool {
        self.has_stages
    }

    fn push_octets(&mut self, frame: &[u8]) {
        let room = self.items.remaining_capacity().saturating_sub(OTHER_ITEMS_MAX);
        for part in frame.get(..self.snap_bytes).unwrap_or(frame).chunks(TAP_OCTETS_MAX).take(room)
        {
            let mut octets = [0; TAP_OCTETS_MAX];
            for (to, from) in octets.iter_mut().zip(part) {
                *to = *from;
            }
            let len = u8::try_from(part.len()).unwrap_or_default();
            self.push(TapItem::Octets { len, octets });
        }
    }

    /// Notes that the packet waited for `time`. `was_selected`: a tap selected it when its wait
    /// began.
    pub(crate) fn note_wait(&mut self, wait: TapWait, time: Nanos, was_selected: bool) {
        self.has_waited |= was_selected;
        self.push(TapItem::Waited(wait, time));
    }

    /// Notes the end of a stage, and how long it took.
    pub(crate) fn end_stage(&mut self, stage: TapStage) {
        if self.has_stages {
            let now = (self.clock)();
            self.push(TapItem::Stage(stage, now.since(self.stage_began)));
            self.stage_began = now;
        }
    }

    /// Restarts the time of the stage, so that it excludes the work on the record itself.
    pub(crate) fn restart_stage(&mut self) {
        if self.has_stages {
            self.stage_began = (self.clock)();
        }
    }

    /// Notes that the packet leaves through an interface.
    pub(crate) fn note_egress(&mut self, interface: InterfaceId) {
        self.interfaces = self.interfaces.with(interface);
    }

    /// Notes a frame that is about to leave, and compares it with the trial of the fast path.
    pub(crate) fn note_sent(&mut self, target: TxTarget, frame: &[u8]) {
        self.path.compare(target, frame);
        self.note_left(target, frame.len(), frame);
    }

    /// Notes that a frame of `len` octets leaves, which begins with `head`.
    pub(crate) fn note_left(&mut self, target: TxTarget, len: usize, head: &[u8]) {
        let TxTarget { port, interface } = target;
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.note_egress(interface);
        self.push(TapItem::Sent { port, interface, len });
        self.push_octets(head);
    }

    fn finish(&mut self, taps: TapSet, outcome: TapOutcome) {
        if let Some(TapItem::Packet(packet)) = self.items.first_mut() {
            packet.taps = taps;
        }
        // The end always gets a place: it replaces the last item of a full record.
        if self.items.is_full() {
            self.items.pop();
        }
        self.push(TapItem::End(outcome));
    }
}
