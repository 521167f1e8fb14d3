//! The registration of this UPF at an NRF: its profile, which follows from the configuration, and
//! the client that keeps it there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use adit_n4::Node;
use adit_nrf::{
    Announcement, AtsssCapability, ClientEnd, DnnUpfInfoItem, InterfaceUpfInfoItem,
    Ipv4AddressRange, Ipv6PrefixRange, NfInstanceUuid, NfProfile, NrfClient, NrfClientConfig,
    NrfState, PduSessionType, Snssai, SnssaiUpfInfoItem, UpInterfaceType, UpfInfo,
};
use adit_session::SliceIdentity;
use adit_types::InterfaceRole;
use anyhow::Context;

use crate::config::{Config, InterfaceSettings, IpNet, NodeIdSetting, UePoolSettings};
use crate::record_store::store_files::tls_settings;

/// The DNN that stands for any DNN. Spec: TS 29.571 §5.3.2.
const ANY_DNN: &str = "*";

/// Shortest prefix of a UE. Spec: TS 29.510 §6.1.6.2.15.
const UE_PREFIX_LEN_MIN: u8 = 64;

/// The client that registers this adit, and the profile that it announced last.
#[derive(Debug)]
pub(crate) struct NrfAnnouncer {
    client: NrfClient,
    instance: NfInstanceUuid,
    /// The last configuration that was announced, and its profile.
    known: Option<KnownProfile>,
}

#[derive(Debug)]
struct KnownProfile {
    config: Arc<Config>,
    profile: Arc<NfProfile>,
}

impl NrfAnnouncer {
    /// Starts the client; `None` without `[nrf]`. It registers after the first [`Self::announce`].
    ///
    /// # Errors
    /// A file of TLS cannot be used, or the system has no thread left.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Option<Self>> {
        let Some(nrf) = &config.nrf else { return Ok(None) };
        let section = &nrf.section;
        let derived = || NfInstanceUuid::of_node(&config.node.id.to_string());
        let instance = section.instance.unwrap_or_else(derived);
        let tls = nrf.tls.as_ref().map(|files| tls_settings("nrf", files)).transpose()?;
        let client_config = NrfClientConfig {
            servers: section.servers.clone(),
            instance,
            uses_tokens: section.uses_tokens,
            heartbeat: section.heartbeat,
        };
        let client =
            NrfClient::start(client_config, tls).context("cannot start the client of the NRF")?;
        Ok(Some(Self { client, instance, known: None }))
    }

    /// Passes the present state to the client. Only an adit that serves calls this.
    pub(crate) fn announce(&mut self, config: &Arc<Config>, node: &Node) {
        let known = self.known.take().filter(|known| Arc::ptr_eq(&known.config, config));
        let known = known.unwrap_or_else(|| KnownProfile {
            config: Arc::clone(config),
            profile: Arc::new(profile(config)),
        });
        self.client.announce(Announcement {
            profile: Some(Arc::clone(&self.known.insert(known).profile)),
            is_draining: node.is_draining(),
            load: node.load_percent(),
            end: None,
        });
    }

    /// Stops the client's messages until the next [`Self::announce`]. The registration stays.
    pub(crate) fn withdraw(&self) {
        self.client.announce(Announcement::default());
    }

    /// Begins the shutdown, in which the client deregisters unless this adit has a successor.
    pub(crate) fn begin_end(&self, has_successor: bool) {
        self.client.begin_end(client_end(has_successor));
    }

    /// Waits until the client has ended, at most two seconds from the begin of the shutdown.
    pub(crate) fn end(self, has_successor: bool) {
        self.client.end(client_end(has_successor));
    }

    pub(crate) fn state(&self) -> NrfState {
        self.client.state()
    }

    pub(crate) const fn instance(&self) -> NfInstanceUuid {
        self.instance
    }
}

const fn client_end(has_successor: bool) -> ClientEnd {
    if has_successor { ClientEnd::Keep } else { ClientEnd::Deregister }
}

/// Returns the profile of an adit with this configuration.
fn profile(config: &Config) -> NfProfile {
    let section = config.nrf.as_ref().map(|nrf| &nrf.section);
    let slices = section.map_or(&[][..], |section| &section.s_nssais);
    let of_node = match &config.node.id {
        NodeIdSetting::Fqdn(name) if name.contains('.') => Some(name.clone()),
        _ => None,
    };
    let items: Vec<_> = slices.iter().map(|slice| slice_item(config, *slice)).collect();
    let mut types: Vec<PduSessionType> = items
        .iter()
        .flat_map(|item| &item.dnns)
        .flat_map(|dnn| dnn.pdu_session_types.iter().copied())
        .collect();
    types.sort_unstable();
    types.dedup();
    let (ipv4_addresses, ipv6_addresses) = by_family([config.n4_listen.ip()]);
    NfProfile {
        fqdn: section.and_then(|section| section.fqdn.clone()).or(of_node),
        ipv4_addresses,
        ipv6_addresses,
        snssais: slices.iter().copied().map(snssai).collect(),
        priority: section.and_then(|section| section.priority),
        capacity: section.and_then(|section| section.capacity),
        upf_info: UpfInfo {
            snssais: items,
            smf_serving_area: section.map_or(Vec::new(), |section| section.serving_areas.clone()),
            interfaces: config.interfaces.iter().filter_map(interface_item).collect(),
            pdu_session_types: types,
            ue_ip_addr_ind: !config.ue_pools.is_empty(),
            atsss_capability: AtsssCapability::default(),
        },
    }
}

fn snssai(slice: SliceIdentity) -> Snssai {
    Snssai { sst: slice.sst, sd: slice.sd.map(|sd| format!("{sd:06x}")) }
}

/// Returns the entry of a slice: all data networks, each with the pools that serve both.
fn slice_item(config: &Config, slice: SliceIdentity) -> SnssaiUpfInfoItem {
    let configured = config.nrf.iter().flat_map(|nrf| nrf.section.dnns.iter().cloned());
    let mut names: Vec<Option<String>> = configured.map(Some).collect();
    if names.is_empty() {
        let n6 = config.interfaces.iter().filter(|of| of.role == InterfaceRole::N6);
        names.extend(n6.map(|interface| interface.network_instance.clone()));
        names.sort();
        names.dedup();
    }
    let dnn = |name: Option<String>| {
        let pools = config.ue_pools.iter().filter(|pool| {
            let is_of_slice = pool.s_nssai.is_none_or(|of_pool| of_pool == slice);
            let both = pool.network_instance.as_deref().zip(name.as_deref());
            is_of_slice && both.is_none_or(|(of_pool, name)| of_pool.eq_ignore_ascii_case(name))
        });
        dnn_item(config, name.as_deref(), pools)
    };
    SnssaiUpfInfoItem { snssai: snssai(slice), dnns: names.into_iter().map(dnn).collect() }
}

/// Returns the entry of a data network. Without pools, its N6 interfaces decide on session types.
fn dnn_item<'a>(
    config: &Config,
    name: Option<&str>,
    pools: impl Iterator<Item = &'a UePoolSettings>,
) -> DnnUpfInfoItem {
    let (mut ipv4_address_ranges, mut ipv6_prefix_ranges) = (Vec::new(), Vec::new());
    for pool in pools {
        match range(pool.prefix) {
            (IpAddr::V4(start), IpAddr::V4(end)) => {
                ipv4_address_ranges.push(Ipv4AddressRange { start, end });
            }
            (IpAddr::V6(start), IpAddr::V6(end)) => {
                let prefix_len = pool.prefix.len.max(UE_PREFIX_LEN_MIN);
                ipv6_prefix_ranges.push(Ipv6PrefixRange { start, end, prefix_len });
            }
            _ => {}
        }
    }
    let (mut has_v4, mut has_v6) =
        (!ipv4_address_ranges.is_empty(), !ipv6_prefix_ranges.is_empty());
    if !has_v4 && !has_v6 {
        let n6 = config.interfaces.iter();
        let n6 = n6.filter(|of| of.role == InterfaceRole::N6 && of.serves(name));
        (has_v4, has_v6) =
            n6.fold((false, false), |(v4, v6), of| (v4 || of.v4.is_some(), v6 || of.v6.is_some()));
    }
    let types = [
        (has_v4, PduSessionType::Ipv4),
        (has_v6, PduSessionType::Ipv6),
        (has_v4 && has_v6, PduSessionType::Ipv4v6),
    ];
    DnnUpfInfoItem {
        dnn: name.unwrap_or(ANY_DNN).to_owned(),
        pdu_session_types: types.into_iter().filter(|(has, _)| *has).map(|(_, of)| of).collect(),
        ipv4_address_ranges,
        ipv6_prefix_ranges,
        network_instance: name.map(str::to_owned),
    }
}

/// Returns the first and last address of a prefix; for IPv6 those of its first and last /64.
fn range(prefix: IpNet) -> (IpAddr, IpAddr) {
    match prefix.addr {
        IpAddr::V4(addr) => {
            let hosts = u32::MAX.checked_shr(prefix.len.into()).unwrap_or(0);
            let start = addr.to_bits() & !hosts;
            (Ipv4Addr::from_bits(start).into(), Ipv4Addr::from_bits(start | hosts).into())
        }
        IpAddr::V6(addr) => {
            let hosts = u128::MAX.checked_shr(prefix.len.into()).unwrap_or(0);
            let start = addr.to_bits() & !hosts;
            let of_ue = u128::MAX >> UE_PREFIX_LEN_MIN;
            (
                Ipv6Addr::from_bits(start).into(),
                Ipv6Addr::from_bits((start | hosts) & !of_ue).into(),
            )
        }
    }
}

fn interface_item(interface: &InterfaceSettings) -> Option<InterfaceUpfInfoItem> {
    let interface_type = match interface.role {
        InterfaceRole::N3 => UpInterfaceType::N3,
        InterfaceRole::N6 => UpInterfaceType::N6,
        InterfaceRole::N9 => UpInterfaceType::N9,
        InterfaceRole::N4u => return None,
    };
    let (ipv4_endpoint_addresses, ipv6_endpoint_addresses) =
        by_family(interface.links().map(|link| link.addr));
    let has_any = !ipv4_endpoint_addresses.is_empty() || !ipv6_endpoint_addresses.is_empty();
    has_any.then(|| InterfaceUpfInfoItem {
        interface_type,
        ipv4_endpoint_addresses,
        ipv6_endpoint_addresses,
        network_instance: interface.network_instance.clone(),
    })
}

fn by_family(addresses: impl IntoIterator<Item = IpAddr>) -> (Vec<Ipv4Addr>, Vec<Ipv6Addr>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(address) => v4.push(address),
            IpAddr::V6(address) => v6.push(address),
        }
    }
    (v4, v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../adit.example.toml");

    #[test]
    fn prefix_is_a_range_of_addresses_or_of_64_bit_prefixes() {
        for (prefix, start, end) in [
            ("10.60.0.0/16", "10.60.0.0", "10.60.255.255"),
            ("10.60.0.7/32", "10.60.0.7", "10.60.0.7"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            ("2001:db8:60::/48", "2001:db8:60::", "2001:db8:60:ffff::"),
            ("2001:db8:60:1::/64", "2001:db8:60:1::", "2001:db8:60:1::"),
        ] {
            let expected = (start.parse().unwrap(), end.parse().unwrap());
            assert_eq!(range(prefix.parse().unwrap()), expected, "{prefix}");
        }
    }

    #[test]
    fn profile_of_the_example_has_its_addresses_pools_and_data_networks() {
        let nrf = "[nrf]\nservers = [\"http://10.0.4.10:7777\"]\ns_nssais = [\"1\", \"2-00a1b2\"]";
        let config = Config::parse(&format!("{EXAMPLE}\n{nrf}\n")).unwrap();
        let profile = serde_json::to_value(profile(&config)).unwrap();
        let expected = serde_json::json!({
            "ipv4Addresses": ["10.0.4.2"],
            "sNssais": [{"sst": 1}, {"sst": 2, "sd": "00a1b2"}],
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&profile[name], value);
        }
        let info = &profile["upfInfo"];
        let slices = info["sNssaiUpfInfoList"].as_array().unwrap();
        let dnn = &slices[1]["dnnUpfInfoList"][0];
        assert_eq!((slices.len(), &slices[1]["sNssai"]["sd"]), (2, &"00a1b2".into()));
        let expected = serde_json::json!({
            "dnn": "internet", "networkInstance": "internet",
            "pduSessionTypes": ["IPV4", "IPV6", "IPV4V6"],
            "ipv4AddressRanges": [{"start": "10.60.0.0", "end": "10.60.255.255"}],
            "ipv6PrefixRanges": [{"start": "2001:db8:60::/64", "end": "2001:db8:60:ffff::/64"}],
        });
        assert_eq!(dnn, &expected);
        let interfaces = serde_json::json!([
            {"interfaceType": "N3", "ipv4EndpointAddresses": ["10.0.3.2"]},
            {"interfaceType": "N6", "ipv4EndpointAddresses": ["10.0.6.2"],
             "ipv6EndpointAddresses": ["2001:db8:6::2"], "networkInstance": "internet"},
        ]);
        assert_eq!(info["interfaceUpfInfoList"], interfaces);
        assert_eq!(info["ueIpAddrInd"], true);
    }
}
