//! Handles messages of routers about the MTU of the paths to GTP-U peers. This module checks that
//! this node can have sent the quoted packet; the control thread checks whether a session sends
//! into the quoted tunnel. Spec: RFC 1191 §3, §7; RFC 8201 §4; TS 29.281 §4.2.4.

use core::net::IpAddr;

use adit_rules::{DropReason, PuntReason, WorkerEvent};
use adit_wire::QuotedGpdu;

use crate::books::Books;
use crate::context::StepContext;
use crate::limits::MessageLimits;

/// MTUs of common links, for routers that name no MTU. Unit: octets. Spec: RFC 1191 §7.1.
const MTU_PLATEAUS: [u16; 6] = [8166, 4352, 2002, 1492, 1006, IPV4_MTU_MIN];

/// Minimum MTU that is accepted for a path over IPv4, as hosts do: a smaller value is a mistake or
/// a forgery. Unit: octets.
const IPV4_MTU_MIN: u16 = 552;

/// Minimum MTU of an IPv6 link. Unit: octets. Spec: RFC 8200 §5.
const IPV6_MTU_MIN: u16 = 1280;

/// A router's message that a packet exceeds an MTU.
pub(super) struct PacketExceeds<'a> {
    pub router: IpAddr,
    /// The MTU in the message; zero from routers that predate RFC 1191.
    pub mtu_bytes: u32,
    /// The first octets of the packet.
    pub quote: &'a [u8],
}

/// Reports the message, within its limit.
///
/// # Errors
/// `IcmpQuoteUnknown` if the message quotes no G-PDU from us to a peer that exceeds its MTU.
pub(super) fn handle(
    ctx: &StepContext<'_>,
    limits: &mut MessageLimits,
    books: &mut Books,
    said: &PacketExceeds<'_>,
) -> Result<PuntReason, DropReason> {
    let (quoted, mtu_bytes, position) =
        plausible_quote(ctx, said).ok_or(DropReason::IcmpQuoteUnknown)?;
    let QuotedGpdu { dst: peer, teid, .. } = quoted;
    let may_report = limits.path_mtus.take(ctx.now, Some(position));
    let router = said.router;
    let event = WorkerEvent::PathNarrowed { peer, teid, router, mtu_bytes };
    books.report_limited(event, may_report);
    Ok(PuntReason::PathMtu)
}

/// Returns the quoted packet, the MTU and the index of the peer if this node can have sent the
/// packet.
fn plausible_quote(
    ctx: &StepContext<'_>,
    said: &PacketExceeds<'_>,
) -> Option<(QuotedGpdu, u16, u32)> {
    let quoted = QuotedGpdu::read(said.quote)?;
    let interface = ctx.interfaces.gtpu_owner(quoted.src)?;
    let position = ctx.view.gtpu_peers().position(quoted.dst)?;
    let said = u16::try_from(said.mtu_bytes).ok()?;
    let mtu_bytes = match (quoted.dst.is_ipv4(), said) {
        (true, 0) => *MTU_PLATEAUS.iter().find(|mtu| usize::from(**mtu) < quoted.total_len)?,
        (true, _) => said.max(IPV4_MTU_MIN),
        (false, _) => Some(said).filter(|mtu| *mtu >= IPV6_MTU_MIN)?,
    };
    let sent = usize::from(mtu_bytes) + 1..=interface.mtu_bytes.into();
    sent.contains(&quoted.total_len).then_some((quoted, mtu_bytes, position))
}
