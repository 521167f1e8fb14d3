//! The state that the node has of a session besides its rules, which the session store has.
//!
//! A [`SessionState`] begins with the establishment, and ends only in [`SessionStates::end`]. Last
//! reports outlive the session: they become an [`EndedState`], which ends with the response to the
//! last of them. An empty state is not stored. The indexes over states (members of sets, deadlines,
//! order of reports) contain only identifiers of sessions, and only this module writes them.

mod buffering;
mod information;
mod notified;
mod report_queue;
mod reports;
mod services;
mod sets;

use std::collections::{BTreeMap, BTreeSet};

use adit_session::{CpFSeid, OwnerId, seid_index};
use adit_types::{Nanos, Seid, SessionIndex};

use buffering::BufferingEnd;
pub use information::SessionInformation;
use notified::{DelayedNotices, SentNotification};
pub(crate) use notified::{DownlinkDataNotice, NotificationIdentity};
use report_queue::ReportQueue;
pub(crate) use report_queue::{
    DiscardedReports, EndedSession, RemainingReports, ReportItem, UnacknowledgedUsage,
};
use reports::ReportSchedule;
pub use services::{ServiceCounts, ServiceName};
pub(crate) use sets::{MemberCursor, SetKey, set_keys};
use sets::{SetIndex, SetMembership};

/// The state of one live session.
#[derive(Debug, Default)]
struct SessionState {
    information: SessionInformation,
    /// `None` for most sessions.
    rare: Option<Box<UncommonSessionState>>,
}

const _: () = assert!(size_of::<SessionState>() <= 56, "of millions");

/// The part of a state that few sessions have.
#[derive(Debug, Default)]
struct UncommonSessionState {
    sets: SetMembership,
    activity: Option<Box<SessionActivity>>,
}

/// The state of procedures under way for a session.
#[derive(Debug, Default)]
struct SessionActivity {
    /// The SEID, which distinguishes the session from a later one with the same index.
    up_seid: Seid,
    buffering_end: Option<BufferingEnd>,
    /// The CP F-SEID that the previous SMF assigned, until the SMF that inherits the session takes
    /// over.
    former_cp: Option<CpFSeid>,
    /// Downlink data that was reported since its FAR was activated.
    notified: Vec<SentNotification>,
    queue: Option<ReportQueue>,
}

impl SessionState {
    fn is_empty(&self) -> bool {
        self.information.is_empty() && self.rare.is_none()
    }
}

impl UncommonSessionState {
    fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.activity.is_none()
    }
}

impl SessionActivity {
    fn is_empty(&self) -> bool {
        self.buffering_end.is_none()
            && self.former_cp.is_none()
            && self.notified.is_empty()
            && self.queue.is_none()
    }
}

/// The remaining state of a session that is gone.
#[derive(Debug)]
struct EndedState {
    /// The receiver of the last reports; `None` if only a request in flight is left.
    session: Option<EndedSession>,
    queue: Option<ReportQueue>,
}

/// The states of live sessions; empty states are not stored.
#[derive(Debug, Default)]
struct LiveStates(BTreeMap<SessionIndex, Box<SessionState>>);

impl LiveStates {
    fn get(&self, session: SessionIndex) -> Option<&SessionState> {
        self.0.get(&session).map(|state| &**state)
    }

    fn activity(&self, up_seid: Seid) -> Option<&SessionActivity> {
        let activity = self.get(seid_index(up_seid))?.rare.as_ref()?.activity.as_ref()?;
        (activity.up_seid == up_seid).then_some(activity)
    }

    /// Edits a state. Creates it if it is absent, and removes it if it is empty afterwards.
    fn edit<T>(&mut self, session: SessionIndex, edit: impl FnOnce(&mut SessionState) -> T) -> T {
        let state = self.0.entry(session).or_default();
        let edited = edit(state);
        if state.is_empty() {
            self.0.remove(&session);
        }
        edited
    }

    fn edit_rare<T>(
        &mut self,
        session: SessionIndex,
        edit: impl FnOnce(&mut UncommonSessionState) -> T,
    ) -> T {
        self.edit(session, |state| {
            let rare = state.rare.get_or_insert_default();
            let edited = edit(rare);
            if rare.is_empty() {
                state.rare = None;
            }
            edited
        })
    }

    fn edit_activity<T>(
        &mut self,
        up_seid: Seid,
        edit: impl FnOnce(&mut SessionActivity) -> T,
    ) -> T {
        self.edit_rare(seid_index(up_seid), |rare| {
            let activity = rare.activity.get_or_insert_default();
            debug_assert!(activity.is_empty() || activity.up_seid == up_seid, "one life each");
            activity.up_seid = up_seid;
            let edited = edit(activity);
            if activity.is_empty() {
                rare.activity = None;
            }
            edited
        })
    }
}

/// The states of all sessions, and the indexes over them.
#[derive(Debug)]
pub(crate) struct SessionStates {
    live: LiveStates,
    ended: BTreeMap<Seid, EndedState>,
    /// The ended sessions that have an [`EndedSession`], by association.
    ended_of: BTreeMap<OwnerId, BTreeSet<Seid>>,
    sets: SetIndex,
    buffering_ends: BTreeSet<(Nanos, Seid)>,
    reports: ReportSchedule,
    delayed: DelayedNotices,
    services: ServiceCounts,
}

impl SessionStates {
    /// Creates the states of no sessions. `own_set`: the set of this node, see
    /// [`Self::assign_sets`].
    pub(crate) fn new(own_set: SetKey) -> Self {
        Self {
            live: LiveStates::default(),
            ended: BTreeMap::new(),
            ended_of: BTreeMap::new(),
            sets: SetIndex::new(own_set),
            buffering_ends: BTreeSet::new(),
            reports: ReportSchedule::default(),
            delayed: DelayedNotices::default(),
            services: ServiceCounts::default(),
        }
    }

    /// Enables [`Self::take_changed_usage`], because a store keeps usage reports.
    pub(crate) const fn record_usage(&mut self) {
        self.reports.is_recorded = true;
    }

    /// Ends the state of a session. `remaining` determines what happens to its reports; all else is
    /// dropped. Returns the dropped reports.
    pub(crate) fn end(&mut self, up_seid: Seid, remaining: RemainingReports) -> DiscardedReports {
        let session = seid_index(up_seid);
        self.unassign_sets(session);
        self.cancel_buffering_end(up_seid);
        let discarded = self.end_reports(up_seid, remaining);
        if let Some(state) = self.live.0.remove(&session) {
            self.services.subtract(&state.information.service());
        }
        discarded
    }

    /// Returns the CP F-SEID that the previous SMF assigned; see [`Self::keep_former_cp`].
    pub(crate) fn former_cp(&self, up_seid: Seid) -> Option<CpFSeid> {
        self.live.activity(up_seid)?.former_cp
    }

    /// Stores the CP F-SEID of an SMF whose successor has not taken over the session yet. After
    /// several successions the first one is kept.
    pub(crate) fn keep_former_cp(&mut self, up_seid: Seid, cp: CpFSeid) {
        self.live.edit_activity(up_seid, |activity| {
            activity.former_cp.get_or_insert(cp);
        });
    }

    /// Notes that the successor has taken over the session.
    pub(crate) fn forget_former_cp(&mut self, up_seid: Seid) {
        if self.former_cp(up_seid).is_some() {
            self.live.edit_activity(up_seid, |activity| activity.former_cp = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> SessionStates {
        SessionStates::new(SetKey::Group(vec![0]))
    }

    fn up_seid(index: u64) -> Seid {
        Seid(0x5eed_0000_0000 | index)
    }

    #[test]
    fn end_leaves_nothing_of_a_session_and_later_ones_with_its_index_begin_anew() {
        let mut states = states();
        let (session, seid) = (SessionIndex(7), up_seid(7));
        assert_eq!(seid_index(seid), session);
        let news = SessionInformation { dnn: Some("ims".into()), ..Default::default() };
        states.update_information(session, news);
        states.assign_sets(session, vec![SetKey::Group(vec![1])]);
        states.set_buffering_end(seid, adit_types::BarId(1), Nanos(5));
        states.keep_former_cp(seid, CpFSeid::default());
        let data = NotificationIdentity {
            far: adit_types::FarId(1),
            pdr: adit_types::PdrId(1),
            delivery: None,
        };
        let told = DownlinkDataNotice { data, service: Default::default() };
        assert!(states.note_notified(seid, told) && !states.note_notified(seid, told));
        assert!(states.push_report(seid, OwnerId(1), ReportItem::Inactivity));
        states.end(seid, RemainingReports::Discard);
        assert!(states.live.0.is_empty() && states.ended.is_empty());
        assert!(states.buffering_ends.is_empty() && states.sessions_in_sets_len() == 0);
        assert_eq!((states.former_cp(seid), states.waiting_reports_len()), (None, 0));
        let later = Seid(seid.0 + (1 << 40));
        assert_eq!(seid_index(later), session);
        assert!(states.note_notified(later, told), "of another session");
        assert!(states.information(session).is_none());
    }

    #[test]
    fn state_that_becomes_empty_takes_no_memory() {
        let mut states = states();
        let seid = up_seid(3);
        states.keep_former_cp(seid, CpFSeid::default());
        states.set_buffering_end(seid, adit_types::BarId(1), Nanos(5));
        states.forget_former_cp(seid);
        assert_eq!(states.live.0.len(), 1);
        states.cancel_buffering_end(seid);
        assert!(states.live.0.is_empty());
    }
}
