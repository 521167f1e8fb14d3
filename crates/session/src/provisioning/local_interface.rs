//! Our own interfaces as rules use them, with their addresses and sides.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::{DestinationInterface, SourceInterface};
use adit_types::{DomainId, InterfaceRole};

use crate::record::{InterfaceType, Pdi};

/// Our own addresses on an interface, at most one of each family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalAddresses {
    /// The IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// The IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl LocalAddresses {
    /// True if there is an address of the family of `addr`.
    #[must_use]
    pub const fn has_family_of(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(_) => self.v4.is_some(),
            IpAddr::V6(_) => self.v6.is_some(),
        }
    }

    pub(crate) fn contains(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self.v4 == Some(addr),
            IpAddr::V6(addr) => self.v6 == Some(addr),
        }
    }
}

/// A logical interface as rules use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalInterface {
    /// The reference point that the interface serves.
    pub role: InterfaceRole,
    /// The network instance to which the interface belongs; `None` serves all network instances.
    pub network_instance: Option<Box<str>>,
    /// Our addresses; on GTP-U interfaces, those that F-TEIDs may have.
    pub addresses: LocalAddresses,
    /// The routing domain; only for N6 interfaces.
    pub domain: DomainId,
    /// True if packets from one UE to another are switched locally instead of leaving through this
    /// interface; only for N6 interfaces.
    pub local_switching: bool,
    /// True if only rules that name the network instance use the routing domain, because it was
    /// added when there were sessions; only for N6 interfaces.
    /// [`crate::SessionStore::set_provisioning`] sets it.
    pub only_by_name: bool,
}

/// A set of routing domains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DomainSet(u32);

impl DomainSet {
    pub(crate) const NONE: Self = Self(0);
    /// Only the first domain.
    pub(crate) const FIRST: Self = Self(1);

    pub(crate) const fn with(self, domain: DomainId) -> Self {
        Self(self.0 | 1_u32.wrapping_shl(domain.0 as u32))
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these domains, or `others` if there are none.
    pub(crate) const fn or(self, others: Self) -> Self {
        if self.0 == 0 { others } else { self }
    }

    pub(crate) const fn contains(self, domain: DomainId) -> bool {
        self.0 & 1_u32.wrapping_shl(domain.0 as u32) != 0
    }

    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the domains, in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = DomainId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let lowest = u8::try_from(rest.trailing_zeros()).ok().filter(|_| rest != 0)?;
            rest &= rest - 1;
            Some(DomainId(lowest))
        })
    }
}

impl LocalInterface {
    /// Makes an interface of `role` that serves every network instance.
    #[must_use]
    pub const fn of_role(role: InterfaceRole, addresses: LocalAddresses) -> Self {
        Self {
            role,
            network_instance: None,
            addresses,
            domain: DomainId(0),
            local_switching: true,
            only_by_name: false,
        }
    }

    /// True if this interface serves `network_instance`. Case is ignored, as in data network names,
    /// which network instances usually are. Spec: TS 23.003 §9A.
    pub(crate) fn serves(&self, network_instance: &str) -> bool {
        self.network_instance.is_none() || self.is_named(network_instance)
    }

    pub(crate) fn is_named(&self, network_instance: &str) -> bool {
        let own = self.network_instance.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(network_instance))
    }
}

/// The side, 3GPP Interface Type and network instance of a GTP-U tunnel, as a rule names them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GtpuSide<'a> {
    pub role: InterfaceRole,
    pub reference: Option<InterfaceType>,
    pub network_instance: Option<&'a str>,
    /// The address of the tunnel's far end, if it is known.
    pub peer: Option<IpAddr>,
}

impl<'a> GtpuSide<'a> {
    /// Returns the side from which packets of `pdi` arrive.
    pub(crate) fn of_pdi(pdi: &'a Pdi) -> Self {
        Self::of_source(pdi.source, pdi.interface_type, pdi.network_instance.as_deref())
    }

    /// Returns the side from which packets arrive. A 3GPP Interface Type that cannot be on it is
    /// ignored.
    /// INTEROP: some control planes send the type of another interface.
    /// Spec: TS 29.244 §8.2.2, §8.2.118.
    pub(crate) fn of_source(
        source: SourceInterface,
        reference: Option<InterfaceType>,
        network_instance: Option<&'a str>,
    ) -> Self {
        let role = match source {
            SourceInterface::Access => InterfaceRole::N3,
            SourceInterface::CpFunction => InterfaceRole::N4u,
            SourceInterface::Core | SourceInterface::SgiLanN6Lan => InterfaceRole::N9,
        };
        let reference = reference.filter(|of| of.fits_source(source));
        Self { role, reference, network_instance, peer: None }
    }

    /// Returns the side to which packets leave; the type of interface decides as in
    /// [`GtpuSide::of_source`].
    /// Spec: TS 29.244 §8.2.24, §8.2.118.
    pub(crate) fn of_destination(
        destination: DestinationInterface,
        reference: Option<InterfaceType>,
        network_instance: Option<&'a str>,
    ) -> Self {
        let role = match destination {
            DestinationInterface::Access => InterfaceRole::N3,
            DestinationInterface::CpFunction => InterfaceRole::N4u,
            DestinationInterface::Core
            | DestinationInterface::SgiLanN6Lan
            | DestinationInterface::LiFunction => InterfaceRole::N9,
        };
        let reference = reference.filter(|of| of.fits_destination(destination));
        Self { role, reference, network_instance, peer: None }
    }

    /// Adds the far end to which the tunnel leads.
    pub(crate) fn towards(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }
}
