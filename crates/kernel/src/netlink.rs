//! The part of rtnetlink that configures a device. Spec: RFC 3549; `linux/rtnetlink.h`.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::network::IpNetwork;

/// Octets of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Octets of `struct nlattr`.
const ATTRIBUTE: usize = 4;

const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_MODE_NONE: u8 = 1;

/// A connection to the kernel's configuration.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// A request under construction.
struct Request(Vec<u8>);

impl Request {
    fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let flags = u16::try_from(flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK).unwrap_or(0);
        let mut octets = vec![0; 4];
        octets.extend(kind.to_ne_bytes());
        octets.extend(flags.to_ne_bytes());
        octets.extend([0; 8]);
        octets.extend(body);
        Self(octets)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let len = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(0);
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::Netlink, SockType::Raw);
        let protocol = SockProtocol::NetlinkRoute;
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The index of a device.
    pub(crate) fn index(&self, name: &str) -> io::Result<i32> {
        let index = nix::net::if_::if_nametoindex(name)?;
        i32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Sets MTU and queue length, and brings the device up, without multicast.
    pub(crate) fn set_up(&mut self, index: i32, mtu: u32, queue_pkts: u32) -> io::Result<()> {
        let up = flag(libc::IFF_UP);
        let change = up | flag(libc::IFF_MULTICAST);
        let request = Request::new(libc::RTM_NEWLINK, 0, &link(index, up, change))
            .attribute(libc::IFLA_MTU, &mtu.to_ne_bytes())
            .attribute(libc::IFLA_TXQLEN, &queue_pkts.to_ne_bytes());
        self.request(request)
    }

    /// Keeps the kernel from giving the device a link-local address, and so from soliciting routers there.
    pub(crate) fn disable_address_generation(&mut self, index: i32) -> io::Result<()> {
        let mode = nested(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE]);
        let family = nested(u16::try_from(libc::AF_INET6).unwrap_or(0), &mode);
        let request = Request::new(libc::RTM_NEWLINK, 0, &link(index, 0, 0))
            .attribute(libc::IFLA_AF_SPEC, &family);
        self.request(request)
    }

    /// Adds an address to the device, or replaces the same one.
    pub(crate) fn add_address(&mut self, index: i32, address: IpNetwork) -> io::Result<()> {
        let index = index.to_ne_bytes();
        // `struct ifaddrmsg`: family, prefix length, flags (no duplicate address detection), scope, index.
        let nodad = u8::try_from(libc::IFA_F_NODAD).unwrap_or(0);
        let mut body = vec![family(address.addr), address.len, nodad, 0];
        body.extend(index);
        let addr = octets(address.addr);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let request = Request::new(libc::RTM_NEWADDR, flags, &body)
            .attribute(libc::IFA_LOCAL, &addr)
            .attribute(libc::IFA_ADDRESS, &addr);
        self.request(request)
    }

    /// Adds a route into the device.
    ///
    /// # Errors
    /// Another route to the same network exists.
    pub(crate) fn add_route(&mut self, index: i32, network: IpNetwork) -> io::Result<()> {
        // `struct rtmsg`: family, destination and source lengths, TOS, table, protocol, scope, type, flags.
        let is_v4 = network.addr.is_ipv4();
        let scope = if is_v4 { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let mut body = vec![family(network.addr), network.len, 0, 0, libc::RT_TABLE_MAIN];
        body.extend([libc::RTPROT_STATIC, scope, libc::RTN_UNICAST, 0, 0, 0, 0]);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = Request::new(libc::RTM_NEWROUTE, flags, &body)
            .attribute(libc::RTA_DST, &octets(network.addr))
            .attribute(libc::RTA_OIF, &index.to_ne_bytes());
        self.request(request)
    }

    /// Sends a request and waits for its acknowledgment.
    fn request(&mut self, request: Request) -> io::Result<()> {
        let mut octets = request.0;
        self.sequence += 1;
        let len = u32::try_from(octets.len()).unwrap_or(0);
        octets[..4].copy_from_slice(&len.to_ne_bytes());
        octets[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        let fd = self.socket.as_raw_fd();
        send(fd, &octets, MsgFlags::empty())?;
        let mut answer = [0; 4096];
        loop {
            let len = recv(fd, &mut answer, MsgFlags::empty())?;
            let answer = &answer[..len];
            let number = |at: usize| {
                let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
                bytes.map(|bytes| i32::from_ne_bytes(*bytes))
            };
            if number(8) != i32::try_from(self.sequence).ok() {
                continue;
            }
            return match number(HEADER) {
                Some(0) => Ok(()),
                Some(error) => Err(io::Error::from_raw_os_error(-error)),
                None => Err(io::ErrorKind::InvalidData.into()),
            };
        }
    }
}

/// `struct ifinfomsg`.
fn link(index: i32, flags: u32, change: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend(change.to_ne_bytes());
    body
}

fn nested(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(0);
    let mut octets = len.to_ne_bytes().to_vec();
    octets.extend(kind.to_ne_bytes());
    octets.extend(value);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

fn flag(flag: i32) -> u32 {
    u32::try_from(flag).unwrap_or(0)
}

fn family(addr: IpAddr) -> u8 {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    u8::try_from(family).unwrap_or(0)
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}
