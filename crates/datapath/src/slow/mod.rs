//! The slow path: handles packets that need an answer after the bursts of a step.
//!
//! At most `SLOW_PER_STEP_MAX` packets are handled per step; others are dropped and counted. No
//! packet stays here beyond the step. An answer is written into the buffer of the request.

mod arp;
mod end_marker;
mod gtpu_echo;
mod gtpu_error;
mod gtpu_signaling;
mod http_redirect;
mod icmp;
mod icmp_error;
mod kernel_twin;
mod neighbor_discovery;
mod neighbor_report;
mod outcome;
mod path_mtu;
mod tapped;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason, TapStage};
use adit_wire::gtpu::GtpuMessageType;

pub(crate) use self::end_marker::pass_on_held;
use self::gtpu_signaling::ReceivedSignaling;
use self::neighbor_discovery::ReceivedIcmp;
use self::outcome::count_outcome;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::held_end_markers::ReceivedEndMarker;
use crate::interfaces::VlanLink;
use crate::slow_queue::{SlowPacket, SlowTask, SlowWork};
use crate::transmitter::Transmitter;
use crate::worker_state::WorkerState;

/// Handles all packets that were queued during the step, within the limits of messages that
/// received packets cause.
///
/// Shape:   drains `state.queues.slow`; at most SLOW_PER_STEP_MAX packets.
/// Cost:    may exceed the fast path's cost per packet; runs after the bursts' frames were sent.
/// Errors:  none; every received packet ends in one punt or drop reason.
#[cold]
pub(crate) fn run<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    state: &mut WorkerState<Io::Buf>,
) {
    for packet in core::mem::take(&mut state.queues.slow.packets) {
        let record = tapped::begin(ctx, io, &packet, state);
        let SlowPacket { buf, work } = packet;
        match work {
            SlowWork::Error(error) => {
                icmp_error::send(ctx, &mut state.transmitter(io), buf, &error);
            }
            SlowWork::GtpuError(error) => {
                gtpu_error::send(ctx, &mut state.transmitter(io), buf, error);
            }
            SlowWork::RedirectedSegment(redirected) => {
                let tx = &mut state.transmitter(io);
                let outcome = http_redirect::answer(ctx, tx, buf, &redirected);
                count_outcome(&mut tx.books.tally, outcome);
            }
            SlowWork::Local(link, SlowTask::Gtpu { ip, gtpu, .. })
                if gtpu.message_type == GtpuMessageType::END_MARKER =>
            {
                let position = ctx.view.gtpu_peers().position(ip.addrs.src());
                let (port, teid) = (link.port(), gtpu.teid);
                let received = ReceivedEndMarker { buf, port, teid, peer: position };
                end_marker::receive(ctx, io, state, received);
            }
            SlowWork::Local(link, task) => {
                let tx = &mut state.transmitter(io);
                let outcome = match ctx.interfaces.at(link) {
                    Some(link) => handle(ctx, tx, link, buf, &task),
                    // Cannot happen: the link of every queued packet was found.
                    None => Err(DropReason::VlanUnknown),
                };
                count_outcome(&mut tx.books.tally, outcome);
            }
        }
        if let Some(record) = record {
            record.end(io, TapStage::Slow, state);
        }
    }
}

fn handle<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    link: &VlanLink,
    buf: Io::Buf,
    task: &SlowTask,
) -> Result<PuntReason, DropReason> {
    if let Some(interface) = link.first()
        && tx.queues.kernel.as_ref().is_some_and(|twins| twins.has(interface))
        && let Some(outcome) = kernel_twin::share(ctx, tx, link, &buf, task)
    {
        return outcome;
    }
    match *task {
        SlowTask::Arp { l3_offset } => arp::handle(ctx, tx, link, buf, l3_offset),
        SlowTask::Icmp { l3_offset, ip } => {
            icmp::handle_v4(ctx, tx, buf, ReceivedIcmp { link, l3_offset, ip: &ip })
        }
        SlowTask::Icmpv6 { l3_offset, ip } => {
            icmp::handle_v6(ctx, tx, buf, ReceivedIcmp { link, l3_offset, ip: &ip })
        }
        SlowTask::Gtpu { ip, src_port, gtpu, message_offset } => {
            let message = buf.data().get(usize::from(message_offset)..).unwrap_or_default();
            let received = ReceivedSignaling { ip: &ip, src_port, gtpu: &gtpu, message };
            if gtpu.message_type == GtpuMessageType::ECHO_REQUEST {
                gtpu_signaling::on_echo(ctx, tx.limits, tx.books, &received);
                let sequence = gtpu.sequence.unwrap_or(0);
                let request = gtpu_echo::EchoRequest { ip: &ip, src_port, sequence };
                return gtpu_echo::answer(ctx, tx, link, buf, request);
            }
            gtpu_signaling::handle(ctx, tx.limits, tx.books, &received)
        }
    }
}
