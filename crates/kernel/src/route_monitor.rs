//! Follows the routes of one table of the kernel over rtnetlink: a dump, then changes.
//!
//! A dump and changes share one socket, so they arrive in the order in which the kernel made them.
//! A dump may still repeat a route that a change has removed meanwhile: keys that changes name
//! during a dump are not taken from the dump.
//!
//! The kernel reports no route that it removes because a device goes down or loses an address
//! (IPv4), and drops messages that find no room in the socket's buffer. In each of these cases
//! [`RouteMonitor::needs_dump`] is true, and a dump brings both tables together again: the reader
//! forgets what [`KernelRouteEvent::DumpEnds`] has not seen.
//!
//! Next-hop objects are not decoded: routes that use them carry all their hops as well, unless
//! `net.ipv4.nexthop_compat_mode` is 0.

mod message;

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use adit_types::IpPrefix;
use netlink_packet_core::{DecodeError, NLM_F_APPEND, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer};
use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, bind, recv, send, setsockopt};

use self::message::{DecodedRoute, RouteIgnored};
use crate::error::KernelError;
use crate::kernel_route::{KernelRouteEvent, KernelRouteKey};
use crate::netlink::{open_socket, refusal};

/// Octets that one read may return. The kernel fills at most 32 KiB of a dump.
const READ_BYTES: usize = 64 << 10;

/// Multicast groups: links, IPv4 addresses and routes, IPv6 addresses and routes.
/// Spec: `linux/rtnetlink.h`.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// The sequence number of messages that nobody requested.
const UNREQUESTED: u32 = 0;

/// Which routes to follow.
#[derive(Debug, Clone, Copy)]
pub struct RouteMonitorConfig {
    /// The number of the table; 254 is the main table.
    pub table: u32,
    /// The socket's buffer of messages that were not read yet: 60 octets of a message take some
    /// 800. Unit: octets.
    pub receive_buffer_bytes: usize,
}

impl RouteMonitorConfig {
    /// The main table, with room for 10,000 changes that come at once.
    pub const MAIN: Self = Self { table: 254, receive_buffer_bytes: 8 << 20 };
}

/// Counters of a monitor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteMonitorCounters {
    /// Messages of the kernel.
    pub messages: u64,
    /// Dumps that ended.
    pub dumps: u64,
    /// Times that the kernel dropped messages, because the socket's buffer was full.
    pub overruns: u64,
    /// Messages that could not be decoded.
    pub undecoded: u64,
    /// Messages of routes with a type of service, a source prefix or an encapsulation, which Adit
    /// does not follow.
    pub unsupported: u64,
}

/// The parts of a dump, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DumpPart {
    Links,
    Addresses,
    Routes(AddressFamily),
}

const DUMP: [DumpPart; 4] = [
    DumpPart::Links,
    DumpPart::Addresses,
    DumpPart::Routes(AddressFamily::Inet),
    DumpPart::Routes(AddressFamily::Inet6),
];

/// A dump that goes on.
#[derive(Debug)]
struct Dump {
    /// Position in [`DUMP`].
    part: usize,
    /// Keys that changes have named since the dump began.
    changed: HashSet<KernelRouteKey>,
    /// The route before.
    last: Option<KernelRouteKey>,
}

/// A subscription to the routes of a table, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct RouteMonitor {
    socket: OwnedFd,
    table: u32,
    sequence: u32,
    dump: Option<Dump>,
    needs_dump: bool,
    /// Keys that several IPv4 routes of the table have. The kernel uses the first one, and only
    /// that one is reported.
    shadowed: HashSet<KernelRouteKey>,
    counters: RouteMonitorCounters,
    buffer: Vec<u8>,
}

impl AsFd for RouteMonitor {
    /// Returns the descriptor that is readable while messages wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl RouteMonitor {
    /// Subscribes to changes in the network namespace of this thread.
    ///
    /// # Errors
    /// The kernel's, for example without netlink.
    pub fn open(config: RouteMonitorConfig) -> Result<Self, KernelError> {
        let fail = |error: Errno| {
            KernelError::device("cannot follow", "the kernel's routes", error.into())
        };
        let socket = subscribe(config.receive_buffer_bytes).map_err(fail)?;
        Ok(Self {
            socket,
            table: config.table,
            sequence: UNREQUESTED,
            dump: None,
            needs_dump: true,
            shadowed: HashSet::new(),
            counters: RouteMonitorCounters::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Returns true if the reader's routes may differ from the kernel's: [`Self::begin_dump`] has
    /// to follow. The caller paces dumps: a kernel that drops messages all the time would cause one
    /// after another.
    #[must_use]
    pub const fn needs_dump(&self) -> bool {
        self.needs_dump && self.dump.is_none()
    }

    /// Returns the counters since the start.
    #[must_use]
    pub const fn counters(&self) -> RouteMonitorCounters {
        self.counters
    }

    /// Requests all devices, addresses and routes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin_dump(&mut self, events: &mut Vec<KernelRouteEvent>) -> io::Result<()> {
        events.push(KernelRouteEvent::DumpBegins);
        self.needs_dump = false;
        self.shadowed.clear();
        self.dump = Some(Dump { part: 0, changed: HashSet::new(), last: None });
        self.request_part(DUMP[0])
    }

    /// Appends events until no message waits, or `events` has `limit` of them. Never blocks.
    ///
    /// # Errors
    /// The socket's, other than lost messages.
    pub fn receive(&mut self, limit: usize, events: &mut Vec<KernelRouteEvent>) -> io::Result<()> {
        while events.len() < limit {
            let mut buffer = std::mem::take(&mut self.buffer);
            let received = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT);
            let handled = match received {
                Ok(len) => self.handle(buffer.get(..len).unwrap_or_default(), events),
                Err(Errno::ENOBUFS) => {
                    self.counters.overruns += 1;
                    self.needs_dump = true;
                    Ok(())
                }
                Err(Errno::EINTR) => Ok(()),
                Err(error) => Err(error.into()),
            };
            self.buffer = buffer;
            match handled {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }

    /// Handles the messages of one read.
    fn handle(&mut self, octets: &[u8], events: &mut Vec<KernelRouteEvent>) -> io::Result<()> {
        let mut rest = octets;
        while !rest.is_empty() {
            let Ok(message) = NetlinkBuffer::new_checked(rest) else {
                self.counters.undecoded += 1;
                self.needs_dump = true;
                return Ok(());
            };
            let len = usize::try_from(message.length()).unwrap_or(usize::MAX);
            let is_requested = message.sequence_number() != UNREQUESTED
                && message.sequence_number() == self.sequence;
            let payload = message.payload();
            match i32::from(message.message_type()) {
                libc::NLMSG_DONE if is_requested => self.end_part(events)?,
                libc::NLMSG_ERROR if is_requested => self.abandon_dump(payload)?,
                libc::NLMSG_DONE | libc::NLMSG_ERROR | libc::NLMSG_NOOP => {}
                _ => self.take(&message, payload, is_requested, events),
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(())
    }

    /// Counts a message, and appends its event.
    fn take(
        &mut self,
        message: &NetlinkBuffer<&[u8]>,
        payload: &[u8],
        is_requested: bool,
        events: &mut Vec<KernelRouteEvent>,
    ) {
        self.counters.messages += 1;
        let taken = match message.message_type() {
            libc::RTM_NEWROUTE => self.take_route(message.flags(), payload, is_requested, events),
            libc::RTM_DELROUTE => self.take_gone(payload, events),
            libc::RTM_NEWLINK => self.take_device(payload, is_requested, events),
            libc::RTM_DELLINK => message::device(payload).map(|device| {
                self.needs_dump = true;
                events.push(KernelRouteEvent::DeviceGone(device.index));
            }),
            libc::RTM_NEWADDR => message::address(payload).map(|found| {
                events.extend(found.map(|(device, of)| KernelRouteEvent::Address(device, of)));
            }),
            libc::RTM_DELADDR => message::address(payload).map(|found| {
                self.needs_dump = true;
                events.extend(found.map(|(device, of)| KernelRouteEvent::AddressGone(device, of)));
            }),
            _ => Ok(()),
        };
        self.counters.undecoded += u64::from(taken.is_err());
    }

    fn take_route(
        &mut self,
        flags: u16,
        payload: &[u8],
        is_requested: bool,
        events: &mut Vec<KernelRouteEvent>,
    ) -> Result<(), DecodeError> {
        let Some(route) = self.followed(payload)? else { return Ok(()) };
        let key = route.key;
        let is_v4 = matches!(key.prefix, IpPrefix::V4(_));
        let (is_changed, is_behind) = match &mut self.dump {
            Some(dump) if is_requested => {
                (dump.changed.contains(&key), dump.last.replace(key) == Some(key))
            }
            _ => {
                self.note_change(key);
                (false, flags & NLM_F_APPEND != 0)
            }
        };
        // The kernel uses the first IPv4 route with a key.
        if is_v4 && is_behind {
            self.shadowed.insert(key);
        } else if !is_changed {
            events.push(KernelRouteEvent::Route(route));
        }
        Ok(())
    }

    fn take_gone(
        &mut self,
        payload: &[u8],
        events: &mut Vec<KernelRouteEvent>,
    ) -> Result<(), DecodeError> {
        let Some(route) = self.followed(payload)? else { return Ok(()) };
        self.note_change(route.key);
        // Another route may take its place without a message.
        match self.shadowed.remove(&route.key) {
            true => self.needs_dump = true,
            false => events.push(message::gone(route)),
        }
        Ok(())
    }

    fn take_device(
        &mut self,
        payload: &[u8],
        is_requested: bool,
        events: &mut Vec<KernelRouteEvent>,
    ) -> Result<(), DecodeError> {
        let device = message::device(payload)?;
        // IPv4 routes vanish with the device, without a message.
        self.needs_dump |= !is_requested && !device.is_up;
        events.push(KernelRouteEvent::Device(device));
        Ok(())
    }

    /// Decodes a route of the table, unless Adit does not follow it.
    fn followed(
        &mut self,
        payload: &[u8],
    ) -> Result<Option<crate::kernel_route::KernelRoute>, DecodeError> {
        match message::route(payload)? {
            Ok(DecodedRoute { table, route }) => Ok(Some(route).filter(|_| table == self.table)),
            Err(RouteIgnored::NotForwarded) => Ok(None),
            Err(RouteIgnored::Unsupported) => {
                self.counters.unsupported += 1;
                Ok(None)
            }
        }
    }

    fn note_change(&mut self, key: KernelRouteKey) {
        if let Some(dump) = &mut self.dump {
            dump.changed.insert(key);
        }
    }

    /// Goes on with the next part of the dump, or ends it.
    fn end_part(&mut self, events: &mut Vec<KernelRouteEvent>) -> io::Result<()> {
        let Some(dump) = &mut self.dump else { return Ok(()) };
        dump.part += 1;
        if let Some(part) = DUMP.get(dump.part) {
            return self.request_part(*part);
        }
        self.dump = None;
        self.counters.dumps += 1;
        // A dump that lost messages does not say what is gone; the next one does.
        if !self.needs_dump {
            events.push(KernelRouteEvent::DumpEnds);
        }
        Ok(())
    }

    /// The kernel refuses a part of a dump.
    fn abandon_dump(&mut self, payload: &[u8]) -> io::Result<()> {
        let Some(error) = refusal(payload) else { return Ok(()) };
        self.dump = None;
        self.needs_dump = true;
        Err(error)
    }

    fn request_part(&mut self, part: DumpPart) -> io::Result<()> {
        let (kind, mut body) = match part {
            DumpPart::Links => (libc::RTM_GETLINK, vec![0; 16]),
            DumpPart::Addresses => (libc::RTM_GETADDR, vec![0; 8]),
            DumpPart::Routes(_) => (libc::RTM_GETROUTE, vec![0; 12]),
        };
        if let DumpPart::Routes(family) = part {
            body[0] = u8::try_from(family as i32).unwrap_or(0);
        }
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let len = u32::try_from(16 + body.len()).unwrap_or(0);
        let mut request = vec![0; 16];
        let mut header = NetlinkBuffer::new(&mut request);
        header.set_length(len);
        header.set_message_type(kind);
        header.set_flags(NLM_F_REQUEST | NLM_F_DUMP);
        header.set_sequence_number(self.sequence);
        request.append(&mut body);
        send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
        Ok(())
    }
}

/// Opens a socket that receives all changes. Its buffer is as large as the kernel allows, up to
/// `buffer_bytes`.
fn subscribe(buffer_bytes: usize) -> Result<OwnedFd, Errno> {
    let socket = open_socket()?;
    if setsockopt(&socket, RcvBufForce, &buffer_bytes).is_err() {
        setsockopt(&socket, RcvBuf, &buffer_bytes)?;
    }
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
    Ok(socket)
}
