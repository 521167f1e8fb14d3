//! Resumes buffered packets when the rules of their session change.
//!
//! Resumed packets take the stages after classification by the new rules, even if another PDR would
//! match now: they are forwarded, buffered further, or discarded. Gates, rates, quotas and usage
//! apply then, once. Resumed packets leave before later packets of their session.
//!
//! A change of rules is found by their generation: in each step a few sessions are reviewed in
//! turn, and a session that has packets in the burst is reviewed at once. Spec: TS 29.244 §5.2.3
//! (buffering), §5.2.4.2 (buffered packets were processed before), §8.2.31 (DROBU).

use adit_pktio::PacketBuf;
use adit_rules::{
    ApplyAction, DropReason, TapKey, TapOrigin, TapPacket, TapSet, TapStage, TapWait,
};
use adit_types::limits::BURST_MAX;
use adit_types::{Direction, Nanos, SessionIndex};
use adit_wire::UeAddress;

use crate::books::Books;
use crate::buffering::BufferedSession;
use crate::columns::{
    BurstLane, LaneKind, MatchedPacket, OuterHeader, PacketVerdict, Tunneled, UserPacket,
};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::packet_fate::LonePacketRecord;
use crate::shaping::ReviewTime;
use crate::stage::divert::notify;
use crate::stage::s4_enforce::s4_enforce;
use crate::stage::s5_account::s5_account;
use crate::stage::s6_apply::s6_apply;
use crate::tap::TapPoint;
use crate::worker_queues::WorkerQueues;
use crate::worker_state::{BurstPath, WorkerState};

/// Maximum of sessions reviewed per step: each costs one or two cache lines.
const REVIEWS_PER_STEP_MAX: usize = 32;

/// A lane of buffered packets. The stages after classification do not depend on the kind of lane.
type ResumedLane<'v, B> = BurstLane<'v, B, Tunneled>;

/// Reviews some of the sessions with buffered packets. Returns whether any packets left.
#[cold]
pub(crate) fn review_some<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
) -> bool {
    let mut left = false;
    for _ in 0..REVIEWS_PER_STEP_MAX.min(state.queues.buffering.session_count()) {
        let Some(at) = state.queues.buffering.next_review() else { break };
        left |= review_one(ctx, io, state, at);
    }
    left
}

/// Reviews the sessions of a lane, so that their buffered packets leave before those of the lane.
///
/// Shape:   reads `sessions[0..n]`. n ≤ BURST_MAX.
/// Cost:    one load per packet while any packet is buffered.
#[inline]
pub(crate) fn review_lane<Io: Departures, K: LaneKind>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    lane: &BurstLane<'_, Io::Buf, K>,
    state: &mut WorkerState<Io::Buf>,
) {
    if state.queues.buffering.is_empty() {
        return;
    }
    for session in &lane.sessions {
        review_session(ctx, io, *session, state);
    }
}

/// Reviews one session.
pub(crate) fn review_session<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    session: SessionIndex,
    state: &mut WorkerState<Io::Buf>,
) {
    if let Some(at) = state.queues.buffering.position(session) {
        review_one(ctx, io, state, at);
    }
}

/// Reviews the session at position `at` by the present rules. Returns whether any packets left.
#[cold]
fn review_one<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    at: usize,
) -> bool {
    let (buffering, tally) = (&mut state.queues.buffering, &mut state.books.tally);
    let Some(BufferedSession { session, up_seid, generation, epoch, .. }) =
        buffering.session_at(at)
    else {
        return false;
    };
    match ctx.view.rules(session).filter(|rules| rules.up_seid == up_seid) {
        Some(rules) if rules.buffer_epoch != epoch => buffering.discard(at, tally),
        Some(rules) if rules.generation == generation => {
            return buffering.discard_late(at, ctx.now, tally);
        }
        Some(_) => release(ctx, io, state, at),
        None => buffering.discard(at, tally),
    }
    true
}

/// Takes all packets of a session through the remaining stages, in order.
fn release<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
    at: usize,
) {
    let BufferedSession { mut first, count, .. } = state.queues.buffering.take_session(at);
    let mut left = count as usize;
    while left > 0 {
        let mut lane = ResumedLane::new();
        let is_tapped = state.path_without_commands == BurstPath::Tapped;
        let mut waited = Nanos(0);
        for _ in 0..left.min(if is_tapped { 1 } else { BURST_MAX }) {
            left -= 1;
            let Some((packet, since, next)) = state.queues.buffering.take_with_next(first) else {
                break;
            };
            (first, waited) = (next, ctx.now.since(since));
            lane.push_owned(packet, &ctx.view);
        }
        let record = if is_tapped {
            begin_record(ctx, io, &lane, &mut state.queues, &mut state.books)
        } else {
            None
        };
        resume(ctx, io, &mut lane, state);
        if let Some(mut record) = record {
            record.note_wait(TapWait::Rules, waited);
            record.end(io, TapStage::Apply, state);
        }
    }
}

/// Begins the record of a buffered packet if a tap selects it.
#[cold]
fn begin_record<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    lane: &ResumedLane<'_, Io::Buf>,
    queues: &mut WorkerQueues<Io::Buf>,
    books: &mut Books,
) -> Option<LonePacketRecord> {
    let (buf, arrival) = (lane.bufs.first()?, lane.arrivals.first()?);
    let (ip, session) = (lane.ips.first()?, lane.sessions.first()?);
    let seid = ctx.view.rules(*session).map(|rules| rules.up_seid);
    let has_key = |key: &TapKey| match *key {
        TapKey::Any | TapKey::Interface(_) => true,
        TapKey::Session(index, wanted) => index == *session && seid == Some(wanted),
        TapKey::Teid(teid) => arrival.outer != OuterHeader::None && arrival.teid == teid,
        TapKey::Ue(addr) => {
            let ue = UeAddress::of(addr);
            UeAddress::of(ip.addrs.src()) == ue || UeAddress::of(ip.addrs.dst()) == ue
        }
    };
    let tap = books.tap.as_mut()?;
    let taps = [TapPoint::Arrival, TapPoint::Stages]
        .map(|point| tap.select(point, ctx.now, has_key))
        .into_iter()
        .fold(TapSet::NONE, TapSet::union);
    let len = u32::try_from(buf.data().len()).unwrap_or(u32::MAX);
    let (origin, worker, at) = (TapOrigin::Waited, tap.worker(), ctx.now);
    let packet = TapPacket { taps, origin, worker, at, port: None, interface: None, len };
    if taps.is_empty() {
        None
    } else {
        LonePacketRecord::begin(io, packet, buf.data(), queues, books)
    }
}

/// Runs the stages after classification. Packets that the new rules stop are discarded.
fn resume<'v, Io: Departures>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    lane: &mut ResumedLane<'v, Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let (shaping, mut sender) = state.shaping_and_sender(io);
    shaping.review_changes(ctx, &mut sender, ReviewTime::MidStep);
    let WorkerState { queues: WorkerQueues { shaping, buffering, .. }, books, .. } = &mut *state;
    s4_enforce(ctx, lane, shaping, books);
    s5_account(ctx, lane, books);
    let BurstLane { verdicts, sessions, arrivals, ips, .. } = &mut *lane;
    for (((verdict, session), arrival), ip) in
        verdicts.iter_mut().zip(&*sessions).zip(&*arrivals).zip(&*ips)
    {
        match verdict {
            PacketVerdict::Divert(matched) if !matched.far.buffers() => {
                if matched.direction == Direction::Downlink {
                    let packet = UserPacket { session: *session, arrival, ip };
                    let packet = MatchedPacket { packet, matched };
                    notify(ctx, buffering, books, packet, ApplyAction::DDPN);
                }
                *verdict = PacketVerdict::Drop(DropReason::BufferDiscarded);
            }
            PacketVerdict::Drop(reason) => *reason = DropReason::BufferDiscarded,
            PacketVerdict::Divert(_) | PacketVerdict::Pass(_) => {}
        }
    }
    s6_apply(ctx, io, lane, state);
}
