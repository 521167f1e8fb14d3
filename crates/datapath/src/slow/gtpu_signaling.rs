//! GTP-U messages that need no answer: they are consumed and, if relevant, reported.
//! Spec: TS 29.281 §7.2, §7.3.

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason, WorkerEvent};
use adit_wire::gtpu::{ErrorIndication, GtpuMessageType, UDP_PORT};
use adit_wire::gtpu_ie::recovery_time_stamp;
use adit_wire::{GtpuPacket, IpPacket};

use crate::context::StepContext;
use crate::slow::limiter::{RefillRate, SlowLimits};
use crate::worker_state::WorkerState;

/// A GTP-U message as received.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedSignaling<'a> {
    /// The IP header.
    pub ip: &'a IpPacket,
    /// Source UDP port.
    pub src_port: u16,
    /// The GTP-U header.
    pub gtpu: &'a GtpuPacket,
    /// The message from the GTP-U header on.
    pub message: &'a [u8],
}

impl ReceivedSignaling<'_> {
    fn payload(&self) -> &[u8] {
        self.gtpu.payload(self.message)
    }

    /// The sender's position among the peers that sessions send to; `None` for a stranger.
    pub(super) fn position(&self, ctx: &StepContext<'_>) -> Option<u32> {
        ctx.view.gtpu_peers().position(self.ip.addrs.src())
    }
}

/// Handles a message that is neither an Echo Request, an End Marker nor a G-PDU.
///
/// # Errors
/// `GtpuMalformed` for an Error Indication without its elements; `GtpuMessageUnknown` for types
/// that a UPF does not receive.
pub(super) fn handle<B: PacketBuf>(
    ctx: &StepContext<'_>,
    limits: &mut SlowLimits,
    state: &mut WorkerState<B>,
    received: &ReceivedSignaling<'_>,
) -> Result<PuntReason, DropReason> {
    let ReceivedSignaling { gtpu, .. } = received;
    match gtpu.message_type {
        GtpuMessageType::ECHO_RESPONSE => {
            handle_echo_response(ctx, limits, state, received);
            Ok(PuntReason::GtpuEchoResponse)
        }
        GtpuMessageType::ERROR_INDICATION => {
            let ErrorIndication { teid, peer } = ErrorIndication::parse(received.payload())
                .map_err(|_| DropReason::GtpuMalformed)?;
            let may_report = limits.error_indications.take(ctx.now, received.position(ctx));
            report(state, WorkerEvent::ErrorIndication { peer, teid }, may_report);
            Ok(PuntReason::GtpuErrorIndication)
        }
        GtpuMessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => {
            Ok(PuntReason::GtpuExtensionNotification)
        }
        _ => Err(DropReason::GtpuMessageUnknown),
    }
}

/// Reports the response to a request of ours, whatever else arrives. It comes from the address and
/// port that the request went to. The control thread also probes peers that no session sends to;
/// their responses are the control thread's to match. Spec: TS 29.281 §4.4.2.2, §7.2.2.
fn handle_echo_response<B: PacketBuf>(
    ctx: &StepContext<'_>,
    limits: &mut SlowLimits,
    state: &mut WorkerState<B>,
    received: &ReceivedSignaling<'_>,
) {
    let (peer, sequence) = (received.ip.addrs.src(), received.gtpu.sequence.unwrap_or(0));
    let recovery = recovery_time_stamp(received.payload());
    let event = WorkerEvent::EchoResponse { peer, sequence, recovery, at: ctx.now };
    let is_from_port = received.src_port == UDP_PORT;
    if is_from_port && ctx.view.gtpu_peers().claim_echo(peer, sequence) {
        state.events.push(&mut state.tally, event);
        return;
    }
    let is_stranger = is_from_port && received.position(ctx).is_none();
    let may_report = is_stranger && limits.echo_responses.take(ctx.now, RefillRate::STRANGERS);
    report(state, event, may_report);
}

/// Reports the Recovery Time Stamp of an Echo Request, if it has one and sessions send to its
/// sender.
pub(super) fn on_echo<B: PacketBuf>(
    ctx: &StepContext<'_>,
    limits: &mut SlowLimits,
    state: &mut WorkerState<B>,
    received: &ReceivedSignaling<'_>,
) {
    let Some(recovery) = recovery_time_stamp(received.payload()) else { return };
    let position = received.position(ctx);
    let may_report = position.is_some() && limits.recoveries.take(ctx.now, position);
    let event = WorkerEvent::EchoRequest { peer: received.ip.addrs.src(), recovery };
    report(state, event, may_report);
}

/// Reports an event if `may_report`, and leaves room for other events; otherwise counts it as
/// limited.
pub(super) fn report<B: PacketBuf>(
    state: &mut WorkerState<B>,
    event: WorkerEvent,
    may_report: bool,
) {
    if may_report {
        state.events.push_unsolicited(&mut state.tally, event);
    } else {
        state.tally.drop_event();
    }
}
