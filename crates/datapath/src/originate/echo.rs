//! Sends GTP-U Echo Requests for the control thread. Spec: TS 29.281 §7.2.1, §4.4.2.

use core::net::IpAddr;

use adit_rules::WorkerEvent;
use adit_tables::tunnel_hash;
use adit_types::{InterfaceRole, InterfaceSet, Teid};
use adit_wire::gtpu::{ECHO_REQUEST_LEN_MAX, UDP_PORT, emit_echo_request};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::egress_by_route;
use crate::interfaces::source_addr;
use crate::origin::Origin;
use crate::originate::gtpu::{self, GtpuMessage};
use crate::transmitter::Transmitter;

/// The fields of an Echo Request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EchoProbe {
    pub peer: IpAddr,
    /// The interfaces that may lead to the peer.
    pub interfaces: InterfaceSet,
    /// Sequence number, which the response repeats.
    pub sequence: u16,
    /// ToS or Traffic Class of the packet.
    pub tos: u8,
}

/// Sends an Echo Request, and reports when it left. Without egress, buffer or the neighbor's
/// address the request is counted as lost; the control thread tries again.
pub(crate) fn request<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    ask: EchoProbe,
) {
    let EchoProbe { peer, interfaces, sequence, tos } = ask;
    let mut octets = [0; ECHO_REQUEST_LEN_MAX];
    let len = emit_echo_request(&mut octets, sequence, ctx.recovery_time_stamp);
    let sent = len.ok().and_then(|len| {
        let hash = || tunnel_hash(Teid(0), peer);
        let egress = egress_by_route(ctx, InterfaceRole::N3, interfaces, peer, hash)?;
        let src = source_addr(egress.interface, peer)?;
        let mut buf = tx.io.alloc()?;
        let message =
            GtpuMessage { src, dst: peer, dst_port: UDP_PORT, tos, octets: &octets[..len] };
        gtpu::write(&mut buf, egress.interface, egress.mac_or_blank(), &message).ok()?;
        Some((buf, egress))
    });
    match sent {
        Some((buf, egress)) => {
            ctx.view.gtpu_peers().expect_echo(peer, sequence);
            // Otherwise `send` counts the request as lost.
            let leaves_now = egress.mac.is_some();
            tx.send(ctx, buf, &egress, Origin::Own);
            if leaves_now {
                let event = WorkerEvent::EchoSent { peer, sequence, at: ctx.now };
                tx.books.report(event);
            }
        }
        None => tx.lose_originated(),
    }
}
