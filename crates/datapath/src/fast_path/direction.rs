//! The two directions of the fast path: the conditions that a packet has to meet, and its rewrite. Packets that
//! leave a tunnel for another one are in `relay`.

use adit_pktio::PacketBuf;
use adit_rules::{FastRuleUe, OuterTos};
use adit_tables::{CountedPacket, FastRuleSnapshot, FastRuleUrrs, TablesView, UeTable};
use adit_types::{Direction, SessionIndex};
use adit_wire::ethernet::EthernetHeader;
use adit_wire::ipv4::allow_fragmentation;
use adit_wire::{UsualTunnel, decrement_usual_hops, is_usual_syn, usual_tos};

use super::burst::BurstContext;
use super::packet::FastPacket;
use super::rates::{BurstRates, pass_rates};
use super::recognize::{is_forwardable, v4};
use crate::context::StepContext;
use crate::handoff::Handoff;
use crate::interfaces::TxLink;

/// Traits of a packet that the loop over a burst reads.
#[derive(Clone, Copy)]
pub(super) struct PacketTraits {
    pub is_v6: bool,
    /// The rates that it may have to pass.
    pub rates: BurstRates,
}

/// A packet that became the frame that leaves.
pub(super) struct Rewritten<'v> {
    pub tx_link: &'v TxLink,
    /// Length of the received frame. Unit: octets.
    pub received_len: usize,
    /// Length of the frame that leaves. Unit: octets.
    pub frame_len: usize,
}

/// One direction; chosen outside the packet loops.
pub(super) trait FastDirection: FastRewrite {
    const DIRECTION: Direction;

    /// The session of a packet. `ues`: those of the routing domain that it came from. Uplink: `NONE`, too, if
    /// [`find_other_tunnels`] has to find it.
    fn session(
        view: &TablesView<'_>,
        ues: &UeTable,
        packet: &FastPacket<'_>,
        is_v6: bool,
    ) -> SessionIndex;
}

/// The rewriting of a burst's packets; chosen outside the packet loops.
pub(super) trait FastRewrite {
    /// The direction whose hops the bursts reuse and keep.
    const HOPS: Direction;

    /// Rewrites a packet that meets the conditions of `rule`, and counts it for its session and
    /// URRs. `None`: the frame is unchanged, and the packet takes the stages.
    ///
    /// `HAS_TAGS`: the links of some interfaces have tags.
    ///
    /// PERF (adit-bench datapath --mixed): in mixed bursts a branch on the family is mispredicted, so
    /// values are selected by family without one.
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        traits: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>>;
}

/// Packets in tunnels from the RAN to data networks. `OVER_V6`: some arrived over IPv6.
pub(super) struct Decapsulation<const OVER_V6: bool>;

pub(super) type FastUplink = Decapsulation<false>;
/// Packets from data networks into tunnels. `OVER_V6`: some leave in tunnels over IPv6.
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
    // PERF (adit-bench datapath): once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        PacketTraits { is_v6, rates }: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let is_from_ue = accepts_source(rule, is_v6, packet.ue_key);
        let arrival = burst.arrival_of::<HAS_TAGS>(packet);
        if OVER_V6 && packet.is_over_v6() {
            if !is_from_ue || !rule.matches_uplink_over_v6(arrival, packet.teid, packet.qfi) {
                return None;
            }
        } else if !is_from_ue || !rule.matches_uplink(arrival, packet.teid, packet.qfi) {
            return None;
        }
        let tx_link = burst.hops.hop_to_network(ctx, rule.egress(), packet, is_v6, buf)?;
        if !is_unchecked(ctx, rule, packet, rates, rule_urrs) {
            return None;
        }
        if packet.len > tx_link.mtu_bytes
            || tx_link.keeps_syns && is_usual_syn(buf.data(), packet.offset, is_v6)
        {
            return None;
        }
        pass_rates(ctx, Direction::Uplink, rates, rule, packet, burst)?;
        let received_len = buf.data_len();
        let tag_len = if HAS_TAGS { tx_link.tag_len() } else { 0 };
        let (cut, keep) = (usize::from(packet.offset), usize::from(packet.len));
        let frame = buf.replace_front(cut, EthernetHeader::LEN + tag_len, keep)?;
        let frame_len = frame.len();
        // None of these fails: there is room for the header.
        let untagged = frame.get_mut(tag_len..)?;
        let (header, ip) = untagged.split_first_chunk_mut()?;
        burst.hops.link_header(is_v6).write::<{ EthernetHeader::LEN }>(header);
        decrement_usual_hops(ip, is_v6);
        if tag_len != 0 {
            burst.hops.link_header(is_v6).write_tag(frame, tx_link.vlan)?;
        }
        count_packet(ctx, Direction::Uplink, rule, packet, rates, rule_urrs);
        Some(Rewritten { tx_link, received_len, frame_len })
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

    /// Encapsulates a packet, most often over IPv6.
    // PERF (adit-bench datapath --n3-v6): once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        traits: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        match rule.leads_into_v6() {
            true => encapsulate_over_v6::<_, HAS_TAGS>(ctx, rule, packet, traits, burst, buf),
            false => rewrite_apart::<FastDownlink, _, HAS_TAGS>(ctx, packet, traits, burst, buf),
        }
    }
}

/// [`FastRewrite::rewrite`] of the loops for other rules. Reads the rule of the packet again.
#[inline(never)]
// PERF (adit-bench datapath --n9, --n3-v6): out of line, and without a reference to the rule, so that the loops for
// rules of their own have registers for these and their rule stays in them.
pub(super) fn rewrite_apart<'v, R: FastRewrite, B: PacketBuf, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    packet: &mut FastPacket<'v>,
    traits: PacketTraits,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    let rule = packet.rule()?;
    // The loop without rates is for plain rules.
    if traits.rates == BurstRates::None && !rule.is_plain() {
        return None;
    }
    R::rewrite::<_, HAS_TAGS>(ctx, &rule, packet, traits, burst, buf)
}

/// [`FastRewrite::rewrite`] for a rule into a tunnel over IPv6.
#[inline(always)]
fn encapsulate_over_v6<'v, B: PacketBuf, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    rule: &FastRuleSnapshot<'v>,
    packet: &mut FastPacket<'v>,
    PacketTraits { is_v6, rates }: PacketTraits,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    let arrival = burst.arrival_of::<HAS_TAGS>(packet);
    if !rule.matches_downlink(arrival, packet.ue_key, is_v6)
        && !rule.matches_copying_downlink(arrival, packet.ue_key, is_v6)
    {
        return None;
    }
    let tx_link = burst.hops.hop_over_v6(ctx, rule.next_hop())?;
    let outer = tx_link.outer_v6.as_ref()?;
    if !is_unchecked(ctx, rule, packet, rates, rule_urrs) {
        return None;
    }
    let (teid, peer) = rule.tunnel_over_v6();
    let dst = ctx.view.gtpu_peers().addr_v6(peer)?;
    let tos = outer_tos(rule.tos(), packet, is_v6, buf)?;
    let tunnel = UsualTunnel { dst, tos, teid, marking: rule.marking() };
    if tunnel.ip_len(packet.len)? > tx_link.mtu_bytes {
        return None;
    }
    pass_rates(ctx, Direction::Downlink, rates, rule, packet, burst)?;
    let received_len = buf.data_len();
    let tag_len = if HAS_TAGS { tx_link.tag_len() } else { 0 };
    let headers_len = tag_len + tunnel.headers_len();
    let (cut, keep) = (usize::from(packet.offset), usize::from(packet.len));
    let frame = buf.replace_front(cut, headers_len, keep)?;
    let frame_len = frame.len();
    // None of these fails: there is room for the headers, and their length fields hold the length.
    let link = burst.hops.link_header(true);
    let untagged = frame.get_mut(tag_len..)?;
    outer.emit(&tunnel, link, Direction::Downlink, packet.len, is_v6, untagged)?;
    if tag_len != 0 {
        link.write_tag(frame, tx_link.vlan)?;
    }
    count_packet(ctx, Direction::Downlink, rule, packet, rates, rule_urrs);
    Some(Rewritten { tx_link, received_len, frame_len })
}

impl FastRewrite for FastDownlink {
    const HOPS: Direction = Direction::Downlink;

    /// Encapsulates a packet over IPv4.
    // PERF (adit-bench datapath): once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        traits: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let arrival = burst.arrival_of::<HAS_TAGS>(packet);
        // PERF (adit-bench datapath): by default nothing is copied, and the loop does not look for it.
        if !rule.matches_downlink(arrival, packet.ue_key, traits.is_v6) {
            return rewrite_apart::<CopyingTos, _, HAS_TAGS>(ctx, packet, traits, burst, buf);
        }
        let tos = rule.tos().octet();
        encapsulate_over_v4::<_, HAS_TAGS>(ctx, rule, tos, packet, traits, burst, buf)
    }
}

/// Packets from data networks into tunnels over IPv4, by rules that copy something of the type of service.
struct CopyingTos;

impl FastRewrite for CopyingTos {
    const HOPS: Direction = Direction::Downlink;

    #[inline(always)]
    fn rewrite<'v, B: PacketBuf, const HAS_TAGS: bool>(
        ctx: &StepContext<'v>,
        rule: &FastRuleSnapshot<'v>,
        packet: &mut FastPacket<'v>,
        traits: PacketTraits,
        burst: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let arrival = burst.arrival_of::<HAS_TAGS>(packet);
        if !rule.matches_copying_downlink(arrival, packet.ue_key, traits.is_v6) {
            return None;
        }
        let tos = outer_tos(rule.tos(), packet, traits.is_v6, buf)?;
        encapsulate_over_v4::<_, HAS_TAGS>(ctx, rule, tos, packet, traits, burst, buf)
    }
}

/// [`FastRewrite::rewrite`] for a packet that matches a rule into a tunnel over IPv4. `tos`: of the outer header.
#[inline(always)]
fn encapsulate_over_v4<'v, B: PacketBuf, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    rule: &FastRuleSnapshot<'v>,
    tos: u8,
    packet: &mut FastPacket<'v>,
    PacketTraits { is_v6, rates }: PacketTraits,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    const DIRECTION: Direction = Direction::Downlink;
    let tx_link = burst.hops.hop_to(ctx, rule.next_hop())?;
    let outer = tx_link.outer.as_ref()?;
    if !is_unchecked(ctx, rule, packet, rates, rule_urrs) {
        return None;
    }
    let (teid, dst) = rule.tunnel();
    let tunnel = UsualTunnel { dst, tos, teid, marking: rule.marking() };
    if tunnel.ip_len(packet.len)? > tx_link.mtu_bytes {
        return None;
    }
    pass_rates(ctx, DIRECTION, rates, rule, packet, burst)?;
    let received_len = buf.data_len();
    let tag_len = if HAS_TAGS { tx_link.tag_len() } else { 0 };
    let headers_len = tag_len + tunnel.headers_len();
    let (cut, keep) = (usize::from(packet.offset), usize::from(packet.len));
    let frame = buf.replace_front(cut, headers_len, keep)?;
    let frame_len = frame.len();
    // None of these fails: there is room for the headers, and their length fields hold the length.
    let link = burst.hops.link_header(false);
    let ip = outer.emit(&tunnel, link, DIRECTION, packet.len, frame.get_mut(tag_len..)?)?;
    decrement_usual_hops(ip, is_v6);
    if HAS_TAGS && !tx_link.outer_df {
        allow_fragmentation(frame.get_mut(tag_len + EthernetHeader::LEN..)?);
    }
    if tag_len != 0 {
        burst.hops.link_header(false).write_tag(frame, tx_link.vlan)?;
    }
    count_packet(ctx, DIRECTION, rule, packet, rates, rule_urrs);
    Some(Rewritten { tx_link, received_len, frame_len })
}

/// The type of service or traffic class octet of the outer header of a packet.
#[inline(always)]
// PERF (adit-bench datapath): by default nothing is copied, and the packet is not read.
pub(super) fn outer_tos<B: PacketBuf>(
    tos: OuterTos,
    packet: &FastPacket<'_>,
    is_v6: bool,
    buf: &B,
) -> Option<u8> {
    match tos.is_copied() {
        false => Some(tos.octet()),
        true => Some(tos.around(usual_tos(buf.data(), packet.offset, is_v6)?)),
    }
}

/// Finds session and fast rule of packets in tunnels that [`FastDirection::session`] does not find, such as tunnels
/// in which another UPF sends packets to the UE. Returns the number of packets in these.
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

/// True if a rule accepts `source`, a lookup key, as the source of a packet.
#[inline(always)]
pub(super) fn accepts_source(rule: &FastRuleSnapshot<'_>, is_v6: bool, source: u64) -> bool {
    // PERF (adit-bench datapath): a rule for any UE is rare.
    rule.is_only_ue(is_v6, source)
        || rule.source(is_v6) == FastRuleUe::Any && is_forwardable(is_v6, source)
}

/// The URRs of a rule in addition to the session's own one. Not for rules from tunnel to tunnel.
#[inline(always)]
pub(super) fn rule_urrs(rule: &FastRuleSnapshot<'_>) -> FastRuleUrrs {
    rule.urrs()
}

/// False if the stages have to check the packet: it may reach a limit of a URR, has to be reported, or is the first of
/// a generation. `urrs` of the rule: [`rule_urrs`].
#[inline(always)]
// PERF (adit-bench datapath): once per packet.
pub(super) fn is_unchecked(
    ctx: &StepContext<'_>,
    rule: &FastRuleSnapshot<'_>,
    packet: &FastPacket<'_>,
    rates: BurstRates,
    urrs: fn(&FastRuleSnapshot<'_>) -> FastRuleUrrs,
) -> bool {
    let bytes = u64::from(packet.len);
    match rates.may_count_elsewhere() && rule.counts_elsewhere() {
        true => ctx.view.usage().is_unchecked_elsewhere(rule, urrs(rule), bytes),
        false => rule.is_unchecked(bytes),
    }
}

/// Counts a packet for its URRs and its session, after [`is_unchecked`].
#[inline(always)]
// PERF (adit-bench datapath): once per packet.
pub(super) fn count_packet(
    ctx: &StepContext<'_>,
    direction: Direction,
    rule: &FastRuleSnapshot<'_>,
    packet: &FastPacket<'_>,
    rates: BurstRates,
    urrs: fn(&FastRuleSnapshot<'_>) -> FastRuleUrrs,
) {
    let (bytes, now) = (u64::from(packet.len), ctx.now);
    if rates.may_count_elsewhere() && rule.counts_elsewhere() {
        let counted = CountedPacket { session: packet.session, direction, bytes, now };
        ctx.view.usage().count_elsewhere(rule, urrs(rule), &counted);
    } else {
        rule.count(bytes, now);
    }
}
