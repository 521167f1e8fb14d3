//! The name of the standby that the server keeps, since that standby may have groups which the
//! server lacks.

use adit_store::Incarnation;

/// The entry for the standby's name, as servers keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameEntry {
    Empty,
    Standby(Incarnation),
}

/// The wanted entry, and the entry that the server has. `None`: not known, or does not matter.
#[derive(Debug, Default)]
pub(crate) struct StandbyName {
    wanted: Option<NameEntry>,
    /// The entry that was sent and not answered yet.
    sent: Option<NameEntry>,
    written: Option<NameEntry>,
    /// The entry that is durable: as many replicas as configured also have it.
    named: Option<NameEntry>,
}

impl StandbyName {
    /// Sets the standby to be named; `None` for an empty entry.
    pub(crate) fn set_wanted(&mut self, standby: Option<Incarnation>) {
        self.wanted = Some(standby.map_or(NameEntry::Empty, NameEntry::Standby));
    }

    /// Returns the standby that is named durably. `None` also while another entry may be under way.
    pub(crate) fn durably_named(&self) -> Option<Incarnation> {
        let is_settled = self.sent.is_none() && self.written == self.named;
        match self.named {
            Some(NameEntry::Standby(incarnation)) if is_settled => Some(incarnation),
            _ => None,
        }
    }

    /// True until the wanted entry is durable.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wanted.is_some() && self.wanted != self.named
    }

    /// Returns the wanted entry, if the server does not have it yet.
    pub(crate) fn unwritten(&self) -> Option<NameEntry> {
        self.wanted.filter(|_| self.wanted != self.written)
    }

    pub(crate) fn note_sent(&mut self, entry: NameEntry) {
        self.sent = Some(entry);
    }

    /// Notes that the connection is lost: the entry that was sent may not have arrived.
    pub(crate) fn forget_sent(&mut self) {
        if self.sent.is_some() {
            self.forget();
        }
    }

    /// Forgets the server's entry: another server, or one that has started anew, may have none.
    pub(crate) fn forget(&mut self) {
        (self.sent, self.written, self.named) = (None, None, None);
    }

    /// Notes that the server has answered the entry that was sent.
    pub(crate) fn note_written(&mut self) {
        self.written = self.sent.take().or(self.written);
    }

    /// Notes that the server's entry is durable.
    pub(crate) fn note_durable(&mut self) {
        self.named = self.written;
    }
}
