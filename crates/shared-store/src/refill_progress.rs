//! The progress of a refill.

use std::time::Instant;

use adit_store::GroupNumber;

/// How far a holder has come with writing all records again.
#[derive(Debug, Default)]
pub(crate) struct RefillProgress {
    /// When the holder first saw that the server lacks durable groups.
    pub(crate) seen_at: Option<Instant>,
    /// True once the owner of the records has all of them in memory.
    pub(crate) is_possible: bool,
    /// True if the server lacks records, or has damaged ones.
    pub(crate) is_wanted: bool,
    /// True if the command that begins the refill is to be sent, or awaits its answer.
    pub(crate) begins: bool,
    /// How often servers have started anew.
    pub(crate) losses: u64,
    /// The mark stays until this group is durable; `u64::MAX` until the group is known. `None`
    /// without a mark.
    pub(crate) marked_until: Option<GroupNumber>,
    /// True if the command that removes the mark was sent.
    pub(crate) ends: bool,
}
