//! Answers received Echo Requests. Spec: TS 29.281 §7.2.1, §7.2.2, §4.4.2.

use adit_rules::{DropReason, PuntReason};
use adit_wire::IpPacket;
use adit_wire::gtpu::{ECHO_RESPONSE_LEN_MAX, emit_echo_response};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::interfaces::VlanLink;
use crate::originate::gtpu::{self, GtpuMessage};
use crate::slow::outcome::frame_source;
use crate::transmitter::Transmitter;

/// The fields of an Echo Request that its answer needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct EchoRequest<'p> {
    pub ip: &'p IpPacket,
    /// Its source UDP port, to which the response goes.
    pub src_port: u16,
    pub sequence: u16,
}

/// Answers the Echo Request in `buf`: from the address that it was sent to, to the address, port
/// and MAC address that it came from.
///
/// # Errors
/// `FrameMalformed` if the frame's source is no station; `HeadroomShort` if the headroom is too
/// short.
pub(super) fn answer<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    link: &VlanLink,
    buf: Io::Buf,
    EchoRequest { ip, src_port, sequence }: EchoRequest<'_>,
) -> Result<PuntReason, DropReason> {
    let asker = frame_source(&buf)?;
    let interface = link.owner(ip.addrs.dst()).ok_or(DropReason::GtpuNotOnN3)?;
    let mut octets = [0; ECHO_RESPONSE_LEN_MAX];
    let len = emit_echo_response(&mut octets, sequence, ctx.recovery_time_stamp)
        .map_err(|_| DropReason::HeadroomShort)?;
    let message = GtpuMessage {
        src: ip.addrs.dst(),
        dst: ip.addrs.src(),
        dst_port: src_port,
        tos: ip.tos,
        octets: octets.get(..len).unwrap_or_default(),
    };
    gtpu::send(tx, interface, buf, asker, &message)?;
    Ok(PuntReason::GtpuEchoRequest)
}
