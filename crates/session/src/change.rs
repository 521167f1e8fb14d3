//! A change of one PFCP session, free of IEs: rules to create, update and remove.
//!
//! Within one change, removals are applied first, then
//! creations, then updates, so that an identifier may be removed and created again at once.
//! Spec: TS 29.244 §7.5.2, §7.5.4.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_rules::{ApplyAction, HeaderRemoval, SourceInterface};
use adit_types::{BarId, FarId, IpPrefix, Nanos, PdrId, Precedence, QerId, Qfi, Teid, UrrId};

use crate::cp_function::{CpFSeid, OwnerId};
use crate::record::{
    Bar, BarUpdate, Far, ForwardingUpdate, InterfaceType, PdrTimes, PdrTimesUpdate, Qer, QerUpdate,
    SdfSpec, SliceIdentity, TrafficEndpointId, UeMatch, UeSide, Urr, UrrUpdate,
};
use crate::rule::Change;

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
    /// Traffic endpoints to update.
    pub update_traffic_endpoints: Vec<TrafficEndpointSpec>,
    /// Traffic endpoints to remove, with the PDRs that name them.
    pub remove_traffic_endpoints: Vec<TrafficEndpointId>,
    /// URRs to create.
    pub create_urrs: Vec<Urr>,
    /// URRs to update.
    pub update_urrs: Vec<UrrUpdate>,
    /// URRs to remove; PDRs stop naming them.
    pub remove_urrs: Vec<UrrId>,
    /// URRs to report at once; removed and new ones are ignored.
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
    /// Names of the predefined rules, or of groups of them, to activate; a set. With any, there
    /// must be neither filters nor an application.
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrafficEndpointSpec {
    /// Identifier, unique within the session.
    pub id: TrafficEndpointId,
    /// The local tunnel, given by the control plane or to be chosen here.
    pub f_teid: Option<FTeidSpec>,
    /// Name of the network instance.
    pub network_instance: Change<Box<str>>,
    /// The UE's addresses.
    pub ue: Option<UeMatch>,
    /// The UE's addresses beyond one per family.
    pub further_ues: Vec<IpPrefix>,
    /// Networks behind the UE.
    pub framed_routes: Change<Vec<IpPrefix>>,
    /// The reference point that packets arrive at.
    pub interface_type: Change<InterfaceType>,
    /// UE addresses to be chosen here, in addition to those in `ue`.
    pub choose_ue: Option<ChooseUe>,
    /// QoS flows; without any, PDRs keep their own.
    pub qfis: Change<Vec<Qfi>>,
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
    pub precedence: Change<Precedence>,
    /// Replaces the detection information as a whole. One that names neither tunnel, UE nor traffic
    /// endpoint keeps those of the previous one, its network instance and its QoS flows.
    pub pdi: Option<PdiSpec>,
    /// The outer header removal.
    pub outer_header_removal: Change<HeaderRemoval>,
    /// The deletion of the PDU Session Container; changes with the removal.
    pub container_deletion: Change<bool>,
    /// The FAR.
    pub far: Change<FarId>,
    /// The set of QERs.
    pub qers: Change<Vec<QerId>>,
    /// The set of URRs.
    pub urrs: Change<Vec<UrrId>>,
    /// When it begins and ceases to match.
    pub times: PdrTimesUpdate,
    /// Names of predefined rules or groups to deactivate; each equals the name that activated it.
    pub deactivate: Vec<Box<str>>,
    /// Names of predefined rules or groups to activate, after others were deactivated.
    pub activate: Vec<Box<str>>,
}

/// A FAR to update. Spec: TS 29.244 §7.5.4.3.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FarUpdate {
    /// The FAR.
    pub id: FarId,
    /// The action.
    pub action: Change<ApplyAction>,
    /// The BAR.
    pub bar: Change<BarId>,
    /// Changes parts of the forwarding parameters, or provides them. The destination must be set if
    /// the FAR has none yet.
    pub forwarding: Option<ForwardingUpdate>,
    /// Changes the sets of duplicating parameters in their order: they have no identifier.
    /// Parameters beyond the last set provide a new one.
    pub duplicating: Vec<ForwardingUpdate>,
    /// An End Marker closes the tunnel that the change leaves. Spec: TS 29.244 §8.2.31 (SNDEM).
    pub send_end_marker: bool,
}
