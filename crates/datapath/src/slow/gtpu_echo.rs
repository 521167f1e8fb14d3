//! GTP-U path management: Echo Request is answered, and sent when the control thread asks.
//! Spec: TS 29.281 §7.2.1, §7.2.2, §4.4.2.

use core::net::IpAddr;

use adit_pktio::PacketIo;
use adit_rules::{DropReason, PuntReason, WorkerEvent};
use adit_types::{InterfaceRole, InterfaceSet};
use adit_wire::IpPacket;
use adit_wire::gtpu::{
    ECHO_REQUEST_LEN_MAX, ECHO_RESPONSE_LEN_MAX, UDP_PORT, emit_echo_request, emit_echo_response,
};

use crate::interfaces::{VlanLink, source_addr};
use crate::slow::frame_source;
use crate::slow::gtpu_send::{self, GtpuMessage};
use crate::stage::egress::{StepContext, egress_by_route};
use crate::worker_state::{Origin, WorkerState};

/// What an Echo Response says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Echo {
    /// Source UDP port of the request, destination of the response.
    pub src_port: u16,
    /// Sequence number of the request.
    pub sequence: u16,
}

/// What a command asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct EchoProbe {
    /// The GTP-U peer.
    pub peer: IpAddr,
    /// The interfaces that may lead there.
    pub interfaces: InterfaceSet,
    /// Sequence number, repeated in the response.
    pub sequence: u16,
    /// ToS or Traffic Class of the packet.
    pub tos: u8,
}

/// Answers the Echo Request in `buf`, of which `ip` is the header, from the address and to the port
/// and station that it came from.
///
/// # Errors
/// `FrameMalformed` without a station to answer; `HeadroomShort` without room.
pub(super) fn answer<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    link: &VlanLink,
    buf: Io::Buf,
    ip: &IpPacket,
    echo: &Echo,
) -> Result<PuntReason, DropReason> {
    let asker = frame_source(&buf)?;
    let interface = link.owner(ip.addrs.dst()).ok_or(DropReason::GtpuNotOnN3)?;
    let mut octets = [0; ECHO_RESPONSE_LEN_MAX];
    let len = emit_echo_response(&mut octets, echo.sequence, env.recovery_time_stamp)
        .map_err(|_| DropReason::HeadroomShort)?;
    let message = GtpuMessage {
        src: ip.addrs.dst(),
        dst: ip.addrs.src(),
        dst_port: echo.src_port,
        tos: ip.tos,
        octets: octets.get(..len).unwrap_or_default(),
    };
    gtpu_send::send(io, out, interface, buf, asker, &message)?;
    Ok(PuntReason::GtpuEchoRequest)
}

/// Sends an Echo Request, and tells when. What cannot be sent for want of a way, a buffer or the
/// station's address is counted as lost; the control thread asks again.
pub(super) fn request<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    ask: EchoProbe,
) {
    let EchoProbe { peer, interfaces, sequence, tos } = ask;
    let mut octets = [0; ECHO_REQUEST_LEN_MAX];
    let len = emit_echo_request(&mut octets, sequence, env.recovery_time_stamp);
    let sent = len.ok().and_then(|len| {
        let way = egress_by_route(env, InterfaceRole::N3, interfaces, peer)?;
        let src = source_addr(way.interface, peer)?;
        let mut buf = io.alloc()?;
        let message =
            GtpuMessage { src, dst: peer, dst_port: UDP_PORT, tos, octets: &octets[..len] };
        gtpu_send::write(&mut buf, way.interface, way.mac_or_blank(), &message).ok()?;
        Some((buf, way))
    });
    match sent {
        Some((buf, way)) => {
            env.view.gtpu_peers().expect_echo(peer, sequence);
            // A request that waits for its neighbor's address leaves at another time.
            let leaves_now = way.mac.is_some();
            out.send(env, io, buf, &way, Origin::Own);
            if leaves_now {
                let event = WorkerEvent::EchoSent { peer, sequence, at: env.now };
                out.events.push(&mut out.tally, event);
            }
        }
        None => out.tally.lose_originated(),
    }
}
