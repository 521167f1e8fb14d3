//! The reasons why a standby cannot be used, in the operator's words.

use adit_store::GroupNumber;
use adit_transport::TransportError;
use adit_transport::resp::RespError;

/// The reason why there is no replication with the other adit now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationError {
    /// No connection has been attempted yet.
    #[error("no connection was tried yet")]
    Untried,
    /// The stream ended or could not be opened.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer violates the RESP protocol.
    #[error("the peer violates the protocol: {0}")]
    Resp(#[from] RespError),
    /// The peer left a command without a reply for too long.
    #[error("the peer leaves commands without reply")]
    Silent,
    /// The peer refused a command.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// The peer's reply does not fit the command.
    #[error("the peer's reply does not belong to the command")]
    Reply,
}

/// A new holder cannot use the tail: the shared store lacks groups that it had acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the shared store ends with group {}, although it had acknowledged the groups up to {}", store.0, base.0
)]
pub struct TailError {
    /// The last group of the shared store.
    pub store: GroupNumber,
    /// The group that precedes the tail's first one.
    pub base: GroupNumber,
}
