//! A packet socket as a port: one worker's part of a network device, with the frames of the wire.
//!
//! The kernel passes large packets and incomplete checksums, marked in a header
//! (`PACKET_VNET_HDR`), and frames whose VLAN tag it has removed (`PACKET_AUXDATA`). This port
//! segments, completes checksums and puts tags back, so the offloads of the device and its peer do
//! not matter. Fragments arrive unchanged. Spec: packet(7).

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use adit_pktio::{Burst, PacketBuf};
use adit_types::MacAddr;
use adit_wire::{parse_frame, parse_ip};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use zerocopy::{FromBytes, IntoBytes};

use crate::cmsg::ControlBuffer;
use crate::counters::{KernelCounters, add};
use crate::error::KernelError;
use crate::frame::ETHERNET_LEN;
use crate::netlink::Netlink;
use crate::packet_socket::{bind_device, receive_multicast};
use crate::receive::{LOST_MAX, fill, grow_buffers};
use crate::segment::Segmentation;
use crate::syscall::{PlaceLayout, ReceivedDatagram, SendBatch, receive_datagrams, set_option};
use crate::vnet::{GSO_NONE, NEEDS_CSUM, VnetHeader};

/// Maximum number of frames per system call. Each may be a large packet.
const BATCH_MAX: usize = 32;

/// Size of the buffer for one frame: the largest packet with its headers. The stride between
/// buffers is not a power of two, so that the buffers of a batch do not share cache sets. Unit:
/// octets.
const PLACE_SIZE: usize = VnetHeader::LEN + ETHERNET_LEN + 65_536 + 64;
const PLACE_STRIDE: usize = PLACE_SIZE.next_multiple_of(64) + 17 * 64;

/// Length of a VLAN tag of IEEE 802.1Q, which follows both MAC addresses of a frame. Unit: octets.
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;

/// Size of each buffer of a socket in the kernel. Unit: octets.
const SOCKET_BUFFER_BYTES: i32 = 16 << 20;

/// The configuration of the packet sockets of one device.
#[derive(Debug, Clone)]
pub struct PacketConfig<'a> {
    /// Name of the network device.
    pub device: &'a str,
    /// Number of sockets, one per worker.
    pub queues: usize,
    /// Maximum size of an IP packet.
    pub mtu_bytes: u16,
}

/// Opens the sockets of a device, and raises its MTU if it is below `mtu_bytes`.
///
/// # Errors
/// See [`KernelError`].
pub fn open_packet(config: &PacketConfig<'_>) -> Result<Vec<PacketPort>, KernelError> {
    let name = config.device;
    let fail = |operation| move |error: io::Error| KernelError::device(operation, name, error);
    let mut netlink = Netlink::open().map_err(fail("cannot find"))?;
    let index = netlink.index(name).map_err(fail("cannot find"))?;
    netlink
        .raise_mtu(index, config.mtu_bytes.into())
        .map_err(fail("cannot raise to mtu_bytes the MTU of"))?;
    let mut queues = Vec::new();
    for _ in 0..config.queues.max(1) {
        let queue = PacketPort::open(index);
        queues.push(queue.map_err(fail("cannot receive frames of"))?);
    }
    if queues.len() > 1 {
        // A number that fanout groups of other processes and devices are unlikely to have.
        let group = (std::process::id().wrapping_mul(31)).wrapping_add(index.unsigned_abs());
        // Distributes flows to the sockets by a hash. PACKET_FANOUT_FLAG_DEFRAG is not set: the
        // kernel must not reassemble fragments.
        let value = (libc::PACKET_FANOUT_HASH << 16) | (group & 0xffff);
        let value = value.cast_signed();
        for queue in &queues {
            set_option(queue.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, value)
                .map_err(fail("cannot divide among workers the frames of"))?;
        }
    }
    Ok(queues)
}

/// One worker's socket.
#[derive(Debug)]
pub struct PacketPort {
    socket: OwnedFd,
    mac: MacAddr,
    counters: KernelCounters,
    /// Buffers of received frames, each behind its [`VnetHeader`].
    buffer: Box<[u8]>,
    controls: Box<[ControlBuffer]>,
    received: Vec<ReceivedDatagram>,
    /// Index in `received` of the frame to be segmented next, or of the frame that `pending`
    /// belongs to.
    at: usize,
    pending: Option<PendingFrame>,
    /// The kernel's last count of dropped frames, modulo 2^32.
    dropped: u32,
}

/// The segments of a large packet that are not yet taken.
#[derive(Debug, Clone, Copy)]
struct PendingFrame {
    cut: Segmentation,
    /// The VLAN tag that the kernel has removed.
    tag: Option<[u8; TAG_LEN]>,
    l3_offset: usize,
    len: usize,
    next: usize,
}

impl PacketPort {
    fn open(index: i32) -> io::Result<Self> {
        // The socket receives nothing before it is bound.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)?;
        let set = |level, option, value| set_option(socket.as_fd(), level, option, value);
        set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Best effort: without this option drops are not counted.
        let _ = set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        grow_buffers(socket.as_fd(), SOCKET_BUFFER_BYTES);
        let mac = bind_device(&socket, index, libc::ETH_P_ALL)?;
        let mac = mac.ok_or_else(|| io::Error::other("it is no Ethernet device"))?;
        receive_multicast(&socket, index)?;
        Ok(Self {
            socket,
            mac,
            counters: KernelCounters::default(),
            buffer: vec![0; BATCH_MAX * PLACE_STRIDE].into(),
            controls: vec![ControlBuffer::default(); BATCH_MAX].into(),
            received: Vec::with_capacity(BATCH_MAX),
            at: 0,
            pending: None,
            dropped: 0,
        })
    }

    /// Duplicates the socket for a thread that only sends.
    pub(crate) fn try_clone_sender(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            mac: self.mac,
            counters: KernelCounters::default(),
            buffer: Box::default(),
            controls: Box::default(),
            received: Vec::new(),
            at: 0,
            pending: None,
            dropped: 0,
        })
    }

    /// Returns the device's hardware address.
    #[must_use]
    pub const fn mac(&self) -> MacAddr {
        self.mac
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
        let mut may_read = !self.buffer.is_empty();
        fill(limit, burst, |burst, lost| {
            if lost >= LOST_MAX {
                return false;
            }
            if self.pending.is_none() && self.at == self.received.len() {
                if !may_read || !self.receive() {
                    return false;
                }
                // A batch that is not full was the last: the device has no more frames.
                may_read = self.received.len() == BATCH_MAX;
            }
            self.take_next(burst, &mut alloc);
            true
        })
    }

    /// Receives a batch of frames; false if none was waiting.
    fn receive(&mut self) -> bool {
        self.received.clear();
        self.at = 0;
        let places = PlaceLayout { stride: PLACE_STRIDE, size: PLACE_SIZE };
        let (buffer, controls) = (&mut self.buffer, &mut self.controls);
        match receive_datagrams(self.socket.as_fd(), BATCH_MAX, buffer, places, controls) {
            Ok(received) => {
                add(&self.counters.0.rx_calls, 1);
                self.received.extend(received);
                !self.received.is_empty()
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            // The kernel has discarded a large packet of a kind that the header cannot describe.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                add(&self.counters.0.rx_unusable_pkts, 1);
                true
            }
            Err(_) => false,
        }
    }

    /// Makes a frame of the next segment of the received octets.
    fn take_next<B: PacketBuf>(
        &mut self,
        burst: &mut Burst<B>,
        alloc: &mut impl FnMut() -> Option<B>,
    ) {
        let cells = &self.counters.0;
        if self.pending.is_none() {
            let Some(received) = self.received.get(self.at).copied() else { return };
            let control = self.controls[self.at].read(received.control_len);
            add(&cells.rx_missed_pkts, control.missed_since(&mut self.dropped));
            let place = &mut self.buffer[self.at * PLACE_STRIDE..][..received.len.min(PLACE_SIZE)];
            let frame = (!received.is_cut).then(|| PendingFrame::new(place, control.tag)).flatten();
            if frame.is_none() {
                self.at += 1;
                return add(&cells.rx_unusable_pkts, 1);
            }
            self.pending = frame;
        }
        let Some(pending) = &mut self.pending else { return };
        let (frame, part) = (*pending, pending.next);
        let place = &self.buffer[self.at * PLACE_STRIDE + VnetHeader::LEN..][..frame.len];
        pending.next += 1;
        if pending.next >= frame.cut.count() {
            self.pending = None;
            self.at += 1;
        }
        let Some(mut buf) = alloc() else { return add(&cells.rx_no_buffer_pkts, 1) };
        let len = frame.len_of(part);
        let Some(out) = buf.append(len) else { return add(&cells.rx_unusable_pkts, 1) };
        frame.write(place, part, out);
        add(&cells.rx_pkts, 1);
        add(&cells.rx_bytes, len);
        burst.push(buf);
    }

    /// See [`crate::KernelPort::tx_burst`].
    pub fn tx_burst<B: PacketBuf>(&mut self, burst: &mut Burst<B>) -> usize {
        let header = VnetHeader::default();
        let mut batch = SendBatch::new();
        for buf in burst.iter() {
            batch.begin_bound();
            batch.add(header.as_bytes());
            batch.add(buf.data());
        }
        let (cells, mut done) = (&self.counters.0, 0);
        while done < burst.len() {
            match batch.send(self.socket.as_fd(), done) {
                Ok(count) => {
                    add(&cells.tx_calls, 1);
                    let sent = burst.iter().skip(done).take(count);
                    add(&cells.tx_bytes, sent.map(PacketBuf::data_len).sum());
                    add(&cells.tx_pkts, count);
                    done += count.max(1);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => break,
                    Some(libc::EINTR) => {}
                    _ => {
                        add(&cells.tx_refused_pkts, 1);
                        done += 1;
                    }
                },
            }
        }
        drop(batch);
        burst.drain(..done);
        done
    }
}

impl PendingFrame {
    /// Reads the header in front of a frame, and completes the frame's checksum. `None` if header
    /// and frame contradict each other.
    fn new(place: &mut [u8], tag: Option<[u8; TAG_LEN]>) -> Option<Self> {
        let (header, frame) = place.split_at_mut_checked(VnetHeader::LEN)?;
        let mut header = VnetHeader::read_from_bytes(header).ok()?;
        let l3_offset = usize::from(parse_frame(frame).ok()?.l3_offset);
        let len = frame.len();
        let packet = frame.get_mut(l3_offset..)?;
        // The kernel counts from the start of the frame, `Segmentation` from the IP packet.
        header.csum_start = match (header.flags & NEEDS_CSUM, header.gso_type) {
            (0, GSO_NONE) => 0,
            // Nothing to complete: the card has verified the checksums.
            (0, _) => parse_ip(packet, false).ok()?.payload_offset,
            _ => header.csum_start.checked_sub(u16::try_from(l3_offset).ok()?)?,
        };
        let cut = Segmentation::new(&header, packet)?;
        Some(Self { cut, tag, l3_offset, len, next: 0 })
    }

    /// Returns the length of the frame of segment `part`. Unit: octets.
    fn len_of(&self, part: usize) -> usize {
        self.l3_offset + self.tag.map_or(0, |tag| tag.len()) + self.cut.len_of(part)
    }

    /// Writes the frame of segment `part` of `frame` into `out`, which has exactly its length.
    fn write(&self, frame: &[u8], part: usize, out: &mut [u8]) {
        let (link, packet) = frame.split_at(self.l3_offset);
        let (front, rest) = out.split_at_mut(self.len_of(part) - self.cut.len_of(part));
        match self.tag {
            None => front.copy_from_slice(link),
            Some(tag) => {
                front[..ADDRESSES_LEN].copy_from_slice(&link[..ADDRESSES_LEN]);
                front[ADDRESSES_LEN..][..TAG_LEN].copy_from_slice(&tag);
                front[ADDRESSES_LEN + TAG_LEN..].copy_from_slice(&link[ADDRESSES_LEN..]);
            }
        }
        self.cut.write(packet, part, rest);
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use adit_wire::checksum::Sum;

    use super::*;
    use crate::vnet::GSO_TCPV4;

    /// `VIRTIO_NET_HDR_F_DATA_VALID`: a card has verified the checksums.
    const VERIFIED: u8 = 2;

    /// Makes a frame with `len` octets of TCP payload.
    fn tcp(len: u16) -> Vec<u8> {
        let [a, b] = (40 + len).to_be_bytes();
        let ip = [0x45, 0, a, b, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let mut frame = [&[2; 12][..], &[8, 0], &ip].concat();
        frame.extend([0, 80, 0x10, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x10, 0, 9, 0, 0, 0, 0]);
        frame.extend((0..len).map(|at| at.to_be_bytes()[1]));
        frame
    }

    fn parts(header: VnetHeader, frame: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut place = [header.as_bytes(), frame].concat();
        let pending = PendingFrame::new(&mut place, None)?;
        let part = |part| {
            let mut out = vec![0; pending.len_of(part)];
            pending.write(&place[VnetHeader::LEN..], part, &mut out);
            out
        };
        Some((0..pending.cut.count()).map(part).collect())
    }

    #[test]
    fn frame_that_a_card_verified_passes_as_it_is() {
        let header = VnetHeader { flags: VERIFIED, ..VnetHeader::default() };
        let arp = [&[2; 12][..], &[8, 6], &[1; 28]].concat();
        for frame in [tcp(100), arp] {
            assert_eq!(parts(header, &frame), Some(vec![frame]));
        }
    }

    #[test]
    fn large_packet_is_cut_whether_its_checksum_is_open_or_verified() {
        let open = VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: GSO_TCPV4,
            gso_size: 100,
            csum_start: 34,
            csum_offset: 16,
            ..VnetHeader::default()
        };
        let verified = VnetHeader { flags: VERIFIED, csum_start: 0, csum_offset: 0, ..open };
        for header in [open, verified] {
            let parts = parts(header, &tcp(250)).unwrap();
            assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [154, 154, 104]);
            for part in parts {
                let upper = &part[34..];
                let len = u16::try_from(upper.len()).unwrap();
                let sum = Sum::new().bytes(&part[26..34]).word(6).word(len).bytes(upper);
                assert_eq!(sum.checksum(), 0, "{header:?}");
            }
        }
    }

    #[test]
    fn header_that_fits_no_frame_is_refused() {
        let open =
            |csum_start| VnetHeader { flags: NEEDS_CSUM, csum_start, ..VnetHeader::default() };
        assert_eq!(parts(open(13), &tcp(10)), None);
        assert_eq!(parts(open(500), &tcp(10)), None);
        let large = VnetHeader { gso_type: GSO_TCPV4, gso_size: 5, ..VnetHeader::default() };
        assert_eq!(parts(large, &tcp(10)[..30]), None);
        assert_eq!(parts(VnetHeader::default(), &[1; 13]), None);
    }
}
