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
        /// PDRs with a lower value are evaluated first; among equals, the lower identifier.
        pub precedence: Precedence,
        /// The packets that the PDR matches.
        pub pdi: Pdi,
        /// The outer header to remove.
        pub outer_header_removal: Option<HeaderRemoval>,
        /// True if the PDU Session Container is removed with the outer header, not carried on.
        pub container_deletion: bool,
        /// The FAR to apply. Every stored PDR has one unless its predefined rules drop all packets.
        pub far: Option<FarId>,
        /// The QERs to enforce, without repetition.
        pub qers: Vec<QerId>,
        /// The URRs to measure with, without repetition.
        pub urrs: Vec<UrrId>,
        /// When the PDR begins and ceases to match.
        pub times: PdrTimes,
        /// True if, by `times`, the PDR matched packets when the session last changed.
        pub is_active: bool,
        /// Names of the active predefined rules and groups, without repetition. If there are any,
        /// packets must match one of these rules.
        pub predefined: Vec<Box<str>>,
    }

    /// Packet Detection Information. Spec: TS 29.244 §7.5.2.2, table 2.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Pdi {
        /// The side from which packets arrive.
        pub source: SourceInterface,
        /// The reference point at which packets arrive: that of the first traffic endpoint if it
        /// names one, else the PDI's own.
        pub interface_type: Option<InterfaceType>,
        /// The traffic endpoints from which this PDI takes tunnel and UE addresses. The fields from
        /// `f_teid` on hold the values for the first endpoint.
        pub traffic_endpoints: Vec<TrafficEndpointId>,
        /// A copy of this PDI for each further traffic endpoint, with the values of that endpoint.
        pub further: Vec<Pdi>,
        /// The values in the PDI itself that traffic endpoints may replace.
        pub own: ReplaceablePdiParts,
        /// The local tunnel in which packets must arrive.
        pub f_teid: Option<LocalFTeid>,
        /// Name of the network instance on whose interfaces packets must arrive.
        pub network_instance: Option<Box<str>>,
        /// The UE's addresses, at most one of each family.
        pub ue: Option<UeMatch>,
        /// The UE's addresses beyond one of each family.
        pub further_ues: Vec<IpPrefix>,
        /// Networks behind the UE. Spec: TS 29.244 §5.16.
        pub framed_routes: Vec<IpPrefix>,
        /// QoS flows in ascending order, without repetition.
        pub qfis: Vec<Qfi>,
        /// Service data flow filters.
        pub sdf: Vec<Sdf>,
        /// The application to which packets must belong; there are no filters then.
        pub application: Option<Box<str>>,
    }

    /// Fields of a PDI that a traffic endpoint may replace. Spec: TS 29.244 §5.2.1A.2A.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct ReplaceablePdiParts {
        /// Name of the network instance.
        pub network_instance: Option<Box<str>>,
        /// QoS flows in ascending order, without repetition.
        pub qfis: Vec<Qfi>,
        /// The reference point at which packets arrive.
        pub interface_type: Option<InterfaceType>,
    }
}

impl Pdi {
    /// Returns the alternatives of which packets must match one: this PDI, and its copy for each
    /// further traffic endpoint.
    pub fn each(&self) -> impl Iterator<Item = &Self> {
        core::iter::once(self).chain(&self.further)
    }

    /// Returns the networks behind the UE, and its addresses beyond one of each family.
    pub fn ue_networks(&self) -> impl Iterator<Item = IpPrefix> {
        self.further_ues.iter().chain(&self.framed_routes).copied()
    }

    /// True if packets of any UE match.
    #[must_use]
    pub fn is_of_any_ue(&self) -> bool {
        self.ue_addresses().is_empty() && self.ue_networks().next().is_none()
    }

    /// Returns the UE addresses that packets must carry; empty if the PDI names none.
    #[must_use]
    pub fn ue_addresses(&self) -> UeAddresses {
        self.ue.map(|ue| ue.addresses).unwrap_or_default()
    }
}
