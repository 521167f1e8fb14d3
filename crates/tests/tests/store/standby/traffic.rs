//! Packets of users in both directions, one in each millisecond, and the longest pauses between
//! those that arrive.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use adit_testkit::packet::PacketBuilder;
use adit_types::MacAddr;

use crate::changes::HeldSession;
use crate::smf;

const INTERVAL: Duration = Duration::from_millis(1);
/// The port of users, and of the data network.
const PORT: u16 = 4000;
/// Octets of Ethernet, IPv4 and UDP headers in front of GTP-U.
const OUTER_LEN: usize = 14 + 20 + 8;

/// The longest pauses.
pub(crate) struct Gaps {
    pub uplink_ms: u64,
    pub downlink_ms: u64,
}

/// The packets that arrive in one direction.
#[derive(Default)]
struct PacketArrivals {
    packets: AtomicU64,
    longest_ms: AtomicU64,
}

/// Senders and receivers.
pub(crate) struct Traffic {
    uplink: Arc<PacketArrivals>,
    downlink: Arc<PacketArrivals>,
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts packets of `sessions`, between their gNB and a host at `data_network`.
    pub(crate) fn start(sessions: Vec<HeldSession>, data_network: Ipv4Addr) -> Self {
        let gnb = UdpSocket::bind((smf::GNB, 2152)).unwrap();
        let host = UdpSocket::bind((data_network, PORT)).unwrap();
        for socket in [&gnb, &host] {
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        }
        let (uplink, downlink) =
            (Arc::new(PacketArrivals::default()), Arc::new(PacketArrivals::default()));
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (socket, arrivals) in [(&host, &uplink), (&gnb, &downlink)] {
            let (socket, arrivals) = (socket.try_clone().unwrap(), Arc::clone(arrivals));
            let is_stopping = Arc::clone(&is_stopping);
            threads.push(std::thread::spawn(move || receive(&socket, &arrivals, &is_stopping)));
        }
        let stops = Arc::clone(&is_stopping);
        threads.push(std::thread::spawn(move || {
            let mut turn = 0;
            while !stops.load(Ordering::Relaxed) {
                let session = &sessions[turn % sessions.len()];
                // Nobody may receive at the moment.
                let _ = gnb.send_to(&uplink_packet(session, data_network), (smf::N3, 2152));
                let _ = host.send_to(b"downlink", (session.ue, PORT));
                turn += 1;
                std::thread::sleep(INTERVAL);
            }
        }));
        Self { uplink, downlink, is_stopping, threads }
    }

    /// Waits until packets arrive in both directions.
    pub(crate) fn wait_for_packets(&self, limit: Duration) {
        let counts = || [&self.uplink, &self.downlink].map(|of| of.packets.load(Ordering::Relaxed));
        let (before, began) = (counts(), Instant::now());
        while counts().iter().zip(before).any(|(now, before)| *now < before + 100) {
            assert!(began.elapsed() < limit, "packets: {before:?}, now {:?}", counts());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends all. Returns the longest pauses.
    pub(crate) fn stop(self) -> Gaps {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        Gaps {
            uplink_ms: self.uplink.longest_ms.load(Ordering::Relaxed),
            downlink_ms: self.downlink.longest_ms.load(Ordering::Relaxed),
        }
    }
}

fn receive(socket: &UdpSocket, arrivals: &PacketArrivals, is_stopping: &AtomicBool) {
    let mut packet = [0; 2048];
    let mut last = None;
    while !is_stopping.load(Ordering::Relaxed) {
        if socket.recv_from(&mut packet).is_err() {
            continue;
        }
        let now = Instant::now();
        let gap = last.replace(now).map_or(Duration::ZERO, |last| now.duration_since(last));
        let gap_ms = u64::try_from(gap.as_millis()).unwrap();
        arrivals.longest_ms.fetch_max(gap_ms, Ordering::Relaxed);
        arrivals.packets.fetch_add(1, Ordering::Relaxed);
    }
}

/// A G-PDU without the headers that the gNB's host adds.
fn uplink_packet(session: &HeldSession, to: Ipv4Addr) -> Vec<u8> {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let frame = PacketBuilder::ethernet(mac, mac).ipv4(smf::GNB, smf::N3).gtpu(session.up_teid.0);
    let frame = frame.psc_ul(9).ipv4(session.ue, to).udp(PORT, PORT).payload(b"uplink").build();
    frame[OUTER_LEN..].to_vec()
}
