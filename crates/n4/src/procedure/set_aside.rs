//! Sessions that are set aside: sessions of previous processes that this node cannot restore,
//! because it cannot decode their records or its configuration forbids them. Their records stay in
//! the store for a later process, and no other session gets their SEIDs.
//!
//! A mark is stored with the record of each such session. A later process restores the marked
//! sessions after all others, so that none of them takes the place of a session that was set up
//! since.

use core::net::IpAddr;

use adit_session::OwnerId;
use adit_types::limits::{SET_ASIDE_NAMED_MAX, SET_ASIDE_REASONS_MAX};
use adit_types::{Nanos, Seid, SessionIndex};

use crate::counters::as_count;
use crate::event::NodeEvent;
use crate::node::Node;
use crate::records::{
    FormerSessionRecord, FormerSessionValue, NodeRestoration, RecordError, SetAsideReport,
    SetAsideSession,
};

impl Node {
    /// Returns the sessions that are set aside, those after `after`, by ascending SEID, each with
    /// the reason.
    pub fn set_aside_sessions(
        &self,
        after: Option<Seid>,
    ) -> impl Iterator<Item = (Seid, &RecordError)> {
        self.set_aside.after(after)
    }

    /// Returns how many sessions are set aside.
    #[must_use]
    pub fn set_aside_len(&self) -> usize {
        self.set_aside.len()
    }

    /// Removes a session that is set aside, and its records, as the operator requested. Its CP
    /// function gets the last usage if it supports such reports (EPFAR) and the record can be
    /// decoded. False if this session is not set aside.
    pub fn discard_set_aside(&mut self, now: Nanos, up_seid: Seid) -> bool {
        let Some(session) = self.take_set_aside(up_seid) else { return false };
        self.sessions.records.note_removed_session(up_seid);
        self.sessions.records.note_set_aside(up_seid, false);
        if let Some(mut former) = self.end_former_session(up_seid, &session.octets) {
            if let Some(later) = session.usage {
                former.set_usage(later);
            }
            self.report_lost_session(now, up_seid, former);
        }
        self.sessions.records.note_reports(up_seid);
        true
    }

    /// Removes a session from those that are set aside, and frees its index. Its records stay.
    pub(super) fn take_set_aside(&mut self, up_seid: Seid) -> Option<SetAsideSession> {
        let session = self.set_aside.remove(up_seid)?;
        if session.is_reserved {
            self.sessions.release_index(up_seid);
        }
        Some(session)
    }

    /// Sets a session aside that cannot be restored because of `error`.
    pub(super) fn set_aside(
        &mut self,
        restoration: &mut NodeRestoration,
        up_seid: Seid,
        error: &RecordError,
        octets: &[u8],
    ) {
        let known = FormerSessionValue::from_octets(octets).ok().map(|value| value.former);
        self.take_set_aside(up_seid);
        if !self.sessions.records.is_marked(up_seid) {
            restoration.note_loss(known.as_ref().map(|former| former.owner()));
        }
        let session = SetAsideSession {
            error: error.clone(),
            octets: octets.to_vec(),
            usage: restoration.usage.get(&up_seid).cloned(),
            reports: None,
            owner: known.as_ref().map(|former| former.owner()),
            addresses: known.map(|former| former.ue_addresses()).unwrap_or_default(),
            is_reserved: self.sessions.reserve_index(up_seid),
        };
        self.set_aside.insert(up_seid, session);
        self.sessions.records.note_set_aside(up_seid, true);
    }

    /// Restores, after all other sessions, those that previous processes had set aside.
    pub(super) fn restore_set_aside(&mut self, now: Nanos, restoration: &mut NodeRestoration) {
        for (up_seid, octets) in core::mem::take(&mut restoration.set_aside_before) {
            let mut record = FormerSessionRecord::read(octets);
            if self.restore_or_set_aside(now, restoration, up_seid, &mut record).is_ok() {
                self.sessions.records.note_set_aside(up_seid, false);
            }
        }
        for (up_seid, value) in core::mem::take(&mut restoration.reports_before) {
            // A report whose session was not restored is removed.
            let _ = self.restore_reports(up_seid, &value);
        }
        // Removes the marks of sessions that are gone.
        for up_seid in core::mem::take(&mut restoration.marks) {
            let is_set_aside = self.set_aside.get(up_seid).is_some();
            self.sessions.records.note_set_aside(up_seid, is_set_aside);
        }
    }

    /// Sets aside a session that was not restored, or removes its record if its association is
    /// gone.
    pub(super) fn set_aside_or_remove(
        &mut self,
        restoration: &mut NodeRestoration,
        up_seid: Seid,
        error: &RecordError,
        octets: &[u8],
    ) {
        if *error != RecordError::NoAssociation || restoration.has_unread_association {
            return self.set_aside(restoration, up_seid, error, octets);
        }
        self.sessions.records.note_removed_session(up_seid);
        self.sessions.records.note_set_aside(up_seid, false);
        restoration.reports.note(error.to_string(), up_seid);
        restoration.refused += 1;
        self.counters.scalars.sessions_not_restored += 1;
    }

    /// # Errors
    /// `owner` has no association any more, and no other association inherits its sessions.
    pub(super) fn check_owner(
        &self,
        restoration: &NodeRestoration,
        owner: OwnerId,
    ) -> Result<(), RecordError> {
        let is_owned = self.peers.association_of(owner).is_some();
        match is_owned || restoration.heirs.contains_key(&owner) {
            true => Ok(()),
            false => Err(RecordError::NoAssociation),
        }
    }

    /// Removes a session that is set aside because the CP function `by` deletes it.
    pub(super) fn delete_set_aside(&mut self, now: Nanos, by: OwnerId, up_seid: Seid) {
        let Some(session) = self.set_aside.get(up_seid) else { return };
        if session.owner.is_none_or(|owner| self.peers.shares_control(by, owner)) {
            self.discard_set_aside(now, up_seid);
        }
    }

    /// Removes the sessions that are set aside and have an address of the UE whose session a CP
    /// function has just set up: the new session supersedes them.
    pub(super) fn supersede_set_aside(&mut self, now: Nanos, index: SessionIndex) {
        if self.set_aside.is_empty() {
            return;
        }
        let Some(session) = self.sessions.store().session_at(index) else { return };
        let owner = session.owner();
        let addresses: Vec<IpAddr> = session.ue_addresses();
        let of_address = |address| self.set_aside.of_address(address);
        let former: Vec<Seid> = addresses.into_iter().flat_map(of_address).collect();
        for up_seid in former {
            self.delete_set_aside(now, owner, up_seid);
        }
    }

    /// Emits a [`NodeEvent::SessionsNotRestored`] for each reason, for sessions set aside or
    /// removed.
    pub(super) fn emit_not_restored(&mut self, restoration: &mut NodeRestoration) {
        let mut reports = core::mem::take(&mut restoration.reports);
        for (up_seid, error) in self.set_aside.after(None) {
            reports.note(error.to_string(), up_seid);
        }
        restoration.refused += self.set_aside.len();
        self.counters.scalars.sessions_not_restored += as_count(self.set_aside.len());
        for (reason, (sessions, first)) in reports.into_reasons() {
            self.events.push_back(NodeEvent::SessionsNotRestored { reason, sessions, first });
        }
    }
}

impl SetAsideReport {
    /// Counts a session that was not restored for this reason.
    pub(super) fn note(&mut self, reason: String, up_seid: Seid) {
        let is_further = self.reasons.len() >= SET_ASIDE_REASONS_MAX;
        let reason = match is_further && !self.reasons.contains_key(&reason) {
            true => "other reasons".to_owned(),
            false => reason,
        };
        let (sessions, first) = self.reasons.entry(reason).or_default();
        *sessions += 1;
        if first.len() < SET_ASIDE_NAMED_MAX {
            first.push(up_seid);
        }
    }
}
