//! A change of one PFCP session, free of IEs: rules to create, update and remove.
//!
//! Absent parts of an update stay as they are. Within one change, removals are applied first, then
//! creations, then updates, so that an identifier may be removed and created again at once.
//! Spec: TS 29.244 §7.5.2, §7.5.4.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_rules::{
    ApplyAction, DestinationInterface, HeaderCreation, HeaderRemoval, Redirect, SourceInterface,
};
use adit_types::{BarId, FarId, IpPrefix, Nanos, PdrId, Precedence, QerId, Qfi, Teid, UrrId};

use crate::cp_function::{CpFSeid, OwnerId};
use crate::record::{
    Bar, Far, InterfaceType, PacketLimits, PdrTimes, Qer, QerGates, Rates, SdfSpec, SliceIdentity,
    TrafficEndpointId, UeMatch, UeSide, Urr, UrrUpdate,
};

/// Everything that one request changes in a session. Establishment is a change of an empty session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionChange {
    /// PDRs to create.
    pub create_pdrs: Vec<PdrSpec>,
    /// PDRs to update.
    pub update_pdrs: Vec<PdrUpdate>,
    /// PDRs to remove.
    pub remove_pdrs: Vec<PdrId>,
    /// FARs to create.
    pub create_fars: Vec<Far>,
    /// FARs to update.
    pub update_fars: Vec<FarUpdate>,
    /// FARs to remove.
    pub remove_fars: Vec<FarId>,
    /// QERs to create.
    pub create_qers: Vec<Qer>,
    /// QERs to update.
    pub update_qers: Vec<QerUpdate>,
    /// QERs to remove.
    pub remove_qers: Vec<QerId>,
    /// BARs to create.
    pub create_bars: Vec<Bar>,
    /// BARs to update.
    pub update_bars: Vec<BarUpdate>,
    /// BARs to remove.
    pub remove_bars: Vec<BarId>,
    /// For a new session: a session of one of these owners gives way to it if it has a TEID or UE
    /// address that the new one is to have.
    pub replaces: Vec<OwnerId>,
    /// The control plane's TEIDs were chosen here in a previous run. Spec: TS 29.244 §8.2.136
    /// (RESTI).
    pub is_restoration: bool,
    /// Buffered packets are to be discarded. Spec: TS 29.244 §8.2.31 (DROBU).
    pub drop_buffered: bool,
    /// Traffic endpoints to create.
    pub create_traffic_endpoints: Vec<TrafficEndpointSpec>,
    /// Traffic endpoints to update: parts that are present replace the old ones.
    pub update_traffic_endpoints: Vec<TrafficEndpointSpec>,
    /// Traffic endpoints to remove, with the PDRs that name them.
    pub remove_traffic_endpoints: Vec<TrafficEndpointId>,
    /// URRs to create.
    pub create_urrs: Vec<Urr>,
    /// URRs to update.
    pub update_urrs: Vec<UrrUpdate>,
    /// URRs to remove; PDRs stop naming them.
    pub remove_urrs: Vec<UrrId>,
    /// URRs to report at once; removed and new ones do not count.
    pub query_urrs: Vec<UrrId>,
    /// QERs whose packet rates are queried. Spec: TS 29.244 §7.5.4.22.
    pub query_packet_rates: Vec<QerId>,
    /// Report all URRs at once.
    pub query_all_urrs: bool,
    /// The query reference that requested reports carry.
    pub query_reference: Option<u32>,
    /// The user plane inactivity timer; zero ends it.
    pub inactivity_timer: Option<Nanos>,
    /// The network slice that the session belongs to.
    pub s_nssai: Option<SliceIdentity>,
    /// When the request came: measurements and timers begin here.
    pub at: Nanos,
    /// Parts of rules to withdraw, after all updates.
    pub withdrawals: Vec<Withdrawal>,
    /// The control plane's new endpoint; ignored by an establishment, which names it separately.
    pub cp_f_seid: Option<CpFSeid>,
}

/// A PDR to create. Spec: TS 29.244 §7.5.2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdrSpec {
    /// Identifier, unique within the session.
    pub id: PdrId,
    /// Lower is evaluated first.
    pub precedence: Precedence,
    /// The packets that it detects.
    pub pdi: PdiSpec,
    /// The outer header to remove.
    pub outer_header_removal: Option<HeaderRemoval>,
    /// The PDU Session Container goes with the outer header, instead of being carried on.
    pub container_deletion: bool,
    /// The FAR to apply; its absence is refused unless predefined rules drop all packets.
    pub far: Option<FarId>,
    /// The QERs to enforce; a set, the order does not matter.
    pub qers: Vec<QerId>,
    /// The URRs to measure with; a set.
    pub urrs: Vec<UrrId>,
    /// When it begins and ceases to match.
    pub times: PdrTimes,
    /// Names of the predefined rules, or of groups of them, to activate; a set. With any, there must
    /// be neither filters nor an application.
    pub predefined: Vec<Box<str>>,
}

/// Packet Detection Information as requested. Spec: TS 29.244 §7.5.2.2, table 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdiSpec {
    /// The side that packets come from.
    pub source: SourceInterface,
    /// The reference point that packets arrive at.
    pub interface_type: Option<InterfaceType>,
    /// The traffic endpoints that have the tunnel and the UE's addresses, which must be absent
    /// here; packets of any of them match.
    pub traffic_endpoints: Vec<TrafficEndpointId>,
    /// The local tunnel, given by the control plane or to be chosen here.
    pub f_teid: Option<FTeidSpec>,
    /// Name of the network instance whose interfaces packets must arrive on.
    pub network_instance: Option<Box<str>>,
    /// The UE's addresses.
    pub ue: Option<UeMatch>,
    /// The UE's addresses beyond one per family.
    pub further_ues: Vec<IpPrefix>,
    /// Networks behind the UE.
    pub framed_routes: Vec<IpPrefix>,
    /// UE addresses to be chosen here, in addition to those in `ue`.
    pub choose_ue: Option<ChooseUe>,
    /// QoS flows; a set, empty matches every packet.
    pub qfis: Vec<Qfi>,
    /// Service data flow filters, one of which must match; empty matches every packet.
    pub sdf: Vec<SdfSpec>,
    /// The application that packets must belong to, instead of filters.
    pub application: Option<Box<str>>,
}

/// UE addresses to be chosen here. All PDRs and traffic endpoints of a session that request an
/// address of the same pools get the same one. Spec: TS 29.244 §5.21.3, §8.2.62 (CHV4, CHV6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChooseUe {
    /// An IPv4 address is requested.
    pub v4: bool,
    /// An IPv6 /64 is requested.
    pub v6: bool,
    /// Which address of packets is the UE's.
    pub side: UeSide,
    /// Identities of the pools to choose from; empty for any of the network instance.
    pub pools: Vec<Box<str>>,
}

/// A traffic endpoint to create or to update. Spec: TS 29.244 §7.5.2.7, §7.5.4.13.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficEndpointSpec {
    /// Identifier, unique within the session.
    pub id: TrafficEndpointId,
    /// The local tunnel, given by the control plane or to be chosen here.
    pub f_teid: Option<FTeidSpec>,
    /// Name of the network instance.
    pub network_instance: Option<Box<str>>,
    /// The UE's addresses.
    pub ue: Option<UeMatch>,
    /// The UE's addresses beyond one per family.
    pub further_ues: Vec<IpPrefix>,
    /// Networks behind the UE; empty leaves those that there are.
    pub framed_routes: Vec<IpPrefix>,
    /// The reference point that packets arrive at.
    pub interface_type: Option<InterfaceType>,
    /// UE addresses to be chosen here, in addition to those in `ue`.
    pub choose_ue: Option<ChooseUe>,
    /// QoS flows; empty leaves those of the PDRs.
    pub qfis: Vec<Qfi>,
}

/// A local F-TEID as requested. Spec: TS 29.244 §8.2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FTeidSpec {
    /// The control plane assigned it.
    Given {
        /// The tunnel endpoint; zero is refused.
        teid: Teid,
        /// Our IPv4 address.
        v4: Option<Ipv4Addr>,
        /// Our IPv6 address.
        v6: Option<Ipv6Addr>,
    },
    /// We assign it.
    Choose {
        /// An IPv4 address is requested.
        v4: bool,
        /// An IPv6 address is requested.
        v6: bool,
        /// PDRs with the same CHOOSE ID get the same TEID, those that have it already included.
        choose_id: Option<u8>,
    },
}

/// A PDR to update. Spec: TS 29.244 §7.5.4.2.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PdrUpdate {
    /// The PDR.
    pub id: PdrId,
    /// Replaces the precedence.
    pub precedence: Option<Precedence>,
    /// Replaces the detection information as a whole. One that names neither tunnel, UE nor traffic
    /// endpoint keeps those of the previous one, its network instance and its QoS flows.
    pub pdi: Option<PdiSpec>,
    /// Replaces the outer header removal.
    pub outer_header_removal: Option<HeaderRemoval>,
    /// Replaces the deletion of the PDU Session Container; present with the removal.
    pub container_deletion: Option<bool>,
    /// Replaces the FAR.
    pub far: Option<FarId>,
    /// Replaces the set of QERs.
    pub qers: Option<Vec<QerId>>,
    /// Replaces the set of URRs.
    pub urrs: Option<Vec<UrrId>>,
    /// Replaces the times that are present.
    pub times: PdrTimes,
    /// Names of predefined rules or groups to deactivate, as they were activated.
    pub deactivate: Vec<Box<str>>,
    /// Names of predefined rules or groups to activate, after others were deactivated.
    pub activate: Vec<Box<str>>,
}

/// A FAR to update. Spec: TS 29.244 §7.5.4.3.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FarUpdate {
    /// The FAR.
    pub id: FarId,
    /// Replaces the action.
    pub action: Option<ApplyAction>,
    /// Replaces the BAR.
    pub bar: Option<BarId>,
    /// Changes parts of the forwarding parameters, or provides them.
    pub forwarding: Option<ForwardingUpdate>,
    /// Changes the sets of duplicating parameters in their order: they have no identifier.
    /// Parameters beyond the last set provide a new one.
    pub duplicating: Vec<ForwardingUpdate>,
}

/// Update Forwarding Parameters, or Update Duplicating Parameters, which have fewer parts.
/// Spec: TS 29.244 §7.5.4.3, tables 2 and 3.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForwardingUpdate {
    /// Replaces the destination; must be present when the FAR has no forwarding parameters yet.
    pub destination: Option<DestinationInterface>,
    /// Replaces the network instance; an empty name withdraws it.
    pub network_instance: Option<Box<str>>,
    /// Replaces the outer header.
    pub outer_header_creation: Option<HeaderCreation>,
    /// Withdraws the outer header; a new one wins.
    pub withdraw_outer_header: bool,
    /// An End Marker closes the tunnel that the change leaves. Spec: TS 29.244 §8.2.31 (SNDEM).
    pub send_end_marker: bool,
    /// Replaces the traffic class octet of the outer header.
    pub transport_level_marking: Option<u8>,
    /// Replaces the reference point that packets leave to.
    pub interface_type: Option<InterfaceType>,
    /// Replaces the traffic endpoint of the other direction; `Some(None)` withdraws it.
    pub linked_endpoint: Option<Option<TrafficEndpointId>>,
    /// Replaces the redirection; `Some(None)` ends it.
    pub redirect: Option<Option<Redirect>>,
    /// Replaces the forwarding policy; `Some(None)` withdraws it.
    pub policy: Option<Option<Box<str>>>,
}

/// A QER to update. Spec: TS 29.244 §7.5.4.5.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QerUpdate {
    /// The QER.
    pub id: QerId,
    /// Replaces the correlation identifier.
    pub correlation: Option<u32>,
    /// Replaces both gates.
    pub gates: Option<QerGates>,
    /// Replaces the maximum rates.
    pub mbr: Option<Rates>,
    /// Replaces the guaranteed rates.
    pub gbr: Option<Rates>,
    /// Replaces the averaging window. Unit: milliseconds.
    pub averaging_window_ms: Option<u32>,
    /// Replaces the packet rates.
    pub packet_rate: Option<PacketLimits>,
    /// Replaces whether their status is reported when the session ends.
    pub reports_packets: Option<bool>,
    /// Replaces the QoS flow.
    pub qfi: Option<Qfi>,
    /// Replaces the reflective QoS indication.
    pub rqi: Option<bool>,
    /// Replaces the paging policy indicator.
    pub ppi: Option<u8>,
}

/// A BAR to update. Spec: TS 29.244 §7.5.4.11, §7.5.9.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BarUpdate {
    /// The BAR.
    pub id: BarId,
    /// Replaces the delay. Unit: 50 ms.
    pub notification_delay: Option<u8>,
    /// Replaces the number of packets.
    pub suggested_pkts: Option<u16>,
}

/// A part of a rule that is taken away. Spec: TS 29.244 §5.6.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// A part of a PDR.
    Pdr(PdrId, PdrPart),
    /// A part of a FAR.
    Far(FarId, FarPart),
    /// A part of a QER.
    Qer(QerId, QerPart),
    /// A part of a URR.
    Urr(UrrId, UrrPart),
    /// The suggested number of packets of a BAR.
    BarCount(BarId),
}

/// Parts that a PDR may be without. Spec: TS 29.244 §7.5.4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "as of the fields of a PDR")]
pub enum PdrPart {
    OuterHeaderRemoval,
    Far,
    Urrs,
    Qers,
    ActivationTime,
    DeactivationTime,
}

/// Parts that a FAR may be without. Spec: TS 29.244 §7.5.4.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "as of the fields of a FAR")]
pub enum FarPart {
    Bar,
    InterfaceType,
    TransportLevelMarking,
}

/// Parts that a QER may be without. Spec: TS 29.244 §7.5.4.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "as of the fields of a QER")]
pub enum QerPart {
    Correlation,
    Mbr,
    Gbr,
    AveragingWindow,
    PacketRate,
    ControlIndications,
    Qfi,
    Rqi,
    Ppi,
}

/// Parts that a URR may be without. Spec: TS 29.244 §7.5.4.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "as of the fields of UrrSettings")]
pub enum UrrPart {
    Period,
    VolumeThreshold,
    VolumeQuota,
    TimeThreshold,
    TimeQuota,
    EventThreshold,
    EventQuota,
    TimeMechanism,
    NumberOfReports,
    QuotaHoldingTime,
    QuotaValidityTime,
    DroppedThreshold,
    MonitoringTimes,
    InactivityDetectionTime,
    LinkedUrrs,
    Information,
    AggregatedUrrs,
    Exempted,
    QuotaFar,
}
