//! The standby that the server names, since it may have groups which the server lacks.

use adit_store::Incarnation;

/// Which standby is to be named, and which one is; the outer `None` says that this is not known, or
/// does not matter.
#[derive(Debug, Default)]
pub(crate) struct StandbyName {
    wanted: Option<Option<Incarnation>>,
    /// The name that was sent and is not answered.
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

    /// True until the wanted standby is named.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wanted.is_some() && self.wanted != self.named
    }

    /// The name that the server does not have yet.
    pub(crate) fn unwritten(&self) -> Option<Option<Incarnation>> {
        self.wanted.filter(|_| self.wanted != self.written)
    }

    pub(crate) fn note_sent(&mut self, standby: Option<Incarnation>) {
        self.sent = Some(standby);
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
