//! Associations with CP functions. Spec: TS 29.244 §6.2.6.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use adit_pfcp::ie::{self, CpFunctionFeatures, Fqdn};
use adit_session::OwnerId;
use adit_types::Nanos;
use serde::{Deserialize, Serialize};

use crate::ntp::is_newer;
use crate::path_qos::PathQosControl;
use crate::smf_set::SmfSet;

/// Identity of a node. Stored records have it. Spec: TS 29.244 §8.2.38.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeIdentity {
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A fully qualified domain name in lower case, labels separated by dots.
    Fqdn(String),
}

impl NodeIdentity {
    /// The identity as an IE. A name that is no FQDN shows as the unspecified address; the
    /// configuration does not let one through.
    pub(crate) fn to_ie(&self) -> ie::NodeId<'_> {
        match self {
            Self::Ipv4(addr) => ie::NodeId::Ipv4(*addr),
            Self::Ipv6(addr) => ie::NodeId::Ipv6(*addr),
            Self::Fqdn(name) => Fqdn::from_text(name)
                .map_or(ie::NodeId::Ipv4(Ipv4Addr::UNSPECIFIED), ie::NodeId::Fqdn),
        }
    }

    pub(crate) fn from_ie(ie: &ie::NodeId<'_>) -> Self {
        match ie {
            ie::NodeId::Ipv4(addr) => Self::Ipv4(*addr),
            ie::NodeId::Ipv6(addr) => Self::Ipv6(*addr),
            ie::NodeId::Fqdn(name) => Self::Fqdn(name.to_string().to_ascii_lowercase()),
        }
    }
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4(addr) => addr.fmt(f),
            Self::Ipv6(addr) => addr.fmt(f),
            Self::Fqdn(name) => f.write_str(name),
        }
    }
}

/// An established association with a CP function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Association {
    /// The CP function.
    pub node_id: NodeIdentity,
    /// Its address, the only one from which requests are accepted.
    pub address: IpAddr,
    /// The UDP port to which our requests go.
    pub port: u16,
    /// Names this association in the session store; never reused by a later one.
    pub owner: OwnerId,
    /// When the peer started. Unit: seconds since 1900-01-01 (NTP).
    pub recovery_time_stamp: u32,
    /// When the association came into being.
    pub since: Nanos,
    /// The peer's CP Function Features, octet 5 in the lowest bits; zero when it sent none.
    pub cp_function_features: u64,
    /// The SMF set that the peer belongs to.
    pub smf_set: SmfSet,
    /// Our Recovery Time Stamp towards it: it moves when sessions end that the peer may still
    /// believe in. Unit: seconds since 1900-01-01 (NTP).
    pub own_time_stamp: u32,
    /// When its sessions end if it stays silent; `None` while it answers heartbeats.
    pub silent_until: Option<Nanos>,
    /// The association moved to an address whose Recovery Time Stamp was not seen yet.
    pub(crate) is_time_stamp_unknown: bool,
    /// The latest Recovery Time Stamp before the known one that was not repeated.
    pub(crate) older_time_stamp: Option<u32>,
    /// The claim of its Heartbeat Requests about a restart.
    pub(crate) restart_claim: RestartClaim,
    /// When our next Heartbeat Request is due, unless one is in flight.
    pub(crate) next_heartbeat: Nanos,
    /// A Heartbeat Request is in flight.
    pub(crate) heartbeat_in_flight: bool,
    /// The deadline by which the peer must release it, if the operator requested a release.
    pub(crate) release_due: Option<Nanos>,
}

/// Whether the peer's Heartbeat Requests claim a restart: they carry a newer Recovery Time Stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RestartClaim {
    /// Nothing.
    #[default]
    None,
    /// A request claims that the peer restarted: its next heartbeat response decides.
    Open,
    /// The peer's heartbeat response contradicted the claim: its requests are not believed.
    Refuted,
}

/// The meaning of a Recovery Time Stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeStampMeaning {
    /// The peer is as it was known.
    Known,
    /// The peer has restarted.
    Restarted,
    /// The message is from before the latest restart, and to be discarded.
    Late,
}

impl Association {
    /// Reads a Recovery Time Stamp of the peer. One before the known one is that of a late message,
    /// unless it comes again, or a later one does: then the peer's clock was set back before it
    /// restarted. Spec: TS 23.007 §19A.
    pub(crate) fn read_time_stamp(&mut self, seen: u32) -> TimeStampMeaning {
        if self.is_time_stamp_unknown || seen == self.recovery_time_stamp {
            self.older_time_stamp = None;
            TimeStampMeaning::Known
        } else if is_newer(seen, self.recovery_time_stamp)
            || self.older_time_stamp.replace(seen).is_some_and(|before| !is_newer(before, seen))
        {
            TimeStampMeaning::Restarted
        } else {
            TimeStampMeaning::Late
        }
    }

    /// Where requests to the CP function go.
    #[must_use]
    pub const fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// True while the peer does not answer heartbeats and its sessions outlive it.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.silent_until.is_some()
    }

    /// True if the CP function announced this feature.
    pub(crate) fn has(&self, feature: CpFunctionFeatures) -> bool {
        self.cp_function_features & u64::from(feature.bits()) != 0
    }
}

/// The parameters of an association setup.
#[derive(Debug, Clone)]
pub(crate) struct AssociationParameters {
    pub address: IpAddr,
    pub node_id: NodeIdentity,
    pub recovery_time_stamp: u32,
    pub cp_function_features: u64,
    pub smf_set: SmfSet,
    /// Keep the sessions that this peer has: those controlled from these addresses, or all if
    /// there are none. Spec: TS 29.244 §6.2.6.2.2.
    pub retain: Option<Vec<IpAddr>>,
    /// Delays of GTP-U paths that it requests.
    pub path_controls: Vec<PathQosControl>,
    pub requested_by_us: bool,
}
