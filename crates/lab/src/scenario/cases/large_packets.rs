//! What kernels join or leave unfinished, because devices and their peers have offloads by default.
//! Spec: RFC 791 §3.2; udp(7), UDP_SEGMENT.

use std::net::UdpSocket;

use anyhow::{Context, Result, ensure};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;

use super::fragments::bind;
use crate::scenario::session::{ScenarioContext, ScenarioRules};
use crate::topology::DN;

/// Octets of each datagram that a socket sends at once with others.
const SEGMENT: u16 = 1200;
/// All of them: 20, and a shorter one.
const SEGMENTS: usize = 20 * SEGMENT as usize + 7;
/// A datagram in as many fragments as its way needs.
const LONGEST: usize = 60_000;

/// Datagrams that a kernel sends at once arrive one by one, and one of 60,000 octets arrives whole, both ways: with the
/// checksums, segments and fragments of devices with their default offloads.
pub(super) fn large_packets(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish_with(&ScenarioRules::USUAL)?;
    let topology = &context.network.topology;
    let ue = bind(&topology.ran, context.ue.ipv4())?;
    let dn = bind(&topology.dn, DN)?;
    for (way, from, to) in [("uplink", &ue, &dn), ("downlink", &dn, &ue)] {
        send(from, to, LONGEST).with_context(|| format!("{way}, {LONGEST} octets"))?;
        expect(to, LONGEST).with_context(|| format!("{way}, {LONGEST} octets"))?;
        setsockopt(from, UdpGsoSegment, &SEGMENT.into()).context("set UDP_SEGMENT")?;
        send(from, to, SEGMENTS).with_context(|| format!("{way}, {SEGMENTS} octets at once"))?;
        setsockopt(from, UdpGsoSegment, &0).context("reset UDP_SEGMENT")?;
        for part in payload(SEGMENTS).chunks(SEGMENT.into()) {
            let received = receive(to).with_context(|| format!("{way}, joined datagrams"))?;
            ensure!(received == part, "{way}: {} octets instead of {}", received.len(), part.len());
        }
    }
    session.end()?;
    Ok(format!(
        "{} datagrams sent at once arrived one by one, and one of {LONGEST} octets whole, both ways",
        SEGMENTS.div_ceil(SEGMENT.into())
    ))
}

/// 251 is prime, so that a wrong offset is detected.
fn payload(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

fn send(from: &UdpSocket, to: &UdpSocket, len: usize) -> Result<()> {
    from.send_to(&payload(len), to.local_addr()?).context("send")?;
    Ok(())
}

fn receive(at: &UdpSocket) -> Result<Vec<u8>> {
    let mut octets = vec![0; 65_536];
    let len = at.recv(&mut octets).context("nothing arrived")?;
    octets.truncate(len);
    Ok(octets)
}

fn expect(at: &UdpSocket, len: usize) -> Result<()> {
    let received = receive(at)?;
    ensure!(received == payload(len), "{} octets arrived, or others", received.len());
    Ok(())
}
