//! GTP-U messages that need no answer: they are consumed and, where somebody should know, reported.
//! Spec: TS 29.281 §7.2, §7.3.

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason, WorkerEvent};
use adit_types::{SessionIndex, Teid};
use adit_wire::GtpuPacket;
use adit_wire::gtpu::{ErrorIndication, MessageType};

use crate::outbound::Outbound;
use crate::stage::egress::Env;

/// Handles `message`, of which `gtpu` is the header and which is no Echo Request and no G-PDU.
///
/// # Errors
/// `GtpuMalformed` for an Error Indication without its elements; `TeidUnknown` for an End Marker of
/// no session; `GtpuMessageUnknown` for types that a UPF does not receive.
pub(super) fn handle<B: PacketBuf>(
    env: &Env<'_>,
    out: &mut Outbound<B>,
    gtpu: &GtpuPacket,
    message: &[u8],
) -> Result<PuntReason, DropReason> {
    match gtpu.message_type {
        MessageType::ECHO_RESPONSE => Ok(PuntReason::GtpuEchoResponse),
        MessageType::ERROR_INDICATION => {
            let ErrorIndication { teid, peer } = ErrorIndication::parse(gtpu.payload(message))
                .map_err(|_| DropReason::GtpuMalformed)?;
            out.events.push(&mut out.tally, WorkerEvent::ErrorIndication { peer, teid });
            Ok(PuntReason::GtpuErrorIndication)
        }
        MessageType::END_MARKER => {
            let session = find(env, gtpu.teid).ok_or(DropReason::TeidUnknown)?;
            out.events.push(&mut out.tally, WorkerEvent::EndMarker { session });
            Ok(PuntReason::GtpuEndMarker)
        }
        MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => {
            Ok(PuntReason::GtpuExtensionNotification)
        }
        _ => Err(DropReason::GtpuMessageUnknown),
    }
}

fn find(env: &Env<'_>, teid: Teid) -> Option<SessionIndex> {
    let mut session = [SessionIndex::NONE];
    env.view.lookup_teids(&[teid], &mut session);
    session.into_iter().find(|session| session.is_some())
}
