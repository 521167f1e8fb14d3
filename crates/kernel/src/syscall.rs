//! The system calls of the packet path: `recvmmsg`, `sendmmsg`, `read` and `writev` without a copy
//! or an allocation, and the `ioctl`s of TUN devices.
//!
//! libc has no safe form of these calls. Every pointer that is passed to the kernel points into a
//! slice or an array that lives across the call.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use adit_types::limits::BURST_MAX;
use arrayvec::ArrayVec;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;

use crate::cmsg::ControlBuffer;

/// A socket address, large enough for IPv4 and IPv6.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union PeerName {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl PeerName {
    const LEN: libc::socklen_t = length_of::<Self>();

    /// Returns the empty address: for messages to the bound address, or for the kernel to fill in.
    pub(crate) const fn none() -> Self {
        // SAFETY: both structures consist of integers, for which zero is a value.
        unsafe { core::mem::zeroed() }
    }

    fn new(addr: SocketAddr) -> (Self, libc::socklen_t) {
        let mut name = Self::none();
        match addr {
            SocketAddr::V4(addr) => {
                name.v4 = libc::sockaddr_in {
                    sin_family: family(libc::AF_INET),
                    sin_port: addr.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*addr.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                (name, length_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(addr) => {
                name.v6 = libc::sockaddr_in6 {
                    sin6_family: family(libc::AF_INET6),
                    sin6_port: addr.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
                    sin6_scope_id: 0,
                };
                (name, length_of::<libc::sockaddr_in6>())
            }
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        // SAFETY: both members begin with the family, and every bit pattern is a value of all
        // fields.
        let v4 = unsafe { self.v4 };
        match i32::from(v4.sin_family) {
            libc::AF_INET => {
                let addr = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(addr, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: every bit pattern is a value of `sockaddr_in6`, and the union has its
                // size.
                let v6 = unsafe { self.v6 };
                let addr = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(addr, u16::from_be(v6.sin6_port), 0, 0).into())
            }
            _ => None,
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small constant")]
const fn family(family: i32) -> libc::sa_family_t {
    family as libc::sa_family_t
}

#[allow(clippy::cast_possible_truncation, reason = "a small structure")]
const fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

const fn empty_slice() -> libc::iovec {
    libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }
}

const fn empty_message() -> libc::mmsghdr {
    // SAFETY: integers and pointers, for which zero is a value.
    unsafe { core::mem::zeroed() }
}

/// One received datagram, or several of one size that the kernel has joined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedDatagram {
    /// Length of the datagram, which begins at the start of its place in the buffer. Unit: octets.
    pub len: usize,
    /// Length of the control messages. Unit: octets.
    pub control_len: usize,
    /// The sender; `None` if it is not an IP address.
    pub from: Option<SocketAddr>,
    /// True if the datagram was truncated to the size of its place.
    pub is_cut: bool,
}

/// The layout of the places for datagrams in a buffer. Unit: octets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceLayout {
    /// Distance from one place to the next.
    pub stride: usize,
    /// The size of each place.
    pub size: usize,
}

/// Receives at most `limit` datagrams. Datagram *n* goes to `buffer[n * stride..][..size]`, its
/// control messages to `controls[n]`. Does not block.
///
/// # Errors
/// The kernel's; `WouldBlock` if there is no datagram.
pub(crate) fn receive_datagrams(
    socket: BorrowedFd<'_>,
    limit: usize,
    buffer: &mut [u8],
    places: PlaceLayout,
    controls: &mut [ControlBuffer],
) -> io::Result<ArrayVec<ReceivedDatagram, BURST_MAX>> {
    let mut names = [PeerName::none(); BURST_MAX];
    let mut slices = [empty_slice(); BURST_MAX];
    let mut messages = [const { empty_message() }; BURST_MAX];
    let PlaceLayout { stride, size } = places;
    let limit = limit.min(BURST_MAX).min(controls.len());
    let places = buffer.chunks_mut(stride).zip(controls);
    let parts = slices.iter_mut().zip(&mut names).zip(&mut messages);
    let mut count = 0;
    for (((slice, name), message), (place, control)) in parts.zip(places).take(limit) {
        let place = &mut place[..size];
        *slice = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
        let header = &mut message.msg_hdr;
        header.msg_name = core::ptr::from_mut(name).cast();
        header.msg_namelen = PeerName::LEN;
        header.msg_iov = slice;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr();
        header.msg_controllen = ControlBuffer::LEN;
        count += 1;
    }
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    let none = core::ptr::null_mut();
    // SAFETY: the first `count` messages point to slices, names and control buffers that live
    // across the call, have the given lengths, and are not borrowed otherwise.
    let received = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), count, flags, none) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let taken =
        messages.iter().zip(&names).take(received).map(|(message, name)| ReceivedDatagram {
            len: usize::try_from(message.msg_len).unwrap_or(0),
            control_len: message.msg_hdr.msg_controllen,
            from: name.address(),
            is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        });
    Ok(taken.collect())
}

/// Datagrams to be sent. Each has one destination and consists of consecutive slices.
pub(crate) struct SendBatch<'a> {
    messages: ArrayVec<SendMessage, BURST_MAX>,
    slices: ArrayVec<libc::iovec, { 2 * BURST_MAX }>,
    controls: [ControlBuffer; BURST_MAX],
    octets: core::marker::PhantomData<&'a [u8]>,
}

#[derive(Clone, Copy)]
struct SendMessage {
    name: PeerName,
    name_len: libc::socklen_t,
    first: usize,
    count: usize,
    control_len: usize,
}

impl<'a> SendBatch<'a> {
    pub(crate) fn new() -> Self {
        Self {
            messages: ArrayVec::new(),
            slices: ArrayVec::new(),
            controls: [ControlBuffer::default(); BURST_MAX],
            octets: core::marker::PhantomData,
        }
    }

    /// Begins a message, whose octets [`SendBatch::add`] appends. `fill` writes its control
    /// messages and returns their length.
    pub(crate) fn begin(&mut self, to: SocketAddr, fill: impl FnOnce(&mut ControlBuffer) -> usize) {
        let (name, name_len) = PeerName::new(to);
        let at = self.messages.len();
        let control_len = self.controls.get_mut(at).map_or(0, fill);
        let first = self.slices.len();
        self.messages.push(SendMessage { name, name_len, first, count: 0, control_len });
    }

    /// Begins a message to the address or device that the socket is bound to.
    pub(crate) fn begin_bound(&mut self) {
        let (name, first) = (PeerName::none(), self.slices.len());
        self.messages.push(SendMessage { name, name_len: 0, first, count: 0, control_len: 0 });
    }

    /// Appends octets to the last message. The batch has room for two slices per message on
    /// average.
    pub(crate) fn add(&mut self, octets: &'a [u8]) {
        let base = octets.as_ptr().cast_mut().cast();
        self.slices.push(libc::iovec { iov_base: base, iov_len: octets.len() });
        if let Some(message) = self.messages.last_mut() {
            message.count += 1;
        }
    }

    /// Replaces the control messages of the last message.
    pub(crate) fn set_control(&mut self, fill: impl FnOnce(&mut ControlBuffer) -> usize) {
        let at = self.messages.len().saturating_sub(1);
        let len = self.controls.get_mut(at).map_or(0, fill);
        if let Some(message) = self.messages.last_mut() {
            message.control_len = len;
        }
    }

    /// Returns the number of messages.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Sends the messages from index `from` on, and returns how many the kernel accepted. Does not
    /// block.
    ///
    /// # Errors
    /// The kernel refused the message at `from`.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, from: usize) -> io::Result<usize> {
        let Self { messages, slices, controls, .. } = self;
        let mut headers = [const { empty_message() }; BURST_MAX];
        let mut count = 0;
        let parts = messages.iter_mut().zip(controls.iter_mut()).skip(from);
        for (header, (message, control)) in headers.iter_mut().zip(parts) {
            let Some(run) = slices.get_mut(message.first..message.first + message.count) else {
                break;
            };
            let header = &mut header.msg_hdr;
            header.msg_name = core::ptr::from_mut(&mut message.name).cast();
            header.msg_namelen = message.name_len;
            header.msg_iov = run.as_mut_ptr();
            header.msg_iovlen = message.count;
            if message.control_len > 0 {
                header.msg_control = control.as_mut_ptr();
                header.msg_controllen = message.control_len;
            }
            count += 1;
        }
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        // SAFETY: the first `count` messages point to names, slices and control buffers of this
        // batch; the slices point to octets that are borrowed for its lifetime, and the kernel only
        // reads them.
        let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Slices that one system call writes.
pub(crate) struct WriteSlices<'a> {
    slices: ArrayVec<libc::iovec, { BURST_MAX + 1 }>,
    octets: core::marker::PhantomData<&'a [u8]>,
}

impl<'a> WriteSlices<'a> {
    pub(crate) fn new() -> Self {
        Self { slices: ArrayVec::new(), octets: core::marker::PhantomData }
    }

    pub(crate) fn add(&mut self, octets: &'a [u8]) {
        let base = octets.as_ptr().cast_mut().cast();
        self.slices.push(libc::iovec { iov_base: base, iov_len: octets.len() });
    }

    /// Writes all slices as one packet.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn write(&self, device: BorrowedFd<'_>) -> io::Result<()> {
        let count = i32::try_from(self.slices.len()).unwrap_or(0);
        // SAFETY: the slices point to octets that are borrowed for this value's lifetime, and the
        // kernel only reads them.
        let written = unsafe { libc::writev(device.as_raw_fd(), self.slices.as_ptr(), count) };
        usize::try_from(written).map(drop).map_err(|_| io::Error::last_os_error())
    }
}

/// `struct ifreq` of `linux/if.h` as `TUNSETIFF` uses it: name, flags, and the rest of its union.
#[repr(C)]
struct TunRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<TunRequest>() == size_of::<libc::ifreq>());

/// Attaches `file`, an open `/dev/net/tun`, to the device `name`, which the kernel creates if
/// absent.
///
/// # Errors
/// The kernel's.
pub(crate) fn attach_tun(file: &File, name: &str, flags: u16) -> io::Result<()> {
    let mut request = TunRequest { name: [0; libc::IFNAMSIZ], flags, rest: [0; 22] };
    let place = request.name.get_mut(..name.len()).filter(|_| name.len() < libc::IFNAMSIZ);
    place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
    let argument = core::ptr::from_mut(&mut request);
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`; `request` has its size and its leading
    // fields.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, argument) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets which unfinished packets a TUN device may pass to adit: those with incomplete checksums,
/// and large packets.
///
/// # Errors
/// The kernel does not support one of the flags.
pub(crate) fn set_tun_offload(file: &File, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the argument of TUNSETOFFLOAD is a number, not a pointer.
    let done =
        unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags)) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets whether a TUN or TAP device has a carrier.
///
/// # Errors
/// The kernel's.
pub(crate) fn set_tun_carrier(file: &File, is_up: bool) -> io::Result<()> {
    let carrier = libc::c_int::from(is_up);
    let pointer = core::ptr::from_ref(&carrier);
    // SAFETY: TUNSETCARRIER reads a number at the address, which lives across the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETCARRIER, pointer) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `struct ethtool_value` of `linux/ethtool.h`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// `struct ifreq` as `SIOCETHTOOL` uses it: name, address of the command, rest of its union.
#[repr(C)]
struct EthtoolRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut EthtoolValue,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<EthtoolRequest>() == size_of::<libc::ifreq>());

/// Returns the answer of a device to an ethtool command that reads one number.
///
/// # Errors
/// The kernel's.
pub(crate) fn ethtool_value(device: &str, command: u32) -> io::Result<u32> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut value = EthtoolValue { command, value: 0 };
    let data = core::ptr::from_mut(&mut value);
    let mut request = EthtoolRequest { name: [0; libc::IFNAMSIZ], data, rest: [0; 16] };
    let place = request.name.get_mut(..device.len()).filter(|_| device.len() < libc::IFNAMSIZ);
    place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(device.as_bytes());
    let argument = core::ptr::from_mut(&mut request);
    // SAFETY: SIOCETHTOOL reads a `struct ifreq`; `request` has its size. Commands that read one
    // number write a `struct ethtool_value` at `data`, which lives across the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, argument) };
    if done == 0 { Ok(value.value) } else { Err(io::Error::last_os_error()) }
}

/// Sets an integer option of a socket.
///
/// # Errors
/// The kernel's.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: i32,
) -> io::Result<()> {
    let pointer = core::ptr::from_ref(&value).cast();
    let len = length_of::<i32>();
    // SAFETY: the kernel reads four octets of `value`, which lives across the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `program` choose the receiver of each datagram among the sockets that share the address of
/// `socket`. It returns an index in the order in which they were bound.
///
/// # Errors
/// The kernel's.
pub(crate) fn attach_reuseport(
    socket: BorrowedFd<'_>,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let len = u16::try_from(program.len()).unwrap_or(0);
    let filter = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    Ok(setsockopt(&socket, AttachReusePortCbpf, &filter)?)
}

impl core::fmt::Debug for SendBatch<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SendBatch").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}
