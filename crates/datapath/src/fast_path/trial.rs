//! Tries the fast path with the copy of one packet, for traces. Uses the same recognition,
//! selection of rules and loops as for a burst, but compiled for [`TrialPacket`], so that they
//! charge, count and send nothing.

use core::ops::Range;

use adit_pktio::{Burst, PacketBuf};
use adit_rules::{FastPathFrame, FastPathTrialResult, LeaveReason, NoFastRule, PublishedRules};
use adit_types::{Direction, PortId, SessionIndex};
use adit_wire::{usual_dst, usual_five_tuple};

use super::direction::{FastDirection, FastDownlink, FastUplink};
use super::family::{FamilyMix, OnlyV4, OnlyV6};
use super::packet::FastPacket;
use super::select::flow_key;
use super::trial_packet::TrialPacket;
use super::unusual::why_unusual;
use super::{
    BurstCounts, BurstOrigin, FastBurst, FastPackets, find_all_sessions, prepare, recognize_burst,
    rewrite_loop,
};
use crate::context::StepContext;
use crate::worker_state::WorkerState;

/// The result of a trial.
pub(crate) struct FastPathTrial {
    pub answer: FastPathTrialResult,
    /// Position in the room of the trial of the frame that would leave.
    pub frame: Range<usize>,
}

impl FastPathTrial {
    /// Creates the result for a packet that takes the stages.
    pub(crate) const fn leaves(why: LeaveReason) -> Self {
        Self { answer: FastPathTrialResult::Leaves(why), frame: 0..0 }
    }
}

/// Tries the fast path with a copy of the packet in `buf`, which arrived on `port`, as if the
/// packet came alone. May write a deferred charge to its buckets, take a lease that later packets
/// use, and keep a next hop for the next burst; none of these changes how later packets are
/// handled.
pub(crate) fn try_fast_path<B: PacketBuf>(
    ctx: &StepContext<'_>,
    port: PortId,
    buf: &B,
    room: &mut [u8],
    state: &mut WorkerState<B>,
) -> FastPathTrial {
    let usual_port = ctx.interfaces.usual_port(port).filter(|port| !port.links.is_empty());
    let Some(usual_port) = usual_port else {
        return FastPathTrial::leaves(LeaveReason::PortUnused);
    };
    let Some(copy) = TrialPacket::copy(buf, room) else {
        return FastPathTrial::leaves(LeaveReason::Segmented);
    };
    let (mut rx, packets) = (Burst::new(), &mut FastPackets::new());
    rx.push(copy);
    let mix = recognize_burst(&ctx.view, usual_port, false, &rx, packets);
    let [usual, uplink, v6, _, over_v6] = mix.counts();
    if usual == 0 {
        return FastPathTrial::leaves(why_unusual(ctx, port, &usual_port.links, buf));
    }
    let counts = BurstCounts { all: 1, usual, v6, over_v6 };
    let origin = BurstOrigin { id: port, port: usual_port };
    let burst = FastBurst { origin, counts, packets, rx: &mut rx };
    let try_it = match (uplink, v6) {
        (0, 0) => try_direction::<B, FastDownlink, OnlyV4>,
        (0, _) => try_direction::<B, FastDownlink, OnlyV6>,
        (_, 0) => try_direction::<B, FastUplink, OnlyV4>,
        (..) => try_direction::<B, FastUplink, OnlyV6>,
    };
    let answer = try_it(ctx, burst, state);
    FastPathTrial { answer, frame: rx.first().map(TrialPacket::place).unwrap_or_default() }
}

/// Does the work of [`super::forward_families`] with the copy of a packet.
#[inline(never)]
fn try_direction<'v, B: PacketBuf, D: FastDirection, F: FamilyMix>(
    ctx: &StepContext<'v>,
    mut burst: FastBurst<'_, 'v, TrialPacket<'_>>,
    state: &mut WorkerState<B>,
) -> FastPathTrialResult {
    let to_ues = find_all_sessions::<_, _, D, F>(ctx, &state.handoff, &mut burst);
    let session = burst.packets.first().map_or(SessionIndex::NONE, |packet| packet.session);
    if !session.is_some() {
        return FastPathTrialResult::Leaves(LeaveReason::NoSession);
    }
    if !state.handoff.is_alone() && !state.handoff.owns(session) {
        return FastPathTrialResult::Leaves(LeaveReason::OtherWorker);
    }
    let prepared = prepare::<_, _, D, F>(ctx, to_ues, &mut burst, &state.queues.shaping);
    let FastBurst { counts, packets, rx, .. } = burst;
    let rewrite_all = rewrite_loop::<_, _, D, F>(ctx.interfaces.have_tags(), counts, prepared);
    rewrite_all(ctx, true, packets, rx, state);
    #[cfg(test)]
    rx.iter_mut().for_each(tests::plant_fault);
    let (Some(packet), Some(copy)) = (packets.first(), rx.first()) else {
        return FastPathTrialResult::Leaves(LeaveReason::Unnamed);
    };
    let tx_link = ctx.interfaces.tx_link(packet.interface).filter(|_| packet.is_usual);
    let Some(tx_link) = tx_link else { return why_left(ctx, packet, copy) };
    let len = u32::try_from(copy.data_len()).unwrap_or(u32::MAX);
    let frame = FastPathFrame { port: tx_link.port, interface: tx_link.id, len, difference: None };
    match packet.ticket.is_none() {
        true => FastPathTrialResult::Sends(frame),
        false => FastPathTrialResult::Queues(frame),
    }
}

/// Returns why a usual packet of a session takes the stages.
fn why_left(
    ctx: &StepContext<'_>,
    packet: &FastPacket<'_>,
    copy: &TrialPacket<'_>,
) -> FastPathTrialResult {
    let Some(rules) = ctx.view.rules(packet.session) else {
        return FastPathTrialResult::Leaves(LeaveReason::NoSession);
    };
    let is_to_ue =
        packet.is_tunneled() && rules.tunnel_side(packet.teid).direction == Direction::Downlink;
    if is_to_ue && let Some(why) = rules.unruled_to_ue() {
        return FastPathTrialResult::LeavesUnruled(why);
    }
    match copy.why() {
        LeaveReason::RuleChanging => why_unruled(ctx, packet, copy, rules),
        LeaveReason::NextHopUnresolved => {
            FastPathTrialResult::Leaves(why_no_hop(ctx, packet, copy))
        }
        why => FastPathTrialResult::Leaves(why),
    }
}

/// Returns why there is no fast rule for a packet.
fn why_unruled(
    ctx: &StepContext<'_>,
    packet: &FastPacket<'_>,
    copy: &TrialPacket<'_>,
    rules: &PublishedRules,
) -> FastPathTrialResult {
    let FastPacket { direction, is_v6, offset, len, cell, .. } = *packet;
    let changing = FastPathTrialResult::Leaves(LeaveReason::RuleChanging);
    let Some(cell) = cell else { return changing };
    let all = rules.unruled(direction);
    let Some(matcher) = rules.matcher(direction).filter(|_| all.is_some()) else {
        return all.map_or(changing, FastPathTrialResult::LeavesUnruled);
    };
    let is_filter = ctx.view.any_fast_rule_filter(cell).is_some();
    let has_no_ports = || usual_five_tuple(copy.data(), offset, len, is_v6).is_none();
    let key = flow_key(packet, copy, direction, is_v6);
    let Some(key) = key.filter(|_| !(is_filter && has_no_ports())) else {
        return FastPathTrialResult::Leaves(LeaveReason::Fragment);
    };
    match matcher.view().first(&key) {
        None => FastPathTrialResult::Leaves(LeaveReason::NoFilterMatches),
        Some(found) if found.needs_check => {
            FastPathTrialResult::Leaves(LeaveReason::FilterUndecided)
        }
        Some(found) => match rules.unruled_pdr(direction, found.pdr) {
            Some(why) => FastPathTrialResult::LeavesUnruled(why),
            // No rule can be selected from this cell: it is being changed.
            None if !cell.flags().may_refer() => changing,
            None => FastPathTrialResult::LeavesUnruled(NoFastRule::PdrsTooMany),
        },
    }
}

/// Returns why there is no next hop for a packet.
fn why_no_hop(
    ctx: &StepContext<'_>,
    packet: &FastPacket<'_>,
    copy: &TrialPacket<'_>,
) -> LeaveReason {
    let rule = packet.any_rule().filter(|rule| packet.is_tunneled() && !rule.is_relay());
    let user_packet = copy.data().get(usize::from(packet.offset)..).unwrap_or_default();
    let Some((rule, dst)) = rule.zip(usual_dst(user_packet, packet.is_v6)) else {
        return LeaveReason::NextHopUnresolved;
    };
    let within = rule.egress();
    match () {
        () if ctx.view.local_switching_interface(within, dst).is_some() => LeaveReason::OtherUe,
        () if ctx.view.next_hop_towards(within, dst, || 0).is_none() => LeaveReason::NoRoute,
        () => LeaveReason::NextHopUnresolved,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests;
