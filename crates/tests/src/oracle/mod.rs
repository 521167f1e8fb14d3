//! A slow, obvious UPF: what the pipeline must do, in few words.
//!
//! It holds the rules as the control plane stated them, scans sessions and PDRs one by one, reads
//! packets by fixed offsets, and computes every checksum from the beginning. It shares identifiers,
//! reasons and the records of a change with the product, but nothing that decides: neither compiled
//! rules nor tables nor header views.
//! Spec: TS 29.244 §5.2.1; TS 29.281; TS 38.415; RFC 791, 8200, 1812.

mod arrival;
mod buffering;
mod checksum;
mod classify;
mod end_marker;
mod enforce;
mod first_fragment;
mod forward;
mod frame;
mod instance;
mod judge;
mod keys;
mod local_switching;
mod mss;
mod packet;
mod packet_rate;
pub mod predefined;
mod rate;
mod records;
mod sdf;
mod side;
mod verdict;

pub use checksum::checksum;
pub use first_fragment::{FragmentedPacketId, OracleFirstFragment, OracleFirstFragments};
pub use packet::OracleIp;
pub use packet_rate::{OracleRateWindow, OracleRateWindows, OracleWindowKey};
pub use rate::{OracleBucket, OracleSharedDue};
pub use records::{ChosenByUpf, OracleSession, OracleSessions, OracleUsage};
pub use verdict::{
    OracleBufferedBy, OracleExit, OracleLane, OracleNeighbors, OracleOutcome, OracleVerdict,
};

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::DestinationInterface;
use adit_session::Forwarding;
use adit_types::{Nanos, TcpMss};

/// The network behind an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OracleRole {
    /// The RAN, through tunnels.
    N3,
    /// Other UPFs, through tunnels.
    N9,
    /// A data network.
    N6,
}

/// A logical interface as the operator configured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleInterface {
    /// The network behind it.
    pub role: OracleRole,
    /// The port, counted from zero.
    pub port: u16,
    /// VLAN, zero for untagged.
    pub vlan: u16,
    /// Our hardware address.
    pub mac: [u8; 6],
    /// Largest IP packet. Unit: octets.
    pub mtu_bytes: usize,
    /// Our IPv4 address and the connected prefix's length.
    pub v4: (Ipv4Addr, u8),
    /// Our IPv6 address and the connected prefix's length.
    pub v6: (Ipv6Addr, u8),
    /// The network instance that it belongs to; `None` serves any.
    pub network_instance: Option<&'static str>,
    /// Packets between UEs of the data network come back instead of leaving.
    pub local_switching: bool,
    /// The setting of the MSS that TCP connections with the data network announce.
    pub tcp_mss: TcpMss,
}

impl OracleInterface {
    /// One of our own addresses, the link-local one included. Spec: RFC 4291 appendix A.
    #[must_use]
    pub fn owns(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => addr == self.v4.0,
            IpAddr::V6(addr) => {
                let [a, b, c, d, e, f] = self.mac.map(u16::from);
                let local = Ipv6Addr::new(
                    0xfe80,
                    0,
                    0,
                    0,
                    (a ^ 2) << 8 | b,
                    c << 8 | 0xff,
                    0xfe00 | d,
                    e << 8 | f,
                );
                addr == self.v6.0 || addr == local
            }
        }
    }

    /// Usable by rules that name `network_instance`, or none. Spec: TS 29.244 §8.2.4.
    fn serves(&self, network_instance: Option<&str>) -> bool {
        self.network_instance.is_none()
            || network_instance.is_none()
            || self.network_instance == network_instance
    }

    /// Connected, and neither ours nor an address that names the subnet itself.
    fn connects(&self, addr: IpAddr) -> bool {
        if self.owns(addr) {
            return false;
        }
        match addr {
            IpAddr::V4(addr) => {
                let (own, len) = self.v4;
                let host_bits = u32::MAX >> len;
                let host = addr.to_bits() & host_bits;
                in_prefix(addr.into(), own.into(), len) && host != 0 && host != host_bits
            }
            IpAddr::V6(_) => in_prefix(addr, self.v6.0.into(), self.v6.1),
        }
    }
}

/// A route beyond the connected prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleRoute {
    /// Position of the interface.
    pub interface: usize,
    /// First address and length of the prefix.
    pub prefix: (IpAddr, u8),
    /// The gateway.
    pub gateway: IpAddr,
}

/// A forwarding policy as the operator configured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OraclePolicy {
    /// Its identifier.
    pub id: &'static str,
    /// The network instance that packets leave through.
    pub network_instance: Option<&'static str>,
    /// The station that IPv4 packets without an outer header go to.
    pub next_hop: Option<Ipv4Addr>,
    /// The code point that packets leave with.
    pub dscp: Option<u8>,
    /// Packets between UEs come back; `None` leaves it to the interface.
    pub local_switching: Option<bool>,
}

/// Where N4 listens in every world: on no interface.
pub const N4_ADDR: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);

/// A policy without any setting.
const POLICY: OraclePolicy = OraclePolicy {
    id: "",
    network_instance: None,
    next_hop: None,
    dscp: None,
    local_switching: None,
};

/// The policies of every world.
pub const POLICIES: [OraclePolicy; 5] = [
    OraclePolicy { id: "steer", next_hop: Some(Ipv4Addr::new(10, 0, 6, 77)), ..POLICY },
    OraclePolicy { id: "ims", network_instance: Some("ims"), ..POLICY },
    OraclePolicy { id: "mark", dscp: Some(46), ..POLICY },
    OraclePolicy { id: "outside", local_switching: Some(false), ..POLICY },
    OraclePolicy { id: "inside", local_switching: Some(true), ..POLICY },
];

/// The policy that forwarding parameters name.
fn policy_of(forwarding: &Forwarding) -> Option<&'static OraclePolicy> {
    let id = forwarding.policy.as_deref()?;
    Some(POLICIES.iter().find(|policy| policy.id == id).unwrap())
}

/// The fields that outer headers copy from packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OracleCopied {
    /// The code point, unless the FAR or its policy has one.
    pub dscp: bool,
    /// The ECN field.
    pub ecn: bool,
}

/// The UPF.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// Interfaces in configuration order.
    pub interfaces: Vec<OracleInterface>,
    /// Routes in any order; the longest prefix wins.
    pub routes: Vec<OracleRoute>,
    /// The fields that outer headers copy from packets.
    pub copied: OracleCopied,
    /// Applications by identifier, with the flow descriptions of which one must match.
    pub applications: &'static [(&'static str, &'static [&'static str])],
    /// PFCP sessions.
    pub sessions: OracleSessions,
    /// Stations whose hardware address is known.
    pub neighbors: OracleNeighbors,
    /// Due times of the rates that sessions share, by QER Correlation ID and direction.
    pub shared_due: OracleSharedDue,
    /// First fragments that passed.
    pub first_fragments: OracleFirstFragments,
    /// Virtual time.
    pub now: Nanos,
}

impl Oracle {
    /// The traffic class of the outer header of a packet whose own is `inner`: the code point of
    /// the FAR or, without one, of the policy. Spec: RFC 6040 §4.1.
    fn outer_tos(&self, forwarding: &Forwarding, inner: u8) -> u8 {
        let of_policy = policy_of(forwarding).and_then(|policy| policy.dscp);
        let dscp = match (forwarding.transport_level_marking, of_policy) {
            (Some(tos), _) => tos / 4,
            (None, Some(dscp)) => dscp,
            (None, None) if self.copied.dscp => inner / 4,
            (None, None) => 0,
        };
        dscp * 4 + if self.copied.ecn { inner % 4 } else { 0 }
    }

    /// True for an address of ours that a packet for the interfaces `within` could be routed to:
    /// that of N4, those of N3 and N9, and those in the data networks of `within`.
    #[must_use]
    pub fn is_own(&self, within: &[usize], addr: IpAddr) -> bool {
        let is_at = |at: usize| {
            let interface = &self.interfaces[at];
            addr == IpAddr::V4(interface.v4.0) || addr == IpAddr::V6(interface.v6.0)
        };
        let is_near = |at: usize| {
            let network = self.interfaces[at].role == OracleRole::N6;
            !network || !self.are_separate() || within.contains(&at)
        };
        addr == IpAddr::V4(N4_ADDR) || (0..self.interfaces.len()).any(|at| is_near(at) && is_at(at))
    }

    /// The interfaces for tunnels to `destination`. An interface with the network instance precedes
    /// one that serves any, and then one of the destination's own role precedes the others. The CP
    /// function is behind all interfaces of N3.
    #[must_use]
    pub fn transport(
        &self,
        destination: DestinationInterface,
        network_instance: Option<&str>,
    ) -> Vec<usize> {
        let is_cp = destination == DestinationInterface::CpFunction;
        let own = match destination {
            DestinationInterface::Access => OracleRole::N3,
            _ => OracleRole::N9,
        };
        let rank = |at: usize| {
            let interface = &self.interfaces[at];
            let is_named =
                network_instance.is_some() && interface.network_instance == network_instance;
            (!is_cp && is_named, !is_cp && interface.role == own)
        };
        let serving: Vec<usize> = (0..self.interfaces.len())
            .filter(|at| {
                let interface = &self.interfaces[*at];
                interface.serves(network_instance)
                    && (interface.role == OracleRole::N3
                        || interface.role == OracleRole::N9 && !is_cp)
            })
            .collect();
        let best = serving.iter().map(|at| rank(*at)).max();
        serving.into_iter().filter(|at| Some(rank(*at)) == best).collect()
    }

    /// The interface, one of `within`, and the station through which `addr` is reached.
    #[must_use]
    pub fn route(&self, within: &[usize], addr: IpAddr) -> Option<(usize, IpAddr)> {
        let (_, at, station) = self.best_route(within, addr)?;
        Some((at, station?))
    }

    /// The longest prefix with `addr` on one of `within`: its length, the interface, and the
    /// station unless no host can have the address.
    fn best_route(&self, within: &[usize], addr: IpAddr) -> Option<(u8, usize, Option<IpAddr>)> {
        let side = |at: &usize| within.contains(at);
        let mut best: Option<(u8, usize, Option<IpAddr>)> = None;
        let mut offer = |len: u8, at: usize, station: Option<IpAddr>| {
            if best.is_none_or(|(longest, ..)| len > longest) {
                best = Some((len, at, station));
            }
        };
        for at in (0..self.interfaces.len()).filter(side) {
            let interface = &self.interfaces[at];
            let (own, len) = match addr {
                IpAddr::V4(_) => (interface.v4.0.into(), interface.v4.1),
                IpAddr::V6(_) => (interface.v6.0.into(), interface.v6.1),
            };
            if in_prefix(addr, own, len) {
                offer(len, at, interface.connects(addr).then_some(addr));
            }
        }
        for route in self.routes.iter().filter(|route| side(&route.interface)) {
            if in_prefix(addr, route.prefix.0, route.prefix.1) {
                offer(route.prefix.1, route.interface, Some(route.gateway));
            }
        }
        best
    }
}

/// True if both addresses are of one family and agree in their first `len` bits.
#[must_use]
pub fn in_prefix(addr: IpAddr, prefix: IpAddr, len: u8) -> bool {
    let differing = match (addr, prefix) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
        _ => return false,
    };
    differing.leading_zeros() >= len.into()
}
