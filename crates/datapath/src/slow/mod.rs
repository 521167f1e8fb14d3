//! The slow path: packets that need an answer, handled after the bursts of a step.
//!
//! At most `SLOW_PER_STEP_MAX` packets per step; further ones are dropped and counted. Nothing here
//! survives the step. Answers are written into the buffer that asked.

mod arp;
mod command;
mod end_marker;
mod gtpu_echo;
mod gtpu_error;
mod gtpu_send;
mod gtpu_signalling;
mod http_redirect;
mod icmp;
mod icmp_error;
mod limiter;
mod neighbor_discovery;
mod neighbor_report;

use adit_pktio::{PacketBuf, PacketIo};
use adit_rules::{DropReason, PuntReason};
use adit_tables::Interface;
use adit_types::MacAddr;
use adit_types::limits::SLOW_PER_STEP_MAX;
use adit_wire::gtpu::GtpuMessageType;
use adit_wire::{GtpuPacket, IpPacket, parse_frame};
use arrayvec::ArrayVec;

pub(crate) use command::{run_commands, run_commands_before};
pub(crate) use gtpu_error::GtpuError;
use gtpu_signalling::ReceivedSignaling;
pub(crate) use http_redirect::Redirected;
pub(crate) use icmp_error::{IcmpError, IcmpErrorKind};
pub(crate) use limiter::SlowLimits;
use limiter::{RefillRate, TokenBucket};

use crate::interfaces::{LinkId, VlanLink};
use crate::stage::egress::StepContext;
use crate::tally::StepTally;
use crate::worker_state::{Origin, WorkerState};

/// What the slow path does with a packet to ourselves. Offsets are those of the frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SlowTask {
    /// ARP.
    Arp {
        /// Where the ARP packet begins.
        l3_offset: u8,
    },
    /// ICMP to one of our IPv4 addresses.
    Icmp {
        /// Where the IP header begins.
        l3_offset: u8,
        /// The IP header.
        ip: IpPacket,
    },
    /// ICMPv6 to one of our IPv6 addresses or to a group.
    Icmpv6 {
        /// Where the IP header begins.
        l3_offset: u8,
        /// The IP header.
        ip: IpPacket,
    },
    /// A GTP-U message other than a G-PDU.
    Gtpu {
        /// The IP header.
        ip: IpPacket,
        /// Source UDP port, to which answers go.
        src_port: u16,
        /// The GTP-U header.
        gtpu: GtpuPacket,
        /// Where the GTP-U header begins.
        message_offset: u16,
    },
}

enum SlowWork {
    Local(LinkId, SlowTask),
    Error(IcmpError),
    GtpuError(GtpuError),
    Redirected(Redirected),
}

struct SlowPacket<B> {
    buf: B,
    work: SlowWork,
}

/// Packets that wait for the end of the step.
pub(crate) struct SlowQueue<B> {
    packets: ArrayVec<SlowPacket<B>, SLOW_PER_STEP_MAX>,
}

impl<B> SlowQueue<B> {
    /// An empty queue.
    pub fn new() -> Self {
        Self { packets: ArrayVec::new() }
    }

    /// True without packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Queues a received packet; without room it is dropped as `SlowQueueFull`.
    #[cold]
    pub fn push(&mut self, buf: B, link: LinkId, task: SlowTask, tally: &mut StepTally) {
        if self.packets.try_push(SlowPacket { buf, work: SlowWork::Local(link, task) }).is_err() {
            tally.drop(DropReason::SlowQueueFull);
        }
    }

    /// Queues a received packet to be answered for its destination; without room it is dropped as
    /// `SlowQueueFull`.
    #[cold]
    pub fn push_redirected(&mut self, buf: B, redirected: Redirected, tally: &mut StepTally) {
        let work = SlowWork::Redirected(redirected);
        if self.packets.try_push(SlowPacket { buf, work }).is_err() {
            tally.drop(DropReason::SlowQueueFull);
        }
    }

    /// Queues an error about a packet that was counted as dropped; without room nobody is told.
    #[cold]
    pub fn push_error(&mut self, buf: B, error: IcmpError) {
        // The packet has its outcome already, and errors may be omitted (RFC 1812 §4.3.2.8).
        self.push_notice(buf, SlowWork::Error(error));
    }

    /// Queues an answer to a GTP-U message that was counted as dropped; without room nobody is told.
    #[cold]
    pub fn push_gtpu_error(&mut self, buf: B, error: GtpuError) {
        self.push_notice(buf, SlowWork::GtpuError(error));
    }

    /// Errors leave half of the queue to packets for ourselves.
    fn push_notice(&mut self, buf: B, work: SlowWork) {
        if self.packets.len() < SLOW_PER_STEP_MAX / 2 {
            self.packets.push(SlowPacket { buf, work });
        }
    }
}

/// Handles everything that was queued during the step; `limits` bound what is sent about others'
/// packets.
///
/// Shape:   drains `out.slow`; at most SLOW_PER_STEP_MAX packets.
/// Cost:    not bounded by the fast path's budget; runs after its frames were transmitted.
/// Errors:  none; every received packet ends in one punt or drop reason.
#[cold]
pub(crate) fn run<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    limits: &mut SlowLimits,
    out: &mut WorkerState<Io::Buf>,
) {
    for SlowPacket { buf, work } in core::mem::take(&mut out.slow.packets) {
        match work {
            SlowWork::Error(error) => icmp_error::send(env, io, &mut limits.icmp, out, buf, &error),
            SlowWork::GtpuError(error) => gtpu_error::send(env, io, limits, out, buf, error),
            SlowWork::Redirected(redirected) => {
                let limit = &mut limits.redirects;
                let outcome = http_redirect::answer(env, io, limit, out, buf, &redirected);
                settle(out, outcome);
            }
            SlowWork::Local(link, SlowTask::Gtpu { ip, gtpu, .. })
                if gtpu.message_type == GtpuMessageType::END_MARKER =>
            {
                let position = env.view.gtpu_peers().position(ip.addrs.src());
                let received = (link.port(), buf);
                end_marker::receive(env, io, limits, out, received, (gtpu.teid, position));
            }
            SlowWork::Local(link, task) => {
                let outcome = match env.interfaces.at(link) {
                    Some(link) => handle(env, io, limits, out, link, buf, &task),
                    // A link was found for every queued packet.
                    None => Err(DropReason::VlanUnknown),
                };
                settle(out, outcome);
            }
        }
    }
}

fn settle<B>(out: &mut WorkerState<B>, outcome: Result<PuntReason, DropReason>) {
    match outcome {
        Ok(reason) => out.tally.punt(reason),
        Err(reason) => out.tally.drop(reason),
    }
}

fn handle<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    limits: &mut SlowLimits,
    out: &mut WorkerState<Io::Buf>,
    link: &VlanLink,
    buf: Io::Buf,
    task: &SlowTask,
) -> Result<PuntReason, DropReason> {
    match *task {
        SlowTask::Arp { l3_offset } => arp::handle(env, io, limits, out, link, buf, l3_offset),
        SlowTask::Icmp { l3_offset, ip } => icmp::handle_v4(io, out, link, buf, l3_offset, &ip),
        SlowTask::Icmpv6 { l3_offset, ip } => {
            icmp::handle_v6(env, io, limits, out, link, buf, l3_offset, &ip)
        }
        SlowTask::Gtpu { ip, src_port, gtpu, message_offset } => {
            let message = buf.data().get(usize::from(message_offset)..).unwrap_or_default();
            let received = ReceivedSignaling { ip: &ip, src_port, gtpu: &gtpu, message };
            if gtpu.message_type == GtpuMessageType::ECHO_REQUEST {
                gtpu_signalling::on_echo(env, limits, out, &received);
                let echo = gtpu_echo::Echo { src_port, sequence: gtpu.sequence.unwrap_or(0) };
                return gtpu_echo::answer(env, io, out, link, buf, &ip, &echo);
            }
            gtpu_signalling::handle(env, limits, out, &received)
        }
    }
}

/// Transmits a frame that Adit made.
fn originate<Io: PacketIo>(
    io: &mut Io,
    out: &mut WorkerState<Io::Buf>,
    interface: &Interface,
    buf: Io::Buf,
) {
    let len = buf.data().len();
    out.queues.push(io, &mut out.tally, (interface.port, interface.id), (buf, len), Origin::Own);
}

/// The source hardware address of the frame in `buf`, to which answers go.
fn frame_source<B: PacketBuf>(buf: &B) -> Result<MacAddr, DropReason> {
    match parse_frame(buf.data()) {
        Ok(frame) if !frame.src.is_multicast() => Ok(frame.src),
        _ => Err(DropReason::FrameMalformed),
    }
}

/// Gives the packet in `buf` exactly `len` octets, whose contents are unspecified.
fn resize<B: PacketBuf>(buf: &mut B, len: usize) -> Option<&mut [u8]> {
    let have = buf.data().len();
    if have >= len {
        return buf.truncate(len).then(|| buf.data_mut());
    }
    buf.append(len - have)
}
