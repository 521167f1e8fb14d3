//! The profile of a UPF. Spec: TS 29.510 §6.1.6.2.2, §6.1.6.2.13.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};

/// The status of the UPF that the NRF shows to others. Spec: TS 29.510 §6.1.6.3.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NfStatus {
    /// SMFs may choose it.
    Registered,
    /// No SMF discovers it; SMFs that have sessions on it keep using it.
    Undiscoverable,
}

/// An NFProfile without identity, type, status and load, which are added to each request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NfProfile {
    /// FQDN of the N4 interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fqdn: Option<String>,
    /// IPv4 addresses of the N4 interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv4_addresses: Vec<Ipv4Addr>,
    /// IPv6 addresses of the N4 interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6_addresses: Vec<Ipv6Addr>,
    /// The slices that the UPF serves.
    #[serde(rename = "sNssais")]
    pub snssais: Vec<Snssai>,
    /// Lower values are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Its share among UPFs of the same priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u16>,
    /// The attributes that only UPFs have.
    pub upf_info: UpfInfo,
}

/// A network slice. Spec: TS 29.571 §5.4.4.2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snssai {
    /// Slice/Service Type.
    pub sst: u8,
    /// Slice Differentiator: six hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd: Option<String>,
}

/// Spec: TS 29.510 §6.1.6.2.13.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpfInfo {
    /// The data networks of each slice.
    #[serde(rename = "sNssaiUpfInfoList")]
    pub snssais: Vec<SnssaiUpfInfoItem>,
    /// SMF areas that the UPF serves; all areas if the list is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub smf_serving_area: Vec<String>,
    /// Addresses of the UPF's user plane.
    #[serde(rename = "interfaceUpfInfoList", skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceUpfInfoItem>,
    /// The PDU session types of all DNNs of the UPF.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pdu_session_types: Vec<PduSessionType>,
    /// True if the UPF allocates UE addresses.
    pub ue_ip_addr_ind: bool,
    /// States that the UPF supports no ATSSS.
    pub atsss_capability: AtsssCapability,
}

/// Spec: TS 29.571 §5.4.4.57.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AtsssCapability {
    #[serde(rename = "atsssLL")]
    atsss_ll: bool,
    mptcp: bool,
}

/// Spec: TS 29.510 §6.1.6.2.14.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnssaiUpfInfoItem {
    /// The slice.
    #[serde(rename = "sNssai")]
    pub snssai: Snssai,
    /// Its data networks.
    #[serde(rename = "dnnUpfInfoList")]
    pub dnns: Vec<DnnUpfInfoItem>,
}

/// Spec: TS 29.510 §6.1.6.2.15.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DnnUpfInfoItem {
    /// The Network Identifier of the data network.
    pub dnn: String,
    /// PDU session types of the data network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pdu_session_types: Vec<PduSessionType>,
    /// Addresses that its UEs get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv4_address_ranges: Vec<Ipv4AddressRange>,
    /// Prefixes that its UEs get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6_prefix_ranges: Vec<Ipv6PrefixRange>,
    /// The N6 network instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_instance: Option<String>,
}

/// First and last address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ipv4AddressRange {
    /// The first one.
    pub start: Ipv4Addr,
    /// The last one.
    pub end: Ipv4Addr,
}

/// First and last prefix of one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ipv6PrefixRange {
    /// The first one.
    pub start: Ipv6Addr,
    /// The last one.
    pub end: Ipv6Addr,
    /// The length of each.
    pub prefix_len: u8,
}

impl Serialize for Ipv6PrefixRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct PrefixRangeText {
            start: String,
            end: String,
        }
        let prefix = |address| format!("{address}/{}", self.prefix_len);
        PrefixRangeText { start: prefix(self.start), end: prefix(self.end) }.serialize(serializer)
    }
}

/// Spec: TS 29.510 §6.1.6.2.24.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceUpfInfoItem {
    /// The type of interface.
    pub interface_type: UpInterfaceType,
    /// Its IPv4 addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv4_endpoint_addresses: Vec<Ipv4Addr>,
    /// Its IPv6 addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6_endpoint_addresses: Vec<Ipv6Addr>,
    /// Its network instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_instance: Option<String>,
}

/// Spec: TS 29.510 §6.1.6.3.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum UpInterfaceType {
    /// To gNBs.
    N3,
    /// To data networks.
    N6,
    /// To other UPFs.
    N9,
}

/// Spec: TS 29.571 §5.4.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PduSessionType {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Both at once.
    Ipv4v6,
    /// Neither IP nor Ethernet.
    Unstructured,
    /// Ethernet.
    Ethernet,
}
