//! Reports the last usage of sessions that this node ends, or that does not fit into the last
//! answer.
//!
//! A session is deleted first. When no worker runs it any more, its last usage is read and sent in
//! Session Report Requests; if this node ended the session, the report states that. Reports without
//! usage are not sent. Spec: TS 29.244 §5.2.2.3.1, §5.18.

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
    /// Returns what is needed to report the last usage of a session that is about to end; `None` if
    /// its CP function does not support that.
    pub(crate) fn ended_session(&self, up_seid: Seid, by_us: bool) -> Option<EndedSession> {
        let ended = self.reporting_session(up_seid)?;
        let feature = if by_us { CpFunctionFeatures::EPFAR } else { CpFunctionFeatures::ARDR };
        self.peers.cp_function_has(ended.owner, feature).then_some(())?;
        Some(EndedSession { by_us, is_read: false, ..ended })
    }

    /// Returns what is needed to finish the report that is in flight for a session about to end.
    pub(crate) fn reporting_session(&self, up_seid: Seid) -> Option<EndedSession> {
        let ReportDestination { to, cp_seid, owner, .. } = self.report_destination(up_seid)?;
        Some(EndedSession { to, cp_seid, owner, by_us: false, is_read: true })
    }

    /// Deletes a session by this node's decision. Its last usage is reported if the CP function
    /// supports such reports (EPFAR), and lost otherwise. `None` if there is no such session.
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

    /// Sends the last usage of a session that we ended in session reports. Call it when no worker
    /// runs the session any more.
    pub(crate) fn report_last_usage(&mut self, now: Nanos, up_seid: Seid, usage: Vec<UsageReport>) {
        let Some(owner) = self.sessions.states.set_last_usage_read(up_seid) else {
            self.counters.scalars.usage_reports_lost_with_association += as_count(usage.len());
            return;
        };
        let last = usage.into_iter().filter(UsageReport::has_usage).map(mark_ended_by_us);
        self.queue_reports(now, up_seid, owner, last.map(ReportItem::Usage).collect());
        self.sessions.states.forget_if_reported(up_seid);
        self.advance_drains(now);
    }

    /// Sends usage that did not fit into the answer to a deletion in session reports.
    pub(crate) fn report_overflow_usage(
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

/// Marks a last report as that of a session which this node ended. Spec: TS 29.244 §8.2.41 (TEBUR).
fn mark_ended_by_us(mut report: UsageReport) -> UsageReport {
    if report.triggers.contains(UsageTriggers::TERMINATION) {
        report.triggers.remove(UsageTriggers::TERMINATION);
        report.triggers.insert(UsageTriggers::TERMINATION_BY_UP);
    }
    report
}
