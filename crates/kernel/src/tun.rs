//! A queue of a TUN device: one worker's part of a port to data networks.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use adit_pktio::{Burst, PacketBuf};
use adit_types::limits::BURST_MAX;
use zerocopy::{FromBytes, IntoBytes};

use crate::counters::{KernelCounters, add};
use crate::frame::{ETHERNET_LEN, carries_ip, ether_type, write_ethernet};
use crate::join::{JoinGroup, JoinOffer, JoinPlan};
use crate::receive::{LOST_MAX, fill};
use crate::segment::Segmentation;
use crate::syscall::WriteSlices;
use crate::vnet::VnetHeader;

/// Size of the largest packet that a device passes, with its header. Unit: octets.
const READ_BYTES_MAX: usize = VnetHeader::LEN + 65_536;

/// Maximum length of the headers that joining rewrites: IPv6, and TCP with all options. Unit:
/// octets.
const HEADERS_BYTES_MAX: usize = 100;

/// One queue of a TUN device. The device exists as long as one of its queues.
#[derive(Debug)]
pub struct TunQueue {
    file: File,
    offer: JoinOffer,
    counters: KernelCounters,
    /// The packet that was read last, behind its [`VnetHeader`].
    buffer: Box<[u8]>,
    pending: Option<PendingPacket>,
}

/// The segments of a large packet that are not yet taken.
#[derive(Debug, Clone, Copy)]
struct PendingPacket {
    cut: Segmentation,
    len: usize,
    next: usize,
}

impl TunQueue {
    pub(crate) fn new(file: File, offer: JoinOffer) -> Self {
        Self {
            file,
            offer,
            counters: KernelCounters::default(),
            buffer: vec![0; READ_BYTES_MAX].into(),
            pending: None,
        }
    }

    /// Duplicates the queue for a thread that only sends.
    pub(crate) fn try_clone_sender(&self) -> io::Result<Self> {
        Ok(Self {
            file: self.file.try_clone()?,
            offer: self.offer,
            counters: KernelCounters::default(),
            buffer: Box::default(),
            pending: None,
        })
    }

    /// True if the kernel passes and accepts large TCP packets.
    #[must_use]
    pub const fn joins_tcp(&self) -> bool {
        self.offer.tcp
    }

    /// True if the kernel passes and accepts joined UDP datagrams.
    #[must_use]
    pub const fn joins_udp(&self) -> bool {
        self.offer.udp
    }

    pub(crate) fn counters(&self) -> KernelCounters {
        self.counters.clone()
    }

    /// See [`crate::KernelPort::rx_burst`].
    pub fn rx_burst<B: PacketBuf>(
        &mut self,
        limit: usize,
        burst: &mut Burst<B>,
        mut alloc: impl FnMut() -> Option<B>,
    ) -> usize {
        if self.buffer.is_empty() {
            return 0;
        }
        fill(limit, burst, |burst, lost| {
            let has_one = self.pending.is_some() || lost < LOST_MAX && self.read();
            if has_one {
                self.take_next(burst, &mut alloc);
            }
            has_one
        })
    }

    /// Reads one packet; false if none is waiting.
    fn read(&mut self) -> bool {
        let len = match rustix::io::read(&self.file, &mut self.buffer[..]) {
            Ok(len) => len,
            Err(error) => return error == rustix::io::Errno::INTR,
        };
        add(&self.counters.0.rx_calls, 1);
        let (header, packet) = self.buffer.split_at_mut(VnetHeader::LEN);
        let Some(packet) = len.checked_sub(VnetHeader::LEN).and_then(|len| packet.get_mut(..len))
        else {
            return true;
        };
        let cut = VnetHeader::read_from_bytes(header).ok();
        match cut
            .filter(|_| !packet.is_empty())
            .and_then(|header| Segmentation::new(&header, packet))
        {
            Some(cut) => self.pending = Some(PendingPacket { cut, len: packet.len(), next: 0 }),
            None => add(&self.counters.0.rx_unusable_pkts, 1),
        }
        true
    }

    /// Makes a frame of the next segment of the packet that was read.
    fn take_next<B: PacketBuf>(
        &mut self,
        burst: &mut Burst<B>,
        alloc: &mut impl FnMut() -> Option<B>,
    ) {
        let Some(pending) = &mut self.pending else { return };
        let PendingPacket { cut, len, next } = *pending;
        pending.next += 1;
        if pending.next >= cut.count() {
            self.pending = None;
        }
        let cells = &self.counters.0;
        let packet = &self.buffer[VnetHeader::LEN..][..len];
        let Some(ether_type) = ether_type(packet) else {
            return add(&cells.rx_unusable_pkts, 1);
        };
        let Some(mut buf) = alloc() else { return add(&cells.rx_no_buffer_pkts, 1) };
        let frame_len = ETHERNET_LEN + cut.len_of(next);
        let Some(frame) = buf.append(frame_len) else {
            return add(&cells.rx_unusable_pkts, 1);
        };
        let (front, out) = frame.split_at_mut(ETHERNET_LEN);
        write_ethernet(front, ether_type);
        cut.write(packet, next, out);
        add(&cells.rx_pkts, 1);
        add(&cells.rx_bytes, frame_len);
        burst.push(buf);
    }

    /// See [`crate::KernelPort::tx_burst`].
    pub fn tx_burst<B: PacketBuf>(&mut self, burst: &mut Burst<B>) -> usize {
        let before = burst.len();
        self.drop_unusable(burst);
        let plan = JoinPlan::new(burst, ETHERNET_LEN, self.offer);
        let mut is_done = [false; BURST_MAX];
        for group in &plan.groups {
            match self.write_group(&plan, group, burst) {
                GroupOutcome::Done => {
                    plan.members(group).for_each(|at| is_done[at] = true);
                }
                GroupOutcome::Full => break,
            }
        }
        let mut at = 0;
        burst.retain(|_| {
            at += 1;
            !is_done[at - 1]
        });
        before - burst.len()
    }

    /// Frees and counts frames that carry no IP packet.
    fn drop_unusable<B: PacketBuf>(&self, burst: &mut Burst<B>) {
        if burst.iter().all(|buf| carries_ip(buf.data())) {
            return;
        }
        let before = burst.len();
        burst.retain(|buf| carries_ip(buf.data()));
        add(&self.counters.0.tx_unusable_pkts, before - burst.len());
    }

    /// Writes the packets of a group as one large packet; if the kernel refuses that, one by one.
    fn write_group<B: PacketBuf>(
        &mut self,
        plan: &JoinPlan,
        group: &JoinGroup,
        burst: &mut Burst<B>,
    ) -> GroupOutcome {
        if group.count > 1 {
            match self.write_joined(plan, group, burst) {
                Ok(()) => return self.count_sent(plan, group, burst),
                Err(error) if is_full(&error) => return GroupOutcome::Full,
                // If a filter, or a device that is down, caused the error, the single packets below
                // are refused too, and counted.
                Err(_) => {}
            }
        }
        for at in plan.members(group) {
            let header = VnetHeader::default();
            let mut slices = WriteSlices::new();
            slices.add(header.as_bytes());
            slices.add(&burst[at].data()[ETHERNET_LEN..]);
            match self.write(&slices) {
                Ok(()) => {
                    add(&self.counters.0.tx_pkts, 1);
                    add(&self.counters.0.tx_bytes, burst[at].data_len());
                }
                Err(error) if is_full(&error) && group.count == 1 => return GroupOutcome::Full,
                Err(_) => add(&self.counters.0.tx_refused_pkts, 1),
            }
        }
        GroupOutcome::Done
    }

    fn write_joined<B: PacketBuf>(
        &self,
        plan: &JoinPlan,
        group: &JoinGroup,
        burst: &mut Burst<B>,
    ) -> io::Result<()> {
        let headers = plan.headers(group);
        let last_flags = plan.last_flags(group, burst, ETHERNET_LEN);
        let mut original = [0; HEADERS_BYTES_MAX];
        let original = &mut original[..headers];
        let first = &mut burst[group.first].data_mut()[ETHERNET_LEN..];
        original.copy_from_slice(&first[..headers]);
        let header = plan.finish(group, first, last_flags);
        let mut slices = WriteSlices::new();
        slices.add(header.as_bytes());
        for at in plan.members(group) {
            let from = if at == group.first { ETHERNET_LEN } else { ETHERNET_LEN + headers };
            slices.add(&burst[at].data()[from..]);
        }
        let written = self.write(&slices);
        drop(slices);
        if written.is_err() {
            burst[group.first].data_mut()[ETHERNET_LEN..][..headers].copy_from_slice(original);
        }
        written
    }

    fn write(&self, slices: &WriteSlices<'_>) -> io::Result<()> {
        loop {
            match slices.write(self.file.as_fd()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => {
                    add(&self.counters.0.tx_calls, 1);
                    return written;
                }
            }
        }
    }

    fn count_sent<B: PacketBuf>(
        &self,
        plan: &JoinPlan,
        group: &JoinGroup,
        burst: &Burst<B>,
    ) -> GroupOutcome {
        let bytes = plan.members(group).map(|at| burst[at].data_len()).sum();
        add(&self.counters.0.tx_pkts, group.count);
        add(&self.counters.0.tx_bytes, bytes);
        GroupOutcome::Done
    }
}

/// The outcome of writing a group.
enum GroupOutcome {
    /// Each packet was sent, or refused and counted.
    Done,
    /// The kernel has no room.
    Full,
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

impl AsFd for TunQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
