//! Passes records to the store, waits until they are durable, and restores those of a previous
//! process; see [`crate::records`].

use core::net::{IpAddr, SocketAddr};

use adit_pfcp::ie::CpFunctionFeatures;
use adit_pfcp::message::SessionEstablishmentResponse;
use adit_pfcp::{Cause, MessageBody, MessageType, PfcpDatagram};
use adit_session::{
    FormerSession, KeptUsage, OwnerId, PfdApplication, PfdProvision, SessionPreparer, UsageReport,
};
use adit_store::{GroupNumber, OwnedRecordId, RecordGroup, RecordKind, StoreState};
use adit_types::limits::{
    REFUSED_RECORDS_NAMED_MAX, RESTORATION_DATAGRAMS_MAX, USAGE_RECORDS_PER_TURN_MAX,
};
use adit_types::{Nanos, Seid, SessionIndex};

use crate::counters::as_count;
use crate::event::NodeEvent;
use crate::node::{Node, ReceivedMessage};
use crate::records::{
    AnswerValue, AssociationValue, CLOCK_MARK, FormerRecord, FormerSessionRecord,
    FormerSessionValue, FormerValue, HeldAnswer, NodeRecord, NodeRestoration, PeerStateValue,
    PfdValue, RecordError, RecordSources, ReportsValue, UsageWalk, clock_mark, decoded, encoded,
};
use crate::refusal::Rejected;
use crate::session_state::{EndedSession, ReportItem};
use crate::transition::SessionDisposition;

impl Node {
    /// Returns the changes of records since the last call, as one group. Call it after all other
    /// work of an iteration of the control thread. Call [`Node::handle_durable`] when the store has
    /// the group.
    pub fn poll_records(&mut self, now: Nanos) -> Option<RecordGroup> {
        self.note_changed_usage();
        self.rewrite_part();
        let node = NodeRecord {
            recovery_time_stamp: self.config.recovery_time_stamp,
            clock_zero: self.clock_zero,
            last_owner: self.peers.last_owner().0,
        };
        // Taken out of `sessions` for the call, which reads the other parts of `sessions`.
        let mut records = core::mem::take(&mut self.sessions.records);
        let sources = RecordSources {
            now,
            store: self.sessions.store(),
            states: &self.sessions.states,
            transitions: &self.sessions.transitions,
            peers: &self.peers,
            path_qos: &self.path_qos,
        };
        let group = records.next_group(node, sources);
        self.sessions.records = records;
        group
    }

    /// Notes that the groups up to `number` are durable, and sends the messages that waited for
    /// them.
    pub fn handle_durable(&mut self, now: Nanos, number: GroupNumber) {
        self.sessions.records.set_durable(number);
        self.send_released(now);
    }

    /// Sets the state of the store. While the store fails, requests are refused with Cause 77.
    /// While it is full, requests that add to the records are refused with Cause 75, upon which a
    /// CP function may try another UP function. With
    /// [`RecordConfig::serves_without_store`](crate::RecordConfig) all requests are served
    /// nevertheless.
    pub fn set_store_state(&mut self, now: Nanos, state: StoreState) {
        self.sessions.records.set_store_state(state);
        self.send_released(now);
    }

    /// Returns the state of the store if it cannot keep the changes of a request.
    pub(crate) fn store_refusal(&self, request: &ReceivedMessage<'_>) -> Option<StoreState> {
        let grows = matches!(
            request.header.message_type,
            MessageType::SESSION_ESTABLISHMENT_REQUEST
                | MessageType::SESSION_MODIFICATION_REQUEST
                | MessageType::PFD_MANAGEMENT_REQUEST
        );
        self.sessions.records.refusal(grows)
    }

    /// Returns how many groups the store does not have yet, and how many messages wait for them.
    #[must_use]
    pub fn store_backlog(&self) -> (u64, usize) {
        (self.sessions.records.undurable_group_count(), self.sessions.records.held_len())
    }

    /// Starts the records of a node that has none. `clock_zero`: the time of day at which the
    /// node's clock was zero, in nanoseconds since 1900-01-01.
    pub fn begin_records(&mut self, clock_zero: u64) {
        self.clock_zero = clock_zero;
        self.sessions.records.note_node();
    }

    /// Notes that the store has groups up to `number` from a previous process, so that those of
    /// this process follow. Call it before the first group of this process is made.
    pub fn begin_groups_after(&mut self, number: GroupNumber) {
        self.sessions.records.continue_numbers_after(number);
    }

    fn send_released(&mut self, now: Nanos) {
        while let Some((transmit, answered)) = self.sessions.records.release() {
            if let Some(answered) = answered {
                if self.undo_late_establishment(now, answered, &transmit.bytes) {
                    continue;
                }
                self.remember(now, answered, &transmit.bytes);
            }
            self.transmits.push_back(transmit);
        }
    }

    /// Removes a session whose establishment was answered too late: no copy of the request has
    /// arrived for T1, so its sender has given up. The sender does not have the SEID, so nobody
    /// else could remove the session. Sends no answer; if another copy arrives nevertheless, it is
    /// a new request. True if it did so. Other requests need no such removal: their senders can
    /// refer to what they changed.
    fn undo_late_establishment(&mut self, now: Nanos, answered: HeldAnswer, bytes: &[u8]) -> bool {
        let HeldAnswer { peer, key, number } = answered;
        if MessageType(key.message_type) != MessageType::SESSION_ESTABLISHMENT_REQUEST {
            return false;
        }
        let Some(known) = self.peers.get_mut(peer) else { return false };
        let is_late = known.cache.last_copy(&key).is_some_and(|at| now.since(at) > self.config.t1);
        let Some(up_seid) = established_session(bytes).filter(|_| is_late) else { return false };
        known.cache.abandon(&key);
        if let Some(number) = number {
            self.sessions.records.forget_answer(number);
        }
        self.counters.scalars.establishments_taken_back += 1;
        let _ = self.delete_session(up_seid);
        true
    }

    pub(crate) fn note_changed_usage(&mut self) {
        while let Some(up_seid) = self.sessions.states.take_changed_usage() {
            self.sessions.records.note_reports(up_seid);
        }
    }

    /// Refuses a request because of the state of the store. The refusal changes nothing, so it is
    /// sent at once.
    pub(crate) fn refuse_without_store(
        &mut self,
        request: &ReceivedMessage<'_>,
        state: StoreState,
    ) {
        let scalars = &mut self.counters.scalars;
        let rejected = match state {
            StoreState::Full => {
                scalars.refused_store_full += 1;
                Rejected::new(Cause::NoResourcesAvailable, "the store is full")
            }
            StoreState::Failing | StoreState::Working => {
                scalars.refused_store_fails += 1;
                Rejected::new(Cause::SystemFailure, "the store fails")
            }
        };
        self.refuse_at_once(request, rejected);
    }

    /// Refuses a request without waiting for the store, since the refusal changes nothing.
    pub(crate) fn refuse_at_once(&mut self, request: &ReceivedMessage<'_>, rejected: Rejected) {
        self.sessions.records.set_passing(true);
        self.refuse_request(request, rejected, None);
        self.sessions.records.set_passing(false);
    }

    /// Returns when the next part of recording usage is due.
    pub(crate) fn next_usage_record(&self) -> Option<Nanos> {
        let records = &self.sessions.records;
        let interval = records.config()?.usage_interval;
        // Usage that cannot be recorded now is read once it can be recorded.
        if records.is_blocked() || records.store_state() == StoreState::Failing {
            return None;
        }
        match records.walk.next {
            SessionIndex(0) if self.sessions.store().is_empty() => None,
            SessionIndex(0) => Some(records.walk.since + interval),
            _ => Some(Nanos(0)),
        }
    }

    /// Records the usage of sessions: of each once per interval, and of a bounded number in each
    /// iteration of the control thread.
    pub(crate) fn record_usage(&mut self, now: Nanos) {
        if self.next_usage_record().is_none_or(|due| due > now) {
            return;
        }
        self.record_usage_part(now);
    }

    fn record_usage_part(&mut self, now: Nanos) {
        let UsageWalk { next: first, since } = self.sessions.records.walk;
        let since = if first == SessionIndex(0) { now } else { since };
        let is_full = self.sessions.records.store_state() == StoreState::Full;
        let store = self.sessions.store();
        let (sessions, next) = store.sessions_from(first, USAGE_RECORDS_PER_TURN_MAX);
        let used = sessions.filter_map(|session| {
            let up_seid = session.up_seid();
            // The record that follows the pending change will include the usage.
            if self.sessions.is_changing(up_seid) {
                return None;
            }
            // A full store accepts the replacement of a record, but no further record.
            if is_full && !self.sessions.records.has_usage(up_seid) {
                return None;
            }
            let usage = store.kept_usage(now, up_seid)?;
            (!usage.is_empty()).then(|| (up_seid, usage.octets()))
        });
        let used: Vec<_> = used.collect();
        for (up_seid, octets) in used {
            self.sessions.records.note_usage(up_seid, octets);
        }
        self.sessions.records.walk = UsageWalk { next: next.unwrap_or_default(), since };
    }

    /// Records the usage of all sessions at once, because the process is about to end.
    pub fn record_all_usage(&mut self, now: Nanos) {
        self.sessions.records.walk = UsageWalk { next: SessionIndex(0), since: Nanos(0) };
        loop {
            self.record_usage_part(now);
            if self.sessions.records.walk.next == SessionIndex(0) {
                return;
            }
        }
    }

    /// Begins to restore the records of a previous process. Until [`Node::end_restoration`] only
    /// heartbeats are answered; other requests wait.
    pub fn begin_restoration(&mut self, node: &NodeRecord) {
        self.clock_zero = node.clock_zero;
        // Rewritten, since it contains the version of the program that wrote it last.
        self.sessions.records.note_node();
        self.peers.skip_owners_through(OwnerId(node.last_owner));
        self.restoration = Some(NodeRestoration::default());
    }

    /// Accepts sessions as `preparer` has prepared them; see
    /// [`SessionStore::accept_prepared`](adit_session::SessionStore::accept_prepared).
    pub fn accept_prepared(&mut self, preparer: &SessionPreparer) {
        self.sessions.accept_prepared(preparer);
    }

    /// True until all records are restored.
    #[must_use]
    pub const fn is_restoring(&self) -> bool {
        self.restoration.is_some()
    }

    /// Restores a record, and takes its contents. Pass the kinds in the order of
    /// [`RecordKind::ALL`]. Sessions cost least in the order of their indices, the lowest 24 bits
    /// of their SEIDs, and if `record` is dropped by the thread that read it and allocated its
    /// memory.
    ///
    /// # Errors
    /// The reason why the record cannot be restored; an event reports it as well.
    pub fn restore_record(
        &mut self,
        now: Nanos,
        record: &mut FormerRecord,
    ) -> Result<(), RecordError> {
        let Some(mut restoration) = self.restoration.take() else { return Ok(()) };
        let restored = self.restore(now, &mut restoration, record);
        let (kind, name) = (record.kind, &record.name);
        let is_session = matches!((kind, name), (RecordKind::Session, OwnedRecordId::Number(_)));
        if let Err(error) = &restored
            && !is_session
        {
            self.note_refused_record(&mut restoration, kind, name, error);
        }
        self.restoration = Some(restoration);
        restored
    }

    /// Counts a record that cannot be restored; reports the first ones with an event.
    pub(super) fn note_refused_record(
        &mut self,
        restoration: &mut NodeRestoration,
        kind: RecordKind,
        name: &OwnedRecordId,
        error: &RecordError,
    ) {
        restoration.refused += 1;
        self.counters.scalars.sessions_not_restored += u64::from(kind == RecordKind::Session);
        restoration.has_unread_association |=
            matches!((kind, name), (RecordKind::Association, OwnedRecordId::Octets(_)));
        if restoration.refused <= REFUSED_RECORDS_NAMED_MAX {
            let (name, reason) = (name.clone(), error.to_string());
            self.events.push_back(NodeEvent::RecordNotRestored { kind, name, reason });
        }
    }

    fn restore(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        FormerRecord { kind, name, value }: &mut FormerRecord,
    ) -> Result<(), RecordError> {
        let octets = match (&*name, value) {
            (&OwnedRecordId::Number(number), FormerValue::Session(record)) => {
                return self.restore_owned_session(now, restoration, Seid(number), record);
            }
            (_, FormerValue::Session(_)) => return Err(RecordError::Malformed),
            (_, FormerValue::Octets(octets)) => octets.as_slice(),
        };
        match (*kind, &*name) {
            (RecordKind::Node | RecordKind::Standby, _) => Ok(()),
            // The caller has read the clock mark before the clock of this process started.
            (kind, name) if is_clock_mark(kind, name) => clock_mark(octets).map(|_| ()),
            (RecordKind::Association, OwnedRecordId::Octets(name)) => {
                self.restore_association(now, restoration, address_of(name)?, decoded(octets)?);
                Ok(())
            }
            (RecordKind::Association, &OwnedRecordId::Number(number)) => {
                self.restore_peer_state(now, restoration, owner_of(number)?, decoded(octets)?);
                Ok(())
            }
            (RecordKind::Pfds, OwnedRecordId::Octets(id)) => {
                self.restore_pfds(id, decoded(octets)?)
            }
            (RecordKind::Usage, &OwnedRecordId::Number(number)) => {
                restoration.usage.insert(Seid(number), KeptUsage::from_octets(octets)?);
                self.sessions.records.resume_usage(Seid(number), octets);
                Ok(())
            }
            (RecordKind::Usage, OwnedRecordId::Octets(name)) => {
                let up_seid = marked_session(name)?;
                restoration.marks.insert(up_seid);
                self.sessions.records.resume_set_aside(up_seid, true);
                Ok(())
            }
            (RecordKind::Report, &OwnedRecordId::Number(number)) => {
                let (up_seid, value) = (Seid(number), decoded::<ReportsValue>(octets)?);
                if self.sessions.records.is_marked(up_seid) {
                    restoration.reports_before.push((up_seid, value));
                    return Ok(());
                }
                self.restore_reports(up_seid, &value)
            }
            (RecordKind::Answer, OwnedRecordId::Number(_)) => {
                let answer: AnswerValue = decoded(octets)?;
                self.sessions.records.skip_answer(answer.number);
                restoration.answers.push(answer);
                Ok(())
            }
            _ => Err(RecordError::Malformed),
        }
    }

    pub(super) fn restore_association(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        address: IpAddr,
        mut value: AssociationValue,
    ) {
        let (nf_instance_id, controls) = (value.nf_instance_id, value.controls());
        let predecessors = core::mem::take(&mut value.predecessors);
        let time_stamp = self.config.recovery_time_stamp;
        let association = value.into_association(now, address, time_stamp);
        let owner = association.owner;
        let heirs = predecessors.into_iter().map(|former| (OwnerId(former), (owner, address)));
        restoration.heirs.extend(heirs);
        self.peers.skip_owners_through(owner);
        self.peers.setups.note_connected(address);
        let peer = self.peers.entry(address);
        peer.association = Some(association);
        peer.nf_instance_id = nf_instance_id;
        self.peers.refresh_aliases();
        self.path_qos.set(now, owner, controls);
        if let Some(state) = restoration.peer_states.remove(&owner) {
            self.restore_peer_state(now, restoration, owner, state);
        }
    }

    /// Restores the state of an association that is kept in a record of its own, at once or when
    /// the association is restored.
    fn restore_peer_state(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        owner: OwnerId,
        state: PeerStateValue,
    ) {
        self.sessions.records.resume_peer_state(owner);
        let address = self.peers.association_of(owner).map(|known| known.address);
        let association = address.and_then(|address| self.peers.association_mut(address));
        let Some(association) = association else {
            restoration.peer_states.insert(owner, state);
            return;
        };
        state.apply(association);
        let (address, own_time_stamp) = (association.address, association.own_time_stamp);
        if association.is_silent() {
            self.peers.setups.note_disconnected(now, address);
        }
        self.note_time_stamp(own_time_stamp);
    }

    fn restore_pfds(&mut self, id: &[u8], value: PfdValue) -> Result<(), RecordError> {
        let id = core::str::from_utf8(id).map_err(|_| RecordError::Malformed)?;
        for (owner, texts) in value.0 {
            let flow_descriptions = texts.into_iter().map(Into::into).collect();
            let applications = vec![PfdApplication { id: id.into(), flow_descriptions }];
            let provision = PfdProvision { applications };
            let provided = self.sessions.provision_pfds(OwnerId(owner), provision);
            provided.map_err(|_| RecordError::Pfds)?;
        }
        Ok(())
    }

    fn restore_owned_session(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        up_seid: Seid,
        record: &mut FormerSessionRecord,
    ) -> Result<(), RecordError> {
        if restoration.marks.remove(&up_seid) {
            restoration.set_aside_before.push((up_seid, record.octets.clone()));
            return Ok(());
        }
        self.restore_or_set_aside(now, restoration, up_seid, record)
    }

    /// Restores a session if its association exists. Otherwise sets its record aside, or removes
    /// the record if the association is known to be gone.
    pub(super) fn restore_or_set_aside(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        up_seid: Seid,
        FormerSessionRecord { value, octets }: &mut FormerSessionRecord,
    ) -> Result<(), RecordError> {
        let restored = value.as_mut().map_err(|error| error.clone()).and_then(|value| {
            self.check_owner(restoration, value.former.owner())?;
            self.restore_session(now, restoration, up_seid, value)
        });
        match &restored {
            Ok(()) => {
                self.counters.scalars.sessions_restored += 1;
                restoration.restored += 1;
            }
            Err(error) => self.set_aside_or_remove(restoration, up_seid, error, octets),
        }
        restored
    }

    /// Notes that the store has lost records, perhaps of sessions: our Recovery Time Stamp will
    /// show that to every peer. Call it before [`Node::end_restoration`].
    pub fn note_lost_records(&mut self) {
        if let Some(restoration) = &mut self.restoration {
            restoration.is_loss_unknown = true;
        }
    }

    /// Moves our Recovery Time Stamp towards peers that have lost sessions, which informs them.
    fn move_time_stamps_of_lost_sessions(&mut self, now: Nanos, restoration: &NodeRestoration) {
        // Peers that set up an association again see a time stamp of this process.
        self.note_time_stamp(self.ntp_clock.seconds(now));
        let owners = self.associations().map(|known| known.owner);
        let has_lost =
            |owner: &OwnerId| restoration.is_loss_unknown || restoration.lost_of.contains(owner);
        for owner in owners.filter(has_lost).collect::<Vec<_>>() {
            self.move_time_stamp_of(now, owner);
        }
    }

    /// Restores a session, with usage if a usage record is later than the session's. A refusal
    /// changes nothing.
    pub(super) fn restore_session(
        &mut self,
        now: Nanos,
        restoration: &mut NodeRestoration,
        up_seid: Seid,
        value: &mut FormerSessionValue,
    ) -> Result<(), RecordError> {
        let FormerSessionValue { former, information, sets, former_cp } = value;
        if former.up_seid() != up_seid {
            return Err(RecordError::Malformed);
        }
        if let Some(later) = restoration.usage.get(&up_seid) {
            former.set_usage(later.clone());
        }
        let index = self.sessions.restore(now, former).map_err(RecordError::Refused)?;
        restoration.usage.remove(&up_seid);
        let states = &mut self.sessions.states;
        if let Some(information) = information.take() {
            states.update_information(index, information.into());
        }
        let sets: Vec<_> = sets.drain(..).map(Into::into).collect();
        if !sets.is_empty() {
            states.assign_sets(index, sets);
        }
        if let Some(former) = former_cp.take() {
            states.keep_former_cp(up_seid, former.into());
        }
        Ok(())
    }

    /// Ends a session of a previous process. Returns it if its last usage is to be reported, with
    /// reports that were not acknowledged, because its CP function supports such reports. Spec: TS
    /// 29.244 §5.18 (EPFAR).
    pub(super) fn end_former_session(
        &mut self,
        up_seid: Seid,
        octets: &[u8],
    ) -> Option<FormerSession> {
        let former = FormerSessionValue::from_octets(octets).ok()?.former;
        let owner = former.owner();
        let takes = self.peers.cp_function_has(owner, CpFunctionFeatures::EPFAR);
        let association = self.peers.association_of(owner).filter(|_| takes)?;
        let to = SocketAddr::new(association.address, association.port);
        let cp_seid = former.cp().seid;
        let ended = EndedSession { to, cp_seid, owner, by_us: true, is_read: true };
        self.sessions.states.add_ended(up_seid, ended);
        Some(former)
    }

    pub(super) fn report_lost_session(&mut self, now: Nanos, up_seid: Seid, former: FormerSession) {
        let owner = former.owner();
        let usage = former.last_usage(now).into_iter().filter(UsageReport::has_usage);
        for report in usage.map(ReportItem::Usage) {
            if !self.sessions.states.push_report(up_seid, owner, report) {
                self.counters.scalars.reports_lost_queue_full += 1;
            }
        }
        self.sessions.states.forget_if_reported(up_seid);
    }

    pub(super) fn restore_reports(
        &mut self,
        up_seid: Seid,
        value: &ReportsValue,
    ) -> Result<(), RecordError> {
        self.sessions.records.resume_reports(up_seid);
        if let Some(session) = self.set_aside.get_mut(up_seid) {
            session.reports = Some(encoded(value));
            return Ok(());
        }
        let owner = OwnerId(value.owner);
        let is_known = self.sessions.store().session(up_seid).is_some()
            || self.sessions.states.ended(up_seid).is_some();
        if !is_known {
            let ended = value.ended.filter(|_| self.peers.association_of(owner).is_some());
            let Some(ended) = ended else {
                self.sessions.records.note_reports(up_seid);
                return Err(RecordError::NoAssociation);
            };
            self.sessions.states.add_ended(up_seid, ended.into());
        }
        for octets in &value.usage {
            let report = ReportItem::Usage(UsageReport::from_octets(octets)?);
            if !self.sessions.states.push_report(up_seid, owner, report) {
                self.counters.scalars.reports_lost_queue_full += 1;
                self.sessions.records.note_reports(up_seid);
            }
        }
        Ok(())
    }

    /// Restores answers whose requests may still be retransmitted. The time between the processes
    /// does not count: a peer continues to retransmit a request that it sent shortly before the
    /// previous process ended.
    fn restore_answers(&mut self, now: Nanos, mut answers: Vec<AnswerValue>) {
        answers.sort_unstable_by_key(|answer| answer.number);
        let last = answers.iter().map(|answer| answer.at).max().unwrap_or_default();
        let span = self.config.retransmission().span().0;
        answers.retain(|answer| last - answer.at < span);
        answers.into_iter().for_each(|answer| self.restore_answer(now, answer));
    }

    /// Restores an answer, unless its peer has another association by now: then sequence numbers
    /// began again.
    fn restore_answer(&mut self, now: Nanos, answer: AnswerValue) {
        let owner = self.peers.association_for(answer.peer).map(|association| association.owner);
        if answer.owner != owner.map(|owner| owner.0) {
            return;
        }
        let key = answer.key();
        if self.peers.make_room_for(answer.peer) {
            let cache = &mut self.peers.entry(answer.peer).cache;
            cache.answer(now, key, Some(answer.number), answer.octets);
        }
    }

    /// Ends the restoration: the node serves again, beginning with the requests that waited.
    pub fn end_restoration(&mut self, now: Nanos) {
        let Some(mut restoration) = self.restoration.take() else { return };
        if let Some(followed) = restoration.followed.take() {
            self.end_following(now, &mut restoration, *followed);
        }
        for owner in restoration.peer_states.keys() {
            // The association is gone, and this removes the record.
            self.sessions.records.note_peer_state(*owner);
        }
        self.restore_set_aside(now, &mut restoration);
        self.emit_not_restored(&mut restoration);
        self.move_time_stamps_of_lost_sessions(now, &restoration);
        let NodeRestoration { heirs, answers, postponed, restored, refused, .. } = restoration;
        for (former, (to, address)) in heirs {
            if self.sessions.store().owned_count(former) > 0 {
                self.begin_transition(former, SessionDisposition::Move { to, address }, None);
            }
        }
        self.restore_answers(now, answers);
        let associations = self.peers.associations().count();
        self.events.push_back(NodeEvent::Restored { associations, sessions: restored, refused });
        self.send_reports(now);
        for (from, octets) in postponed {
            self.handle_messages(now, from, &octets);
        }
    }

    /// Keeps a datagram that needs sessions for later, while sessions are restored; true if it did.
    pub(crate) fn postpone_if_restoring(&mut self, from: SocketAddr, octets: &[u8]) -> bool {
        let Some(restoration) = &mut self.restoration else { return false };
        if restoration.followed.is_some() {
            // The active node answers this datagram.
            self.counters.scalars.discarded_restoring += as_count(1);
            return true;
        }
        let heartbeats = [MessageType::HEARTBEAT_REQUEST, MessageType::HEARTBEAT_RESPONSE];
        if octets.get(1).is_some_and(|&octet| heartbeats.contains(&MessageType(octet))) {
            return false;
        }
        match restoration.postponed.len() < RESTORATION_DATAGRAMS_MAX {
            true => restoration.postponed.push_back((from, octets.to_vec())),
            false => self.counters.scalars.discarded_restoring += as_count(1),
        }
        true
    }
}

/// Decodes from an answer the session that it reports as established.
fn established_session(bytes: &[u8]) -> Option<Seid> {
    let message = PfcpDatagram::new(bytes).next()?.ok()?;
    let answer = SessionEstablishmentResponse::decode_body(message.body).ok()?;
    answer.up_f_seid.filter(|_| answer.cause.is_accepted()).map(|id| id.seid)
}

/// True for the key of a [`CLOCK_MARK`].
pub(super) fn is_clock_mark(kind: RecordKind, name: &OwnedRecordId) -> bool {
    (kind, name.as_id()) == (CLOCK_MARK.kind, CLOCK_MARK.id)
}

/// Parses the session from the name of the mark that it is set aside.
pub(super) fn marked_session(name: &[u8]) -> Result<Seid, RecordError> {
    let octets = name.try_into().map_err(|_| RecordError::Malformed)?;
    Ok(Seid(u64::from_be_bytes(octets)))
}

/// Parses the address that an association record is named by.
pub(super) fn address_of(name: &[u8]) -> Result<IpAddr, RecordError> {
    let address = core::str::from_utf8(name).ok().and_then(|text| text.parse().ok());
    address.ok_or(RecordError::Malformed)
}

/// Parses the association that a record is named by.
pub(super) fn owner_of(number: u64) -> Result<OwnerId, RecordError> {
    u32::try_from(number).map(OwnerId).map_err(|_| RecordError::Malformed)
}
