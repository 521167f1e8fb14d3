//! Objects that rules refer to by name: UE pools, applications and forwarding policies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_session::SliceIdentity;
use adit_types::InterfaceRole;
use adit_types::limits::{ANNOUNCED_POOLS_MAX, SDF_FILTERS_PER_PDR_MAX};

use super::comparison::{NOW, OnReload, RULES};
use super::declare::section;
use super::fields::{IpNet, NETWORK_INSTANCE, network_instance};
use super::interfaces::{InterfaceSettings, domains_of};
use super::keys::IntoKey as _;
use super::kinds::{Flag, integer, text};
use super::section::ConfigDocument;
use super::{check_len_max, check_unique};

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

/// The expected form of a slice, for messages and documents.
pub(super) const SLICE: &str =
    "a slice such as \"1\" or \"1-00a1b2\": SST, and SD of six hexadecimal digits";

/// The expected form of a flow description, for messages and documents.
pub(super) const FLOW_DESCRIPTION: &str =
    "a flow description such as \"permit out 17 from 203.0.113.0/24 to assigned\"";

section! {
    /// Addresses for UEs whose address adit chooses, by network instance: one IPv4 address or one
    /// IPv6 /64 per UE. A control plane may name a pool by its identity.
    UePoolSettings(NOW) {
        /// The network instance whose UEs use the pool.
        network_instance: Option<String>, text(NETWORK_INSTANCE).check(network_instance)
            .optional("all") => ["\"internet\"", "\"internet\""];
        /// UE IP address Pool Identity, which control planes get with the share of the pool in use.
        identity: Option<String>, text("a name").check(|name| octets(name, NAME_BYTES_MAX))
            .optional("none") => ["# \"pool1\""];
        /// The slice whose UEs use the pool, which control planes get with it: SST and SD.
        s_nssai: Option<SliceIdentity>, text(SLICE).optional("all") => ["# \"1-00a1b2\""];
        /// IPv4, or IPv6 of at most 64 bits. Does not overlap other pools or links of its routing
        /// domain, nor links of GTP-U interfaces.
        prefix: IpNet, text("a prefix such as \"10.45.0.0/16\" or \"2001:db8:45::/48\"")
            .required(IpNet::ANY) => ["\"10.60.0.0/16\"", "\"2001:db8:60::/48\""];
    }
}

section! {
    /// Applications that PDRs may name, by their service data flows (TS 29.212, clause 5.4.2). PFDs
    /// of a control plane for the same id replace the flow descriptions.
    ApplicationSection(RULES) {
        /// Application ID.
        id: String, text("a name").required(String::new()) => ["\"video\""];
        /// Its packets.
        flow_descriptions: Vec<String>, text(FLOW_DESCRIPTION).list("")
            => ["[\"permit out ip from 203.0.113.0/24 to assigned\"]"];
    }
}

section! {
    /// Forwarding policies that FARs may name (traffic steering).
    ForwardingPolicySettings(RULES) {
        /// Forwarding Policy Identifier.
        id: String, text("a name").check(|id| octets(id, POLICY_ID_BYTES_MAX))
            .required(String::new()) => ["\"firewall\""];
        /// Selects interfaces and routes, whatever the FAR names.
        network_instance: Option<String>, text(NETWORK_INSTANCE).check(network_instance)
            .optional("that of the FAR"), OnReload::Fixed("keys of sessions depend on it")
            => ["# \"internet\""];
        /// A station on an N6 link to which packets without an outer header go.
        next_hop_v4: Option<Ipv4Addr>, text("an IPv4 address").optional("by the routes")
            => ["\"10.0.6.9\""];
        /// As next_hop_v4, for IPv6 packets.
        next_hop_v6: Option<Ipv6Addr>, text("an IPv6 address").optional("by the routes")
            => ["# \"2001:db8:6::9\""];
        /// DSCP of packets that leave; of their outer header if they have one and the FAR sets
        /// none.
        dscp: Option<u8>, integer(0..=63).optional("as it is") => ["18"];
        /// Overrides the interface's value for packets to other UEs. Packets to a next hop always
        /// leave.
        local_switching: Option<bool>, Flag.optional("that of the interface") => ["# false"];
    }
}

/// Checks the length of a text. The error is the message to the user.
fn octets(text: &str, most: usize) -> Result<(), String> {
    let fits = (1..=most).contains(&text.len());
    fits.then_some(()).ok_or_else(|| format!("takes 1 to {most} octets"))
}

/// An application that PDRs may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApplicationSettings {
    pub id: String,
    /// Never empty.
    pub filters: Vec<adit_rules::PacketFilter>,
}

/// Checks all UE pools.
pub(super) fn check_ue_pools(
    document: &ConfigDocument<'_>,
    pools: &[UePoolSettings],
    interfaces: &[InterfaceSettings],
) {
    check_len_max(document, "ue_pool", pools.len(), UE_POOLS_MAX, "pools");
    for (index, pool) in pools.iter().enumerate() {
        let path = format!("ue_pool[{index}].prefix");
        pool.check(&|what: &str| document.problem(&path, what), interfaces, &pools[..index]);
    }
    if pools.iter().filter(|pool| pool.identity.is_some()).count() > ANNOUNCED_POOLS_MAX {
        let what = format!("give at most {ANNOUNCED_POOLS_MAX} pools an identity");
        document.problem("ue_pool", what);
    }
}

/// Checks all applications.
pub(super) fn check_applications(
    document: &ConfigDocument<'_>,
    sections: &[ApplicationSection],
) -> Vec<ApplicationSettings> {
    check_len_max(document, "application", sections.len(), APPLICATIONS_MAX, "applications");
    check_unique(document, "application", "id", sections.iter().map(|section| section.id.as_str()));
    let application = |(index, section): (usize, &ApplicationSection)| {
        let path = format!("application[{index}].flow_descriptions");
        let filters = filters(document, &path, &section.flow_descriptions);
        ApplicationSettings { id: section.id.clone(), filters }
    };
    sections.iter().enumerate().map(application).collect()
}

/// Checks all forwarding policies: identifiers differ, and the objects that policies name exist.
pub(super) fn check_policies(
    document: &ConfigDocument<'_>,
    policies: &[ForwardingPolicySettings],
    interfaces: &[InterfaceSettings],
) {
    let key = "forwarding_policy";
    check_len_max(document, key, policies.len(), FORWARDING_POLICIES_MAX, "policies");
    check_unique(document, key, "id", policies.iter().map(|policy| policy.id.as_str()));
    for (index, policy) in policies.iter().enumerate() {
        let problem = |of: &str, what| document.problem(&format!("{key}[{index}].{of}"), what);
        let name = policy.network_instance.as_deref();
        if !interfaces.iter().any(|interface| interface.serves(name)) {
            problem("network_instance", "is served by no interface");
        }
        let reaches = |addr: IpAddr| {
            let n6 = interfaces.iter().filter(|known| known.role == InterfaceRole::N6);
            let mut links = n6.filter(|known| known.serves(name) && !known.is_kernel);
            let host = IpNet::host(addr);
            links.any(|known| known.links().any(|link| link.addr != addr && link.overlaps(host)))
        };
        for (key, addr) in [
            ("next_hop_v4", policy.next_hop_v4.map(IpAddr::V4)),
            ("next_hop_v6", policy.next_hop_v6.map(IpAddr::V6)),
        ] {
            if addr.is_some_and(|addr| !reaches(addr)) {
                let what =
                    "must be a station on the link of an N6 interface that is not the kernel's";
                problem(key, what);
            }
        }
    }
}

/// Parses the flow descriptions at `path`. Adds a problem if there is none.
pub(super) fn filters(
    document: &ConfigDocument<'_>,
    path: &str,
    texts: &[String],
) -> Vec<adit_rules::PacketFilter> {
    if texts.is_empty() && !document.has(path) {
        document.problem(path, "is missing and has no default");
    } else if texts.is_empty() || texts.len() > SDF_FILTERS_PER_PDR_MAX {
        let what = format!("takes 1 to {SDF_FILTERS_PER_PDR_MAX} flow descriptions");
        document.problem(path, what);
    }
    let mut filters = Vec::new();
    for text in texts {
        match adit_session::parse_flow_description(text) {
            Ok(filter) => filters.push(filter),
            Err(error) => document.problem(path, format!("\"{text}\": {error}")),
        }
    }
    filters
}

impl UePoolSettings {
    /// Checks the pool's prefix. `before`: the pools that precede it in the file.
    fn check(&self, problem: &dyn Fn(&str), interfaces: &[InterfaceSettings], before: &[Self]) {
        let prefix = self.prefix;
        if !prefix.is_prefix() {
            problem(&format!("{prefix} has host bits set; clear them"));
        }
        let special = prefix.addr.is_multicast() || prefix.addr.is_loopback();
        if prefix.len < 8 || special || prefix.addr.is_unspecified() {
            problem(&format!("{prefix} contains addresses that no UE can have"));
        }
        if prefix.addr.is_ipv6() && prefix.len > 64 {
            problem("takes an IPv6 prefix of at most 64 bits: each UE gets a /64");
        }
        let domains = domains_of(interfaces, self.network_instance.as_deref());
        let shares_domain = |other: Option<&str>| {
            let others = domains_of(interfaces, other);
            domains.is_empty() || others.is_empty() || others.iter().any(|at| domains.contains(at))
        };
        let is_taken = |other: &Self| {
            // A pool whose prefix could not be read has the prefix `ANY`, which is no overlap.
            other.prefix != IpNet::ANY
                && other.prefix.overlaps(prefix)
                && shares_domain(other.network_instance.as_deref())
        };
        if before.iter().any(is_taken) {
            problem(&format!("{prefix} overlaps another pool"));
        }
        let near = interfaces.iter().filter(|interface| {
            interface.role.is_gtpu() || shares_domain(interface.network_instance.as_deref())
        });
        for interface in near.filter(|near| near.links().any(|link| link.overlaps(prefix))) {
            let name = &interface.name;
            problem(&format!("{prefix} overlaps the link of interface \"{name}\""));
        }
    }
}
