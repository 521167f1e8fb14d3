//! Sends numbered datagrams between a UE and the data network, and reports which arrive.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::session::ScenarioContext;
use crate::topology::DN;
use adit_lab_process::stop::Stop;

/// Time after which a datagram that has not arrived counts as lost.
pub(super) const PATIENCE: Duration = Duration::from_millis(400);
/// How long to wait for duplicates after the last expected datagram.
pub(super) const COPY_PATIENCE: Duration = Duration::from_millis(60);
/// Number of datagrams per probe.
pub(super) const DATAGRAMS: u32 = 5;
/// Payload of a datagram: its number and padding. Unit: octets.
pub(super) const PAYLOAD: usize = 100;
/// Length of a datagram's IPv4 packet, which volume measurement counts. Unit: octets.
pub(super) const PACKET_BYTES: u64 = 20 + 8 + 100;

/// Two sockets, at the UE and at the server.
#[derive(Debug)]
pub(super) struct ProbeSockets {
    ue: UdpSocket,
    dn: UdpSocket,
    ue_addr: SocketAddr,
    dn_addr: SocketAddr,
    stop: Stop,
}

impl ProbeSockets {
    /// Opens the sockets of a flow between the scenario's UE and `port` of the server.
    ///
    /// # Errors
    /// A socket cannot be bound.
    pub(super) fn open(context: &ScenarioContext<'_>, port: u16) -> Result<Self> {
        Self::open_from(context, context.ue.ipv4(), port)
    }

    /// Like [`Self::open`], but from another address of the UE.
    ///
    /// # Errors
    /// A socket cannot be bound.
    pub(super) fn open_from(
        context: &ScenarioContext<'_>,
        ue: Ipv4Addr,
        port: u16,
    ) -> Result<Self> {
        let topology = &context.network.topology;
        let bind = |addr: SocketAddr| {
            let socket = UdpSocket::bind(addr).with_context(|| format!("bind {addr}"))?;
            socket.set_read_timeout(Some(Duration::from_millis(20))).context("receive timeout")?;
            Ok(socket)
        };
        let ue = topology.ran.enter(|| bind((ue, port).into()))?;
        let dn = topology.dn.enter(|| bind((DN, port).into()))?;
        let (ue_addr, dn_addr) = (ue.local_addr()?, dn.local_addr()?);
        Ok(Self { ue, dn, ue_addr, dn_addr, stop: context.stop.clone() })
    }

    /// Sends [`DATAGRAMS`] from the UE. Returns the numbers of those that arrive, in order of
    /// arrival.
    ///
    /// # Errors
    /// A signal interrupts, or the socket fails.
    pub(super) fn uplink(&self) -> Result<Vec<u32>> {
        self.send_uplink(0..DATAGRAMS)?;
        self.receive_uplink(DATAGRAMS)
    }

    /// Sends datagrams from the UE without waiting for them.
    ///
    /// # Errors
    /// The socket fails.
    pub(super) fn send_uplink(&self, numbers: std::ops::Range<u32>) -> Result<()> {
        send(&self.ue, self.dn_addr, numbers)
    }

    /// Sends [`DATAGRAMS`] to the UE. Returns the numbers of those that arrive, in order of
    /// arrival.
    ///
    /// # Errors
    /// A signal interrupts, or the socket fails.
    pub(super) fn downlink(&self) -> Result<Vec<u32>> {
        self.send_downlink(0..DATAGRAMS)?;
        self.receive_downlink(DATAGRAMS)
    }

    /// Sends datagrams to the UE without waiting for them.
    ///
    /// # Errors
    /// The socket fails.
    pub(super) fn send_downlink(&self, numbers: std::ops::Range<u32>) -> Result<()> {
        send(&self.dn, self.ue_addr, numbers)
    }

    /// Receives up to `count` datagrams at the server. Returns their numbers.
    ///
    /// # Errors
    /// A signal interrupts.
    pub(super) fn receive_uplink(&self, count: u32) -> Result<Vec<u32>> {
        receive(&self.dn, count, &self.stop)
    }

    /// Receives up to `count` datagrams at the UE. Returns their numbers.
    ///
    /// # Errors
    /// A signal interrupts.
    pub(super) fn receive_downlink(&self, count: u32) -> Result<Vec<u32>> {
        receive(&self.ue, count, &self.stop)
    }
}

/// Sends numbered datagrams.
///
/// # Errors
/// The socket fails.
pub(super) fn send(from: &UdpSocket, to: SocketAddr, numbers: std::ops::Range<u32>) -> Result<()> {
    for number in numbers {
        let mut datagram = [0; PAYLOAD];
        if let Some(head) = datagram.first_chunk_mut() {
            *head = number.to_be_bytes();
        }
        from.send_to(&datagram, to).context("send")?;
    }
    Ok(())
}

/// Receives up to `count` datagrams. Returns their numbers; a duplicate adds another entry.
///
/// # Errors
/// A signal interrupts.
pub(super) fn receive(at: &UdpSocket, count: u32, stop: &Stop) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let count = usize::try_from(count)?;
    let mut end = Instant::now() + PATIENCE;
    let mut datagram = [0; 2048];
    // Receives one datagram more than expected, which would be a duplicate.
    while Instant::now() < end && numbers.len() <= count {
        stop.check()?;
        let Ok(len) = at.recv(&mut datagram) else { continue };
        if let Some(head) = datagram.get(..len).and_then(<[u8]>::first_chunk) {
            numbers.push(u32::from_be_bytes(*head));
        }
        if numbers.len() == count {
            end = Instant::now() + COPY_PATIENCE;
        }
    }
    Ok(numbers)
}
