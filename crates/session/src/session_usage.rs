//! All measurements of one session, and the doors of the store through which time and workers'
//! events reach them.

use std::sync::Arc;

use adit_rules::{
    NoUsage, POOL_WEIGHT_ONE, PoolMembers, RuleDelta, UrrEntry, UsageLimits, UsageSource,
};
use adit_types::{Nanos, PdrId, Seid, SessionIndex, UrrId, UsageSlot};

use crate::activation;
use crate::change::UrrPart;
use crate::pack::packed;
use crate::record::{Records, Urr, UrrUpdate, UsageTriggers};
use crate::session::{OpenSession, Session};
use crate::store::{RetiredResources, SessionStore};
use crate::update::{Resolved, compile};
use crate::usage::{Measurement, UsageReport, UsageVolume};

/// Where counters are read. Takes no part in comparisons of stores.
#[derive(Debug, Clone)]
pub(crate) struct UsageHandle(pub Arc<dyn UsageSource>);

impl Default for UsageHandle {
    fn default() -> Self {
        Self(Arc::new(NoUsage))
    }
}

impl PartialEq for UsageHandle {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a change does to measurements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UsageChange {
    /// When.
    pub at: Nanos,
    pub removed: Vec<UrrId>,
    pub updated: Vec<UrrUpdate>,
    /// Parts that URRs have no more.
    pub withdrawn: Vec<(UrrId, UrrPart)>,
    /// URRs to report at once.
    pub queried: Vec<UrrId>,
    /// What reports of them carry.
    pub query_reference: Option<u32>,
}

/// The user plane inactivity timer: usage of all PDRs together, of which only the last packet
/// counts. Spec: TS 29.244 §8.2.83.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InactivityTimer {
    slot: UsageSlot,
    generation: u32,
    since: Nanos,
    /// Inactivity was reported; the next packet starts the timer again.
    reported: bool,
}

impl InactivityTimer {
    fn deadline(&self, source: &dyn UsageSource, timer: Nanos) -> Option<Nanos> {
        let last = source.usage(self.slot, self.generation).last;
        (!self.reported).then(|| last.map_or(self.since, |last| last.max(self.since)) + timer)
    }
}

/// The measurements of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SessionUsage {
    measures: Vec<Measurement>,
    activity: Option<InactivityTimer>,
}

/// A URR that ended, with its measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedMeasurement {
    urr: Urr,
    measure: Measurement,
}

/// The first packet of a URR's generation, or of the inactivity timer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficStart {
    /// The counters.
    pub slot: UsageSlot,
    /// The generation of their entry.
    pub generation: u32,
    /// When the packet came.
    pub at: Nanos,
    /// The PDR that it matched.
    pub pdr: PdrId,
}

/// What an event or the passage of time led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageOutcome {
    /// Our SEID of the session.
    pub up_seid: Seid,
    /// What to report to the control plane.
    pub reports: Vec<UsageReport>,
    /// No packet came for the time of the user plane inactivity timer.
    pub inactive: bool,
    /// What to publish; owed one [`SessionStore::reclaim`].
    pub delta: Option<RuleDelta>,
}

/// The running measurement of one URR, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningUsage {
    /// The URR.
    pub urr: UrrId,
    /// Volume since the last report.
    pub volume: UsageVolume,
    /// A quota stops packets.
    pub stopped: bool,
}

packed!(InactivityTimer { slot, generation, since, reported });
packed!(SessionUsage { measures, activity });

impl SessionUsage {
    fn measure(&self, id: UrrId) -> Option<&Measurement> {
        self.measures.iter().find(|measure| measure.id == id)
    }

    /// Workers' entries of all URRs in the order of the records, and then of the inactivity timer,
    /// without what they exempt.
    pub fn entries(&self, records: &Records) -> Vec<UrrEntry> {
        let far = |urr: &Urr| {
            let id = urr.settings.quota_far?;
            let at = records.fars.iter().position(|far| far.id == id)?;
            u16::try_from(at).ok()
        };
        let measured = records.urrs.iter().map(|urr| {
            let Some(measure) = self.measure(urr.id) else {
                unreachable!("every URR has a measurement once its change is committed")
            };
            UrrEntry { pool: pool_of(records, urr.id), ..measure.entry(urr, far(urr)) }
        });
        measured.chain(self.activity.map(|activity| activity.entry())).collect()
    }

    pub const fn has_activity(&self) -> bool {
        self.activity.is_some()
    }

    /// Makes a report of every URR named in `due`, and of URRs linked to them.
    fn report(
        &mut self,
        urrs: &[Urr],
        due: &mut [UsageTriggers],
        source: &dyn UsageSource,
        now: Nanos,
    ) -> Vec<UsageReport> {
        let reported = |due: &[UsageTriggers], id: &UrrId| {
            let notices = UsageTriggers::NOTICES;
            urrs.iter().zip(due).any(|(urr, due)| urr.id == *id && !(*due & !notices).is_empty())
        };
        let linked: Vec<bool> = urrs
            .iter()
            .map(|urr| {
                let links = urr.settings.linked.as_deref().unwrap_or_default();
                urr.triggers.contains(UsageTriggers::LINKED)
                    && links.iter().any(|id| reported(due, id))
            })
            .collect();
        for (due, linked) in due.iter_mut().zip(linked) {
            if due.is_empty() && linked {
                *due = UsageTriggers::LINKED;
            }
        }
        let mut reports = Vec::new();
        for (urr, due) in urrs.iter().zip(due).filter(|(_, due)| !due.is_empty()) {
            let measure = self.measures.iter_mut().find(|measure| measure.id == urr.id);
            if let Some(measure) = measure {
                measure.report(urr, source, now, *due, &mut reports);
            }
        }
        reports
    }
}

impl InactivityTimer {
    fn entry(&self) -> UrrEntry {
        UrrEntry {
            id: UrrId(0),
            slot: self.slot,
            generation: self.generation,
            report: UsageLimits::NONE,
            quota: UsageLimits::NONE,
            report_dropped: (u64::MAX, u64::MAX),
            stopped: false,
            quota_far: None,
            exempt: Vec::new(),
            pool: None,
            members: PoolMembers::default(),
            report_start: self.reported,
            before_qos: false,
        }
    }
}

/// Where the credit pool of a URR stands.
fn pool_of(records: &Records, id: UrrId) -> Option<u16> {
    let has = |pool: &Urr| {
        pool.settings.aggregated.as_deref().is_some_and(|of| of.iter().any(|of| of.urr == id))
    };
    u16::try_from(records.urrs.iter().position(has)?).ok()
}

/// Doors for usage.
impl SessionStore {
    /// Names the counters that workers write. Without it every URR measures nothing.
    pub fn set_usage_source(&mut self, source: Arc<dyn UsageSource>) {
        self.usage = UsageHandle(source);
    }

    /// Takes notice that a worker found a limit reached.
    pub fn handle_usage_limit(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        slot: UsageSlot,
        generation: u32,
    ) -> Option<UsageOutcome> {
        let measures = self.session(up_seid)?.open().usage.measures;
        // A limit of an earlier generation was dealt with, or is met again by this one.
        let is_current = |m: &Measurement| m.slot == slot && m.generation == generation;
        measures.iter().any(is_current).then_some(())?;
        self.advance(now, up_seid, None)
    }

    /// Takes notice of the first packet of a generation.
    pub fn handle_traffic_started(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        started: TrafficStart,
    ) -> Option<UsageOutcome> {
        self.advance(now, up_seid, Some(started))
    }

    /// Takes notice that a GTP-U peer announced the end of the traffic in a tunnel of the session.
    /// Spec: TS 29.244 §8.2.19 (REEMR).
    pub fn handle_end_marker(&mut self, now: Nanos, session: SessionIndex) -> Option<UsageOutcome> {
        let source = Arc::clone(&self.usage.0);
        let session = self.session_at_mut(session)?;
        let OpenSession { up_seid, records, mut usage, .. } = session.open();
        let mut due: Vec<UsageTriggers> =
            records.urrs.iter().map(|urr| urr.triggers & UsageTriggers::END_MARKER).collect();
        let reports = usage.report(&records.urrs, &mut due, &*source, now);
        session.write_back(&records, &usage);
        let outcome = UsageOutcome { up_seid, reports, inactive: false, delta: None };
        (!outcome.reports.is_empty()).then_some(outcome)
    }

    /// Does what is due by `now` for one session; call until it returns `None`.
    pub fn poll_usage(&mut self, now: Nanos) -> Option<UsageOutcome> {
        loop {
            let session = self.deadlines.take_due(now)?;
            let up_seid = self.session_at(session).map(Session::up_seid);
            if let Some(outcome) = up_seid.and_then(|up_seid| self.advance(now, up_seid, None)) {
                return Some(outcome);
            }
        }
    }

    /// When [`SessionStore::poll_usage`] has something to do next.
    #[must_use]
    pub fn usage_timeout(&self) -> Option<Nanos> {
        self.deadlines.next()
    }

    /// The last usage of URRs that the oldest delta of `session` not reclaimed yet takes away. To
    /// be asked once all workers run that delta, before its [`SessionStore::reclaim`].
    pub fn final_reports(&mut self, now: Nanos, session: SessionIndex) -> Vec<UsageReport> {
        let mut reports = Vec::new();
        let retired = self.retired.get_mut(&session).and_then(|queue| queue.front_mut());
        for EndedMeasurement { urr, measure } in
            retired.into_iter().flat_map(|retired| &mut retired.usage)
        {
            let source = &*self.usage.0;
            measure.report(urr, source, now, UsageTriggers::TERMINATION, &mut reports);
        }
        reports
    }

    /// The running measurements of a session, in the order of its URRs.
    #[must_use]
    pub fn running_usage(&self, session: &Session) -> Vec<RunningUsage> {
        let so_far = |measure: &Measurement| {
            let (volume, stopped) = measure.running(&*self.usage.0);
            RunningUsage { urr: measure.id, volume, stopped }
        };
        let OpenSession { records, usage, .. } = session.open();
        records.urrs.iter().filter_map(|urr| usage.measure(urr.id)).map(so_far).collect()
    }

    /// Does what is due in one session. `None` when that changes and reports nothing. Nothing is
    /// written before everything is computed.
    fn advance(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        started: Option<TrafficStart>,
    ) -> Option<UsageOutcome> {
        let source = Arc::clone(&self.usage.0);
        let session = self.session(up_seid)?.open();
        let identity = session.identity(&self.packet_rates);
        let OpenSession { index, records, mut usage, .. } = session;
        let activated = activation::advanced(&records, now);
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
        session.write_back(records, &usage);
        let delta = rules.map(|rules| {
            self.retired.entry(index).or_default().push_back(RetiredResources::default());
            RuleDelta { session: index, keys: Vec::new(), rules: Some(rules) }
        });
        let is_news = inactive || delta.is_some() || !reports.is_empty();
        is_news.then_some(UsageOutcome { up_seid, reports, inactive, delta })
    }

    /// Plans the measurements of `session` after a change to `resolved`. Reads only. Slots are
    /// there: stage 2 counted them.
    pub(crate) fn plan_usage(&self, session: &OpenSession, resolved: &Resolved) -> UsagePlan {
        let source = &*self.usage.0;
        let UsageChange { at, removed, updated, withdrawn, queried, query_reference } =
            &resolved.usage;
        let (before, records) = (&session.records, &resolved.records);
        let mut usage = session.usage.clone();
        let mut all_slots = usage.slots();
        let ended = usage.end(before, records, removed);
        let mut due: Vec<UsageTriggers> = records
            .urrs
            .iter()
            .map(|urr| match queried.contains(&urr.id) {
                true => UsageTriggers::IMMEDIATE,
                false => UsageTriggers::empty(),
            })
            .collect();
        let mut reports = usage.report(&records.urrs, &mut due, source, *at);
        reports.iter_mut().for_each(|report| report.query_reference = *query_reference);
        let mut slots = SlotPlan { store: self, taken: 0, generation: self.generation };
        for urr in &records.urrs {
            let update = updated.iter().find(|update| update.id == urr.id);
            match usage.measures.iter_mut().find(|measure| measure.id == urr.id) {
                Some(measure) => {
                    if let Some(update) = update {
                        measure.provision(&update.settings, urr, *at);
                    }
                    let mut parts = withdrawn.iter().filter(|(id, _)| *id == urr.id).peekable();
                    let is_updated = update.is_some() || parts.peek().is_some();
                    parts.for_each(|&(_, part)| measure.withdraw(part, urr));
                    if measure.take_renewed() || is_updated {
                        measure.generation = slots.next_generation();
                    }
                }
                None => {
                    let (slot, generation) = slots.take();
                    usage.measures.push(Measurement::new(urr, slot, generation, source, *at));
                }
            }
        }
        usage.link_pools(records, source);
        let mut slots_retired: Vec<UsageSlot> =
            ended.iter().map(|ended| ended.measure.slot).collect();
        slots_retired.extend(usage.change_activity(before, records, &mut slots, *at));
        let (slots_taken, generation) = (slots.taken, slots.generation);
        let new: Vec<UsageSlot> =
            usage.slots().into_iter().filter(|slot| !all_slots.contains(slot)).collect();
        all_slots.extend(new);
        let deadline = usage.deadline(records, source, *at);
        UsagePlan {
            after: usage,
            ended,
            slots_retired,
            slots_taken,
            all_slots,
            generation,
            reports,
            deadline,
        }
    }
}

/// What a change makes of a session's measurements.
#[derive(Debug, Default)]
pub(crate) struct UsagePlan {
    pub after: SessionUsage,
    pub ended: Vec<EndedMeasurement>,
    pub slots_retired: Vec<UsageSlot>,
    pub slots_taken: usize,
    /// Slots of the session before or after.
    pub all_slots: Vec<UsageSlot>,
    /// The generation given last.
    pub generation: u32,
    pub reports: Vec<UsageReport>,
    pub deadline: Option<Nanos>,
}

/// Slots and generations on their way to new measurements.
struct SlotPlan<'a> {
    store: &'a SessionStore,
    taken: usize,
    generation: u32,
}

impl SlotPlan<'_> {
    fn take(&mut self) -> (UsageSlot, u32) {
        let Some(slot) = self.store.usage_slots.peek(self.taken) else {
            unreachable!("stage 2 refuses what needs more usage slots than there are")
        };
        self.taken += 1;
        (slot, self.next_generation())
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }
}

impl SessionUsage {
    fn slots(&self) -> Vec<UsageSlot> {
        let slots = self.measures.iter().map(|measure| measure.slot);
        slots.chain(self.activity.map(|activity| activity.slot)).collect()
    }

    /// Gives every credit pool the counters of its URRs, and its own ones.
    fn link_pools(&mut self, records: &Records, source: &dyn UsageSource) {
        for urr in &records.urrs {
            let Some(aggregated) = urr.settings.aggregated.as_deref() else { continue };
            let slot = |id: UrrId| self.measure(id).map(|measure| measure.slot);
            let own = slot(urr.id).map(|slot| (slot, POOL_WEIGHT_ONE));
            let others = aggregated.iter().filter_map(|of| Some((slot(of.urr)?, of.weight)));
            let of = own.into_iter().chain(others).collect();
            if let Some(measure) = self.measures.iter_mut().find(|m| m.id == urr.id) {
                measure.pool(of, source);
            }
        }
    }

    /// Takes out the measurements of URRs that are removed, also those that are created again.
    fn end(
        &mut self,
        before: &Records,
        after: &Records,
        removed: &[UrrId],
    ) -> Vec<EndedMeasurement> {
        let mut ended = Vec::new();
        self.measures.retain(|measure| {
            let stays =
                !removed.contains(&measure.id) && after.urrs.iter().any(|urr| urr.id == measure.id);
            let urr = before.urrs.iter().find(|urr| urr.id == measure.id);
            if !stays && let Some(urr) = urr {
                ended.push(EndedMeasurement { urr: urr.clone(), measure: measure.clone() });
            }
            stays
        });
        ended
    }

    /// Gives entries that differ from `before`, or measure anew, a new generation.
    fn renew(&mut self, records: &Records, before: &[UrrEntry], generation: &mut u32) -> bool {
        let mut is_changed = false;
        for (before, after) in before.iter().zip(self.entries(records)) {
            if *before != after || self.take_renewed(after.slot) {
                is_changed = true;
                *generation = generation.wrapping_add(1);
                self.set_generation(after.slot, *generation);
            }
        }
        is_changed
    }

    /// When something is due if no packet comes.
    fn deadline(&self, records: &Records, source: &dyn UsageSource, now: Nanos) -> Option<Nanos> {
        let urrs = records.urrs.iter();
        let activity = self.activity.zip(records.inactivity_timer);
        let deadlines = urrs
            .filter_map(|urr| self.measure(urr.id)?.deadline(urr, source, now))
            .chain(activity.and_then(|(activity, timer)| activity.deadline(source, timer)))
            .chain(activation::next(records, now));
        // NOTE: a deadline that passed without effect must not come back at once.
        deadlines.min().map(|at| at.max(now + Nanos::from_millis(1)))
    }

    /// Starts, restarts or ends the inactivity timer; returns the slot of one that ended.
    fn change_activity(
        &mut self,
        before: &Records,
        after: &Records,
        slots: &mut SlotPlan<'_>,
        at: Nanos,
    ) -> Option<UsageSlot> {
        match (&mut self.activity, after.inactivity_timer) {
            (None, Some(_)) => {
                let (slot, generation) = slots.take();
                self.activity =
                    Some(InactivityTimer { slot, generation, since: at, reported: false });
                None
            }
            (Some(activity), Some(timer)) => {
                if before.inactivity_timer != Some(timer) {
                    activity.since = at;
                    activity.reported = false;
                }
                None
            }
            (activity, None) => activity.take().map(|activity| activity.slot),
        }
    }
}

/// Does what is due for every URR; says what there is to report, in the order of the records.
fn advance_urrs(
    usage: &mut SessionUsage,
    records: &Records,
    source: &dyn UsageSource,
    now: Nanos,
    started: Option<TrafficStart>,
) -> Vec<UsageTriggers> {
    let advance = |urr: &Urr| {
        let measure = usage.measures.iter_mut().find(|measure| measure.id == urr.id);
        let Some(measure) = measure else { return UsageTriggers::empty() };
        let mut due = UsageTriggers::empty();
        if let Some(TrafficStart { slot, generation, at, pdr }) = started
            && (measure.slot, measure.generation) == (slot, generation)
        {
            let mut pdrs = records.pdrs.iter().filter(|known| known.id == pdr);
            let application = pdrs.find_map(|pdr| pdr.pdi.application.as_deref());
            due = measure.start_traffic(urr, at, application) & urr.triggers;
        }
        due | measure.advance(urr, source, now)
    };
    records.urrs.iter().map(advance).collect()
}

impl SessionUsage {
    fn take_renewed(&mut self, slot: UsageSlot) -> bool {
        self.measures.iter_mut().any(|measure| measure.slot == slot && measure.take_renewed())
    }

    fn set_generation(&mut self, slot: UsageSlot, generation: u32) {
        for measure in self.measures.iter_mut().filter(|measure| measure.slot == slot) {
            measure.generation = generation;
        }
        for activity in self.activity.iter_mut().filter(|activity| activity.slot == slot) {
            activity.generation = generation;
        }
    }
}

/// True when the inactivity timer ran out just now.
fn advance_activity(
    usage: &mut SessionUsage,
    records: &Records,
    source: &dyn UsageSource,
    now: Nanos,
    started: Option<TrafficStart>,
) -> bool {
    let (Some(activity), Some(timer)) = (&mut usage.activity, records.inactivity_timer) else {
        return false;
    };
    if let Some(TrafficStart { slot, generation, at, .. }) = started
        && (activity.slot, activity.generation) == (slot, generation)
    {
        activity.reported = false;
        activity.since = at;
    }
    let ran_out = activity.deadline(source, timer).is_some_and(|deadline| deadline <= now);
    activity.reported |= ran_out;
    ran_out
}
