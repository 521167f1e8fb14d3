//! A change of one PFCP session without IEs: rules to create, update and remove.
//!
//! Removals are applied first, then creations, then updates, so that an identifier may be removed
//! and created again in one change.
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

/// All that one request changes in a session. Establishment is a change of an empty session.
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
    /// For a new session: a session of one of these owners is deleted if it has a TEID or UE
    /// address that the new session is to get.
    pub replaces: Vec<OwnerId>,
    /// True if we chose the TEIDs in the request in a previous run. Spec: TS 29.244 §8.2.136
    /// (RESTI).
    pub is_restoration: bool,
    /// True to discard buffered packets. Spec: TS 29.244 §8.2.31 (DROBU).
    pub drop_buffered: bool,
    /// Traffic endpoints to create.
    pub create_traffic_endpoints: Vec<TrafficEndpointSpec>,
    /// Traffic endpoints to update.
    pub update_traffic_endpoints: Vec<TrafficEndpointSpec>,
    /// Traffic endpoints to remove, together with the PDRs that name them.
    pub remove_traffic_endpoints: Vec<TrafficEndpointId>,
    /// URRs to create.
    pub create_urrs: Vec<Urr>,
    /// URRs to update.
    pub update_urrs: Vec<UrrUpdate>,
    /// URRs to remove; PDRs that name them no longer do.
    pub remove_urrs: Vec<UrrId>,
    /// URRs to report at once; URRs that are removed or new are ignored.
    pub query_urrs: Vec<UrrId>,
    /// QERs whose packet rate status is to be reported. Spec: TS 29.244 §7.5.4.22.
    pub query_packet_rates: Vec<QerId>,
    /// True to report all URRs at once.
    pub query_all_urrs: bool,
    /// The query reference that requested reports carry.
    pub query_reference: Option<u32>,
    /// The user plane inactivity timer; zero stops it.
    pub inactivity_timer: Option<Nanos>,
    /// The network slice that the session belongs to.
    pub s_nssai: Option<SliceIdentity>,
    /// When the request arrived: measurements and timers begin then.
    pub at: Nanos,
    /// The control plane's new endpoint; ignored at establishment, which gets it apart.
    pub cp_f_seid: Option<CpFSeid>,
}

/// A PDR to create. Spec: TS 29.244 §7.5.2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdrSpec {
    /// Identifier, unique within the session.
    pub id: PdrId,
    /// PDRs with a lower value are evaluated first.
    pub precedence: Precedence,
    /// The packets that the PDR detects.
    pub pdi: PdiSpec,
    /// The outer header to remove.
    pub outer_header_removal: Option<HeaderRemoval>,
    /// True if the PDU Session Container is removed with the outer header, not carried on.
    pub container_deletion: bool,
    /// The FAR to apply. `None` is refused unless predefined rules drop all packets.
    pub far: Option<FarId>,
    /// The QERs to enforce; the order does not matter.
    pub qers: Vec<QerId>,
    /// The URRs to measure with; the order does not matter.
    pub urrs: Vec<UrrId>,
    /// When the PDR begins and ceases to match.
    pub times: PdrTimes,
    /// Names of predefined rules, or of groups of them, to activate; the order does not matter. If
    /// there are any, there must be neither filters nor an application.
    pub predefined: Vec<Box<str>>,
}

/// Packet Detection Information as requested. Spec: TS 29.244 §7.5.2.2, table 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdiSpec {
    /// The side from which packets arrive.
    pub source: SourceInterface,
    /// The reference point at which packets arrive.
    pub interface_type: Option<InterfaceType>,
    /// The traffic endpoints with the tunnel and the UE's addresses, which must be absent here.
    /// Packets of any of the endpoints match.
    pub traffic_endpoints: Vec<TrafficEndpointId>,
    /// The local tunnel, chosen by the control plane or to be chosen here.
    pub f_teid: Option<FTeidSpec>,
    /// Name of the network instance on whose interfaces packets must arrive.
    pub network_instance: Option<Box<str>>,
    /// The UE's addresses, at most one of each family.
    pub ue: Option<UeMatch>,
    /// The UE's addresses beyond one of each family.
    pub further_ues: Vec<IpPrefix>,
    /// Networks behind the UE.
    pub framed_routes: Vec<IpPrefix>,
    /// UE addresses to choose here, in addition to those in `ue`.
    pub choose_ue: Option<ChooseUe>,
    /// QoS flows, in any order; empty matches every packet.
    pub qfis: Vec<Qfi>,
    /// Service data flow filters, one of which must match; empty matches every packet.
    pub sdf: Vec<SdfSpec>,
    /// The application that packets must belong to, instead of filters.
    pub application: Option<Box<str>>,
}

/// UE addresses to choose here. All PDRs and traffic endpoints of a session that request an address
/// from the same pools get the same one. Spec: TS 29.244 §5.21.3, §8.2.62 (CHV4, CHV6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChooseUe {
    /// True to choose an IPv4 address.
    pub v4: bool,
    /// True to choose an IPv6 /64.
    pub v6: bool,
    /// Whether the source or the destination of packets is the UE.
    pub side: UeSide,
    /// Identities of the pools to choose from; empty for any pool of the network instance.
    pub pools: Vec<Box<str>>,
}

/// A traffic endpoint to create or to update. Spec: TS 29.244 §7.5.2.7, §7.5.4.13.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrafficEndpointSpec {
    /// Identifier, unique within the session.
    pub id: TrafficEndpointId,
    /// The local tunnel, chosen by the control plane or to be chosen here.
    pub f_teid: Option<FTeidSpec>,
    /// Name of the network instance.
    pub network_instance: Change<Box<str>>,
    /// The UE's addresses, at most one of each family.
    pub ue: Option<UeMatch>,
    /// The UE's addresses beyond one of each family.
    pub further_ues: Vec<IpPrefix>,
    /// Networks behind the UE.
    pub framed_routes: Change<Vec<IpPrefix>>,
    /// The reference point at which packets arrive.
    pub interface_type: Change<InterfaceType>,
    /// UE addresses to choose here, in addition to those in `ue`.
    pub choose_ue: Option<ChooseUe>,
    /// QoS flows; if there are none, PDRs keep their own.
    pub qfis: Change<Vec<Qfi>>,
}

/// A local F-TEID as requested. Spec: TS 29.244 §8.2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FTeidSpec {
    /// The control plane chose it.
    Given {
        /// The TEID; zero is refused.
        teid: Teid,
        /// Our IPv4 address.
        v4: Option<Ipv4Addr>,
        /// Our IPv6 address.
        v6: Option<Ipv6Addr>,
    },
    /// It is to be chosen here.
    Choose {
        /// True to choose an IPv4 address.
        v4: bool,
        /// True to choose an IPv6 address.
        v6: bool,
        /// PDRs with the same CHOOSE ID get the same TEID, even that of existing ones.
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
    /// Replaces the detection information as a whole. But if it names no tunnel, UE nor traffic
    /// endpoint, the present ones stay, with network instance and QoS flows.
    pub pdi: Option<PdiSpec>,
    /// Changes the outer header removal.
    pub outer_header_removal: Change<HeaderRemoval>,
    /// Changes the deletion of the PDU Session Container, together with the removal.
    pub container_deletion: Change<bool>,
    /// Changes the FAR.
    pub far: Change<FarId>,
    /// Replaces the set of QERs.
    pub qers: Change<Vec<QerId>>,
    /// Replaces the set of URRs.
    pub urrs: Change<Vec<UrrId>>,
    /// Changes when the PDR begins and ceases to match.
    pub times: PdrTimesUpdate,
    /// Names of predefined rules or groups to deactivate, each as in its activation.
    pub deactivate: Vec<Box<str>>,
    /// Names of predefined rules or groups to activate, after the deactivations.
    pub activate: Vec<Box<str>>,
}

/// A FAR to update. Spec: TS 29.244 §7.5.4.3.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FarUpdate {
    /// The FAR.
    pub id: FarId,
    /// Changes the action.
    pub action: Change<ApplyAction>,
    /// Changes the BAR.
    pub bar: Change<BarId>,
    /// Changes parts of the forwarding parameters, or provides them. The destination must be set if
    /// the FAR has none yet.
    pub forwarding: Option<ForwardingUpdate>,
    /// Changes the duplicating parameters: by order, because the sets have no identifier. Sets
    /// beyond the last existing one are new.
    pub duplicating: Vec<ForwardingUpdate>,
    /// True to send an End Marker if the FAR leaves its tunnel. Spec: TS 29.244 §8.2.31 (SNDEM).
    pub send_end_marker: bool,
}
