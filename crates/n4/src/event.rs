//! Changes of state worth a log line.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use adit_store::{RecordKind, RecordName};
use adit_types::{Nanos, Seid};

use crate::association::NodeIdentity;

/// Why an association ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownReason {
    /// The peer released it.
    Released,
    /// Our heartbeats stayed without a response.
    HeartbeatsLost,
    /// Our heartbeats stayed without a response for as long as sessions may outlive their peer.
    SilentTooLong,
    /// The peer's Recovery Time Stamp changed.
    PeerRestarted,
    /// The peer set it up again.
    SetUpAgain,
    /// The operator ended it.
    EndedByOperator,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released by the peer",
            Self::HeartbeatsLost => "no response to heartbeats",
            Self::SilentTooLong => "no response to heartbeats for n4.sessions_outlive_peer_s",
            Self::PeerRestarted => "the peer restarted",
            Self::SetUpAgain => "set up again by the peer",
            Self::EndedByOperator => "ended by the operator",
        })
    }
}

/// Why a CP function has not released an association as the operator wished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseFailure {
    /// No response after N1 retransmissions.
    NoResponse,
    /// The peer refused; the code point of its Cause.
    Refused(u8),
    /// The time that it was granted is over.
    Late,
}

impl fmt::Display for ReleaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResponse => f.write_str("no response"),
            Self::Refused(cause) => write!(f, "refused with Cause {cause}"),
            Self::Late => f.write_str("not released in the time granted"),
        }
    }
}

/// Why our own association setup did not succeed. It is tried again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupFailure {
    /// No response after N1 retransmissions.
    NoResponse,
    /// The peer refused; the code point of its Cause.
    Refused(u8),
    /// The response made no sense.
    Malformed,
    /// The peer's Node ID has an association from another address.
    NodeIdInUse,
    /// `limits::ASSOCIATIONS_MAX` associations exist.
    TooManyAssociations,
    /// This node stops.
    Stopping,
}

impl fmt::Display for SetupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResponse => f.write_str("no response"),
            Self::Refused(cause) => write!(f, "refused with Cause {cause}"),
            Self::Malformed => f.write_str("malformed response"),
            Self::NodeIdInUse => f.write_str("its Node ID is associated from another address"),
            Self::Stopping => f.write_str("this node stops"),
            Self::TooManyAssociations => f.write_str("too many associations"),
        }
    }
}

/// A change of state worth a log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeEvent {
    /// An association came into being.
    AssociationUp {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// True when the request was ours.
        requested_by_us: bool,
    },
    /// An association ended; its sessions are gone.
    AssociationDown {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// How many sessions were removed.
        sessions: usize,
        /// Why.
        reason: DownReason,
    },
    /// A peer does not answer heartbeats any more. Its sessions stay.
    PeerSilent {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// How many sessions stay.
        sessions: usize,
        /// For how long.
        outlive: Nanos,
    },
    /// A silent peer answers again, and has not restarted.
    PeerAnswers {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// How many sessions it has.
        sessions: usize,
    },
    /// A CP function has not released its association as the operator wished. The association goes
    /// on.
    NotReleased {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// Why.
        failure: ReleaseFailure,
    },
    /// A peer shows a new Recovery Time Stamp. `AssociationDown` follows.
    PeerRestarted {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
    },
    /// Our own association setup failed and is tried again after `retry_after`.
    SetupFailed {
        /// The configured peer.
        to: SocketAddr,
        /// Why.
        failure: SetupFailure,
        /// Time until the next attempt.
        retry_after: Nanos,
    },
    /// A GTP-U peer does not answer any more.
    PathDown {
        /// The peer.
        peer: IpAddr,
    },
    /// A GTP-U peer answers again.
    PathUp {
        /// The peer.
        peer: IpAddr,
    },
    /// Packets to a GTP-U peer exceed the MTU of a link on their way. They have at most this length
    /// for ten minutes.
    PathNarrowed {
        /// The peer.
        peer: IpAddr,
        /// Unit: octets of the outer IP packet.
        mtu_bytes: u16,
        /// The router that said so.
        router: IpAddr,
    },
    /// A GTP-U peer restarted.
    GtpuPeerRestarted {
        /// The peer.
        peer: IpAddr,
    },
    /// A fault of this node ended the handling of a message. Reported once per kind.
    Fault {
        /// Who sent the message.
        from: IpAddr,
        /// Its type.
        message_type: &'static str,
        /// The text of the fault.
        text: String,
    },
    /// A fault of this node ended work that no message requested. Reported once per kind.
    InternalFault {
        /// The activity that failed.
        activity: &'static str,
        /// The text of the fault.
        text: String,
    },
    /// A request was refused. Reported at most once per second for those about sessions, and for
    /// others.
    Refused {
        /// The sender of the request.
        from: IpAddr,
        /// Type of the request.
        message_type: &'static str,
        /// Every error found; the first is the one that was answered.
        findings: Vec<String>,
    },
    /// A CP function refused a report, which is not delivered. Reported at most once per second.
    ReportRefused {
        /// Who refused.
        from: IpAddr,
        /// Type of the response.
        message_type: &'static str,
        /// The code point of its Cause.
        cause: u8,
    },
    /// Sessions are controlled by another member of their SMF set from now on.
    SessionsHandedOver {
        /// Its address.
        to: IpAddr,
        /// How many.
        sessions: usize,
    },
    /// A peer that is no member of an SMF set said that it, or another address, belongs to it. It
    /// is taken as standing alone, or without the other address.
    SmfSetClaimRefused {
        /// The peer.
        from: IpAddr,
        /// The set; empty when its name cannot be read.
        set: String,
    },
    /// A setup kept the sessions of the association before it.
    SessionsRetained {
        /// The peer's address.
        address: IpAddr,
        /// How many.
        sessions: usize,
    },
    /// A record of a previous process could not be restored. The first
    /// `limits::REFUSED_RECORDS_NAMED_MAX` are reported.
    RecordNotRestored {
        /// The kind of the record.
        kind: RecordKind,
        /// Which one.
        name: RecordName,
        /// Why.
        reason: String,
    },
    /// Sessions of a previous process are not restored. They are set aside, or gone with their
    /// association.
    SessionsNotRestored {
        /// Why; one event for each reason.
        reason: String,
        /// How many.
        sessions: usize,
        /// The first `limits::SET_ASIDE_NAMED_MAX`.
        first: Vec<Seid>,
    },
    /// The records of a previous process are restored.
    Restored {
        /// Associations.
        associations: usize,
        /// Sessions.
        sessions: usize,
        /// Records that could not be restored.
        refused: usize,
    },
    /// A setup was refused: its Node ID is associated from another address.
    NodeIdConflict {
        /// The sender of the request.
        from: IpAddr,
        /// The owner of the association.
        held_by: IpAddr,
        /// The identity.
        node_id: NodeIdentity,
    },
}
