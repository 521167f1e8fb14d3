//! Events: changes of state that are worth a log line.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use adit_store::{OwnedRecordId, RecordKind};
use adit_types::{Nanos, Seid};

use crate::association::NodeIdentity;

/// Why an association ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownReason {
    /// The peer released it.
    Released,
    /// Our Heartbeat Requests were not answered.
    HeartbeatsLost,
    /// Our Heartbeat Requests were not answered for as long as sessions may outlive their peer.
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

/// Why a CP function has not released an association although the operator requested it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseFailure {
    /// No response after N1 retransmissions.
    NoResponse,
    /// The peer refused; the code point of its Cause.
    Refused(u8),
    /// The time granted for the release is over.
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

/// Why an association setup that we requested failed. It is retried later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupFailure {
    /// No response after N1 retransmissions.
    NoResponse,
    /// The peer refused; the code point of its Cause.
    Refused(u8),
    /// The response cannot be decoded, or lacks what it must contain.
    Malformed,
    /// The peer's Node ID has an association from another address.
    NodeIdInUse,
    /// `limits::ASSOCIATIONS_MAX` associations exist already.
    TooManyAssociations,
    /// This node is stopping.
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
    /// An association was established.
    AssociationUp {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// True if we requested the association.
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
        /// Why the association ended.
        reason: DownReason,
    },
    /// A peer does not answer heartbeats any more. Its sessions stay for now.
    PeerSilent {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// How many sessions stay.
        sessions: usize,
        /// How long the sessions stay, at most.
        outlive: Nanos,
    },
    /// A silent peer answers again; it has not restarted.
    PeerAnswers {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// How many sessions the peer has.
        sessions: usize,
    },
    /// A CP function has not released its association although the operator requested it. The
    /// association continues.
    NotReleased {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
        /// Why the release failed.
        failure: ReleaseFailure,
    },
    /// A peer sent a new Recovery Time Stamp. `AssociationDown` follows.
    PeerRestarted {
        /// The peer's address.
        address: IpAddr,
        /// The peer's identity.
        node_id: NodeIdentity,
    },
    /// An association setup that we requested failed; it is retried after `retry_after`.
    SetupFailed {
        /// The configured peer.
        to: SocketAddr,
        /// Why the setup failed.
        failure: SetupFailure,
        /// Time until the next attempt.
        retry_after: Nanos,
    },
    /// A GTP-U peer does not answer any more.
    PathDown {
        /// The address of the GTP-U peer.
        peer: IpAddr,
    },
    /// A GTP-U peer answers again.
    PathUp {
        /// The address of the GTP-U peer.
        peer: IpAddr,
    },
    /// A router reported that packets to a GTP-U peer exceed the MTU of a link. Packets to the peer
    /// are limited to `mtu_bytes` for ten minutes.
    PathNarrowed {
        /// The address of the GTP-U peer.
        peer: IpAddr,
        /// The MTU of the path. Unit: octets of the outer IP packet.
        mtu_bytes: u16,
        /// The router that reported the MTU.
        router: IpAddr,
    },
    /// A GTP-U peer restarted.
    GtpuPeerRestarted {
        /// The address of the GTP-U peer.
        peer: IpAddr,
    },
    /// A fault of this node ended the handling of a message. Reported once per kind.
    Fault {
        /// The sender of the message.
        from: IpAddr,
        /// The type of the message.
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
    /// A request was refused. Reported at most once per second for session related requests, and as
    /// often for others.
    Refused {
        /// The sender of the request.
        from: IpAddr,
        /// Type of the request.
        message_type: &'static str,
        /// All errors that were found; the response contains the first.
        findings: Vec<String>,
    },
    /// A CP function refused a report. Reported at most once per second.
    ReportRefused {
        /// The sender of the response.
        from: IpAddr,
        /// Type of the response.
        message_type: &'static str,
        /// The code point of the Cause in the response.
        cause: u8,
    },
    /// The control of sessions has moved to another member of their SMF set.
    SessionsHandedOver {
        /// The address of that member.
        to: IpAddr,
        /// How many sessions moved.
        sessions: usize,
    },
    /// A peer claimed that it, or another address, belongs to an SMF set of which it is no member.
    /// The claim is ignored.
    SmfSetClaimRefused {
        /// The address of the peer.
        from: IpAddr,
        /// The name of the set; empty if the name cannot be decoded.
        set: String,
    },
    /// An association setup retained the sessions of the former association.
    SessionsRetained {
        /// The peer's address.
        address: IpAddr,
        /// How many sessions were retained.
        sessions: usize,
    },
    /// A record of a previous process could not be restored. Only the first
    /// `limits::REFUSED_RECORDS_NAMED_MAX` are reported.
    RecordNotRestored {
        /// The kind of the record.
        kind: RecordKind,
        /// The identifier of the record within its kind.
        name: OwnedRecordId,
        /// Why the record could not be restored.
        reason: String,
    },
    /// Sessions of a previous process were not restored. They are set aside, or were removed with
    /// their association.
    SessionsNotRestored {
        /// Why they were not restored; one event for each reason.
        reason: String,
        /// How many sessions this concerns.
        sessions: usize,
        /// The first of these sessions, at most `limits::SET_ASIDE_NAMED_MAX`.
        first: Vec<Seid>,
    },
    /// The restoration of the records of a previous process has finished.
    Restored {
        /// How many associations were restored.
        associations: usize,
        /// How many sessions were restored.
        sessions: usize,
        /// How many records could not be restored.
        refused: usize,
    },
    /// An association setup was refused: its Node ID is associated from another address.
    NodeIdConflict {
        /// The sender of the request.
        from: IpAddr,
        /// The address that the association with this Node ID has.
        held_by: IpAddr,
        /// The Node ID.
        node_id: NodeIdentity,
    },
}
