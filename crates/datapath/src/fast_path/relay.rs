//! Packets that leave a tunnel for another one (N9), in either direction.

use adit_pktio::PacketBuf;
use adit_tables::{FastRuleSnapshot, FastRuleUrrs};
use adit_types::Direction;
use adit_wire::ethernet::EthernetHeader;
use adit_wire::ipv4::allow_fragmentation;
use adit_wire::{UsualTunnel, decrement_usual_hops, usual_container, usual_dst_key};

use super::burst::BurstContext;
use super::direction::{
    FastRewrite, FastUplink, PacketTraits, Rewritten, accepts_source, count_packet, is_unchecked,
    outer_tos, rewrite_apart,
};
use super::packet::FastPacket;
use super::rates::pass_rates;
use super::recognize::is_forwardable;
use crate::context::StepContext;

/// Packets in tunnels from the RAN, of which some leave in tunnels.
pub(super) struct RelayedUplink;

impl FastRewrite for RelayedUplink {
    const HOPS: Direction = Direction::Uplink;

    // PERF (adit-bench datapath --n9): once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        traits: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let directed = DirectedPacket { packet, direction: Direction::Uplink };
        relay_or_decapsulate::<_, HAS_TAGS>(ctx, rule, directed, traits, burst, buf)
    }
}

/// Packets that another UPF sends to UEs.
pub(super) struct RelayedDownlink;

impl FastRewrite for RelayedDownlink {
    const HOPS: Direction = Direction::Downlink;

    // PERF (adit-bench datapath --n9): once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        traits: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        // Only rules from tunnel to tunnel are for packets in tunnels to UEs.
        if !rule.is_relay() {
            return None;
        }
        let directed = DirectedPacket { packet, direction: Direction::Downlink };
        relay::<_, HAS_TAGS>(ctx, rule, directed, traits, burst, buf)
    }
}

/// Packets in tunnels of either direction.
pub(super) struct RelayedBoth;

impl FastRewrite for RelayedBoth {
    const HOPS: Direction = Direction::Uplink;

    // PERF (adit-bench datapath --n9): once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        traits: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let direction = packet.direction;
        let directed = DirectedPacket { packet, direction };
        relay_or_decapsulate::<_, HAS_TAGS>(ctx, rule, directed, traits, burst, buf)
    }
}

/// A packet and its direction, which is a constant in most loops.
struct DirectedPacket<'p, 'v> {
    packet: &'p mut FastPacket<'v>,
    direction: Direction,
}

/// [`FastRewrite::rewrite`] for a rule of either kind.
#[inline(always)]
fn relay_or_decapsulate<'v, B: PacketBuf, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    rule: &FastRuleSnapshot<'v>,
    directed: DirectedPacket<'_, 'v>,
    traits: PacketTraits,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    match rule.is_relay() {
        true => relay::<_, HAS_TAGS>(ctx, rule, directed, traits, burst, buf),
        false => rewrite_apart::<FastUplink, _, HAS_TAGS>(ctx, directed.packet, traits, burst, buf),
    }
}

/// [`FastRewrite::rewrite`] for a rule from tunnel to tunnel.
#[inline(always)]
fn relay<'v, B: PacketBuf, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    rule: &FastRuleSnapshot<'v>,
    directed: DirectedPacket<'_, 'v>,
    PacketTraits { is_v6, rates }: PacketTraits,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    let DirectedPacket { packet, direction } = directed;
    let arrival = burst.arrival_of::<HAS_TAGS>(packet);
    let ue = match direction {
        Direction::Uplink => packet.ue_key,
        // `ue_key` is the source: only the destination was found to be forwardable.
        Direction::Downlink if is_forwardable(is_v6, packet.ue_key) => {
            usual_dst_key(buf.data(), packet.offset, is_v6)?
        }
        Direction::Downlink => return None,
    };
    if !accepts_source(rule, is_v6, ue) || !rule.matches_relayed(arrival, packet.teid, packet.qfi) {
        return None;
    }
    let onward = rule.onward();
    let tx_link = burst.hops.hop_onward(ctx, onward.next_hop)?;
    let outer = tx_link.outer.as_ref()?;
    if !is_unchecked(ctx, rule, packet, rates, relayed_urrs) {
        return None;
    }
    let arrived = || usual_container(buf.data(), packet.offset);
    let marking = rule.relayed_marking(direction, packet.qfi, arrived);
    let tos = outer_tos(onward.tos, packet, is_v6, buf)?;
    let tunnel = UsualTunnel { dst: onward.addr, tos, teid: onward.teid, marking };
    if tunnel.ip_len(packet.len)? > tx_link.mtu_bytes {
        return None;
    }
    pass_rates(ctx, direction, rates, rule, packet, burst)?;
    let received_len = buf.data_len();
    let tag_len = if HAS_TAGS { tx_link.tag_len() } else { 0 };
    let headers_len = tag_len + tunnel.headers_len();
    let (cut, keep) = (usize::from(packet.offset), usize::from(packet.len));
    let frame = buf.replace_front(cut, headers_len, keep)?;
    let frame_len = frame.len();
    // None of these fails: there is room for the headers, and their length fields hold the length.
    let untagged = frame.get_mut(tag_len..)?;
    let ip = outer.emit(&tunnel, burst.hops.link_header(false), direction, packet.len, untagged)?;
    decrement_usual_hops(ip, is_v6);
    if HAS_TAGS && !tx_link.outer_df {
        allow_fragmentation(frame.get_mut(tag_len + EthernetHeader::LEN..)?);
    }
    if tag_len != 0 {
        burst.hops.link_header(false).write_tag(frame, tx_link.vlan)?;
    }
    count_packet(ctx, direction, rule, packet, rates, relayed_urrs);
    Some(Rewritten { tx_link, received_len, frame_len })
}

/// The URRs of a rule from tunnel to tunnel in addition to the session's own one.
#[inline(always)]
fn relayed_urrs(rule: &FastRuleSnapshot<'_>) -> FastRuleUrrs {
    [rule.relayed_urr(), None]
}
