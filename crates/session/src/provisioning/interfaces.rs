//! The interfaces of ours that a rule may use.

use core::net::IpAddr;

use adit_rules::DestinationInterface;
use adit_types::{InterfaceId, InterfaceRole, InterfaceSet, IpPrefix};

use super::Provisioning;
use super::local_interface::{DomainSet, GtpuSide, LocalAddresses, LocalInterface};
use crate::record::{Forwarding, InterfaceType, LocalFTeid};

impl Provisioning {
    /// Returns the interfaces of a network instance; all interfaces if there is no name.
    /// Spec: TS 29.244 §8.2.4.
    pub(crate) fn interfaces_of(&self, network_instance: Option<&str>) -> InterfaceSet {
        match network_instance.filter(|_| !self.interfaces.is_empty()) {
            Some(name) => self.set_of(|interface| interface.serves(name)),
            None => InterfaceSet::ALL,
        }
    }

    /// True if an N6 interface serves the network instance.
    pub(crate) fn serves_network_instance(&self, network_instance: &str) -> bool {
        let fits = |known: &LocalInterface| {
            known.role == InterfaceRole::N6 && known.serves(network_instance)
        };
        self.interfaces.is_empty() || self.interfaces.iter().any(fits)
    }

    /// Returns the routing domains of a network instance: those of the N6 interfaces that serve it.
    /// If there is no name, all domains except those that rules must name.
    pub(crate) fn domains_of(&self, network_instance: Option<&str>) -> DomainSet {
        let networks = self.interfaces.iter().filter(|known| known.role == InterfaceRole::N6);
        let serving = networks.filter(|known| match network_instance {
            Some(name) => known.serves(name),
            None => !known.only_by_name,
        });
        serving.fold(DomainSet::NONE, |set, known| set.with(known.domain)).or(DomainSet::FIRST)
    }

    /// Returns the GTP-U interfaces for tunnels of one side.
    ///
    /// These are the interfaces that serve the network instance, narrowed step by step; a step that
    /// would leave none is skipped. The steps keep those that lead to the tunnel's far end; those
    /// with the role that the 3GPP Interface Type names; those with the name of the network
    /// instance; those whose route to the far end has the longest prefix; and those with the role
    /// of the side, N3 for Access, N9 for Core. Only the CP function uses N4-u interfaces; if there
    /// are none, it uses those of the user plane, N3 first.
    pub(crate) fn tunnel_interfaces(&self, side: GtpuSide<'_>) -> InterfaceSet {
        let GtpuSide { role, reference, network_instance, peer } = side;
        let of_role = |wanted| self.set_of(|interface| interface.role == wanted);
        let keep = |left: InterfaceSet, wanted| match left.intersection(wanted) {
            none if none.is_empty() => left,
            some => some,
        };
        let serving = self.set_of(|interface| {
            interface.role.is_gtpu() && network_instance.is_none_or(|name| interface.serves(name))
        });
        let leading = |left| peer.map_or(left, |peer| self.tunnel_routes.towards(left, peer));
        if role == InterfaceRole::N4u {
            let left = keep(serving, leading(serving));
            return keep(keep(left, of_role(InterfaceRole::N4u)), of_role(InterfaceRole::N3));
        }
        let user = of_role(InterfaceRole::N3).union(of_role(InterfaceRole::N9));
        let left = serving.intersection(user);
        let left = keep(left, leading(left));
        let left = keep(left, reference.and_then(InterfaceType::role).map_or(left, of_role));
        let named =
            self.set_of(|interface| network_instance.is_some_and(|name| interface.is_named(name)));
        let left = keep(left, named);
        let left = peer.map_or(left, |peer| self.tunnel_routes.closest(left, peer));
        keep(left, of_role(role))
    }

    /// Returns the network instance that forwarding with `parts` uses: that of its forwarding
    /// policy, or else the one that `parts` names.
    pub(crate) fn network_instance_of<'a>(&'a self, parts: &'a Forwarding) -> Option<&'a str> {
        let policy = parts.policy.as_deref().and_then(|id| self.policy(id));
        policy
            .and_then(|policy| policy.network_instance.as_deref())
            .or(parts.network_instance.as_deref())
    }

    /// Returns the interfaces that forwarding with `parts` uses: those of its network instance, and
    /// for a tunnel those of its side that lead to the far end.
    pub(crate) fn forwarding_interfaces(&self, parts: &Forwarding) -> InterfaceSet {
        let Forwarding { destination, interface_type, .. } = *parts;
        let network_instance = self.network_instance_of(parts);
        match parts.tunnel() {
            Some(tunnel) => self.tunnel_interfaces(
                GtpuSide::of_destination(destination, interface_type, network_instance)
                    .towards(tunnel.addr),
            ),
            None => self.interfaces_of(network_instance),
        }
    }

    /// Returns the N6 interfaces on which packets between UEs are switched locally if they are
    /// forwarded with `parts`. The forwarding policy decides, or else each interface.
    pub(crate) fn switched_interfaces(&self, parts: &Forwarding) -> InterfaceSet {
        if parts.outer_header_creation.is_some() || !parts.leads_to_a_data_network() {
            return InterfaceSet::NONE;
        }
        let policy = parts.policy.as_deref().and_then(|id| self.policy(id));
        let by_policy = policy.and_then(|policy| policy.local_switching);
        self.set_of(|known| {
            known.role == InterfaceRole::N6 && by_policy.unwrap_or(known.local_switching)
        })
    }

    /// Returns all interfaces except N6 interfaces outside `domains`.
    pub(crate) fn interfaces_in(&self, domains: DomainSet) -> InterfaceSet {
        let is_other = |known: &LocalInterface| {
            known.role == InterfaceRole::N6 && !domains.contains(known.domain)
        };
        match self.interfaces.is_empty() {
            false => self.set_of(|known| !is_other(known)),
            true => InterfaceSet::ALL,
        }
    }

    /// Returns the first address of each family on the interfaces `within`.
    pub(crate) fn addresses_on(&self, within: InterfaceSet) -> LocalAddresses {
        let mut found = LocalAddresses::default();
        for (_, interface) in self.gtpu().filter(|(id, _)| within.contains(*id)) {
            found.v4 = found.v4.or(interface.addresses.v4);
            found.v6 = found.v6.or(interface.addresses.v6);
        }
        found
    }

    /// Returns the interfaces of `within` that have an address of a requested family.
    pub(crate) fn with_address(&self, within: InterfaceSet, v4: bool, v6: bool) -> InterfaceSet {
        let has_one = |known: &LocalInterface| {
            v4 && known.addresses.v4.is_some() || v6 && known.addresses.v6.is_some()
        };
        within.intersection(self.set_of(has_one))
    }

    /// True if a tunnel to `peer` can leave towards `destination`; if `destination` is `None`,
    /// through any GTP-U interface.
    #[must_use]
    pub fn can_send_to(
        &self,
        peer: IpAddr,
        destination: Option<DestinationInterface>,
        reference: Option<InterfaceType>,
        network_instance: Option<&str>,
    ) -> bool {
        let within = destination.map_or(InterfaceSet::ALL, |destination| {
            let side = GtpuSide::of_destination(destination, reference, network_instance);
            self.tunnel_interfaces(side.towards(peer))
        });
        self.addresses_on(within).has_family_of(peer) && self.leads_to(within, peer)
    }

    /// True if one of the GTP-U interfaces `within` leads to `peer`, which is not our own.
    pub(crate) fn leads_to(&self, within: InterfaceSet, peer: IpAddr) -> bool {
        !self.is_own_gtpu_address(peer) && !self.tunnel_routes.towards(within, peer).is_empty()
    }

    /// Returns the N9 interfaces.
    pub(crate) fn n9_interfaces(&self) -> InterfaceSet {
        self.set_of(|interface| interface.role == InterfaceRole::N9)
    }

    /// True unless all interfaces are GTP-U interfaces.
    pub(crate) fn has_data_network(&self) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|known| !known.role.is_gtpu())
    }

    /// True if `addr` is our own address on a GTP-U interface.
    pub(crate) fn is_own_gtpu_address(&self, addr: IpAddr) -> bool {
        self.gtpu().any(|(_, interface)| interface.addresses.contains(addr))
    }

    /// True if `prefix` contains our own address on a GTP-U interface.
    pub(crate) fn has_address_in(&self, prefix: IpPrefix) -> bool {
        self.gtpu().any(|(_, LocalInterface { addresses, .. })| match prefix {
            IpPrefix::V4(prefix) => addresses.v4.is_some_and(|own| prefix.contains(own)),
            IpPrefix::V6(prefix) => addresses.v6.is_some_and(|own| prefix.contains(own)),
        })
    }

    /// True if `addr` is our own address on a GTP-U interface. If any GTP-U interfaces serve the
    /// network instance, it must be one of these.
    pub(crate) fn is_tunnel_end(&self, addr: IpAddr, network_instance: Option<&str>) -> bool {
        let serves =
            |interface: &LocalInterface| network_instance.is_none_or(|name| interface.serves(name));
        let is_served = self.gtpu().any(|(_, interface)| serves(interface));
        self.gtpu().any(|(_, interface)| {
            interface.addresses.contains(addr) && (serves(interface) || !is_served)
        })
    }

    /// Returns the GTP-U interfaces that have an address of the F-TEID.
    pub(crate) fn owners(&self, f_teid: &LocalFTeid) -> InterfaceSet {
        let v4 = f_teid.v4.map(IpAddr::V4);
        let v6 = f_teid.v6.map(IpAddr::V6);
        self.set_of(|interface| {
            let mut addrs = v4.into_iter().chain(v6);
            interface.role.is_gtpu() && addrs.any(|addr| interface.addresses.contains(addr))
        })
    }

    fn gtpu(&self) -> impl Iterator<Item = (InterfaceId, &LocalInterface)> {
        let all = (0..).map(InterfaceId).zip(&self.interfaces);
        all.filter(|(_, interface)| interface.role.is_gtpu())
    }

    fn set_of(&self, fits: impl Fn(&LocalInterface) -> bool) -> InterfaceSet {
        let all = (0..).map(InterfaceId).zip(&self.interfaces);
        let fitting = all.filter(|(_, interface)| fits(interface));
        fitting.map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use adit_rules::SourceInterface;

    use super::*;

    fn interface(role: InterfaceRole, name: Option<&str>, last: u8) -> LocalInterface {
        let v4 = Some(Ipv4Addr::new(192, 0, 2, last));
        LocalInterface {
            network_instance: name.map(Box::from),
            ..LocalInterface::of_role(role, LocalAddresses { v4, v6: None })
        }
    }

    fn provisioning(interfaces: Vec<LocalInterface>) -> Provisioning {
        Provisioning { interfaces, ..Provisioning::default() }
    }

    #[test]
    fn network_instance_selects_its_interfaces_and_the_unnamed_ones() {
        let known = provisioning(vec![
            interface(InterfaceRole::N3, None, 1),
            interface(InterfaceRole::N6, Some("internet"), 2),
            interface(InterfaceRole::N6, Some("ims"), 3),
        ]);
        assert_eq!(known.interfaces_of(Some("Internet")), InterfaceSet(0b011));
        assert_eq!(known.interfaces_of(Some("ims")), InterfaceSet(0b101));
        assert_eq!(known.interfaces_of(None), InterfaceSet::ALL);
        assert_eq!(Provisioning::default().interfaces_of(Some("x")), InterfaceSet::ALL);
        assert!(known.serves_network_instance("ims") && !known.serves_network_instance("x"));
    }

    #[test]
    fn tunnels_of_each_side_have_the_interfaces_of_their_role_and_name() {
        use InterfaceRole::{N3, N4u, N6, N9};
        let known = provisioning(vec![
            interface(N3, None, 1),
            interface(N3, Some("slice2"), 2),
            interface(N9, Some("backbone"), 3),
            interface(N9, None, 4),
            interface(N4u, None, 5),
            interface(N6, Some("internet"), 6),
        ]);
        let of = |source, reference: Option<u8>, name| {
            let side = GtpuSide::of_source(source, reference.map(InterfaceType), name);
            known.tunnel_interfaces(side).0
        };
        use SourceInterface::{Access, Core, CpFunction};
        let cases = [
            (Access, None, None, 0b00_0011),
            (Access, None, Some("Slice2"), 0b00_0010),
            (Access, None, Some("other"), 0b00_0001),
            (Access, None, Some("backbone"), 0b00_0100),
            // The 3GPP Interface Type selects N9, then N3.
            (Access, Some(15), None, 0b00_1100),
            (Access, Some(11), Some("backbone"), 0b00_0001),
            (Core, None, None, 0b00_1100),
            (Core, None, Some("backbone"), 0b00_0100),
            (Core, None, Some("other"), 0b00_1000),
            (CpFunction, None, None, 0b01_0000),
            (CpFunction, None, Some("internet"), 0b01_0000),
        ];
        for (source, reference, name, wanted) in cases {
            assert_eq!(of(source, reference, name), wanted, "{source:?} {reference:?} {name:?}");
        }
    }

    #[test]
    fn without_interfaces_of_its_own_a_side_has_those_of_n3() {
        let known = provisioning(vec![interface(InterfaceRole::N3, None, 1)]);
        for source in [SourceInterface::Access, SourceInterface::Core, SourceInterface::CpFunction]
        {
            let side = GtpuSide::of_source(source, None, Some("x"));
            assert_eq!(known.tunnel_interfaces(side), InterfaceSet(1), "{source:?}");
        }
    }
}
