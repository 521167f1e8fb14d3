//! Follows the records of an active node until this node takes over; see [`crate::records`].
//!
//! Sessions and PFDs take effect as their records change, so that workers have all sessions at the
//! takeover. Changes that concern peers wait for the takeover. Meanwhile this node sends, records
//! and counts nothing.
//!
//! A session whose record changes is ended, and restored once its index is free. The order of
//! changes of different sessions does not matter: a record that conflicts with another session is
//! tried again when anything becomes free, and for the last time before the takeover.

use adit_session::{KeptUsage, OwnerId};
use adit_store::{OwnedRecordId, RecordChange, RecordKind};
use adit_types::limits::SESSIONS_PER_TURN_MAX;
use adit_types::{Nanos, Seid, SessionIndex};

use super::records::{address_of, is_clock_mark, marked_session, owner_of};
use crate::backlog::JobTask;
use crate::counters::as_count;
use crate::node::Node;
use crate::records::{
    FollowedRecords, FormerSessionValue, NodeRecord, NodeRestoration, PfdValue, RecordError,
    clock_mark, decoded, session_value,
};
use crate::session_state::RemainingReports;

impl Node {
    /// Begins to follow the records of an active node, starting with its node record `node`.
    /// Reading all records may start over: see [`Node::begin_reading_again`].
    ///
    /// Call [`Node::follow_record`] for every record, then for every change. Publish changes, and
    /// call [`Node::handle_timeout`] and [`Node::poll_timeout`] as always. To take over, wait until
    /// [`Node::pending_len`] is zero, and call [`Node::end_restoration`].
    pub fn begin_following(&mut self, node: &NodeRecord) {
        self.clock_zero = node.clock_zero;
        self.peers.skip_owners_through(OwnerId(node.last_owner));
        self.sessions.records.suspend();
        let followed = Some(Box::default());
        self.restoration = Some(NodeRestoration { followed, ..NodeRestoration::default() });
    }

    /// True while the records of an active node are followed.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.restoration.as_ref().is_some_and(|restoration| restoration.followed.is_some())
    }

    /// Follows a change of a record of the active node: its new value, or `None` if it was removed.
    /// Call it in the order of the changes. While all records are read, any order will do in which
    /// PFDs and usage come before sessions; [`RecordKind::ALL`] is best.
    ///
    /// The reason why the record cannot be read, which an event reports as well. A session that
    /// conflicts with another one for now is no error.
    pub fn follow_record(&mut self, now: Nanos, record: &RecordChange) -> Result<(), RecordError> {
        let Some(mut restoration) = self.restoration.take() else { return Ok(()) };
        let mut followed = restoration.followed.take();
        let result = match followed.as_deref_mut() {
            Some(followed) => {
                if let Some(missing) = &mut followed.missing {
                    missing.remove(&(record.kind, record.name.clone()));
                }
                self.follow(now, &mut restoration, followed, record)
            }
            None => Ok(()),
        };
        if let Err(error) = &result {
            self.note_refused_record(&mut restoration, record.kind, &record.name, error);
        }
        restoration.followed = followed;
        self.restoration = Some(restoration);
        result
    }

    /// Prepares for reading all records again, after changes were missed.
    pub fn begin_reading_again(&mut self) {
        let Some(restoration) = &mut self.restoration else { return };
        let Some(followed) = &mut restoration.followed else { return };
        let store = self.sessions.store();
        let number = |seid: Seid| OwnedRecordId::Number(seid.0);
        let octets = |text: &str| OwnedRecordId::Octets(text.as_bytes().to_vec());
        let sessions = store.sessions().map(|session| session.up_seid()).chain(followed.waiting());
        let set_aside = self.set_aside.after(None).map(|(up_seid, _)| up_seid);
        let sessions = sessions.chain(set_aside).chain(followed.set_aside.keys().copied());
        let all = sessions.map(|seid| (RecordKind::Session, number(seid)));
        let mark = |seid: &Seid| OwnedRecordId::Octets(seid.0.to_be_bytes().to_vec());
        let all = all.chain(followed.marks.iter().map(|seid| (RecordKind::Usage, mark(seid))));
        let all =
            all.chain(restoration.usage.keys().map(|seid| (RecordKind::Usage, number(*seid))));
        let all =
            all.chain(followed.reports.keys().map(|seid| (RecordKind::Report, number(*seid))));
        let answers = followed.answers.keys();
        let all = all.chain(answers.map(|at| (RecordKind::Answer, OwnedRecordId::Number(*at))));
        let addresses = followed.associations.keys();
        let all = all.chain(addresses.map(|at| (RecordKind::Association, octets(&at.to_string()))));
        let states = followed.peer_states.keys();
        let all = all
            .chain(states.map(|of| (RecordKind::Association, OwnedRecordId::Number(of.0.into()))));
        let applications = store.provided_applications();
        let all = all.chain(applications.map(|known| (RecordKind::Pfds, octets(known.id))));
        followed.missing = Some(all.collect());
    }

    /// Ends reading all records again: removes those that were not read again.
    pub fn end_reading_again(&mut self, now: Nanos) {
        let followed = self.restoration.as_mut().and_then(|known| known.followed.as_mut());
        let missing = followed.and_then(|followed| followed.missing.take());
        for (kind, name) in missing.into_iter().flatten() {
            // A removal cannot fail.
            let _ = self.follow_record(now, &RecordChange { kind, name, value: None });
        }
    }

    fn follow(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        followed: &mut FollowedRecords,
        &RecordChange { kind, ref name, ref value }: &RecordChange,
    ) -> Result<(), RecordError> {
        match (kind, name, value.as_deref()) {
            (RecordKind::Node, _, Some(octets)) => {
                let node = NodeRecord::from_octets(octets)?;
                self.clock_zero = node.clock_zero;
                self.peers.skip_owners_through(OwnerId(node.last_owner));
            }
            (RecordKind::Node, _, None) => {}
            (_, _, value) if is_clock_mark(kind, name) => drop(value.map(clock_mark).transpose()?),
            (RecordKind::Association, OwnedRecordId::Octets(name), value) => {
                let address = address_of(name)?;
                match value {
                    Some(octets) => followed.associations.insert(address, decoded(octets)?),
                    None => followed.associations.remove(&address),
                };
            }
            (RecordKind::Association, &OwnedRecordId::Number(number), value) => {
                let owner = owner_of(number)?;
                match value {
                    Some(octets) => {
                        followed.peer_states.insert(owner, decoded(octets)?);
                        self.sessions.records.resume_peer_state(owner);
                    }
                    None => {
                        followed.peer_states.remove(&owner);
                        self.sessions.records.forget_peer_state(owner);
                    }
                }
            }
            (RecordKind::Pfds, OwnedRecordId::Octets(id), value) => {
                self.follow_pfds(id, value)?;
                followed.note_freed();
            }
            (RecordKind::Usage, &OwnedRecordId::Number(number), value) => {
                self.follow_usage(restoration, followed, Seid(number), value)?;
            }
            (RecordKind::Usage, OwnedRecordId::Octets(name), value) => {
                self.follow_mark(now, followed, marked_session(name)?, value.is_some());
            }
            (RecordKind::Session, &OwnedRecordId::Number(number), value) => {
                if self.follow_session(restoration, followed, Seid(number), value) {
                    self.try_waiting(now, restoration, followed, Seid(number))?;
                }
            }
            (RecordKind::Report, &OwnedRecordId::Number(number), Some(octets)) => {
                followed.reports.insert(Seid(number), decoded(octets)?);
                self.sessions.records.resume_reports(Seid(number));
            }
            (RecordKind::Report, &OwnedRecordId::Number(number), None) => {
                followed.reports.remove(&Seid(number));
                self.sessions.records.forget_reports(Seid(number));
            }
            (RecordKind::Answer, &OwnedRecordId::Number(place), Some(octets)) => {
                let answer: crate::records::AnswerValue = decoded(octets)?;
                self.sessions.records.skip_answer(answer.number);
                followed.answers.insert(place, answer);
            }
            (RecordKind::Answer, OwnedRecordId::Number(place), None) => {
                followed.answers.remove(place);
            }
            _ => return Err(RecordError::Malformed),
        }
        Ok(())
    }

    fn follow_pfds(&mut self, id: &[u8], value: Option<&[u8]>) -> Result<(), RecordError> {
        let text = core::str::from_utf8(id).map_err(|_| RecordError::Malformed)?;
        let PfdValue(all) = value.map_or(Ok(PfdValue(Vec::new())), decoded)?;
        let descriptions = all
            .into_iter()
            .map(|(owner, texts)| (OwnerId(owner), texts.into_iter().map(Into::into).collect()));
        let changed = self.sessions.describe_application(text, descriptions.collect());
        let changed = changed.map_err(|_| RecordError::Pfds)?;
        self.sessions.records.resume_pfds(id, value);
        self.recompile(changed, None);
        Ok(())
    }

    fn follow_usage(
        &mut self,
        restoration: &mut NodeRestoration,
        followed: &mut FollowedRecords,
        up_seid: Seid,
        value: Option<&[u8]>,
    ) -> Result<(), RecordError> {
        let Some(octets) = value else {
            restoration.usage.remove(&up_seid);
            self.sessions.records.forget_usage(up_seid);
            return Ok(());
        };
        restoration.usage.insert(up_seid, KeptUsage::from_octets(octets)?);
        self.sessions.records.resume_usage(up_seid, octets);
        if self.sessions.store().session(up_seid).is_some() {
            followed.used.insert(up_seid);
        }
        Ok(())
    }

    /// Ends a session whose record changes. True if its new record may take effect at once.
    fn follow_session(
        &mut self,
        restoration: &mut NodeRestoration,
        followed: &mut FollowedRecords,
        up_seid: Seid,
        value: Option<&[u8]>,
    ) -> bool {
        followed.take_waiting(up_seid);
        followed.set_aside.remove(&up_seid);
        self.take_set_aside(up_seid);
        let is_known = self.sessions.delete(up_seid, RemainingReports::Discard).is_some();
        let Some(octets) = value else { return false };
        if followed.marks.contains(&up_seid) {
            match FormerSessionValue::from_octets(octets) {
                Ok(_) => {
                    followed.set_aside.insert(up_seid, octets.to_vec());
                }
                Err(error) => self.set_aside(restoration, up_seid, &error, octets),
            }
            return false;
        }
        followed.wait(up_seid, octets.to_vec());
        // A session that existed can be restored only when no worker uses it any more.
        !is_known
    }

    /// Follows the mark that the active node has set a session aside (`is_set_aside`), or its
    /// removal: then the session takes effect.
    fn follow_mark(
        &mut self,
        now: Nanos,
        followed: &mut FollowedRecords,
        up_seid: Seid,
        is_set_aside: bool,
    ) {
        self.sessions.records.resume_set_aside(up_seid, is_set_aside);
        if !is_set_aside {
            followed.marks.remove(&up_seid);
            if let Some(octets) = followed.set_aside.remove(&up_seid) {
                followed.wait(up_seid, octets);
                followed.note_freed();
            }
            return;
        }
        followed.marks.insert(up_seid);
        let sessions = &self.sessions;
        let running = || session_value(now, sessions.store(), &sessions.states, up_seid);
        if let Some(octets) = followed.take_waiting(up_seid).or_else(running) {
            self.sessions.delete(up_seid, RemainingReports::Discard);
            followed.set_aside.insert(up_seid, octets);
        }
    }

    /// Restores a session whose record waits. It continues to wait if another session conflicts
    /// with it, and is set aside if its record cannot be decoded.
    fn try_waiting(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        followed: &mut FollowedRecords,
        up_seid: Seid,
    ) -> Result<(), RecordError> {
        let Some(octets) = followed.take_waiting(up_seid) else { return Ok(()) };
        let mut value = match FormerSessionValue::from_octets(&octets) {
            Ok(value) => value,
            Err(error) => {
                self.set_aside(restoration, up_seid, &error, &octets);
                return Ok(());
            }
        };
        let restored = match self.sessions.store().awaits_reclaim(&value.former) {
            true => Err(None),
            false => self.restore_session(now, restoration, up_seid, &mut value).map_err(Some),
        };
        match restored {
            Ok(()) => Ok(()),
            Err(None | Some(RecordError::Refused(_))) => {
                followed.wait(up_seid, octets);
                Ok(())
            }
            Err(Some(error)) => Err(error),
        }
    }

    /// Restores a session whose record no longer waits. Any refusal is an error.
    fn restore_or_refuse(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        up_seid: Seid,
        octets: &[u8],
    ) -> Result<(), RecordError> {
        let mut value = FormerSessionValue::from_octets(octets)?;
        self.restore_session(now, restoration, up_seid, &mut value)
    }

    /// Restores sessions whose records wait for this index: no worker uses the session that had it
    /// any more.
    pub(crate) fn restore_waiting_for_index(&mut self, now: Nanos, session: SessionIndex) {
        self.while_following(|node, restoration, followed| {
            followed.note_freed();
            for up_seid in followed.waiting_for(session) {
                node.restore_or_note_error(now, restoration, followed, up_seid);
            }
        });
    }

    /// Does the work of one iteration: lets a bounded number of waiting records take effect.
    pub(crate) fn advance_following(&mut self, now: Nanos) {
        self.begin_turn(now);
        self.while_following(|node, restoration, followed| {
            for _ in 0..SESSIONS_PER_TURN_MAX {
                if !node.apply_one_waiting(now, restoration, followed) {
                    break;
                }
            }
        });
    }

    /// Lets one waiting record take effect. False if none can.
    fn apply_one_waiting(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        followed: &mut FollowedRecords,
    ) -> bool {
        if let Some(up_seid) = followed.used.pop_first() {
            // The record of the session may have replaced this usage already.
            let known = self.sessions.store().session(up_seid).is_some();
            if let Some(used) = restoration.usage.remove(&up_seid).filter(|_| known) {
                self.sessions.resume_usage(now, up_seid, &used);
            }
            return true;
        }
        let Some(up_seid) = followed.next_waiting() else { return false };
        self.restore_or_note_error(now, restoration, followed, up_seid);
        true
    }

    fn restore_or_note_error(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        followed: &mut FollowedRecords,
        up_seid: Seid,
    ) {
        if let Err(error) = self.try_waiting(now, restoration, followed, up_seid) {
            let name = OwnedRecordId::Number(up_seid.0);
            self.note_refused_record(restoration, RecordKind::Session, &name, &error);
        }
    }

    fn while_following(
        &mut self,
        work: impl FnOnce(&mut Self, &mut NodeRestoration, &mut FollowedRecords),
    ) {
        let Some(mut restoration) = self.restoration.take() else { return };
        if let Some(mut followed) = restoration.followed.take() {
            work(self, &mut restoration, &mut followed);
            restoration.followed = Some(followed);
        }
        self.restoration = Some(restoration);
    }

    /// True while waiting records may take effect.
    pub(crate) fn has_records_to_follow(&self) -> bool {
        let followed = self.restoration.as_ref().and_then(|known| known.followed.as_deref());
        followed.is_some_and(FollowedRecords::has_work)
    }

    /// Takes over: all waiting records take effect or are refused. From now on changes are
    /// recorded.
    pub(super) fn end_following(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        mut followed: FollowedRecords,
    ) {
        while self.apply_one_waiting(now, restoration, &mut followed) {}
        self.note_changed_usage();
        self.sessions.records.resume();
        self.sessions.records.note_node();
        let refused: Vec<Seid> = followed.waiting().collect();
        for up_seid in refused {
            let octets = followed.take_waiting(up_seid).unwrap_or_default();
            if let Err(error) = self.restore_or_refuse(now, restoration, up_seid, &octets) {
                self.set_aside(restoration, up_seid, &error, &octets);
            }
        }
        let set_aside = self.set_aside.after(None).map(|(up_seid, _)| up_seid);
        restoration.marks.extend(set_aside.chain(followed.marks));
        for up_seid in followed.set_aside.keys() {
            restoration.marks.remove(up_seid);
        }
        restoration.set_aside_before.extend(followed.set_aside);
        restoration.peer_states = followed.peer_states;
        for (address, value) in followed.associations {
            self.restore_association(now, restoration, address, value);
        }
        for (up_seid, value) in followed.reports {
            if self.sessions.records.is_marked(up_seid) {
                restoration.reports_before.push((up_seid, value));
                continue;
            }
            if let Err(error) = self.restore_reports(up_seid, &value) {
                let name = OwnedRecordId::Number(up_seid.0);
                self.note_refused_record(restoration, RecordKind::Report, &name, &error);
            }
        }
        // The records contain this usage already.
        while self.sessions.states.take_changed_usage().is_some() {}
        restoration.answers = followed.answers.into_values().collect();
        self.end_unowned_sessions(restoration);
        restoration.restored = self.sessions.store().len();
        self.counters.scalars.sessions_restored += as_count(restoration.restored);
    }

    /// Begins to end sessions whose association is gone and has no heir.
    fn end_unowned_sessions(&mut self, restoration: &NodeRestoration) {
        if restoration.has_unread_association {
            // The sessions may belong to an association whose record could not be decoded.
            return;
        }
        let owners = self.sessions.store().owners();
        let unowned = owners.filter(|owner| {
            let is_owned = self.peers.association_of(*owner).is_some();
            !is_owned && !restoration.heirs.contains_key(owner)
        });
        for owner in unowned.collect::<Vec<_>>() {
            self.start_job(None, JobTask::EndAssociation { owner, next: SessionIndex(0) });
        }
    }
}
