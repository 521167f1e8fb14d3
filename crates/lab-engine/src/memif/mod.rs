//! The server's end of a memif without a driver: the tester writes and reads frames in the client's
//! memory. With DPDK's driver on both ends, a tester on one core would be no faster than its
//! target.
//!
//! Spec: memif protocol version 2.0; messages of 128 octets on a socket of type SEQPACKET. The
//! server sends HELLO, acknowledges the regions and rings that the client announces, and confirms
//! with CONNECTED.

mod address;
mod mirror;
mod shared;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use adit_pktio::mem::{BUF_BYTES, HEADROOM_BYTES, MemBuf};
use adit_pktio::{Burst, PacketBuf, PacketIo, PortInfo};
use adit_types::{MacAddr, PortId};
use anyhow::{Context, Result, bail};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, accept_with,
    listen, recvmsg, send,
};

use crate::traffic_io::TrafficIo;
pub use address::MemifAddress;
pub use mirror::{Mirror, mirrored_memif};
use shared::{MemifRegion, MemifRing};

const MESSAGE_LEN: usize = 128;
const VERSION: u16 = 0x0200;
const LOG2_RING_SIZE_MAX: u8 = 14;
/// Receive timeout of the listening and of the connected socket.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);
const MTU_BYTES: u16 = 1600;
/// Length of the longest packet that fits a [`MemBuf`]. Unit: octets.
pub const PACKET_LEN_MAX: usize = BUF_BYTES - HEADROOM_BYTES;
/// Maximum number of packets per receive call.
const BURST: u16 = 64;

/// Message types.
mod kind {
    pub(super) const ACK: u16 = 1;
    pub(super) const HELLO: u16 = 2;
    pub(super) const INIT: u16 = 3;
    pub(super) const ADD_REGION: u16 = 4;
    pub(super) const ADD_RING: u16 = 5;
    pub(super) const CONNECT: u16 = 6;
    pub(super) const CONNECTED: u16 = 7;
    pub(super) const DISCONNECT: u16 = 8;
}

/// Flag of a ring that carries packets from the client.
const RING_FROM_CLIENT: u16 = 1;

/// Location of a ring.
#[derive(Debug, Clone, Copy)]
struct RingPlace {
    region: usize,
    offset: usize,
    log2_size: u8,
}

/// A listening socket for one client. Dropping it removes the socket file.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: MemifAddress,
}

impl Listener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// The address is in use or cannot be created.
    pub fn bind(address: &MemifAddress) -> Result<Self> {
        let socket = address.bind_socket()?;
        let address = address.clone();
        listen(&socket, 1).context("listen")?;
        set_socket_timeout(&socket, Timeout::Recv, Some(RECEIVE_TIMEOUT))
            .context("receive timeout")?;
        Ok(Self { socket, address })
    }

    /// Waits for the client and runs the handshake. Calls `watch` repeatedly while it waits.
    ///
    /// # Errors
    /// `watch` fails; no client connects within `timeout`; the client violates the protocol.
    pub fn accept(
        &self,
        timeout: Duration,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<Memif> {
        let end = Instant::now() + timeout;
        let mut check = || {
            if Instant::now() >= end {
                bail!("no memif client connected to {} within {timeout:?}", self.address);
            }
            watch()
        };
        let socket = loop {
            check()?;
            if let Ok(socket) = accept_with(&self.socket, SocketFlags::CLOEXEC) {
                break socket;
            }
        };
        set_socket_timeout(&socket, Timeout::Recv, Some(RECEIVE_TIMEOUT))
            .context("receive timeout")?;
        Handshake { socket, regions: Vec::new(), rings: [None; 2] }.run(check)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.address.remove_file();
    }
}

/// State of the handshake: what the client has announced so far.
struct Handshake {
    socket: OwnedFd,
    regions: Vec<MemifRegion>,
    /// The ring to the client, and the ring from it.
    rings: [Option<RingPlace>; 2],
}

impl Handshake {
    fn run(mut self, mut check: impl FnMut() -> Result<()>) -> Result<Memif> {
        let mut hello = [0; MESSAGE_LEN];
        put(&mut hello, 34, &VERSION.to_le_bytes());
        put(&mut hello, 36, &VERSION.to_le_bytes());
        // One region and one ring per direction: the highest index of each is zero.
        put(&mut hello, 44, &[LOG2_RING_SIZE_MAX]);
        self.send_message(kind::HELLO, hello)?;
        loop {
            check()?;
            let Some((message, file)) = self.receive_message()? else { continue };
            match word(&message, 0) {
                kind::INIT => {}
                kind::ADD_REGION => {
                    let file = file.context("a memif region without a file")?;
                    self.regions.push(MemifRegion::map(&file, long(&message, 4))?);
                }
                kind::ADD_RING => {
                    let from_client = word(&message, 2) & RING_FROM_CLIENT != 0;
                    let offset = u32::from_le_bytes(octets(&message, 8));
                    self.rings[usize::from(from_client)] = Some(RingPlace {
                        region: word(&message, 6).into(),
                        offset: usize::try_from(offset)?,
                        log2_size: message[12],
                    });
                }
                kind::CONNECT => break,
                kind::DISCONNECT => bail!("the memif client disconnected: {}", reason(&message)),
                kind::ACK => continue,
                other => bail!("the memif client sent a message of kind {other}"),
            }
            self.send_message(kind::ACK, [0; MESSAGE_LEN])?;
        }
        let [Some(to), Some(from)] = self.rings else {
            bail!("the memif client announced no ring for one of the directions")
        };
        let (to, from) =
            (MemifRing::open(&self.regions, to)?, MemifRing::open(&self.regions, from)?);
        self.send_message(kind::CONNECTED, [0; MESSAGE_LEN])?;
        Ok(Memif { to, from, regions: self.regions, _socket: Some(self.socket) })
    }

    fn send_message(&self, kind: u16, mut message: [u8; MESSAGE_LEN]) -> Result<()> {
        put(&mut message, 0, &kind.to_le_bytes());
        send(&self.socket, &message, SendFlags::NOSIGNAL).context("send to the memif client")?;
        Ok(())
    }

    /// Receives the next message and its file descriptor, if any; `None` if no message has arrived.
    fn receive_message(&self) -> Result<Option<([u8; MESSAGE_LEN], Option<OwnedFd>)>> {
        let mut message = [0; MESSAGE_LEN];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [rustix::io::IoSliceMut::new(&mut message)];
        let received = recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        let length = match received {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error).context("receive from the memif client"),
        };
        if length == 0 {
            bail!("the memif client closed its socket");
        }
        let mut file = None;
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = part {
                file = files.last();
            }
        }
        Ok(Some((message, file)))
    }
}

fn put(message: &mut [u8; MESSAGE_LEN], at: usize, bytes: &[u8]) {
    message[at..at + bytes.len()].copy_from_slice(bytes);
}

fn octets<const N: usize>(message: &[u8; MESSAGE_LEN], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&message[at..at + N]);
    out
}

fn word(message: &[u8; MESSAGE_LEN], at: usize) -> u16 {
    u16::from_le_bytes(octets(message, at))
}

fn long(message: &[u8; MESSAGE_LEN], at: usize) -> u64 {
    u64::from_le_bytes(octets(message, at))
}

fn reason(message: &[u8; MESSAGE_LEN]) -> String {
    let text = &message[6..102];
    let end = text.iter().position(|octet| *octet == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}

/// A connected memif.
#[derive(Debug)]
pub struct Memif {
    to: MemifRing,
    from: MemifRing,
    regions: Vec<MemifRegion>,
    _socket: Option<OwnedFd>,
}

impl Memif {
    /// Returns the capacity of a ring. Unit: packets.
    #[must_use]
    pub fn ring_len(&self) -> u16 {
        self.to.len()
    }

    /// Returns how many packets the client can accept.
    #[inline]
    pub fn room(&self) -> u16 {
        self.to.offered(&self.regions)
    }

    /// Returns the buffer of the `index`-th packet to send, where `index` is below [`Self::room`];
    /// `None` if the buffer is shorter than `len`.
    #[inline]
    pub fn fill(&mut self, index: u16, len: usize) -> Option<&mut [u8]> {
        self.to.fill(&mut self.regions, index, len)
    }

    /// Sends the first `count` filled buffers.
    #[inline]
    pub fn send(&mut self, count: u16) {
        self.to.return_descriptors(&self.regions, count);
    }

    /// Returns the number of received packets that are not released yet.
    #[inline]
    pub fn waiting(&self) -> u16 {
        self.from.offered(&self.regions)
    }

    /// Returns the `index`-th received packet, where `index` is below [`Self::waiting`].
    #[inline]
    pub fn packet(&self, index: u16) -> Option<&[u8]> {
        self.from.packet(&self.regions, index)
    }

    /// Prefetches the headers of the `index`-th received packet.
    #[inline]
    pub fn prefetch(&self, index: u16) {
        self.from.prefetch(&self.regions, index);
    }

    /// Returns the length of the `index`-th received packet. Unit: octets.
    #[inline]
    pub fn packet_len(&self, index: u16) -> usize {
        self.from.packet_len(&self.regions, index)
    }

    /// Returns the buffers of the first `count` received packets to the client.
    #[inline]
    pub fn release(&mut self, count: u16) {
        self.from.return_descriptors(&self.regions, count);
    }
}

/// Several memifs as ports. [`TrafficIo`] accesses frames in the rings; [`PacketIo`] copies them.
#[derive(Debug)]
pub struct Ports {
    /// The ports, by [`PortId`].
    pub memifs: Vec<Memif>,
    /// Their MAC addresses.
    pub macs: Vec<MacAddr>,
    /// Clients in this process, by [`PortId`]; empty if the clients are other processes.
    mirrors: Vec<Mirror>,
}

impl Ports {
    /// Makes ports with these MAC addresses.
    #[must_use]
    pub fn new(memifs: Vec<Memif>, macs: Vec<MacAddr>) -> Self {
        Self { memifs, macs, mirrors: Vec::new() }
    }

    /// Makes ports that return every packet.
    ///
    /// # Errors
    /// The memory cannot be shared.
    pub fn mirrored(macs: Vec<MacAddr>) -> Result<Self> {
        let pairs = macs.iter().map(|_| mirrored_memif()).collect::<Result<Vec<_>>>()?;
        let (memifs, mirrors) = pairs.into_iter().unzip();
        Ok(Self { memifs, macs, mirrors })
    }
}

impl TrafficIo for Ports {
    const IS_DIRECT: bool = true;

    #[inline]
    fn room(&self, port: PortId) -> usize {
        self.memifs[usize::from(port.0)].room().into()
    }

    #[inline]
    fn slot(&mut self, port: PortId, index: usize, len: usize) -> Option<&mut [u8]> {
        self.memifs[usize::from(port.0)].fill(u16::try_from(index).ok()?, len)
    }

    #[inline]
    fn commit(&mut self, port: PortId, count: usize) {
        self.memifs[usize::from(port.0)].send(u16::try_from(count).unwrap_or(0));
    }

    #[inline]
    fn receive(
        &mut self,
        port: PortId,
        mut take: impl FnMut(&[u8]) -> bool,
        rest: &mut Burst<MemBuf>,
    ) -> usize {
        if let Some(mirror) = self.mirrors.get_mut(usize::from(port.0)) {
            mirror.mirror_packets();
        }
        let memif = &mut self.memifs[usize::from(port.0)];
        let count = memif.waiting().min(BURST);
        if count == 0 {
            return 0;
        }
        (0..count).for_each(|index| memif.prefetch(index));
        for packet in (0..count).filter_map(|index| memif.packet(index)) {
            if !take(packet) && packet.len() <= PACKET_LEN_MAX && !rest.is_full() {
                rest.push(MemBuf::from_packet(packet));
            }
        }
        memif.release(count);
        count.into()
    }
}

impl PacketIo for Ports {
    type Buf = MemBuf;

    fn rx_burst(&mut self, port: PortId, limit: usize, burst: &mut Burst<MemBuf>) -> usize {
        let memif = &mut self.memifs[usize::from(port.0)];
        let limit = u16::try_from(limit.min(burst.remaining_capacity())).unwrap_or(u16::MAX);
        let count = memif.waiting().min(limit);
        let packets = (0..count).filter_map(|index| memif.packet(index));
        let short = packets.filter(|packet| packet.len() <= PACKET_LEN_MAX);
        burst.extend(short.map(MemBuf::from_packet));
        memif.release(count);
        count.into()
    }

    fn tx_burst(&mut self, port: PortId, burst: &mut Burst<MemBuf>) -> usize {
        let memif = &mut self.memifs[usize::from(port.0)];
        let mut count = 0;
        for buf in burst.iter().take(memif.room().into()) {
            let data = buf.data();
            let Some(out) = memif.fill(count, data.len()) else { break };
            out.copy_from_slice(data);
            count += 1;
        }
        memif.send(count);
        burst.drain(..usize::from(count));
        count.into()
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        Some(MemBuf::new())
    }

    fn port_info(&self, port: PortId) -> PortInfo {
        let mac = self.macs[usize::from(port.0)];
        PortInfo { mac, mtu_bytes: MTU_BYTES, rx_ipv4_checksum: false }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, connect, recv, sendmsg};

    use super::*;

    const RING_LEN: u32 = 128 + 4 * 16;
    const BUFFER_LEN: u32 = 256;
    const REGION_LEN: u32 = 2 * RING_LEN + 8 * BUFFER_LEN;

    /// A client that accesses its memory through file I/O.
    struct MemifTestClient {
        socket: OwnedFd,
        memory: std::fs::File,
    }

    impl MemifTestClient {
        /// Makes two rings of four descriptors with buffers; the first ring leads to the client.
        fn new(name: &str) -> Self {
            let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None);
            let socket = socket.unwrap();
            connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
            let memory = std::fs::File::from(memfd_create(name, MemfdFlags::CLOEXEC).unwrap());
            memory.set_len(REGION_LEN.into()).unwrap();
            let client = Self { socket, memory };
            for ring in 0..2 {
                client.write(ring * RING_LEN, &0x03e3_1f20_u32.to_le_bytes());
                for slot in 0..4 {
                    let buffer = 2 * RING_LEN + (ring * 4 + slot) * BUFFER_LEN;
                    let at = ring * RING_LEN + 128 + slot * 16;
                    client.write(at + 4, &BUFFER_LEN.to_le_bytes());
                    client.write(at + 8, &buffer.to_le_bytes());
                }
            }
            client
        }

        fn write(&self, at: u32, bytes: &[u8]) {
            self.memory.write_all_at(bytes, at.into()).unwrap();
        }

        fn read<const N: usize>(&self, at: u32) -> [u8; N] {
            let mut out = [0; N];
            self.memory.read_exact_at(&mut out, at.into()).unwrap();
            out
        }

        fn send_message(&self, kind: u16, fields: &[(usize, &[u8])], with_file: bool) {
            let mut message = [0; MESSAGE_LEN];
            put(&mut message, 0, &kind.to_le_bytes());
            fields.iter().for_each(|(at, bytes)| put(&mut message, *at, bytes));
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let files = [self.memory.as_fd()];
            if with_file {
                assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
            }
            let parts = [rustix::io::IoSlice::new(&message)];
            sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::empty()).unwrap();
        }

        fn receive_message(&self) -> u16 {
            let mut message = [0; MESSAGE_LEN];
            let buffer = &mut message[..];
            assert_eq!(recv(&self.socket, buffer, RecvFlags::empty()).unwrap().0, MESSAGE_LEN);
            word(&message, 0)
        }

        /// Announces one region of `region_len` octets and both rings.
        fn introduce(&self, region_len: u32) {
            assert_eq!(self.receive_message(), kind::HELLO);
            self.send_message(kind::INIT, &[(2, &VERSION.to_le_bytes())], false);
            assert_eq!(self.receive_message(), kind::ACK);
            let len = u64::from(region_len).to_le_bytes();
            self.send_message(kind::ADD_REGION, &[(4, &len)], true);
        }

        fn announce_rings(&self) {
            for (flags, offset) in [(1_u16, RING_LEN), (0, 0)] {
                assert_eq!(self.receive_message(), kind::ACK);
                let (flags, offset) = (flags.to_le_bytes(), offset.to_le_bytes());
                self.send_message(kind::ADD_RING, &[(2, &flags), (8, &offset), (12, &[2])], true);
            }
            assert_eq!(self.receive_message(), kind::ACK);
            self.send_message(kind::CONNECT, &[], false);
            assert_eq!(self.receive_message(), kind::CONNECTED);
        }
    }

    fn pair(name: &str) -> (Memif, MemifTestClient) {
        let name = format!("adit-lab-test-{name}-{}", std::process::id());
        let listener = Listener::bind(&MemifAddress::Abstract(name.clone())).unwrap();
        let client = std::thread::spawn(move || {
            let client = MemifTestClient::new(&name);
            client.introduce(REGION_LEN);
            client.announce_rings();
            client
        });
        let memif = listener.accept(Duration::from_secs(10), || Ok(())).unwrap();
        (memif, client.join().unwrap())
    }

    #[test]
    fn packet_goes_to_the_client_through_its_memory() {
        let (mut memif, client) = pair("to");
        assert_eq!(memif.room(), 0);
        client.write(6, &4_u16.to_le_bytes());
        assert_eq!(memif.room(), 4);
        memif.fill(0, 3).unwrap().copy_from_slice(b"one");
        memif.fill(1, 5).unwrap().copy_from_slice(b"seven");
        assert!(memif.fill(2, 257).is_none(), "longer than the client's buffer");
        memif.send(2);
        assert_eq!((memif.room(), client.read::<2>(64)), (2, [2, 0]));
        assert_eq!(client.read::<4>(128 + 16 + 4), [5, 0, 0, 0], "length of the second");
        assert_eq!(&client.read::<5>(2 * RING_LEN + BUFFER_LEN), b"seven");
    }

    #[test]
    fn packet_of_the_client_is_received_and_released() {
        let (mut memif, client) = pair("from");
        assert_eq!(client.read::<2>(RING_LEN + 4), [1, 0], "no interrupts are wanted");
        client.write(2 * RING_LEN + 4 * BUFFER_LEN, b"packet");
        client.write(RING_LEN + 128 + 4, &6_u32.to_le_bytes());
        client.write(RING_LEN + 6, &1_u16.to_le_bytes());
        assert_eq!((memif.waiting(), memif.packet_len(0)), (1, 6));
        assert_eq!(memif.packet(0), Some(&b"packet"[..]));
        memif.release(1);
        assert_eq!((memif.waiting(), client.read::<2>(RING_LEN + 64)), (0, [1, 0]));
    }

    #[test]
    fn descriptor_that_points_out_of_its_region_has_no_packet() {
        let (memif, client) = pair("outside");
        client.write(RING_LEN + 128 + 8, &(REGION_LEN - 5).to_le_bytes());
        client.write(RING_LEN + 128 + 4, &6_u32.to_le_bytes());
        client.write(RING_LEN + 6, &1_u16.to_le_bytes());
        assert_eq!((memif.waiting(), memif.packet(0)), (1, None));
    }

    #[test]
    fn region_longer_than_its_file_is_refused() {
        let name = format!("adit-lab-test-long-{}", std::process::id());
        let listener = Listener::bind(&MemifAddress::Abstract(name.clone())).unwrap();
        let client = std::thread::spawn(move || {
            let client = MemifTestClient::new(&name);
            client.introduce(REGION_LEN + 1);
            client
        });
        let error = listener.accept(Duration::from_secs(10), || Ok(())).unwrap_err();
        assert!(error.to_string().contains("announced a region"), "{error:#}");
        drop(client.join().unwrap());
    }
}
