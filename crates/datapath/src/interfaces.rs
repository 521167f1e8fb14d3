//! Logical interfaces as the packet path needs them: maps (port, VLAN) to a receive link, and an
//! interface to its transmit link.
//!
//! Built from the tables' interfaces, and built again when interfaces are added there. A link has
//! the interfaces of one port and one VLAN: usually one; two if N6 and a GTP-U interface share it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::rule::ue_ipv6_key;
use adit_tables::{Interface, TablesView};
use adit_types::{DomainId, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, PortId, VlanId};
use adit_wire::ethernet::{EthernetHeader, link_len};
use adit_wire::{GPduPattern, GPduV6Pattern, IpPattern, UsualIp, UsualOuter, UsualOuterV6};

/// The interfaces that share one port and VLAN.
#[derive(Debug)]
pub(crate) struct VlanLink {
    /// The VLAN, or untagged.
    pub vlan: VlanId,
    /// Destination address of frames to us.
    pub mac: MacAddr,
    /// The interfaces, in configuration order; never empty.
    pub interfaces: Vec<Interface>,
    /// The N6 interface of this link, if there is one.
    pub n6: Option<InterfaceId>,
}

impl VlanLink {
    /// Returns the interface that owns `addr`.
    #[inline]
    pub(crate) fn owner(&self, addr: IpAddr) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.owns(addr))
    }

    /// Returns the interface whose subnet contains `addr`, as an address other than its own.
    pub(crate) fn interface_of_neighbor(&self, addr: IpAddr) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.is_neighbor(addr))
    }

    /// Returns the routing domain of the link's data network; the first domain without one.
    #[inline]
    pub(crate) fn domain(&self) -> DomainId {
        let network = self.interfaces.iter().find(|interface| Some(interface.id) == self.n6);
        network.map_or(DomainId(0), |interface| interface.domain)
    }

    /// Returns the interface that counts frames to none of our addresses.
    #[inline]
    pub(crate) fn first(&self) -> Option<InterfaceId> {
        self.interfaces.first().map(|interface| interface.id)
    }
}

/// The position of a link in [`Interfaces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkId {
    port: PortId,
    position: u8,
}

impl LinkId {
    /// Returns the port of the link.
    pub(crate) const fn port(self) -> PortId {
        self.port
    }
}

/// The links of one port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortLinks<'a> {
    port: PortId,
    links: &'a [VlanLink],
}

impl<'a> PortLinks<'a> {
    /// Returns the link of `vlan` and its id.
    ///
    /// Cost: a scan over the VLANs of one port, of which there are few.
    #[inline]
    pub(crate) fn find(self, vlan: VlanId) -> Option<(LinkId, &'a VlanLink)> {
        let at = self.links.iter().position(|link| link.vlan == vlan)?;
        let position = u8::try_from(at).ok()?;
        Some((LinkId { port: self.port, position }, &self.links[at]))
    }
}

/// The fields of a link that frames are compared with to recognize usual packets.
#[derive(Debug)]
pub(crate) struct UsualLink {
    /// The VLAN, or untagged.
    pub vlan: VlanId,
    /// The first GTP-U interface with an IPv4 address, over which most G-PDUs arrive.
    pub n3: Option<UsualN3<Ipv4Addr, GPduPattern>>,
    /// The first GTP-U interface with an IPv6 address.
    pub n3_v6: Option<UsualN3<Ipv6Addr, GPduV6Pattern>>,
    /// The N6 interface.
    pub n6: Option<(InterfaceId, IpPattern)>,
    /// True if SYNs from that data network take the stages, which may lower their MSS.
    pub keeps_syns: bool,
    /// The routing domain of that data network.
    pub domain: DomainId,
    /// Our addresses (family, and the whole IPv4 address or the upper half of an IPv6 address) if
    /// the link has both N6 and a GTP-U interface; else empty. A packet to one of these addresses
    /// that is no usual G-PDU may be an unusual G-PDU.
    own: Vec<(bool, u64)>,
}

impl UsualLink {
    /// True if the link's frames have no tag.
    #[inline]
    pub(crate) fn is_untagged(&self) -> bool {
        self.vlan == VlanId::UNTAGGED
    }

    /// True if `ip` may be the outer header of a tunnel packet: it has an address of ours.
    #[inline]
    pub(crate) fn is_own(&self, ip: &UsualIp) -> bool {
        !self.own.is_empty() && self.own.contains(&(ip.is_v6, ip.dst))
    }
}

/// The links of a port, for the recognition of usual packets.
#[derive(Debug)]
pub(crate) struct UsualPort {
    /// The links; never empty if frames arrive on the port.
    pub links: Vec<UsualLink>,
    /// The routing domain of all data networks behind the port; `None` if these have several.
    pub domain: Option<DomainId>,
}

impl UsualPort {
    fn new(links: &[VlanLink]) -> Self {
        let links: Vec<UsualLink> = links.iter().map(usual_link).collect();
        let mut domains = links.iter().filter(|link| link.n6.is_some()).map(|link| link.domain);
        let first = domains.next().unwrap_or_default();
        let domain = domains.all(|domain| domain == first).then_some(first);
        Self { links, domain }
    }
}

/// The interface on which usual G-PDUs of one IP version arrive.
#[derive(Debug)]
pub(crate) struct UsualN3<A, P> {
    pub id: InterfaceId,
    /// Our address there.
    pub addr: A,
    /// The octets that all usual G-PDUs to the address have in common.
    pub pattern: P,
}

/// Where a frame leaves: the port, and the interface that counts the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TxTarget {
    pub port: PortId,
    pub interface: InterfaceId,
}

impl TxTarget {
    /// Returns the target of frames through `interface`.
    #[inline]
    pub(crate) const fn of(interface: &Interface) -> Self {
        Self { port: interface.port, interface: interface.id }
    }
}

/// Fields that all frames through an interface share.
#[derive(Debug)]
pub(crate) struct TxLink {
    pub id: InterfaceId,
    pub port: PortId,
    /// The VLAN, or untagged.
    pub vlan: VlanId,
    /// Source address of frames.
    pub mac: MacAddr,
    /// Maximum length of an IP packet that leaves here by a fast rule. Unit: octets.
    pub mtu_bytes: u16,
    /// True if SYNs that leave here take the stages, which may lower their MSS.
    pub keeps_syns: bool,
    /// Template of outer headers over IPv4; `None` if the interface has no IPv4 address.
    pub outer: Option<UsualOuter>,
    /// True if outer IPv4 headers have DF set.
    pub outer_df: bool,
    /// Template of outer headers over IPv6; `None` if the interface has no IPv6 address.
    pub outer_v6: Option<UsualOuterV6>,
}

impl TxLink {
    #[inline]
    pub(crate) const fn target(&self) -> TxTarget {
        TxTarget { port: self.port, interface: self.id }
    }

    /// Returns the length of the VLAN tag of the link's frames. Unit: octets.
    #[inline]
    pub(crate) const fn tag_len(&self) -> usize {
        link_len(self.vlan) - EthernetHeader::LEN
    }
}

/// All interfaces, by port and VLAN and by identifier.
#[derive(Debug)]
pub(crate) struct Interfaces {
    ports: Vec<Vec<VlanLink>>,
    usual: Vec<UsualPort>,
    have_tags: bool,
    have_tcp_mss: bool,
    by_id: Vec<Interface>,
    tx_links: Vec<TxLink>,
    /// The smallest MTU of the paths to GTP-U peers. Unit: octets.
    tunnel_mtu: u16,
}

impl Interfaces {
    /// Builds all links from `interfaces`, whose ids are their positions.
    pub(crate) fn new(interfaces: &[Interface]) -> Self {
        let mut all = Self {
            ports: Vec::new(),
            usual: Vec::new(),
            by_id: interfaces.to_vec(),
            tx_links: interfaces.iter().map(|of| tx_link_of(of, u16::MAX)).collect(),
            tunnel_mtu: u16::MAX,
            have_tags: interfaces.iter().any(|of| of.vlan != VlanId::UNTAGGED || !of.outer_df),
            have_tcp_mss: interfaces.iter().any(|interface| interface.tcp_mss.is_on()),
        };
        for interface in interfaces {
            all.link(*interface);
        }
        all.usual = all.ports.iter().map(|links| UsualPort::new(links)).collect();
        all
    }

    /// Takes over interfaces that were added to the tables, and the smallest MTU of the paths to
    /// GTP-U peers, which limits the transmit links of tunnels. Ports and positions of links stay.
    ///
    /// Cost: two comparisons; allocates if interfaces were added since the last call.
    #[inline]
    pub(crate) fn update_from(&mut self, view: &TablesView<'_>) {
        let (interfaces, tunnel_mtu) = (view.interfaces(), view.gtpu_peers().narrowest_path());
        if interfaces.len() != self.by_id.len() {
            self.replace(interfaces);
        }
        if tunnel_mtu != self.tunnel_mtu {
            self.limit_tunnel_mtu(tunnel_mtu);
        }
    }

    #[cold]
    fn limit_tunnel_mtu(&mut self, mtu_bytes: u16) {
        self.tunnel_mtu = mtu_bytes;
        for (link, interface) in self.tx_links.iter_mut().zip(&self.by_id) {
            *link = tx_link_of(interface, mtu_bytes);
        }
    }

    #[cold]
    fn replace(&mut self, interfaces: &[Interface]) {
        *self = Self::new(interfaces);
    }

    fn link(&mut self, interface: Interface) {
        let port = usize::from(interface.port.0);
        if self.ports.len() <= port {
            self.ports.resize_with(port + 1, Vec::new);
        }
        let n6 = (interface.role == InterfaceRole::N6).then_some(interface.id);
        let links = &mut self.ports[port];
        match links.iter_mut().find(|link| link.vlan == interface.vlan) {
            Some(link) => {
                link.n6 = link.n6.or(n6);
                link.interfaces.push(interface);
            }
            None => links.push(VlanLink {
                vlan: interface.vlan,
                mac: interface.mac,
                interfaces: vec![interface],
                n6,
            }),
        }
    }

    /// Returns one more than the highest port in use.
    pub(crate) fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Returns the links of `port`.
    pub(crate) fn of_port(&self, port: PortId) -> PortLinks<'_> {
        let links = self.ports.get(usize::from(port.0)).map_or(&[][..], Vec::as_slice);
        PortLinks { port, links }
    }

    /// True if frames through any interface have a tag, or outer headers without DF: both are rare
    /// and cost the fast path, so it is compiled without them, too.
    #[inline]
    pub(crate) fn have_tags(&self) -> bool {
        self.have_tags
    }

    /// True if any data network has a setting for the MSS of TCP.
    #[inline]
    pub(crate) fn have_tcp_mss(&self) -> bool {
        self.have_tcp_mss
    }

    /// Returns the fields that frames on `port` are compared with to recognize usual packets.
    #[inline]
    pub(crate) fn usual_port(&self, port: PortId) -> Option<&UsualPort> {
        self.usual.get(usize::from(port.0))
    }

    /// Returns the link with this id.
    pub(crate) fn at(&self, id: LinkId) -> Option<&VlanLink> {
        self.ports.get(usize::from(id.port.0))?.get(usize::from(id.position))
    }

    /// Returns the interface with this id.
    #[inline]
    pub(crate) fn get(&self, id: InterfaceId) -> Option<&Interface> {
        self.by_id.get(usize::from(id.0))
    }

    /// Returns the transmit link of the interface `id`.
    #[inline]
    pub(crate) fn tx_link(&self, id: InterfaceId) -> Option<&TxLink> {
        self.tx_links.get(usize::from(id.0))
    }

    /// Returns the GTP-U interface that owns `addr`. No two GTP-U interfaces share an address.
    pub(crate) fn gtpu_owner(&self, addr: IpAddr) -> Option<&Interface> {
        self.by_id.iter().find(|interface| interface.role.is_gtpu() && interface.owns(addr))
    }

    /// Returns the source address of errors to a UE, of the family of `ue`: that of the first N6
    /// interface in `within` that has one.
    pub(crate) fn n6_source_addr(&self, within: InterfaceSet, ue: IpAddr) -> Option<IpAddr> {
        let mut n6 = self.by_id.iter().filter(|interface| {
            interface.role == InterfaceRole::N6 && within.contains(interface.id)
        });
        n6.find_map(|interface| source_addr(interface, ue))
    }
}

fn usual_link(link: &VlanLink) -> UsualLink {
    let VlanLink { vlan, mac, .. } = *link;
    let gtpu = || link.interfaces.iter().filter(|interface| interface.role.is_gtpu());
    let n3 = gtpu().find_map(|interface| {
        let (addr, _) = interface.v4?;
        Some(UsualN3 { id: interface.id, addr, pattern: GPduPattern::new(mac, vlan, addr) })
    });
    let n3_v6 = gtpu().find_map(|interface| {
        let (addr, _) = interface.v6?;
        Some(UsualN3 { id: interface.id, addr, pattern: GPduV6Pattern::new(mac, vlan, addr) })
    });
    let n6 = link.n6.map(|id| (id, IpPattern::new(mac, vlan)));
    let addrs = |interface: &Interface| {
        let v4 = interface.v4.map(|(addr, _)| (false, u64::from(addr.to_bits())));
        let v6 = interface.v6.map(|(addr, _)| (true, ue_ipv6_key(addr)));
        v4.into_iter().chain(v6)
    };
    let own = match (n3.is_some() || n3_v6.is_some(), &n6) {
        (true, Some(_)) => link.interfaces.iter().flat_map(addrs).collect(),
        _ => Vec::new(),
    };
    let of_n6 = link.interfaces.iter().find(|interface| Some(interface.id) == link.n6);
    let keeps_syns = of_n6.is_some_and(|interface| interface.tcp_mss.is_on());
    UsualLink { vlan, n3, n3_v6, n6, keeps_syns, domain: link.domain(), own }
}

/// `tunnel_mtu` limits packets into tunnels in addition to the interface's MTU.
fn tx_link_of(interface: &Interface, tunnel_mtu: u16) -> TxLink {
    let Interface { id, port, vlan, mac, mtu_bytes, v4, v6, .. } = *interface;
    let limit = if interface.role.is_gtpu() { tunnel_mtu } else { u16::MAX };
    let mtu_bytes = mtu_bytes.min(limit);
    let outer = v4.map(|(addr, _)| UsualOuter::new(addr));
    let outer_v6 = v6.map(|(addr, _)| UsualOuterV6::new(addr));
    let keeps_syns = interface.tcp_mss.is_on();
    TxLink {
        id,
        port,
        vlan,
        mac,
        mtu_bytes,
        keeps_syns,
        outer,
        outer_df: interface.outer_df,
        outer_v6,
    }
}

/// Returns the address of `interface` of the same IP version as `family`.
#[inline]
pub(crate) fn source_addr(interface: &Interface, family: IpAddr) -> Option<IpAddr> {
    match family {
        IpAddr::V4(_) => interface.v4.map(|(addr, _)| IpAddr::V4(addr)),
        IpAddr::V6(_) => interface.v6.map(|(addr, _)| IpAddr::V6(addr)),
    }
}
