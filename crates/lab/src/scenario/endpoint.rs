//! A GTP-U endpoint for one scenario: a gNB over IPv6, or another UPF.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use adit_types::{Qfi, Teid};
use adit_wire::gtpu::{GtpuMessageType, UDP_PORT};
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::udp::UdpHeader;
use adit_wire::{parse_gtpu, protocol};
use anyhow::{Context, Result};

use super::probe::{COPY_PATIENCE, PATIENCE, PAYLOAD};
use super::session::{ScenarioContext, ScenarioRules};
use crate::gnb::{UL_HEADERS, write_ul_headers};

/// A socket in the RAN on the GTP-U port.
#[derive(Debug)]
pub(super) struct Endpoint {
    socket: UdpSocket,
    upf: SocketAddr,
}

impl Endpoint {
    /// Opens an endpoint at `own` that sends to `upf`.
    ///
    /// # Errors
    /// The socket cannot be bound.
    pub(super) fn open(
        context: &ScenarioContext<'_>,
        own: impl Into<std::net::IpAddr> + Send,
        upf: impl Into<std::net::IpAddr>,
    ) -> Result<Self> {
        let own: SocketAddr = (own.into(), UDP_PORT).into();
        let socket = context
            .network
            .topology
            .ran
            .enter(|| UdpSocket::bind(own).with_context(|| format!("bind {own}")))?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).context("receive timeout")?;
        Ok(Self { socket, upf: (upf.into(), UDP_PORT).into() })
    }

    /// Sends numbered datagrams from a UE to a server (the two addresses in `flow`) through tunnel
    /// `teid`.
    ///
    /// # Errors
    /// The socket fails.
    pub(super) fn send(
        &self,
        teid: Teid,
        flow: [SocketAddrV4; 2],
        numbers: std::ops::Range<u32>,
    ) -> Result<()> {
        self.send_long(teid, flow, numbers, PAYLOAD)
    }

    /// Like [`Self::send`], but with datagrams of `payload` octets, at least four.
    ///
    /// # Errors
    /// The socket fails.
    pub(super) fn send_long(
        &self,
        teid: Teid,
        [from, to]: [SocketAddrV4; 2],
        numbers: std::ops::Range<u32>,
        payload: usize,
    ) -> Result<()> {
        let qfi = Qfi::new(ScenarioRules::QFI).context("a QFI")?;
        for number in numbers {
            let inner = datagram(from, to, number, payload);
            let mut message = vec![0; UL_HEADERS];
            write_ul_headers(&mut message, teid, qfi, inner.len()).context("write a G-PDU")?;
            message.extend(inner);
            self.socket.send_to(&message, self.upf).context("send a G-PDU")?;
        }
        Ok(())
    }

    /// Receives up to `count` datagrams from tunnels. Returns their TEIDs and numbers in order of
    /// arrival; a duplicate adds another entry.
    ///
    /// # Errors
    /// A signal interrupts.
    pub(super) fn receive(
        &self,
        context: &ScenarioContext<'_>,
        count: usize,
    ) -> Result<Vec<(Teid, u32)>> {
        let mut all = Vec::new();
        let mut end = Instant::now() + PATIENCE;
        let mut buffer = [0; 2048];
        // Receives one datagram more than expected, which would be a duplicate.
        while Instant::now() < end && all.len() <= count {
            context.stop.check()?;
            let Ok(len) = self.socket.recv(&mut buffer) else { continue };
            all.extend(buffer.get(..len).and_then(read));
            if all.len() == count {
                end = Instant::now() + COPY_PATIENCE;
            }
        }
        Ok(all)
    }
}

/// Makes an IPv4 packet with a UDP datagram of `payload` octets that begin with `number`.
fn datagram(from: SocketAddrV4, to: SocketAddrV4, number: u32, payload: usize) -> Vec<u8> {
    let udp_len = u16::try_from(UdpHeader::LEN + payload).unwrap_or(u16::MAX);
    let fields = Ipv4Fields {
        tos: 0,
        total_len: udp_len.saturating_add(20),
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        src: *from.ip(),
        dst: *to.ip(),
    };
    let mut packet = vec![0; usize::from(fields.total_len)];
    let (header, rest) = packet.split_at_mut(20);
    // Over IPv4 a checksum of zero means no checksum (RFC 768).
    let written = Ipv4Header::new(&fields)
        .emit(header)
        .and_then(|()| UdpHeader::new(from.port(), to.port(), udp_len, 0).emit(rest));
    if written.is_err() {
        unreachable!("the packet has room for both headers");
    }
    if let Some(head) = rest.get_mut(UdpHeader::LEN..UdpHeader::LEN + 4) {
        head.copy_from_slice(&number.to_be_bytes());
    }
    packet
}

/// Reads TEID and number of a G-PDU with a numbered datagram.
fn read(message: &[u8]) -> Option<(Teid, u32)> {
    let gtpu = parse_gtpu(message).ok()?;
    if gtpu.message_type != GtpuMessageType::G_PDU {
        return None;
    }
    let (_, datagram) = Ipv4Header::parse(gtpu.payload(message)).ok()?;
    let (_, payload) = UdpHeader::parse(datagram).ok()?;
    Some((gtpu.teid, u32::from_be_bytes(*payload.first_chunk()?)))
}
