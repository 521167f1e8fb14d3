//! Advances measurements when their time comes and at events of workers.

use std::sync::Arc;

use adit_rules::{RuleDelta, UsageSource};
use adit_types::{Nanos, Seid, SessionIndex, UsageSlot};

use crate::record::UsageTriggers;
use crate::session::{OpenSession, Session};
use crate::store::{RetiredResources, SessionStore};
use crate::update::compile;
use crate::usage::{
    EndedMeasurement, Measurement, RunningUsage, TrafficStart, UsageOutcome, UsageReport,
    UsageSourceHandle, activation, advance_activity, advance_urrs,
};

impl SessionStore {
    /// Sets the source of the counters that workers write. Until then every URR measures zero.
    pub fn set_usage_source(&mut self, source: Arc<dyn UsageSource>) {
        self.usage = UsageSourceHandle(source);
    }

    /// Handles the event of a worker that counters reached a limit.
    pub fn handle_usage_limit(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        slot: UsageSlot,
        generation: u32,
    ) -> Option<UsageOutcome> {
        let session = self.session(up_seid)?.open();
        // A limit of an older generation was handled, or the current generation reaches it too.
        let is_current = |m: &Measurement| m.slot == slot && m.generation == generation;
        session.usage.measures.iter().any(is_current).then_some(())?;
        self.advance(now, session, None)
    }

    /// Handles the event of a worker that the first packet of a generation arrived.
    pub fn handle_traffic_started(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        started: TrafficStart,
    ) -> Option<UsageOutcome> {
        let session = self.session(up_seid)?.open();
        self.advance(now, session, Some(started))
    }

    /// Handles an End Marker that arrived in a tunnel of the session. Spec: TS 29.244 §8.2.19
    /// (REEMR).
    pub fn handle_end_marker(&mut self, now: Nanos, session: SessionIndex) -> Option<UsageOutcome> {
        let source = Arc::clone(&self.usage.0);
        let session = self.session_at_mut(session)?;
        let OpenSession { up_seid, records, mut usage, buffer_epoch, .. } = session.open();
        let mut due: Vec<UsageTriggers> =
            records.urrs.iter().map(|urr| urr.triggers & UsageTriggers::END_MARKER).collect();
        let reports = usage.report(&records.urrs, &mut due, &*source, now);
        session.write_back(&records, &usage, buffer_epoch);
        let outcome = UsageOutcome { up_seid, reports, inactive: false, delta: None };
        (!outcome.reports.is_empty()).then_some(outcome)
    }

    /// Processes one session whose deadline is not after `now`. Call it until it returns `None`.
    pub fn poll_usage(&mut self, now: Nanos) -> Option<UsageOutcome> {
        loop {
            let session = self.deadlines.take_due(now)?;
            let session = self.session_at(session).map(Session::open);
            if let Some(outcome) = session.and_then(|session| self.advance(now, session, None)) {
                return Some(outcome);
            }
        }
    }

    /// Returns when to call [`SessionStore::poll_usage`] next; `None` if no session has a deadline.
    #[must_use]
    pub fn usage_timeout(&self) -> Option<Nanos> {
        self.deadlines.next()
    }

    /// Returns the last usage of the URRs that the oldest unreclaimed delta of `session` removed.
    /// Call it once all workers run this delta, and before [`SessionStore::reclaim`] for it.
    pub fn final_reports(&mut self, now: Nanos, session: SessionIndex) -> Vec<UsageReport> {
        let mut reports = Vec::new();
        let retired = self.retired.get_mut(&session).and_then(|queue| queue.front_mut());
        for EndedMeasurement { urr, measure } in
            retired.into_iter().flat_map(|retired| &mut retired.usage)
        {
            let source = &*self.usage.0;
            let reading = measure.read(source, now);
            measure.report(urr, reading, UsageTriggers::TERMINATION, &mut reports);
        }
        reports
    }

    /// Returns the running measurements of a session, in the order of its URRs.
    #[must_use]
    pub fn running_usage(&self, session: &Session) -> Vec<RunningUsage> {
        let so_far = |measure: &Measurement| {
            let (volume, stopped) = measure.running_volume(&*self.usage.0);
            RunningUsage { urr: measure.id, volume, stopped }
        };
        let OpenSession { records, usage, .. } = session.open();
        records.urrs.iter().filter_map(|urr| usage.measure(urr.id)).map(so_far).collect()
    }

    /// Processes due events of `session`; `None` if nothing is to be reported or changed in
    /// workers. Computes everything before the store is changed.
    fn advance(
        &mut self,
        now: Nanos,
        session: OpenSession,
        started: Option<TrafficStart>,
    ) -> Option<UsageOutcome> {
        let source = Arc::clone(&self.usage.0);
        let identity = session.identity(&self.packet_rates);
        let OpenSession { up_seid, index, records, mut usage, buffer_epoch, .. } = session;
        let activated = activation::with_active_pdrs(&records, now);
        let is_activated = activated.is_some();
        let records = &activated.unwrap_or(records);
        let before = usage.entries(records);
        let inactive = advance_activity(&mut usage, records, &*source, now, started);
        let mut due = advance_urrs(&mut usage, records, &*source, now, started);
        if inactive {
            for (due, urr) in due.iter_mut().zip(&records.urrs) {
                *due |= UsageTriggers::INACTIVITY & urr.triggers;
            }
        }
        let reports = usage.report(&records.urrs, &mut due, &*source, now);
        let mut generation = self.generation;
        let is_changed = usage.renew(records, &before, &mut generation);
        let rules = (is_changed || is_activated)
            .then(|| Box::new(compile(self.catalog(), identity, records, &usage)));
        let deadline = usage.deadline(records, &*source, now);
        self.generation = generation;
        self.deadlines.set(index, deadline);
        let session = self.session_at_mut(index)?;
        session.write_back(records, &usage, buffer_epoch);
        let delta = rules.map(|rules| {
            self.retired.entry(index).or_default().push_back(RetiredResources::default());
            RuleDelta { session: index, keys: Vec::new(), rules: Some(rules) }
        });
        let is_news = inactive || delta.is_some() || !reports.is_empty();
        is_news.then_some(UsageOutcome { up_seid, reports, inactive, delta })
    }
}
