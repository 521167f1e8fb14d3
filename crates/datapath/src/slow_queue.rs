//! Packets for the slow path, which runs after the bursts of a step.

use adit_rules::DropReason;
use adit_types::limits::SLOW_PER_STEP_MAX;
use adit_types::{Direction, InterfaceSet, SessionIndex, Teid};
use adit_wire::{GtpuPacket, IpPacket};
use arrayvec::ArrayVec;

use crate::interfaces::LinkId;
use crate::tally::StepTally;

/// A packet to ourselves for the slow path. Offsets are those of the frame.
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

/// Why a packet could not be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IcmpErrorKind {
    /// TTL or hop limit ran out.
    TimeExceeded,
    /// It is longer than the MTU of its egress.
    PacketTooBig {
        /// The MTU for the packet. Unit: octets of the user's IP packet.
        mtu: u16,
    },
}

/// An error about a packet that was dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IcmpError {
    /// Why it could not be forwarded.
    pub kind: IcmpErrorKind,
    /// The direction of the packet; the error goes the other way.
    pub direction: Direction,
    /// Interfaces towards the packet's data network: the error to a host there leaves through one
    /// of them, the error to a UE counts as coming from there.
    pub network: InterfaceSet,
    /// Where the packet begins in its buffer.
    pub ip_offset: u16,
    /// Its header.
    pub ip: IpPacket,
}

/// The fault of a GTP-U message that was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GtpuError {
    /// A G-PDU to a TEID of no session.
    TeidUnknown(Teid),
    /// A message with an extension header that must be understood and is not.
    ExtensionUnknown,
}

/// A TCP segment of a UE that is redirected to a URL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Redirected {
    /// The UE's session.
    pub session: SessionIndex,
    /// Position of the FAR that redirects in the session's rules.
    pub far: usize,
    /// Where the packet begins in its buffer.
    pub ip_offset: u16,
    /// Its header.
    pub ip: IpPacket,
}

/// Work of the slow path on a packet.
pub(crate) enum SlowWork {
    Local(LinkId, SlowTask),
    Error(IcmpError),
    GtpuError(GtpuError),
    Redirected(Redirected),
}

/// A packet for the slow path.
pub(crate) struct SlowPacket<B> {
    pub buf: B,
    pub work: SlowWork,
}

/// Packets that wait for the end of the step.
pub(crate) struct SlowQueue<B> {
    pub packets: ArrayVec<SlowPacket<B>, SLOW_PER_STEP_MAX>,
}

impl<B> SlowQueue<B> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Self { packets: ArrayVec::new() }
    }

    /// True without packets.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Queues a received packet; without room it is dropped as `SlowQueueFull`.
    #[cold]
    pub(crate) fn push(&mut self, buf: B, link: LinkId, task: SlowTask, tally: &mut StepTally) {
        if self.packets.try_push(SlowPacket { buf, work: SlowWork::Local(link, task) }).is_err() {
            tally.drop(DropReason::SlowQueueFull);
        }
    }

    /// Queues a received packet to be answered for its destination; without room it is dropped as
    /// `SlowQueueFull`.
    #[cold]
    pub(crate) fn push_redirected(
        &mut self,
        buf: B,
        redirected: Redirected,
        tally: &mut StepTally,
    ) {
        let work = SlowWork::Redirected(redirected);
        if self.packets.try_push(SlowPacket { buf, work }).is_err() {
            tally.drop(DropReason::SlowQueueFull);
        }
    }

    /// Queues an error about a packet that was counted as dropped; without room it is not sent.
    #[cold]
    pub(crate) fn push_error(&mut self, buf: B, error: IcmpError) {
        // The packet has its outcome already, and errors may be omitted (RFC 1812 §4.3.2.8).
        self.push_notice(buf, SlowWork::Error(error));
    }

    /// Queues an answer to a GTP-U message that was counted as dropped; without room it is not
    /// sent.
    #[cold]
    pub(crate) fn push_gtpu_error(&mut self, buf: B, error: GtpuError) {
        self.push_notice(buf, SlowWork::GtpuError(error));
    }

    /// Errors leave half of the queue to packets for ourselves.
    fn push_notice(&mut self, buf: B, work: SlowWork) {
        if self.packets.len() < SLOW_PER_STEP_MAX / 2 {
            self.packets.push(SlowPacket { buf, work });
        }
    }
}
