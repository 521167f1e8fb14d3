//! GTP-U messages that need no answer: they are consumed and, where somebody should know, reported.
//! Spec: TS 29.281 §7.2, §7.3.

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason, WorkerEvent};
use adit_types::{SessionIndex, Teid};
use adit_wire::gtpu::{ErrorIndication, MessageType};
use adit_wire::gtpu_ie::recovery_time_stamp;
use adit_wire::{GtpuPacket, IpPacket};

use crate::outbound::Outbound;
use crate::slow::TokenBucket;
use crate::stage::egress::Env;

/// Handles `message` in the packet `ip`, of which `gtpu` is the header and which is no Echo Request and no G-PDU.
///
/// # Errors
/// `GtpuMalformed` for an Error Indication without its elements; `TeidUnknown` for an End Marker of
/// no session; `GtpuMessageUnknown` for types that a UPF does not receive.
pub(super) fn handle<B: PacketBuf>(
    env: &Env<'_>,
    reports: &mut TokenBucket,
    out: &mut Outbound<B>,
    ip: &IpPacket,
    gtpu: &GtpuPacket,
    message: &[u8],
) -> Result<PuntReason, DropReason> {
    match gtpu.message_type {
        MessageType::ECHO_RESPONSE => {
            let (peer, sequence) = (ip.addrs.src(), gtpu.sequence.unwrap_or(0));
            let recovery = recovery_time_stamp(gtpu.payload(message));
            let event = WorkerEvent::EchoResponse { peer, sequence, recovery, at: env.now };
            report(env, reports, out, event);
            Ok(PuntReason::GtpuEchoResponse)
        }
        MessageType::ERROR_INDICATION => {
            let ErrorIndication { teid, peer } = ErrorIndication::parse(gtpu.payload(message))
                .map_err(|_| DropReason::GtpuMalformed)?;
            report(env, reports, out, WorkerEvent::ErrorIndication { peer, teid });
            Ok(PuntReason::GtpuErrorIndication)
        }
        MessageType::END_MARKER => {
            let session = find(env, gtpu.teid).ok_or(DropReason::TeidUnknown)?;
            report(env, reports, out, WorkerEvent::EndMarker { session });
            Ok(PuntReason::GtpuEndMarker)
        }
        MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => {
            Ok(PuntReason::GtpuExtensionNotification)
        }
        _ => Err(DropReason::GtpuMessageUnknown),
    }
}

/// Tells when the sender of an Echo Request started, if that says so.
pub(super) fn hear<B: PacketBuf>(
    env: &Env<'_>,
    reports: &mut TokenBucket,
    out: &mut Outbound<B>,
    ip: &IpPacket,
    gtpu: &GtpuPacket,
    message: &[u8],
) {
    if let Some(recovery) = recovery_time_stamp(gtpu.payload(message)) {
        let event = WorkerEvent::EchoRequest { peer: ip.addrs.src(), recovery };
        report(env, reports, out, event);
    }
}

/// Tells the control thread, unless there was too much to tell: others must keep their place in the
/// ring.
fn report<B: PacketBuf>(
    env: &Env<'_>,
    reports: &mut TokenBucket,
    out: &mut Outbound<B>,
    event: WorkerEvent,
) {
    if reports.take(env.now) {
        out.events.push(&mut out.tally, event);
    } else {
        out.tally.lose_event();
    }
}

fn find(env: &Env<'_>, teid: Teid) -> Option<SessionIndex> {
    let mut session = [SessionIndex::NONE];
    env.view.lookup_teids(&[teid], &mut session);
    session.into_iter().find(|session| session.is_some())
}
