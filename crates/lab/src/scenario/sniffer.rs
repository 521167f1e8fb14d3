//! Captures packets with their IP headers, which the sockets of gNB and server do not return.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use adit_types::Teid;
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::ipv4::Ipv4Header;
use adit_wire::parse_gtpu;
use adit_wire::udp::UdpHeader;
use anyhow::{Context, Result};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, eth, ipproto, recv, socket_with,
};

use super::session::ScenarioContext;
use crate::gnb::{Leg, teid};
use crate::topology::ADIT_N3;
use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::POLL;

/// A capture ends after this time without a packet.
const QUIET: Duration = Duration::from_millis(300);

/// One GTP-U message over IPv4 from adit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapturedGtpu {
    /// Type of service of the outer header.
    pub tos: u8,
    /// Type of the message.
    pub kind: GtpuMessageType,
    pub teid: Teid,
}

/// A raw socket in the RAN.
#[derive(Debug)]
pub(super) struct Sniffer {
    socket: OwnedFd,
    tunnels: [Teid; 2],
}

impl Sniffer {
    /// Starts to capture GTP-U messages in the tunnels of the scenario's UE.
    ///
    /// # Errors
    /// The system has no raw sockets.
    pub(super) fn open(context: &ScenarioContext<'_>) -> Result<Self> {
        let socket = open(&context.network.topology.ran)?;
        Ok(Self {
            socket,
            tunnels: [Leg::First, Leg::Second].map(|leg| teid(context.index(), leg)),
        })
    }

    /// Returns the messages since the start or the last call, in order. Waits until no more arrive.
    ///
    /// # Errors
    /// Interrupted.
    pub(super) fn seen(&self, context: &ScenarioContext<'_>) -> Result<Vec<CapturedGtpu>> {
        let of_ue = |packet: &[u8]| read(packet).filter(|seen| self.tunnels.contains(&seen.teid));
        arrived(&self.socket, context, of_ue)
    }
}

/// A raw socket in the data network.
#[derive(Debug)]
pub(super) struct ServerSniffer {
    socket: OwnedFd,
    ue: Ipv4Addr,
}

impl ServerSniffer {
    /// Starts to capture UDP datagrams of the scenario's UE.
    ///
    /// # Errors
    /// The system has no raw sockets.
    pub(super) fn open(context: &ScenarioContext<'_>) -> Result<Self> {
        Ok(Self { socket: open(&context.network.topology.dn)?, ue: context.ue.ipv4() })
    }

    /// Returns the type of service of each datagram since the start or the last call, in order.
    /// Waits until no more arrive.
    ///
    /// # Errors
    /// Interrupted.
    pub(super) fn seen(&self, context: &ScenarioContext<'_>) -> Result<Vec<u8>> {
        arrived(&self.socket, context, |packet| {
            let (ip, _) = Ipv4Header::parse(packet).ok()?;
            (ip.src() == self.ue).then_some(ip.tos())
        })
    }
}

/// A packet socket that receives the IPv4 packets of all devices of a namespace before the kernel
/// reassembles fragments.
#[derive(Debug)]
pub(super) struct Ipv4Capture {
    socket: OwnedFd,
}

impl Ipv4Capture {
    /// Starts to capture IPv4 packets in `namespace`.
    ///
    /// # Errors
    /// The system has no packet sockets.
    pub(super) fn open(namespace: &NetNamespace) -> Result<Self> {
        let socket = namespace.enter(|| {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, Some(eth::IP))
                .context("open a packet socket")
        })?;
        Ok(Self { socket })
    }

    /// Returns what `read` makes of each packet since the start or the last call, in order. Waits
    /// until no more arrive.
    ///
    /// # Errors
    /// Interrupted.
    pub(super) fn seen<T>(
        &self,
        context: &ScenarioContext<'_>,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        arrived(&self.socket, context, read)
    }
}

/// Opens a socket that receives a copy of each UDP datagram in a namespace, with its IPv4 header.
fn open(namespace: &NetNamespace) -> Result<OwnedFd> {
    namespace.enter(|| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::UDP))
            .context("open a raw socket")
    })
}

/// Returns what `read` makes of each packet that arrives until [`QUIET`] passes without one.
fn arrived<T>(
    socket: &OwnedFd,
    context: &ScenarioContext<'_>,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>> {
    let mut all = Vec::new();
    let mut last = Instant::now();
    let mut packet = vec![0; usize::from(u16::MAX)];
    while last.elapsed() < QUIET {
        let Ok((len, _)) = recv(socket, &mut packet[..], RecvFlags::empty()) else {
            context.stop.sleep(POLL)?;
            continue;
        };
        if let Some(seen) = packet.get(..len).and_then(&read) {
            all.push(seen);
            last = Instant::now();
        }
    }
    Ok(all)
}

/// Parses an IPv4 packet; `None` unless it is GTP-U from adit.
fn read(packet: &[u8]) -> Option<CapturedGtpu> {
    let (ip, datagram) = Ipv4Header::parse(packet).ok()?;
    let (udp, message) = UdpHeader::parse(datagram).ok()?;
    if ip.src() != ADIT_N3 || udp.dst_port() != UDP_PORT {
        return None;
    }
    let gtpu = parse_gtpu(message).ok()?;
    Some(CapturedGtpu { tos: ip.tos(), kind: gtpu.message_type, teid: gtpu.teid })
}
