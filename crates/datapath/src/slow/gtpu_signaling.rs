//! Consumes GTP-U messages that need no answer, and reports some of them.
//! Spec: TS 29.281 §7.2, §7.3.

use adit_rules::{DropReason, PuntReason, WorkerEvent};
use adit_wire::gtpu::{ErrorIndication, GtpuMessageType, UDP_PORT};
use adit_wire::gtpu_ie::recovery_time_stamp;
use adit_wire::{GtpuPacket, IpPacket};

use crate::books::Books;
use crate::context::StepContext;
use crate::limits::{MessageLimits, RefillRate};

/// A received GTP-U message with its headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedSignaling<'a> {
    pub ip: &'a IpPacket,
    pub src_port: u16,
    pub gtpu: &'a GtpuPacket,
    /// The message from the GTP-U header on.
    pub message: &'a [u8],
}

impl ReceivedSignaling<'_> {
    fn payload(&self) -> &[u8] {
        self.gtpu.payload(self.message)
    }

    /// Returns the sender's index among the peers of sessions; `None` for a stranger.
    pub(super) fn position(&self, ctx: &StepContext<'_>) -> Option<u32> {
        ctx.view.gtpu_peers().position(self.ip.addrs.src())
    }
}

/// Handles a message that is neither an Echo Request, an End Marker nor a G-PDU.
///
/// # Errors
/// `GtpuMalformed` for an Error Indication without its elements; `GtpuMessageUnknown` for types
/// that a UPF does not receive.
pub(super) fn handle(
    ctx: &StepContext<'_>,
    limits: &mut MessageLimits,
    books: &mut Books,
    received: &ReceivedSignaling<'_>,
) -> Result<PuntReason, DropReason> {
    let ReceivedSignaling { gtpu, .. } = received;
    match gtpu.message_type {
        GtpuMessageType::ECHO_RESPONSE => {
            handle_echo_response(ctx, limits, books, received);
            Ok(PuntReason::GtpuEchoResponse)
        }
        GtpuMessageType::ERROR_INDICATION => {
            let ErrorIndication { teid, peer } = ErrorIndication::parse(received.payload())
                .map_err(|_| DropReason::GtpuMalformed)?;
            let may_report = limits.error_indications.take(ctx.now, received.position(ctx));
            books.report_limited(WorkerEvent::ErrorIndication { peer, teid }, may_report);
            Ok(PuntReason::GtpuErrorIndication)
        }
        GtpuMessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => {
            Ok(PuntReason::GtpuExtensionNotification)
        }
        _ => Err(DropReason::GtpuMessageUnknown),
    }
}

/// Reports an Echo Response. The response to a request of ours, which comes from the address and
/// port that the request went to, is reported without limit. The control thread also probes peers
/// of no session; their responses it matches itself, so such a stranger's response is reported
/// within a limit. Spec: TS 29.281 §4.4.2.2, §7.2.2.
fn handle_echo_response(
    ctx: &StepContext<'_>,
    limits: &mut MessageLimits,
    books: &mut Books,
    received: &ReceivedSignaling<'_>,
) {
    let (peer, sequence) = (received.ip.addrs.src(), received.gtpu.sequence.unwrap_or(0));
    let recovery = recovery_time_stamp(received.payload());
    let event = WorkerEvent::EchoResponse { peer, sequence, recovery, at: ctx.now };
    let is_from_port = received.src_port == UDP_PORT;
    if is_from_port && ctx.view.gtpu_peers().claim_echo(peer, sequence) {
        books.report(event);
        return;
    }
    let is_stranger = is_from_port && received.position(ctx).is_none();
    let may_report = is_stranger && limits.echo_responses.take(ctx.now, RefillRate::STRANGERS);
    books.report_limited(event, may_report);
}

/// Reports the Recovery Time Stamp of an Echo Request if the request has one and comes from a peer
/// of sessions.
pub(super) fn on_echo(
    ctx: &StepContext<'_>,
    limits: &mut MessageLimits,
    books: &mut Books,
    received: &ReceivedSignaling<'_>,
) {
    let Some(recovery) = recovery_time_stamp(received.payload()) else { return };
    let position = received.position(ctx);
    let may_report = position.is_some() && limits.recoveries.take(ctx.now, position);
    let event = WorkerEvent::EchoRequest { peer: received.ip.addrs.src(), recovery };
    books.report_limited(event, may_report);
}
