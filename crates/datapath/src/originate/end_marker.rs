//! Writes and sends End Markers. Spec: TS 29.281 §7.3.2.

use adit_pktio::PacketBuf;
use adit_rules::GtpuTunnel;
use adit_tables::tunnel_hash;
use adit_types::{InterfaceRole, InterfaceSet, Qfi, SessionIndex};
use adit_wire::gtpu::{END_MARKER_LEN_MAX, UDP_PORT, emit_end_marker};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::{Egress, egress_by_route};
use crate::interfaces::source_addr;
use crate::origin::Origin;
use crate::originate::gtpu::{self, GtpuMessage};
use crate::transmitter::Transmitter;

/// The fields of an End Marker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TunnelEndMarker {
    /// The tunnel that it closes.
    pub tunnel: GtpuTunnel,
    /// The QoS flow that the End Marker is limited to, if any.
    pub qfi: Option<Qfi>,
    /// Type of service or traffic class octet.
    pub tos: u8,
    /// The session whose packets the End Marker follows.
    pub session: SessionIndex,
}

/// Sends an End Marker through one of `interfaces`. Counts it as lost if it cannot be sent.
pub(crate) fn send<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    interfaces: InterfaceSet,
    marker: TunnelEndMarker,
) {
    let GtpuTunnel { teid, addr } = marker.tunnel;
    let hash = || tunnel_hash(teid, addr);
    let egress = egress_by_route(ctx, InterfaceRole::N3, interfaces, addr, hash);
    let sent = egress.and_then(|egress| {
        let mut buf = tx.io.alloc()?;
        tx.io.mark(&mut buf, marker.session);
        write(&mut buf, &egress, marker).then_some((buf, egress))
    });
    match sent {
        Some((buf, egress)) => tx.send(ctx, buf, &egress, Origin::EndMarker),
        None => tx.lose_originated(),
    }
}

/// Writes an End Marker into `buf`. Returns false if there is no room, or if the interface has no
/// address of the tunnel's IP version.
pub(crate) fn write<B: PacketBuf>(
    buf: &mut B,
    egress: &Egress<'_>,
    TunnelEndMarker { tunnel, qfi, tos, .. }: TunnelEndMarker,
) -> bool {
    let mut octets = [0; END_MARKER_LEN_MAX];
    let Ok(len) = emit_end_marker(&mut octets, tunnel.teid, qfi) else { return false };
    let Some(src) = source_addr(egress.interface, tunnel.addr) else { return false };
    let octets = octets.get(..len).unwrap_or_default();
    let message = GtpuMessage { src, dst: tunnel.addr, dst_port: UDP_PORT, tos, octets };
    gtpu::write(buf, egress.interface, egress.mac_or_blank(), &message).is_ok()
}
