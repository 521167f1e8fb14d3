//! The configured objects to which rules refer by name.

use adit_rules::sdf::AddrMatch;
use adit_rules::{OuterTos, SdfSet, Steering};

use crate::record::SliceIdentity;

mod catalog;
mod interfaces;
mod local_interface;
mod pfd;
mod predefined;
mod qos;
mod tunnel_routes;

pub(crate) use catalog::RuleCatalog;
pub(crate) use local_interface::{DomainSet, GtpuSide};
pub use local_interface::{LocalAddresses, LocalInterface};
pub(crate) use pfd::Pfds;
pub use pfd::{ChangedApplications, PfdApplication, PfdProvision, PfdRefusal, ProvidedApplication};
pub use predefined::{PredefinedAction, PredefinedDetection, PredefinedRule};
pub use qos::{Enforcement, QosPolicy, Slice};
pub use tunnel_routes::TunnelRoutes;

/// All objects that rules may name and that the control plane does not provide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provisioning {
    /// Our logical interfaces, by `InterfaceId`. If there are none, every network instance is
    /// accepted and stands for all interfaces.
    pub interfaces: Vec<LocalInterface>,
    /// The destinations to which the GTP-U interfaces lead.
    pub tunnel_routes: TunnelRoutes,
    /// Pools from which we choose UE addresses; prefixes do not overlap.
    pub ue_pools: Vec<UePool>,
    /// Applications that PDIs may name; identifiers differ.
    pub applications: Vec<Application>,
    /// Forwarding policies that FARs may name; identifiers differ.
    pub policies: Vec<ProvisionedForwardingPolicy>,
    /// Rules that PDRs may activate; names differ from each other and from those of groups.
    pub predefined_rules: Vec<PredefinedRule>,
    /// DSCP and ECN of outer headers; a FAR's own DSCP takes precedence.
    pub outer_tos: OuterTos,
    /// How rates are enforced.
    pub qos: QosPolicy,
    /// Accepted deviations of requests from the standard.
    pub tolerances: Tolerances,
    /// The TEIDs from which we choose.
    pub teid_range: TeidRange,
}

/// TEIDs whose first bits are equal; all TEIDs by default. Spec: TS 29.244 §8.2.82 (Release 15),
/// TEIDRI and
/// TEID Range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TeidRange {
    /// How many first bits are equal. Range:
    /// 0..=[`teid_range_bits_max`](crate::teid_range_bits_max).
    pub bits: u8,
    /// The value of these bits. Range: below 2 to the power of `bits`.
    pub value: u8,
}

/// Support for requests of some control planes that deviate from the standard, if it harms control
/// planes that follow the standard. All are off by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tolerances {
    /// True if the PDRs from Access in one network instance of a session that request an F-TEID
    /// without a CHOOSE ID share one, instead of getting one each. Spec: TS 29.244 §8.2.3.
    pub one_f_teid_per_session: bool,
}

/// A forwarding policy. Spec: TS 29.244 §5.4.8, §8.2.23.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionedForwardingPolicy {
    /// Forwarding Policy Identifier.
    pub id: Box<str>,
    /// The network instance whose interfaces and routes are used, even if the FAR names another.
    pub network_instance: Option<Box<str>>,
    /// The next hop of packets without an outer header.
    pub steering: Steering,
    /// Differentiated services code point: of the outer header if the FAR sets none, and of the
    /// packet if it gets no outer header. Range: 0..=63.
    pub dscp: Option<u8>,
    /// True if packets from one UE to another are switched locally instead of leaving; `None` if
    /// each N6 interface decides.
    pub local_switching: Option<bool>,
}

/// An application, detected by its service data flows. Spec: TS 29.244 §5.2.1A.2, §8.2.6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Application ID.
    pub id: Box<str>,
    /// At least one filter, of which one must match a packet.
    pub filters: SdfSet,
}

/// A pool of UE addresses. Spec: TS 29.244 §5.21, §8.2.128.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UePool {
    /// The network instance whose UEs the pool serves; `None` serves all.
    pub network_instance: Option<Box<str>>,
    /// UE IP address Pool Identity, by which the control plane may name the pool.
    pub identity: Option<Box<str>>,
    /// The network slice of the UEs, as announced to CP functions.
    pub s_nssai: Option<SliceIdentity>,
    /// The addresses: IPv4 addresses, or IPv6 /64s of a prefix of at most 64 bits.
    pub prefix: AddrMatch,
}

impl UePool {
    /// True for a pool of IPv4 addresses.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        matches!(self.prefix, AddrMatch::V4(_))
    }
}

impl Provisioning {
    /// Returns the filters of an application; `None` if it is unknown.
    fn application(&self, id: &str) -> Option<&SdfSet> {
        let found = self.applications.iter().find(|known| &*known.id == id);
        found.map(|known| &known.filters)
    }

    /// Returns the forwarding policy with this identifier.
    pub(crate) fn policy(&self, id: &str) -> Option<&ProvisionedForwardingPolicy> {
        self.policies.iter().find(|known| &*known.id == id)
    }
}
