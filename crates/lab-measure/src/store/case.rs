//! The cases of a measurement: transports, links, operations.

use std::fmt;

use crate::target::rules::possible_value;
use clap::ValueEnum;

/// How client and server reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreTransport {
    /// The kernel's TCP at the client, which sleeps until a reply arrives.
    Blocking,
    /// The kernel's TCP at the client, which polls its sockets.
    Polled,
    /// TCP in user space at the client.
    User,
    /// The kernel's TCP at both ends, which poll; the server is one of adit-lab's own.
    PolledPair,
    /// TCP in user space at both ends; the server is one of adit-lab's own.
    UserPair,
}

impl StoreTransport {
    /// True if the server is adit-lab's own and uses the same transport.
    pub(crate) fn is_pair(self) -> bool {
        matches!(self, Self::PolledPair | Self::UserPair)
    }

    /// True if the client needs a port of DPDK.
    pub(crate) fn is_user(self) -> bool {
        matches!(self, Self::User | Self::UserPair)
    }
}

impl fmt::Display for StoreTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&possible_value(self))
    }
}

/// The network between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreNetworkKind {
    /// One host: the loopback device of a network namespace, and a memif in user space.
    Loopback,
    /// Two hosts: a veth link between two network namespaces.
    Veth,
}

/// The driver of ports in user space on a veth link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UserPortDriver {
    /// AF_PACKET sockets with rings.
    AfPacket,
    /// AF_XDP sockets.
    AfXdp,
}

/// An operation of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreOperation {
    /// Stores a value.
    Set,
    /// Reads it.
    Get,
}

impl fmt::Display for StoreOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Set => "SET",
            Self::Get => "GET",
        })
    }
}

/// The load of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreCase {
    /// The operation of the clients.
    pub operation: StoreOperation,
    /// Size of the value. Unit: octets.
    pub value_bytes: usize,
    /// Number of connections, all of one thread.
    pub clients: usize,
    /// Number of operations of all clients together.
    pub operations: u64,
    /// Operations per second of all clients together; `None` for a closed loop.
    pub rate: Option<u64>,
}

impl fmt::Display for StoreCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.clients == 1 { "" } else { "s" };
        let Self { operation, value_bytes, clients, .. } = self;
        write!(f, "{operation}, {value_bytes} B, {clients} client{plural}")?;
        match self.rate {
            Some(rate) => write!(f, ", {rate}/s"),
            None => Ok(()),
        }
    }
}
