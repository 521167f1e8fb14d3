//! Session reports: what a session tells the CP function that controls it.
//!
//! Each session has at most one Session Report Request in flight; what happens meanwhile waits in a
//! bounded queue and leaves together in the next one. An item equal to one that waits is merged into
//! it. A new kind of report is a new [`ReportItem`], and its place in [`Batch`].
//! Spec: TS 29.244 §5.2.3, §6.3.5, §7.5.8, §7.5.9.

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use adit_pfcp::grouped::{DownlinkDataReport, ErrorIndicationReport};
use adit_pfcp::ie::{
    DataStatus, DownlinkDataServiceInformation, EventTimeStamp, FSeid, FTeid, FTeidAddress,
    PfcpSrReqFlags, PfcpSrRspFlags, ReportType,
};
use adit_pfcp::message::{SessionReportRequest, SessionReportResponse};
use adit_pfcp::{Cause, MessageBody, PFCP_PORT};
use adit_rules::{ApplyAction, DataDelivery, GtpuTunnel, WorkerEvent};
use adit_session::{Change, Far, OwnerId, Records, Session, TrafficStart, UsageReport};
use adit_types::limits::{
    ERROR_INDICATION_USERS_MAX, REPORT_ITEMS_MAX, REPORT_ITEMS_PER_REQUEST_MAX,
    REPORT_ITEMS_PER_SESSION_MAX, REPORT_REDIRECTS_MAX, REPORTS_IN_FLIGHT_MAX, TIMERS_PER_TURN_MAX,
};
use adit_types::{FarId, Nanos, PdrId, Seid, SessionIndex};

use crate::association::as_count;
use crate::backlog::Task;
use crate::containment::FaultPoint;
use crate::node::{Node, Request};
use crate::procedure::farewell::{Destination, Leaving};
use crate::procedure::usage::{event_time_stamps, usage_report};
use crate::procedure::{rule_decode, withdraw_decode};
use crate::transaction::Purpose;
use crate::wall::Wall;

/// One thing to report about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportItem {
    /// Downlink data arrived for a PDR. Spec: TS 29.244 §7.5.8.2.
    DownlinkData {
        /// The PDR that the data matched.
        pdr: PdrId,
        /// What the first packet carried: paging policy and QoS flow.
        service: DownlinkDataServiceInformation,
        /// What became of the data; `None` for a plain notification.
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
    fn event_time_stamps(&self, wall: Wall) -> Vec<EventTimeStamp> {
        match self {
            Self::Usage(report) => event_time_stamps(report, wall),
            _ => Vec::new(),
        }
    }
}

/// What one session has to report.
#[derive(Debug)]
struct Queue {
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

impl Queue {
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
}

/// The reports of all sessions. At most [`REPORTS_IN_FLIGHT_MAX`] requests are in flight, and at
/// most [`REPORT_ITEMS_MAX`] items wait.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queues: BTreeMap<Seid, Queue>,
    /// Sessions with something to send and nothing in flight, in the order of their turn.
    ready: VecDeque<Seid>,
    in_flight_count: usize,
    waiting_count: usize,
    /// What was told since its FAR was activated.
    told: BTreeMap<Seid, Vec<Told>>,
    /// Notifications that their BAR delays, by time and in the order of their arrival.
    delayed: BTreeMap<(Nanos, u64), (Seid, Notification)>,
    delayed_total: u64,
    /// Sessions that are gone, and whose last reports are not.
    pub leaving: BTreeMap<Seid, Leaving>,
}

/// One notification of downlink data, so that the next one is known to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    far: FarId,
    pdr: PdrId,
    delivery: Option<DataDelivery>,
}

/// Downlink data as a worker told of it.
#[derive(Debug, Clone, Copy)]
struct Notification {
    told: Told,
    service: DownlinkDataServiceInformation,
}

impl Reports {
    /// Queues `item`; false when there is no room for it.
    fn push(&mut self, up_seid: Seid, owner: OwnerId, item: ReportItem) -> bool {
        let queue = self.queues.entry(up_seid).or_insert_with(|| Queue::new(owner));
        if queue.waiting.contains(&item) {
            return true;
        }
        let full = queue.waiting.len() >= REPORT_ITEMS_PER_SESSION_MAX
            || self.waiting_count >= REPORT_ITEMS_MAX;
        if !full {
            if queue.is_idle() {
                self.ready.push_back(up_seid);
            }
            queue.waiting.push_back(item);
            self.waiting_count += 1;
        }
        if queue.is_idle() {
            self.queues.remove(&up_seid);
        }
        !full
    }

    /// The next session whose turn it is, with what its next request carries.
    fn start(&mut self) -> Option<(Seid, Vec<ReportItem>)> {
        if self.in_flight_count >= REPORTS_IN_FLIGHT_MAX {
            return None;
        }
        loop {
            let up_seid = self.ready.pop_front()?;
            // A session may have ended while it waited for its turn.
            let Some(queue) = self.queues.get_mut(&up_seid).filter(|queue| !queue.is_in_flight())
            else {
                continue;
            };
            let items = take_batch(&mut queue.waiting);
            if items.is_empty() {
                continue;
            }
            self.waiting_count -= items.len();
            queue.sending.clone_from(&items);
            self.in_flight_count += 1;
            return Some((up_seid, items));
        }
    }

    /// Remembers the request in flight.
    fn sent(&mut self, up_seid: Seid, sequence: u32) {
        if let Some(queue) = self.queues.get_mut(&up_seid) {
            queue.sequence = Some(sequence);
        }
    }

    /// Ends what is in flight for a session, whatever became of it.
    fn finish(&mut self, up_seid: Seid) {
        let Some(queue) = self.queues.get_mut(&up_seid) else { return };
        self.in_flight_count -= usize::from(queue.is_in_flight());
        queue.sending.clear();
        queue.sequence = None;
        queue.redirect = None;
        queue.redirects = 0;
        if queue.waiting.is_empty() {
            self.queues.remove(&up_seid);
            self.settle(up_seid);
        } else {
            self.ready.push_back(up_seid);
        }
    }

    /// Puts what is in flight for a session back to the front, to be sent anew.
    fn requeue(&mut self, up_seid: Seid) {
        let Some(queue) = self.queues.get_mut(&up_seid).filter(|queue| queue.is_in_flight()) else {
            return;
        };
        self.in_flight_count -= 1;
        self.waiting_count += queue.sending.len();
        queue.sequence = None;
        for item in queue.sending.drain(..).rev() {
            queue.waiting.push_front(item);
        }
        self.ready.push_back(up_seid);
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

    /// Gives the reports of `from` to `to`; what is in flight is to be sent anew.
    pub fn hand_over(&mut self, from: OwnerId, to: OwnerId) {
        let of: Vec<Seid> =
            self.queues.iter().filter(|(_, queue)| queue.owner == from).map(|(s, _)| *s).collect();
        for up_seid in of {
            self.requeue(up_seid);
            if let Some(queue) = self.queues.get_mut(&up_seid) {
                queue.owner = to;
                queue.redirect = None;
            }
        }
    }

    /// Forgets a session that is gone once its last report is answered.
    pub fn settle(&mut self, up_seid: Seid) {
        if self.leaving.get(&up_seid).is_some_and(|leaving| leaving.is_read)
            && !self.queues.contains_key(&up_seid)
        {
            self.leaving.remove(&up_seid);
        }
    }

    /// Keeps of a session's reports the usage alone, because the session is gone.
    pub fn keep_usage(&mut self, up_seid: Seid) {
        self.told.remove(&up_seid);
        let Some(queue) = self.queues.get_mut(&up_seid) else { return };
        let before = queue.waiting.len();
        queue.waiting.retain(|item| matches!(item, ReportItem::Usage(_)));
        self.waiting_count -= before - queue.waiting.len();
        if queue.is_idle() {
            self.queues.remove(&up_seid);
        }
    }

    /// True while a request of this session is in flight that carries usage.
    pub fn has_unacknowledged_usage(&self, up_seid: Seid) -> bool {
        self.queues.get(&up_seid).is_some_and(Queue::carries_usage)
    }

    /// Remembers a notification; false when it was told before, or when there is no room.
    fn tell(&mut self, up_seid: Seid, told: Told) -> bool {
        let known = self.told.entry(up_seid).or_default();
        let is_new = !known.contains(&told) && known.len() < REPORT_ITEMS_PER_SESSION_MAX;
        if is_new {
            known.push(told);
        }
        is_new
    }

    /// Holds a notification back until `at`. What finds no room is told at once.
    fn delay(&mut self, at: Nanos, up_seid: Seid, notification: Notification) {
        let at = if self.delayed.len() < REPORT_ITEMS_MAX { at } else { Nanos(0) };
        self.delayed_total += 1;
        self.delayed.insert((at, self.delayed_total), (up_seid, notification));
    }

    fn take_delayed(&mut self, now: Nanos) -> Option<(Seid, Notification)> {
        let entry = self.delayed.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When the next delayed notification is due.
    pub fn next_notification(&self) -> Option<Nanos> {
        self.delayed.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Forgets the reports of `owner`. Returns how many reports of usage went with them.
    fn forget(&mut self, owner: OwnerId) -> usize {
        let Self { queues, in_flight_count, waiting_count, leaving, .. } = self;
        leaving.retain(|_, leaving| leaving.owner != owner);
        let mut lost = 0;
        queues.retain(|_, queue| {
            let goes = queue.owner == owner;
            if goes {
                *in_flight_count -= usize::from(queue.is_in_flight());
                *waiting_count -= queue.waiting.len();
                let items = queue.sending.iter().chain(&queue.waiting);
                lost += items.filter(|item| matches!(item, ReportItem::Usage(_))).count();
            }
            !goes
        });
        lost
    }

    /// Items that wait, of all sessions.
    pub const fn waiting_len(&self) -> usize {
        self.waiting_count
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
    fn remove(&mut self, up_seid: Seid) -> Option<u32> {
        self.told.remove(&up_seid);
        let queue = self.queues.get_mut(&up_seid)?;
        self.waiting_count -= queue.waiting.len();
        queue.waiting.clear();
        if queue.carries_usage() {
            return None;
        }
        let queue = self.queues.remove(&up_seid)?;
        self.in_flight_count -= usize::from(queue.is_in_flight());
        queue.sequence
    }

    /// The flags of a session's request: PSDBU in the last one of a session that we ended.
    fn says_goodbye(&self, up_seid: Seid) -> Option<PfcpSrReqFlags> {
        let leaving = self.leaving.get(&up_seid).filter(|leaving| leaving.by_us)?;
        let is_last = self.queues.get(&up_seid).is_some_and(|queue| queue.waiting.is_empty());
        (leaving.is_read && is_last).then_some(PfcpSrReqFlags::PSDBU)
    }
}

/// The FAR of `pdr` if it asks to be told of such data. Spec: TS 29.244 §8.2.26.
fn wanting_far(session: &Session, pdr: PdrId, delivery: Option<DataDelivery>) -> Option<Far> {
    let Records { pdrs, fars, .. } = session.records();
    let pdr = pdrs.into_iter().find(|known| known.id == pdr)?;
    let far = fars.into_iter().find(|far| Some(far.id) == pdr.far)?;
    let notice = match delivery {
        None => ApplyAction::NOCP,
        Some(DataDelivery::Buffered) => ApplyAction::BDPN,
        Some(DataDelivery::Discarded) => ApplyAction::DDPN,
    };
    Some(far).filter(|far| far.action.contains(notice))
}

fn notification_delay(session: &Session, far: &Far) -> Nanos {
    let bar = session.bars().into_iter().find(|bar| Some(bar.id) == far.bar);
    bar.map_or(Nanos(0), |bar| Nanos::from_millis(50 * u64::from(bar.notification_delay)))
}

/// The items at the front that fit one request: one Downlink Data Report has one data status.
fn take_batch(waiting: &mut VecDeque<ReportItem>) -> Vec<ReportItem> {
    let mut batch: Vec<ReportItem> = Vec::new();
    while batch.len() < REPORT_ITEMS_PER_REQUEST_MAX
        && waiting.front().is_some_and(|item| batch.iter().all(|other| goes_with(item, other)))
    {
        batch.extend(waiting.pop_front());
    }
    batch
}

fn goes_with(item: &ReportItem, other: &ReportItem) -> bool {
    match (item, other) {
        (
            ReportItem::DownlinkData { status, .. },
            ReportItem::DownlinkData { status: known, .. },
        ) => status == known,
        _ => true,
    }
}

/// The items of one request, arranged as its groups borrow them.
#[derive(Debug, Default)]
struct Batch<'a> {
    report_type: ReportType,
    pdr_ids: Vec<PdrId>,
    services: Vec<DownlinkDataServiceInformation>,
    status: Option<DataStatus>,
    remote_f_teids: Vec<FTeid>,
    usage: Vec<adit_pfcp::grouped::UsageReport<'a>>,
}

impl<'a> Batch<'a> {
    /// `events` are the time stamps of the items' events.
    fn new(items: &'a [ReportItem], events: &'a [Vec<EventTimeStamp>], wall: Wall) -> Self {
        let mut batch = Self::default();
        for (item, events) in items.iter().zip(events) {
            match item {
                ReportItem::DownlinkData { pdr, service, status } => {
                    batch.report_type |= ReportType::DLDR;
                    batch.pdr_ids.push(*pdr);
                    batch.services.push(*service);
                    batch.status = *status;
                }
                ReportItem::ErrorIndication { tunnel } => {
                    batch.report_type |= ReportType::ERIR;
                    let GtpuTunnel { teid, addr } = *tunnel;
                    let addr = match addr {
                        IpAddr::V4(addr) => FTeidAddress::V4(addr),
                        IpAddr::V6(addr) => FTeidAddress::V6(addr),
                    };
                    batch.remote_f_teids.push(FTeid::Given { teid, addr });
                }
                ReportItem::Usage(report) => {
                    batch.report_type |= ReportType::USAR;
                    batch.usage.push(usage_report(report, wall, events));
                }
                ReportItem::Inactivity => batch.report_type |= ReportType::UPIR,
            }
        }
        batch
    }

    fn body(&self) -> SessionReportRequest<'_> {
        let mut body = SessionReportRequest::new(self.report_type);
        if self.report_type.contains(ReportType::DLDR) {
            let mut report = DownlinkDataReport::new(self.pdr_ids.as_slice().into());
            let tells = |s: &DownlinkDataServiceInformation| *s != Default::default();
            if self.services.iter().any(tells) {
                report.downlink_data_service_information = self.services.as_slice().into();
            }
            report.data_status = self.status;
            body.downlink_data_report = Some(report);
        }
        if self.report_type.contains(ReportType::ERIR) {
            let tunnels = self.remote_f_teids.as_slice().into();
            body.error_indication_report = Some(ErrorIndicationReport::new(tunnels));
        }
        body.usage_reports = self.usage.as_slice().into();
        body
    }
}

impl Node {
    /// Takes what a worker told. Events that are not about sessions change nothing.
    pub fn handle_event(&mut self, now: Nanos, event: WorkerEvent) {
        self.contained("an event of a worker", |node| node.take_event(now, event));
    }

    fn take_event(&mut self, now: Nanos, event: WorkerEvent) {
        self.fail_if_injected(FaultPoint::Event);
        match event {
            WorkerEvent::DownlinkData { session, pdr, dscp, qfi, delivery } => {
                let service =
                    DownlinkDataServiceInformation { paging_policy_indication: dscp, qfi };
                self.handle_downlink_data(now, session, pdr, service, delivery);
            }
            WorkerEvent::ErrorIndication { peer, teid } => {
                self.report_error_indication(now, GtpuTunnel { teid, addr: peer });
            }
            WorkerEvent::EchoResponse { peer, sequence, recovery, at } => {
                self.handle_echo_response(now, (peer, sequence), recovery, at);
            }
            WorkerEvent::EchoRequest { peer, recovery } => self.hear_recovery(now, peer, recovery),
            WorkerEvent::EchoSent { peer, sequence, at } => {
                let reports = self.path_qos.sent(peer, sequence, at);
                self.report_path_delays(now, reports);
            }
            WorkerEvent::UsageLimit { session, slot, generation } => {
                let outcome = self.store.handle_usage_limit(now, session, slot, generation);
                outcome.into_iter().for_each(|outcome| self.conclude_usage(now, outcome));
            }
            WorkerEvent::TrafficStarted { session, slot, generation, at, pdr } => {
                let started = TrafficStart { slot, generation, at, pdr };
                let outcome = self.store.handle_traffic_started(now, session, started);
                outcome.into_iter().for_each(|outcome| self.conclude_usage(now, outcome));
            }
            WorkerEvent::NeighbourWanted { .. } | WorkerEvent::NeighbourSeen { .. } => {}
            WorkerEvent::EndMarker { session } => {
                let outcome = self.store.handle_end_marker(now, session);
                outcome.into_iter().for_each(|outcome| self.conclude_usage(now, outcome));
            }
        }
    }

    /// Tells the CP function of downlink data once per activation of its FAR, after the delay that
    /// the FAR's BAR asks for. Spec: TS 29.244 §5.2.3.1, §8.2.26, §8.2.28.
    fn handle_downlink_data(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        pdr: PdrId,
        service: DownlinkDataServiceInformation,
        delivery: Option<DataDelivery>,
    ) {
        let Some(session) = self.store.session(up_seid) else {
            self.counters.scalars.reports_of_gone_sessions += 1;
            return;
        };
        let far = wanting_far(session, pdr, delivery);
        let told = far.as_ref().map(|far| Told { far: far.id, pdr, delivery });
        let Some(told) = told.filter(|&told| self.reports.tell(up_seid, told)) else {
            self.counters.scalars.notifications_spared += 1;
            return;
        };
        let notification = Notification { told, service };
        match far.map_or(Nanos(0), |far| notification_delay(session, &far)) {
            Nanos(0) => self.notify(now, up_seid, notification),
            delay => self.reports.delay(now + delay, up_seid, notification),
        }
    }

    /// Reports downlink data, unless nobody wants to know any more.
    fn notify(&mut self, now: Nanos, up_seid: Seid, notification: Notification) {
        let Notification { told: Told { far, pdr, delivery }, service } = notification;
        let session = self.store.session(up_seid);
        let wanting = session.and_then(|session| wanting_far(session, pdr, delivery));
        if wanting.is_none_or(|wanting| wanting.id != far) {
            self.counters.scalars.notifications_spared += 1;
            return;
        }
        let status = delivery.map(|delivery| match delivery {
            DataDelivery::Buffered => DataStatus::BUFF,
            DataDelivery::Discarded => DataStatus::DROP,
        });
        self.report(now, up_seid, ReportItem::DownlinkData { pdr, service, status });
    }

    /// Sends notifications whose delay is over.
    pub(crate) fn send_due_notifications(&mut self, now: Nanos) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some((up_seid, notification)) = self.reports.take_delayed(now) else { return };
            self.notify(now, up_seid, notification);
        }
    }

    /// The next packet of these FARs is told of, whatever was told before.
    pub(crate) fn rearm_notifications(&mut self, up_seid: Seid, fars: &[FarId]) {
        if let Some(told) = self.reports.told.get_mut(&up_seid) {
            told.retain(|told| !fars.contains(&told.far));
        }
    }

    /// Reports the tunnel to every session that sends into it.
    /// Spec: TS 29.244 §5.2.3.4, §7.5.8.4; TS 23.527 §5.3.3.
    fn report_error_indication(&mut self, now: Nanos, tunnel: GtpuTunnel) {
        let users = self.store.tunnel_users(tunnel).take(ERROR_INDICATION_USERS_MAX + 1);
        let mut users: Vec<Seid> = users.map(Session::up_seid).collect();
        if users.is_empty() {
            self.counters.scalars.error_indications_of_no_session += 1;
        }
        if users.len() > ERROR_INDICATION_USERS_MAX {
            users.clear();
            if !self.backlog.reports_tunnel(tunnel) {
                self.start_job(None, Task::ReportTunnel { tunnel, next: SessionIndex(0) });
            }
        }
        for up_seid in users {
            self.report(now, up_seid, ReportItem::ErrorIndication { tunnel });
        }
    }

    /// Reports `item` to the CP function of the session that we named `up_seid`: at once, or after
    /// the report that is in flight. About a session that is gone there is nothing to report.
    pub(crate) fn report(&mut self, now: Nanos, up_seid: Seid, item: ReportItem) {
        self.report_all(now, up_seid, vec![item]);
    }

    /// The same for several items, which leave together where they fit together.
    pub(crate) fn report_all(&mut self, now: Nanos, up_seid: Seid, items: Vec<ReportItem>) {
        if items.is_empty() {
            return;
        }
        let Some(session) = self.store.session(up_seid) else {
            self.counters.scalars.reports_of_gone_sessions += 1;
            return;
        };
        let owner = session.owner();
        self.queue_reports(now, up_seid, owner, items);
    }

    /// The same for a session that may be gone, of the association `owner`.
    pub(crate) fn queue_reports(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        owner: OwnerId,
        items: Vec<ReportItem>,
    ) {
        for item in items {
            if !self.reports.push(up_seid, owner, item) {
                self.counters.scalars.reports_lost_queue_full += 1;
            }
        }
        self.send_reports(now);
    }

    /// Sends what may be sent.
    pub(crate) fn send_reports(&mut self, now: Nanos) {
        while let Some((up_seid, items)) = self.reports.start() {
            let Some(destination) = self.report_destination(up_seid) else {
                self.reports.remove(up_seid);
                continue;
            };
            let Destination { to, cp_seid, owner, former } = destination;
            let wall = self.wall;
            let events: Vec<_> = items.iter().map(|item| item.event_time_stamps(wall)).collect();
            let batch = Batch::new(&items, &events, wall);
            let mut body = batch.body();
            body.old_cp_f_seid = former.map(|cp| FSeid { seid: cp.seid, v4: cp.v4, v6: cp.v6 });
            body.pfcp_sr_req_flags = self.reports.says_goodbye(up_seid);
            let purpose = Purpose::SessionReport { up_seid, owner, items: items.len() };
            match self.send_session_request(now, to, cp_seid, &body, purpose) {
                Some(sequence) => self.reports.sent(up_seid, sequence),
                None => self.reports.finish(up_seid),
            }
        }
    }

    /// Where reports of a session go: to the address of its CP F-SEID of our own family, and to the
    /// association's address without one; where a session went that is gone; or to another SMF of
    /// the set, which knows the session by the CP F-SEID that the former one gave.
    /// Spec: TS 29.244 §5.22, §7.2.2.4.2, §7.5.8.1 (Old CP F-SEID).
    pub(crate) fn report_destination(&self, up_seid: Seid) -> Option<Destination> {
        if let Some(leaving) = self.reports.leaving.get(&up_seid) {
            let Leaving { to, cp_seid, owner, .. } = *leaving;
            return Some(Destination { to, cp_seid, owner, former: None });
        }
        let session: &Session = self.store.session(up_seid)?;
        let owner = session.owner();
        let association = self.associations().find(|association| association.owner == owner)?;
        let cp = session.cp_f_seid();
        let (v4, v6) = (cp.v4.map(IpAddr::V4), cp.v6.map(IpAddr::V6));
        let address = if self.config.address.is_ipv4() { v4 } else { v6 };
        let address = address.unwrap_or(association.address);
        let redirect = self.reports.queues.get(&up_seid).and_then(|queue| queue.redirect);
        let former = self.former_control.get(&session.index()).copied();
        let former = former.or(redirect.map(|_| cp));
        let address = redirect.unwrap_or(address);
        let known = self.association(address).map(|association| association.port);
        let to = SocketAddr::new(address, known.unwrap_or(PFCP_PORT));
        let cp_seid = if former.is_some() { Seid(0) } else { cp.seid };
        Some(Destination { to, cp_seid, owner, former })
    }

    /// Takes the response to a report. Spec: TS 29.244 §7.5.9.
    pub(crate) fn handle_session_report_response(&mut self, response: &Request<'_>) {
        let Ok(message) = SessionReportResponse::decode_body(response.body) else {
            self.counters.scalars.discarded_malformed_response += 1;
            return;
        };
        let expects = |purpose: &Purpose| matches!(purpose, Purpose::SessionReport { .. });
        let sequence = response.header.sequence;
        let purpose = self.transactions.take(response.from, sequence, expects);
        let Some(Purpose::SessionReport { up_seid, .. }) = purpose else {
            self.counters.scalars.discarded_unmatched_response += 1;
            return;
        };
        let is_gone = self.store.session(up_seid).is_none();
        match message.cause {
            cause if cause.is_accepted() && is_gone => {}
            Cause::SessionContextNotFound if !is_gone => {
                self.remove_unknown_session(up_seid);
            }
            Cause::RedirectionRequested if self.follow_redirection(up_seid, &message) => {
                return self.send_reports(response.now);
            }
            cause if cause.is_accepted() => {
                self.follow_control(response, up_seid, &message);
                self.follow_response(response.now, up_seid, &message);
            }
            _ => {
                self.counters.scalars.reports_refused += 1;
                self.follow_flags(response.now, up_seid, &message);
            }
        }
        self.reports.finish(up_seid);
        self.send_reports(response.now);
        self.advance_drains(response.now);
    }

    /// Discards buffered packets if a response that refuses says so: the UE cannot be paged.
    /// Spec: TS 29.244 §8.2.32.
    fn follow_flags(&mut self, now: Nanos, up_seid: Seid, message: &SessionReportResponse<'_>) {
        let flags = message.pfcp_sr_rsp_flags.unwrap_or_default();
        if flags.contains(PfcpSrRspFlags::DROBU)
            && let Ok(modified) = self
                .store
                .modify(up_seid, Change { at: now, drop_buffered: true, ..Change::default() })
            && let Some(delta) = modified.delta
        {
            self.publish(delta);
        }
    }

    /// Does what an accepting response asks for: a changed BAR, buffered packets discarded, another
    /// tunnel towards the CP function. Spec: TS 29.244 §7.5.9.1, §7.5.9.2.
    fn follow_response(&mut self, now: Nanos, up_seid: Seid, message: &SessionReportResponse<'_>) {
        let flags = message.pfcp_sr_rsp_flags.unwrap_or_default();
        let drop_buffered = flags.contains(PfcpSrRspFlags::DROBU);
        let unchanged = Change { at: now, ..Change::default() };
        let mut change = Change { drop_buffered, ..unchanged.clone() };
        let update = message.update_bar.as_ref().map(rule_decode::update_bar_of_report);
        change.update_bars.extend(update);
        let bar = message.update_bar.as_ref();
        change.withdrawals.extend(bar.into_iter().flat_map(withdraw_decode::of_bar));
        if let Some(f_teid) = message.n4u_f_teid {
            change.update_fars = self.fars_towards_cp_function(up_seid, f_teid);
            let applies = !change.update_fars.is_empty();
            self.counters.scalars.report_responses_not_applied += u64::from(!applies);
        }
        if change == unchanged {
            return;
        }
        match self.store.modify(up_seid, change) {
            Ok(modified) => {
                if let Some(delta) = modified.delta {
                    self.publish(delta);
                }
                let bar = message.update_bar.as_ref();
                let limit = bar.and_then(|bar| Some((bar.bar_id, bar.dl_buffering_duration?)));
                if let Some((bar, duration)) = limit {
                    self.limit_buffering(now, up_seid, bar, duration);
                }
            }
            Err(_) => self.counters.scalars.report_responses_not_applied += 1,
        }
    }

    /// The CP function does not know the session: it goes. Spec: TS 29.244 §6.3.5.
    fn remove_unknown_session(&mut self, up_seid: Seid) {
        if self.end_locally(up_seid).is_some() {
            self.counters.scalars.sessions_removed_unknown_to_peer += 1;
        }
    }

    /// Takes notice that a report stayed without a response.
    pub(crate) fn lose_report(&mut self, now: Nanos, up_seid: Seid, items: usize) {
        self.counters.scalars.reports_lost_no_response += as_count(items);
        // Whoever missed the report is told again when more data comes.
        self.reports.told.remove(&up_seid);
        self.reports.finish(up_seid);
        self.send_reports(now);
        self.advance_drains(now);
    }

    /// Gives up the reports of a session that ends.
    pub(crate) fn forget_reports_of(&mut self, up_seid: Seid) {
        if let Some(sequence) = self.reports.remove(up_seid) {
            self.transactions.close(sequence);
        }
    }

    /// Gives up the reports of an association that ends.
    pub(crate) fn forget_reports_of_owner(&mut self, owner: OwnerId) {
        let lost = self.reports.forget(owner);
        self.counters.scalars.usage_reports_lost_with_association += as_count(lost);
        self.transactions.cancel(|purpose| purpose.is_report_of(owner));
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
    fn waiting_items_of_a_session_are_bounded_and_equal_ones_merged() {
        let mut reports = Reports::default();
        let max = u16::try_from(REPORT_ITEMS_PER_SESSION_MAX).unwrap();
        for pdr in 0..max {
            assert!(reports.push(Seid(1), OwnerId(1), item(pdr)));
        }
        assert!(reports.push(Seid(1), OwnerId(1), item(0)), "waits already");
        assert!(!reports.push(Seid(1), OwnerId(1), item(max)));
        assert!(reports.push(Seid(2), OwnerId(1), item(max)), "another session has room");
        assert_eq!(reports.waiting_count, REPORT_ITEMS_PER_SESSION_MAX + 1);
    }

    #[test]
    fn requests_in_flight_are_bounded_and_the_next_session_gets_the_room() {
        let mut reports = Reports::default();
        let max = u64::try_from(REPORTS_IN_FLIGHT_MAX).unwrap();
        for seid in 0..=max {
            assert!(reports.push(Seid(seid), OwnerId(1), item(1)));
        }
        let started = core::iter::from_fn(|| reports.start()).count();
        assert_eq!(started, REPORTS_IN_FLIGHT_MAX);
        reports.finish(Seid(0));
        assert_eq!(reports.start().map(|(seid, _)| seid), Some(Seid(max)));
        reports.forget(OwnerId(1));
        assert_eq!((reports.in_flight_count, reports.waiting_count), (0, 0));
        assert!(reports.queues.is_empty());
    }
}
