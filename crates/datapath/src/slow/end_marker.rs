//! End Markers that close a tunnel whose traffic went elsewhere.
//!
//! The session's owner sends it when it sees the rules that left the tunnel: at the beginning of a
//! step, or in its middle right before the first packet that leaves by them. So every packet that
//! was sent through the old path is before it, and none went the new path yet: no other worker sends
//! packets of the session, and those on their way to the owner are treated by the new rules.
//! Spec: TS 29.281 §7.3.2; TS 23.501 §5.8.2.9.

use adit_pktio::PacketIo;
use adit_rules::GtpuTunnel;
use adit_types::{InterfaceRole, InterfaceSet};
use adit_wire::gtpu::{GtpuHeader, UDP_PORT, emit_end_marker};

use crate::interfaces::source_addr;
use crate::outbound::{Origin, Outbound};
use crate::slow::gtpu_send::{self, Message};
use crate::stage::egress::{Env, way_by_route};

/// Sends one End Marker through `tunnel`; one that cannot be sent is counted as lost.
pub(super) fn send<Io: PacketIo>(
    env: &Env<'_>,
    io: &mut Io,
    out: &mut Outbound<Io::Buf>,
    tunnel: GtpuTunnel,
) {
    let mut octets = [0; GtpuHeader::LEN];
    let len = emit_end_marker(&mut octets, tunnel.teid);
    let sent = len.ok().and_then(|len| {
        let way = way_by_route(env, InterfaceRole::N3, InterfaceSet::ALL, tunnel.addr)?;
        let src = source_addr(way.interface, tunnel.addr)?;
        let mut buf = io.alloc()?;
        let octets = octets.get(..len).unwrap_or_default();
        let message = Message { src, dst: tunnel.addr, dst_port: UDP_PORT, tos: 0, octets };
        gtpu_send::write(&mut buf, way.interface, way.mac_or_blank(), &message).ok()?;
        Some((buf, way))
    });
    match sent {
        Some((buf, way)) => out.send(env, io, buf, &way, Origin::Own),
        None => out.tally.lose_originated(),
    }
}
