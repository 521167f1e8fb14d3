//! Forwarding action rules.

use adit_rules::{ApplyAction, DestinationInterface, GtpuTunnel, HeaderCreation, Redirect};
use adit_types::{BarId, FarId};

use crate::pack::packed;
use crate::record::{InterfaceType, TrafficEndpointId};
use crate::rule::rule;

packed! {
    /// A FAR. Spec: TS 29.244 §7.5.2.3.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Far {
        /// Identifier, unique within the session.
        pub id: FarId,
        /// The actions: exactly one of DROP, FORW and BUFF. NOCP and BDPN may be set with BUFF,
        /// DDPN with DROP or BUFF, DUPL with any.
        pub action: ApplyAction,
        /// The BAR with the parameters of buffering.
        pub bar: Option<BarId>,
        /// The parameters of forwarding; required while the action is FORW.
        pub forwarding: Option<Forwarding>,
        /// The parameters of copies; at least one is required while the action has DUPL.
        pub duplicating: Vec<Forwarding>,
    }
}

rule! {
    /// Forwarding Parameters, or one set of Duplicating Parameters, which have neither network
    /// instance nor redirection. Spec: TS 29.244 §7.5.2.3, tables 2 and 3.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Forwarding, ForwardingUpdate {
        /// The side to which packets are sent.
        pub destination: DestinationInterface,
        /// Name of the network instance whose interfaces and routes are used.
        pub network_instance: Option<Box<str>>,
        /// The outer header to add. While there is none, nothing is forwarded to Access.
        pub outer_header_creation: Option<HeaderCreation>,
        /// Traffic class octet of the outer header.
        pub transport_level_marking: Option<u8>,
        /// The reference point through which packets leave.
        pub interface_type: Option<InterfaceType>,
        /// The traffic endpoint at which packets of the opposite direction arrive.
        pub linked_endpoint: Option<TrafficEndpointId>,
        /// Where to redirect packets.
        pub redirect: Option<Redirect>,
        /// Identifier of a configured forwarding policy.
        pub policy: Option<Box<str>>,
    }
}

impl Forwarding {
    /// Makes parameters with only a destination.
    #[must_use]
    pub const fn new(destination: DestinationInterface) -> Self {
        Self {
            destination,
            network_instance: None,
            outer_header_creation: None,
            transport_level_marking: None,
            redirect: None,
            policy: None,
            interface_type: None,
            linked_endpoint: None,
        }
    }

    /// True if packets go to Access but the control plane has not named the tunnel yet.
    #[must_use]
    pub fn lacks_tunnel(&self) -> bool {
        self.destination == DestinationInterface::Access && self.outer_header_creation.is_none()
    }

    /// True if packets leave in a GTP-U tunnel.
    #[must_use]
    pub fn is_gtpu(&self) -> bool {
        self.tunnel().is_some()
    }

    /// Returns the GTP-U tunnel in which packets leave, if there is one.
    #[must_use]
    pub fn tunnel(&self) -> Option<GtpuTunnel> {
        self.outer_header_creation?.tunnel()
    }

    /// True if packets leave to a data network, which means without a GTP-U tunnel.
    #[must_use]
    pub fn leads_to_a_data_network(&self) -> bool {
        use DestinationInterface::{Core, SgiLanN6Lan};
        matches!(self.destination, Core | SgiLanN6Lan) && !self.is_gtpu()
    }
}

impl Far {
    /// Returns the tunnel of packets; `None` if the FAR creates no GTP-U header.
    #[must_use]
    pub fn tunnel(&self) -> Option<GtpuTunnel> {
        self.forwarding.as_ref()?.tunnel()
    }
}
