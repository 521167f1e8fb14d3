//! The session reports of each session: what waits, what is in flight, and whose turn it is.
//!
//! A session has at most one request in flight; further items wait. Counts are kept by association,
//! so that its end frees the room of its reports at once, whatever their number; the reports
//! themselves go with their sessions.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_pfcp::ie::{DataStatus, DownlinkDataServiceInformation, PfcpSrReqFlags};
use adit_rules::{DataDelivery, GtpuTunnel};
use adit_session::{OwnerId, UsageReport};
use adit_types::limits::{
    REPORT_ITEMS_MAX, REPORT_ITEMS_PER_REQUEST_MAX, REPORT_ITEMS_PER_SESSION_MAX,
    REPORT_REDIRECTS_MAX, REPORTS_IN_FLIGHT_MAX, REPORTS_PER_TURN_MAX,
};
use adit_types::{FarId, Nanos, PdrId, Seid};

use super::{EndedState, SessionStates};

/// One thing to report about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportItem {
    /// Downlink data arrived for a PDR. Spec: TS 29.244 §7.5.8.2.
    DownlinkData {
        /// The PDR that the data matched.
        pdr: PdrId,
        /// What the first packet carried: paging policy and QoS flow.
        service: DownlinkDataServiceInformation,
        /// Whether the data was buffered or dropped; `None` for a plain notification.
        status: Option<DataStatus>,
    },
    /// A GTP-U peer does not know the tunnel that a FAR sends into. Spec: TS 29.244 §7.5.8.4.
    ErrorIndication {
        /// The tunnel.
        tunnel: GtpuTunnel,
    },
    /// Usage of a URR. Spec: TS 29.244 §7.5.8.3.
    Usage(UsageReport),
    /// No packet came for the time of the user plane inactivity timer. Spec: TS 29.244 §5.2.3.
    Inactivity,
}

impl ReportItem {
    const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// A session that is gone except for its last reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedSession {
    pub to: SocketAddr,
    pub cp_seid: Seid,
    pub owner: OwnerId,
    /// This node ended it; else the CP function did.
    pub by_us: bool,
    /// The last usage was read: no item follows those that wait.
    pub is_read: bool,
}

/// What becomes of the reports of a session that ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RemainingReports {
    /// Waiting usage, and the last usage to come, are reported to this destination.
    Deliver(EndedSession),
    /// A request with usage is retransmitted until its response, by a later process to this destination; all else is
    /// forgotten.
    KeepUsageInFlight(Option<EndedSession>),
    /// Nobody receives them.
    Discard,
}

/// The usage reports of a session that wait or are in flight.
#[derive(Debug)]
pub(crate) struct UnacknowledgedUsage {
    pub owner: OwnerId,
    /// The session, if it is gone.
    pub ended: Option<EndedSession>,
    pub reports: Vec<UsageReport>,
}

/// The reports of one session.
#[derive(Debug)]
pub(super) struct ReportQueue {
    owner: OwnerId,
    waiting: VecDeque<ReportItem>,
    /// What the request in flight carries; empty without one.
    sending: Vec<ReportItem>,
    /// Sequence number of the request in flight.
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
        self.sending.iter().any(ReportItem::is_usage)
    }

    fn counts(&self) -> ReportCounts {
        ReportCounts { in_flight: usize::from(self.is_in_flight()), waiting: self.waiting.len() }
    }

    /// Keeps of the reports what `remaining` says.
    fn end(&mut self, remaining: RemainingReports) -> DiscardedReports {
        match remaining {
            RemainingReports::Deliver(_) => {
                self.waiting.retain(ReportItem::is_usage);
                DiscardedReports::default()
            }
            RemainingReports::KeepUsageInFlight(_) => {
                self.waiting.clear();
                if self.carries_usage() {
                    return DiscardedReports::default();
                }
                self.sending.clear();
                DiscardedReports { sequence: self.sequence, usage: 0 }
            }
            RemainingReports::Discard => {
                let items = self.sending.drain(..).chain(self.waiting.drain(..));
                let usage = items.filter(ReportItem::is_usage).count();
                DiscardedReports { sequence: self.sequence, usage }
            }
        }
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

/// Order and number of the reports of all sessions. At most [`REPORTS_IN_FLIGHT_MAX`] requests are
/// in flight, and at most [`REPORT_ITEMS_MAX`] items wait.
#[derive(Debug, Default)]
pub(super) struct ReportSchedule {
    /// Sessions with something to send and nothing in flight, in the order of their turn.
    ready: VecDeque<Seid>,
    /// Of associations that have not ended.
    counts: BTreeMap<OwnerId, ReportCounts>,
    total: ReportCounts,
    /// Sessions that got their turn in this turn of the control thread.
    started: usize,
    /// Sessions whose usage reports, unacknowledged ones, changed.
    changed_usage: BTreeSet<Seid>,
    /// A store keeps them, so that these changes matter.
    pub is_recorded: bool,
    /// Notifications that their BAR delays, by time and in the order of their arrival.
    delayed: BTreeMap<(Nanos, u64), (Seid, DownlinkDataNotice)>,
    delayed_total: u64,
}

impl ReportSchedule {
    /// Counts a queue of `owner` anew after a change. A queue of an association that ended is not
    /// counted any more.
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

    /// Edits a queue, counts it anew, and removes it if it is idle afterwards.
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

/// Downlink data that was reported: the same again is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotifiedData {
    pub far: FarId,
    pub pdr: PdrId,
    pub delivery: Option<DataDelivery>,
}

/// Downlink data as a worker saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DownlinkDataNotice {
    pub data: NotifiedData,
    pub service: DownlinkDataServiceInformation,
}

/// Reports that went with their queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiscardedReports {
    /// Sequence number of the request that was in flight.
    pub sequence: Option<u32>,
    /// Usage reports that are lost.
    pub usage: usize,
}

impl SessionStates {
    /// Allows another turn's share of report requests.
    pub(crate) const fn begin_turn(&mut self) {
        self.reports.started = 0;
    }

    /// True if only the share of this turn kept a request from being sent.
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

    /// Edits the queue of a session, live or ended, if it has one.
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

    /// Queues an item. An item equal to one that waits is merged into it. False without room.
    pub(crate) fn push_report(&mut self, up_seid: Seid, owner: OwnerId, item: ReportItem) -> bool {
        let queue = self.queue(up_seid);
        if queue.is_some_and(|queue| queue.waiting.contains(&item)) {
            return true;
        }
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

    /// The next session whose turn it is, with the items of its next request.
    pub(crate) fn start_report(&mut self) -> Option<(Seid, Vec<ReportItem>)> {
        if self.reports.total.in_flight >= REPORTS_IN_FLIGHT_MAX {
            return None;
        }
        while self.reports.started < REPORTS_PER_TURN_MAX {
            let up_seid = self.reports.ready.pop_front()?;
            self.reports.started += 1;
            // A session may have ended while it waited for its turn.
            let items = self.edit_queue(up_seid, |queue| match queue.is_in_flight() {
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
    pub(crate) fn is_reporting(&self, up_seid: Seid) -> bool {
        self.queue(up_seid).is_some_and(ReportQueue::is_in_flight)
    }

    /// Keeps the sequence number of the request in flight.
    pub(crate) fn set_report_sequence(&mut self, up_seid: Seid, sequence: u32) {
        self.edit_queue(up_seid, |queue| queue.sequence = Some(sequence));
    }

    /// Ends the request in flight of a session, whatever its outcome.
    pub(crate) fn finish_report(&mut self, up_seid: Seid) {
        if self.has_unacknowledged_usage(up_seid) {
            self.reports.note_usage(up_seid);
        }
        let waits = self.edit_queue(up_seid, |queue| {
            queue.sending.clear();
            queue.sequence = None;
            queue.redirect = None;
            queue.redirects = 0;
            !queue.waiting.is_empty()
        });
        match waits {
            Some(true) => self.reports.ready.push_back(up_seid),
            Some(false) => self.forget_if_reported(up_seid),
            None => {}
        }
    }

    /// Puts the items in flight back to the front, to be sent anew. Returns the sequence number
    /// that they had.
    fn requeue(&mut self, up_seid: Seid) -> Option<u32> {
        let requeued = self.edit_queue(up_seid, |queue| {
            queue.is_in_flight().then(|| {
                for item in queue.sending.drain(..).rev() {
                    queue.waiting.push_front(item);
                }
                queue.sequence.take()
            })
        });
        let sequence = requeued.flatten()?;
        self.reports.ready.push_back(up_seid);
        sequence
    }

    /// Sends the items in flight to another SMF of the set instead; false after too many
    /// redirections.
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
        }
        is_redirected
    }

    /// Where the reports of a session are redirected to.
    pub(crate) fn report_redirect(&self, up_seid: Seid) -> Option<IpAddr> {
        self.queue(up_seid)?.redirect
    }

    /// Gives the reports of a session to `to`; items in flight are to be sent anew. Returns the
    /// sequence number that they had.
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
        sequence
    }

    /// The part of [`SessionStates::end`] that concerns reports.
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

    /// The session is gone except for its last reports.
    pub(crate) fn add_ended(&mut self, up_seid: Seid, session: EndedSession) {
        self.ended_of.entry(session.owner).or_default().insert(up_seid);
        let none = EndedState { session: None, queue: None };
        self.ended.entry(up_seid).or_insert(none).session = Some(session);
    }

    /// A session that is gone except for its last reports.
    pub(crate) fn ended(&self, up_seid: Seid) -> Option<&EndedSession> {
        self.ended.get(&up_seid)?.session.as_ref()
    }

    /// The last usage of a session was read. Returns the association that it belonged to.
    pub(crate) fn set_last_usage_read(&mut self, up_seid: Seid) -> Option<OwnerId> {
        let session = self.ended.get_mut(&up_seid)?.session.as_mut()?;
        session.is_read = true;
        Some(session.owner)
    }

    /// How many sessions of an association are gone except for their last reports.
    pub(crate) fn ended_len(&self, owner: OwnerId) -> usize {
        self.ended_of.get(&owner).map_or(0, BTreeSet::len)
    }

    /// Takes out one of them; its queue is left.
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

    /// Forgets all reports of a session, live or ended.
    pub(crate) fn discard_reports(&mut self, up_seid: Seid) -> DiscardedReports {
        self.forget_notified(up_seid, None);
        if self.queue(up_seid).is_some() {
            self.reports.note_usage(up_seid);
        }
        let discarded = self.edit_queue(up_seid, |queue| queue.end(RemainingReports::Discard));
        self.drop_empty_ended(up_seid);
        discarded.unwrap_or_default()
    }

    /// The usage reports of a session that are not acknowledged; `None` if there are none.
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

    /// The next session whose usage reports changed.
    pub(crate) fn take_changed_usage(&mut self) -> Option<Seid> {
        self.reports.changed_usage.pop_first()
    }

    /// True while a request of this session is in flight that carries usage.
    pub(crate) fn has_unacknowledged_usage(&self, up_seid: Seid) -> bool {
        self.queue(up_seid).is_some_and(ReportQueue::carries_usage)
    }

    /// Remembers a notification; false if it was sent before, or without room.
    pub(crate) fn note_notified(&mut self, up_seid: Seid, data: NotifiedData) -> bool {
        let notified = self.live.activity(up_seid).map_or(&[][..], |a| &a.notified);
        let is_new = !notified.contains(&data) && notified.len() < REPORT_ITEMS_PER_SESSION_MAX;
        if is_new {
            self.live.edit_activity(up_seid, |activity| activity.notified.push(data));
        }
        is_new
    }

    /// Forgets the notifications of a session, or those of some of its FARs: the next packet is
    /// reported again.
    pub(crate) fn forget_notified(&mut self, up_seid: Seid, fars: Option<&[FarId]>) {
        if self.live.activity(up_seid).is_none() {
            return;
        }
        self.live.edit_activity(up_seid, |activity| match fars {
            Some(fars) => activity.notified.retain(|data| !fars.contains(&data.far)),
            None => activity.notified.clear(),
        });
    }

    /// Delays a notification until `at`; beyond the bound it is due at once.
    pub(crate) fn delay_notice(&mut self, at: Nanos, up_seid: Seid, notice: DownlinkDataNotice) {
        let at = if self.reports.delayed.len() < REPORT_ITEMS_MAX { at } else { Nanos(0) };
        self.reports.delayed_total += 1;
        self.reports.delayed.insert((at, self.reports.delayed_total), (up_seid, notice));
    }

    /// Takes out a notification that is due by `now`.
    pub(crate) fn take_delayed_notice(&mut self, now: Nanos) -> Option<(Seid, DownlinkDataNotice)> {
        let entry = self.reports.delayed.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When the next delayed notification is due.
    pub(crate) fn next_delayed_notice(&self) -> Option<Nanos> {
        self.reports.delayed.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The association ended: its reports take no room any more, whatever their number. They are
    /// discarded with its sessions, one after another.
    pub(crate) fn abandon_reports(&mut self, owner: OwnerId) {
        let counts = self.reports.counts.remove(&owner).unwrap_or_default();
        self.reports.total.replace(counts, ReportCounts::default());
    }

    /// Items that wait, of all sessions.
    pub(crate) const fn waiting_reports_len(&self) -> usize {
        self.reports.total.waiting
    }

    /// Usage of a session that waits for its turn.
    pub(crate) fn waiting_usage(&self, up_seid: Seid) -> Vec<UsageReport> {
        let waiting = self.queue(up_seid).into_iter().flat_map(|queue| &queue.waiting);
        let usage = waiting.filter_map(|item| match item {
            ReportItem::Usage(report) => Some(report.clone()),
            _ => None,
        });
        usage.collect()
    }

    /// The flags of a session's request: PSDBU in the last one of a session that this node ended.
    pub(crate) fn report_flags(&self, up_seid: Seid) -> Option<PfcpSrReqFlags> {
        let ended = self.ended(up_seid).filter(|ended| ended.by_us)?;
        let is_last = self.queue(up_seid).is_some_and(|queue| queue.waiting.is_empty());
        (ended.is_read && is_last).then_some(PfcpSrReqFlags::PSDBU)
    }
}

/// The items at the front that fit one request: one Downlink Data Report has one data status.
fn take_batch(waiting: &mut VecDeque<ReportItem>) -> Vec<ReportItem> {
    let mut batch: Vec<ReportItem> = Vec::new();
    while batch.len() < REPORT_ITEMS_PER_REQUEST_MAX
        && waiting.front().is_some_and(|item| batch.iter().all(|other| fits_with(item, other)))
    {
        batch.extend(waiting.pop_front());
    }
    batch
}

fn fits_with(item: &ReportItem, other: &ReportItem) -> bool {
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
    fn notification_beyond_the_bound_of_those_held_back_is_told_at_once() {
        let data = NotifiedData { far: FarId(1), pdr: PdrId(1), delivery: None };
        let service = DownlinkDataServiceInformation::default();
        let notice = DownlinkDataNotice { data, service };
        let mut states = states();
        for _ in 0..REPORT_ITEMS_MAX {
            states.delay_notice(Nanos(9), Seid(1), notice);
        }
        assert_eq!(states.next_delayed_notice(), Some(Nanos(9)));
        states.delay_notice(Nanos(9), Seid(2), notice);
        assert_eq!(states.next_delayed_notice(), Some(Nanos(0)));
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
