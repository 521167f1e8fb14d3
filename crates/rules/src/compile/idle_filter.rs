//! SDF filters that exclude nothing.
//!
//! Control planes put "permit out ip from any to assigned" into every session. It matches all packets that meet
//! the other conditions of its PDR, so the PDR needs neither matcher nor comparison.

use super::matcher::own_prefix;
use crate::matcher::entry::of_filter;
use crate::rule::PdrEntry;
use crate::sdf::PacketFilter;

/// True if `pdr` has SDF filters and one of them matches every packet that meets its other conditions. Not for
/// filters that have a matcher of their own.
#[must_use]
pub fn has_idle_filters(pdr: &PdrEntry) -> bool {
    !pdr.sdf.is_compiled() && pdr.sdf.iter().any(|filter| matches_all_of(filter, pdr))
}

/// True if in each family of the UEs of `pdr` the filter leaves nothing to compare: its entries are those of a
/// filter that matches every packet.
fn matches_all_of(filter: &PacketFilter, pdr: &PdrEntry) -> bool {
    let any = PacketFilter::ANY;
    [false, true].into_iter().all(|is_v6| {
        let entries = |filter, own| {
            let mut entries = Vec::new();
            of_filter(filter, 0, 0, own, is_v6, &mut entries);
            entries
        };
        own_prefix(pdr, is_v6).is_none_or(|own| entries(filter, own) == entries(&any, own))
    })
}

#[cfg(test)]
mod tests {
    use adit_types::{InterfaceSet, PdrId, Precedence};

    use crate::rule::{SourceInterface, UeAddresses};
    use crate::sdf::{AddrMatch, PortRange};
    use crate::sdf_set::SdfSet;

    use super::*;

    fn pdr(ue: UeAddresses) -> PdrEntry {
        PdrEntry {
            id: PdrId(1),
            precedence: Precedence(1),
            source: SourceInterface::Access,
            interfaces: InterfaceSet::ALL,
            teid: None,
            qfis: Vec::new(),
            ue,
            ue_networks: Vec::new(),
            sdf: SdfSet::default(),
            outer_header_removal: None,
            container_deletion: false,
            far: 0,
            qers: [].into_iter().collect(),
            urrs: [].into_iter().collect(),
        }
    }

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
        let pdrs = [v4, v6, both, any].map(pdr);
        let all = |filter: PacketFilter| pdrs.each_ref().map(|pdr| matches_all_of(&filter, pdr));
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
