//! Packets that kernels join, or send with incomplete checksums, because devices and their peers
//! have offloads by default. Spec: RFC 791 §3.2; udp(7), UDP_SEGMENT.

use std::net::UdpSocket;

use anyhow::{Context, Result, ensure};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};

use super::fragments::bind;
use crate::scenario::session::{ScenarioContext, ScenarioRules};
use crate::topology::DN;

/// Payload of the longest datagram, which is sent in fragments. Unit: octets.
const LONGEST: usize = 65_507;
/// Octets that a tunnel with a PDU Session Container adds to a packet; and the headers of a
/// datagram.
const TUNNEL: usize = 20 + 8 + 16;
const HEADERS: usize = 20 + 8;

/// Sends three kinds of datagrams in both directions: datagrams that fill N3 and N6, several that
/// the kernel passes as one, and the longest one, in fragments. The devices have their default
/// offloads of checksums and segmentation.
pub(super) fn large_packets(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish_with(&ScenarioRules::USUAL)?;
    let topology = &context.network.topology;
    let mtu = usize::from(topology.mtu_bytes);
    let fits = mtu - TUNNEL;
    topology.set_mtu(context.ue, u16::try_from(fits)?)?;
    let ue = bind(&topology.ran, context.ue.ipv4())?;
    let dn = bind(&topology.dn, DN)?;
    for socket in [&ue, &dn] {
        // Without DF, adit fragments packets that fill N6 and so exceed N3.
        set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT).context("set IP_MTU_DISCOVER")?;
    }
    // Short enough that segments arrive unfragmented.
    let segment = u16::try_from(fits - 256)?;
    // Payload of all segments of one send. The kernel accepts at most 64 segments and 64 kB.
    let at_once = usize::from(segment) * (LONGEST / usize::from(segment)).min(20) + 7;
    for (way, from, to) in [("uplink", &ue, &dn), ("downlink", &dn, &ue)] {
        for len in [fits - HEADERS, mtu - HEADERS, LONGEST] {
            send(from, to, len).with_context(|| format!("{way}, {len} octets"))?;
            expect(to, len).with_context(|| format!("{way}, {len} octets"))?;
        }
        setsockopt(from, UdpGsoSegment, &segment.into()).context("set UDP_SEGMENT")?;
        send(from, to, at_once).with_context(|| format!("{way}, {at_once} octets at once"))?;
        setsockopt(from, UdpGsoSegment, &0).context("reset UDP_SEGMENT")?;
        for part in payload(at_once).chunks(segment.into()) {
            let received = receive(to).with_context(|| format!("{way}, joined datagrams"))?;
            ensure!(received == part, "{way}: {} octets instead of {}", received.len(), part.len());
        }
    }
    session.end()?;
    Ok(format!(
        "{} datagrams sent at once arrived one by one, one that fills links of {mtu} octets and one of {LONGEST} octets \
         whole, both ways",
        at_once.div_ceil(segment.into())
    ))
}

/// Makes a payload that repeats after 251 octets, a prime, so that a wrong offset is detected.
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
