//! Session reports, from a session to the CP function that controls it.
//!
//! Each session has at most one Session Report Request in flight. Events meanwhile wait in a
//! bounded queue, and are sent together in the next request. An item equal to a waiting one is
//! merged into it. If the CP function refuses a report or does not answer, a pause follows that
//! grows with each failure. Then usage is sent again unchanged; other events are reported when they
//! happen again. To add a kind of report, add a [`ReportItem`] and encode it in
//! [`SessionReportGroups`]. Spec: TS 29.244 §5.2.3, §6.3.5, §7.5.8, §7.5.9.

mod response;

use core::net::IpAddr;

use adit_pfcp::grouped::{DownlinkDataReport, ErrorIndicationReport};
use adit_pfcp::ie::{
    DataStatus, DownlinkDataServiceInformation, EventTimeStamp, FSeid, FTeid, FTeidAddress,
    ReportType,
};
use adit_pfcp::message::SessionReportRequest;
use adit_rules::{ApplyAction, DataDelivery, GtpuTunnel, WorkerEvent};
use adit_session::{Far, OwnerId, Records, Session, TrafficStart};
use adit_types::limits::{
    ERROR_INDICATION_USERS_MAX, REPORT_ATTEMPTS_OF_ENDED_SESSION_MAX, TIMERS_PER_TURN_MAX,
};
use adit_types::{FarId, Nanos, PdrId, Seid, SessionIndex};

use crate::backlog::JobTask;
use crate::containment::FaultPoint;
use crate::counters::as_count;
use crate::node::Node;
use crate::ntp::NtpClock;
use crate::procedure::paths::EchoResponse;
use crate::procedure::report_destination::{ReportDestination, ReportingSession};
use crate::procedure::usage::{event_time_stamps, usage_report};
use crate::session_state::{DownlinkDataNotice, EndedSession, NotificationIdentity, ReportItem};
use crate::transaction::{OutgoingRequest, RequestPurpose};

fn item_time_stamps(item: &ReportItem, ntp_clock: NtpClock) -> Vec<EventTimeStamp> {
    match item {
        ReportItem::Usage(report) => event_time_stamps(report, ntp_clock),
        _ => Vec::new(),
    }
}

/// A downlink packet that its FAR does not forward, and what happened to it.
struct DownlinkPacket {
    pdr: PdrId,
    service: DownlinkDataServiceInformation,
    delivery: Option<DataDelivery>,
}

/// Returns the FAR of `pdr` if it requests notifications of such packets. Spec: TS 29.244 §8.2.26.
fn far_to_notify_for(session: &Session, pdr: PdrId, delivery: Option<DataDelivery>) -> Option<Far> {
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

/// The lists that the grouped IEs of one Session Report Request borrow from.
#[derive(Debug, Default)]
struct SessionReportGroups<'a> {
    report_type: ReportType,
    pdr_ids: Vec<PdrId>,
    services: Vec<DownlinkDataServiceInformation>,
    status: Option<DataStatus>,
    remote_f_teids: Vec<FTeid>,
    usage: Vec<adit_pfcp::grouped::UsageReport<'a>>,
}

impl<'a> SessionReportGroups<'a> {
    /// `events`: for each item, the time stamps of its events.
    fn new(
        items: &'a [ReportItem],
        events: &'a [Vec<EventTimeStamp>],
        ntp_clock: NtpClock,
    ) -> Self {
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
                    batch.usage.push(usage_report(report, ntp_clock, events));
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
    /// Processes an event of a worker. Ignores events that do not concern sessions.
    pub fn handle_event(&mut self, now: Nanos, event: WorkerEvent) {
        if self.is_following() {
            // Only the active node has packets of the sessions.
            return;
        }
        self.run_contained("an event of a worker", |node| node.dispatch_event(now, event));
    }

    fn dispatch_event(&mut self, now: Nanos, event: WorkerEvent) {
        self.fail_if_injected(FaultPoint::Event);
        match event {
            WorkerEvent::DownlinkData { session, pdr, dscp, qfi, delivery } => {
                let service =
                    DownlinkDataServiceInformation { paging_policy_indication: dscp, qfi };
                self.handle_downlink_data(now, session, DownlinkPacket { pdr, service, delivery });
            }
            WorkerEvent::ErrorIndication { peer, teid } => {
                self.report_error_indication(now, GtpuTunnel { teid, addr: peer });
            }
            WorkerEvent::PathNarrowed { peer, teid, router, mtu_bytes } => {
                self.narrow_path(now, GtpuTunnel { teid, addr: peer }, router, mtu_bytes);
            }
            WorkerEvent::EchoResponse { peer, sequence, recovery, at } => {
                let response = EchoResponse { peer, sequence, started: recovery, at };
                self.handle_echo_response(now, response);
            }
            WorkerEvent::EchoRequest { peer, recovery } => {
                self.on_unsolicited_recovery(now, peer, recovery)
            }
            WorkerEvent::EchoSent { peer, sequence, at } => {
                let reports = self.path_qos.sent(peer, sequence, at);
                self.report_path_delays(now, reports);
            }
            WorkerEvent::UsageLimit { session, slot, generation } => {
                let outcome = self.sessions.on_usage_limit(now, session, slot, generation);
                outcome.into_iter().for_each(|outcome| self.apply_usage_outcome(now, outcome));
            }
            WorkerEvent::TrafficStarted { session, slot, generation, at, pdr } => {
                let started = TrafficStart { slot, generation, at, pdr };
                let outcome = self.sessions.on_traffic_started(now, session, started);
                outcome.into_iter().for_each(|outcome| self.apply_usage_outcome(now, outcome));
            }
            WorkerEvent::NeighborUnresolved { .. }
            | WorkerEvent::NeighborLearned { .. }
            | WorkerEvent::OwnAddressUsed { .. } => {}
            WorkerEvent::EndMarker { session } => {
                let outcome = self.sessions.on_end_marker(now, session);
                outcome.into_iter().for_each(|outcome| self.apply_usage_outcome(now, outcome));
            }
        }
    }

    /// Notifies the CP function of downlink data once per activation of its FAR, after the delay
    /// that the FAR's BAR sets. Spec: TS 29.244 §5.2.3.1, §8.2.26, §8.2.28.
    fn handle_downlink_data(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        DownlinkPacket { pdr, service, delivery }: DownlinkPacket,
    ) {
        let Some(session) = self.sessions.store().session(up_seid) else {
            self.counters.scalars.reports_of_gone_sessions += 1;
            return;
        };
        let Some(far) = far_to_notify_for(session, pdr, delivery) else {
            self.counters.scalars.notifications_spared += 1;
            return;
        };
        let delay = notification_delay(session, &far);
        let data = NotificationIdentity { far: far.id, pdr, delivery };
        let notice = DownlinkDataNotice { data, service };
        if !self.sessions.states.note_notified(up_seid, notice) {
            self.counters.scalars.notifications_spared += 1;
            return;
        }
        match delay {
            Nanos(0) => self.notify(now, up_seid, notice),
            delay => self.sessions.states.delay_notice(now + delay, up_seid, notice),
        }
    }

    /// Sends a Downlink Data Report, unless the FAR does not request it any more.
    fn notify(&mut self, now: Nanos, up_seid: Seid, notification: DownlinkDataNotice) {
        let DownlinkDataNotice { data: NotificationIdentity { far, pdr, delivery }, service } =
            notification;
        let session = self.sessions.store().session(up_seid);
        let wanting = session.and_then(|session| far_to_notify_for(session, pdr, delivery));
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

    /// Sends the notifications whose delay has passed.
    pub(crate) fn send_due_notifications(&mut self, now: Nanos) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some((up_seid, notification)) = self.sessions.states.take_delayed_notice(now)
            else {
                return;
            };
            self.notify(now, up_seid, notification);
        }
    }

    /// Forgets that downlink data of these FARs was reported, so that their next packet is
    /// reported. Returns the forgotten reports.
    pub(crate) fn rearm_notifications(
        &mut self,
        up_seid: Seid,
        fars: &[FarId],
    ) -> Vec<DownlinkDataNotice> {
        self.sessions.states.take_notified(up_seid, Some(fars))
    }

    /// Reports downlink data again that is still buffered, since an update of the session requests
    /// that.
    pub(crate) fn repeat_notifications(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        notices: Vec<DownlinkDataNotice>,
    ) {
        for notice in notices {
            let NotificationIdentity { far, pdr, delivery } = notice.data;
            let Some(session) = self.sessions.store().session(up_seid) else { return };
            let asking = far_to_notify_for(session, pdr, delivery)
                .filter(|asking| asking.id == far && asking.action.contains(ApplyAction::BUFF));
            let Some(asking) = asking else { continue };
            let at = now + notification_delay(session, &asking);
            if delivery != Some(DataDelivery::Discarded)
                && self.sessions.states.note_notified(up_seid, notice)
            {
                // Delayed even by zero, so that it is sent after the answer to the update.
                self.sessions.states.delay_notice(at, up_seid, notice);
            }
        }
    }

    /// Sends an Error Indication Report for every session that sends into the tunnel. Spec: TS
    /// 29.244 §5.2.3.4, §7.5.8.4; TS 23.527 §5.3.3.
    fn report_error_indication(&mut self, now: Nanos, tunnel: GtpuTunnel) {
        let users = self.sessions.store().tunnel_users(tunnel).take(ERROR_INDICATION_USERS_MAX + 1);
        let mut users: Vec<Seid> = users.map(Session::up_seid).collect();
        if users.is_empty() {
            self.counters.scalars.error_indications_of_no_session += 1;
        }
        if users.len() > ERROR_INDICATION_USERS_MAX {
            users.clear();
            if !self.backlog.is_reporting_tunnel(tunnel) {
                self.start_job(None, JobTask::ReportTunnel { tunnel, next: SessionIndex(0) });
            }
        }
        for up_seid in users {
            self.report(now, up_seid, ReportItem::ErrorIndication { tunnel });
        }
    }

    /// Reports `item` to the CP function of the session with our SEID `up_seid`: at once, or after
    /// the request that is in flight. For a session that is gone it only counts the item.
    pub(crate) fn report(&mut self, now: Nanos, up_seid: Seid, item: ReportItem) {
        self.report_all(now, up_seid, vec![item]);
    }

    /// Does the same as [`Self::report`] for several items, which are sent in one request if they
    /// fit.
    pub(crate) fn report_all(&mut self, now: Nanos, up_seid: Seid, items: Vec<ReportItem>) {
        if items.is_empty() {
            return;
        }
        let Some(session) = self.sessions.store().session(up_seid) else {
            self.counters.scalars.reports_of_gone_sessions += 1;
            return;
        };
        let owner = session.owner();
        self.queue_reports(now, up_seid, owner, items);
    }

    /// Does the same as [`Self::report_all`] for a session of the association `owner` that may be
    /// gone.
    pub(crate) fn queue_reports(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        owner: OwnerId,
        items: Vec<ReportItem>,
    ) {
        if !self.has_control_plane(owner) {
            let usage = items.iter().filter(|item| matches!(item, ReportItem::Usage(_))).count();
            self.counters.scalars.usage_reports_lost_with_association += as_count(usage);
            return;
        }
        for item in items {
            if !self.sessions.states.push_report(up_seid, owner, item) {
                self.counters.scalars.reports_lost_queue_full += 1;
            }
        }
        self.send_reports(now);
    }

    /// Sends the reports that may be sent in this iteration.
    pub(crate) fn send_reports(&mut self, now: Nanos) {
        while let Some((up_seid, items)) = self.sessions.states.start_report() {
            // If the session is to move, its reports go to the new CP function.
            self.apply_disposition(up_seid);
            if !self.sessions.states.is_reporting(up_seid) {
                continue;
            }
            let Some(destination) = self.report_destination(up_seid) else {
                self.discard_reports(up_seid);
                continue;
            };
            let ReportDestination { to, cp_seid, owner, former } = destination;
            if self.peers.is_silent(owner) {
                self.sessions.states.hold_report(up_seid, owner);
                continue;
            }
            let ntp_clock = self.ntp_clock;
            let events: Vec<_> =
                items.iter().map(|item| item_time_stamps(item, ntp_clock)).collect();
            let batch = SessionReportGroups::new(&items, &events, ntp_clock);
            let mut body = batch.body();
            body.old_cp_f_seid = former.map(|cp| FSeid { seid: cp.seid, v4: cp.v4, v6: cp.v6 });
            body.pfcp_sr_req_flags = self.sessions.states.report_flags(up_seid);
            let purpose = RequestPurpose::SessionReport { up_seid, owner, items: items.len() };
            let (seid, timers) = (Some(cp_seid), self.config.retransmission());
            match self.send_own(now, OutgoingRequest { to, seid, purpose, timers }, &body) {
                Some(sequence) => self.sessions.states.set_report_sequence(up_seid, sequence),
                None => self.sessions.states.finish_report(up_seid),
            }
        }
    }

    /// Returns where reports of a session go: to the address of our own family in its CP F-SEID, or
    /// without one to the association's address; to the new owner if the session moved; or to
    /// another SMF of the set, which gets the CP F-SEID that the previous SMF assigned. Spec: TS
    /// 29.244 §5.22, §7.2.2.4.2, §7.5.8.1 (Old CP F-SEID).
    pub(crate) fn report_destination(&self, up_seid: Seid) -> Option<ReportDestination> {
        if let Some(leaving) = self.sessions.states.ended(up_seid) {
            let EndedSession { to, cp_seid, owner, .. } = *leaving;
            return Some(ReportDestination { to, cp_seid, owner, former: None });
        }
        let session: &Session = self.sessions.store().session(up_seid)?;
        let session = ReportingSession { up_seid, owner: session.owner(), cp: session.cp_f_seid() };
        session.destination(&self.config, &self.peers, &self.sessions.states)
    }

    /// Notes that a report was not answered.
    pub(crate) fn on_report_lost(&mut self, now: Nanos, up_seid: Seid, items: usize) {
        // If the session is to move, its reports move with it.
        self.apply_disposition(up_seid);
        if !self.sessions.states.is_reporting(up_seid) {
            return self.send_reports(now);
        }
        self.counters.scalars.reports_lost_no_response += as_count(items);
        self.on_report_not_delivered(now, up_seid, REPORT_ATTEMPTS_OF_ENDED_SESSION_MAX);
        self.send_reports(now);
        self.advance_drains(now);
    }

    /// Notes that a report was refused or not answered. `attempts`: how often a report of a deleted
    /// session is tried, at most.
    pub(crate) fn on_report_not_delivered(&mut self, now: Nanos, up_seid: Seid, attempts: u32) {
        let ended = self.sessions.states.ended(up_seid);
        // A release of the association does not wait for pauses.
        let is_draining = ended.is_some_and(|ended| self.drains.contains_key(&ended.owner));
        let attempts = if is_draining { 1 } else { attempts };
        let given_up = self.sessions.states.fail_report(now, up_seid, attempts);
        self.counters.scalars.usage_reports_given_up += as_count(given_up);
    }

    /// Does the work of one iteration for session reports: ends pauses, and sends what may be sent.
    pub(crate) fn send_due_reports(&mut self, now: Nanos) {
        self.sessions.states.end_report_pauses(now);
        self.send_reports(now);
    }
}
