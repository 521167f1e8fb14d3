//! The two directions of the fast path: conditions that a packet has to meet, its next hop, and its
//! headers. `relay` has packets that leave one tunnel for another one.

use adit_pktio::PacketBuf;
use adit_rules::{FastRuleUe, LeaveReason};
use adit_tables::{FastRuleSnapshot, FastRuleUrrs, TablesView, UeTable};
use adit_types::{Direction, SessionIndex};
use adit_wire::{UsualTunnel, is_usual_syn};

use super::burst::BurstContext;
use super::depart::{
    Departure, LinkHeaderOnly, OverV4, OverV6, PacketTraits, Rewritten, RuledPacket, depart,
    outer_tos,
};
use super::packet::FastPacket;
use super::rates::BurstRates;
use super::recognize::{is_forwardable, v4};
use super::trial_packet::leave;
use crate::context::StepContext;
use crate::handoff::Handoff;

/// One direction of the fast path. A type, so that packet loops do not branch on it.
pub(super) trait FastDirection: FastRewrite {
    const DIRECTION: Direction;

    /// Returns the session of a packet. `ues`: the UEs of the routing domain that the packet came
    /// from. Uplink: also `SessionIndex::NONE` if [`find_other_tunnels`] has to find the session.
    fn session(
        view: &TablesView<'_>,
        ues: &UeTable,
        packet: &FastPacket<'_>,
        is_v6: bool,
    ) -> SessionIndex;
}

/// The rewrite of a burst's packets. A type, so that packet loops do not branch on it.
pub(super) trait FastRewrite {
    /// The direction whose last hops the bursts reuse and keep.
    const HOPS: Direction;

    /// Checks that a packet meets the conditions of its rule, then calls [`depart`]. `None` if the
    /// packet has to take the stages; the frame is unchanged then.
    ///
    /// `HAS_TAGS`: the links of any interfaces have tags.
    ///
    /// PERF (adit-bench datapath --mixed): in mixed bursts a branch on the IP version is
    /// mispredicted, so values are selected by IP version without a branch.
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        ruled: RuledPacket<'_, 'v>,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>>;
}

/// Decapsulates packets from the RAN to data networks. `OVER_V6`: some tunnels are over IPv6.
pub(super) struct Decapsulation<const OVER_V6: bool>;

pub(super) type FastUplink = Decapsulation<false>;
/// Encapsulates packets from data networks. `OVER_V6`: some tunnels are over IPv6.
pub(super) struct Encapsulation<const OVER_V6: bool>;

pub(super) type FastDownlink = Encapsulation<false>;

impl FastDirection for FastUplink {
    const DIRECTION: Direction = Direction::Uplink;

    #[inline(always)]
    fn session(
        view: &TablesView<'_>,
        _: &UeTable,
        packet: &FastPacket<'_>,
        _: bool,
    ) -> SessionIndex {
        view.session_of_usual_teid(packet.teid)
    }
}

impl<const OVER_V6: bool> FastRewrite for Decapsulation<OVER_V6> {
    const HOPS: Direction = Direction::Uplink;

    /// Decapsulates a packet.
    // PERF (adit-bench datapath): inlined, runs for every packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        ruled: RuledPacket<'_, 'v>,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let RuledPacket { rule, ref packet, traits: PacketTraits { is_v6, .. } } = ruled;
        let is_from_ue = accepts_source(rule, is_v6, packet.ue_key);
        let arrival = burst.arrival_of::<HAS_TAGS>(packet);
        if !is_from_ue {
            return leave(buf, LeaveReason::OtherUeAddress);
        }
        if OVER_V6 && packet.is_over_v6() {
            if !rule.matches_uplink_over_v6(arrival, packet.teid, packet.qfi) {
                return leave(buf, LeaveReason::OtherTunnel);
            }
        } else if !rule.matches_uplink(arrival, packet.teid, packet.qfi) {
            return leave(buf, LeaveReason::OtherTunnel);
        }
        let Some(tx_link) = burst.hops.hop_to_network(ctx, rule.egress(), packet, is_v6, buf)
        else {
            return leave(buf, LeaveReason::NextHopUnresolved);
        };
        if tx_link.keeps_syns && is_usual_syn(buf.data(), packet.offset, is_v6) {
            return leave(buf, LeaveReason::TcpSyn);
        }
        let direction = Direction::Uplink;
        let departure = Departure { direction, tx_link, headers: LinkHeaderOnly, urrs: rule_urrs };
        depart::<_, _, HAS_TAGS>(ctx, ruled, departure, burst, buf)
    }
}

impl FastDirection for FastDownlink {
    const DIRECTION: Direction = Direction::Downlink;

    #[inline(always)]
    fn session(
        _: &TablesView<'_>,
        ues: &UeTable,
        packet: &FastPacket<'_>,
        is_v6: bool,
    ) -> SessionIndex {
        match is_v6 {
            false => ues.session_v4(v4(packet.ue_key).to_bits()),
            true => ues.session_v6(packet.ue_key),
        }
    }
}

impl FastRewrite for Encapsulation<true> {
    const HOPS: Direction = Direction::Downlink;

    /// Encapsulates a packet, usually over IPv6.
    // PERF (adit-bench datapath --n3-v6): inlined, runs for every packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        ruled: RuledPacket<'_, 'v>,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let RuledPacket { rule, ref packet, traits: PacketTraits { is_v6, .. } } = ruled;
        if !rule.leads_into_v6() {
            return rewrite_out_of_line::<FastDownlink, _>(
                ctx,
                ruled.packet,
                ruled.traits,
                burst,
                buf,
            );
        }
        let arrival = burst.arrival_of::<HAS_TAGS>(packet);
        if !rule.matches_downlink(arrival, packet.ue_key, is_v6)
            && !rule.matches_copying_downlink(arrival, packet.ue_key, is_v6)
        {
            return leave(buf, LeaveReason::OtherTunnel);
        }
        let Some(tx_link) = burst.hops.hop_into_tunnel::<true>(ctx, rule.next_hop()) else {
            return leave(buf, LeaveReason::NextHopUnresolved);
        };
        let Some(outer) = tx_link.outer_v6.as_ref() else {
            return leave(buf, LeaveReason::LinkWithoutTunnels);
        };
        let (teid, peer) = rule.tunnel_over_v6();
        let dst = ctx.view.gtpu_peers().addr_v6(peer)?;
        let tos = outer_tos(rule.tos(), packet, is_v6, buf)?;
        let tunnel = UsualTunnel { dst, tos, teid, marking: rule.marking() };
        let (direction, headers) = (Direction::Downlink, OverV6 { outer, tunnel });
        let departure = Departure { direction, tx_link, headers, urrs: rule_urrs };
        depart::<_, _, HAS_TAGS>(ctx, ruled, departure, burst, buf)
    }
}

/// Rewrites a packet like [`FastRewrite::rewrite`] of `R`, from a loop for other rules. Reads the
/// packet's rule again.
#[inline(never)]
// PERF (adit-bench datapath --n9, --n3-v6): out of line, and without a reference to the rule, so
// that the loops of the usual rules keep their registers, and their rule stays in them. One
// function serves loops with and without tags.
pub(super) fn rewrite_out_of_line<'v, R: FastRewrite, B: PacketBuf>(
    ctx: &StepContext<'v>,
    packet: &mut FastPacket<'v>,
    traits: PacketTraits,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    let Some(rule) = packet.rule() else { return leave(buf, LeaveReason::RuleChanging) };
    let rule = &rule;
    // The rule was read again and may be a later one, for which this loop checks too little.
    let is_of_loop = match traits.rates {
        BurstRates::None => rule.is_plain(),
        BurstRates::Buckets => !rule.counts_elsewhere(),
        BurstRates::BucketsAndUrrs | BurstRates::Every => true,
    };
    if !is_of_loop {
        return leave(buf, LeaveReason::RuleChanging);
    }
    R::rewrite::<_, true>(ctx, RuledPacket { rule, packet, traits }, burst, buf)
}

impl FastRewrite for FastDownlink {
    const HOPS: Direction = Direction::Downlink;

    /// Encapsulates a packet over IPv4.
    // PERF (adit-bench datapath): inlined, runs for every packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        ruled: RuledPacket<'_, 'v>,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let RuledPacket { rule, packet, traits } = ruled;
        let arrival = burst.arrival_of::<HAS_TAGS>(packet);
        // PERF (adit-bench datapath): most rules copy nothing, so the loop does not look for rules
        // that do.
        if !rule.matches_downlink(arrival, packet.ue_key, traits.is_v6) {
            return rewrite_out_of_line::<CopyingTos, _>(ctx, packet, traits, burst, buf);
        }
        let tos = rule.tos().octet();
        encapsulate::<_, HAS_TAGS>(ctx, tos, RuledPacket { rule, packet, traits }, burst, buf)
    }
}

/// Encapsulates packets from data networks over IPv4, by rules that copy bits of the packet's type
/// of service into the outer header.
struct CopyingTos;

impl FastRewrite for CopyingTos {
    const HOPS: Direction = Direction::Downlink;

    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        ruled: RuledPacket<'_, 'v>,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let RuledPacket { rule, ref packet, traits: PacketTraits { is_v6, .. } } = ruled;
        let arrival = burst.arrival_of::<HAS_TAGS>(packet);
        if !rule.matches_copying_downlink(arrival, packet.ue_key, is_v6) {
            return leave(buf, LeaveReason::OtherTunnel);
        }
        let tos = outer_tos(rule.tos(), packet, is_v6, buf)?;
        encapsulate::<_, HAS_TAGS>(ctx, tos, ruled, burst, buf)
    }
}

/// Calls [`depart`] with a tunnel over IPv4. `tos`: the octet for the outer header.
#[inline(always)]
fn encapsulate<'v, B: PacketBuf, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    tos: u8,
    ruled: RuledPacket<'_, 'v>,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    let rule = ruled.rule;
    let Some(tx_link) = burst.hops.hop_into_tunnel::<false>(ctx, rule.next_hop()) else {
        return leave(buf, LeaveReason::NextHopUnresolved);
    };
    let (teid, dst) = rule.tunnel();
    let tunnel = UsualTunnel { dst, tos, teid, marking: rule.marking() };
    let Some(headers) = OverV4::through::<HAS_TAGS>(tx_link, tunnel) else {
        return leave(buf, LeaveReason::LinkWithoutTunnels);
    };
    let departure = Departure { direction: Direction::Downlink, tx_link, headers, urrs: rule_urrs };
    depart::<_, _, HAS_TAGS>(ctx, ruled, departure, burst, buf)
}

/// Finds session and fast rule of packets for which [`FastDirection::session`] found no session,
/// such as those in tunnels in which another UPF sends packets to a UE. Returns how many packets
/// are in tunnels to a UE.
#[inline(never)]
pub(super) fn find_other_tunnels<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    handoff: &Handoff<B>,
    packets: &mut [FastPacket<'v>],
) -> usize {
    let mut to_ues = 0;
    for packet in packets.iter_mut().filter(|packet| !packet.session.is_some()) {
        let (session, leads_to_ue) = view.session_of_other_teid(packet.teid);
        packet.session = session;
        to_ues += usize::from(leads_to_ue);
        if !handoff.is_alone() && !handoff.owns(session) {
            continue;
        }
        if leads_to_ue {
            packet.direction = Direction::Downlink;
            packet.cell = view.tunnel_to_ue_cell(session);
        } else {
            packet.cell = view.fast_rule_cell(session, Direction::Uplink);
        }
        packet.cell.inspect(|cell| cell.prefetch());
    }
    to_ues
}

/// True if a rule accepts `source`, the lookup key of an address, as the source of a packet.
#[inline(always)]
pub(super) fn accepts_source(rule: &FastRuleSnapshot<'_>, is_v6: bool, source: u64) -> bool {
    // PERF (adit-bench datapath): most rules accept only one UE, so that is tested first.
    rule.is_only_ue(is_v6, source)
        || rule.source(is_v6) == FastRuleUe::Any && is_forwardable(is_v6, source)
}

/// Returns the URRs of a rule in addition to the session's own one. Not for rules of relays.
#[inline(always)]
fn rule_urrs(rule: &FastRuleSnapshot<'_>) -> FastRuleUrrs {
    rule.urrs()
}
