//! A station that sends requests for addresses again and again, and counts who answers.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use adit_tests::link::PacketLink;
use adit_types::MacAddr;
use adit_wire::arp::{ArpOperation, ArpPacket};

/// Time between two questions.
const INTERVAL: Duration = Duration::from_millis(100);

const ETHERNET_LEN: usize = 14;

/// An address, and the device and address of the station on its link.
pub(crate) struct ProbedAddress {
    pub device: &'static str,
    pub station: Ipv4Addr,
    pub target: Ipv4Addr,
}

/// How many stations answered for each address.
#[derive(Debug)]
pub(crate) struct ProbeRound {
    /// Since the first one.
    pub at_ms: u64,
    pub answers: Vec<usize>,
}

/// Sends requests until the file `end` appears in the folder, and prints the answers.
pub(crate) fn probe(dir: &Path, addresses: &[ProbedAddress]) {
    let links: Vec<_> = addresses.iter().map(|of| PacketLink::open(of.device)).collect();
    let (began, mut rounds) = (Instant::now(), Vec::new());
    while !dir.join("end").exists() {
        let at_ms = u64::try_from(began.elapsed().as_millis()).unwrap();
        let mut answered = vec![BTreeSet::new(); links.len()];
        for (link, of) in links.iter().zip(addresses) {
            while link.try_receive().is_some() {}
            link.send(&question(link.mac, of));
        }
        std::thread::sleep(INTERVAL);
        for ((link, of), answered) in links.iter().zip(addresses).zip(&mut answered) {
            while let Some(frame) = link.try_receive() {
                answered.extend(answer(&frame, link.mac, of.target));
            }
        }
        let answers = answered.iter().map(BTreeSet::len).collect();
        let answers: Vec<usize> = answers;
        rounds.push((at_ms, answers));
        std::fs::write(dir.join("ready"), "").unwrap();
    }
    println!("rounds {}", serde_json::to_string(&rounds).unwrap());
}

/// The output of [`probe`].
pub(crate) fn read(rounds: &str) -> Vec<ProbeRound> {
    let rounds: Vec<(u64, Vec<usize>)> = serde_json::from_str(rounds).unwrap();
    rounds.into_iter().map(|(at_ms, answers)| ProbeRound { at_ms, answers }).collect()
}

/// How long two stations answered for one address without a pause.
pub(crate) fn longest_with_two(rounds: &[ProbeRound]) -> Duration {
    let (mut longest, mut since) = (0, None);
    for round in rounds {
        match round.answers.iter().any(|answers| *answers > 1) {
            true => longest = longest.max(round.at_ms - *since.get_or_insert(round.at_ms)),
            false => since = None,
        }
    }
    Duration::from_millis(longest)
}

fn question(mac: MacAddr, of: &ProbedAddress) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &mac.0, &[0x08, 0x06]].concat();
    frame.resize(ETHERNET_LEN + ArpPacket::LEN, 0);
    ArpPacket::request(mac, of.station, of.target).emit(&mut frame[ETHERNET_LEN..]).unwrap();
    frame
}

/// Who answers in a frame.
fn answer(frame: &[u8], own: MacAddr, target: Ipv4Addr) -> Option<MacAddr> {
    let payload = frame.strip_prefix(&own.0)?.get(6..)?.strip_prefix(&[0x08, 0x06])?;
    let (arp, _) = ArpPacket::parse(payload).ok()?;
    (arp.operation() == ArpOperation::REPLY && arp.sender_addr() == target)
        .then(|| arp.sender_mac())
}
