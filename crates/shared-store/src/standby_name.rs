//! The standby that the server names, since it may have groups which the server lacks.

use adit_store::Incarnation;

/// The entry for the name, as servers keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameEntry {
    Empty,
    Standby(Incarnation),
}

/// Which entry is wanted, and which one the server has. `None`: not known, or of no importance.
#[derive(Debug, Default)]
pub(crate) struct StandbyName {
    wanted: Option<NameEntry>,
    /// Sent and not answered.
    sent: Option<NameEntry>,
    written: Option<NameEntry>,
    /// As many replicas as configured also have this entry.
    named: Option<NameEntry>,
}

impl StandbyName {
    /// `None`: the entry is to be empty.
    pub(crate) fn set_wanted(&mut self, standby: Option<Incarnation>) {
        self.wanted = Some(standby.map_or(NameEntry::Empty, NameEntry::Standby));
    }

    /// `None` also while another entry may be on its way.
    pub(crate) fn named(&self) -> Option<Incarnation> {
        let is_settled = self.sent.is_none() && self.written == self.named;
        match self.named {
            Some(NameEntry::Standby(incarnation)) if is_settled => Some(incarnation),
            _ => None,
        }
    }

    /// True until the server has the wanted entry.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wanted.is_some() && self.wanted != self.named
    }

    /// The wanted entry, if the server does not have it yet.
    pub(crate) fn unwritten(&self) -> Option<NameEntry> {
        self.wanted.filter(|_| self.wanted != self.written)
    }

    pub(crate) fn note_sent(&mut self, entry: NameEntry) {
        self.sent = Some(entry);
    }

    /// The connection is lost: the name that was sent may not have arrived.
    pub(crate) fn forget_sent(&mut self) {
        if self.sent.is_some() {
            self.forget();
        }
    }

    /// Another server, or a server that has begun anew, may name none.
    pub(crate) fn forget(&mut self) {
        (self.sent, self.written, self.named) = (None, None, None);
    }

    /// The server has answered the name that was sent.
    pub(crate) fn note_written(&mut self) {
        self.written = self.sent.take().or(self.written);
    }

    /// The name that the server has is durable.
    pub(crate) fn note_durable(&mut self) {
        self.named = self.written;
    }
}
