//! Why a standby cannot be used, in the operator's words.

use adit_store::RecordNumber;
use adit_transport::TransportError;
use adit_transport::resp::RespError;

/// Why there is no replication with the other adit now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationError {
    /// No connection has been tried.
    #[error("no connection was tried yet")]
    Untried,
    /// The stream ended or could not begin.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The peer does not speak RESP.
    #[error("the peer violates the protocol: {0}")]
    Resp(#[from] RespError),
    /// The peer leaves a command without a reply.
    #[error("the peer leaves commands without reply")]
    Silent,
    /// The peer refuses a command.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// The peer's reply answers another command.
    #[error("the peer's reply does not belong to the command")]
    Reply,
}

/// A new holder cannot use a tail: the shared store lacks groups that it had acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the shared store ends with group {}, although it had acknowledged the groups up to {}", store.0, base.0
)]
pub struct TailError {
    /// The last group of the store.
    pub store: RecordNumber,
    /// The group behind which the tail begins.
    pub base: RecordNumber,
}
