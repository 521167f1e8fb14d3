//! What sessions have to report: queues, what is in flight, and whose turn it is.
//!
//! Counts are kept by association, so that its end frees the room of its reports at once, whatever
//! their number; the reports themselves go with their sessions.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_pfcp::ie::{DownlinkDataServiceInformation, PfcpSrReqFlags};
use adit_rules::DataDelivery;
use adit_session::{OwnerId, UsageReport};
use adit_types::limits::{
    REPORT_ITEMS_MAX, REPORT_ITEMS_PER_REQUEST_MAX, REPORT_ITEMS_PER_SESSION_MAX,
    REPORT_REDIRECTS_MAX, REPORTS_IN_FLIGHT_MAX, REPORTS_PER_TURN_MAX,
};
use adit_types::{FarId, Nanos, PdrId, Seid};

use crate::procedure::final_usage::EndedSession;
use crate::procedure::report::ReportItem;

/// What one session has to report.
#[derive(Debug)]
struct ReportQueue {
    owner: OwnerId,
    waiting: VecDeque<ReportItem>,
    /// What the request in flight carries; empty without one.
    sending: Vec<ReportItem>,
    /// Its sequence number.
    sequence: Option<u32>,
    /// Another SMF of the set that is to have the reports, as the last response said.
    redirect: Option<IpAddr>,
    /// How often the request in flight was redirected.
    redirects: u8,
}

impl ReportQueue {
    const fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            waiting: VecDeque::new(),
            sending: Vec::new(),
            sequence: None,
            redirect: None,
            redirects: 0,
        }
    }

    fn is_in_flight(&self) -> bool {
        !self.sending.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.sending.is_empty()
    }

    /// The request in flight carries usage, which must not be lost when the session ends.
    fn carries_usage(&self) -> bool {
        self.sending.iter().any(|item| matches!(item, ReportItem::Usage(_)))
    }

    fn counts(&self) -> ReportCounts {
        ReportCounts { in_flight: usize::from(self.is_in_flight()), waiting: self.waiting.len() }
    }
}

/// Requests in flight, and items that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ReportCounts {
    in_flight: usize,
    waiting: usize,
}

impl ReportCounts {
    const fn replace(&mut self, before: Self, after: Self) {
        self.in_flight = (self.in_flight + after.in_flight).saturating_sub(before.in_flight);
        self.waiting = (self.waiting + after.waiting).saturating_sub(before.waiting);
    }
}

/// The reports of all sessions. At most [`REPORTS_IN_FLIGHT_MAX`] requests are in flight, and at
/// most [`REPORT_ITEMS_MAX`] items wait.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queues: BTreeMap<Seid, ReportQueue>,
    /// Sessions with something to send and nothing in flight, in the order of their turn.
    ready: VecDeque<Seid>,
    /// Of associations that have not ended.
    counts: BTreeMap<OwnerId, ReportCounts>,
    total: ReportCounts,
    /// Turns of sessions that this turn of the control thread gave.
    started: usize,
    /// What was told since its FAR was activated.
    notified: BTreeMap<Seid, Vec<NotifiedData>>,
    /// Notifications that their BAR delays, by time and in the order of their arrival.
    delayed: BTreeMap<(Nanos, u64), (Seid, DownlinkDataNotice)>,
    delayed_total: u64,
    /// Sessions that are gone, and whose last reports are not.
    ended: BTreeMap<Seid, EndedSession>,
    ended_of: BTreeMap<OwnerId, BTreeSet<Seid>>,
}

/// One notification of downlink data, so that the next one is known to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotifiedData {
    pub far: FarId,
    pub pdr: PdrId,
    pub delivery: Option<DataDelivery>,
}

/// Downlink data as a worker told of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DownlinkDataNotice {
    pub data: NotifiedData,
    pub service: DownlinkDataServiceInformation,
}

/// What became of a queue that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiscardedReports {
    /// The sequence number of the request that was in flight.
    pub sequence: Option<u32>,
    /// Reports of usage that went with it.
    pub usage: usize,
}

impl Reports {
    /// Allows another turn's share of requests.
    pub const fn begin_turn(&mut self) {
        self.started = 0;
    }

    /// True when the share of this turn alone kept a request from being sent.
    pub fn has_more_to_send(&self) -> bool {
        self.started >= REPORTS_PER_TURN_MAX
            && !self.ready.is_empty()
            && self.total.in_flight < REPORTS_IN_FLIGHT_MAX
    }

    /// Takes notice that a queue of `owner` changed. One of an association that ended is not counted
    /// any more.
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

    /// Changes the queue of a session, if it has one; an idle one is gone then.
    fn change<T>(&mut self, up_seid: Seid, edit: impl FnOnce(&mut ReportQueue) -> T) -> Option<T> {
        let queue = self.queues.get_mut(&up_seid)?;
        let (owner, before) = (queue.owner, queue.counts());
        let edited = edit(queue);
        let (after, is_idle) = (queue.counts(), queue.is_idle());
        if is_idle {
            self.queues.remove(&up_seid);
        }
        self.recount(owner, before, after);
        Some(edited)
    }

    /// Queues `item`; false when there is no room for it.
    pub fn push(&mut self, up_seid: Seid, owner: OwnerId, item: ReportItem) -> bool {
        let queue = self.queues.entry(up_seid).or_insert_with(|| ReportQueue::new(owner));
        if queue.waiting.contains(&item) {
            return true;
        }
        let full = queue.waiting.len() >= REPORT_ITEMS_PER_SESSION_MAX
            || self.total.waiting >= REPORT_ITEMS_MAX;
        if !full && queue.is_idle() {
            self.ready.push_back(up_seid);
        }
        self.change(up_seid, |queue| queue.waiting.extend((!full).then_some(item)));
        !full
    }

    /// The next session whose turn it is, with what its next request carries.
    pub fn start(&mut self) -> Option<(Seid, Vec<ReportItem>)> {
        if self.total.in_flight >= REPORTS_IN_FLIGHT_MAX {
            return None;
        }
        while self.started < REPORTS_PER_TURN_MAX {
            let up_seid = self.ready.pop_front()?;
            self.started += 1;
            // A session may have ended while it waited for its turn.
            let items = self.change(up_seid, |queue| match queue.is_in_flight() {
                true => Vec::new(),
                false => {
                    queue.sending = take_batch(&mut queue.waiting);
                    queue.sending.clone()
                }
            });
            if let Some(items) = items.filter(|items| !items.is_empty()) {
                return Some((up_seid, items));
            }
        }
        None
    }

    /// True while a request of this session is in flight, or being made.
    pub fn is_sending(&self, up_seid: Seid) -> bool {
        self.queues.get(&up_seid).is_some_and(ReportQueue::is_in_flight)
    }

    /// Remembers the request in flight.
    pub fn sent(&mut self, up_seid: Seid, sequence: u32) {
        if let Some(queue) = self.queues.get_mut(&up_seid) {
            queue.sequence = Some(sequence);
        }
    }

    /// Ends what is in flight for a session, whatever became of it.
    pub fn finish(&mut self, up_seid: Seid) {
        let waits = self.change(up_seid, |queue| {
            queue.sending.clear();
            queue.sequence = None;
            queue.redirect = None;
            queue.redirects = 0;
            !queue.waiting.is_empty()
        });
        match waits {
            Some(true) => self.ready.push_back(up_seid),
            Some(false) => self.forget_if_reported(up_seid),
            None => {}
        }
    }

    /// Puts what is in flight for a session back to the front, to be sent anew. Returns its sequence
    /// number.
    fn requeue(&mut self, up_seid: Seid) -> Option<u32> {
        let requeued = self.change(up_seid, |queue| {
            queue.is_in_flight().then(|| {
                for item in queue.sending.drain(..).rev() {
                    queue.waiting.push_front(item);
                }
                queue.sequence.take()
            })
        });
        let sequence = requeued.flatten()?;
        self.ready.push_back(up_seid);
        sequence
    }

    /// Sends what is in flight to another SMF of the set instead; false after too many of them.
    pub fn redirect(&mut self, up_seid: Seid, to: IpAddr) -> bool {
        let Some(queue) = self.queues.get_mut(&up_seid) else { return false };
        if queue.redirects >= REPORT_REDIRECTS_MAX {
            return false;
        }
        queue.redirects += 1;
        queue.redirect = Some(to);
        self.requeue(up_seid);
        true
    }

    /// Where the reports of a session are redirected to.
    pub fn redirect_of(&self, up_seid: Seid) -> Option<IpAddr> {
        self.queues.get(&up_seid)?.redirect
    }

    /// Gives the reports of a session to `to`; what is in flight is to be sent anew. Returns the
    /// sequence number of that.
    pub fn hand_over(&mut self, up_seid: Seid, to: OwnerId) -> Option<u32> {
        let sequence = self.requeue(up_seid);
        let queue = self.queues.get_mut(&up_seid)?;
        queue.redirect = None;
        let from = core::mem::replace(&mut queue.owner, to);
        let counts = queue.counts();
        self.recount(from, counts, ReportCounts::default());
        self.recount(to, ReportCounts::default(), counts);
        sequence
    }

    /// Takes in that a session is gone but for its last reports.
    pub fn add_ended(&mut self, up_seid: Seid, leaving: EndedSession) {
        self.ended_of.entry(leaving.owner).or_default().insert(up_seid);
        self.ended.insert(up_seid, leaving);
    }

    /// A session that is gone but for its last reports.
    pub fn ended(&self, up_seid: Seid) -> Option<&EndedSession> {
        self.ended.get(&up_seid)
    }

    /// Takes in that the last usage of a session is read. Returns whom it belonged to.
    pub fn last_usage_read(&mut self, up_seid: Seid) -> Option<OwnerId> {
        let leaving = self.ended.get_mut(&up_seid)?;
        leaving.is_read = true;
        Some(leaving.owner)
    }

    /// How many sessions of an association are gone but for their last reports.
    pub fn ended_len(&self, owner: OwnerId) -> usize {
        self.ended_of.get(&owner).map_or(0, BTreeSet::len)
    }

    /// Takes out one of them.
    pub fn pop_ended(&mut self, owner: OwnerId) -> Option<Seid> {
        let up_seid = *self.ended_of.get(&owner)?.first()?;
        self.forget_ended(up_seid);
        Some(up_seid)
    }

    fn forget_ended(&mut self, up_seid: Seid) {
        let Some(EndedSession { owner, .. }) = self.ended.remove(&up_seid) else { return };
        if let Some(of_owner) = self.ended_of.get_mut(&owner) {
            of_owner.remove(&up_seid);
            if of_owner.is_empty() {
                self.ended_of.remove(&owner);
            }
        }
    }

    /// Forgets a session that is gone once its last report is answered.
    pub fn forget_if_reported(&mut self, up_seid: Seid) {
        if self.ended.get(&up_seid).is_some_and(|leaving| leaving.is_read)
            && !self.queues.contains_key(&up_seid)
        {
            self.forget_ended(up_seid);
        }
    }

    /// Keeps of a session's reports the usage alone, because the session is gone.
    pub fn keep_usage(&mut self, up_seid: Seid) {
        self.notified.remove(&up_seid);
        self.change(up_seid, |queue| {
            queue.waiting.retain(|item| matches!(item, ReportItem::Usage(_)));
        });
    }

    /// True while a request of this session is in flight that carries usage.
    pub fn has_unacknowledged_usage(&self, up_seid: Seid) -> bool {
        self.queues.get(&up_seid).is_some_and(ReportQueue::carries_usage)
    }

    /// Remembers a notification; false when it was told before, or when there is no room.
    pub(super) fn note_notified(&mut self, up_seid: Seid, told: NotifiedData) -> bool {
        let known = self.notified.entry(up_seid).or_default();
        let is_new = !known.contains(&told) && known.len() < REPORT_ITEMS_PER_SESSION_MAX;
        if is_new {
            known.push(told);
        }
        is_new
    }

    /// Forgets what was told of a session: all of it, or that of some FARs.
    pub fn forget_notified(&mut self, up_seid: Seid, fars: Option<&[FarId]>) {
        match (fars, self.notified.get_mut(&up_seid)) {
            (Some(fars), Some(told)) => told.retain(|told| !fars.contains(&told.far)),
            _ => drop(self.notified.remove(&up_seid)),
        }
    }

    /// Delays a notification until `at`. Without room it is due at once.
    pub(super) fn delay(&mut self, at: Nanos, up_seid: Seid, notification: DownlinkDataNotice) {
        let at = if self.delayed.len() < REPORT_ITEMS_MAX { at } else { Nanos(0) };
        self.delayed_total += 1;
        self.delayed.insert((at, self.delayed_total), (up_seid, notification));
    }

    pub(super) fn take_delayed(&mut self, now: Nanos) -> Option<(Seid, DownlinkDataNotice)> {
        let entry = self.delayed.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When the next delayed notification is due.
    pub fn next_notification(&self) -> Option<Nanos> {
        self.delayed.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The association ended: its reports take no room any more, whatever their number. They are
    /// discarded with its sessions, one after another.
    pub fn abandon(&mut self, owner: OwnerId) {
        let counts = self.counts.remove(&owner).unwrap_or_default();
        self.total.replace(counts, ReportCounts::default());
    }

    /// Items that wait, of all sessions.
    pub const fn waiting_len(&self) -> usize {
        self.total.waiting
    }

    /// Usage of a session that waits for its turn.
    pub fn waiting_usage(&self, up_seid: Seid) -> Vec<UsageReport> {
        let waiting = self.queues.get(&up_seid).into_iter().flat_map(|queue| &queue.waiting);
        let usage = waiting.filter_map(|item| match item {
            ReportItem::Usage(report) => Some(report.clone()),
            _ => None,
        });
        usage.collect()
    }

    /// Forgets one session; returns the sequence number of its request in flight, unless that
    /// carries usage: it is retransmitted until the CP function has it.
    pub fn remove(&mut self, up_seid: Seid) -> Option<u32> {
        self.notified.remove(&up_seid);
        let removed = self.change(up_seid, |queue| {
            queue.waiting.clear();
            if queue.carries_usage() {
                return None;
            }
            queue.sending.clear();
            queue.sequence
        });
        removed.flatten()
    }

    /// Forgets one session and all that it had to report.
    pub fn discard(&mut self, up_seid: Seid) -> DiscardedReports {
        self.notified.remove(&up_seid);
        let discarded = self.change(up_seid, |queue| {
            let items = queue.sending.drain(..).chain(queue.waiting.drain(..));
            let usage = items.filter(|item| matches!(item, ReportItem::Usage(_))).count();
            DiscardedReports { sequence: queue.sequence, usage }
        });
        discarded.unwrap_or_default()
    }

    /// The flags of a session's request: PSDBU in the last one of a session that we ended.
    pub fn final_report_flags(&self, up_seid: Seid) -> Option<PfcpSrReqFlags> {
        let leaving = self.ended.get(&up_seid).filter(|leaving| leaving.by_us)?;
        let is_last = self.queues.get(&up_seid).is_some_and(|queue| queue.waiting.is_empty());
        (leaving.is_read && is_last).then_some(PfcpSrReqFlags::PSDBU)
    }
}

/// The items at the front that fit one request: one Downlink Data Report has one data status.
fn take_batch(waiting: &mut VecDeque<ReportItem>) -> Vec<ReportItem> {
    let mut batch: Vec<ReportItem> = Vec::new();
    while batch.len() < REPORT_ITEMS_PER_REQUEST_MAX
        && waiting
            .front()
            .is_some_and(|item| batch.iter().all(|other| fits_request_of(item, other)))
    {
        batch.extend(waiting.pop_front());
    }
    batch
}

fn fits_request_of(item: &ReportItem, other: &ReportItem) -> bool {
    match (item, other) {
        (
            ReportItem::DownlinkData { status, .. },
            ReportItem::DownlinkData { status: known, .. },
        ) => status == known,
        _ => true,
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    fn item(pdr: u16) -> ReportItem {
        let service = DownlinkDataServiceInformation::default();
        ReportItem::DownlinkData { pdr: PdrId(pdr), service, status: None }
    }

    #[test]
    fn notification_beyond_the_bound_of_those_held_back_is_told_at_once() {
        let told = NotifiedData { far: FarId(1), pdr: PdrId(1), delivery: None };
        let service = DownlinkDataServiceInformation::default();
        let mut reports = Reports::default();
        for _ in 0..REPORT_ITEMS_MAX {
            reports.delay(Nanos(9), Seid(1), DownlinkDataNotice { data: told, service });
        }
        assert_eq!(reports.next_notification(), Some(Nanos(9)));
        reports.delay(Nanos(9), Seid(2), DownlinkDataNotice { data: told, service });
        assert_eq!(reports.next_notification(), Some(Nanos(0)));
    }

    #[test]
    fn waiting_items_of_a_session_are_bounded_and_equal_ones_merged() {
        let mut reports = Reports::default();
        let max = u16::try_from(REPORT_ITEMS_PER_SESSION_MAX).unwrap();
        for pdr in 0..max {
            assert!(reports.push(Seid(1), OwnerId(1), item(pdr)));
        }
        assert!(reports.push(Seid(1), OwnerId(1), item(0)), "waits already");
        assert!(!reports.push(Seid(1), OwnerId(1), item(max)));
        assert!(reports.push(Seid(2), OwnerId(1), item(max)), "another session has room");
        assert_eq!(reports.total.waiting, REPORT_ITEMS_PER_SESSION_MAX + 1);
    }

    #[test]
    fn requests_in_flight_are_bounded_and_the_next_session_gets_the_room() {
        let mut reports = Reports::default();
        let max = u64::try_from(REPORTS_IN_FLIGHT_MAX).unwrap();
        for seid in 0..=max {
            assert!(reports.push(Seid(seid), OwnerId(1), item(1)));
        }
        let mut started = 0;
        while reports.start().is_some() {
            started += 1;
            if reports.has_more_to_send() {
                reports.begin_turn();
            }
        }
        assert_eq!(started, REPORTS_IN_FLIGHT_MAX);
        reports.finish(Seid(0));
        reports.begin_turn();
        assert_eq!(reports.start().map(|(seid, _)| seid), Some(Seid(max)));
        reports.abandon(OwnerId(1));
        assert_eq!(reports.total, ReportCounts::default(), "the room is free at once");
        assert_eq!(reports.discard(Seid(max)), DiscardedReports { sequence: None, usage: 0 });
        assert_eq!((reports.total, reports.counts.len()), (ReportCounts::default(), 0));
        for seid in 0..=max {
            reports.remove(Seid(seid));
        }
        assert!(reports.queues.is_empty());
    }

    #[test]
    fn turn_has_its_share_of_requests() {
        let mut reports = Reports::default();
        let count = u64::try_from(2 * REPORTS_PER_TURN_MAX).unwrap();
        for seid in 0..count {
            reports.push(Seid(seid), OwnerId(1), item(1));
        }
        reports.begin_turn();
        let started = core::iter::from_fn(|| reports.start()).count();
        assert_eq!((started, reports.has_more_to_send()), (REPORTS_PER_TURN_MAX, true));
        reports.begin_turn();
        let started = core::iter::from_fn(|| reports.start()).count();
        assert_eq!((started, reports.has_more_to_send()), (REPORTS_PER_TURN_MAX, false));
    }

    #[test]
    fn counts_move_with_a_session_that_is_handed_over() {
        let mut reports = Reports::default();
        reports.push(Seid(1), OwnerId(1), item(1));
        reports.push(Seid(2), OwnerId(1), item(1));
        reports.start();
        reports.sent(Seid(1), 77);
        assert_eq!(reports.hand_over(Seid(1), OwnerId(2)), Some(77));
        let waiting = ReportCounts { in_flight: 0, waiting: 1 };
        assert_eq!(reports.counts, [(OwnerId(1), waiting), (OwnerId(2), waiting)].into());
        reports.abandon(OwnerId(1));
        assert_eq!(reports.total, waiting);
        reports.discard(Seid(1));
        assert_eq!((reports.total, reports.counts.len()), (ReportCounts::default(), 0));
    }
}
