//! The session reports of all sessions: those that wait, those in flight, and the order of sending.
//!
//! A session has at most one request in flight; further items wait. Items are counted by
//! association, so that the end of an association releases the room of all its reports at once; the
//! reports themselves are dropped with their sessions, one after another.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_pfcp::ie::PfcpSrReqFlags;
use adit_session::{OwnerId, UsageReport};
use adit_types::limits::{
    REPORT_ITEMS_MAX, REPORT_ITEMS_PER_SESSION_MAX, REPORT_REDIRECTS_MAX, REPORTS_IN_FLIGHT_MAX,
    REPORTS_PER_TURN_MAX, TIMERS_PER_TURN_MAX,
};
use adit_types::{Nanos, Seid};

use super::report_queue::{
    DiscardedReports, EndedSession, RemainingReports, ReportCounts, ReportItem, ReportQueue,
    UnacknowledgedUsage,
};
use super::{EndedState, SessionStates};
use crate::report_pause::ReportPause;

/// Order and counts of the reports of all sessions. At most [`REPORTS_IN_FLIGHT_MAX`] requests are
/// in flight, and at most [`REPORT_ITEMS_MAX`] items wait.
#[derive(Debug, Default)]
pub(super) struct ReportSchedule {
    /// Sessions that have items to send and no request in flight, in the order in which they send.
    ready: VecDeque<Seid>,
    /// Counts for each association that has not ended.
    counts: BTreeMap<OwnerId, ReportCounts>,
    total: ReportCounts,
    /// Sessions whose reports wait until the silent peer of the association answers again.
    held: BTreeMap<OwnerId, BTreeSet<Seid>>,
    /// Sessions whose next request waits for the end of a pause, by that time.
    paused: BTreeSet<(Nanos, Seid)>,
    /// How many sessions have begun a request in this iteration of the control thread.
    started: usize,
    /// Sessions whose unacknowledged usage reports have changed.
    changed_usage: BTreeSet<Seid>,
    /// True if a store keeps unacknowledged usage reports, so that changes of them are noted.
    pub is_recorded: bool,
}

impl ReportSchedule {
    /// Updates the counts after a change of a queue of `owner`. A queue whose association has ended
    /// is not counted any more.
    fn recount(&mut self, owner: OwnerId, before: ReportCounts, after: ReportCounts) {
        if before != ReportCounts::default() && !self.counts.contains_key(&owner) {
            return;
        }
        self.total.replace(before, after);
        let counts = self.counts.entry(owner).or_default();
        counts.replace(before, after);
        if *counts == ReportCounts::default() {
            self.counts.remove(&owner);
        }
    }

    fn note_usage(&mut self, up_seid: Seid) {
        if self.is_recorded {
            self.changed_usage.insert(up_seid);
        }
    }

    /// Edits a queue, updates the counts, and removes the queue if it is idle afterwards.
    fn edit<T>(
        &mut self,
        slot: &mut Option<ReportQueue>,
        edit: impl FnOnce(&mut ReportQueue) -> T,
    ) -> Option<T> {
        let queue = slot.as_mut()?;
        let (owner, before) = (queue.owner, queue.counts());
        let edited = edit(queue);
        let (after, is_idle) = (queue.counts(), queue.is_idle());
        if is_idle {
            *slot = None;
        }
        self.recount(owner, before, after);
        Some(edited)
    }
}

impl SessionStates {
    /// Resets, for a new iteration, how many requests may be sent in it.
    pub(crate) const fn begin_turn(&mut self) {
        self.reports.started = 0;
    }

    /// True if only the limit per iteration kept a request from being sent.
    pub(crate) fn has_more_reports(&self) -> bool {
        self.reports.started >= REPORTS_PER_TURN_MAX
            && !self.reports.ready.is_empty()
            && self.reports.total.in_flight < REPORTS_IN_FLIGHT_MAX
    }

    fn queue(&self, up_seid: Seid) -> Option<&ReportQueue> {
        match self.ended.get(&up_seid) {
            Some(ended) => ended.queue.as_ref(),
            None => self.live.activity(up_seid)?.queue.as_ref(),
        }
    }

    /// Edits the queue of a live or ended session, if it has one.
    fn edit_queue<T>(
        &mut self,
        up_seid: Seid,
        edit: impl FnOnce(&mut ReportQueue) -> T,
    ) -> Option<T> {
        self.queue(up_seid)?;
        let reports = &mut self.reports;
        match self.ended.get_mut(&up_seid) {
            Some(ended) => reports.edit(&mut ended.queue, edit),
            None => self.live.edit_activity(up_seid, |a| reports.edit(&mut a.queue, edit)),
        }
    }

    /// Queues an item. An item equal to a waiting one is merged into it. False if there is no room.
    pub(crate) fn push_report(&mut self, up_seid: Seid, owner: OwnerId, item: ReportItem) -> bool {
        if self.queue(up_seid).is_some_and(|queue| queue.waiting.contains(&item)) {
            return true;
        }
        if item.is_usage() && self.edit_queue(up_seid, |queue| queue.merge(&item)) == Some(true) {
            self.reports.note_usage(up_seid);
            return true;
        }
        let queue = self.queue(up_seid);
        let waiting = queue.map_or(0, |queue| queue.waiting.len());
        if waiting >= REPORT_ITEMS_PER_SESSION_MAX || self.reports.total.waiting >= REPORT_ITEMS_MAX
        {
            return false;
        }
        if queue.is_none() {
            self.reports.ready.push_back(up_seid);
        }
        if item.is_usage() {
            self.reports.note_usage(up_seid);
        }
        let reports = &mut self.reports;
        let push = |slot: &mut Option<ReportQueue>| {
            slot.get_or_insert_with(|| ReportQueue::new(owner));
            reports.edit(slot, |queue| queue.waiting.push_back(item));
        };
        match self.ended.get_mut(&up_seid) {
            Some(ended) => push(&mut ended.queue),
            None => self.live.edit_activity(up_seid, |activity| push(&mut activity.queue)),
        }
        true
    }

    /// Returns the next session that may send, with the items of its request.
    pub(crate) fn start_report(&mut self) -> Option<(Seid, Vec<ReportItem>)> {
        if self.reports.total.in_flight >= REPORTS_IN_FLIGHT_MAX {
            return None;
        }
        while self.reports.started < REPORTS_PER_TURN_MAX {
            let up_seid = self.reports.ready.pop_front()?;
            self.reports.started += 1;
            // A session may have ended after it was put into the order.
            let items = self.edit_queue(up_seid, |queue| match queue.is_in_flight() {
                true => Vec::new(),
                false => {
                    queue.is_held = false;
                    queue.sending = queue.take_batch();
                    queue.sending.clone()
                }
            });
            if let Some(items) = items.filter(|items| !items.is_empty()) {
                return Some((up_seid, items));
            }
        }
        None
    }

    /// True while a request of this session is in flight, or is being made.
    pub(crate) fn is_reporting(&self, up_seid: Seid) -> bool {
        self.queue(up_seid).is_some_and(ReportQueue::is_in_flight)
    }

    /// Stores the sequence number of the request in flight.
    pub(crate) fn set_report_sequence(&mut self, up_seid: Seid, sequence: u32) {
        self.edit_queue(up_seid, |queue| queue.sequence = Some(sequence));
    }

    /// Ends the request in flight of a session: the CP function accepted it, or none of its items
    /// is to be sent again.
    pub(crate) fn finish_report(&mut self, up_seid: Seid) {
        if self.has_unacknowledged_usage(up_seid) {
            self.reports.note_usage(up_seid);
        }
        let waits = self.edit_queue(up_seid, |queue| {
            queue.sending.clear();
            queue.end_request();
            queue.pause = ReportPause::default();
            !queue.waiting.is_empty()
        });
        match waits {
            Some(true) => self.reports.ready.push_back(up_seid),
            Some(false) => self.forget_if_reported(up_seid),
            None => {}
        }
    }

    /// Ends the request in flight of a session because it was refused or not answered. Items that
    /// happen only once are sent again, unchanged, after a pause; others are reported at their next
    /// event. After `attempts` failures the items of a session that is gone are dropped. Returns
    /// how many usage reports that were.
    pub(crate) fn fail_report(&mut self, now: Nanos, up_seid: Seid, attempts: u32) -> usize {
        self.reopen_notified(up_seid);
        let is_ended = self.ended.contains_key(&up_seid);
        let failed = self.edit_queue(up_seid, |queue| {
            let until = queue.pause.lengthen(now);
            queue.end_request();
            let sending = core::mem::take(&mut queue.sending);
            if is_ended && queue.pause.failure_count() >= attempts {
                queue.pause = ReportPause::default();
                return (None, sending.iter().filter(|item| item.is_usage()).count());
            }
            queue.put_back(sending.into_iter().filter(ReportItem::happens_once));
            (Some(until), 0)
        });
        let Some((until, given_up)) = failed else { return 0 };
        match until {
            Some(until) => drop(self.reports.paused.insert((until, up_seid))),
            None => self.allow_next_request(up_seid),
        }
        if given_up > 0 {
            self.reports.note_usage(up_seid);
        }
        given_up
    }

    /// Lets the next request of a session be sent, if items wait.
    fn allow_next_request(&mut self, up_seid: Seid) {
        let waits = self.edit_queue(up_seid, |queue| {
            let waits = !queue.waiting.is_empty();
            if !waits && !queue.is_in_flight() {
                queue.pause = ReportPause::default();
            }
            waits
        });
        match waits {
            Some(true) => self.reports.ready.push_back(up_seid),
            _ => self.forget_if_reported(up_seid),
        }
    }

    /// Ends pauses that are over, a bounded number of them.
    pub(crate) fn end_report_pauses(&mut self, now: Nanos) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(&(until, up_seid)) = self.reports.paused.first() else { return };
            if until > now {
                return;
            }
            self.reports.paused.pop_first();
            self.allow_next_request(up_seid);
        }
    }

    /// Returns when the first pause is over.
    pub(crate) fn next_report_pause(&self) -> Option<Nanos> {
        self.reports.paused.first().map(|(until, _)| *until)
    }

    /// Puts the items in flight back to the front, to be sent again. Returns the sequence number of
    /// their request.
    fn requeue(&mut self, up_seid: Seid) -> Option<u32> {
        let requeued = self.edit_queue(up_seid, |queue| {
            queue.is_in_flight().then(|| {
                let sending = core::mem::take(&mut queue.sending);
                queue.put_back(sending.into_iter());
                queue.sequence.take()
            })
        });
        requeued.flatten().flatten()
    }

    /// Puts the items back, which were not sent, until the peer of `owner` answers again.
    pub(crate) fn hold_report(&mut self, up_seid: Seid, owner: OwnerId) {
        self.requeue(up_seid);
        self.edit_queue(up_seid, |queue| queue.is_held = true);
        self.reports.held.entry(owner).or_default().insert(up_seid);
    }

    /// Lets the sessions of `owner` send reports, as its peer answers again.
    pub(crate) fn release_reports(&mut self, owner: OwnerId) {
        self.reports.ready.extend(self.reports.held.remove(&owner).into_iter().flatten());
    }

    /// Redirects the items in flight to another SMF of the set; false after too many redirections.
    pub(crate) fn redirect_report(&mut self, up_seid: Seid, to: IpAddr) -> bool {
        let is_redirected = self.edit_queue(up_seid, |queue| {
            let may_redirect = queue.redirects < REPORT_REDIRECTS_MAX;
            if may_redirect {
                queue.redirects += 1;
                queue.redirect = Some(to);
            }
            may_redirect
        });
        let is_redirected = is_redirected.unwrap_or(false);
        if is_redirected {
            self.requeue(up_seid);
            self.reports.ready.push_back(up_seid);
        }
        is_redirected
    }

    /// Returns the address to which the reports of a session are redirected.
    pub(crate) fn report_redirect(&self, up_seid: Seid) -> Option<IpAddr> {
        self.queue(up_seid)?.redirect
    }

    /// Moves the reports of a session to the association `to`; items in flight are to be sent
    /// again. Returns the sequence number of their request.
    pub(crate) fn hand_over_reports(&mut self, up_seid: Seid, to: OwnerId) -> Option<u32> {
        let sequence = self.requeue(up_seid);
        self.reports.note_usage(up_seid);
        let moved = self.edit_queue(up_seid, |queue| {
            queue.redirect = None;
            (core::mem::replace(&mut queue.owner, to), queue.counts())
        });
        let (from, counts) = moved?;
        self.reports.recount(from, counts, ReportCounts::default());
        self.reports.recount(to, ReportCounts::default(), counts);
        // The session may have waited for a silent peer, or for the end of a pause.
        self.reports.ready.push_back(up_seid);
        sequence
    }

    /// Does what [`SessionStates::end`] does for reports.
    pub(super) fn end_reports(
        &mut self,
        up_seid: Seid,
        remaining: RemainingReports,
    ) -> DiscardedReports {
        if self.queue(up_seid).is_some() {
            self.reports.note_usage(up_seid);
        }
        let discarded = self.edit_queue(up_seid, |queue| queue.end(remaining));
        if !self.ended.contains_key(&up_seid) && self.live.activity(up_seid).is_some() {
            let queue = self.live.edit_activity(up_seid, |activity| {
                activity.notified.clear();
                activity.queue.take()
            });
            if queue.is_some() {
                self.ended.insert(up_seid, EndedState { session: None, queue });
            }
        }
        match remaining {
            RemainingReports::Deliver(session) => self.add_ended(up_seid, session),
            RemainingReports::KeepUsageInFlight(Some(session)) if self.queue(up_seid).is_some() => {
                self.add_ended(up_seid, session);
            }
            _ => {}
        }
        discarded.unwrap_or_default()
    }

    /// Notes that a session is gone but has, or may get, reports to send.
    pub(crate) fn add_ended(&mut self, up_seid: Seid, session: EndedSession) {
        self.ended_of.entry(session.owner).or_default().insert(up_seid);
        let none = EndedState { session: None, queue: None };
        self.ended.entry(up_seid).or_insert(none).session = Some(session);
    }

    /// Returns a session that is gone but has, or may get, reports to send.
    pub(crate) fn ended(&self, up_seid: Seid) -> Option<&EndedSession> {
        self.ended.get(&up_seid)?.session.as_ref()
    }

    /// Notes that the last usage of a session was read. Returns the session's association.
    pub(crate) fn set_last_usage_read(&mut self, up_seid: Seid) -> Option<OwnerId> {
        let session = self.ended.get_mut(&up_seid)?.session.as_mut()?;
        session.is_read = true;
        Some(session.owner)
    }

    /// Returns how many sessions of an association are gone but have, or may get, reports to send.
    pub(crate) fn ended_len(&self, owner: OwnerId) -> usize {
        self.ended_of.get(&owner).map_or(0, BTreeSet::len)
    }

    /// Removes and returns one of these sessions; its queue stays.
    pub(crate) fn pop_ended(&mut self, owner: OwnerId) -> Option<Seid> {
        let up_seid = *self.ended_of.get(&owner)?.first()?;
        self.forget_ended(up_seid);
        Some(up_seid)
    }

    fn forget_ended(&mut self, up_seid: Seid) {
        let Some(ended) = self.ended.get_mut(&up_seid) else { return };
        let Some(EndedSession { owner, .. }) = ended.session.take() else { return };
        if let Some(of_owner) = self.ended_of.get_mut(&owner) {
            of_owner.remove(&up_seid);
            if of_owner.is_empty() {
                self.ended_of.remove(&owner);
            }
        }
        self.drop_empty_ended(up_seid);
    }

    fn drop_empty_ended(&mut self, up_seid: Seid) {
        let is_empty = |ended: &EndedState| ended.session.is_none() && ended.queue.is_none();
        if self.ended.get(&up_seid).is_some_and(is_empty) {
            self.ended.remove(&up_seid);
        }
    }

    /// Forgets a session that is gone once its last report was answered.
    pub(crate) fn forget_if_reported(&mut self, up_seid: Seid) {
        if self.queue(up_seid).is_none() && self.ended(up_seid).is_some_and(|ended| ended.is_read) {
            self.forget_ended(up_seid);
        }
        self.drop_empty_ended(up_seid);
    }

    /// Drops all reports of a live or ended session.
    pub(crate) fn discard_reports(&mut self, up_seid: Seid) -> DiscardedReports {
        drop(self.take_notified(up_seid, None));
        if self.queue(up_seid).is_some() {
            self.reports.note_usage(up_seid);
        }
        let discarded = self.edit_queue(up_seid, |queue| queue.end(RemainingReports::Discard));
        self.drop_empty_ended(up_seid);
        discarded.unwrap_or_default()
    }

    /// Returns the usage reports of a session that are not acknowledged; `None` if there are none.
    pub(crate) fn unacknowledged_usage(&self, up_seid: Seid) -> Option<UnacknowledgedUsage> {
        let queue = self.queue(up_seid)?;
        let items = queue.sending.iter().chain(&queue.waiting);
        let usage = items.filter_map(|item| match item {
            ReportItem::Usage(report) => Some(report.clone()),
            _ => None,
        });
        let reports: Vec<_> = usage.collect();
        let (owner, ended) = (queue.owner, self.ended(up_seid).copied());
        (!reports.is_empty()).then_some(UnacknowledgedUsage { owner, ended, reports })
    }

    /// Returns the next session whose unacknowledged usage reports changed.
    pub(crate) fn take_changed_usage(&mut self) -> Option<Seid> {
        self.reports.changed_usage.pop_first()
    }

    /// True while a request with usage is in flight for this session.
    pub(crate) fn has_unacknowledged_usage(&self, up_seid: Seid) -> bool {
        self.queue(up_seid).is_some_and(ReportQueue::carries_usage)
    }

    /// Releases the room of all reports of an association that has ended. The reports are dropped
    /// with its sessions, one after another.
    pub(crate) fn abandon_reports(&mut self, owner: OwnerId) {
        self.reports.held.remove(&owner);
        let counts = self.reports.counts.remove(&owner).unwrap_or_default();
        self.reports.total.replace(counts, ReportCounts::default());
    }

    /// Returns how many items wait, of all sessions.
    pub(crate) const fn waiting_reports_len(&self) -> usize {
        self.reports.total.waiting
    }

    /// Returns the usage of a session that waits to be sent.
    pub(crate) fn waiting_usage(&self, up_seid: Seid) -> Vec<UsageReport> {
        let waiting = self.queue(up_seid).into_iter().flat_map(|queue| &queue.waiting);
        let usage = waiting.filter_map(|item| match item {
            ReportItem::Usage(report) => Some(report.clone()),
            _ => None,
        });
        usage.collect()
    }

    /// Returns the flags for a session's request: PSDBU in the last request of a session that this
    /// node ended.
    pub(crate) fn report_flags(&self, up_seid: Seid) -> Option<PfcpSrReqFlags> {
        let ended = self.ended(up_seid).filter(|ended| ended.by_us)?;
        let is_last = self.queue(up_seid).is_some_and(|queue| queue.waiting.is_empty());
        (ended.is_read && is_last).then_some(PfcpSrReqFlags::PSDBU)
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use adit_pfcp::ie::DownlinkDataServiceInformation;
    use adit_types::PdrId;

    use super::super::SetKey;
    use super::*;

    fn states() -> SessionStates {
        SessionStates::new(SetKey::Group(vec![0]))
    }

    fn item(pdr: u16) -> ReportItem {
        let service = DownlinkDataServiceInformation::default();
        ReportItem::DownlinkData { pdr: PdrId(pdr), service, status: None }
    }

    #[test]
    fn waiting_items_of_a_session_are_bounded_and_equal_ones_merged() {
        let mut states = states();
        let max = u16::try_from(REPORT_ITEMS_PER_SESSION_MAX).unwrap();
        for pdr in 0..max {
            assert!(states.push_report(Seid(1), OwnerId(1), item(pdr)));
        }
        assert!(states.push_report(Seid(1), OwnerId(1), item(0)), "waits already");
        assert!(!states.push_report(Seid(1), OwnerId(1), item(max)));
        assert!(states.push_report(Seid(2), OwnerId(1), item(max)), "another session has room");
        assert_eq!(states.waiting_reports_len(), REPORT_ITEMS_PER_SESSION_MAX + 1);
    }

    #[test]
    fn reports_to_a_silent_peer_wait_without_another_turn_until_it_is_there_again() {
        let mut states = states();
        assert!(states.push_report(Seid(1), OwnerId(1), item(1)));
        for _ in 0..3 {
            let (up_seid, items) = states.start_report().unwrap();
            assert_eq!((up_seid, items.len()), (Seid(1), 1));
            states.hold_report(up_seid, OwnerId(1));
            states.begin_turn();
            assert!(states.start_report().is_none() && !states.has_more_reports());
            assert!(states.push_report(Seid(1), OwnerId(1), item(1)), "waits already");
            assert!(states.start_report().is_none());
            states.release_reports(OwnerId(1));
        }
        assert_eq!(states.waiting_reports_len(), 1);
    }

    #[test]
    fn requests_in_flight_are_bounded_and_the_next_session_gets_the_room() {
        let mut states = states();
        let max = u64::try_from(REPORTS_IN_FLIGHT_MAX).unwrap();
        for seid in 0..=max {
            assert!(states.push_report(Seid(seid), OwnerId(1), item(1)));
        }
        let mut started = 0;
        while states.start_report().is_some() {
            started += 1;
            if states.has_more_reports() {
                states.begin_turn();
            }
        }
        assert_eq!(started, REPORTS_IN_FLIGHT_MAX);
        states.finish_report(Seid(0));
        states.begin_turn();
        assert_eq!(states.start_report().map(|(seid, _)| seid), Some(Seid(max)));
        states.abandon_reports(OwnerId(1));
        assert_eq!(states.reports.total, ReportCounts::default(), "the room is free at once");
        let none = DiscardedReports { sequence: None, usage: 0 };
        assert_eq!(states.discard_reports(Seid(max)), none);
        assert_eq!(states.reports.total, ReportCounts::default());
        assert!(states.reports.counts.is_empty());
        for seid in 0..=max {
            states.end(Seid(seid), RemainingReports::KeepUsageInFlight(None));
        }
        assert!(states.live.0.is_empty() && states.ended.is_empty());
    }

    #[test]
    fn turn_has_its_share_of_requests() {
        let mut states = states();
        let count = u64::try_from(2 * REPORTS_PER_TURN_MAX).unwrap();
        for seid in 0..count {
            states.push_report(Seid(seid), OwnerId(1), item(1));
        }
        states.begin_turn();
        let started = core::iter::from_fn(|| states.start_report()).count();
        assert_eq!((started, states.has_more_reports()), (REPORTS_PER_TURN_MAX, true));
        states.begin_turn();
        let started = core::iter::from_fn(|| states.start_report()).count();
        assert_eq!((started, states.has_more_reports()), (REPORTS_PER_TURN_MAX, false));
    }

    #[test]
    fn counts_move_with_a_session_that_is_handed_over() {
        let mut states = states();
        states.push_report(Seid(1), OwnerId(1), item(1));
        states.push_report(Seid(2), OwnerId(1), item(1));
        states.start_report();
        states.set_report_sequence(Seid(1), 77);
        assert_eq!(states.hand_over_reports(Seid(1), OwnerId(2)), Some(77));
        let waiting = ReportCounts { in_flight: 0, waiting: 1 };
        assert_eq!(states.reports.counts, [(OwnerId(1), waiting), (OwnerId(2), waiting)].into());
        states.abandon_reports(OwnerId(1));
        assert_eq!(states.reports.total, waiting);
        states.discard_reports(Seid(1));
        assert_eq!(states.reports.total, ReportCounts::default());
        assert!(states.reports.counts.is_empty());
    }

    #[test]
    fn ended_session_is_forgotten_with_the_response_to_its_last_report() {
        let mut states = states();
        let usage = ReportItem::Inactivity;
        states.push_report(Seid(1), OwnerId(1), usage.clone());
        let to = SocketAddr::from(([192, 0, 2, 1], 8805));
        let session =
            EndedSession { to, cp_seid: Seid(9), owner: OwnerId(1), by_us: true, is_read: false };
        states.end(Seid(1), RemainingReports::Deliver(session));
        assert_eq!((states.waiting_reports_len(), states.ended_len(OwnerId(1))), (0, 1));
        states.push_report(Seid(1), OwnerId(1), usage);
        assert_eq!(states.set_last_usage_read(Seid(1)), Some(OwnerId(1)));
        states.forget_if_reported(Seid(1));
        assert_eq!(states.start_report().map(|(seid, _)| seid), Some(Seid(1)), "still waits");
        assert_eq!(states.report_flags(Seid(1)), Some(PfcpSrReqFlags::PSDBU));
        states.finish_report(Seid(1));
        assert!(states.ended.is_empty() && states.ended_of.is_empty());
    }
}
