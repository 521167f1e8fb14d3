//! The part of rtnetlink that reads and configures devices, addresses and routes. Spec: RFC 3549;
//! `linux/rtnetlink.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use adit_types::MacAddr;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::network::{HostRoute, IpNetwork, NetworkDevice};

/// Octets of `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
/// Octets of `struct nlattr`.
const ATTRIBUTE_HEADER_LEN: usize = 4;
/// Size of the buffer for answers: the kernel sends at most 32 KiB at once. Unit: octets.
const ANSWER_BYTES_MAX: usize = 32 << 10;

/// `linux/netlink.h`: removes the flags for nested attributes and byte order from an attribute's
/// type.
const NLA_TYPE_MASK: u16 = 0x3fff;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_MODE_NONE: u8 = 1;

/// A socket to the kernel's routing and device configuration.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// A request under construction.
struct NetlinkRequest(Vec<u8>);

impl NetlinkRequest {
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
        let len = u16::try_from(ATTRIBUTE_HEADER_LEN + value.len()).unwrap_or(0);
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let socket = open_socket()?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Returns the index of a device.
    pub(crate) fn index(&self, name: &str) -> io::Result<i32> {
        let index = nix::net::if_::if_nametoindex(name)?;
        i32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Sets MTU and queue length, and brings the device up; turns multicast off unless
    /// `keeps_multicast`.
    pub(crate) fn set_up(
        &mut self,
        index: i32,
        mtu: u32,
        queue_pkts: u32,
        keeps_multicast: bool,
    ) -> io::Result<()> {
        let up = flag(libc::IFF_UP);
        let change = if keeps_multicast { up } else { up | flag(libc::IFF_MULTICAST) };
        let request = NetlinkRequest::new(libc::RTM_NEWLINK, 0, &link_message(index, up, change))
            .attribute(libc::IFLA_MTU, &mtu.to_ne_bytes())
            .attribute(libc::IFLA_TXQLEN, &queue_pkts.to_ne_bytes());
        self.request(request)
    }

    /// Sets the MTU of the device to `mtu` if it is smaller.
    pub(crate) fn raise_mtu(&mut self, index: i32, mtu: u32) -> io::Result<()> {
        const PREFIX: usize = 16;
        let mut former = None;
        let request = NetlinkRequest::new(libc::RTM_GETLINK, 0, &link_message(index, 0, 0));
        self.send_request(request, |_, message| {
            let found = attribute(message.get(PREFIX..).unwrap_or_default(), libc::IFLA_MTU);
            former = former.or(found.and_then(|value| word(value, 0)));
        })?;
        if former.is_some_and(|former| former.cast_unsigned() >= mtu) {
            return Ok(());
        }
        let request = NetlinkRequest::new(libc::RTM_NEWLINK, 0, &link_message(index, 0, 0));
        self.request(request.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes()))
    }

    /// Sets the link-layer address of the device.
    pub(crate) fn set_mac(&mut self, index: i32, mac: MacAddr) -> io::Result<()> {
        let request = NetlinkRequest::new(libc::RTM_NEWLINK, 0, &link_message(index, 0, 0));
        self.request(request.attribute(libc::IFLA_ADDRESS, &mac.0))
    }

    /// Keeps the kernel from adding a link-local address to the device, and so from soliciting
    /// routers on it.
    pub(crate) fn disable_address_generation(&mut self, index: i32) -> io::Result<()> {
        let mode = nested(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE]);
        let family = nested(u16::try_from(libc::AF_INET6).unwrap_or(0), &mode);
        let request = NetlinkRequest::new(libc::RTM_NEWLINK, 0, &link_message(index, 0, 0))
            .attribute(libc::IFLA_AF_SPEC, &family);
        self.request(request)
    }

    /// Adds an address to the device, or replaces the same one. It lasts for `lifetime` in whole
    /// seconds, at least one, or for ever if that is `None`.
    pub(crate) fn add_address(
        &mut self,
        index: i32,
        address: IpNetwork,
        lifetime: Option<Duration>,
    ) -> io::Result<()> {
        let addr = octets(address.addr);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let body = address_message(index, address);
        let mut request = NetlinkRequest::new(libc::RTM_NEWADDR, flags, &body)
            .attribute(libc::IFA_LOCAL, &addr)
            .attribute(libc::IFA_ADDRESS, &addr);
        if let Some(lifetime) = lifetime {
            // `struct ifa_cacheinfo`: preferred and valid lifetime, two time stamps.
            let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1);
            let times = [seconds, seconds, 0, 0].map(u32::to_ne_bytes);
            request = request.attribute(libc::IFA_CACHEINFO, times.as_flattened());
        }
        self.request(request)
    }

    /// Removes an address from the device.
    pub(crate) fn remove_address(&mut self, index: i32, address: IpNetwork) -> io::Result<()> {
        let addr = octets(address.addr);
        let request = NetlinkRequest::new(libc::RTM_DELADDR, 0, &address_message(index, address))
            .attribute(libc::IFA_LOCAL, &addr)
            .attribute(libc::IFA_ADDRESS, &addr);
        self.request(request)
    }

    /// True if the device has the address without a lifetime.
    pub(crate) fn has_permanent_address(&mut self, index: i32, addr: IpAddr) -> io::Result<bool> {
        let body = [family(addr), 0, 0, 0, 0, 0, 0, 0];
        let request = NetlinkRequest::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &body);
        let mut is_found = false;
        self.send_request(request, |kind, message| {
            is_found |= kind == libc::RTM_NEWADDR && is_permanent_address(message, index, addr);
        })?;
        Ok(is_found)
    }

    /// Returns all network devices, without their addresses.
    pub(crate) fn devices(&mut self) -> io::Result<Vec<NetworkDevice>> {
        let request =
            NetlinkRequest::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &link_message(0, 0, 0));
        self.dump(request, libc::RTM_NEWLINK, device)
    }

    /// Returns the addresses of all devices, without link-local ones, each with the index of its
    /// device.
    pub(crate) fn addresses(&mut self) -> io::Result<Vec<(i32, IpNetwork)>> {
        let request = NetlinkRequest::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; 8]);
        self.dump(request, libc::RTM_NEWADDR, address)
    }

    /// Returns the unicast routes of the main table.
    pub(crate) fn routes(&mut self) -> io::Result<Vec<HostRoute>> {
        let request = NetlinkRequest::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &[0; 12]);
        self.dump(request, libc::RTM_NEWROUTE, route)
    }

    /// Sends `request`, and returns what `read` makes of the messages of type `kind`; it skips a
    /// message by `None`.
    fn dump<T>(
        &mut self,
        request: NetlinkRequest,
        kind: u16,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let mut found = Vec::new();
        self.send_request(request, |of, message| {
            if of == kind {
                found.extend(read(message));
            }
        })?;
        Ok(found)
    }

    /// Adds a route into the device.
    ///
    /// # Errors
    /// Another route to the same network exists.
    pub(crate) fn add_route(&mut self, index: i32, network: IpNetwork) -> io::Result<()> {
        // `struct rtmsg`: family, destination and source lengths, TOS, table, protocol, scope,
        // type, flags.
        let is_v4 = network.addr.is_ipv4();
        let scope = if is_v4 { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let mut body = vec![family(network.addr), network.len, 0, 0, libc::RT_TABLE_MAIN];
        body.extend([libc::RTPROT_STATIC, scope, libc::RTN_UNICAST, 0, 0, 0, 0]);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = NetlinkRequest::new(libc::RTM_NEWROUTE, flags, &body)
            .attribute(libc::RTA_DST, &octets(network.addr))
            .attribute(libc::RTA_OIF, &index.to_ne_bytes());
        self.request(request)
    }

    /// Adds a default route through a router on the link of the device, which need not have a
    /// carrier.
    ///
    /// # Errors
    /// A default route of this metric exists.
    pub(crate) fn add_default_route(
        &mut self,
        index: i32,
        router: IpAddr,
        metric: u32,
    ) -> io::Result<()> {
        // `struct rtmsg`, as for other routes.
        let mut body = vec![family(router), 0, 0, 0, libc::RT_TABLE_MAIN];
        body.extend([libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST, 0, 0, 0, 0]);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = NetlinkRequest::new(libc::RTM_NEWROUTE, flags, &body)
            .attribute(libc::RTA_GATEWAY, &octets(router))
            .attribute(libc::RTA_OIF, &index.to_ne_bytes())
            .attribute(libc::RTA_PRIORITY, &metric.to_ne_bytes());
        self.request(request)
    }

    /// Sends a request and waits for its acknowledgment.
    fn request(&mut self, request: NetlinkRequest) -> io::Result<()> {
        self.send_request(request, |_, _| {})
    }

    /// Sends a request and passes each message of the answer to `take`, with its type.
    fn send_request(
        &mut self,
        request: NetlinkRequest,
        mut take: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let mut octets = request.0;
        self.sequence += 1;
        let len = u32::try_from(octets.len()).unwrap_or(0);
        octets[..4].copy_from_slice(&len.to_ne_bytes());
        octets[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        let fd = self.socket.as_raw_fd();
        send(fd, &octets, MsgFlags::empty())?;
        let mut answer = vec![0; ANSWER_BYTES_MAX];
        loop {
            let len = recv(fd, &mut answer, MsgFlags::empty())?;
            let mut rest = answer.get(..len).unwrap_or_default();
            while let Some(message) = next_message(&mut rest) {
                if message.sequence != self.sequence {
                    continue;
                }
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => {
                        return refusal(message.body).map_or(Ok(()), Err);
                    }
                    _ => take(message.kind, message.body),
                }
            }
        }
    }
}

/// Opens a socket of rtnetlink in the network namespace of this thread.
pub(crate) fn open_socket() -> nix::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Netlink, SockType::Raw);
    socket(family, kind, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
}

/// Returns the error that an `NLMSG_ERROR` carries; `None` for an acknowledgment.
pub(crate) fn refusal(body: &[u8]) -> Option<io::Error> {
    match word(body, 0) {
        Some(0) => None,
        Some(error) => Some(io::Error::from_raw_os_error(error.wrapping_neg())),
        None => Some(io::ErrorKind::InvalidData.into()),
    }
}

/// A message of the kernel.
pub(crate) struct KernelMessage<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub body: &'a [u8],
}

/// Takes the next message from the front of `rest`.
pub(crate) fn next_message<'a>(rest: &mut &'a [u8]) -> Option<KernelMessage<'a>> {
    let all = *rest;
    let len = usize::try_from(word(all, 0)?).ok()?;
    let kind = u16::from_ne_bytes(*all.get(4..6)?.first_chunk()?);
    let sequence = word(all, 8)?.cast_unsigned();
    let body = all.get(HEADER_LEN..len)?;
    *rest = all.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some(KernelMessage { kind, sequence, body })
}

fn word(octets: &[u8], at: usize) -> Option<i32> {
    octets.get(at..)?.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes))
}

/// Builds `struct ifaddrmsg`: family, prefix length, flags (no duplicate address detection), scope,
/// index.
fn address_message(index: i32, address: IpNetwork) -> Vec<u8> {
    let nodad = u8::try_from(libc::IFA_F_NODAD).unwrap_or(0);
    let mut body = vec![family(address.addr), address.len, nodad, 0];
    body.extend(index.to_ne_bytes());
    body
}

/// True if a message of the kernel states that the device has this address without a lifetime.
fn is_permanent_address(message: &[u8], index: i32, addr: IpAddr) -> bool {
    const PREFIX: usize = 8;
    let is_permanent =
        message.get(2).is_some_and(|flags| u32::from(*flags) & libc::IFA_F_PERMANENT != 0);
    if word(message, 4) != Some(index) || !is_permanent {
        return false;
    }
    let wanted = octets(addr);
    attributes(message.get(PREFIX..).unwrap_or_default()).any(|(kind, value)| {
        [libc::IFA_LOCAL, libc::IFA_ADDRESS].contains(&kind) && value == wanted
    })
}

/// Parses a message about a device.
fn device(message: &[u8]) -> Option<NetworkDevice> {
    const PREFIX: usize = 16;
    let flags = word(message, 8)?;
    let kind = u16::from_ne_bytes(*message.get(2..)?.first_chunk()?);
    let mut device = NetworkDevice {
        index: word(message, 4)?,
        is_ethernet: kind == libc::ARPHRD_ETHER,
        is_loopback: flags & libc::IFF_LOOPBACK != 0,
        is_up: flags & libc::IFF_UP != 0,
        ..NetworkDevice::default()
    };
    for (kind, value) in attributes(message.get(PREFIX..)?) {
        match kind {
            libc::IFLA_IFNAME => device.name = string(value),
            libc::IFLA_MTU => device.mtu_bytes = word(value, 0)?.cast_unsigned(),
            libc::IFLA_MASTER => device.has_master = true,
            libc::IFLA_LINKINFO => device.kind = attribute(value, IFLA_INFO_KIND).map(string),
            libc::IFLA_XDP => {
                let mode = attribute(value, IFLA_XDP_ATTACHED);
                device.has_xdp = mode.is_some_and(|mode| mode != [0]);
            }
            _ => {}
        }
    }
    Some(device)
}

/// Parses a message about an address: the index of its device, and the address. `None` for a
/// link-local address.
fn address(message: &[u8]) -> Option<(i32, IpNetwork)> {
    const PREFIX: usize = 8;
    let [_, len, _, scope] = *message.first_chunk()?;
    let all = message.get(PREFIX..)?;
    // On a point-to-point link IFA_ADDRESS is the address of the peer.
    let addr = attribute(all, libc::IFA_LOCAL).or_else(|| attribute(all, libc::IFA_ADDRESS))?;
    let is_kept = scope != libc::RT_SCOPE_LINK;
    Some((word(message, 4)?, IpNetwork { addr: ip(addr)?, len })).filter(|_| is_kept)
}

/// Parses a message about a route; `None` unless it is a unicast route of the main table.
fn route(message: &[u8]) -> Option<HostRoute> {
    let [family, len, _, _, table, _, _, kind] = *message.first_chunk()?;
    if table != libc::RT_TABLE_MAIN || kind != libc::RTN_UNICAST {
        return None;
    }
    let all = message.get(12..)?;
    let any: IpAddr = match i32::from(family) {
        libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
        libc::AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let addr = attribute(all, libc::RTA_DST).map_or(Some(any), ip)?;
    Some(HostRoute {
        network: IpNetwork { addr, len },
        device: word(attribute(all, libc::RTA_OIF)?, 0)?,
        gateway: attribute(all, libc::RTA_GATEWAY).and_then(ip),
    })
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(octets).ok().map(IpAddr::from))
}

/// Converts a text that ends with a NUL.
fn string(octets: &[u8]) -> String {
    let text = octets.split(|octet| *octet == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Returns the value of the first attribute of type `wanted`.
fn attribute(all: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(all).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// Returns types and values of the attributes of a message.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let [a, b, c, d] = *rest.first_chunk::<ATTRIBUTE_HEADER_LEN>()?;
        let (len, kind) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        let kind = kind & NLA_TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEADER_LEN..usize::from(len))?;
        rest = rest.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Builds `struct ifinfomsg`: family, type, index, flags, and the mask of flags to change.
fn link_message(index: i32, flags: u32, change: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend(change.to_ne_bytes());
    body
}

fn nested(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(ATTRIBUTE_HEADER_LEN + value.len()).unwrap_or(0);
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
