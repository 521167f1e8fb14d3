//! Service data flow filters, and how packets match them.
//!
//! Filters are stored from the UE's point of view. The *remote* side is the "from" of a flow
//! description, whose direction is always "out" (network to UE); the *local* side is the "to". For
//! uplink packets, source and destination are swapped. Spec: TS 29.244 §8.2.5; TS 29.212 §5.4.2.

use core::net::IpAddr;

use adit_types::{Direction, Ipv4Prefix, Ipv6Prefix};

/// The fields of an inner packet that SDF filters compare. Ports are zero if the packet has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSelector {
    /// Inner source address.
    pub src: IpAddr,
    /// Inner destination address.
    pub dst: IpAddr,
    /// Upper-layer protocol, after IPv6 extension headers.
    pub protocol: u8,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Type of service or traffic class octet.
    pub tos: u8,
    /// Security parameter index of ESP or AH.
    pub spi: Option<u32>,
    /// IPv6 flow label; zero in IPv4.
    pub flow_label: u32,
}

/// Addresses that match one side of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddrMatch {
    /// Any address of either family ("any", and "assigned" on the UE's side).
    Any,
    /// Addresses of an IPv4 prefix.
    V4(Ipv4Prefix),
    /// Addresses of an IPv6 prefix.
    V6(Ipv6Prefix),
}

impl AddrMatch {
    /// True if `addr` matches.
    #[inline]
    #[must_use]
    pub fn matches(self, addr: IpAddr) -> bool {
        match (self, addr) {
            (Self::Any, _) => true,
            (Self::V4(prefix), IpAddr::V4(addr)) => prefix.contains(addr),
            (Self::V6(prefix), IpAddr::V6(addr)) => prefix.contains(addr),
            _ => false,
        }
    }
}

/// An inclusive range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port, not below the first.
    pub last: u16,
}

/// One SDF filter. A field that is `None` or empty matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PacketFilter {
    /// Upper-layer protocol.
    pub protocol: Option<u8>,
    /// The addresses on the network's side.
    pub remote: AddrMatch,
    /// The ports on the network's side; empty matches all.
    pub remote_ports: Vec<PortRange>,
    /// The addresses on the UE's side.
    pub local: AddrMatch,
    /// The ports on the UE's side; empty matches all.
    pub local_ports: Vec<PortRange>,
    /// Type of service or traffic class: value and mask.
    pub tos: Option<(u8, u8)>,
    /// Security parameter index of ESP or AH.
    pub spi: Option<u32>,
    /// IPv6 flow label, 20 bits. IPv4 packets have none, not even zero.
    pub flow_label: Option<u32>,
}

impl PacketFilter {
    /// A filter that matches every packet.
    pub const ANY: Self = Self {
        protocol: None,
        remote: AddrMatch::Any,
        remote_ports: Vec::new(),
        local: AddrMatch::Any,
        local_ports: Vec::new(),
        tos: None,
        spi: None,
        flow_label: None,
    };

    /// True if all remote addresses are multicast or link-local: routers forward no packets with
    /// such addresses. Spec: RFC 4291 §2.5.6, §2.7; RFC 3927 §2.7; RFC 1112 §4.
    #[must_use]
    pub fn is_link_scoped(&self) -> bool {
        match self.remote {
            AddrMatch::Any => false,
            AddrMatch::V4(prefix) => {
                let addr = prefix.addr();
                addr.is_multicast() && prefix.len() >= 4
                    || addr.is_link_local() && prefix.len() >= 16
            }
            AddrMatch::V6(prefix) => {
                let addr = prefix.addr();
                addr.is_multicast() && prefix.len() >= 8
                    || addr.is_unicast_link_local() && prefix.len() >= 10
            }
        }
    }

    /// True if a packet of `direction` with the fields `flow` matches the filter.
    #[must_use]
    pub fn matches(&self, direction: Direction, flow: &FlowSelector) -> bool {
        let (remote, remote_port, local, local_port) = match direction {
            Direction::Uplink => (flow.dst, flow.dst_port, flow.src, flow.src_port),
            Direction::Downlink => (flow.src, flow.src_port, flow.dst, flow.dst_port),
        };
        self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.remote.matches(remote)
            && self.local.matches(local)
            && port_matches(&self.remote_ports, remote_port)
            && port_matches(&self.local_ports, local_port)
            && self.tos.is_none_or(|(value, mask)| flow.tos & mask == value & mask)
            && self.spi.is_none_or(|spi| flow.spi == Some(spi))
            && self.flow_label.is_none_or(|label| flow.src.is_ipv6() && flow.flow_label == label)
    }
}

fn port_matches(ranges: &[PortRange], port: u16) -> bool {
    ranges.is_empty() || ranges.iter().any(|range| (range.first..=range.last).contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> FlowSelector {
        FlowSelector {
            src: "10.45.0.2".parse().unwrap(),
            dst: "1.1.1.1".parse().unwrap(),
            protocol: 17,
            src_port: 4000,
            dst_port: 53,
            tos: 0,
            spi: None,
            flow_label: 0,
        }
    }

    #[test]
    fn uplink_matches_the_far_side_against_the_destination() {
        let filter = PacketFilter {
            protocol: Some(17),
            remote: AddrMatch::V4("1.1.1.0/24".parse().unwrap()),
            remote_ports: vec![PortRange { first: 53, last: 53 }],
            ..PacketFilter::ANY
        };
        assert!(filter.matches(Direction::Uplink, &flow()));
        assert!(!filter.matches(Direction::Downlink, &flow()));
    }

    #[test]
    fn flow_label_of_zero_matches_ipv6_only() {
        let filter = PacketFilter { flow_label: Some(0), ..PacketFilter::ANY };
        assert!(!filter.matches(Direction::Uplink, &flow()));
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        assert!(filter.matches(Direction::Uplink, &FlowSelector { src, dst, ..flow() }));
    }

    #[test]
    fn filter_of_one_family_does_not_match_the_other() {
        let filter =
            PacketFilter { remote: AddrMatch::V6("::/0".parse().unwrap()), ..PacketFilter::ANY };
        assert!(!filter.matches(Direction::Uplink, &flow()));
    }
}
