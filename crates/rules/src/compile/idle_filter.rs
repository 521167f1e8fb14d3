//! SDF filters that exclude nothing.
//!
//! Control planes put "permit out ip from any to assigned" into every session. It matches all packets that meet
//! the other conditions of its PDR, so the PDR needs neither matcher nor comparison.

use adit_types::Ipv6Prefix;

use crate::rule::{PdrEntry, UeAddresses};
use crate::sdf::{AddrMatch, PacketFilter};

/// True if `pdr` has SDF filters and one of them matches every packet that meets its other conditions. Not for
/// filters that have a matcher of their own.
#[must_use]
pub fn has_idle_filters(pdr: &PdrEntry) -> bool {
    let ue = if pdr.ue_networks.is_empty() { pdr.ue } else { UeAddresses::default() };
    !pdr.sdf.is_compiled() && pdr.sdf.iter().any(|filter| matches_all_of(filter, &ue))
}

/// True if `filter` matches every packet whose address on the UE's side is one of `ue`, or any address if `ue`
/// is empty.
fn matches_all_of(filter: &PacketFilter, ue: &UeAddresses) -> bool {
    // Lists every field, so that a new one has to be decided on here.
    let PacketFilter { protocol, remote, remote_ports, local, local_ports, tos, spi, flow_label } =
        filter;
    let (only_v4, only_v6) = match (ue.v4, ue.v6) {
        (Some(addr), None) => (Some(addr), None),
        (None, Some(prefix)) => (None, Some(prefix)),
        _ => (None, None),
    };
    let is_any = match remote {
        AddrMatch::Any => true,
        AddrMatch::V4(prefix) => prefix.len() == 0 && only_v4.is_some(),
        AddrMatch::V6(prefix) => prefix.len() == 0 && only_v6.is_some(),
    };
    let contains_ue = match local {
        AddrMatch::Any => true,
        AddrMatch::V4(prefix) => only_v4.is_some_and(|addr| prefix.contains(addr)),
        AddrMatch::V6(prefix) => {
            let contains = |ue: Ipv6Prefix| prefix.len() <= ue.len() && prefix.contains(ue.addr());
            only_v6.is_some_and(contains)
        }
    };
    is_any
        && contains_ue
        && protocol.is_none()
        && remote_ports.is_empty()
        && local_ports.is_empty()
        && tos.is_none_or(|(_, mask)| mask == 0)
        && spi.is_none()
        && flow_label.is_none()
}

#[cfg(test)]
mod tests {
    use crate::sdf::PortRange;

    use super::*;

    #[test]
    fn filter_of_the_ue_alone_matches_all_its_packets() {
        let v4 = UeAddresses { v4: Some("10.45.0.2".parse().unwrap()), v6: None };
        let v6 = UeAddresses { v4: None, v6: Some("2001:db8::/64".parse().unwrap()) };
        let both = UeAddresses { v4: v4.v4, v6: v6.v6 };
        let any = UeAddresses::default();
        let local = |text: &str| match text.parse() {
            Ok(prefix) => PacketFilter { local: AddrMatch::V4(prefix), ..PacketFilter::ANY },
            Err(_) => {
                let prefix = text.parse().unwrap();
                PacketFilter { local: AddrMatch::V6(prefix), ..PacketFilter::ANY }
            }
        };
        let all = |filter: PacketFilter| [v4, v6, both, any].map(|ue| matches_all_of(&filter, &ue));
        assert_eq!(all(PacketFilter::ANY), [true; 4]);
        assert_eq!(all(local("10.45.0.0/16")), [true, false, false, false]);
        assert_eq!(all(local("10.46.0.0/16")), [false; 4]);
        assert_eq!(all(local("2001:db8::/48")), [false, true, false, false]);
        assert_eq!(all(local("2001:db8::1/128")), [false; 4], "one address of many");
        let remote = AddrMatch::V4("0.0.0.0/0".parse().unwrap());
        let of_v4 = PacketFilter { remote, ..PacketFilter::ANY };
        assert_eq!(all(of_v4), [true, false, false, false]);
        let narrow = [
            PacketFilter { protocol: Some(6), ..PacketFilter::ANY },
            PacketFilter { tos: Some((0, 1)), ..PacketFilter::ANY },
            PacketFilter { spi: Some(0), ..PacketFilter::ANY },
            PacketFilter { flow_label: Some(0), ..PacketFilter::ANY },
            PacketFilter {
                local_ports: vec![PortRange { first: 1, last: 2 }],
                ..PacketFilter::ANY
            },
            PacketFilter {
                remote_ports: vec![PortRange { first: 1, last: 2 }],
                ..PacketFilter::ANY
            },
            PacketFilter {
                remote: AddrMatch::V4("1.1.1.0/24".parse().unwrap()),
                ..PacketFilter::ANY
            },
        ];
        assert!(narrow.into_iter().all(|filter| all(filter) == [false; 4]));
        assert_eq!(all(PacketFilter { tos: Some((7, 0)), ..PacketFilter::ANY }), [true; 4]);
    }
}
