//! FARs that redirect: packets get another server address, or the slow path answers them.
//!
//! There is no state per connection. A redirect address replaces the destination of uplink packets
//! and the source of downlink packets. So a connection works only if the FAR for the server's
//! answers redirects to the address that the UE sent to.
//! Spec: TS 29.244 §7.5.2.3, §8.2.20; RFC 1624.

use core::net::IpAddr;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, Redirect};
use adit_types::Direction;
use adit_wire::tcp::TcpHeader;
use adit_wire::{FragmentKind, IpAddrs, IpPacket, checksum, protocol};

use crate::columns::{Matched, UserPacket};
use crate::slow_queue::{RedirectedSegment, SlowQueue};
use crate::tally::StepTally;

/// The TCP port to which redirected UEs send HTTP requests.
const HTTP_PORT: u16 = 80;

/// The addresses and the port that a redirected packet gets.
#[derive(Debug)]
pub(super) struct RedirectTarget {
    /// The addresses that the packet gets.
    pub addrs: IpAddrs,
    port: Option<u16>,
    direction: Direction,
}

impl RedirectTarget {
    /// Computes the addresses and the port that a packet in `direction` gets.
    ///
    /// # Errors
    /// `RedirectUnmatched` if the redirection has no address of the packet's IP version.
    #[cold]
    pub(super) fn new(
        redirect: &Redirect,
        ip: &IpPacket,
        direction: Direction,
    ) -> Result<Self, DropReason> {
        let Redirect::Address { v4, v6, port } = *redirect else {
            return Err(DropReason::RedirectUnmatched);
        };
        let is_port_only = v4.is_none() && v6.is_none();
        let addrs = match (ip.addrs, direction, v4, v6) {
            (addrs, _, None, None) if is_port_only => addrs,
            (IpAddrs::V4 { src, .. }, Direction::Uplink, Some(dst), _) => IpAddrs::V4 { src, dst },
            (IpAddrs::V4 { dst, .. }, Direction::Downlink, Some(src), _) => {
                IpAddrs::V4 { src, dst }
            }
            (IpAddrs::V6 { src, .. }, Direction::Uplink, _, Some(dst)) => IpAddrs::V6 { src, dst },
            (IpAddrs::V6 { dst, .. }, Direction::Downlink, _, Some(src)) => {
                IpAddrs::V6 { src, dst }
            }
            _ => return Err(DropReason::RedirectUnmatched),
        };
        Ok(Self { addrs, port, direction })
    }

    /// Writes address and port into `packet`, whose header was `ip`, and corrects the checksums.
    #[cold]
    pub(super) fn write(&self, packet: &mut [u8], ip: &IpPacket) {
        let (addr, at_v4, at_v6) = match self.direction {
            Direction::Uplink => (self.addrs.dst(), 16, 24),
            Direction::Downlink => (self.addrs.src(), 12, 8),
        };
        let upper = usize::from(ip.payload_offset);
        // Later fragments have no upper-layer header.
        let sum_at = match ip.protocol {
            _ if ip.fragment == FragmentKind::Later => None,
            protocol::TCP => Some(16),
            protocol::UDP => Some(6),
            protocol::ICMPV6 if !ip.is_ipv4() => Some(2),
            _ => None,
        };
        let mut changes =
            ChecksummedWords { packet, upper: sum_at.map(|at| upper + at), is_udp: false };
        changes.is_udp = ip.protocol == protocol::UDP;
        match addr {
            IpAddr::V4(addr) => changes.replace_octets(at_v4, &addr.octets(), Some(10)),
            IpAddr::V6(addr) => changes.replace_octets(at_v6, &addr.octets(), None),
        }
        let has_ports = matches!(ip.protocol, protocol::TCP | protocol::UDP) && sum_at.is_some();
        if let Some(port) = self.port.filter(|_| has_ports) {
            let at = if self.direction == Direction::Uplink { upper + 2 } else { upper };
            changes.replace_octets(at, &port.to_be_bytes(), None);
        }
    }
}

/// Changes words of a packet along with the checksums over them.
struct ChecksummedWords<'a> {
    packet: &'a mut [u8],
    /// Where the checksum of the upper layer is; `None` if the packet has none.
    upper: Option<usize>,
    /// True for UDP, where a zero means that there is no checksum.
    is_udp: bool,
}

impl ChecksummedWords<'_> {
    /// Replaces the octets at `at`; `header` is the position of the IPv4 header's checksum.
    fn replace_octets(&mut self, at: usize, octets: &[u8], header: Option<usize>) {
        for (at, new) in (at..).step_by(2).zip(octets.as_chunks::<2>().0) {
            let new = u16::from_be_bytes(*new);
            let Some(old) = self.replace(at, new) else { return };
            if let Some(sum_at) = header {
                self.correct(sum_at, old, new);
            }
            if let Some(sum_at) = self.upper {
                self.correct_upper(sum_at, old, new);
            }
        }
    }

    fn word(&mut self, at: usize) -> Option<&mut [u8; 2]> {
        self.packet.get_mut(at..)?.first_chunk_mut()
    }

    /// Writes a word; returns the previous value.
    fn replace(&mut self, at: usize, new: u16) -> Option<u16> {
        let word = self.word(at)?;
        Some(u16::from_be_bytes(core::mem::replace(word, new.to_be_bytes())))
    }

    fn correct(&mut self, at: usize, old: u16, new: u16) {
        if let Some(sum) = self.word(at) {
            *sum = checksum::update(u16::from_be_bytes(*sum), old, new).to_be_bytes();
        }
    }

    fn correct_upper(&mut self, at: usize, old: u16, new: u16) {
        let is_udp = self.is_udp;
        let Some(sum) = self.word(at) else { return };
        if is_udp && *sum == [0, 0] {
            return;
        }
        let updated = checksum::update(u16::from_be_bytes(*sum), old, new);
        // RFC 768: a computed zero is sent as ones.
        let updated = if is_udp && updated == 0 { u16::MAX } else { updated };
        *sum = updated.to_be_bytes();
    }
}

/// True if the FAR redirects to a URL: the slow path answers the packets.
#[inline]
pub(super) fn is_answered_by_http(matched: &Matched<'_>) -> bool {
    matches!(matched.far.redirect.as_deref(), Some(Redirect::Url(_)))
}

/// Passes a packet whose FAR redirects to a URL to the slow path. Drops it as `RedirectUnmatched`
/// unless it is an unfragmented TCP segment from the UE to port 80.
#[cold]
pub(super) fn queue_http_answer<B: PacketBuf>(
    slow: &mut SlowQueue<B>,
    tally: &mut StepTally,
    buf: B,
    UserPacket { session, arrival, ip }: UserPacket<'_>,
    matched: &Matched<'_>,
) {
    let packet = buf.data().get(usize::from(arrival.ip_offset)..).unwrap_or_default();
    let is_request = ip.protocol == protocol::TCP
        && !ip.is_fragment()
        && matched.direction == Direction::Uplink
        && TcpHeader::parse(ip.payload(packet)).is_ok_and(|(tcp, _)| tcp.dst_port() == HTTP_PORT);
    let fars = &matched.rules.fars;
    let far = fars.iter().position(|far| core::ptr::eq(far, matched.far));
    match far.filter(|_| is_request) {
        Some(far) => {
            let redirected =
                RedirectedSegment { session, far, ip_offset: arrival.ip_offset, ip: *ip };
            slow.push_redirected(buf, redirected, tally);
        }
        None => tally.drop(DropReason::RedirectUnmatched),
    }
}
