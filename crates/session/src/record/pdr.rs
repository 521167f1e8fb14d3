//! Packet detection rules.

use adit_rules::{HeaderRemoval, SourceInterface, UeAddresses};
use adit_types::{FarId, IpPrefix, PdrId, Precedence, QerId, Qfi, UrrId};

use crate::pack::packed;
use crate::record::{InterfaceType, LocalFTeid, PdrTimes, Sdf, TrafficEndpointId, UeMatch};

packed! {
    /// A PDR. Spec: TS 29.244 §7.5.2.2.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Pdr {
        /// Identifier, unique within the session.
        pub id: PdrId,
        /// Lower values are evaluated first, equal ones by ascending identifier.
        pub precedence: Precedence,
        /// The packets that it matches.
        pub pdi: Pdi,
        /// The header to remove in front of the inner packet.
        pub outer_header_removal: Option<HeaderRemoval>,
        /// Removes the PDU Session Container with the outer header instead of carrying it on.
        pub container_deletion: bool,
        /// The FAR to apply. Present in every stored PDR unless its predefined rules drop all
        /// packets.
        pub far: Option<FarId>,
        /// The QERs to enforce, without repetition.
        pub qers: Vec<QerId>,
        /// The URRs to measure with, without repetition.
        pub urrs: Vec<UrrId>,
        /// When it begins and ceases to match.
        pub times: PdrTimes,
        /// It matched packets by `times` when the session last changed.
        pub is_active: bool,
        /// Names of the active predefined rules and groups, without repetition. If there are any,
        /// packets must match one of the rules.
        pub predefined: Vec<Box<str>>,
    }

    /// Packet Detection Information. Spec: TS 29.244 §7.5.2.2, table 2.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Pdi {
        /// The side that packets come from.
        pub source: SourceInterface,
        /// The reference point that packets arrive at; a traffic endpoint may name another.
        pub interface_type: Option<InterfaceType>,
        /// The traffic endpoints whose parts this PDI takes over; the fields below have those of
        /// the first.
        pub traffic_endpoints: Vec<TrafficEndpointId>,
        /// This PDI with the parts of each further traffic endpoint.
        pub further: Vec<Pdi>,
        /// The parts that the control plane provided in addition to the traffic endpoints.
        pub own: ReplaceablePdiParts,
        /// The local tunnel that packets must arrive in.
        pub f_teid: Option<LocalFTeid>,
        /// Name of the network instance whose interfaces packets must arrive on.
        pub network_instance: Option<Box<str>>,
        /// The UE's addresses.
        pub ue: Option<UeMatch>,
        /// The UE's addresses beyond one per family.
        pub further_ues: Vec<IpPrefix>,
        /// Networks behind the UE. Spec: TS 29.244 §5.16.
        pub framed_routes: Vec<IpPrefix>,
        /// QoS flows in ascending order, without repetition.
        pub qfis: Vec<Qfi>,
        /// Service data flow filters.
        pub sdf: Vec<Sdf>,
        /// The application that packets must belong to; excludes filters.
        pub application: Option<Box<str>>,
    }

    /// Parts of a PDI that a traffic endpoint may replace. Spec: TS 29.244 §5.2.1A.2A.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct ReplaceablePdiParts {
        /// Name of the network instance.
        pub network_instance: Option<Box<str>>,
        /// QoS flows in ascending order, without repetition.
        pub qfis: Vec<Qfi>,
        /// The reference point that packets arrive at.
        pub interface_type: Option<InterfaceType>,
    }
}

impl Pdi {
    /// The alternatives, one of which packets must match: one per traffic endpoint.
    pub fn each(&self) -> impl Iterator<Item = &Self> {
        core::iter::once(self).chain(&self.further)
    }

    /// Networks behind the UE, and its addresses beyond one per family.
    pub fn ue_networks(&self) -> impl Iterator<Item = IpPrefix> {
        self.further_ues.iter().chain(&self.framed_routes).copied()
    }

    /// True when packets of any UE match.
    #[must_use]
    pub fn is_of_any_ue(&self) -> bool {
        self.ue_addresses().is_empty() && self.ue_networks().next().is_none()
    }

    /// The UE addresses that packets must carry; empty without any.
    #[must_use]
    pub fn ue_addresses(&self) -> UeAddresses {
        self.ue.map(|ue| ue.addresses).unwrap_or_default()
    }
}
