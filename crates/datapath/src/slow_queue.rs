//! The queue of packets for the slow path, which runs after the bursts of a step.

use adit_rules::DropReason;
use adit_types::limits::SLOW_PER_STEP_MAX;
use adit_types::{Direction, InterfaceSet, SessionIndex, Teid};
use adit_wire::{GtpuPacket, IpPacket};
use arrayvec::ArrayVec;

use crate::interfaces::LinkId;
use crate::tally::StepTally;

/// The slow path's task with a packet to Adit itself. Offsets are from the start of the frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SlowTask {
    Arp {
        /// Offset of the ARP packet.
        l3_offset: u8,
    },
    /// ICMP to one of our IPv4 addresses.
    Icmp {
        /// Offset of the IP header.
        l3_offset: u8,
        ip: IpPacket,
    },
    /// ICMPv6 to one of our IPv6 addresses or to a group.
    Icmpv6 {
        /// Offset of the IP header.
        l3_offset: u8,
        ip: IpPacket,
    },
    /// A GTP-U message other than a G-PDU.
    Gtpu {
        ip: IpPacket,
        /// Source UDP port of the message; answers go there.
        src_port: u16,
        gtpu: GtpuPacket,
        /// Offset of the GTP-U header.
        message_offset: u16,
    },
}

/// Why a packet was dropped, for an ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IcmpErrorKind {
    /// TTL or hop limit ran out.
    TimeExceeded,
    /// The packet is longer than the MTU of its egress.
    PacketTooBig {
        /// Maximum length of the user's IP packet. Unit: octets.
        mtu: u16,
    },
}

/// An ICMP error about a packet that was dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IcmpError {
    /// Why it could not be forwarded.
    pub kind: IcmpErrorKind,
    /// The direction of the packet; the error goes the other way.
    pub direction: Direction,
    /// The interfaces to the packet's data network. An error to a host there leaves through one of
    /// them; an error to a UE is counted as if it came from there.
    pub network: InterfaceSet,
    /// Where the packet begins in its buffer.
    pub ip_offset: u16,
    /// The header of that packet.
    pub ip: IpPacket,
}

/// Why a GTP-U message was dropped, for the error to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GtpuError {
    /// A G-PDU with a TEID that no session has.
    TeidUnknown(Teid),
    /// A message with an unknown extension header that receivers must comprehend.
    ExtensionUnknown,
}

/// A TCP segment of a UE that is redirected to a URL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RedirectedSegment {
    pub session: SessionIndex,
    /// Index of the FAR that redirects, among the session's FARs.
    pub far: usize,
    /// Where the packet begins in its buffer.
    pub ip_offset: u16,
    /// The packet's IP header.
    pub ip: IpPacket,
}

/// The slow path's work on a packet.
pub(crate) enum SlowWork {
    Local(LinkId, SlowTask),
    Error(IcmpError),
    GtpuError(GtpuError),
    RedirectedSegment(RedirectedSegment),
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
    pub(crate) fn new() -> Self {
        Self { packets: ArrayVec::new() }
    }

    /// True if the queue is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Queues a received packet to Adit itself; drops it as `SlowQueueFull` if there is no room.
    #[cold]
    pub(crate) fn push(&mut self, buf: B, link: LinkId, task: SlowTask, tally: &mut StepTally) {
        if self.packets.try_push(SlowPacket { buf, work: SlowWork::Local(link, task) }).is_err() {
            tally.drop(DropReason::SlowQueueFull);
        }
    }

    /// Queues a received packet that Adit answers in place of its destination; drops it as
    /// `SlowQueueFull` if there is no room.
    #[cold]
    pub(crate) fn push_redirected(
        &mut self,
        buf: B,
        redirected: RedirectedSegment,
        tally: &mut StepTally,
    ) {
        let work = SlowWork::RedirectedSegment(redirected);
        if self.packets.try_push(SlowPacket { buf, work }).is_err() {
            tally.drop(DropReason::SlowQueueFull);
        }
    }

    /// Queues an error about a packet that was counted as dropped; omits it if there is no room.
    #[cold]
    pub(crate) fn push_error(&mut self, buf: B, error: IcmpError) {
        // Errors may be omitted (RFC 1812 §4.3.2.8), and the packet has its outcome already.
        self.push_notice(buf, SlowWork::Error(error));
    }

    /// Queues an answer to a GTP-U message that was counted as dropped; omits it if there is no
    /// room.
    #[cold]
    pub(crate) fn push_gtpu_error(&mut self, buf: B, error: GtpuError) {
        self.push_notice(buf, SlowWork::GtpuError(error));
    }

    /// Queues an error in the first half of the queue; the rest is for packets to Adit itself.
    fn push_notice(&mut self, buf: B, work: SlowWork) {
        if self.packets.len() < SLOW_PER_STEP_MAX / 2 {
            self.packets.push(SlowPacket { buf, work });
        }
    }
}
