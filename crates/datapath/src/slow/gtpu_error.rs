//! Sends errors to the sender of a GTP-U message: an Error Indication for a TEID that no session
//! has, a Supported Extension Headers Notification for an unknown extension header.
//!
//! Both go to the address that the message came from, to port 2152, and are written into the
//! message's buffer. Spec: TS 29.281 §7.2.3, §7.3.1, §4.4.2.4, §4.4.2.5.

use adit_pktio::PacketBuf;
use adit_types::{MacAddr, Teid};
use adit_wire::gtpu::{
    ERROR_INDICATION_LEN_MAX, ErrorIndication, UDP_PORT, emit_error_indication,
    emit_supported_extension_headers,
};
use adit_wire::gtpu_ext::ExtensionType;
use adit_wire::udp::UdpHeader;
use adit_wire::{IpAddrs, parse_frame, parse_ip};

use crate::context::StepContext;
use crate::departures::Departures;
use crate::originate::gtpu::{self, GtpuMessage};
use crate::reason::is_forwardable;
use crate::slow::outcome::frame_source;
use crate::slow_queue::GtpuError;
use crate::transmitter::Transmitter;

/// The extension headers that we read, or that we skip although receivers must comprehend them.
/// Spec: TS 29.281 §8.5.
const SUPPORTED_EXTENSIONS: [ExtensionType; 7] = [
    ExtensionType::UDP_PORT,
    ExtensionType::RAN_CONTAINER,
    ExtensionType::LONG_PDCP_PDU_NUMBER,
    ExtensionType::XW_RAN_CONTAINER,
    ExtensionType::NR_RAN_CONTAINER,
    ExtensionType::PDU_SESSION_CONTAINER,
    ExtensionType::PDCP_PDU_NUMBER,
];

/// Maximum length of a message that is sent here. Unit: octets.
const MESSAGE_LEN_MAX: usize = ERROR_INDICATION_LEN_MAX;
const _: () = assert!(MESSAGE_LEN_MAX >= 12 + 2 + SUPPORTED_EXTENSIONS.len());

/// Sends an error to the sender of the message in `buf`, within the limit. An error that cannot be
/// sent is counted as lost.
#[cold]
pub(super) fn send<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: Io::Buf,
    error: GtpuError,
) {
    // No error is sent about TEID zero, which never names a tunnel, nor while sessions are being
    // restored, because any TEID may then be that of a session.
    let is_untold = match error {
        GtpuError::TeidUnknown(teid) => teid == Teid(0) || ctx.view.is_restoring(),
        GtpuError::ExtensionUnknown => false,
    };
    if is_untold {
        return;
    }
    let Some(sender) = sender(&buf) else { return tx.lose_originated() };
    let position = ctx.view.gtpu_peers().position(sender.addrs.src());
    if !tx.limits.gtpu.take(ctx.now, position) {
        return;
    }
    if answer(ctx, tx, buf, &sender, error).is_none() {
        tx.lose_originated();
    }
}

/// The sender of a GTP-U message.
struct MessageSender {
    mac: MacAddr,
    addrs: IpAddrs,
    port: u16,
}

/// Returns the sender of the message in `buf`; `None` if it cannot be answered.
fn sender<B: PacketBuf>(buf: &B) -> Option<MessageSender> {
    let mac = frame_source(buf).ok()?;
    let frame = parse_frame(buf.data()).ok()?;
    let l3 = buf.data().get(usize::from(frame.l3_offset)..)?;
    let ip = parse_ip(l3, false).ok()?;
    let (udp, _) = UdpHeader::parse(ip.payload(l3)).ok()?;
    is_forwardable(&ip.addrs).then(|| MessageSender { mac, addrs: ip.addrs, port: udp.src_port() })
}

fn answer<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    buf: Io::Buf,
    sender: &MessageSender,
    error: GtpuError,
) -> Option<()> {
    let (src, dst) = (sender.addrs.dst(), sender.addrs.src());
    let interface = ctx.interfaces.gtpu_owner(src)?;
    let mut octets = [0; MESSAGE_LEN_MAX];
    let len = match error {
        GtpuError::TeidUnknown(teid) => {
            let indication = ErrorIndication { teid, peer: src };
            emit_error_indication(&mut octets, &indication, Some(sender.port)).ok()?
        }
        GtpuError::ExtensionUnknown => {
            emit_supported_extension_headers(&mut octets, &SUPPORTED_EXTENSIONS).ok()?
        }
    };
    let octets = octets.get(..len)?;
    let message = GtpuMessage { src, dst, dst_port: UDP_PORT, tos: 0, octets };
    gtpu::send(tx, interface, buf, sender.mac, &message).ok()
}
