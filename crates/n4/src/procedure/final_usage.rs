//! The last usage of sessions that end by our decision, or whose last answer has no room for it.
//!
//! A session is deleted first; its last usage is read when no worker runs it any more, and leaves
//! in Session Report Requests, of which the last one of a session that we ended says so. Reports
//! without usage are not sent. Spec: TS 29.244 §5.2.2.3.1, §5.18.

use adit_pfcp::ie::CpFunctionFeatures;
use adit_rules::DeltaId;
use adit_session::{UsageReport, UsageTriggers};
use adit_types::{Nanos, Seid};

use crate::counters::as_count;
use crate::node::Node;
use crate::procedure::report_destination::ReportDestination;
use crate::session_state::{EndedSession, RemainingReports, ReportItem};
use crate::sessions::FollowUp;

impl Node {
    /// A session that is about to end, if its CP function accepts its last usage.
    pub(crate) fn ended_session(&self, up_seid: Seid, by_us: bool) -> Option<EndedSession> {
        let ended = self.reporting_session(up_seid)?;
        let feature = if by_us { CpFunctionFeatures::EPFAR } else { CpFunctionFeatures::ARDR };
        self.peers.cp_function_has(ended.owner, feature).then_some(())?;
        Some(EndedSession { by_us, is_read: false, ..ended })
    }

    /// A session that is about to end, for the report that is in flight.
    pub(crate) fn reporting_session(&self, up_seid: Seid) -> Option<EndedSession> {
        let ReportDestination { to, cp_seid, owner, .. } = self.report_destination(up_seid)?;
        Some(EndedSession { to, cp_seid, owner, by_us: false, is_read: true })
    }

    /// Deletes a session by this node's decision; its last usage is reported if the CP function
    /// takes such reports (EPFAR), and lost if not. `None` when there is no such session.
    pub(crate) fn end_locally(&mut self, up_seid: Seid) -> Option<DeltaId> {
        if let Some(ended) = self.apply_disposition(up_seid) {
            return Some(ended);
        }
        let ended = self.ended_session(up_seid, true);
        let remaining = match ended {
            Some(ended) => RemainingReports::Deliver(ended),
            None => RemainingReports::KeepUsageInFlight(self.reporting_session(up_seid)),
        };
        let deleted = self.sessions.delete(up_seid, remaining)?;
        let change = self.forget_discarded(deleted);
        if let Some(pending) = self.sessions.pending_mut(change).filter(|_| ended.is_some()) {
            pending.follow_up = FollowUp::ReportLastUsage;
        }
        Some(change)
    }

    /// Sends the last usage of a session that we ended, in session reports: no worker runs it any
    /// more.
    pub(crate) fn report_last_usage(&mut self, now: Nanos, up_seid: Seid, usage: Vec<UsageReport>) {
        let Some(owner) = self.sessions.states.set_last_usage_read(up_seid) else {
            self.counters.scalars.usage_reports_lost_with_association += as_count(usage.len());
            return;
        };
        let last = usage.into_iter().filter(UsageReport::has_usage).map(ended_by_us);
        self.queue_reports(now, up_seid, owner, last.map(ReportItem::Usage).collect());
        self.sessions.states.forget_if_reported(up_seid);
        self.advance_drains(now);
    }

    /// Sends usage that had no room in the answer to a deletion, in session reports.
    pub(crate) fn report_rest(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        leaving: EndedSession,
        rest: Vec<UsageReport>,
    ) {
        self.sessions.states.add_ended(up_seid, EndedSession { is_read: true, ..leaving });
        let items = rest.into_iter().map(ReportItem::Usage).collect();
        self.queue_reports(now, up_seid, leaving.owner, items);
        self.sessions.states.forget_if_reported(up_seid);
    }
}

/// The last report of a session that ended by our decision. Spec: TS 29.244 §8.2.41 (TEBUR).
fn ended_by_us(mut report: UsageReport) -> UsageReport {
    if report.triggers.contains(UsageTriggers::TERMINATION) {
        report.triggers.remove(UsageTriggers::TERMINATION);
        report.triggers.insert(UsageTriggers::TERMINATION_BY_UP);
    }
    report
}
