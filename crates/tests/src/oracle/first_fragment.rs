//! First fragments of user packets: filters match later fragments, which have no upper-layer
//! header, by the header of the first. Spec: TS 29.244 §5.2.1A; RFC 791 §3.2; RFC 8200 §4.5.

use core::net::IpAddr;
use std::collections::BTreeMap;

use adit_types::{Nanos, Seid};

use super::packet::OracleIp;

/// How long a first fragment is known.
const REMEMBERED: Nanos = Nanos::from_secs(5);

/// The fields that all fragments of one packet of a session share: addresses, identification and,
/// in IPv4, the protocol.
pub type FragmentedPacketId = (Seid, IpAddr, IpAddr, u32, Option<u8>);

/// The protocol of a packet, and the front of its upper layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleFirstFragment {
    /// The protocol.
    pub protocol: u8,
    front: [u8; 8],
    len: usize,
    /// How it arrived, unless it is remembered for sure.
    pub(super) arrived: Option<FragmentArrival>,
}

/// The tunnel of a fragment, and how often the rules of its session had changed.
pub(super) type FragmentArrival = (Option<u32>, u64);

impl OracleFirstFragment {
    /// The front of the upper layer, with ports or SPI.
    #[must_use]
    pub fn front(&self) -> &[u8] {
        &self.front[..self.len]
    }
}

/// The first fragments that passed, and when.
pub type OracleFirstFragments = BTreeMap<FragmentedPacketId, (Nanos, OracleFirstFragment)>;

/// The packet that a fragment of a session is a part of.
pub(super) fn id(seid: Seid, ip: &OracleIp) -> FragmentedPacketId {
    let protocol = ip.dst.is_ipv4().then_some(ip.protocol);
    (seid, ip.src, ip.dst, ip.identification, protocol)
}

/// The header of a first fragment.
pub(super) fn of(
    ip: &OracleIp,
    packet: &[u8],
    arrived: Option<FragmentArrival>,
) -> OracleFirstFragment {
    let upper = &packet[ip.upper..ip.len];
    let (mut front, len) = ([0; 8], upper.len().min(8));
    front[..len].copy_from_slice(&upper[..len]);
    OracleFirstFragment { protocol: ip.protocol, front, len, arrived }
}

/// The first fragment of a packet, if it passed recently.
pub(super) fn known(
    parts: &OracleFirstFragments,
    now: Nanos,
    id: &FragmentedPacketId,
) -> Option<OracleFirstFragment> {
    let (since, part) = parts.get(id)?;
    (now.since(*since) < REMEMBERED).then_some(*part)
}
