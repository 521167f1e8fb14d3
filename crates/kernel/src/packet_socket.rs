//! Sends packets that adit makes on an Ethernet device of the kernel. Spec: packet(7).

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};

use adit_types::MacAddr;
use adit_wire::EtherType;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Length of `struct sockaddr_ll`.
#[allow(clippy::cast_possible_truncation, reason = "a small structure")]
const NAME_LEN: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

/// A socket that sends through one device and receives nothing.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: OwnedFd,
    index: i32,
    /// The hardware address of the device.
    pub mac: MacAddr,
}

impl PacketSocket {
    /// Opens a socket for the device; `None` if it is not an Ethernet device.
    ///
    /// # Errors
    /// The kernel's, for example without `CAP_NET_RAW`.
    pub(crate) fn open(index: i32) -> io::Result<Option<Self>> {
        let (family, flags) = (AddressFamily::Packet, SockFlag::SOCK_CLOEXEC);
        let socket = socket(family, SockType::Datagram, flags, None)?;
        Ok(bind_device(&socket, index, 0)?.map(|mac| Self { socket, index, mac }))
    }

    /// Sends a packet, without its Ethernet header, to the station `dst`.
    ///
    /// # Errors
    /// The kernel's, for example if the device is down.
    pub(crate) fn send(&self, dst: MacAddr, kind: EtherType, packet: &[u8]) -> io::Result<()> {
        let mut to = socket_address_of(self.index);
        to.sll_protocol = kind.0.to_be();
        to.sll_halen = 6;
        to.sll_addr[..6].copy_from_slice(&dst.0);
        // SAFETY: `packet` and `to` live across the call, and the lengths passed are theirs.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const to).cast(),
                NAME_LEN,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Binds a packet socket to a device, from which it then receives frames of the type `protocol` of
/// `linux/if_ether.h`; none if `protocol` is zero. Returns the device's hardware address; `None` if
/// it is not an Ethernet device.
///
/// # Errors
/// The kernel's.
pub(crate) fn bind_device(
    socket: &OwnedFd,
    index: i32,
    protocol: i32,
) -> io::Result<Option<MacAddr>> {
    let mut own = socket_address_of(index);
    own.sll_protocol = u16::try_from(protocol).unwrap_or(0).to_be();
    // SAFETY: `own` is a structure of `NAME_LEN` octets that lives across the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const own).cast(), NAME_LEN) })?;
    let mut len = NAME_LEN;
    // SAFETY: `own` lives across the call, and `len` holds its size.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut own).cast(), &raw mut len) })?;
    let mac = own
        .sll_addr
        .first_chunk::<6>()
        .filter(|_| own.sll_hatype == libc::ARPHRD_ETHER && own.sll_halen == 6);
    Ok(mac.map(|mac| MacAddr(*mac)))
}

/// Makes the device of a packet socket receive all multicast frames while the socket exists.
///
/// # Errors
/// The kernel's.
pub(crate) fn receive_multicast(socket: &OwnedFd, index: i32) -> io::Result<()> {
    let all = u16::try_from(libc::PACKET_MR_ALLMULTI).unwrap_or(0);
    let request =
        libc::packet_mreq { mr_ifindex: index, mr_type: all, mr_alen: 0, mr_address: [0; 8] };
    let len = libc::socklen_t::try_from(size_of::<libc::packet_mreq>()).unwrap_or(0);
    let (option, value) = (libc::PACKET_ADD_MEMBERSHIP, (&raw const request).cast());
    // SAFETY: the kernel reads `len` octets of `request`, which lives across the call.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, len) })
}

fn socket_address_of(index: i32) -> libc::sockaddr_ll {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut name: libc::sockaddr_ll = unsafe { zeroed() };
    name.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    name.sll_ifindex = index;
    name
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
