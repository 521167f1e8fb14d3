//! Packets that wait because their FAR buffers.
//!
//! A packet keeps the PDR that it matched and the FAR that holds it. When the rules of its session
//! change, it goes on by them without a new match, also if another PDR would take it now: it is
//! forwarded, held on, or discarded. Gates, rates, quotas and usage counters see it then, once.
//! Packets of one session leave in the order in which they came, before later ones of that session.
//!
//! Rules are compared by their generation: a few sessions per step in turn, and a session whose
//! packet is in the burst at once.
//! Spec: TS 29.244 §5.2.3 (buffering), §5.2.4.2 (buffered packets were processed before), §8.2.26
//! (Apply Action), §8.2.31 (DROBU).

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{
    ApplyAction, DataDelivery, DeltaId, DropReason, PublishedFar, PublishedPdr, PublishedRules,
    WorkerEvent,
};
use adit_tables::TablesView;
use adit_types::limits::{BUFFER_PKTS_MAX, BURST_MAX};
use adit_types::{Direction, FarId, Nanos, PdrId, Seid, SessionIndex};
use adit_wire::IpPacket;

use crate::columns::{BurstLane, LaneKind, Matched, PacketArrival, PacketVerdict, Tunneled};
use crate::shaping;
use crate::stage::egress::StepContext;
use crate::stage::s4_enforce::{admit_far, s4_enforce};
use crate::stage::s5_account::{UsageMeter, s5_account};
use crate::stage::s6_apply::s6_apply;
use crate::tally::StepTally;
use crate::worker_state::WorkerState;

/// The longest wait while the rules stay as they are: paging takes seconds, and a control plane that
/// has not decided after a minute has forgotten the session.
const WAIT_MAX: Nanos = Nanos::from_secs(60);

/// Sessions looked at per step: each costs one or two cache lines.
const REVIEWS_PER_STEP_MAX: usize = 32;

/// The same data is not told of again within this time, so that a busy session does not fill the
/// ring; after it once more, in case the event was lost.
const NOTICE_INTERVAL: Nanos = Nanos::from_secs(10);

/// Notices remembered; a forgotten one is sent again, and the control thread knows it.
const NOTICES: usize = 1024;

/// As many packets are released in one go as a lane takes.
#[allow(clippy::cast_possible_truncation, reason = "a burst is short")]
const BURST: u32 = BURST_MAX as u32;

/// No packet, no session.
const NONE: u32 = u32::MAX;

/// The rules that hold a packet, by what stays when others come and go.
#[derive(Debug, Clone, Copy)]
struct HoldingRules {
    direction: Direction,
    pdr: PdrId,
    /// Which of the PDR's alternatives matched, counted from zero.
    alternative: usize,
    far: FarId,
}

/// A packet that waits.
struct BufferedPacket<B> {
    buf: B,
    arrival: PacketArrival,
    ip: IpPacket,
    by: HoldingRules,
    since: Nanos,
    /// The next packet of the session.
    next: u32,
}

/// A session with packets that wait.
#[derive(Debug, Clone, Copy)]
struct BufferedSession {
    session: SessionIndex,
    up_seid: Seid,
    /// The rules that the packets were held by.
    generation: DeltaId,
    epoch: u32,
    first: u32,
    last: u32,
    count: u32,
}

/// What was told last, by a hash of session and PDR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notice {
    up_seid: Seid,
    generation: DeltaId,
    pdr: u16,
    delivery: Option<DataDelivery>,
    at: Nanos,
}

/// The packets that one worker holds because their FARs buffer.
pub(crate) struct Buffering<B> {
    packets: Vec<Option<BufferedPacket<B>>>,
    free: Vec<u32>,
    waiting: Vec<BufferedSession>,
    /// Position in `waiting`, by session index.
    by_session: Vec<u32>,
    /// Where the next step goes on looking.
    cursor: usize,
    notices: Vec<Option<Notice>>,
}

impl<B: PacketBuf> Buffering<B> {
    /// Room for `pkts_max` packets of `sessions_max` sessions. Reserves all memory that will be used.
    pub fn new(pkts_max: usize, sessions_max: usize) -> Self {
        let pkts_max = pkts_max.min(BUFFER_PKTS_MAX);
        let mut packets = Vec::new();
        packets.resize_with(pkts_max, || None);
        Self {
            packets,
            free: (0..).take(pkts_max).collect(),
            waiting: Vec::with_capacity(pkts_max.min(sessions_max)),
            by_session: vec![NONE; sessions_max],
            cursor: 0,
            notices: vec![None; NOTICES],
        }
    }

    /// Packets that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// True when packets of `session` wait.
    #[inline]
    pub fn has_packets_of(&self, session: SessionIndex) -> bool {
        !self.waiting.is_empty()
            && self.by_session.get(session.0 as usize).is_some_and(|at| *at != NONE)
    }

    /// True without packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    #[inline]
    fn position(&self, session: SessionIndex) -> Option<usize> {
        let at = *self.by_session.get(session.0 as usize)?;
        (at != NONE).then_some(at as usize)
    }

    /// Appends a packet to those of its session; false, and the packet is gone, without room.
    fn push(
        &mut self,
        session: SessionIndex,
        rules: &PublishedRules,
        max: u16,
        held: BufferedPacket<B>,
    ) -> bool {
        let known = self.position(session);
        let count = known.map_or(0, |at| self.waiting[at].count);
        if count >= u32::from(max) || self.by_session.len() <= session.0 as usize {
            return false;
        }
        let Some(slot) = self.free.pop() else { return false };
        self.packets[slot as usize] = Some(held);
        match known {
            Some(at) => {
                let last = core::mem::replace(&mut self.waiting[at].last, slot);
                self.waiting[at].count += 1;
                if let Some(Some(last)) = self.packets.get_mut(last as usize) {
                    last.next = slot;
                }
            }
            None => {
                let at = u32::try_from(self.waiting.len()).unwrap_or(NONE);
                self.by_session[session.0 as usize] = at;
                let PublishedRules { up_seid, generation, buffer_epoch: epoch, .. } = *rules;
                let (first, last, count) = (slot, slot, 1);
                self.waiting.push(BufferedSession {
                    session,
                    up_seid,
                    generation,
                    epoch,
                    first,
                    last,
                    count,
                });
            }
        }
        true
    }

    /// Takes a session out of the list; its packets stay in their slots.
    fn take(&mut self, at: usize) -> BufferedSession {
        let waiting = self.waiting.swap_remove(at);
        self.by_session[waiting.session.0 as usize] = NONE;
        if let (Some(moved), Ok(at)) = (self.waiting.get(at), u32::try_from(at)) {
            self.by_session[moved.session.0 as usize] = at;
        }
        waiting
    }

    /// Takes the packet in `slot`, and tells where the next one is.
    fn take_packet(&mut self, slot: u32) -> Option<BufferedPacket<B>> {
        let held = self.packets.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(held)
    }

    fn discard(&mut self, at: usize, tally: &mut StepTally) {
        let mut slot = self.take(at).first;
        while let Some(held) = self.take_packet(slot) {
            tally.drop(DropReason::BufferDiscarded);
            slot = held.next;
        }
    }

    /// Discards what waited too long at the front of a session; the rules are as they were.
    fn discard_late(&mut self, at: usize, now: Nanos, tally: &mut StepTally) -> bool {
        let mut found = false;
        loop {
            let first = self.waiting[at].first;
            let Some(Some(held)) = self.packets.get(first as usize) else { return found };
            if now.since(held.since) < WAIT_MAX {
                return found;
            }
            found = true;
            if self.waiting[at].count == 1 {
                self.discard(at, tally);
                return found;
            }
            self.waiting[at].first = held.next;
            self.waiting[at].count -= 1;
            drop(self.take_packet(first));
            tally.drop(DropReason::BufferDiscarded);
        }
    }

    /// Drops everything that waits.
    pub fn drain(&mut self, tally: &mut StepTally) {
        while let Some(at) = self.waiting.len().checked_sub(1) {
            self.discard(at, tally);
        }
    }

    /// True when `notice` was not sent lately.
    fn is_due(&mut self, session: SessionIndex, notice: Notice) -> bool {
        let hash = (session.0 as usize).wrapping_mul(31).wrapping_add(usize::from(notice.pdr));
        let Some(last) = self.notices.get_mut(hash % NOTICES) else { return true };
        let is_known = last.is_some_and(|last| {
            Notice { at: notice.at, ..last } == notice && notice.at.since(last.at) < NOTICE_INTERVAL
        });
        if !is_known {
            *last = Some(notice);
        }
        !is_known
    }
}

/// Carries out a FAR that does not forward, but buffers or tells of what it drops.
///
/// Spec:   TS 29.244 §5.2.3.1, §8.2.26.
/// Errors: none; without room the packet is dropped as `BufferFull`.
#[cold]
pub(crate) fn divert<B: PacketBuf>(
    env: &StepContext<'_>,
    out: &mut WorkerState<B>,
    buf: B,
    (session, arrival, ip): (SessionIndex, &PacketArrival, &IpPacket),
    matched: &Matched<'_>,
) {
    let notify = |out: &mut WorkerState<B>, notice| {
        if matched.direction == Direction::Downlink {
            self::notify(env, out, (session, ip), matched, notice);
        }
    };
    let far = matched.far;
    if !far.buffers() {
        notify(out, ApplyAction::DDPN);
        out.tally.drop(admit_far(far).err().unwrap_or(DropReason::FarDrop));
        return;
    }
    notify(out, ApplyAction::NOCP);
    let (by, since) = (HoldingRules::new(matched), env.now);
    let held = BufferedPacket { buf, arrival: *arrival, ip: *ip, by, since, next: NONE };
    if out.buffering.push(session, matched.rules, far.buffer_pkts_max, held) {
        notify(out, ApplyAction::BDPN);
    } else {
        notify(out, ApplyAction::DDPN);
        let (bytes, WorkerState { events, tally, .. }) = (u64::from(ip.total_len), out);
        let meter = UsageMeter::new(env, matched);
        meter.count_dropped(matched, matched.direction, bytes, events, tally);
        tally.drop(DropReason::BufferFull);
    }
}

/// Tells the control thread of downlink data if the FAR asks for this notice.
fn notify<B: PacketBuf>(
    env: &StepContext<'_>,
    out: &mut WorkerState<B>,
    (session, ip): (SessionIndex, &IpPacket),
    matched: &Matched<'_>,
    notice: ApplyAction,
) {
    if !matched.far.action.contains(notice) {
        return;
    }
    let delivery = match notice {
        ApplyAction::BDPN => Some(DataDelivery::Buffered),
        ApplyAction::DDPN => Some(DataDelivery::Discarded),
        _ => None,
    };
    let Matched { rules, pdr, .. } = matched;
    let (up_seid, generation, at) = (rules.up_seid, rules.generation, env.now);
    let notice = Notice { up_seid, generation, pdr: pdr.id.0, delivery, at };
    if out.buffering.is_due(session, notice) {
        let event = WorkerEvent::DownlinkData {
            session: up_seid,
            pdr: pdr.id,
            dscp: Some(ip.tos >> 2),
            qfi: rules.qers_of(pdr).find_map(|qer| qer.qfi),
            delivery,
        };
        out.events.push(&mut out.tally, event);
    }
}

/// Looks at some of the sessions that packets wait for; tells whether one of them left.
#[cold]
pub(crate) fn review_some<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
) -> bool {
    let mut left = false;
    for _ in 0..REVIEWS_PER_STEP_MAX.min(out.buffering.waiting.len()) {
        let at = match out.buffering.waiting.len() {
            0 => break,
            len => out.buffering.cursor % len,
        };
        out.buffering.cursor = at + 1;
        left |= review_one(env, io, out, at);
    }
    left
}

/// Lets those packets go first that wait for a session of the lane whose rules changed.
///
/// Shape:   reads `sessions` and `verdicts[0..n]`. n ≤ BURST_MAX.
/// Cost:    one load per packet while anything waits.
#[inline]
pub(crate) fn review_lane<Io: PacketIo, S: LaneKind>(
    env: &StepContext<'_>,
    io: &mut Io,
    lane: &BurstLane<'_, Io::Buf, S>,
    out: &mut WorkerState<Io::Buf>,
) {
    if out.buffering.is_empty() {
        return;
    }
    for session in &lane.sessions {
        if let Some(at) = out.buffering.position(*session) {
            review_one(env, io, out, at);
        }
    }
}

/// Lets the packets that wait for a session go first, if its rules changed.
pub(crate) fn review_session<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    session: SessionIndex,
    out: &mut WorkerState<Io::Buf>,
) {
    if let Some(at) = out.buffering.position(session) {
        review_one(env, io, out, at);
    }
}

/// Treats the packets of one session by the rules of now; tells whether one of them left.
#[cold]
fn review_one<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    at: usize,
) -> bool {
    let Some(&BufferedSession { session, up_seid, generation, epoch, .. }) =
        out.buffering.waiting.get(at)
    else {
        return false;
    };
    match env.view.rules(session).filter(|rules| rules.up_seid == up_seid) {
        Some(rules) if rules.buffer_epoch != epoch => out.buffering.discard(at, &mut out.tally),
        Some(rules) if rules.generation == generation => {
            return out.buffering.discard_late(at, env.now, &mut out.tally);
        }
        Some(_) => release(env, io, out, at),
        None => out.buffering.discard(at, &mut out.tally),
    }
    true
}

/// Packets that waited. The stages behind classification do not look at the kind of a lane.
type ResumedLane<'v, B> = BurstLane<'v, B, Tunneled>;

/// Takes all packets of a session on through the stages, in their order.
fn release<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    at: usize,
) {
    let BufferedSession { session, mut first, count, .. } = out.buffering.take(at);
    let mut left = count;
    while left > 0 {
        let mut lane = ResumedLane::new();
        for _ in 0..left.min(BURST) {
            left -= 1;
            let Some(held) = out.buffering.take_packet(first) else { break };
            first = held.next;
            lane.verdicts.push(held.by.verdict(&env.view, session));
            lane.bufs.push(held.buf);
            lane.arrivals.push(held.arrival);
            lane.ips.push(held.ip);
            lane.sessions.push(session);
        }
        resume(env, io, &mut lane, out);
    }
}

impl HoldingRules {
    fn new(matched: &Matched<'_>) -> Self {
        let Matched { rules, pdr, far, direction, .. } = *matched;
        let before =
            alternatives(rules, direction, pdr.id).take_while(|other| !core::ptr::eq(*other, pdr));
        Self { direction, pdr: pdr.id, alternative: before.count(), far: far.id }
    }

    /// The packet's PDR and FAR by the rules of now. The FAR that holds the packet decides, unless it
    /// is gone or buffers on: then the one that the PDR refers to now. Without its PDR the packet has
    /// no QoS flow and nobody who measures it.
    fn verdict<'v>(self, view: &TablesView<'v>, session: SessionIndex) -> PacketVerdict<'v> {
        let found = view.rules(session).and_then(|rules| {
            let Self { direction, .. } = self;
            let pdr = self.find_pdr(rules)?;
            let far = self.find_far(rules, pdr)?;
            Some(Matched { rules, pdr, far, direction, must_queue: false, is_guaranteed: false })
        });
        found.map_or(PacketVerdict::Drop(DropReason::BufferDiscarded), PacketVerdict::Pass)
    }

    fn find_pdr(self, rules: &PublishedRules) -> Option<&PublishedPdr> {
        let pdrs = || alternatives(rules, self.direction, self.pdr);
        pdrs().nth(self.alternative).or_else(|| pdrs().next())
    }

    fn find_far<'v>(
        self,
        rules: &'v PublishedRules,
        pdr: &PublishedPdr,
    ) -> Option<&'v PublishedFar> {
        let holder = rules.fars.iter().find(|far| far.id == self.far);
        holder.filter(|far| !far.buffers()).or_else(|| rules.fars.get(usize::from(pdr.far)))
    }
}

/// What a PDR is compiled to: one entry for each traffic endpoint and predefined rule.
fn alternatives(
    rules: &PublishedRules,
    direction: Direction,
    id: PdrId,
) -> impl Iterator<Item = &PublishedPdr> {
    rules.pdrs(direction).iter().filter(move |pdr| pdr.id == id)
}

/// The stages behind classification for packets that waited; what their rules stop now is discarded.
fn resume<'v, Io: PacketIo>(
    env: &StepContext<'v>,
    io: &mut Io,
    lane: &mut ResumedLane<'v, Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    shaping::review_changes(env, io, out, false);
    let WorkerState { shaping, leases, events, tally, .. } = out;
    s4_enforce(env, lane, (shaping, leases), events, tally);
    s5_account(env, lane, &mut out.events, &mut out.tally);
    for ((verdict, session), ip) in lane.verdicts.iter_mut().zip(&lane.sessions).zip(&lane.ips) {
        match verdict {
            PacketVerdict::Divert(matched) if !matched.far.buffers() => {
                if matched.direction == Direction::Downlink {
                    notify(env, out, (*session, ip), matched, ApplyAction::DDPN);
                }
                *verdict = PacketVerdict::Drop(DropReason::BufferDiscarded);
            }
            PacketVerdict::Drop(reason) => *reason = DropReason::BufferDiscarded,
            PacketVerdict::Divert(_) | PacketVerdict::Pass(_) => {}
        }
    }
    s6_apply(env, io, lane, out);
}
