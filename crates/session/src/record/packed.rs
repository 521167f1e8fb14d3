//! Implements packing for types of records that are declared elsewhere. For SDF filters see `sdf`.

use adit_rules::{
    ApplyAction, DestinationInterface, Gate, GtpuTunnel, HeaderCreation, HeaderRemoval,
    PacketLimit, PacketQuota, PoolMembers, Redirect, SourceInterface, UeAddresses, UsageCounts,
};

use super::{InterfaceType, TrafficEndpointId, UeSide, UsageTriggers};
use crate::pack::{Pack, packed, packed_as, packed_enum};

packed!(UeAddresses { v4, v6 });
packed!(GtpuTunnel { teid, addr });
packed!(PacketLimit { plain, additional });
packed!(PacketQuota { pkts_max, unit });
packed!(UsageCounts {
    ul_bytes,
    dl_bytes,
    ul_pkts,
    dl_pkts,
    dropped_dl_bytes,
    dropped_dl_pkts,
    first,
    last,
});
packed!(PoolMembers { of, base_bytes });

packed_enum!(SourceInterface { Access, Core, SgiLanN6Lan, CpFunction });
packed_enum!(DestinationInterface { Access, Core, SgiLanN6Lan, CpFunction, LiFunction });
packed_enum!(HeaderRemoval { GtpuUdpIpv4, GtpuUdpIpv6, UdpIpv4, UdpIpv6, Ipv4, Ipv6, GtpuUdpIp });
packed_enum!(UeSide { Source, Destination });
packed_enum!(Gate { Open, Closed });

packed_as! {
    InterfaceType as u8: |of: &Self| of.0, |value| Some(Self(value));
    TrafficEndpointId as u8: |of: &Self| of.0, |value| Some(Self(value));
    ApplyAction as u16: |of: &Self| of.bits(), |bits| Some(Self::from_bits_retain(bits));
    UsageTriggers as u32: |of: &Self| of.bits(), |bits| Some(Self::from_bits_retain(bits));
}

/// There is no absent value, because every field of this type is optional.
impl Pack for HeaderCreation {
    fn absent() -> Self {
        Self::Ip { addr: Pack::absent() }
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Self::Gtpu(tunnel) => {
                out.push(0);
                tunnel.pack(out);
            }
            Self::Udp { addr, port } => {
                out.push(1);
                addr.pack(out);
                port.pack(out);
            }
            Self::Ip { addr } => {
                out.push(2);
                addr.pack(out);
            }
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        match u8::unpack(from)? {
            0 => Pack::unpack(from).map(Self::Gtpu),
            1 => Some(Self::Udp { addr: Pack::unpack(from)?, port: Pack::unpack(from)? }),
            _ => Some(Self::Ip { addr: Pack::unpack(from)? }),
        }
    }
}

packed! {
    /// The fields of [`Redirect::Address`].
    #[derive(PartialEq)]
    struct RedirectAddress {
        v4: Option<core::net::Ipv4Addr>,
        v6: Option<core::net::Ipv6Addr>,
        port: Option<u16>,
    }
}

/// There is no absent value, because every field of this type is optional.
impl Pack for Redirect {
    fn absent() -> Self {
        Self::Url(Box::from(""))
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Self::Url(url) => {
                out.push(0);
                url.pack(out);
            }
            &Self::Address { v4, v6, port } => {
                out.push(1);
                RedirectAddress { v4, v6, port }.pack(out);
            }
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        match u8::unpack(from)? {
            0 => Pack::unpack(from).map(Self::Url),
            _ => {
                let RedirectAddress { v4, v6, port } = Pack::unpack(from)?;
                Some(Self::Address { v4, v6, port })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use adit_rules::PacketFilter;
    use adit_types::{BarId, FarId, PdrId, Precedence, QerId, Qfi, Teid, UrrId};

    use super::*;
    use crate::pack::repacked;
    use crate::record::{
        Bar, Far, Forwarding, LocalFTeid, Pdi, Pdr, PdrTimes, Qer, ReplaceablePdiParts, Sdf,
        SdfSpec, TrafficEndpoint, UeMatch, Urr,
    };

    const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

    /// Unpacks a value that an earlier version wrote, without the fields that were appended since.
    fn of_former<T: Pack>(octets: &[u8]) -> T {
        let mut rest = octets;
        let value = T::unpack(&mut rest).unwrap();
        assert!(rest.is_empty());
        value
    }

    #[test]
    fn fields_of_version_4_stay_where_they_are() {
        let marking = Qer { flow_tos: Some((0xb8, 0xfc)), service_class: Some((5, 0)), ..qer() };
        let mut octets = Vec::new();
        marking.pack(&mut octets);
        assert_eq!(octets, [0x81, 0x60, 7, 0xb8, 0xfc, 5, 0], "bits 12 and 13");
    }

    fn qer() -> Qer {
        Qer { id: QerId(7), ..Qer::default() }
    }

    #[test]
    fn fields_that_a_former_record_lacks_are_absent() {
        assert_eq!(of_former::<Qer>(&[1, 7]), qer());
        let urr = Urr { id: UrrId(7), ..Urr::default() };
        assert_eq!(of_former::<Urr>(&[1, 7]), urr);
        let bar = Bar { id: BarId(7), notification_delay: 0, suggested_pkts: None };
        assert_eq!(of_former::<Bar>(&[1, 7]), bar);
        let endpoint = TrafficEndpoint { id: TrafficEndpointId(7), ..Default::default() };
        assert_eq!(of_former::<TrafficEndpoint>(&[1, 7]), endpoint);
        let far: Far = of_former(&[1, 7]);
        assert_eq!((far.id, far.bar, far.forwarding), (FarId(7), None, None));
        assert_eq!(far.duplicating, []);
        let parts: Forwarding = of_former(&[1, 1]);
        assert_eq!(parts, Forwarding::new(DestinationInterface::Core));
        let pdr: Pdr = of_former(&[0b101, 7, 1, 1]);
        assert_eq!((pdr.id, pdr.pdi.source), (PdrId(7), SourceInterface::Core));
        assert!(pdr.predefined.is_empty() && pdr.pdi.application.is_none());
    }

    #[test]
    fn forwarding_parameters_of_every_kind_come_back() {
        let outer_headers = [
            HeaderCreation::Gtpu(GtpuTunnel { teid: Teid(7), addr: V6.into() }),
            HeaderCreation::Udp { addr: Ipv4Addr::LOCALHOST.into(), port: 0 },
            HeaderCreation::Ip { addr: V6.into() },
        ];
        let redirects = [
            Redirect::Url("http://portal.example/".into()),
            Redirect::Address { v4: Some(Ipv4Addr::LOCALHOST), v6: Some(V6), port: Some(0) },
            Redirect::Address { v4: None, v6: None, port: Some(80) },
        ];
        for (outer, redirect) in outer_headers.into_iter().zip(redirects) {
            let forwarding = Forwarding {
                destination: DestinationInterface::CpFunction,
                network_instance: Some("internet".into()),
                outer_header_creation: Some(outer),
                transport_level_marking: Some(0),
                interface_type: Some(InterfaceType(0)),
                linked_endpoint: Some(TrafficEndpointId(0)),
                redirect: Some(redirect),
                policy: Some("".into()),
            };
            assert_eq!(repacked(&forwarding), forwarding);
        }
    }

    #[test]
    fn pdrs_with_each_part_come_back() {
        let f_teid = LocalFTeid { teid: Teid(1), v4: Some(Ipv4Addr::LOCALHOST), v6: Some(V6) };
        let v6 = "2001:db8:0:1::/64".parse().unwrap();
        let addresses = UeAddresses { v4: Some(Ipv4Addr::LOCALHOST), v6: Some(v6) };
        let own = ReplaceablePdiParts {
            network_instance: Some("own".into()),
            qfis: vec![Qfi::new(1).unwrap()],
            interface_type: Some(InterfaceType(1)),
        };
        let pdi = Pdi {
            source: SourceInterface::CpFunction,
            interface_type: Some(InterfaceType(0)),
            traffic_endpoints: vec![TrafficEndpointId(0)],
            further: Vec::new(),
            own,
            f_teid: Some(f_teid),
            network_instance: Some("ims".into()),
            ue: Some(UeMatch { addresses, side: UeSide::Destination }),
            further_ues: vec!["10.0.0.0/8".parse().unwrap()],
            framed_routes: vec!["2001:db8::/32".parse().unwrap()],
            qfis: vec![Qfi::new(63).unwrap()],
            sdf: vec![Sdf {
                spec: SdfSpec {
                    flow_description: Some("permit out ip from any to assigned".into()),
                    tos: Some((0, 0)),
                    spi: Some(0),
                    flow_label: Some(0),
                    filter_id: Some(0),
                    bidirectional: true,
                },
                filter: PacketFilter::ANY,
            }],
            application: Some("web".into()),
        };
        let pdr = Pdr {
            id: PdrId(0xffff),
            precedence: Precedence(u32::MAX),
            pdi: Pdi { further: vec![pdi.clone()], ..pdi },
            outer_header_removal: Some(HeaderRemoval::GtpuUdpIp),
            container_deletion: true,
            far: Some(FarId(0)),
            qers: vec![QerId(0)],
            urrs: vec![UrrId(0)],
            times: PdrTimes { activation: Some(Pack::absent()), deactivation: None },
            is_active: true,
            predefined: vec!["gold".into()],
        };
        assert_eq!(repacked(&pdr), pdr);
    }
}
