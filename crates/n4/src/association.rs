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

/// The identity of a node (Node ID). Stored records contain it. Spec: TS 29.244 §8.2.38.
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
    /// Returns the identity as an IE. A name that is no FQDN becomes the unspecified address; the
    /// configuration admits no such name.
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
    /// The Node ID of the CP function.
    pub node_id: NodeIdentity,
    /// The address of the CP function, from which it sends its requests; [`SmfSet`] has
    /// alternatives.
    pub address: IpAddr,
    /// The UDP port of the CP function to which our requests go.
    pub port: u16,
    /// Identifies this association in the session store; never used again for a later association.
    pub owner: OwnerId,
    /// When the peer started (Recovery Time Stamp). Unit: seconds since 1900-01-01 (NTP).
    pub recovery_time_stamp: u32,
    /// When the association was established.
    pub since: Nanos,
    /// The CP Function Features of the peer, octet 5 in the lowest bits; zero if it sent none.
    pub cp_function_features: u64,
    /// The SMF set that the peer belongs to, and its alternative addresses.
    pub smf_set: SmfSet,
    /// The Recovery Time Stamp that we send to the peer: moved on when sessions end that the peer
    /// may still believe to exist. Unit: seconds since 1900-01-01 (NTP).
    pub own_time_stamp: u32,
    /// When the sessions end if the peer stays silent; `None` while it answers heartbeats.
    pub silent_until: Option<Nanos>,
    /// True if the association moved to an address whose Recovery Time Stamp has not been received
    /// yet.
    pub(crate) is_time_stamp_unknown: bool,
    /// The last Recovery Time Stamp that was older than the known one; `None` once the known one is
    /// received again.
    pub(crate) older_time_stamp: Option<u32>,
    /// Whether Heartbeat Requests of the peer claim that it restarted.
    pub(crate) restart_claim: RestartClaim,
    /// When our next Heartbeat Request is due, unless one awaits its response.
    pub(crate) next_heartbeat: Nanos,
    /// True while a Heartbeat Request of ours awaits its response.
    pub(crate) heartbeat_in_flight: bool,
    /// When the peer must have released the association; `None` unless the operator requested that.
    pub(crate) release_due: Option<Nanos>,
}

/// Whether the peer's Heartbeat Requests claim a restart: they carry a newer Recovery Time Stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RestartClaim {
    /// No request claims a restart.
    #[default]
    None,
    /// A request claims that the peer restarted; the peer's next Heartbeat Response decides.
    Open,
    /// A Heartbeat Response of the peer contradicted the claim, so its requests are not believed.
    Refuted,
}

/// The conclusion from a Recovery Time Stamp that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeStampMeaning {
    /// The peer has not restarted.
    Known,
    /// The peer has restarted.
    Restarted,
    /// The message was sent before the latest restart, and must be discarded.
    Late,
}

impl Association {
    /// Compares a received Recovery Time Stamp with the known one. An older one comes from a late
    /// message, unless the next older one is the same or later: then the peer has restarted after
    /// its clock was set back. Spec: TS 23.007 §19A.
    pub(crate) fn classify_time_stamp(&mut self, seen: u32) -> TimeStampMeaning {
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

    /// Returns where requests to the CP function go.
    #[must_use]
    pub const fn socket(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// True while the peer does not answer heartbeats and its sessions stay nevertheless.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.silent_until.is_some()
    }

    /// True if the CP function announced this feature.
    pub(crate) fn has(&self, feature: CpFunctionFeatures) -> bool {
        self.cp_function_features & u64::from(feature.bits()) != 0
    }
}

/// The contents of an association setup, requested by either side.
#[derive(Debug, Clone)]
pub(crate) struct AssociationParameters {
    pub address: IpAddr,
    pub node_id: NodeIdentity,
    pub recovery_time_stamp: u32,
    pub cp_function_features: u64,
    pub smf_set: SmfSet,
    /// Requests that sessions of this peer be retained: those controlled from these addresses, or
    /// all if the list is empty; `None` for no request. Spec: TS 29.244 §6.2.6.2.2.
    pub retain: Option<Vec<IpAddr>>,
    /// The GTP-U paths whose delays the CP function requests.
    pub path_controls: Vec<PathQosControl>,
    pub requested_by_us: bool,
}
