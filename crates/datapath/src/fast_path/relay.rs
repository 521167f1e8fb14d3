//! Relays: packets that leave one tunnel for another one (N9), in either direction.

use adit_pktio::PacketBuf;
use adit_rules::LeaveReason;
use adit_tables::{FastRuleSnapshot, FastRuleUrrs};
use adit_types::Direction;
use adit_wire::{UsualTunnel, usual_container_marking, usual_dst_key};

use super::burst::BurstContext;
use super::depart::{Departure, OverV4, PacketTraits, Rewritten, RuledPacket, depart, outer_tos};
use super::direction::{FastRewrite, FastUplink, accepts_source, rewrite_out_of_line};
use super::recognize::is_forwardable;
use super::trial_packet::leave;
use crate::context::StepContext;

/// The rewrite of bursts from tunnels, of either direction, in which some packets are relayed.
pub(super) struct Relayed;

impl FastRewrite for Relayed {
    const HOPS: Direction = Direction::Uplink;

    // PERF (adit-bench datapath --n9): inlined, runs for every packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        ruled: RuledPacket<'_, 'v>,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        if ruled.rule.is_relay() {
            return relay::<_, HAS_TAGS>(ctx, ruled, burst, buf);
        }
        let RuledPacket { packet, traits, .. } = ruled;
        rewrite_out_of_line::<FastUplink, _>(ctx, packet, traits, burst, buf)
    }
}

/// Rewrites a packet like [`FastRewrite::rewrite`], by the rule of a relay.
#[inline(always)]
fn relay<'v, B: PacketBuf, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    ruled: RuledPacket<'_, 'v>,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    let RuledPacket { rule, ref packet, traits: PacketTraits { is_v6, .. } } = ruled;
    let direction = packet.direction;
    let arrival = burst.arrival_of::<HAS_TAGS>(packet);
    let ue = match direction {
        Direction::Uplink => packet.ue_key,
        // `ue_key` is the source, and only the destination is known to be forwardable.
        Direction::Downlink if is_forwardable(is_v6, packet.ue_key) => {
            usual_dst_key(buf.data(), packet.offset, is_v6)?
        }
        Direction::Downlink => return leave(buf, LeaveReason::AddressInvalid),
    };
    if !accepts_source(rule, is_v6, ue) {
        return leave(buf, LeaveReason::OtherUeAddress);
    }
    if !rule.matches_relayed(arrival, packet.teid, packet.qfi) {
        return leave(buf, LeaveReason::OtherTunnel);
    }
    let onward = rule.onward();
    let Some(tx_link) = burst.hops.hop_into_tunnel::<false>(ctx, onward.next_hop) else {
        return leave(buf, LeaveReason::NextHopUnresolved);
    };
    let arrived = || usual_container_marking(buf.data(), packet.offset);
    let marking = rule.relayed_marking(direction, packet.qfi, arrived);
    let tos = outer_tos(onward.tos, packet, is_v6, buf)?;
    let tunnel = UsualTunnel { dst: onward.addr, tos, teid: onward.teid, marking };
    let Some(headers) = OverV4::through::<HAS_TAGS>(tx_link, tunnel) else {
        return leave(buf, LeaveReason::LinkWithoutTunnels);
    };
    let departure = Departure { direction, tx_link, headers, urrs: relayed_urrs };
    depart::<_, _, HAS_TAGS>(ctx, ruled, departure, burst, buf)
}

/// Returns the URRs of a relay's rule in addition to the session's own one.
#[inline(always)]
fn relayed_urrs(rule: &FastRuleSnapshot<'_>) -> FastRuleUrrs {
    [rule.relayed_urr(), None]
}
