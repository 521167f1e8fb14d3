//! Sends numbered packets of users in both directions, and records which of them arrive.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::Stop;
use adit_types::{Qfi, Teid};
use adit_wire::gtpu::{FLAG_E, GtpuHeader, GtpuMessageType, GtpuOptional, UDP_PORT};
use adit_wire::gtpu_ext::ExtensionType;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::udp::UdpHeader;
use adit_wire::{PduSessionContainer, parse_gtpu};
use anyhow::{Context, Result};

use crate::faults::addresses::{DATA_NETWORK, GNB, N3};
use crate::faults::book::{BookedState, SmfBook};
use crate::faults::messages::QFI;
use crate::faults::timeline::{Timeline, lock};

/// Interval between two pairs of packets, one for each direction.
pub(crate) const INTERVAL: Duration = Duration::from_millis(5);
/// UDP port of the users and of the server in the data network.
const PORT: u16 = 4000;
/// Payload of a packet: its index and its session. Unit: octets.
const PAYLOAD_LEN: usize = 16;
/// Length of a user's packet, as a URR counts it. Unit: octets.
pub(crate) const PACKET_LEN: u64 = 20 + 8 + 16;
const UL_HEADERS: usize = GtpuHeader::LEN + GtpuOptional::LEN + 4;

/// A packet that was sent, and its arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentPacket {
    /// Time of sending. Unit: ms since the start of the run.
    pub at_ms: u64,
    pub cp_seid: u64,
    /// How often it arrived.
    pub arrivals: u8,
}

/// The packets of both directions. A packet carries its index in the list.
#[derive(Debug, Default)]
pub(crate) struct PacketLog {
    pub uplink: Vec<SentPacket>,
    pub downlink: Vec<SentPacket>,
}

impl PacketLog {
    /// Returns how many packets each session has sent, and how many have arrived.
    pub(crate) fn by_session(&self) -> BTreeMap<u64, [u64; 2]> {
        let mut all = BTreeMap::<u64, [u64; 2]>::new();
        for packet in self.uplink.iter().chain(&self.downlink) {
            let [sent, arrived] = all.entry(packet.cp_seid).or_default();
            *sent += 1;
            *arrived += u64::from(packet.arrivals);
        }
        all
    }
}

/// The running users. Drop ends them.
#[derive(Debug)]
pub(crate) struct Users {
    log: Arc<Mutex<PacketLog>>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Users {
    /// Starts to send packets of the held sessions in `book`.
    ///
    /// # Errors
    /// The addresses of gNB and data network cannot be bound.
    pub(crate) fn start(
        host: &NetNamespace,
        book: Arc<Mutex<SmfBook>>,
        timeline: &Timeline,
    ) -> Result<Self> {
        let bind = |address: Ipv4Addr, port| {
            let socket = UdpSocket::bind((address, port)).context("bind a socket of users")?;
            socket.set_nonblocking(true).context("mode of a socket of users")?;
            anyhow::Ok(socket)
        };
        let (gnb, server) = host.enter(|| Ok((bind(GNB, UDP_PORT)?, bind(DATA_NETWORK, PORT)?)))?;
        let (log, stop) = (Arc::<Mutex<PacketLog>>::default(), Stop::default());
        let mut running =
            RunningUsers { gnb, server, book, log: Arc::clone(&log), timeline: timeline.clone() };
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("users".to_owned())
            .spawn(move || running.run(&stopped))
            .context("start the users")?;
        Ok(Self { log, stop, thread: Some(thread) })
    }

    /// Returns the packets so far.
    pub(crate) fn log(&self) -> &Mutex<PacketLog> {
        &self.log
    }

    /// Stops sending, and returns the packets after those in flight have arrived.
    pub(crate) fn finish(mut self) -> PacketLog {
        self.end();
        std::mem::take(&mut *lock(&self.log))
    }

    fn end(&mut self) {
        self.stop.raise();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("adit-lab: the users panicked");
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        self.end();
    }
}

/// A session that carries packets.
#[derive(Debug, Clone, Copy)]
struct PacketSession {
    cp_seid: u64,
    ue: Ipv4Addr,
    uplink_teid: Teid,
}

struct RunningUsers {
    gnb: UdpSocket,
    server: UdpSocket,
    book: Arc<Mutex<SmfBook>>,
    log: Arc<Mutex<PacketLog>>,
    timeline: Timeline,
}

impl RunningUsers {
    fn run(&mut self, stop: &Stop) {
        let mut turn = 0;
        while !stop.is_raised() {
            let held = self.held();
            if let Some(session) = held.get(turn % held.len().max(1)).copied() {
                self.send(&session);
            }
            turn += 1;
            self.receive();
            thread::sleep(INTERVAL);
        }
        for _ in 0..50 {
            self.receive();
            thread::sleep(INTERVAL);
        }
    }

    fn held(&self) -> Vec<PacketSession> {
        let book = lock(&self.book);
        let is_live = |state| matches!(state, BookedState::Live | BookedState::Modifying);
        let held = book.sessions.values().filter(|one| one.is_held && is_live(one.state));
        held.map(|one| PacketSession {
            cp_seid: one.wish.cp_seid.0,
            ue: one.ue,
            uplink_teid: one.uplink_teid,
        })
        .collect()
    }

    fn send(&self, session: &PacketSession) {
        let packet =
            SentPacket { at_ms: self.timeline.now_ms(), cp_seid: session.cp_seid, arrivals: 0 };
        let mut log = lock(&self.log);
        let numbers = [log.uplink.len(), log.downlink.len()];
        log.uplink.push(packet);
        log.downlink.push(packet);
        drop(log);
        let [up, down] = numbers.map(|number| payload(number, session.cp_seid));
        // Ignores errors: there may be no receiver at the moment.
        if let Some(packet) = uplink_packet(session, &up) {
            let _ = self.gnb.send_to(&packet, (N3, UDP_PORT));
        }
        let _ = self.server.send_to(&down, (session.ue, PORT));
    }

    fn receive(&self) {
        let mut buffer = [0; 2048];
        while let Ok((len, _)) = self.server.recv_from(&mut buffer) {
            let number = number(buffer.get(..len).unwrap_or_default());
            count_arrival(&mut lock(&self.log).uplink, number);
        }
        while let Ok((len, _)) = self.gnb.recv_from(&mut buffer) {
            let message = buffer.get(..len).unwrap_or_default();
            let is_packet =
                parse_gtpu(message).is_ok_and(|gtpu| gtpu.message_type == GtpuMessageType::G_PDU);
            if is_packet {
                let from = message.len().saturating_sub(PAYLOAD_LEN);
                let number = number(message.get(from..).unwrap_or_default());
                count_arrival(&mut lock(&self.log).downlink, number);
            }
        }
    }
}

fn count_arrival(sent: &mut [SentPacket], number: Option<usize>) {
    if let Some(packet) = number.and_then(|number| sent.get_mut(number)) {
        packet.arrivals = packet.arrivals.saturating_add(1);
    }
}

fn payload(number: usize, cp_seid: u64) -> [u8; PAYLOAD_LEN] {
    let mut octets = [0; PAYLOAD_LEN];
    let (first, second) = octets.split_at_mut(8);
    first.copy_from_slice(&u64::try_from(number).unwrap_or(u64::MAX).to_be_bytes());
    second.copy_from_slice(&cp_seid.to_be_bytes());
    octets
}

fn number(payload: &[u8]) -> Option<usize> {
    let octets = payload.get(..8)?.try_into().ok()?;
    usize::try_from(u64::from_be_bytes(octets)).ok()
}

/// Makes a G-PDU with a user's packet; `None` if it is too long, which cannot happen.
fn uplink_packet(session: &PacketSession, payload: &[u8]) -> Option<Vec<u8>> {
    let (ip_len, udp_len) =
        (Ipv4Header::LEN + UdpHeader::LEN + PAYLOAD_LEN, UdpHeader::LEN + PAYLOAD_LEN);
    let mut octets = vec![0; UL_HEADERS + ip_len];
    let body = u16::try_from(octets.len() - GtpuHeader::LEN).ok()?;
    let (header, rest) = octets.split_at_mut_checked(GtpuHeader::LEN)?;
    let (optional, rest) = rest.split_at_mut_checked(GtpuOptional::LEN)?;
    let (extension, rest) = rest.split_at_mut_checked(4)?;
    let (ip, rest) = rest.split_at_mut_checked(Ipv4Header::LEN)?;
    let (udp, data) = rest.split_at_mut_checked(UdpHeader::LEN)?;
    GtpuHeader::new(FLAG_E, GtpuMessageType::G_PDU, body, session.uplink_teid).emit(header).ok()?;
    GtpuOptional::new(0, ExtensionType::PDU_SESSION_CONTAINER).emit(optional).ok()?;
    let container = PduSessionContainer::uplink(Qfi::new(QFI)?).short_extension();
    extension.copy_from_slice(&container);
    let fields = Ipv4Fields {
        tos: 0,
        total_len: u16::try_from(ip_len).ok()?,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        src: session.ue,
        dst: DATA_NETWORK,
    };
    Ipv4Header::new(&fields).emit(ip).ok()?;
    // A checksum of zero means that there is no checksum.
    UdpHeader::new(PORT, PORT, u16::try_from(udp_len).ok()?, 0).emit(udp).ok()?;
    data.copy_from_slice(payload);
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_by_session_and_arrive_by_number() {
        let sent = |cp_seid| SentPacket { at_ms: 0, cp_seid, arrivals: 0 };
        let mut log = PacketLog { uplink: vec![sent(1), sent(2)], downlink: vec![sent(1)] };
        count_arrival(&mut log.uplink, number(&payload(1, 2)));
        count_arrival(&mut log.downlink, number(&payload(0, 1)));
        count_arrival(&mut log.downlink, number(&payload(9, 1)));
        assert_eq!(log.by_session(), BTreeMap::from([(1, [2, 1]), (2, [1, 1])]));
    }

    #[test]
    fn uplink_packet_is_a_g_pdu_with_the_payload_at_its_end() {
        let ue = Ipv4Addr::new(10, 45, 0, 1);
        let session = PacketSession { cp_seid: 3, ue, uplink_teid: Teid(0x1234) };
        let packet = uplink_packet(&session, &payload(77, 3)).unwrap();
        let gtpu = parse_gtpu(&packet).unwrap();
        assert_eq!((gtpu.message_type, gtpu.teid), (GtpuMessageType::G_PDU, Teid(0x1234)));
        assert_eq!(number(&packet[packet.len() - PAYLOAD_LEN..]), Some(77));
    }
}
