//! Objects that rules refer to by name: UE pools, applications and forwarding policies.

use std::net::IpAddr;
use std::str::FromStr;

use adit_session::SliceIdentity;
use adit_types::InterfaceRole;
use adit_types::limits::{ANNOUNCED_POOLS_MAX, SDF_FILTERS_PER_PDR_MAX};

use super::fields::{network, read_network_instance};
use super::section::ConfigSection;
use super::{
    ApplicationSettings, ForwardingPolicySettings, InterfaceSettings, IpNet, UePoolSettings,
    domains_of,
};

/// Maximum number of applications.
const APPLICATIONS_MAX: usize = 1024;

/// Maximum number of forwarding policies.
const FORWARDING_POLICIES_MAX: usize = 1024;

/// Maximum length of a Forwarding Policy Identifier: its length field has one octet. Unit: octets.
/// Spec: TS 29.244 §8.2.23.
const POLICY_ID_BYTES_MAX: usize = 255;

/// Maximum length of a pool's identity. Unit: octets.
const NAME_BYTES_MAX: usize = 100;

/// Maximum number of UE pools.
const UE_POOLS_MAX: usize = 1024;

/// The `[[ue_pool]]` sections.
pub(super) fn read_ue_pools(
    root: &mut ConfigSection<'_, '_>,
    interfaces: &[InterfaceSettings],
) -> Vec<UePoolSettings> {
    let sections = root.tables("ue_pool");
    if sections.len() > UE_POOLS_MAX {
        root.problem("ue_pool", format!("write at most {UE_POOLS_MAX} pools"));
    }
    let mut pools: Vec<UePoolSettings> = Vec::new();
    for mut section in sections {
        let network_instance = read_network_instance(&mut section);
        let identity: Option<String> = section.parsed_optional("identity", "a name");
        if identity.as_ref().is_some_and(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
            section.problem("identity", format!("takes 1 to {NAME_BYTES_MAX} octets"));
        }
        let slice: Option<SliceText> = section.parsed_optional("s_nssai", SliceText::EXPECTS);
        let expects = "a prefix such as \"10.45.0.0/16\" or \"2001:db8:45::/48\"";
        let prefix: Option<IpNet> = section.parsed("prefix", expects);
        if let Some(prefix) = prefix {
            let s_nssai = slice.map(|slice| slice.0);
            let pool = UePoolSettings { network_instance, identity, s_nssai, prefix };
            check_pool(&section, &pool, interfaces, &pools);
            pools.push(pool);
        }
        section.finish();
    }
    if pools.iter().filter(|pool| pool.identity.is_some()).count() > ANNOUNCED_POOLS_MAX {
        root.problem("ue_pool", format!("give at most {ANNOUNCED_POOLS_MAX} pools an identity"));
    }
    pools
}

/// A network slice, parsed from text.
pub(super) struct SliceText(pub SliceIdentity);

impl SliceText {
    /// Its format, for error messages.
    pub(super) const EXPECTS: &str =
        "a slice such as \"1\" or \"1-00a1b2\": SST, and SD of six hexadecimal digits";
}

impl FromStr for SliceText {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (sst, sd) = match text.split_once('-') {
            Some((sst, sd)) if sd.len() == 6 => (sst, Some(u32::from_str_radix(sd, 16))),
            Some(_) => return Err(()),
            None => (text, None),
        };
        let sst = sst.parse().map_err(|_| ())?;
        Ok(Self(SliceIdentity { sst, sd: sd.transpose().map_err(|_| ())? }))
    }
}

/// The `[[application]]` sections.
pub(super) fn read_applications(root: &mut ConfigSection<'_, '_>) -> Vec<ApplicationSettings> {
    let sections = root.tables("application");
    if sections.len() > APPLICATIONS_MAX {
        root.problem("application", format!("write at most {APPLICATIONS_MAX} applications"));
    }
    let mut applications: Vec<ApplicationSettings> = Vec::new();
    for mut section in sections {
        let id: String = section.parsed("id", "a name").unwrap_or_default();
        if applications.iter().any(|known| known.id == id) {
            section.problem("id", format!("\"{id}\" is taken already; identifiers must differ"));
        }
        let filters = read_flow_descriptions(&mut section);
        section.finish();
        applications.push(ApplicationSettings { id, filters });
    }
    applications
}

/// The `[[forwarding_policy]]` sections.
pub(super) fn read_forwarding_policies(
    root: &mut ConfigSection<'_, '_>,
    interfaces: &[InterfaceSettings],
) -> Vec<ForwardingPolicySettings> {
    let sections = root.tables("forwarding_policy");
    if sections.len() > FORWARDING_POLICIES_MAX {
        let what = format!("write at most {FORWARDING_POLICIES_MAX} policies");
        root.problem("forwarding_policy", what);
    }
    let mut policies: Vec<ForwardingPolicySettings> = Vec::new();
    for mut section in sections {
        let id: String = section.parsed("id", "a name").unwrap_or_default();
        if id.is_empty() || id.len() > POLICY_ID_BYTES_MAX {
            section.problem("id", format!("takes 1 to {POLICY_ID_BYTES_MAX} octets"));
        }
        if policies.iter().any(|known| known.id == id) {
            section.problem("id", format!("\"{id}\" is taken already; identifiers must differ"));
        }
        let network_instance = read_network_instance(&mut section);
        let next_hop_v4 = section.parsed_optional("next_hop_v4", "an IPv4 address");
        let next_hop_v6 = section.parsed_optional("next_hop_v6", "an IPv6 address");
        // The default is not a valid code point and means none.
        let dscp = Some(section.integer("dscp", 0..=63, Some(u8::MAX))).filter(|dscp| *dscp < 64);
        let local_switching = section.boolean_optional("local_switching");
        let policy = ForwardingPolicySettings {
            id,
            network_instance,
            next_hop_v4,
            next_hop_v6,
            dscp,
            local_switching,
        };
        check_policy(&section, &policy, interfaces);
        section.finish();
        policies.push(policy);
    }
    policies
}

/// Checks that the objects that a policy names exist.
fn check_policy(
    section: &ConfigSection<'_, '_>,
    policy: &ForwardingPolicySettings,
    interfaces: &[InterfaceSettings],
) {
    let name = policy.network_instance.as_deref();
    let serves = |interface: &&InterfaceSettings| {
        interface.role == InterfaceRole::N6 && interface.serves(name)
    };
    if !interfaces.iter().any(|interface| interface.serves(name)) {
        section.problem("network_instance", "is served by no interface");
    }
    let reaches = |addr: IpAddr| {
        interfaces.iter().filter(serves).filter(|interface| !interface.is_kernel).any(|interface| {
            let v4 = interface.v4.map(|(own, len)| IpNet { addr: own.into(), len });
            let v6 = interface.v6.map(|(own, len)| IpNet { addr: own.into(), len });
            let mut links = v4.into_iter().chain(v6);
            links.any(|link| link.addr != addr && overlap(link, IpNet { addr, len: width(addr) }))
        })
    };
    for (key, addr) in [
        ("next_hop_v4", policy.next_hop_v4.map(IpAddr::V4)),
        ("next_hop_v6", policy.next_hop_v6.map(IpAddr::V6)),
    ] {
        if addr.is_some_and(|addr| !reaches(addr)) {
            section.problem(
                key,
                "must be a station on the link of an N6 interface that is not the kernel's",
            );
        }
    }
}

const fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

/// The section's `flow_descriptions`, at least one.
pub(super) fn read_flow_descriptions(
    section: &mut ConfigSection<'_, '_>,
) -> Vec<adit_rules::PacketFilter> {
    let expects = "a flow description such as \"permit out 17 from 203.0.113.0/24 to assigned\"";
    let texts: Vec<String> = section.parsed_list("flow_descriptions", true, expects);
    if texts.is_empty() || texts.len() > SDF_FILTERS_PER_PDR_MAX {
        let what = format!("takes 1 to {SDF_FILTERS_PER_PDR_MAX} flow descriptions");
        section.problem("flow_descriptions", what);
    }
    let mut filters = Vec::new();
    for text in texts {
        match adit_session::parse_flow_description(&text) {
            Ok(filter) => filters.push(filter),
            Err(error) => section.problem("flow_descriptions", format!("\"{text}\": {error}")),
        }
    }
    filters
}

fn check_pool(
    section: &ConfigSection<'_, '_>,
    pool: &UePoolSettings,
    interfaces: &[InterfaceSettings],
    before: &[UePoolSettings],
) {
    let prefix = pool.prefix;
    if network(prefix) != Some(prefix.addr) {
        section.problem("prefix", format!("{prefix} has host bits set; clear them"));
    }
    let special = prefix.addr.is_multicast() || prefix.addr.is_loopback();
    if prefix.len < 8 || special || prefix.addr.is_unspecified() {
        section.problem("prefix", format!("{prefix} contains addresses that no UE can have"));
    }
    if prefix.addr.is_ipv6() && prefix.len > 64 {
        section.problem("prefix", "takes an IPv6 prefix of at most 64 bits: each UE gets a /64");
    }
    let domains = domains_of(interfaces, pool.network_instance.as_deref());
    let shares_domain = |other: Option<&str>| {
        let others = domains_of(interfaces, other);
        domains.is_empty() || others.is_empty() || others.iter().any(|at| domains.contains(at))
    };
    let is_taken = |other: &UePoolSettings| {
        overlap(other.prefix, prefix) && shares_domain(other.network_instance.as_deref())
    };
    if before.iter().any(is_taken) {
        section.problem("prefix", format!("{prefix} overlaps another pool"));
    }
    let near = interfaces.iter().filter(|interface| {
        interface.role.is_gtpu() || shares_domain(interface.network_instance.as_deref())
    });
    for interface in near {
        let v4 = interface.v4.map(|(addr, len)| IpNet { addr: addr.into(), len });
        let v6 = interface.v6.map(|(addr, len)| IpNet { addr: addr.into(), len });
        if v4.into_iter().chain(v6).any(|link| overlap(link, prefix)) {
            let what = format!("{prefix} overlaps the link of interface \"{}\"", interface.name);
            section.problem("prefix", what);
        }
    }
}

/// True if both have an address in common.
fn overlap(a: IpNet, b: IpNet) -> bool {
    let len = a.len.min(b.len);
    a.addr.is_ipv4() == b.addr.is_ipv4()
        && network(IpNet { len, ..a }) == network(IpNet { len, ..b })
}
