//! `[[interface]]` and `[[route]]`: links, routing domains and routes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_kernel::KernelDevice;
use adit_types::limits::{INTERFACES_MAX, ROUTES_MAX};
use adit_types::{DomainId, InterfaceRole, Ipv4Prefix, Ipv6Prefix, PortId, TcpMss, VlanId};

use super::comparison::{NOW, OnReload};
use super::declare::section;
use super::fields::{IpNet, NETWORK_INSTANCE, name, network_instance};
use super::kernel_twins::{
    TwinKeys, TwinOwner, TwinProtocol, TwinSettings, check_twin, netns_name, twin_name,
};
use super::keys::IntoKey as _;
use super::kinds::{Flag, integer, text, words};
use super::ports::{PortSettings, XdpMode};
use super::section::ConfigDocument;
use super::tcp_mss::TcpMssKind;
use super::{Config, check_len_max, check_unique, kernel_ports};

/// For keys of interfaces, which a reload does not change.
const FIXED: OnReload =
    OnReload::Fixed("interfaces, their addresses and network instances are set up at the start");

/// The expected form of an interface's address, for messages and documents.
const ADDRESS_FORM: &str = "an address with its prefix length such as \"10.0.3.2/24\"";

section! {
    /// Logical interfaces: a port, a VLAN if tagged, and the addresses of adit there.
    /// Tunnels of Access use n3 interfaces, tunnels of Core n9, tunnels of the CP function n4u;
    /// without such an interface they use another one with GTP-U. A 3GPP Interface Type (N3, N9),
    /// the exact network_instance in the rule and the route to the tunnel's other end take
    /// precedence: docs/interop-n9.md. Tunnels that no route leads to are refused (Cause 73). N4-u,
    /// the GTP-U between UEs and the control plane function, needs a [[route]] to the SMF's GTP-U
    /// address through an n4u or n3 interface, unless that address is on the link of the interface.
    InterfaceSection(FIXED) {
        /// Its name, by which routes refer to it.
        name: String, text("a name").check(name).required(String::new()) => ["\"n3\"", "\"n6\""];
        /// "n3" (RAN), "n9" (other UPFs and gateways) and "n4u" (user plane of the control plane
        /// function) carry GTP-U, "n6" (data networks) carries plain IP. Write at least one n3 or
        /// n9, and an n6 unless there is an n9: a UPF between others (I-UPF, SGW-U) needs none.
        role: InterfaceRole, words(&[("n3", InterfaceRole::N3), ("n9", InterfaceRole::N9),
            ("n4u", InterfaceRole::N4u), ("n6", InterfaceRole::N6)]).required(InterfaceRole::N6)
            => ["\"n3\"", "\"n6\""];
        /// The name of its port.
        port: String, text("the name of a [[port]]").required(String::new()) => ["\"access\"",
            "\"core\""];
        /// Its VLAN. 0: untagged.
        vlan: u16, integer(0..=4094).or(0) => ["", "# 6"];
        /// Its addresses with the lengths of their prefixes, at most one of each family.
        addresses: Vec<IpNet>, text(ADDRESS_FORM).list("") => ["[\"10.0.3.2/24\"]",
            "[\"10.0.6.2/24\", \"2001:db8:6::2/64\"]"];
        /// For n6. With true, packets from one UE to another UE of the same routing domain stay
        /// inside adit: they pass the rules of both sessions, as if the router on N6 had returned
        /// them. With false they leave to N6. All n6 interfaces of a routing domain need the same
        /// value. A network behind a UE (framed route) counts as that UE if its prefix is longer
        /// than every matching route.
        local_switching: bool, Flag.or(true) => ["", "# true"];
        /// For n6. The MSS that TCP connections of UEs announce in their SYNs, in both directions.
        /// "clamp": at most what fits one packet on mtu_bytes of both ports, with the headers of
        /// the tunnel; then downloads do not hang where ICMP errors about long packets are
        /// filtered. A number: at most so many octets. "off": as it is. All n6 interfaces of a
        /// routing domain need the same value.
        tcp_mss: TcpMss, TcpMssKind.or(TcpMss::Off) => ["", "# \"clamp\""];
        /// The network instance by which rules select this interface. Without it the interface
        /// serves any name. If every n6 interface has one, network instances are routing domains
        /// (VRFs): UE addresses, pools, subnets and next hops may repeat between them, and packets
        /// of one never reach UEs of another. A rule without a network instance belongs to those
        /// that other rules of its session name; if none does, it belongs to all. If an n6
        /// interface serves any name, there is a single domain.
        network_instance: Option<String>, text(NETWORK_INSTANCE).check(network_instance)
            .optional("any") => ["", "\"internet\""];
        /// The name of a TAP device that adit creates: its kernel twin, with the addresses, MTU,
        /// link-layer address and carrier of the interface. The kernel and its programs (SSH, BGP,
        /// BFD, N4 of adit itself) get what arrives for these addresses and is no GTP-U, and send
        /// through the port. ARP and neighbor discovery stay adit's. If the network namespace has
        /// no default route, one through the interface's [[route]] with prefix 0.0.0.0/0 or ::/0
        /// is added, with metric 4096; other routes are the kernel's. The device ends with adit.
        kernel: Option<String>, text("the name of a new network device").check(twin_name)
            .optional("no twin") => ["", "# \"n6\""];
        /// The named network namespace (ip netns) of the twin. Ports with net_af_packet and
        /// kernel:packet need one: the kernel of adit's own namespace gets their packets, too.
        kernel_netns: Option<String>, text("the name of a network namespace").check(netns_name)
            .optional("that of adit") => ["", "# \"routing\""];
        /// Protocols whose frames to groups on the link reach the twin as well: "ospf", "isis",
        /// "pim", "vrrp", "lacp", "lldp".
        kernel_protocols: Vec<TwinProtocol>,
            text("a protocol: \"ospf\", \"isis\", \"pim\", \"vrrp\", \"lacp\" or \"lldp\"")
            .list("none") => ["", "# [\"ospf\", \"lldp\"]"];
        /// "kernel": adit follows the routes of the kernel's main table that lead through this
        /// interface's device, as routing daemons write them: docs/routing.md. A [[route]] to the
        /// same prefix wins unless its metric is higher. "static": [[route]] alone.
        routes: RouteOrigin, words(&[("static", RouteOrigin::Static), ("kernel", RouteOrigin::Kernel)])
            .or(RouteOrigin::Static) => ["", "# \"kernel\""];
        /// Prefixes that the kernel's main table gets as routes of protocol 97 while adit serves,
        /// so that a routing daemon exports them. "pool": pools of the network instance, networks
        /// behind its UEs (framed routes), and addresses of adit without a link (/32, /128).
        /// "session": the address of each UE instead of the pools. "none": nothing.
        announce: AnnounceMode, words(&[("none", AnnounceMode::None), ("pool", AnnounceMode::Pool),
            ("session", AnnounceMode::Session)]).or(AnnounceMode::None) => ["", "# \"pool\""];
    }
}

/// Where the routes through an interface come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteOrigin {
    /// The file alone.
    Static,
    /// The kernel, and the file.
    Kernel,
}

/// Which prefixes the kernel gets as routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnnounceMode {
    None,
    /// Pools, networks behind UEs, addresses without a link.
    Pool,
    /// The address of each UE, networks behind UEs, addresses without a link.
    Session,
}

section! {
    /// Routes beyond the links of the interfaces. The longest prefix wins.
    RouteSection(NOW) {
        /// The name of its interface.
        interface: String, text("the name of an [[interface]]").required(String::new())
            => ["\"n6\"", "\"n6\""];
        /// Its destinations.
        prefix: IpNet, text("a prefix such as \"10.0.0.0/8\"").required(IpNet::ANY)
            => ["\"0.0.0.0/0\"", "\"::/0\""];
        /// A station on the link. Not for interfaces behind which the kernel routes.
        next_hop: Option<IpAddr>, text("an IP address").optional("none") => ["\"10.0.6.1\"",
            "\"2001:db8:6::1\""];
        /// Preference against a route of the kernel to the same prefix (routes = "kernel"): the
        /// lower metric wins, and this route if both are equal.
        metric: u32, integer(0..=u32::MAX).or(0) => ["# 0", ""];
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceSettings {
    pub name: String,
    pub role: InterfaceRole,
    pub port: PortId,
    /// True on a port of the kernel, which then routes the packets that leave there.
    pub is_kernel: bool,
    pub vlan: VlanId,
    /// adit's address and the prefix length of its link.
    pub v4: Option<(Ipv4Addr, u8)>,
    pub v6: Option<(Ipv6Addr, u8)>,
    /// The network instance of the interface; `None` if it serves all of them.
    pub network_instance: Option<String>,
    /// True if adit switches packets between UEs locally instead of sending them through this
    /// interface. For n6 only; n6 interfaces of one routing domain have the same value.
    pub local_switching: bool,
    /// How to set the MSS of TCP. For n6 only; n6 interfaces of one routing domain have the same
    /// value.
    pub tcp_mss: TcpMss,
    /// Its kernel twin, if it has one.
    pub twin: Option<TwinSettings>,
    /// Where its routes come from.
    pub routes: RouteOrigin,
    /// Which prefixes the kernel gets as routes beside its device.
    pub announce: AnnounceMode,
    /// The network device of its packet sockets, if these are all frames of the device.
    pub packet_device: Option<String>,
}

impl InterfaceSettings {
    /// The kernel's device of this interface and the network namespace of that device (`None`: that
    /// of adit), if the kernel has one.
    pub(crate) fn kernel_device(&self) -> Option<(&str, Option<&str>)> {
        let twin = self.twin.as_ref().map(|twin| (twin.name.as_str(), twin.netns.as_deref()));
        twin.or(self.packet_device.as_deref().map(|name| (name, None)))
    }

    /// Returns true if `addr` is one of the interface's addresses.
    pub(crate) fn owns(&self, addr: IpAddr) -> bool {
        self.links().any(|link| link.addr == addr)
    }

    /// Returns the interface's addresses with the prefix lengths of their links.
    pub(crate) fn links(&self) -> impl Iterator<Item = IpNet> {
        let v4 = self.v4.map(|(addr, len)| IpNet { addr: addr.into(), len });
        let v6 = self.v6.map(|(addr, len)| IpNet { addr: addr.into(), len });
        v4.into_iter().chain(v6)
    }

    /// This interface with its twin, if it has one.
    fn twin_owner(&self) -> Option<TwinOwner<'_>> {
        let addresses = self.links().map(|link| link.addr).collect();
        Some(TwinOwner { interface: &self.name, twin: self.twin.as_ref()?, addresses })
    }

    /// True if this interface serves the network instance `wanted`; every interface serves `None`.
    pub(crate) fn serves(&self, wanted: Option<&str>) -> bool {
        let both = self.network_instance.as_deref().zip(wanted);
        both.is_none_or(|(own, wanted)| own.eq_ignore_ascii_case(wanted))
    }
}

/// Returns the routing domain of each interface. If every N6 interface names its network instance,
/// each name is a domain. If one N6 interface serves all names, all interfaces share one domain,
/// since packets of that interface can belong to any name.
pub(crate) fn domains(interfaces: &[InterfaceSettings]) -> Vec<DomainId> {
    let n6 = || interfaces.iter().filter(|known| known.role == InterfaceRole::N6);
    let lower =
        |known: &InterfaceSettings| known.network_instance.as_deref().map(str::to_ascii_lowercase);
    let mut names: Vec<String> = Vec::new();
    if n6().all(|known| known.network_instance.is_some()) {
        for name in n6().filter_map(lower) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let domain = |known: &InterfaceSettings| {
        let name = lower(known).filter(|_| known.role == InterfaceRole::N6);
        let at = names.iter().position(|known| Some(known) == name.as_ref());
        at.and_then(|at| u8::try_from(at).ok()).map_or(DomainId(0), DomainId)
    };
    interfaces.iter().map(domain).collect()
}

/// Returns the routing domains of a network instance, without repetition; all domains for `None`.
pub(crate) fn domains_of(
    interfaces: &[InterfaceSettings],
    network_instance: Option<&str>,
) -> Vec<DomainId> {
    domains_where(interfaces, |known| known.serves(network_instance))
}

/// Returns the routing domains of matching N6 interfaces, without repetition.
fn domains_where(
    interfaces: &[InterfaceSettings],
    fits: impl Fn(&InterfaceSettings) -> bool,
) -> Vec<DomainId> {
    let all = interfaces.iter().zip(domains(interfaces));
    let fitting = all.filter(|(known, _)| known.role == InterfaceRole::N6 && fits(known));
    let found: BTreeSet<DomainId> = fitting.map(|(_, domain)| domain).collect();
    found.into_iter().collect()
}

/// Returns the routing domains in which some packets are switched locally, without repetition.
pub(crate) fn switched_domains(config: &Config) -> Vec<DomainId> {
    let by_policy =
        config.forwarding_policies.iter().any(|policy| policy.local_switching == Some(true));
    domains_where(&config.interfaces, |known| by_policy || known.local_switching)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteSettings {
    /// Index in [`Config::interfaces`].
    pub interface: usize,
    pub prefix: IpNet,
    /// A station on the link; the unspecified address if the kernel routes.
    pub next_hop: IpAddr,
    /// Preference against routes of the kernel: the lower metric wins.
    pub metric: u32,
}

/// Checks all interfaces, and returns their settings.
pub(super) fn check_interfaces(
    document: &ConfigDocument<'_>,
    sections: &mut [InterfaceSection],
    ports: &[PortSettings],
) -> Vec<InterfaceSettings> {
    check_len_max(document, "interface", sections.len(), INTERFACES_MAX, "interfaces");
    check_unique(
        document,
        "interface",
        "name",
        sections.iter().map(|section| section.name.as_str()),
    );
    let mut places = BTreeSet::new();
    let mut interfaces: Vec<InterfaceSettings> = Vec::new();
    for (index, section) in sections.iter_mut().enumerate() {
        // Sorted, so that a reload sees no change if only their order differs.
        section.addresses.sort_by_key(|net| net.addr.is_ipv6());
        let path = format!("interface[{index}]");
        let problem = |key: &str, what: &str| document.problem(&format!("{path}.{key}"), what);
        let port = port_id(&problem, section, ports);
        if !places.insert((port, section.vlan)) {
            let what = "another interface has this port and VLAN; give one of them its own";
            problem("vlan", what);
        }
        let vlan = VlanId::new(section.vlan).unwrap_or(VlanId::UNTAGGED);
        let device = ports.get(usize::from(port.0)).and_then(|port| port.device.kernel());
        let routed = device.filter(|device| device.is_routed());
        if let Some(device) = routed {
            kernel_ports::check_interface(&problem, device, section.role, vlan);
        }
        let (v4, v6) = section.check_addresses(&problem, &interfaces);
        if section.role != InterfaceRole::N6 {
            let what = "is for interfaces with role = \"n6\"";
            document.refuse(&path, &["local_switching", "tcp_mss"], what);
        }
        let on_port = ports.get(usize::from(port.0));
        let owners: Vec<_> = interfaces.iter().filter_map(InterfaceSettings::twin_owner).collect();
        let twin = check_twin(document, &path, &section.twin_keys(), on_port, &owners);
        let packet_device = match device {
            Some(KernelDevice::Packet { iface }) if section.vlan == 0 => Some(iface.clone()),
            _ => None,
        };
        interfaces.push(InterfaceSettings {
            name: section.name.clone(),
            role: section.role,
            port,
            is_kernel: routed.is_some(),
            vlan,
            v4,
            v6,
            network_instance: section.network_instance.clone(),
            local_switching: section.local_switching,
            tcp_mss: section.tcp_mss,
            twin,
            routes: section.routes,
            announce: section.announce,
            packet_device,
        });
        check_kernel_routes(&problem, interfaces.last());
    }
    check_domains(document, &interfaces);
    check_roles(document, &interfaces);
    for (index, port) in ports.iter().enumerate() {
        if !interfaces.iter().any(|interface| usize::from(interface.port.0) == index) {
            let name = &port.name;
            document.problem("port", format!("no interface uses port \"{name}\"; remove it"));
        }
    }
    interfaces
}

/// Adds a problem if N4 listens at an address of a port that adit has alone. Where the port is a
/// network device of the host, which may have the address, too, `adit check` looks at the host.
pub(super) fn check_n4(
    document: &ConfigDocument<'_>,
    n4: IpAddr,
    ports: &[PortSettings],
    interfaces: &[InterfaceSettings],
) {
    let mut owners = interfaces.iter().filter(|known| known.owns(n4)).peekable();
    let Some(first) = owners.peek().map(|known| known.name.clone()) else { return };
    let device = |known: &InterfaceSettings| ports.get(usize::from(known.port.0));
    let is_heard = |known: &InterfaceSettings| {
        let of_host = device(known).is_some_and(|port| port.device.network_device().is_some());
        known.is_kernel || known.twin.is_some() || of_host
    };
    if !owners.any(is_heard) {
        let what = format!(
            "{n4} is the address of interface \"{first}\", whose port adit has alone, so the kernel would never get a \
             message to it; write kernel = \"NAME\" under this interface, or take an address of the host"
        );
        document.problem("n4.listen", what);
    }
}

/// Routes of the kernel need a device that the kernel has.
fn check_kernel_routes(problem: &dyn Fn(&str, &str), interface: Option<&InterfaceSettings>) {
    let Some(interface) = interface.filter(|known| known.kernel_device().is_none()) else { return };
    let wanted = [
        ("routes", interface.routes != RouteOrigin::Static),
        ("announce", interface.announce != AnnounceMode::None),
    ];
    for (key, _) in wanted.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        let what = "needs a device that the kernel has: give the interface a kernel twin (kernel = \"NAME\"), or its \
                    port device = \"kernel:packet,iface=NAME\" without a VLAN";
        problem(key, what);
    }
}

/// Returns the port of an interface. Adds a problem if no port has the name.
fn port_id(
    problem: &dyn Fn(&str, &str),
    section: &InterfaceSection,
    ports: &[PortSettings],
) -> PortId {
    let wanted = &section.port;
    let found = ports.iter().position(|port| port.name == *wanted);
    if found.is_none() {
        let names: Vec<_> = ports.iter().map(|port| format!("\"{}\"", port.name)).collect();
        let names = names.join(", ");
        problem("port", &format!("there is no port \"{wanted}\"; known ports: {names}"));
    }
    PortId(found.and_then(|index| u16::try_from(index).ok()).unwrap_or(0))
}

type InterfaceAddresses = (Option<(Ipv4Addr, u8)>, Option<(Ipv6Addr, u8)>);

impl InterfaceSection {
    /// The keys of its kernel twin.
    fn twin_keys(&self) -> TwinKeys<'_> {
        TwinKeys {
            name: self.kernel.as_ref(),
            netns: self.kernel_netns.as_ref(),
            protocols: &self.kernel_protocols,
            addresses: &self.addresses,
        }
    }

    /// Checks and returns the interface's addresses. Addresses of GTP-U interfaces must differ,
    /// since an F-TEID must identify one interface.
    fn check_addresses(
        &self,
        problem: &dyn Fn(&str, &str),
        before: &[InterfaceSettings],
    ) -> InterfaceAddresses {
        let (mut v4, mut v6) = (None, None);
        for net in &self.addresses {
            let taken = match net.addr {
                IpAddr::V4(addr) => v4.replace((addr, net.len)).is_some(),
                IpAddr::V6(addr) => v6.replace((addr, net.len)).is_some(),
            };
            if taken {
                problem("addresses", "takes at most one address of each family");
            }
            if net.addr.is_unspecified() || net.addr.is_multicast() || net.addr.is_loopback() {
                problem("addresses", &format!("{} is not a host address", net.addr));
            }
        }
        if self.addresses.is_empty() {
            problem("addresses", &format!("takes {ADDRESS_FORM}"));
        }
        let has_one = |known: &&InterfaceSettings| {
            known.role.is_gtpu() && self.addresses.iter().any(|net| known.owns(net.addr))
        };
        if let Some(known) = before.iter().filter(|_| self.role.is_gtpu()).find(has_one) {
            let name = &known.name;
            let what = format!(
                "interface \"{name}\" has this address already; addresses of GTP-U interfaces must differ"
            );
            problem("addresses", &what);
        }
        (v4, v6)
    }
}

/// Checks that tunnels have an interface towards the RAN or other UPFs, and that there is an N6
/// interface, which only a UPF between other UPFs or gateways may lack.
fn check_roles(document: &ConfigDocument<'_>, interfaces: &[InterfaceSettings]) {
    let has = |role| interfaces.iter().any(|interface| interface.role == role);
    if !has(InterfaceRole::N3) && !has(InterfaceRole::N9) {
        let what =
            "write at least one interface with role = \"n3\" (RAN) or role = \"n9\" (other UPFs)";
        document.problem("interface", what);
    }
    if !has(InterfaceRole::N6) && !has(InterfaceRole::N9) {
        let what = "write at least one interface with role = \"n6\"; only a UPF between others (I-UPF, SGW-U) needs none, and it needs role = \"n9\"";
        document.problem("interface", what);
    }
}

/// Checks that N6 interfaces of one routing domain agree on local switching, since a locally
/// switched packet belongs to the domain and not to an interface, and on the MSS of TCP, since the
/// two directions of a connection may pass different interfaces.
fn check_domains(document: &ConfigDocument<'_>, interfaces: &[InterfaceSettings]) {
    let all: Vec<_> = interfaces.iter().zip(domains(interfaces)).collect();
    let networks = || all.iter().filter(|(known, _)| known.role == InterfaceRole::N6);
    for (known, domain) in networks() {
        let first = networks().find(|(_, other)| other == domain).map_or(*known, |other| other.0);
        let differing = [
            ("local_switching", first.local_switching != known.local_switching),
            ("tcp_mss", first.tcp_mss != known.tcp_mss),
        ];
        for (key, _) in differing.into_iter().filter(|(_, differs)| *differs) {
            let names = format!("\"{}\" and \"{}\"", first.name, known.name);
            let what = format!("{names} are in one routing domain; give both the same {key}");
            document.problem("interface", what);
        }
    }
}

/// Checks all routes, and adds the default routes of interfaces behind which the kernel routes.
pub(super) fn check_routes(
    document: &ConfigDocument<'_>,
    sections: &[RouteSection],
    interfaces: &[InterfaceSettings],
) -> Vec<RouteSettings> {
    check_len_max(document, "route", sections.len(), ROUTES_MAX, "routes");
    let mut routes = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let path = format!("route[{index}]");
        routes.extend(section.check(document, &path, interfaces, &routes));
    }
    let taken = |routes: &[_], prefix, index| is_taken(interfaces, routes, prefix, index);
    default_routes(interfaces, taken, &mut routes);
    routes
}

impl RouteSection {
    fn check(
        &self,
        document: &ConfigDocument<'_>,
        path: &str,
        interfaces: &[InterfaceSettings],
        before: &[RouteSettings],
    ) -> Option<RouteSettings> {
        let problem = |key: &str, what: &str| document.problem(&format!("{path}.{key}"), what);
        let Self { interface: wanted, prefix, next_hop, metric } = self;
        let found = interfaces.iter().position(|known| known.name == *wanted);
        if found.is_none() {
            let names: Vec<_> = interfaces.iter().map(|i| format!("\"{}\"", i.name)).collect();
            let names = names.join(", ");
            let what = format!("there is no interface \"{wanted}\"; known interfaces: {names}");
            problem("interface", &what);
        }
        let index = found.filter(|_| document.is_read(&format!("{path}.prefix")))?;
        let interface = &interfaces[index];
        if !prefix.is_prefix() {
            problem("prefix", &format!("{prefix} has host bits set; clear them"));
        }
        if interface.is_kernel {
            let what = "is not for interfaces of the kernel, which routes itself; remove it";
            document.refuse(path, &["next_hop"], what);
        } else if !document.has(&format!("{path}.next_hop")) {
            problem("next_hop", "is missing and has no default");
        }
        let next_hop = match interface.is_kernel {
            true => kernel_next_hop(*prefix),
            false => (*next_hop)?,
        };
        if prefix.addr.is_ipv4() != next_hop.is_ipv4() {
            problem("next_hop", "is of another address family than the prefix");
        } else if !interface.is_kernel && !on_link(interface, next_hop) {
            let name = &interface.name;
            problem("next_hop", &format!("{next_hop} is not on the link of interface \"{name}\""));
        }
        if is_taken(interfaces, before, *prefix, index) {
            let what = format!("{prefix} already has a route in this network instance");
            problem("prefix", &what);
        }
        Some(RouteSettings { interface: index, prefix: *prefix, next_hop, metric: *metric })
    }
}

/// True if another route, or the link of an interface, leads to `prefix`, with the role and network
/// instance of interface `index`.
fn is_taken(
    interfaces: &[InterfaceSettings],
    routes: &[RouteSettings],
    prefix: IpNet,
    index: usize,
) -> bool {
    let kind = |at: usize| {
        let name = interfaces[at].network_instance.as_ref().map(|name| name.to_ascii_lowercase());
        (interfaces[at].role, name)
    };
    let is_link = |interface: &InterfaceSettings| {
        let mut links = interface.links().filter(|_| !interface.is_kernel);
        links.any(|net| net.to_prefix() == prefix)
    };
    routes.iter().any(|route| route.prefix == prefix && kind(route.interface) == kind(index))
        || (0..interfaces.len()).any(|at| kind(at) == kind(index) && is_link(&interfaces[at]))
}

/// True if `addr` is another station on the interface's link.
fn on_link(interface: &InterfaceSettings, addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => interface.v4.is_some_and(|(own, len)| {
            own != addr && Ipv4Prefix::containing(own, len).is_some_and(|link| link.contains(addr))
        }),
        IpAddr::V6(addr) => interface.v6.is_some_and(|(own, len)| {
            own != addr
                && (addr.is_unicast_link_local()
                    || Ipv6Prefix::containing(own, len).is_some_and(|link| link.contains(addr)))
        }),
    }
}

/// Adds default routes of interfaces behind which the kernel routes: one for each address family,
/// unless an interface of the same role and network instance has one already.
fn default_routes(
    interfaces: &[InterfaceSettings],
    is_taken: impl Fn(&[RouteSettings], IpNet, usize) -> bool,
    routes: &mut Vec<RouteSettings>,
) {
    for (index, interface) in interfaces.iter().enumerate().filter(|(_, at)| at.is_kernel) {
        let v4 = interface.v4.map(|_| IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let v6 = interface.v6.map(|_| IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        for addr in v4.into_iter().chain(v6) {
            let prefix = IpNet { addr, len: 0 };
            if !is_taken(routes, prefix, index) {
                routes.push(RouteSettings { interface: index, prefix, next_hop: addr, metric: 0 });
            }
        }
    }
}

/// Returns the address that stands for the kernel as the next hop of a route.
const fn kernel_next_hop(prefix: IpNet) -> IpAddr {
    match prefix.addr {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Checks that the ports with an offload have an interface with GTP-U and one with plain IP: the
/// offload can forward only packets between the two.
pub(super) fn check_offload(
    document: &ConfigDocument<'_>,
    ports: &[PortSettings],
    interfaces: &[InterfaceSettings],
) {
    let ids = |is_on: fn(&PortSettings) -> bool| -> Vec<PortId> {
        let on = (0..).map(PortId).zip(ports).filter(|(_, port)| is_on(port));
        on.map(|(id, _)| id).collect()
    };
    let with_xdp = ids(|port| port.xdp != XdpMode::Off);
    let with_flows = ids(|port| port.flow_offload);
    for (key, on) in [("xdp", with_xdp), ("flow_offload", with_flows)] {
        let has = |is_gtpu: bool| {
            let mut there = interfaces.iter().filter(|known| on.contains(&known.port));
            there.any(|known| known.role.is_gtpu() == is_gtpu)
        };
        for (is_gtpu, missing) in [(true, "an n3 interface"), (false, "an n6 interface")] {
            if !on.is_empty() && !has(is_gtpu) {
                let what = format!(
                    "ports with {key} forward only among themselves, and none of them has {missing}; set {key} on \
                     its port, too"
                );
                document.problem("port", what);
            }
        }
    }
}
