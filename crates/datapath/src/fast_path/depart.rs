//! Sends a packet off by its fast rule, once the rule matches and the next hop is known: checks
//! limits, MTU and rates, writes headers, counts. All packets share this. The rewrites in
//! `direction` and `relay` differ in the conditions that a packet has to meet, its destination, and
//! the headers that it leaves with.

use core::net::Ipv6Addr;

use adit_pktio::PacketBuf;
use adit_rules::{LeaveReason, OuterTos};
use adit_tables::{CountedPacket, FastRuleSnapshot, FastRuleUrrs};
use adit_types::Direction;
use adit_wire::ethernet::EthernetHeader;
use adit_wire::ipv4::allow_fragmentation;
use adit_wire::{
    UsualLinkHeader, UsualOuter, UsualOuterV6, UsualTunnel, decrement_usual_hops, usual_tos,
};

use super::burst::BurstContext;
use super::packet::FastPacket;
use super::rates::{BurstRates, pass_rates, try_rates};
use super::trial_packet::leave;
use crate::context::StepContext;
use crate::interfaces::TxLink;

/// Traits of a packet that are constant in most loops over a burst.
#[derive(Clone, Copy)]
pub(super) struct PacketTraits {
    pub is_v6: bool,
    /// The rates that the packet may have to pass.
    pub rates: BurstRates,
}

/// A packet and its fast rule.
pub(super) struct RuledPacket<'p, 'v> {
    pub rule: &'p FastRuleSnapshot<'v>,
    pub packet: &'p mut FastPacket<'v>,
    pub traits: PacketTraits,
}

/// The link that a packet leaves through, and its headers.
pub(super) struct Departure<'v, H> {
    pub direction: Direction,
    pub tx_link: &'v TxLink,
    pub headers: H,
    /// Returns the URRs of the packet's rule in addition to the session's own one.
    pub urrs: fn(&FastRuleSnapshot<'_>) -> FastRuleUrrs,
}

/// A packet that was turned into the frame that leaves.
pub(super) struct Rewritten<'v> {
    pub tx_link: &'v TxLink,
    /// Length of the received frame. Unit: octets.
    pub received_len: usize,
    /// Length of the frame that leaves. Unit: octets.
    pub frame_len: usize,
}

/// Fields of the user's packet that the headers in front of it depend on.
pub(super) struct LeavingPacket {
    direction: Direction,
    /// Length of the user's packet. Unit: octets.
    len: u16,
    is_v6: bool,
}

/// The headers in front of the user's packet in the frame that leaves.
pub(super) trait LeavingHeaders {
    /// True if the EtherType of the frame is that of IPv6. `is_v6`: the user's packet is IPv6.
    fn are_over_v6(is_v6: bool) -> bool;

    /// Returns the length of the headers, without a tag. Unit: octets.
    fn len(&self) -> usize;

    /// Returns the length of the IP packet that leaves, `None` if it is above 65,535. `len`: the
    /// length of the user's packet. Unit: octets.
    fn ip_len(&self, len: u16) -> Option<u16>;

    /// Writes the headers at the front of a frame without a tag, and decrements TTL or hop limit of
    /// the user's packet behind them. Never `None`: the caller made room for the headers, and
    /// checked [`LeavingHeaders::ip_len`].
    fn write(&self, link: &UsualLinkHeader, packet: &LeavingPacket, frame: &mut [u8])
    -> Option<()>;
}

/// Only a link header, for packets that leave without a tunnel.
pub(super) struct LinkHeaderOnly;

impl LeavingHeaders for LinkHeaderOnly {
    #[inline(always)]
    fn are_over_v6(is_v6: bool) -> bool {
        is_v6
    }

    #[inline(always)]
    fn len(&self) -> usize {
        EthernetHeader::LEN
    }

    #[inline(always)]
    fn ip_len(&self, len: u16) -> Option<u16> {
        Some(len)
    }

    #[inline(always)]
    fn write(
        &self,
        link: &UsualLinkHeader,
        packet: &LeavingPacket,
        frame: &mut [u8],
    ) -> Option<()> {
        let (header, ip) = frame.split_first_chunk_mut()?;
        link.write::<{ EthernetHeader::LEN }>(header);
        decrement_usual_hops(ip, packet.is_v6);
        Some(())
    }
}

/// The headers of a tunnel over IPv4.
pub(super) struct OverV4<'v> {
    outer: &'v UsualOuter,
    tunnel: UsualTunnel,
    /// True if routers may fragment the outer packet.
    may_fragment: bool,
}

impl<'v> OverV4<'v> {
    /// Returns the headers of a tunnel that leaves through a link; `None` if the link has no
    /// tunnels over IPv4.
    #[inline(always)]
    pub(super) fn through<const HAS_TAGS: bool>(
        tx_link: &'v TxLink,
        tunnel: UsualTunnel,
    ) -> Option<Self> {
        let outer = tx_link.outer.as_ref()?;
        // Links without DF are served by the loops with tags.
        Some(Self { outer, tunnel, may_fragment: HAS_TAGS && !tx_link.outer_df })
    }
}

impl LeavingHeaders for OverV4<'_> {
    #[inline(always)]
    fn are_over_v6(_: bool) -> bool {
        false
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.tunnel.headers_len()
    }

    #[inline(always)]
    fn ip_len(&self, len: u16) -> Option<u16> {
        self.tunnel.ip_len(len)
    }

    #[inline(always)]
    fn write(
        &self,
        link: &UsualLinkHeader,
        packet: &LeavingPacket,
        frame: &mut [u8],
    ) -> Option<()> {
        let LeavingPacket { direction, len, is_v6 } = *packet;
        let ip = self.outer.emit(&self.tunnel, link, direction, len, frame)?;
        decrement_usual_hops(ip, is_v6);
        if self.may_fragment {
            allow_fragmentation(frame.get_mut(EthernetHeader::LEN..)?);
        }
        Some(())
    }
}

/// The headers of a tunnel over IPv6.
pub(super) struct OverV6<'v> {
    pub outer: &'v UsualOuterV6,
    pub tunnel: UsualTunnel<Ipv6Addr>,
}

impl LeavingHeaders for OverV6<'_> {
    #[inline(always)]
    fn are_over_v6(_: bool) -> bool {
        true
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.tunnel.headers_len()
    }

    #[inline(always)]
    fn ip_len(&self, len: u16) -> Option<u16> {
        self.tunnel.ip_len(len)
    }

    #[inline(always)]
    fn write(
        &self,
        link: &UsualLinkHeader,
        packet: &LeavingPacket,
        frame: &mut [u8],
    ) -> Option<()> {
        let LeavingPacket { direction, len, is_v6 } = *packet;
        self.outer.emit(&self.tunnel, link, direction, len, is_v6, frame)
    }
}

/// Charges a packet, turns it into the frame that leaves, and counts it for its session and URRs.
/// `None` if the packet has to take the stages; the frame is unchanged then.
#[inline(always)]
// PERF (adit-bench datapath): inlined, runs for every packet.
pub(super) fn depart<'v, B: PacketBuf, H: LeavingHeaders, const HAS_TAGS: bool>(
    ctx: &StepContext<'v>,
    ruled: RuledPacket<'_, 'v>,
    departure: Departure<'v, H>,
    burst: &mut BurstContext<'v, '_>,
    buf: &mut B,
) -> Option<Rewritten<'v>> {
    let RuledPacket { rule, packet, traits: PacketTraits { is_v6, rates } } = ruled;
    let Departure { direction, tx_link, headers, urrs } = departure;
    if !is_unchecked(ctx, rule, packet, rates, urrs) {
        return leave(buf, LeaveReason::UsageCheck);
    }
    if headers.ip_len(packet.len).is_none_or(|len| len > tx_link.mtu_bytes) {
        return leave(buf, LeaveReason::TooLong);
    }
    let passed = match B::IS_TRIAL {
        false => pass_rates(ctx, direction, rates, rule, packet, burst),
        true => try_rates(ctx, direction, rates, rule, packet, burst),
    };
    if passed.is_none() {
        return leave(buf, LeaveReason::RateClosed);
    }
    let received_len = buf.data_len();
    let tag_len = if HAS_TAGS { tx_link.tag_len() } else { 0 };
    let (cut, keep) = (usize::from(packet.offset), usize::from(packet.len));
    let Some(frame) = buf.replace_front(cut, tag_len + headers.len(), keep) else {
        return leave(buf, LeaveReason::NoHeadroom);
    };
    let frame_len = frame.len();
    let link = burst.hops.link_header(H::are_over_v6(is_v6));
    let leaving = LeavingPacket { direction, len: packet.len, is_v6 };
    headers.write(link, &leaving, frame.get_mut(tag_len..)?)?;
    if tag_len != 0 {
        link.write_tag(frame, tx_link.vlan)?;
    }
    if !B::IS_TRIAL {
        count_packet(ctx, direction, rule, packet, rates, urrs);
    }
    Some(Rewritten { tx_link, received_len, frame_len })
}

/// True if the stages need not check the packet. False if it may reach a limit of a URR, has to be
/// reported, or is the first packet of a URR's generation.
#[inline(always)]
// PERF (adit-bench datapath): inlined, runs for every packet.
fn is_unchecked(
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

/// Counts a packet, which [`is_unchecked`] must have admitted, for its URRs and its session.
#[inline(always)]
// PERF (adit-bench datapath): inlined, runs for every packet.
fn count_packet(
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

/// Returns the type of service or traffic class octet of the outer header of a packet.
#[inline(always)]
// PERF (adit-bench datapath): the packet is read only if the rule copies its octet.
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
