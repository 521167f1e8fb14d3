//! Numbered packets in both directions, stations that answer ARP, and the arrivals by end.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_pfcp::Message;
use adit_pfcp::ie::{Cause, FTeid};
use adit_testkit::packet::PacketBuilder;
use adit_tests::link::{PacketLink, mac};
use adit_types::{MacAddr, Teid};

use crate::associated_smf::TestSmf;
use crate::smf::{self, SessionScript};

/// A router of the data network, and another one.
pub(crate) const FORMER_GATEWAY: Station =
    (Ipv4Addr::new(10, 0, 6, 1), MacAddr([2, 0xaa, 0, 0, 6, 1]));
pub(crate) const LATER_GATEWAY: Station =
    (Ipv4Addr::new(10, 0, 6, 9), MacAddr([2, 0xaa, 0, 0, 6, 9]));
/// The router of the network instance that a reload adds, and its VLAN.
const ADDED_GATEWAY: Station = (Ipv4Addr::new(10, 0, 7, 1), MacAddr([2, 0xaa, 0, 0, 7, 1]));
const ADDED_VLAN: u16 = 7;
const GNB: Station = (smf::GNB, MacAddr([2, 0xaa, 0, 0, 3, 1]));

/// One packet of each direction in this time.
const INTERVAL: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of packets before the load: some wait for neighbors.
const WARM_UP: u64 = u64::MAX;

type Station = (Ipv4Addr, MacAddr);

/// Where packets of a session go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadSession {
    pub ue: Ipv4Addr,
    pub teid: Teid,
}

impl LoadSession {
    /// Establishes the session of this number.
    pub(crate) fn establish(smf: &mut TestSmf, number: u16) -> Result<Self, Cause> {
        let script = SessionScript::new(number.into(), number);
        let bytes = smf.answer(|sequence| smf::establish(sequence, &script));
        let Message::SessionEstablishmentResponse(body) = smf::decode(&bytes) else { panic!() };
        if !body.cause.is_accepted() {
            return Err(body.cause);
        }
        let created: Vec<_> = body.created_pdrs.iter().collect();
        let f_teid = created.iter().find_map(|pdr| pdr.local_f_teids.iter().next());
        let Some(FTeid::Given { teid, .. }) = f_teid else { panic!("{created:?}") };
        Ok(Self { ue: script.ue, teid })
    }
}

/// The adit that a session crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserPlane {
    /// Where its tunnels end.
    pub n3: Ipv4Addr,
    /// Link-layer addresses of its ports.
    pub n3_mac: MacAddr,
    pub n6_mac: MacAddr,
}

impl UserPlane {
    /// The only one of most namespaces.
    fn only() -> Self {
        Self { n3: smf::N3, n3_mac: mac("up0"), n6_mac: mac("core0") }
    }
}

/// A session, and the adit that it crosses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedSession {
    pub session: LoadSession,
    pub through: UserPlane,
}

/// The packets that arrived.
#[derive(Debug)]
pub(crate) struct ReloadTrafficOutcome {
    /// Packets that did not arrive once, uplink and downlink.
    pub lost: (usize, usize),
    /// Packets that arrived behind a later one of their session.
    pub late: usize,
    /// Uplink packets by gateway: the previous one, the later one.
    pub by_gateway: [usize; 2],
    /// The gateway of the last packet.
    pub last_gateway: Option<usize>,
}

/// Packets on their way.
pub(crate) struct ReloadTraffic {
    sender: JoinHandle<u64>,
    sessions: u64,
    uplink: LinkReceiver,
    downlink: LinkReceiver,
    is_stopping: Arc<AtomicBool>,
}

/// The packets that one end receives: the number of each, and the station to which it was sent.
struct LinkReceiver {
    thread: JoinHandle<Vec<(u64, MacAddr)>>,
    count: Arc<AtomicU64>,
    is_stopping: Arc<AtomicBool>,
}

impl LinkReceiver {
    /// Receives on `device`, and answers ARP for the stations.
    fn start(device: &'static str, stations: &'static [Station]) -> Self {
        let (count, is_stopping) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counts, stops) = (Arc::clone(&count), Arc::clone(&is_stopping));
        let link = PacketLink::open(device);
        let thread = std::thread::spawn(move || {
            let mut received = Vec::new();
            loop {
                let Some(frame) = link.try_receive() else {
                    if stops.load(Ordering::Relaxed) {
                        return received;
                    }
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                };
                let to = MacAddr(frame[..6].try_into().unwrap());
                if frame[12..14] == [8, 6] {
                    answer_arp(&link, &frame, stations);
                } else if stations.iter().any(|station| station.1 == to) {
                    let number = u64::from_be_bytes(*frame.last_chunk().unwrap());
                    received.push((number, to));
                    counts.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { thread, count, is_stopping }
    }

    fn stop(self) -> Vec<(u64, MacAddr)> {
        self.is_stopping.store(true, Ordering::Relaxed);
        let mut received = self.thread.join().unwrap();
        received.retain(|(number, _)| *number != WARM_UP);
        received
    }
}

fn answer_arp(link: &PacketLink, request: &[u8], stations: &[Station]) {
    let is_request = request[20..22] == [0, 1];
    let Some((addr, mac)) = stations.iter().find(|of| request[38..42] == of.0.octets()) else {
        return;
    };
    if !is_request || request[6..12] == mac.0 {
        return;
    }
    let asker: [u8; 6] = request[6..12].try_into().unwrap();
    let mut reply = vec![0, 1, 8, 0, 6, 4, 0, 2];
    reply.extend(mac.0);
    reply.extend(addr.octets());
    reply.extend(&request[22..32]);
    let frame = PacketBuilder::ethernet(MacAddr(asker), *mac);
    let frame = if *addr == ADDED_GATEWAY.0 { frame.vlan(ADDED_VLAN) } else { frame };
    link.send(&frame.ether_type(0x0806).payload(&reply).build());
}

/// Both ends of adit.
struct TrafficSenders {
    gnb: PacketLink,
    network: PacketLink,
}

impl TrafficSenders {
    fn open() -> Self {
        Self { gnb: PacketLink::open("gnb0"), network: PacketLink::open("net0") }
    }

    fn send_uplink(&self, PlacedSession { session, through }: &PlacedSession, number: u64) {
        let packet = PacketBuilder::ethernet(through.n3_mac, GNB.1)
            .ipv4(smf::GNB, through.n3)
            .gtpu(session.teid.0)
            .psc_ul(9)
            .ipv4(session.ue, "8.8.8.8")
            .udp(4000, 9000)
            .payload(&number.to_be_bytes());
        self.gnb.send(&packet.build());
    }

    fn send_downlink(&self, PlacedSession { session, through }: &PlacedSession, number: u64) {
        let packet = PacketBuilder::ethernet(through.n6_mac, FORMER_GATEWAY.1)
            .ipv4("8.8.8.8", session.ue)
            .udp(9000, 4000)
            .payload(&[&[0; 32], &number.to_be_bytes()[..]].concat());
        self.network.send(&packet.build());
    }
}

const GATEWAYS: &[Station] = &[FORMER_GATEWAY, LATER_GATEWAY, ADDED_GATEWAY];

impl ReloadTraffic {
    /// Starts packets of all sessions in turn, once the first ones arrived.
    pub(crate) fn start(sessions: Vec<LoadSession>) -> Self {
        let through = UserPlane::only();
        let place = |session| PlacedSession { session, through };
        Self::start_placed(sessions.into_iter().map(place).collect())
    }

    /// As [`Self::start`], through several adits, once the first packets of each arrived.
    pub(crate) fn start_placed(sessions: Vec<PlacedSession>) -> Self {
        let (uplink, downlink) =
            (LinkReceiver::start("net0", GATEWAYS), LinkReceiver::start("gnb0", &[GNB]));
        let is_stopping = Arc::new(AtomicBool::new(false));
        let senders = TrafficSenders::open();
        let began = Instant::now();
        let arrived = || [&uplink, &downlink].map(|of| of.count.load(Ordering::Relaxed));
        for (index, placed) in sessions.iter().enumerate() {
            if sessions[..index].iter().any(|other| other.through == placed.through) {
                continue;
            }
            let before = arrived();
            while arrived().iter().zip(before).any(|(now, before)| *now == before) {
                assert!(began.elapsed() < PATIENCE, "nothing arrives");
                senders.send_uplink(placed, WARM_UP);
                senders.send_downlink(placed, WARM_UP);
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        let stops = Arc::clone(&is_stopping);
        let count = sessions.len() as u64;
        let sender = std::thread::spawn(move || {
            let mut number = 0;
            for session in sessions.iter().cycle() {
                if stops.load(Ordering::Relaxed) {
                    break;
                }
                senders.send_uplink(session, number);
                senders.send_downlink(session, number);
                number += 1;
                std::thread::sleep(INTERVAL);
            }
            number
        });
        Self { sender, sessions: count, uplink, downlink, is_stopping }
    }

    /// Ends all, once sent packets had time to arrive.
    pub(crate) fn stop(self) -> ReloadTrafficOutcome {
        self.is_stopping.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let (uplink, downlink) = (self.uplink.stop(), self.downlink.stop());
        ReloadTrafficOutcome {
            lost: (not_once(&uplink, sent), not_once(&downlink, sent)),
            late: [&uplink, &downlink].map(|of| late(of, self.sessions)).iter().sum(),
            ..outcome(&uplink)
        }
    }

    /// Sends uplink packets of one session, and waits for the first one.
    pub(crate) fn start_uplink(session: LoadSession) -> ReloadTrafficOutcome {
        let (uplink, senders) = (LinkReceiver::start("net0", GATEWAYS), TrafficSenders::open());
        let placed = PlacedSession { session, through: UserPlane::only() };
        let began = Instant::now();
        for number in 0.. {
            senders.send_uplink(&placed, number);
            std::thread::sleep(Duration::from_millis(20));
            if uplink.count.load(Ordering::Relaxed) > 0 {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "nothing arrives");
        }
        outcome(&uplink.stop())
    }
}

/// A session of the network instance that a reload adds.
pub(crate) struct SessionInNetwork {
    pub session: LoadSession,
    pub gnb_teid: Teid,
}

impl SessionInNetwork {
    /// Exchanges packets of the UE: those to the data network leave to its own router, and those
    /// from it, in its VLAN, reach the tunnel of this session.
    pub(crate) fn exchange(&self) {
        let network = LinkReceiver::start("net0", GATEWAYS);
        let (senders, gnb) = (TrafficSenders::open(), PacketLink::open("gnb0"));
        let placed = PlacedSession { session: self.session, through: UserPlane::only() };
        let began = Instant::now();
        let mut tunnel = None;
        while network.count.load(Ordering::Relaxed) == 0 || tunnel.is_none() {
            assert!(began.elapsed() < PATIENCE, "nothing arrives");
            senders.send_uplink(&placed, 0);
            let down = PacketBuilder::ethernet(placed.through.n6_mac, ADDED_GATEWAY.1)
                .vlan(ADDED_VLAN)
                .ipv4("8.8.8.8", self.session.ue)
                .udp(9000, 4000)
                .payload(b"of the added network");
            senders.network.send(&down.build());
            std::thread::sleep(Duration::from_millis(20));
            let arrived = core::iter::from_fn(|| gnb.try_receive());
            tunnel = arrived
                .filter(|frame| frame.ends_with(b"of the added network"))
                .map(|frame| u32::from_be_bytes(frame[46..50].try_into().unwrap()))
                .last()
                .or(tunnel);
        }
        assert_eq!(tunnel, Some(self.gnb_teid.0));
        let gateways: Vec<_> = network.stop().into_iter().map(|(_, mac)| mac).collect();
        assert!(gateways.iter().all(|mac| *mac == ADDED_GATEWAY.1), "{gateways:?}");
    }
}

fn outcome(uplink: &[(u64, MacAddr)]) -> ReloadTrafficOutcome {
    let gateway = |mac: MacAddr| GATEWAYS.iter().position(|station| station.1 == mac);
    let by = |at| uplink.iter().filter(|(_, mac)| gateway(*mac) == Some(at)).count();
    let last_gateway = uplink.last().and_then(|(_, mac)| gateway(*mac));
    ReloadTrafficOutcome { lost: (0, 0), late: 0, by_gateway: [by(0), by(1)], last_gateway }
}

/// How many of the numbers below `sent` did not arrive once.
fn not_once(received: &[(u64, MacAddr)], sent: u64) -> usize {
    let mut counts = vec![0_u32; usize::try_from(sent).unwrap()];
    for (number, _) in received {
        counts[usize::try_from(*number).unwrap()] += 1;
    }
    counts.iter().filter(|count| **count != 1).count()
}

/// How many packets arrived behind a later one of the same session, of which the numbers are
/// cyclic.
fn late(received: &[(u64, MacAddr)], sessions: u64) -> usize {
    let mut last = vec![0; usize::try_from(sessions).unwrap()];
    let mut is_late = |number: u64| {
        let last = &mut last[usize::try_from(number % sessions).unwrap()];
        core::mem::replace(last, number.max(*last)) > number
    };
    received.iter().filter(|(number, _)| is_late(*number)).count()
}
