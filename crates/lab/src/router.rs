//! The SMF's user plane: a router that answers the Router Solicitations of UEs over N4-u.
//!
//! adit forwards a solicitation from the UE's tunnel to the CP function, by a FAR with that
//! destination. The advertisement enters adit through the tunnel of a PDR with the CP function as
//! source, and the session's downlink FAR forwards it to the UE.
//! Spec: TS 29.244 §5.3; TS 23.501 §5.8.2.2.3; RFC 4861 §4.1, §4.2, §6.1, §6.2; RFC 4862 §5.5.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_types::Teid;
use adit_wire::checksum::pseudo_ipv6;
use adit_wire::gtpu::{GtpuHeader, GtpuMessageType, UDP_PORT, emit_echo_response};
use adit_wire::icmpv6::{Icmpv6Header, PseudoHeader};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};
use adit_wire::{parse_gtpu, protocol};
use anyhow::{Context, Result};

use adit_lab_process::stop::Stop;

const IDLE: Duration = Duration::from_millis(100);

/// Link-local address of the router on the links of all UEs.
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 5, 1);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Hop limit of neighbor discovery. Receivers require it: it shows that no router has forwarded the
/// message.
const HOP_LIMIT: u8 = 255;
/// Length of an advertisement with Prefix Information and MTU. Unit: octets.
const ADVERTISEMENT_BYTES: usize = 16 + 32 + 8;

/// The contents of the advertisement to one UE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouterLink {
    /// adit's TEID in the PDR with the CP function as source.
    pub teid: Teid,
    /// The /64 prefix of the UE.
    pub prefix: Ipv6Addr,
    /// The MTU to advertise.
    pub mtu: u32,
}

#[derive(Debug)]
struct RouterState {
    socket: UdpSocket,
    upf: SocketAddr,
    /// Advertisements by the SMF's TEIDs, to which adit sends the packets of UEs.
    links: Mutex<HashMap<Teid, RouterLink>>,
    answered: AtomicU64,
    unexpected: AtomicU64,
    stop: Stop,
}

/// A running router. Drop ends its thread.
#[derive(Debug)]
pub(crate) struct Router {
    shared: Arc<RouterState>,
    thread: Option<JoinHandle<()>>,
}

impl Router {
    /// Starts the thread. `socket` must be bound to the SMF's GTP-U address.
    ///
    /// # Errors
    /// The socket or the thread cannot be prepared.
    pub(crate) fn start(socket: UdpSocket, upf: Ipv4Addr) -> Result<Self> {
        socket.set_read_timeout(Some(IDLE)).context("receive timeout of the router's socket")?;
        let shared = Arc::new(RouterState {
            socket,
            upf: (upf, UDP_PORT).into(),
            links: Mutex::default(),
            answered: AtomicU64::new(0),
            unexpected: AtomicU64::new(0),
            stop: Stop::default(),
        });
        let receiver = Arc::clone(&shared);
        let thread = thread::Builder::new().name("smf-router".to_owned());
        let thread = thread.spawn(move || receiver.run()).context("thread")?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Answers solicitations that arrive at the SMF's `teid` with the contents of `link`.
    pub(crate) fn serve(&self, teid: Teid, link: RouterLink) {
        self.shared.links().insert(teid, link);
    }

    /// Returns the number of answered Router Solicitations.
    #[must_use]
    pub(crate) fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Returns the number of messages other than Echo Requests and valid solicitations of known
    /// UEs.
    #[must_use]
    pub(crate) fn unexpected(&self) -> u64 {
        self.shared.unexpected.load(Ordering::Relaxed)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.shared.stop.raise();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("adit-lab: the router's thread panicked");
        }
    }
}

impl RouterState {
    fn links(&self) -> MutexGuard<'_, HashMap<Teid, RouterLink>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut message = vec![0; usize::from(u16::MAX)];
        while !self.stop.is_raised() {
            // A timeout lets the loop check the flag; other errors are transient.
            let Ok((len, from)) = self.socket.recv_from(&mut message) else { continue };
            let bytes = message.get(..len).unwrap_or_default();
            if self.answer(bytes, from).is_none() {
                self.unexpected.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn answer(&self, bytes: &[u8], from: SocketAddr) -> Option<()> {
        let packet = parse_gtpu(bytes).ok()?;
        match packet.message_type {
            GtpuMessageType::ECHO_REQUEST => {
                let mut response = [0; 16];
                let len =
                    emit_echo_response(&mut response, packet.sequence.unwrap_or(0), None).ok()?;
                self.socket.send_to(response.get(..len)?, from).ok()?;
            }
            GtpuMessageType::G_PDU => {
                let link = *self.links().get(&packet.teid)?;
                let sender = solicitation(packet.payload(bytes))?;
                let message = advertisement(&link, sender)?;
                self.socket.send_to(&message, self.upf).ok()?;
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => return None,
        }
        Some(())
    }
}

/// Returns the sender of a Router Solicitation; `None` if it is invalid. Spec: RFC 4861 §6.1.1.
fn solicitation(packet: &[u8]) -> Option<Ipv6Addr> {
    let (ip, payload) = Ipv6Header::parse(packet).ok()?;
    let pseudo = PseudoHeader { src: ip.src(), dst: ip.dst() };
    let is_icmp = ip.next_header() == protocol::ICMPV6 && ip.hop_limit() == HOP_LIMIT;
    let (icmp, _) = Icmpv6Header::parse(&pseudo, payload).ok().filter(|_| is_icmp)?;
    (icmp.kind() == ROUTER_SOLICITATION && icmp.code() == 0).then_some(ip.src())
}

/// Makes a G-PDU with a Router Advertisement to `sender`, with an autonomous prefix that is not
/// on-link. Spec: RFC 4861 §4.2, §4.6.2, §4.6.4; TS 23.501 §5.8.2.2.3.
fn advertisement(link: &RouterLink, sender: Ipv6Addr) -> Option<Vec<u8>> {
    let dst = if sender.is_unspecified() { ALL_NODES } else { sender };
    let mut icmp = Vec::with_capacity(ADVERTISEMENT_BYTES);
    // Hop limit 64, no flags, maximum router lifetime; then reachable time and retransmission
    // timer, both zero for unspecified.
    icmp.extend([ROUTER_ADVERTISEMENT, 0, 0, 0, 64, 0, 0xff, 0xff]);
    icmp.extend([0; 8]);
    // Prefix Information: four units of eight octets, 64 bits, autonomous; infinite lifetimes.
    icmp.extend([3, 4, 64, 0x40]);
    icmp.extend([0xff; 8]);
    icmp.extend([0; 4]);
    icmp.extend(link.prefix.octets());
    icmp.extend([5, 1, 0, 0]);
    icmp.extend(link.mtu.to_be_bytes());
    let len = u16::try_from(icmp.len()).ok()?;
    let sum = pseudo_ipv6(ROUTER, dst, protocol::ICMPV6, len.into()).bytes(&icmp).checksum();
    icmp.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());

    let inner_len = len.checked_add(u16::try_from(Ipv6Header::LEN).ok()?)?;
    let mut message = vec![0; GtpuHeader::LEN + Ipv6Header::LEN];
    let (outer, inner) = message.split_at_mut(GtpuHeader::LEN);
    // Version 1, protocol type GTP, no optional fields.
    let [a, b] = inner_len.to_be_bytes();
    let [t0, t1, t2, t3] = link.teid.0.to_be_bytes();
    outer.copy_from_slice(&[0x30, GtpuMessageType::G_PDU.0, a, b, t0, t1, t2, t3]);
    Ipv6Header::new(&Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: len,
        next_header: protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        src: ROUTER,
        dst,
    })
    .emit(inner)
    .ok()?;
    message.extend(icmp);
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    const LINK: RouterLink = RouterLink {
        teid: Teid(0x0102_0304),
        prefix: Ipv6Addr::new(0x2001, 0xdb8, 0x45, 1, 0, 0, 0, 0),
        mtu: 1400,
    };

    fn solicit(hop_limit: u8) -> Vec<u8> {
        let mut icmp = [ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        let sum = pseudo_ipv6(UE, ROUTERS, protocol::ICMPV6, 8).bytes(&icmp).checksum();
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, protocol::ICMPV6, hop_limit];
        packet.extend(UE.octets());
        packet.extend(ROUTERS.octets());
        packet.extend(icmp);
        packet
    }

    #[test]
    fn solicitation_is_valid_only_if_no_router_forwarded_it() {
        assert_eq!(solicitation(&solicit(255)), Some(UE));
        assert_eq!(solicitation(&solicit(254)), None);
        let mut wrong = solicit(255);
        wrong[42] ^= 1;
        assert_eq!(solicitation(&wrong), None, "the checksum is wrong");
    }

    #[test]
    fn advertisement_has_the_prefix_and_a_valid_checksum() {
        let message = advertisement(&LINK, UE).unwrap();
        let gtpu = parse_gtpu(&message).unwrap();
        assert_eq!((gtpu.message_type, gtpu.teid), (GtpuMessageType::G_PDU, LINK.teid));
        let (ip, payload) = Ipv6Header::parse(gtpu.payload(&message)).unwrap();
        assert_eq!((ip.src(), ip.dst(), ip.hop_limit()), (ROUTER, UE, 255));
        let pseudo = PseudoHeader { src: ROUTER, dst: UE };
        let (icmp, rest) = Icmpv6Header::parse(&pseudo, payload).unwrap();
        assert_eq!(icmp.kind(), ROUTER_ADVERTISEMENT);
        let prefix = &rest[8..40];
        assert_eq!(prefix[..4], [3, 4, 64, 0x40], "autonomous, not on link");
        assert_eq!(prefix[16..], LINK.prefix.octets());
        assert_eq!(rest[40..], [5, 1, 0, 0, 0, 0, 0x05, 0x78]);
        let message = advertisement(&LINK, Ipv6Addr::UNSPECIFIED).unwrap();
        let (ip, _) = Ipv6Header::parse(&message[GtpuHeader::LEN..]).unwrap();
        assert_eq!(ip.dst(), ALL_NODES);
    }
}
