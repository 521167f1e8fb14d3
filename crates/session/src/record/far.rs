//! Forwarding action rules.

use adit_rules::{ApplyAction, DestinationInterface, OuterHeaderCreation};
use adit_types::FarId;

/// A FAR. Spec: TS 29.244 §7.5.2.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Far {
    /// Identifier, unique within the session.
    pub id: FarId,
    /// What to do: exactly one of DROP and FORW, nothing else yet.
    pub action: ApplyAction,
    /// Where and how to forward; required while the action forwards.
    pub forwarding: Option<Forwarding>,
}

/// Forwarding Parameters. Spec: TS 29.244 §7.5.2.3, table 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// Where to send packets.
    pub destination: DestinationInterface,
    /// Name of the network instance whose interfaces and routes are used.
    pub network_instance: Option<Box<str>>,
    /// What to put in front of packets; required towards Access.
    pub outer_header_creation: Option<OuterHeaderCreation>,
    /// Traffic class octet of the outer header.
    pub transport_level_marking: Option<u8>,
}
