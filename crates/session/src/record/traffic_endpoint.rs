//! Traffic endpoints: what several PDRs of a session share.

use adit_types::Qfi;

use crate::record::{FTeid, UeMatch};

/// Identifier of a traffic endpoint, unique within its session. Spec: TS 29.244 §8.2.92.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficEndpointId(pub u8);

/// A traffic endpoint. PDRs that name it take over what it has. Spec: TS 29.244 §7.5.2.7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficEndpoint {
    /// Identifier.
    pub id: TrafficEndpointId,
    /// The local tunnel.
    pub f_teid: Option<FTeid>,
    /// Name of the network instance.
    pub network_instance: Option<Box<str>>,
    /// The UE's addresses.
    pub ue: Option<UeMatch>,
    /// QoS flows in ascending order, without repetition; empty leaves those of the PDRs.
    pub qfis: Vec<Qfi>,
}
