//! Adit's own prefixes as routes of the kernel, so that a routing daemon exports them.
//!
//! A route of this kind drops packets (`blackhole`): only the daemon reads it, and users' packets
//! never meet it. Its protocol is [`ROUTE_PROTOCOL`], by which Adit finds the routes that a killed
//! process has left behind, and by which it never removes a route of somebody else.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use adit_types::IpPrefix;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, Parseable as _,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily as Family, RouteNetlinkMessage};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::error::KernelError;
use crate::kernel_route::ROUTE_PROTOCOL;
use crate::netlink::{KernelMessage, next_message, open_socket, refusal};

/// Changes that one system call carries: 64 octets each. The kernel's socket buffer has 200 KiB.
const BATCH: usize = 512;

/// Octets of one read of answers.
const READ_BYTES: usize = 64 << 10;

/// A prefix that is announced, or not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAnnouncement {
    /// The kernel gets a route.
    Announce(IpPrefix),
    /// The kernel loses it. It may be gone already.
    Withdraw(IpPrefix),
}

impl RouteAnnouncement {
    /// Returns the prefix.
    #[must_use]
    pub const fn prefix(self) -> IpPrefix {
        match self {
            Self::Announce(prefix) | Self::Withdraw(prefix) => prefix,
        }
    }
}

/// Writes routes into one table of the kernel, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct RouteAnnouncer {
    socket: OwnedFd,
    table: u32,
    sequence: u32,
}

impl RouteAnnouncer {
    /// Opens the table with this number in the network namespace of this thread; 254 is the main
    /// table.
    ///
    /// # Errors
    /// The kernel's, for example without netlink.
    pub fn open(table: u32) -> Result<Self, KernelError> {
        let fail = |error: nix::errno::Errno| {
            KernelError::device("cannot write", "the kernel's routes", error.into())
        };
        Ok(Self { socket: open_socket().map_err(fail)?, table, sequence: 0 })
    }

    /// Returns the prefixes of all routes of Adit in the table. Another process may have left them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn announced(&mut self) -> io::Result<Vec<IpPrefix>> {
        let mut found = Vec::new();
        for family in [Family::Inet, Family::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let first = self.sequence.wrapping_add(1);
            let request = self.encode(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP);
            send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
            let table = self.table;
            self.answers(first, |payload| {
                found.extend(RouteMessage::parse(payload).ok().and_then(|of| own(&of, table)));
            })?;
        }
        Ok(found)
    }

    /// Carries out changes in their order. Returns those that the kernel refuses, with its errors:
    /// `EEXIST` if somebody else has a route to the prefix with the same metric, `EPERM` without
    /// `CAP_NET_ADMIN`.
    ///
    /// Cost: two system calls for 512 changes, and about 2 µs of the kernel for each.
    ///
    /// # Errors
    /// The socket's.
    pub fn change(
        &mut self,
        changes: &[RouteAnnouncement],
    ) -> io::Result<Vec<(RouteAnnouncement, io::Error)>> {
        let mut refused = Vec::new();
        for batch in changes.chunks(BATCH) {
            let first = self.sequence.wrapping_add(1);
            let mut octets = Vec::new();
            for (at, change) in batch.iter().enumerate() {
                // The kernel reports every error, and the end of the batch.
                let flags = if at + 1 == batch.len() { NLM_F_ACK } else { 0 };
                octets.append(&mut self.request(*change, flags));
            }
            send(self.socket.as_raw_fd(), &octets, MsgFlags::empty())?;
            let errors = self.answers(first, |_| {})?;
            for (sequence, error) in errors {
                let at = usize::try_from(sequence.wrapping_sub(first)).unwrap_or(usize::MAX);
                let is_gone = error.raw_os_error() == Some(libc::ESRCH);
                if let Some(change) = batch.get(at)
                    && !(is_gone && matches!(change, RouteAnnouncement::Withdraw(_)))
                {
                    refused.push((*change, error));
                }
            }
        }
        Ok(refused)
    }

    fn request(&mut self, change: RouteAnnouncement, flags: u16) -> Vec<u8> {
        let prefix = change.prefix();
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: if prefix.addr().is_ipv4() { Family::Inet } else { Family::Inet6 },
            destination_prefix_length: prefix.len(),
            table: u8::try_from(self.table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC),
            protocol: RouteProtocol::Other(ROUTE_PROTOCOL),
            scope: RouteScope::Universe,
            kind: RouteType::BlackHole,
            ..RouteHeader::default()
        };
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::from(prefix.addr())),
            RouteAttribute::Table(self.table),
        ];
        match change {
            RouteAnnouncement::Announce(_) => {
                let flags = flags | NLM_F_CREATE | NLM_F_EXCL;
                self.encode(RouteNetlinkMessage::NewRoute(message), flags)
            }
            RouteAnnouncement::Withdraw(_) => {
                self.encode(RouteNetlinkMessage::DelRoute(message), flags)
            }
        }
    }

    fn encode(&mut self, message: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        octets
    }

    /// Reads the answers to the requests since `first`, until that to the last one. Returns the
    /// errors among them, by sequence number.
    fn answers(
        &self,
        first: u32,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<Vec<(u32, io::Error)>> {
        let (mut errors, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            let len = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut rest = buffer.get(..len).unwrap_or_default();
            while let Some(KernelMessage { kind, sequence, body }) = next_message(&mut rest) {
                let is_last = sequence == self.sequence;
                let is_answer = sequence.wrapping_sub(first) <= self.sequence.wrapping_sub(first);
                match i32::from(kind) {
                    _ if !is_answer => {}
                    libc::NLMSG_DONE if is_last => return Ok(errors),
                    libc::NLMSG_ERROR => {
                        errors.extend(refusal(body).map(|error| (sequence, error)));
                        if is_last {
                            return Ok(errors);
                        }
                    }
                    _ => take(body),
                }
            }
        }
    }
}

/// Returns the prefix of a route of Adit in the table.
fn own(message: &RouteMessage, table: u32) -> Option<IpPrefix> {
    let header = &message.header;
    let (mut of, mut addr) = (u32::from(header.table), None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => of = *number,
            RouteAttribute::Destination(RouteAddress::Inet(found)) => addr = Some((*found).into()),
            RouteAttribute::Destination(RouteAddress::Inet6(found)) => addr = Some((*found).into()),
            _ => {}
        }
    }
    if u8::from(header.protocol) != ROUTE_PROTOCOL || of != table {
        return None;
    }
    IpPrefix::containing(addr?, header.destination_prefix_length)
}
