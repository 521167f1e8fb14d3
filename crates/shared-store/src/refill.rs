//! Refill: the holder of the lease writes all records again after a server has lost some of them.
//!
//! The holder first waits for the length of the lease, as another server may have more groups. Then
//! it makes the server start anew after the last durable group, with a mark that records are
//! incomplete. The owner of the records appends all of them again, and the mark is removed once the
//! last one is durable.

use std::time::Instant;

use adit_transport::Transport;

use adit_store::{GroupNumber, GroupPosition};

use crate::connection::{LinkError, PipelineTag};
use crate::refill_progress::RefillProgress;
use crate::scripts::Script;
use crate::shared_store::SharedStore;

impl<T: Transport> SharedStore<T> {
    /// Notes that the server has only groups up to `last`, and so lacks some that were durable.
    pub(crate) fn note_lost_records(&mut self, last: GroupPosition) -> Result<(), LinkError> {
        let epoch = self.epoch.unwrap_or(0);
        let durable = self.tail.durable();
        let lost =
            format!("it lost records: it has changes up to {last}, and {durable} was durable");
        if last.epoch != epoch && last.epoch > self.before.0 {
            // Those groups cannot be merged with the records of this process.
            return Err(LinkError::Lost(format!(
                "{lost}; another adit has written to it: let another server become the primary"
            )));
        }
        if !self.refill.is_possible {
            return Err(LinkError::Lost(lost));
        }
        let now = Instant::now();
        let seen_at = *self.refill.seen_at.get_or_insert(now);
        if now.saturating_duration_since(seen_at) < self.options.lease {
            return Err(LinkError::Lost(format!(
                "{lost}; all records are written again if no other server has them"
            )));
        }
        self.refill.begins = true;
        Ok(())
    }

    /// Notes that the server has exactly the groups that it should have. `is_damaged`: some records
    /// are damaged or missing nevertheless.
    pub(crate) fn note_known_records(&mut self, is_damaged: bool) {
        self.refill.seen_at = None;
        self.refill.is_wanted |= is_damaged;
        if self.refill.is_wanted && self.refill.is_possible {
            self.refill.begins = true;
        }
    }

    /// Queues the command that begins or ends the refill. True if it begins: then no other command
    /// is of use before.
    pub(crate) fn queue_refill(&mut self, now: Instant) -> bool {
        let durable = self.tail.durable();
        let is_complete = self.refill.marked_until.is_some_and(|until| durable.number >= until);
        let position = match (self.refill.begins, is_complete) {
            (true, _) => durable.to_string(),
            (false, true) if self.is_ready && !self.refill.ends => String::new(),
            _ => return false,
        };
        self.refill.ends = !self.refill.begins;
        let epoch = self.epoch.unwrap_or(0).to_string();
        let mut command = self.scripts.command(Script::Refill, &self.keys);
        command.extend([&epoch, &self.holder, &position].map(|word| word.as_bytes()));
        self.link.command(PipelineTag::Write { at: now }, &command, now);
        self.queued_at = Some(now);
        self.refill.begins
    }

    /// Processes the server's answer. True if the server has started anew.
    pub(crate) fn on_refill_answer(&mut self, last: GroupPosition) -> bool {
        if self.refill.ends {
            (self.refill.ends, self.refill.marked_until) = (false, None);
        }
        if !self.refill.begins || last != self.tail.durable() {
            return false;
        }
        self.tail.restart();
        self.standby.forget();
        let losses = self.refill.losses + 1;
        let marked_until = Some(GroupNumber(u64::MAX));
        let begun =
            RefillProgress { losses, marked_until, is_possible: true, ..Default::default() };
        self.refill = begun;
        true
    }

    /// Notes that the connection is lost: the command that was sent may not have arrived.
    pub(crate) fn forget_sent_refill(&mut self) {
        (self.refill.begins, self.refill.ends) = (false, false);
    }
}
