//! UDP sockets as a port: one worker's sockets at the addresses of an interface.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use adit_pktio::{Burst, PacketBuf};
use adit_types::Owners;
use adit_types::limits::BURST_MAX;
use arrayvec::ArrayVec;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::cmsg::ControlBuffer;
use crate::counters::{KernelCounters, add};
use crate::error::KernelError;
use crate::frame::{DatagramHeaders, OutgoingDatagram, headers_len, write_headers};
use crate::owner_filter;
use crate::receive::{LOST_MAX, grow_buffers};
use crate::syscall::{
    PlaceLayout, ReceivedDatagram, SendBatch, attach_reuseport, receive_datagrams, set_option,
};

/// Maximum number of received datagrams per system call. Each may consist of 64 that the kernel
/// joined.
const BATCH_MAX: usize = 32;

/// Size of the place for one datagram: the largest that UDP can carry. The stride between places is
/// not a power of two, so that the places of a batch do not share cache sets. Unit: octets.
const PLACE_SIZE: usize = 65_536;
const PLACE_STRIDE: usize = PLACE_SIZE + 17 * 64;

/// Maximum number of datagrams that the kernel makes of one message with `UDP_SEGMENT`; older
/// kernels accept no more.
const SEGMENTS_MAX: usize = 64;

/// Maximum payload of one message, joined or not. Unit: octets.
const PAYLOAD_BYTES_MAX: usize = 65_000;

/// How many bursts leave unjoined after the kernel refused joined datagrams: the path to one peer
/// may be narrower than the port. With a kernel or device without segmentation, one call in this
/// many bursts is refused.
const UNJOINED_BURSTS: u32 = 1024;

/// Size of each buffer of a socket in the kernel. Unit: octets.
const SOCKET_BUFFER_BYTES: i32 = 8 << 20;

/// The configuration of a [`UdpPort`].
#[derive(Debug, Clone)]
pub struct UdpPortConfig {
    /// The addresses and ports to receive at, at most one of each address family.
    pub addresses: Vec<SocketAddr>,
    /// Maximum size of an IP packet that leaves unfragmented. Larger datagrams are not joined; the
    /// kernel fragments them.
    pub mtu_bytes: u16,
    /// True if the host may not have the addresses yet (`IP_FREEBIND`).
    pub free_bind: bool,
}

/// One worker's sockets.
#[derive(Debug)]
pub struct UdpPort {
    sockets: Vec<UdpSocket>,
    counters: KernelCounters,
    mtu_bytes: usize,
    /// How many of the next bursts leave with unjoined datagrams.
    single_bursts: u32,
    /// Index of the socket that the next burst reads first.
    next: usize,
}

#[derive(Debug)]
struct UdpSocket {
    socket: OwnedFd,
    local: SocketAddr,
    /// Places of received datagrams.
    buffer: Box<[u8]>,
    controls: Box<[ControlBuffer]>,
    received: ArrayVec<ReceivedDatagram, BURST_MAX>,
    /// Index in `received` of the datagram to be split next, and the offset of the next part in it.
    at: usize,
    offset: usize,
    /// The kernel's last count of dropped datagrams, modulo 2^32.
    dropped: u32,
}

impl UdpPort {
    /// Opens the sockets of one worker. Several workers may use the same addresses: the kernel then
    /// distributes the peers to them.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn open(config: &UdpPortConfig) -> Result<Self, KernelError> {
        let mut sockets = Vec::new();
        for address in config.addresses.iter().take(2) {
            sockets.push(UdpSocket::open(*address, config.free_bind)?);
        }
        Ok(Self {
            sockets,
            counters: KernelCounters::default(),
            mtu_bytes: config.mtu_bytes.into(),
            single_bursts: 0,
            next: 0,
        })
    }

    /// Makes the kernel pass each G-PDU to the socket of its session's owner. `workers` ports with
    /// the same addresses must have been opened in the order of their workers.
    ///
    /// # Errors
    /// The kernel refuses the program; it then distributes by peer.
    /// The kernel does not take the program; it then distributes by peer.
    pub fn steer_to_owners(&self, workers: usize) -> io::Result<()> {
        let count = u32::try_from(Owners::new(workers).workers()).unwrap_or(1);
        for socket in &self.sockets {
            attach_reuseport(socket.socket.as_fd(), &mut owner_filter::program(count))?;
        }
        Ok(())
    }

    /// Duplicates the sockets for a thread that only sends.
    pub(crate) fn try_clone_sender(&self) -> io::Result<Self> {
        let sockets = self.sockets.iter().map(UdpSocket::try_clone_sender);
        Ok(Self {
            sockets: sockets.collect::<io::Result<_>>()?,
            counters: KernelCounters::default(),
            mtu_bytes: self.mtu_bytes,
            single_bursts: 0,
            next: 0,
        })
    }

    /// Returns the descriptors, which are readable while datagrams wait.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.socket.as_fd())
    }

    pub(crate) fn counters(&self) -> KernelCounters {
        self.counters.clone()
    }

    /// Returns the addresses that the sockets are bound to.
    pub fn local_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|socket| socket.local)
    }

    /// See [`crate::KernelPort::rx_burst`].
    pub fn rx_burst<B: PacketBuf>(
        &mut self,
        limit: usize,
        burst: &mut Burst<B>,
        mut alloc: impl FnMut() -> Option<B>,
    ) -> usize {
        let before = burst.len();
        let limit = before + limit.min(burst.remaining_capacity());
        let count = self.sockets.len();
        for turn in 0..count {
            let at = (self.next + turn) % count.max(1);
            let Some(socket) = self.sockets.get_mut(at) else { break };
            socket.receive(limit, burst, &mut alloc, &self.counters);
            if burst.len() >= limit {
                // The burst is full: the next burst begins with the next socket.
                self.next = at + 1;
                break;
            }
        }
        burst.len() - before
    }

    /// See [`crate::KernelPort::tx_burst`].
    pub fn tx_burst<B: PacketBuf>(&mut self, burst: &mut Burst<B>) -> usize {
        let mut done = 0;
        self.single_bursts = self.single_bursts.saturating_sub(1);
        while done < burst.len() {
            let outcome = self.send_some(&burst[done..]);
            done += outcome.done;
            if outcome.is_full {
                break;
            }
        }
        burst.drain(..done);
        done
    }

    /// Sends frames up to the first that needs another socket or that the kernel does not accept.
    fn send_some<B: PacketBuf>(&mut self, frames: &[B]) -> SendOutcome {
        let cells = Arc::clone(&self.counters.0);
        let Some(first) = frames.first() else { return SendOutcome::full(0) };
        let Some(datagram) = OutgoingDatagram::read(first.data()) else {
            add(&cells.tx_unusable_pkts, 1);
            return SendOutcome::more(1);
        };
        let is_v4 = datagram.to.is_ipv4();
        let Some(socket) = self.sockets.iter().find(|socket| socket.local.is_ipv4() == is_v4)
        else {
            add(&cells.tx_unusable_pkts, 1);
            return SendOutcome::more(1);
        };
        let joined_max = self.mtu_bytes.saturating_sub(if is_v4 { 28 } else { 48 });
        let joined_max = if self.single_bursts == 0 { joined_max } else { 0 };
        let (mut batch, runs) = collect(frames, is_v4, joined_max);
        let (mut sent, mut done) = (0, 0);
        while sent < batch.len() {
            match batch.send(socket.socket.as_fd(), sent) {
                Ok(count) => {
                    add(&cells.tx_calls, 1);
                    for run in runs.iter().skip(sent).take(count) {
                        add(&cells.tx_pkts, run.count);
                        add(&cells.tx_bytes, run.bytes);
                        done += run.count;
                    }
                    sent += count.max(1);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {
                        return SendOutcome::full(done);
                    }
                    Some(libc::EINTR) => {}
                    // A device on the path cannot segment, or the path is narrower than the port.
                    Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if runs[sent].count > 1 => {
                        self.single_bursts = UNJOINED_BURSTS;
                        return SendOutcome::more(done);
                    }
                    _ => {
                        add(&cells.tx_refused_pkts, runs[sent].count);
                        done += runs[sent].count;
                        sent += 1;
                    }
                },
            }
        }
        SendOutcome::more(done)
    }
}

/// How many frames were sent or counted as refused.
struct SendOutcome {
    done: usize,
    /// The kernel has no room for more.
    is_full: bool,
}

impl SendOutcome {
    const fn more(done: usize) -> Self {
        Self { done, is_full: false }
    }

    const fn full(done: usize) -> Self {
        Self { done, is_full: true }
    }
}

/// Consecutive frames that leave as one message.
struct SendRun {
    to: SocketAddr,
    tos: u8,
    /// Payload of each datagram but the last, which may have less. Unit: octets.
    size: usize,
    payload: usize,
    count: usize,
    bytes: usize,
    is_open: bool,
}

/// Groups frames of one family into messages: a message has consecutive datagrams of one size to
/// one peer, the last of which may be shorter. Stops at a frame of the other family or without a
/// datagram.
fn collect<B: PacketBuf>(
    frames: &[B],
    is_v4: bool,
    joined_max: usize,
) -> (SendBatch<'_>, ArrayVec<SendRun, BURST_MAX>) {
    let mut batch = SendBatch::new();
    let mut runs: ArrayVec<SendRun, BURST_MAX> = ArrayVec::new();
    for frame in frames.iter().take(BURST_MAX) {
        let data = frame.data();
        let datagram = OutgoingDatagram::read(data).filter(|read| read.to.is_ipv4() == is_v4);
        let Some(OutgoingDatagram { to, tos, start, end }) = datagram else { break };
        let size = end - start;
        let run = runs.last_mut().filter(|run| {
            run.is_open
                && run.to == to
                && run.tos == tos
                && size <= run.size
                && size > 0
                && run.count < SEGMENTS_MAX
                && run.payload + size <= PAYLOAD_BYTES_MAX
        });
        match run {
            Some(run) => {
                run.count += 1;
                run.payload += size;
                run.bytes += data.len();
                run.is_open = size == run.size;
                if run.count == 2 {
                    let segment = run.size;
                    batch.set_control(|control| fill_control(control, is_v4, tos, Some(segment)));
                }
            }
            None => {
                batch.begin(to, |control| fill_control(control, is_v4, tos, None));
                let (count, bytes, is_open) = (1, data.len(), size > 0 && size <= joined_max);
                runs.push(SendRun { to, tos, size, payload: size, count, bytes, is_open });
            }
        }
        batch.add(&data[start..end]);
    }
    (batch, runs)
}

/// Writes the control messages of one sent message; returns their length. Unit: octets.
fn fill_control(
    control: &mut ControlBuffer,
    is_v4: bool,
    tos: u8,
    segment: Option<usize>,
) -> usize {
    let mut at = 0;
    if tos != 0 {
        let value = i32::from(tos).to_ne_bytes();
        at = match is_v4 {
            true => control.append(at, libc::IPPROTO_IP, libc::IP_TOS, &value),
            false => control.append(at, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &value),
        };
    }
    match segment.and_then(|size| u16::try_from(size).ok()) {
        Some(size) => control.append(at, libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes()),
        None => at,
    }
}

impl UdpSocket {
    fn open(address: SocketAddr, free_bind: bool) -> Result<Self, KernelError> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fail = |reason: rustix::io::Errno| KernelError::Bind { address, reason: reason.into() };
        let socket = socket_with(family, SocketType::DGRAM, flags, None).map_err(fail)?;
        let require = |level, option, value, name| {
            let set = set_option(socket.as_fd(), level, option, value);
            set.map_err(|reason| KernelError::SocketOption { option: name, reason })
        };
        require(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1, "SO_REUSEPORT")?;
        if address.is_ipv6() {
            require(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1, "IPV6_V6ONLY")?;
        }
        if free_bind {
            match address.is_ipv4() {
                true => require(libc::IPPROTO_IP, libc::IP_FREEBIND, 1, "IP_FREEBIND")?,
                false => require(libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1, "IPV6_FREEBIND")?,
            }
        }
        bind(&socket, &address).map_err(fail)?;
        // Best effort: without one of these options only speed or a counter is lost.
        let wish = |level, option, value| set_option(socket.as_fd(), level, option, value).is_ok();
        wish(libc::SOL_UDP, libc::UDP_GRO, 1);
        wish(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        if address.is_ipv4() {
            wish(libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
            // Packets in tunnels may be fragmented on their way. Spec: TS 29.281 §4.2.2.
            wish(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT);
        } else {
            wish(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
            wish(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT);
        }
        grow_buffers(socket.as_fd(), SOCKET_BUFFER_BYTES);
        let bound = rustix::net::getsockname(&socket).map_err(fail)?;
        Ok(Self {
            socket,
            local: SocketAddr::try_from(bound).unwrap_or(address),
            buffer: vec![0; BATCH_MAX * PLACE_STRIDE].into(),
            controls: vec![ControlBuffer::default(); BATCH_MAX].into(),
            received: ArrayVec::new(),
            at: 0,
            offset: 0,
            dropped: 0,
        })
    }

    fn try_clone_sender(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            local: self.local,
            buffer: Box::default(),
            controls: Box::default(),
            received: ArrayVec::new(),
            at: 0,
            offset: 0,
            dropped: 0,
        })
    }

    /// Fills `burst` up to `limit` packets, or until no datagram is waiting. Reads no more after
    /// [`LOST_MAX`] datagrams that became no frame: an endless stream of those must not keep the
    /// worker from releasing buffers.
    fn receive<B: PacketBuf>(
        &mut self,
        limit: usize,
        burst: &mut Burst<B>,
        alloc: &mut impl FnMut() -> Option<B>,
        counters: &KernelCounters,
    ) {
        let mut lost = 0;
        loop {
            while burst.len() < limit && self.at < self.received.len() {
                let before = burst.len();
                self.take_next(burst, alloc, counters);
                lost += usize::from(burst.len() == before);
            }
            if burst.len() >= limit || lost >= LOST_MAX || self.buffer.is_empty() {
                return;
            }
            let was_full = self.received.len() == BATCH_MAX;
            let is_first = self.received.is_empty();
            self.received.clear();
            (self.at, self.offset) = (0, 0);
            if !is_first && !was_full {
                return;
            }
            let places = PlaceLayout { stride: PLACE_STRIDE, size: PLACE_SIZE };
            let (buffer, controls) = (&mut self.buffer, &mut self.controls);
            let received =
                receive_datagrams(self.socket.as_fd(), BATCH_MAX, buffer, places, controls);
            match received {
                Ok(received) => {
                    add(&counters.0.rx_calls, 1);
                    self.received = received;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
            if self.received.is_empty() {
                return;
            }
        }
    }

    /// Makes a frame of the next received datagram.
    fn take_next<B: PacketBuf>(
        &mut self,
        burst: &mut Burst<B>,
        alloc: &mut impl FnMut() -> Option<B>,
        counters: &KernelCounters,
    ) {
        let Some(received) = self.received.get(self.at) else { return };
        let (at, cells) = (self.at, &counters.0);
        let control = self.controls[at].read(received.control_len);
        if self.offset == 0 {
            add(&cells.rx_missed_pkts, control.missed_since(&mut self.dropped));
        }
        let start = self.offset;
        let end = control.segment.map_or(received.len, |size| start + size).min(received.len);
        let is_last = end >= received.len;
        let (from, is_cut) = (received.from, received.is_cut);
        (self.at, self.offset) = if is_last { (at + 1, 0) } else { (at, end) };
        let Some(from) = from.filter(|_| !is_cut) else {
            return add(&cells.rx_unusable_pkts, 1);
        };
        let headers = headers_len(from.ip());
        let Some(mut buf) = alloc() else { return add(&cells.rx_no_buffer_pkts, 1) };
        let len = headers + end - start;
        let Some(frame) = buf.append(len) else { return add(&cells.rx_unusable_pkts, 1) };
        let datagram = DatagramHeaders { from, to: self.local, tos: control.tos };
        let (front, payload) = frame.split_at_mut(headers);
        write_headers(front, &datagram, end - start);
        payload.copy_from_slice(&self.buffer[at * PLACE_STRIDE..][start..end]);
        add(&cells.rx_pkts, 1);
        add(&cells.rx_bytes, len);
        burst.push(buf);
    }
}
