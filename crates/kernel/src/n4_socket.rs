//! The N4 socket: large buffers, reception in batches, and a count of datagrams that the kernel
//! dropped.
//!
//! The kernel holds datagrams to a neighbor that does not answer ARP or ND for about three seconds,
//! and charges them to the send buffer. Requests with the source addresses of absent hosts can fill
//! that buffer, so answers to addresses without an association leave by a second socket with the
//! same address and port, which receives nothing. A neighbor with an association that has
//! disappeared takes at most the kernel's queue for one neighbor (`unres_qlen_bytes`, 208 KiB).

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use adit_types::limits::PFCP_MESSAGE_BYTES_MAX;
use nix::libc::{BPF_K, BPF_RET, sock_filter, sock_fprog};
use nix::sys::socket::sockopt::{AttachReusePortCbpf, ReusePort, RxqOvfl};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, setsockopt,
};
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force, socket_recv_buffer_size,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Default receive buffer of the N4 socket: about 10,000 requests of 500 octets with the kernel's
/// overhead.
pub const RECEIVE_BUFFER_KIB: usize = 16_384;

/// Size of each of the two send buffers, for known peers and for all other addresses: enough for
/// datagrams that wait for 300 absent neighbors. Without `CAP_NET_ADMIN`, `net.core.wmem_max`
/// limits it. Unit: octets.
const SEND_BUFFER_BYTES: usize = 64 << 20;

/// Maximum number of datagrams per system call.
const BATCH_MAX: usize = 32;

/// The UDP socket of the PFCP node.
#[derive(Debug)]
pub struct N4Socket {
    socket: UdpSocket,
    /// The second socket: sends to addresses without an association. `None` until `listen` is
    /// bound.
    to_strangers: Option<UdpSocket>,
    listen: SocketAddr,
    buffers: Vec<Vec<u8>>,
    receive_buffer_bytes: usize,
    dropped: u64,
    /// The kernel's last count of dropped datagrams, modulo 2^32.
    last_count: u32,
}

impl N4Socket {
    /// Binds a nonblocking socket with a receive buffer of `receive_buffer_bytes`, or less if the
    /// kernel limits it: `net.core.rmem_max` applies to processes without `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(listen: SocketAddr, receive_buffer_bytes: usize) -> io::Result<Self> {
        let mut socket = Self::unbound(listen, receive_buffer_bytes)?;
        socket.listen()?;
        Ok(socket)
    }

    /// Creates the socket for `listen` without binding the address. It receives nothing, and must
    /// not send.
    ///
    /// # Errors
    /// The kernel's.
    pub fn unbound(listen: SocketAddr, receive_buffer_bytes: usize) -> io::Result<Self> {
        let socket = sending_socket(listen)?;
        if set_socket_recv_buffer_size_force(&socket, receive_buffer_bytes).is_err() {
            set_socket_recv_buffer_size(&socket, receive_buffer_bytes)?;
        }
        // The kernel reports twice the requested size, because it adds its own overhead.
        let receive_buffer_bytes = socket_recv_buffer_size(&socket)? / 2;
        setsockopt(&socket, RxqOvfl, &1)?;
        let buffers = (0..BATCH_MAX).map(|_| vec![0; PFCP_MESSAGE_BYTES_MAX]).collect();
        Ok(Self {
            socket,
            to_strangers: None,
            listen,
            buffers,
            receive_buffer_bytes,
            dropped: 0,
            last_count: 0,
        })
    }

    /// Binds the address. From then on the socket receives.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen(&mut self) -> io::Result<()> {
        // Binds without `SO_REUSEPORT` first, so that an address in use by another process is
        // refused.
        rustix::net::bind(&self.socket, &self.listen)?;
        let second = sending_socket(self.listen)?;
        setsockopt(&self.socket, ReusePort, &true)?;
        setsockopt(&second, ReusePort, &true)?;
        rustix::net::bind(&second, &self.local_addr()?)?;
        receive_by_first(&second)?;
        self.to_strangers = Some(second);
        Ok(())
    }

    /// Returns the size of the receive buffer that the kernel granted. Unit: octets.
    pub const fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// Returns how many datagrams the kernel had dropped, because the buffer was full, when the
    /// last received datagram arrived.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the bound address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends to `to`. `is_known`: the peer has an association.
    ///
    /// # Errors
    /// The kernel's: `WouldBlock` if the socket for peers of this kind holds too many datagrams
    /// that wait for neighbors.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr, is_known: bool) -> io::Result<usize> {
        let other = self.to_strangers.as_ref().filter(|_| !is_known);
        other.unwrap_or(&self.socket).send_to(bytes, to)
    }

    /// Passes waiting datagrams to `take`: at most `max`, rounded up to whole batches.
    ///
    /// # Errors
    /// The kernel's, except reports that an earlier datagram did not reach its peer.
    pub fn receive(
        &mut self,
        max: usize,
        mut take: impl FnMut(SocketAddr, &[u8]),
    ) -> io::Result<()> {
        let mut tried = 0;
        while tried < max {
            match self.receive_batch(&mut take) {
                Ok(count) if count < BATCH_MAX => return Ok(()),
                Ok(count) => tried += count,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    ErrorKind::ConnectionRefused | ErrorKind::Interrupted => tried += 1,
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Receives one batch. Returns the number of datagrams.
    fn receive_batch(&mut self, take: &mut impl FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
        let Self { socket, buffers, dropped, last_count, .. } = self;
        let control = nix::cmsg_space!(u32);
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH_MAX, Some(control));
        let mut slices: Vec<_> =
            buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = socket.as_raw_fd();
        let received = recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None)?;
        let mut count = 0;
        for datagram in received {
            count += 1;
            for control in datagram.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::RxqOvfl(number) = control {
                    *dropped += u64::from(number.wrapping_sub(*last_count));
                    *last_count = number;
                }
            }
            let octets = datagram.iovs().next().unwrap_or_default();
            let from = datagram.address.as_ref().and_then(address);
            if let (Some(from), Some(octets)) = (from, octets.get(..datagram.bytes)) {
                take(from, octets);
            }
        }
        Ok(count)
    }
}

impl AsFd for N4Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a nonblocking UDP socket with a large send buffer, of the family of `listen`.
fn sending_socket(listen: SocketAddr) -> io::Result<UdpSocket> {
    let family = if listen.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = UdpSocket::from(socket_with(family, SocketType::DGRAM, flags, None)?);
    if set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES).is_err() {
        set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
    }
    Ok(socket)
}

/// Makes the first socket of the reuseport group of `member` receive all datagrams
/// (`SO_ATTACH_REUSEPORT_CBPF`).
fn receive_by_first(member: &UdpSocket) -> io::Result<()> {
    let code = u16::try_from(BPF_RET | BPF_K).map_err(io::Error::other)?;
    let mut first = [sock_filter { code, jt: 0, jf: 0, k: 0 }];
    let program = sock_fprog { len: 1, filter: first.as_mut_ptr() };
    Ok(setsockopt(member, AttachReusePortCbpf, &program)?)
}

fn address(of: &SockaddrStorage) -> Option<SocketAddr> {
    let v6 = || of.as_sockaddr_in6().map(|address| SocketAddr::from(*address));
    of.as_sockaddr_in().map(|address| SocketAddr::from(*address)).or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &mut N4Socket) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let before = all.len();
            socket.receive(64, |from, octets| all.push((from, octets.to_vec()))).unwrap();
            if all.len() == before {
                return all;
            }
        }
    }

    #[test]
    fn burst_of_requests_waits_in_order_and_none_is_lost() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let mut socket = N4Socket::bind(listen.parse().unwrap(), 16 << 20).unwrap();
            if socket.receive_buffer_bytes() < 16 << 20 {
                println!("skipped: net.core.rmem_max does not allow 16 MiB");
                return;
            }
            let client = UdpSocket::bind(listen).unwrap();
            for number in 0..5000_u32 {
                client.send_to(&number.to_be_bytes(), socket.local_addr().unwrap()).unwrap();
            }
            let from = client.local_addr().unwrap();
            let sent = (0..5000_u32).map(|number| (from, number.to_be_bytes().to_vec()));
            assert_eq!(received(&mut socket), sent.collect::<Vec<_>>());
            assert_eq!(socket.dropped(), 0);
        }
    }

    /// Without the filter of the reuseport group, the kernel passes the datagrams of about half of
    /// all senders to the second socket.
    #[test]
    fn second_socket_sends_from_the_same_port_and_receives_nothing() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let mut socket = N4Socket::bind(listen.parse().unwrap(), 1 << 20).unwrap();
            let to = socket.local_addr().unwrap();
            let clients: Vec<_> = (0..64).map(|_| UdpSocket::bind(listen).unwrap()).collect();
            for client in &clients {
                client.send_to(b"request", to).unwrap();
            }
            assert_eq!(received(&mut socket).len(), clients.len());
            let mut answer = [0; 8];
            for (client, is_known) in clients.iter().zip([true, false].into_iter().cycle()) {
                socket.send_to(b"answer", client.local_addr().unwrap(), is_known).unwrap();
                assert_eq!(client.recv_from(&mut answer).unwrap(), (6, to));
            }
        }
    }

    #[test]
    fn address_of_another_adit_is_refused() {
        let first = N4Socket::bind("127.0.0.1:0".parse().unwrap(), 4096).unwrap();
        let second = N4Socket::bind(first.local_addr().unwrap(), 4096);
        assert_eq!(second.unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn datagrams_that_the_kernel_dropped_are_counted() {
        let mut socket = N4Socket::bind("127.0.0.1:0".parse().unwrap(), 4096).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        for round in 0..2 {
            let flood = 500;
            for _ in 0..flood {
                client.send_to(&[7; 100], to).unwrap();
            }
            let waiting = received(&mut socket).len();
            assert!(waiting < flood, "round {round}");
            // The kernel reports the last drops with the next datagram.
            client.send_to(&[8], to).unwrap();
            assert_eq!(received(&mut socket).len(), 1);
            let lost = u64::try_from((round + 1) * (flood - waiting)).unwrap();
            assert_eq!(socket.dropped(), lost);
        }
    }
}
