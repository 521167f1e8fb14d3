//! The standby that the server names, since it may have groups which the server lacks.

use std::time::Instant;

use adit_store::{Incarnation, RecordKey, RecordKind};
use adit_transport::Transport;

use crate::checksum::checksum;
use crate::connection::PipelineTag;
use crate::keys::write_name;
use crate::scripts::Script;
use crate::shared_store::SharedStore;

/// Which standby is to be named, and which one is; the outer `None` says that this is not known, or does not matter.
#[derive(Debug, Default)]
pub(crate) struct StandbyName {
    wanted: Option<Option<Incarnation>>,
    /// What was sent, and has no answer.
    sent: Option<Option<Incarnation>>,
    written: Option<Option<Incarnation>>,
    /// As many replicas as configured have it, too.
    named: Option<Option<Incarnation>>,
}

impl StandbyName {
    pub(crate) fn set_wanted(&mut self, standby: Option<Incarnation>) {
        self.wanted = Some(standby);
    }

    /// `None` also while another name may be on its way.
    pub(crate) fn named(&self) -> Option<Incarnation> {
        let is_settled = self.sent.is_none() && self.written == self.named;
        self.named.flatten().filter(|_| is_settled)
    }

    /// True until the one that is wanted is named.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wanted.is_some() && self.wanted != self.named
    }

    /// The connection is lost: what was sent may not have arrived.
    pub(crate) fn forget_sent(&mut self) {
        if self.sent.is_some() {
            self.forget();
        }
    }

    /// Another server, or a server that has begun anew, may name none.
    pub(crate) fn forget(&mut self) {
        (self.sent, self.written, self.named) = (None, None, None);
    }

    /// The server has answered what was sent.
    pub(crate) fn note_written(&mut self) {
        self.written = self.sent.take().or(self.written);
    }

    /// What the server has is durable.
    pub(crate) fn note_durable(&mut self) {
        self.named = self.written;
    }
}

impl<T: Transport> SharedStore<T> {
    /// Queues the name of the standby if the server does not have it, and answers nothing else meanwhile. True if it did.
    pub(crate) fn queue_standby(&mut self, now: Instant) -> bool {
        let StandbyName { wanted, written, .. } = self.standby;
        let Some(wanted) = wanted.filter(|_| wanted != written && self.link.in_flight() == Some(0))
        else {
            return false;
        };
        let key = RecordKey::number(RecordKind::Standby, 0);
        let mut name = Vec::new();
        write_name(&mut name, key);
        let value = wanted.map(|incarnation| incarnation.0.to_be_bytes());
        let value = value.as_ref().map_or(&[][..], |octets| octets);
        let sum = checksum(&[&name, b"=", value]);
        let epoch = self.epoch.unwrap_or(0).to_string();
        let mut command = self.scripts.command(Script::Name, &self.keys);
        command.extend([epoch.as_bytes(), self.holder.as_bytes(), value, &sum]);
        self.link.command(PipelineTag::Write { at: now }, &command, now);
        self.queued_at = Some(now);
        self.standby.sent = Some(wanted);
        true
    }
}
