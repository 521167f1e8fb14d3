//! Forwarding action rules.

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel, OuterHeaderCreation};
use adit_types::{BarId, FarId};

use crate::record::{InterfaceType, TrafficEndpointId};

/// A FAR. Spec: TS 29.244 §7.5.2.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Far {
    /// Identifier, unique within the session.
    pub id: FarId,
    /// What to do: exactly one of DROP, FORW and BUFF; NOCP and BDPN with BUFF, DDPN with DROP or
    /// BUFF.
    pub action: ApplyAction,
    /// How to buffer.
    pub bar: Option<BarId>,
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
    /// The reference point that packets leave to.
    pub interface_type: Option<InterfaceType>,
    /// The traffic endpoint that receives the other direction of the traffic.
    pub linked_endpoint: Option<TrafficEndpointId>,
}

impl Far {
    /// The tunnel that packets are sent through, if the FAR creates a GTP-U header.
    #[must_use]
    pub fn tunnel(&self) -> Option<GtpuTunnel> {
        match self.forwarding.as_ref()?.outer_header_creation? {
            OuterHeaderCreation::Gtpu(tunnel) => Some(tunnel),
            _ => None,
        }
    }
}
