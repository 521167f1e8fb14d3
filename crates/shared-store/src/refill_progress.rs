//! How far a holder is with records that a server lost.

use std::time::Instant;

use adit_store::RecordNumber;

/// How far a holder is with writing all records again.
#[derive(Debug, Default)]
pub(crate) struct RefillProgress {
    /// When it saw first that records are lost.
    pub(crate) seen_at: Option<Instant>,
    /// A process that appends records has all of them.
    pub(crate) is_possible: bool,
    /// The server lacks records, or has damaged ones.
    pub(crate) is_wanted: bool,
    /// The server is to begin anew.
    pub(crate) begins: bool,
    /// How often servers began anew.
    pub(crate) losses: u64,
    /// The mark is there until this group is durable; `u64::MAX` before that one is known.
    pub(crate) marked_until: Option<RecordNumber>,
    /// The end of it was sent.
    pub(crate) ends: bool,
}
