//! Traffic endpoints: tunnel and UE addresses that several PDRs of a session share.

use adit_types::{IpPrefix, Qfi};

use crate::pack::packed;
use crate::record::{InterfaceType, LocalFTeid, UeMatch};

/// Identifier of a traffic endpoint, unique within its session. Spec: TS 29.244 §8.2.92.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TrafficEndpointId(pub u8);

packed! {
    /// A traffic endpoint. PDRs that name it take over its fields. Spec: TS 29.244 §7.5.2.7.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct TrafficEndpoint {
        /// Identifier.
        pub id: TrafficEndpointId,
        /// The local tunnel.
        pub f_teid: Option<LocalFTeid>,
        /// Name of the network instance.
        pub network_instance: Option<Box<str>>,
        /// The UE's addresses, at most one of each family.
        pub ue: Option<UeMatch>,
        /// The UE's addresses beyond one of each family.
        pub further_ues: Vec<IpPrefix>,
        /// Networks behind the UE.
        pub framed_routes: Vec<IpPrefix>,
        /// The reference point at which packets arrive.
        pub interface_type: Option<InterfaceType>,
        /// QoS flows in ascending order, without repetition; if empty, PDRs keep their own.
        pub qfis: Vec<Qfi>,
    }
}
