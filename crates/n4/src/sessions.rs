//! The sessions: their rules, their states, and changes that are on their way to the workers.
//!
//! Only this module changes the session store. Each change of a session, caused by a message, a
//! timer, usage or this node itself, results in one [`CommittedChange`], which only
//! [`Sessions::commit`] accepts. It informs every part that depends on changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use adit_rules::{DeltaId, RuleDelta, UsageSource, WorkerCommand};
use adit_session::{
    ChangedApplications, CpFSeid, CreatedPdr, CreatedTrafficEndpoint, CreatedUe, EndMarker,
    Established, FormerSession, KeptUsage, Modified, OwnerId, PfdProvision, PfdRefusal,
    Provisioning, QerPacketRate, Refusal, ReplacedSession, Restored, SessionChange,
    SessionPreparer, SessionStore, StoreConfig, TrafficStart, UsageOutcome, UsageReport,
};
use adit_types::{Nanos, Seid, SessionIndex, UsageSlot};

use crate::config::RecordConfig;
use crate::records::{RecordBook, session_value};
use crate::session_state::{
    DiscardedReports, EndedSession, RemainingReports, SessionInformation, SessionStates, SetKey,
};
use crate::transition::Transitions;

/// How a change affects the record of its session.
#[derive(Debug, Clone, Copy)]
enum CommittedRecord {
    /// The record does not change.
    Unchanged,
    /// Changed. A store outside the process gets the record once workers run the change.
    Stored,
    /// Changed. A store outside the process gets the record at once, as messages report it at once.
    StoredAtOnce,
    /// The session is removed; what happens to its reports.
    Removed(RemainingReports),
}

/// How a change affects the record outside the process once all workers run the change.
#[derive(Debug, Default)]
enum PendingRecord {
    #[default]
    Unchanged,
    Stored,
    /// The record as it was before later changes, which are under way.
    Former(Vec<u8>),
    Removed,
}

/// One change of one session that is made in the session store and not yet passed to workers.
#[derive(Debug)]
#[must_use = "workers run the former rules until the change is committed"]
struct CommittedChange {
    up_seid: Seid,
    record: CommittedRecord,
    /// The delta to publish; `None` if nothing changes for packets.
    delta: Option<RuleDelta>,
}

#[derive(Debug, Clone, Copy)]
struct CommitOutcome {
    change: Option<DeltaId>,
    discarded: DiscardedReports,
}

#[derive(Debug)]
pub(crate) struct NewSession {
    pub up_seid: Seid,
    pub index: SessionIndex,
    pub change: DeltaId,
    pub created: Vec<CreatedPdr>,
    pub created_ues: Vec<CreatedUe>,
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    /// The sessions that this one replaced.
    pub replaced: Vec<DeletedSession>,
}

/// The parameters, besides its rules, that a CP function sends for a session to be established.
#[derive(Debug)]
pub(crate) struct EstablishmentContext {
    pub owner: OwnerId,
    pub cp: CpFSeid,
    pub information: SessionInformation,
    pub sets: Vec<SetKey>,
}

#[derive(Debug)]
pub(crate) struct ModifiedSession {
    /// The change on its way to workers; `None` if nothing changes for packets.
    pub change: Option<DeltaId>,
    /// The outcome in the session store, without the delta.
    pub outcome: Modified,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DeletedSession {
    pub change: DeltaId,
    /// The reports of the session that were dropped.
    pub discarded: DiscardedReports,
}

/// The action to take once all workers run a change.
#[derive(Debug, Default)]
pub(crate) enum FollowUp {
    #[default]
    Nothing,
    /// Report usage that did not fit into the response, after the response.
    ReportUsage(Vec<UsageReport>),
    /// Complete the response to the CP function's deletion of the session.
    Deleted {
        /// Packet rates whose status the response reports.
        packet_rates: Vec<QerPacketRate>,
        /// The receiver of usage that does not fit into the response.
        overflow: Option<EndedSession>,
    },
    /// Report the last usage of a session that this node deleted.
    ReportLastUsage,
}

/// A change that some worker does not run yet.
#[derive(Debug)]
pub(crate) struct PendingChange {
    pub up_seid: Seid,
    pub session: SessionIndex,
    /// Usage for the response; usage that is read once the change is observed is appended to it.
    pub usage: Vec<UsageReport>,
    pub follow_up: FollowUp,
    record: PendingRecord,
    /// Sessions that this one replaced: their records are removed when its record is written.
    replaced: Vec<Seid>,
}

/// The sessions of all CP functions.
#[derive(Debug)]
pub(crate) struct Sessions {
    store: SessionStore,
    pub states: SessionStates,
    pub transitions: Transitions,
    pub records: RecordBook,
    /// When a session was last modified, or a change was last observed.
    latest: Nanos,
    last_change: u64,
    pending: BTreeMap<DeltaId, PendingChange>,
    /// The pending changes of each session, if records are kept.
    pending_by_session: BTreeMap<Seid, Vec<DeltaId>>,
    deltas: VecDeque<(DeltaId, RuleDelta)>,
    /// Commands that workers must receive before the change.
    end_markers: VecDeque<(DeltaId, WorkerCommand)>,
}

impl Sessions {
    /// Creates an empty collection of sessions. `own_set`: the set of this node.
    pub(crate) fn new(config: StoreConfig, own_set: SetKey, records: Option<RecordConfig>) -> Self {
        let mut states = SessionStates::new(own_set);
        if records.is_some() {
            states.record_usage();
        }
        Self {
            store: SessionStore::new(config),
            states,
            transitions: Transitions::default(),
            records: RecordBook::new(records),
            latest: Nanos(0),
            last_change: 0,
            pending: BTreeMap::new(),
            pending_by_session: BTreeMap::new(),
            deltas: VecDeque::new(),
            end_markers: VecDeque::new(),
        }
    }

    pub(crate) const fn store(&self) -> &SessionStore {
        &self.store
    }

    /// Returns the session store, to change it without [`Self::commit`]. For tests.
    pub(crate) const fn store_mut(&mut self) -> &mut SessionStore {
        &mut self.store
    }

    /// Applies a change that the session store has made: ends the state of a session that was
    /// removed, and queues the delta for the workers.
    fn commit(&mut self, change: CommittedChange) -> CommitOutcome {
        let CommittedChange { up_seid, record, delta } = change;
        let discarded = match record {
            CommittedRecord::Removed(remaining) => self.states.end(up_seid, remaining),
            _ => DiscardedReports::default(),
        };
        let pending_record = self.note_or_defer_record(up_seid, record, delta.is_some());
        let change = delta.map(|delta| {
            self.last_change += 1;
            let (id, session) = (DeltaId(self.last_change), delta.session);
            let (usage, follow_up, record) = (Vec::new(), FollowUp::Nothing, pending_record);
            let replaced = Vec::new();
            let pending = PendingChange { up_seid, session, usage, follow_up, record, replaced };
            self.pending.insert(id, pending);
            if self.records.keeps_records() {
                self.pending_by_session.entry(up_seid).or_default().push(id);
            }
            self.deltas.push_back((id, delta));
            id
        });
        // A change without a delta of its own is recorded together with the last pending change.
        let behind =
            || self.last_pending(up_seid).filter(|_| matches!(record, CommittedRecord::Stored));
        CommitOutcome { change: change.or_else(behind), discarded }
    }

    /// True while some worker does not run the last change of a session, if records are kept.
    pub(crate) fn is_changing(&self, up_seid: Seid) -> bool {
        self.pending_by_session.contains_key(&up_seid)
    }

    fn last_pending(&self, up_seid: Seid) -> Option<DeltaId> {
        self.pending_by_session.get(&up_seid)?.last().copied()
    }

    /// Notes the changed record, unless that has to wait for workers: then returns what to record.
    fn note_or_defer_record(
        &mut self,
        up_seid: Seid,
        record: CommittedRecord,
        is_published: bool,
    ) -> PendingRecord {
        match record {
            CommittedRecord::Unchanged => {}
            CommittedRecord::Removed(_) => return PendingRecord::Removed,
            CommittedRecord::Stored if is_published => return PendingRecord::Stored,
            CommittedRecord::Stored => match self.last_pending(up_seid) {
                None => self.records.note_session(up_seid),
                Some(id) => {
                    if let Some(change) = self.pending.get_mut(&id) {
                        change.record = PendingRecord::Stored;
                    }
                }
            },
            CommittedRecord::StoredAtOnce => {
                for id in self.pending_by_session.get(&up_seid).into_iter().flatten() {
                    if let Some(change) = self.pending.get_mut(id)
                        && matches!(change.record, PendingRecord::Former(_))
                    {
                        change.record = PendingRecord::Stored;
                    }
                }
                self.records.note_session(up_seid);
            }
        }
        PendingRecord::Unchanged
    }

    /// Makes records of earlier pending changes contain the present state of the session, because
    /// the session is about to change again.
    fn fix_earlier_records(&mut self, now: Nanos, up_seid: Seid) {
        if !self.records.keeps_records() {
            return;
        }
        let pending = self.pending_by_session.get(&up_seid).into_iter().flatten();
        let is_stored = |id: &&DeltaId| {
            self.pending.get(id).is_some_and(|c| matches!(c.record, PendingRecord::Stored))
        };
        let stored: Vec<DeltaId> = pending.filter(is_stored).copied().collect();
        if stored.is_empty() && !self.records.is_session_noted(up_seid) {
            return;
        }
        let value = session_value(now, &self.store, &self.states, up_seid);
        let Some(octets) = value else { return };
        for id in stored {
            if let Some(change) = self.pending.get_mut(&id) {
                change.record = PendingRecord::Former(octets.clone());
            }
        }
        self.records.settle_session(up_seid, octets);
    }

    fn note_observed(&mut self, id: DeltaId, change: &mut PendingChange) {
        let up_seid = change.up_seid;
        if let Some(pending) = self.pending_by_session.get_mut(&up_seid) {
            pending.retain(|other| *other != id);
            if pending.is_empty() {
                self.pending_by_session.remove(&up_seid);
            }
        }
        for gone in core::mem::take(&mut change.replaced) {
            self.records.note_replaced_session(up_seid, gone);
        }
        match core::mem::take(&mut change.record) {
            PendingRecord::Unchanged => {}
            PendingRecord::Stored => self.records.note_session(up_seid),
            PendingRecord::Former(octets) => self.records.note_former_session(up_seid, octets),
            PendingRecord::Removed => self.records.note_removed_session(up_seid),
        }
    }

    fn commit_stored(&mut self, up_seid: Seid, delta: Option<RuleDelta>) -> Option<DeltaId> {
        self.commit(CommittedChange { up_seid, record: CommittedRecord::Stored, delta }).change
    }

    fn commit_removed(
        &mut self,
        up_seid: Seid,
        delta: RuleDelta,
        remaining: RemainingReports,
    ) -> DeletedSession {
        let (record, delta) = (CommittedRecord::Removed(remaining), Some(delta));
        let CommitOutcome { change, discarded } =
            self.commit(CommittedChange { up_seid, record, delta });
        DeletedSession { change: change.unwrap_or_default(), discarded }
    }

    /// Establishes a session.
    ///
    /// The refusal of the session store; nothing has changed then.
    /// session that gives way.
    pub(crate) fn establish(
        &mut self,
        context: EstablishmentContext,
        change: SessionChange,
        remaining: impl Fn(&SessionStates, &ReplacedSession) -> RemainingReports,
    ) -> Result<NewSession, Refusal> {
        let EstablishmentContext { owner, cp, information, sets } = context;
        let Established {
            up_seid,
            index,
            delta,
            created,
            created_ues,
            created_endpoints,
            replaced,
        } = self.store.establish(owner, cp, change)?;
        self.records.note_new_session(up_seid);
        let change = self.commit_stored(up_seid, Some(delta)).unwrap_or_default();
        let replaced = self.replace(change, replaced, remaining);
        self.transitions.exempt(owner, index);
        self.states.update_information(index, information);
        self.states.assign_sets(index, sets);
        Ok(NewSession { up_seid, index, change, created, created_ues, created_endpoints, replaced })
    }

    /// Publishes the ends of sessions that were replaced, after the change that replaced them, so
    /// that packets always find one of the two. Their records are removed with that change.
    fn replace(
        &mut self,
        change: DeltaId,
        replaced: Vec<ReplacedSession>,
        remaining: impl Fn(&SessionStates, &ReplacedSession) -> RemainingReports,
    ) -> Vec<DeletedSession> {
        if let Some(pending) = self.pending.get_mut(&change) {
            pending.replaced = replaced.iter().map(|gone| gone.up_seid).collect();
        }
        let end = |gone: ReplacedSession| {
            let remaining = remaining(&self.states, &gone);
            self.commit_removed(gone.up_seid, gone.delta, remaining)
        };
        replaced.into_iter().map(end).collect()
    }

    /// Modifies a session.
    ///
    /// # Errors
    /// The refusal of the session store; nothing has changed then.
    pub(crate) fn modify(
        &mut self,
        up_seid: Seid,
        change: SessionChange,
    ) -> Result<ModifiedSession, Refusal> {
        self.latest = change.at;
        self.fix_earlier_records(change.at, up_seid);
        let mut outcome = self.store.modify(up_seid, change)?;
        let change = self.commit_stored(up_seid, outcome.delta.take());
        Ok(ModifiedSession { change, outcome })
    }

    /// Restores a session of a previous process, whose record exists already.
    ///
    /// # Errors
    /// The refusal of the session store; nothing has changed then.
    pub(crate) fn restore(
        &mut self,
        now: Nanos,
        former: &mut FormerSession,
    ) -> Result<SessionIndex, Refusal> {
        let Restored { index, delta, .. } = self.store.restore(now, former)?;
        // No answer waits for this change, so it is not pending.
        self.last_change += 1;
        self.deltas.push_back((DeltaId(self.last_change), delta));
        Ok(index)
    }

    /// Reserves the index of this session, so that no other session gets it; false if it is used.
    pub(crate) fn reserve_index(&mut self, up_seid: Seid) -> bool {
        self.store.reserve_index(up_seid)
    }

    pub(crate) fn release_index(&mut self, up_seid: Seid) {
        self.store.release_index(up_seid);
    }

    pub(crate) fn resume_usage(&mut self, now: Nanos, up_seid: Seid, used: &KeptUsage) {
        let delta = self.store.resume_usage(now, up_seid, used);
        let record = CommittedRecord::Unchanged;
        let _ = self.commit(CommittedChange { up_seid, record, delta });
    }

    /// Replaces the PFDs of an application; see [`SessionStore::describe_application`].
    ///
    /// # Errors
    /// Why the PFDs are refused; nothing has changed then.
    pub(crate) fn describe_application(
        &mut self,
        id: &str,
        descriptions: Vec<(OwnerId, Vec<Box<str>>)>,
    ) -> Result<ChangedApplications, PfdRefusal> {
        self.store.describe_application(id, descriptions)
    }

    /// `None` if there is no such session.
    pub(crate) fn delete(
        &mut self,
        up_seid: Seid,
        remaining: RemainingReports,
    ) -> Option<DeletedSession> {
        self.fix_earlier_records(self.latest, up_seid);
        let delta = self.store.delete(up_seid).ok()?;
        Some(self.commit_removed(up_seid, delta, remaining))
    }

    /// Removes the session whose commit a panic interrupted. `None` if no commit was interrupted.
    pub(crate) fn recover(&mut self, remaining: RemainingReports) -> Option<DeletedSession> {
        let up_seid = self.store.last_commit()?;
        let delta = self.store.recover()?;
        Some(self.commit_removed(up_seid, delta, remaining))
    }

    /// Moves a session to the association `owner`, with `cp` as its CP F-SEID.
    pub(crate) fn set_control(&mut self, up_seid: Seid, owner: OwnerId, cp: CpFSeid) {
        let Some(session) = self.store.session(up_seid) else { return };
        let (index, before) = (session.index(), session.owner());
        self.store.set_control(up_seid, owner, cp);
        if before != owner {
            self.transitions.exempt(owner, index);
        }
        self.commit_stored(up_seid, None);
    }

    /// Returns the next session to which transition `number` of `owner` was not applied yet.
    pub(crate) fn next_transition(&mut self, owner: OwnerId, number: u64) -> Option<Seid> {
        self.transitions.next(owner, number, &self.store)
    }

    /// Removes and returns a session that only has last reports, if these have no receiver, because
    /// the sessions of its association move elsewhere.
    pub(crate) fn take_ended(&mut self, owner: OwnerId) -> Option<Seid> {
        if self.transitions.leaves_ended_without_receiver(owner) {
            self.states.pop_ended(owner)
        } else {
            None
        }
    }

    /// Recompiles a session if its rules refer to one of the applications.
    pub(crate) fn recompile(
        &mut self,
        session: SessionIndex,
        changed: &ChangedApplications,
    ) -> Option<DeltaId> {
        let up_seid = self.store.session_at(session)?.up_seid();
        let delta = self.store.recompile_naming(session, changed)?;
        let (record, delta) = (CommittedRecord::Unchanged, Some(delta));
        self.commit(CommittedChange { up_seid, record, delta }).change
    }

    /// Compiles and publishes the rules of a session again, without a change of its record.
    pub(crate) fn republish(&mut self, session: SessionIndex) -> Option<DeltaId> {
        let up_seid = self.store.session_at(session)?.up_seid();
        let (record, delta) = (CommittedRecord::Unchanged, self.store.recompile(session));
        self.commit(CommittedChange { up_seid, record, delta }).change
    }

    /// See [`SessionStore::accept_prepared`].
    pub(crate) fn accept_prepared(&mut self, preparer: &SessionPreparer) {
        self.store.accept_prepared(preparer);
    }

    /// Replaces the objects that rules may refer to; see [`SessionStore::set_provisioning`].
    pub(crate) fn set_provisioning(&mut self, provisioning: Provisioning) {
        self.store.set_provisioning(provisioning);
    }

    /// Handles a limit of usage that a worker has reached. Commits the change, and returns its
    /// reports.
    pub(crate) fn on_usage_limit(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        slot: UsageSlot,
        generation: u32,
    ) -> Option<UsageOutcome> {
        let outcome = self.store.handle_usage_limit(now, up_seid, slot, generation);
        self.commit_usage(outcome)
    }

    /// Handles the first packet of a measurement at a worker, in the same way as
    /// [`Self::on_usage_limit`].
    pub(crate) fn on_traffic_started(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        started: TrafficStart,
    ) -> Option<UsageOutcome> {
        let outcome = self.store.handle_traffic_started(now, up_seid, started);
        self.commit_usage(outcome)
    }

    /// Handles an End Marker at a worker, in the same way as [`Self::on_usage_limit`].
    pub(crate) fn on_end_marker(
        &mut self,
        now: Nanos,
        session: SessionIndex,
    ) -> Option<UsageOutcome> {
        let outcome = self.store.handle_end_marker(now, session);
        self.commit_usage(outcome)
    }

    /// Handles the next session whose usage is due by `now`, in the same way as
    /// [`Self::on_usage_limit`].
    pub(crate) fn poll_usage(&mut self, now: Nanos) -> Option<UsageOutcome> {
        let outcome = self.store.poll_usage(now);
        self.commit_usage(outcome)
    }

    fn commit_usage(&mut self, outcome: Option<UsageOutcome>) -> Option<UsageOutcome> {
        let mut outcome = outcome?;
        let (record, delta) = (CommittedRecord::StoredAtOnce, outcome.delta.take());
        let up_seid = outcome.up_seid;
        let _ = self.commit(CommittedChange { up_seid, record, delta });
        Some(outcome)
    }

    /// Sets the source of the usage that workers count.
    pub(crate) fn set_usage_source(&mut self, source: Arc<dyn UsageSource>) {
        self.store.set_usage_source(source);
    }

    /// Replaces PFDs; see [`SessionStore::provision_pfds`].
    ///
    /// # Errors
    /// Why the PFDs are refused; nothing has changed then.
    pub(crate) fn provision_pfds(
        &mut self,
        owner: OwnerId,
        provision: PfdProvision,
    ) -> Result<ChangedApplications, PfdRefusal> {
        let changed = self.store.provision_pfds(owner, provision)?;
        self.records.note_pfds();
        Ok(changed)
    }

    /// Removes the PFDs of an association.
    pub(crate) fn withdraw_pfds(&mut self, owner: OwnerId) -> ChangedApplications {
        self.records.note_pfds();
        self.store.withdraw_pfds(owner)
    }

    /// Moves the PFDs of an association to another one.
    pub(crate) fn hand_over_pfds(&mut self, from: OwnerId, to: OwnerId) -> ChangedApplications {
        self.records.note_pfds();
        self.store.hand_over_pfds(from, to)
    }

    /// Returns the next GTP-U peer whose reference points may have changed.
    pub(crate) fn take_changed_peer(&mut self) -> Option<core::net::IpAddr> {
        self.store.take_changed_peer()
    }

    /// Makes the next commit panic in the middle. For tests.
    pub(crate) fn inject_fault_in_commit(&mut self) {
        self.store.inject_fault_in_commit();
    }

    /// Returns how many changes some worker does not run yet; of restored sessions, only those that
    /// are not passed to workers yet.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len().max(self.deltas.len())
    }

    /// True until all workers run the change.
    pub(crate) fn is_pending(&self, id: DeltaId) -> bool {
        self.pending.contains_key(&id)
    }

    /// Returns a change that some worker does not run yet.
    pub(crate) fn pending(&self, id: DeltaId) -> Option<&PendingChange> {
        self.pending.get(&id)
    }

    pub(crate) fn pending_mut(&mut self, id: DeltaId) -> Option<&mut PendingChange> {
        self.pending.get_mut(&id)
    }

    /// Returns the pending changes of a session, the latest first.
    pub(crate) fn pending_changes_of(
        &mut self,
        up_seid: Seid,
    ) -> impl Iterator<Item = (DeltaId, &mut PendingChange)> {
        let changes = self.pending.iter_mut().rev().map(|(id, change)| (*id, change));
        changes.filter(move |(_, change)| change.up_seid == up_seid)
    }

    /// Removes and returns the change `id`, which all workers run now.
    pub(crate) fn take_observed(&mut self, id: DeltaId) -> Option<PendingChange> {
        let mut change = self.pending.remove(&id)?;
        self.note_observed(id, &mut change);
        Some(change)
    }

    /// Reads the last usage of the URRs that a change removed, and frees them. Call it when all
    /// workers run the change. Drops End Markers that should have been sent before the change.
    pub(crate) fn reclaim(
        &mut self,
        now: Nanos,
        id: DeltaId,
        session: SessionIndex,
    ) -> Vec<UsageReport> {
        self.latest = now;
        let usage = self.store.final_reports(now, session);
        self.store.reclaim(session);
        while self.end_markers.front().is_some_and(|(change, _)| *change <= id) {
            self.end_markers.pop_front();
        }
        usage
    }

    /// Queues End Markers, which workers send when they begin to run the change `id`.
    /// Spec: TS 29.244 §5.2.3.3; TS 23.501 §5.8.2.9.
    pub(crate) fn send_end_markers(&mut self, id: DeltaId, markers: Vec<EndMarker>) {
        let Some(session) = self.pending.get(&id).map(|pending| pending.session) else { return };
        for EndMarker { tunnel, interfaces, qfi } in markers {
            let change = id;
            let command = WorkerCommand::SendEndMarker { tunnel, interfaces, qfi, session, change };
            self.end_markers.push_back((id, command));
        }
    }

    /// Returns the next command that every worker must receive before the change `id`.
    pub(crate) fn poll_command_before(&mut self, id: DeltaId) -> Option<WorkerCommand> {
        self.end_markers.pop_front_if(|(change, _)| *change <= id).map(|(_, command)| command)
    }

    /// Returns the next change to publish, in order.
    pub(crate) fn poll_delta(&mut self) -> Option<(DeltaId, RuleDelta)> {
        self.deltas.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use adit_rules::KeyChange;
    use adit_session::{PackedRecord, ReservedCounts};
    use adit_types::{FarId, InterfaceSet, PdrId};

    use super::*;
    use crate::fixture::{TUNNEL, establish, forwarding, sessions};

    const ONE: OwnerId = OwnerId(1);
    const OTHER: OwnerId = OwnerId(2);

    /// Returns a change that packets notice: it removes the PDR and its FAR.
    fn emptying() -> SessionChange {
        let (remove_pdrs, remove_fars) = (vec![PdrId(1)], vec![FarId(1)]);
        SessionChange { remove_pdrs, remove_fars, ..SessionChange::default() }
    }

    /// Publishes the next change, as if all workers ran it. Returns its identifier and its delta.
    fn observe(sessions: &mut Sessions) -> Option<(DeltaId, RuleDelta)> {
        let (id, delta) = sessions.poll_delta()?;
        let change = sessions.take_observed(id).unwrap();
        assert_eq!(change.session, delta.session);
        sessions.reclaim(Nanos(0), id, delta.session);
        Some((id, delta))
    }

    fn record(sessions: &Sessions, up_seid: Seid) -> Option<PackedRecord> {
        sessions.store().session(up_seid).map(|session| session.packed_record().clone())
    }

    #[test]
    fn each_change_of_a_session_is_published_once_and_in_order() {
        let mut sessions = sessions();
        let NewSession { up_seid, index, change, .. } = establish(&mut sessions, ONE, 1);
        let modified = sessions.modify(up_seid, emptying()).unwrap().change;
        let deleted = sessions.delete(up_seid, RemainingReports::Discard).unwrap().change;
        assert_eq!((change, modified, deleted), (DeltaId(1), Some(DeltaId(2)), DeltaId(3)));
        assert_eq!((sessions.pending_len(), sessions.is_pending(deleted)), (3, true));
        let latest_first: Vec<_> =
            sessions.pending_changes_of(up_seid).map(|(id, _)| id.0).collect();
        assert_eq!(latest_first, [3, 2, 1]);
        for id in [1, 2, 3] {
            let (known, delta) = observe(&mut sessions).unwrap();
            assert_eq!((known, delta.session), (DeltaId(id), index));
            assert_eq!(delta.rules.is_some(), id < 3, "the last one removes the session");
            let is_key_added = matches!(*delta.keys, [KeyChange::Add(_)]);
            assert_eq!((delta.keys.len(), is_key_added), (usize::from(id < 3), id == 1));
        }
        assert!(observe(&mut sessions).is_none() && sessions.pending_len() == 0);
    }

    #[test]
    fn session_leaves_every_index_with_its_deletion() {
        let mut sessions = sessions();
        let NewSession { up_seid, index, .. } = establish(&mut sessions, ONE, 1);
        assert!(sessions.states.information(index).is_some());
        let store = sessions.store();
        assert_eq!(
            (store.len(), store.owned_count(ONE), sessions.states.sessions_in_sets_len()),
            (1, 1, 1)
        );
        assert_eq!(store.tunnel_users(TUNNEL).count(), 1);
        sessions.delete(up_seid, RemainingReports::Discard).unwrap();
        assert!(sessions.delete(up_seid, RemainingReports::Discard).is_none());
        assert!(sessions.states.information(index).is_none());
        let store = sessions.store();
        assert_eq!(
            (store.len(), store.owned_count(ONE), sessions.states.sessions_in_sets_len()),
            (0, 0, 0)
        );
        assert_eq!(store.tunnel_users(TUNNEL).count(), 0);
        assert_ne!(store.reserved(), ReservedCounts::default(), "workers may know it");
        while observe(&mut sessions).is_some() {}
        assert_eq!(sessions.store().reserved(), ReservedCounts::default());
    }

    #[test]
    fn record_of_a_session_is_stored_when_its_change_is_committed() {
        let mut sessions = sessions();
        let up_seid = establish(&mut sessions, ONE, 1).up_seid;
        let full = record(&sessions, up_seid);
        sessions.modify(up_seid, emptying()).unwrap();
        let empty = record(&sessions, up_seid);
        assert!(full.is_some() && empty.is_some() && full != empty);
        sessions.delete(up_seid, RemainingReports::Discard);
        assert_eq!(record(&sessions, up_seid), None);
    }

    #[test]
    fn change_that_packets_do_not_notice_or_that_is_refused_publishes_nothing() {
        let mut sessions = sessions();
        let up_seid = establish(&mut sessions, ONE, 1).up_seid;
        observe(&mut sessions);
        let cp = CpFSeid { seid: Seid(10), ..CpFSeid::default() };
        let change = SessionChange { cp_f_seid: Some(cp), ..SessionChange::default() };
        assert_eq!(sessions.modify(up_seid, change).unwrap().change, None);
        assert_eq!(sessions.store().session(up_seid).unwrap().cp_f_seid(), cp);
        let before = sessions.store().clone();
        assert!(sessions.modify(up_seid, forwarding(1)).is_err(), "the rules exist");
        assert_eq!(*sessions.store(), before);
        assert_eq!((sessions.pending_len(), sessions.poll_delta()), (0, None));
    }

    #[test]
    fn session_that_moves_belongs_to_its_new_owner_without_a_publication() {
        let mut sessions = sessions();
        let up_seid = establish(&mut sessions, ONE, 1).up_seid;
        observe(&mut sessions);
        sessions.set_control(up_seid, OTHER, CpFSeid::default());
        let store = sessions.store();
        assert_eq!((store.owned_count(ONE), store.owned_count(OTHER)), (0, 1));
        assert_eq!((sessions.pending_len(), sessions.poll_delta()), (0, None));
    }

    #[test]
    fn end_markers_go_before_their_change_and_not_after_it() {
        let mut sessions = sessions();
        let NewSession { change, .. } = establish(&mut sessions, ONE, 1);
        let later = establish(&mut sessions, ONE, 2).change;
        let marker = EndMarker { tunnel: TUNNEL, interfaces: InterfaceSet::ALL, qfi: None };
        sessions.send_end_markers(change, vec![marker, marker]);
        sessions.send_end_markers(later, vec![marker]);
        let is_of = |command: Option<WorkerCommand>, id| matches!(command, Some(WorkerCommand::SendEndMarker { change, .. }) if change == id);
        assert!(is_of(sessions.poll_command_before(change), change));
        observe(&mut sessions);
        assert!(sessions.poll_command_before(change).is_none(), "too late for the second one");
        assert!(is_of(sessions.poll_command_before(later), later));
    }

    #[test]
    fn session_whose_commit_unwound_is_removed_like_a_deleted_one() {
        let mut sessions = sessions();
        let NewSession { up_seid, index, .. } = establish(&mut sessions, ONE, 1);
        observe(&mut sessions);
        assert!(sessions.recover(RemainingReports::Discard).is_none(), "every commit ended");
        sessions.inject_fault_in_commit();
        let change = std::panic::AssertUnwindSafe(|| drop(sessions.modify(up_seid, emptying())));
        assert!(std::panic::catch_unwind(change).is_err());
        let removed = sessions.recover(RemainingReports::Discard).unwrap().change;
        assert!(sessions.states.information(index).is_none() && sessions.store().is_empty());
        let (id, delta) = observe(&mut sessions).unwrap();
        assert_eq!((id, delta.rules), (removed, None));
        assert_eq!(sessions.store().reserved(), ReservedCounts::default());
    }
}
