//! The departure of a packet by its fast rule, once the rule matches and the next hop is known:
//! limits, MTU, rates, headers, counters. It is the same for all packets. The rewrites of
//! `direction` and `relay` differ in what a packet has to match, where it goes, and the headers
//! that it leaves with.

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

/// Traits of a packet that the loop over a burst reads.
#[derive(Clone, Copy)]
pub(super) struct PacketTraits {
    pub is_v6: bool,
    /// The rates that it may have to pass.
    pub rates: BurstRates,
}

/// A packet and its fast rule.
pub(super) struct RuledPacket<'p, 'v> {
    pub rule: &'p FastRuleSnapshot<'v>,
    pub packet: &'p mut FastPacket<'v>,
    pub traits: PacketTraits,
}

/// Where and how a packet leaves.
pub(super) struct Departure<'v, H> {
    pub direction: Direction,
    pub tx_link: &'v TxLink,
    pub headers: H,
    /// The URRs of its rule in addition to the session's own one.
    pub urrs: fn(&FastRuleSnapshot<'_>) -> FastRuleUrrs,
}

/// A packet that became the frame that leaves.
pub(super) struct Rewritten<'v> {
    pub tx_link: &'v TxLink,
    /// Length of the received frame. Unit: octets.
    pub received_len: usize,
    /// Length of the frame that leaves. Unit: octets.
    pub frame_len: usize,
}

/// The user's packet, as headers around it need it.
pub(super) struct LeavingPacket {
    direction: Direction,
    /// Unit: octets.
    len: u16,
    is_v6: bool,
}

/// The headers in front of the user's packet in the frame that leaves.
pub(super) trait LeavingHeaders {
    /// True if the link header is that of IPv6. `is_v6`: the user's packet is.
    fn are_over_v6(is_v6: bool) -> bool;

    /// Their octets, without a tag.
    fn len(&self) -> usize;

    /// Length of the IP packet that leaves; `None` above 65,535. `len`: that of the user's packet.
    fn ip_len(&self, len: u16) -> Option<u16>;

    /// Writes them at the front of a frame without a tag, and decrements the hops of the user's
    /// packet behind them. Never `None`: there is room for them, and their length fields hold the
    /// length.
    fn write(&self, link: &UsualLinkHeader, packet: &LeavingPacket, frame: &mut [u8])
    -> Option<()>;
}

/// The link header alone.
pub(super) struct NoTunnel;

impl LeavingHeaders for NoTunnel {
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

/// A tunnel over IPv4.
pub(super) struct OverV4<'v> {
    outer: &'v UsualOuter,
    tunnel: UsualTunnel,
    /// Routers may fragment the outer packet.
    may_fragment: bool,
}

impl<'v> OverV4<'v> {
    /// The headers of a tunnel that leaves through a link; `None` if the link has no tunnels over
    /// IPv4.
    #[inline(always)]
    pub(super) fn through<const HAS_TAGS: bool>(
        tx_link: &'v TxLink,
        tunnel: UsualTunnel,
    ) -> Option<Self> {
        let outer = tx_link.outer.as_ref()?;
        // Links without DF have loops with tags.
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

/// A tunnel over IPv6.
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
/// `None`: the frame is unchanged, and the packet takes the stages.
#[inline(always)]
// PERF (adit-bench datapath): once per packet.
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

/// False if the stages have to check the packet: it may reach a limit of a URR, has to be reported,
/// or is the first of a generation.
#[inline(always)]
// PERF (adit-bench datapath): once per packet.
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

/// Counts a packet for its URRs and its session, after [`is_unchecked`].
#[inline(always)]
// PERF (adit-bench datapath): once per packet.
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
