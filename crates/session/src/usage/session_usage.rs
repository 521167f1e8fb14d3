//! The measurements of a session's URRs.

use std::collections::BTreeSet;
use std::sync::Arc;

use adit_rules::{
    NoUsage, POOL_WEIGHT_ONE, PoolMembers, RuleDelta, UrrEntry, UsageLimits, UsageSource,
};
use adit_types::{Nanos, PdrId, Seid, UrrId, UsageSlot};

use super::activation;
use super::measurement::Measurement;
use super::report::{UsageReport, UsageVolume};
use crate::pack::packed;
use crate::record::{Records, Urr, UrrUpdate, UsageTriggers};

/// The source of counters. It is ignored when stores are compared.
#[derive(Debug, Clone)]
pub(crate) struct UsageSourceHandle(pub Arc<dyn UsageSource>);

impl Default for UsageSourceHandle {
    fn default() -> Self {
        Self(Arc::new(NoUsage))
    }
}

impl PartialEq for UsageSourceHandle {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The changes that a request makes to measurements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UsageChange {
    /// When the request arrived.
    pub at: Nanos,
    pub removed: Vec<UrrId>,
    pub updated: Vec<UrrUpdate>,
    /// URRs to report at once.
    pub queried: Vec<UrrId>,
    /// The query reference to put into the reports.
    pub query_reference: Option<u32>,
}

/// The user plane inactivity timer: a measurement of all PDRs together, from which only the time of
/// the last packet is read. Spec: TS 29.244 §8.2.83.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InactivityTimer {
    pub(crate) slot: UsageSlot,
    pub(crate) generation: u32,
    pub(crate) since: Nanos,
    /// True if inactivity was reported; the next packet starts the timer again.
    pub(crate) reported: bool,
}

impl InactivityTimer {
    pub(crate) fn deadline(&self, source: &dyn UsageSource, timer: Nanos) -> Option<Nanos> {
        let last = self.last(source);
        (!self.reported).then(|| last.map_or(self.since, |last| last.max(self.since)) + timer)
    }

    /// Returns when the last packet arrived.
    pub(crate) fn last(&self, source: &dyn UsageSource) -> Option<Nanos> {
        source.usage(self.slot, self.generation).last
    }
}

/// The measurements of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SessionUsage {
    pub(crate) measures: Vec<Measurement>,
    pub(crate) activity: Option<InactivityTimer>,
    /// See [`SessionRules::own_urr`](adit_rules::SessionRules::own_urr): set at establishment, and
    /// kept while the session exists.
    pub(crate) own_urr: Option<UsageSlot>,
}

/// A URR that was removed, with its measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedMeasurement {
    pub(crate) urr: Urr,
    pub(crate) measure: Measurement,
}

/// The arrival of the first packet of a generation, for a URR or the inactivity timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficStart {
    /// The slot of the counters.
    pub slot: UsageSlot,
    /// The generation of the entry that uses these counters.
    pub generation: u32,
    /// When the packet arrived.
    pub at: Nanos,
    /// The PDR that the packet matched.
    pub pdr: PdrId,
}

/// The result of a worker's event or an expired timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageOutcome {
    /// Our SEID of the session.
    pub up_seid: Seid,
    /// Reports to send to the control plane.
    pub reports: Vec<UsageReport>,
    /// True if the user plane inactivity timer expired.
    pub inactive: bool,
    /// The delta to publish; call [`SessionStore::reclaim`](crate::SessionStore::reclaim) once for
    /// it.
    pub delta: Option<RuleDelta>,
}

/// The running measurement of one URR, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningUsage {
    /// The URR.
    pub urr: UrrId,
    /// Volume since the last report.
    pub volume: UsageVolume,
    /// True if a quota stops packets.
    pub stopped: bool,
}

packed!(InactivityTimer { slot, generation, since, reported });
packed!(SessionUsage { measures, activity, own_urr });

impl SessionUsage {
    pub(crate) fn measure(&self, id: UrrId) -> Option<&Measurement> {
        self.measures.iter().find(|measure| measure.id == id)
    }

    /// Returns the entries of all URRs in the order of the records, then that of the inactivity
    /// timer, without the filters of exempted traffic.
    pub(crate) fn entries(&self, records: &Records) -> Vec<UrrEntry> {
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

    pub(crate) const fn has_activity(&self) -> bool {
        self.activity.is_some()
    }

    /// Reports every URR with triggers in `due`, and every URR that is linked to one of these.
    pub(crate) fn report(
        &mut self,
        urrs: &[Urr],
        due: &mut [UsageTriggers],
        source: &dyn UsageSource,
        now: Nanos,
    ) -> Vec<UsageReport> {
        let is_reported = |due: UsageTriggers| !(due & !UsageTriggers::NOTICES).is_empty();
        let of_due = urrs.iter().zip(&*due).filter(|(_, due)| is_reported(**due));
        let reported: BTreeSet<UrrId> = of_due.map(|(urr, _)| urr.id).collect();
        let linked: Vec<bool> = urrs
            .iter()
            .map(|urr| {
                let links = urr.settings.linked.as_deref().unwrap_or_default();
                urr.triggers.contains(UsageTriggers::LINKED)
                    && links.iter().any(|id| reported.contains(id))
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
                measure.report(urr, measure.read(source, now), *due, &mut reports);
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

/// Returns the index of the credit pool of a URR.
fn pool_of(records: &Records, id: UrrId) -> Option<u16> {
    let has = |pool: &Urr| {
        pool.settings.aggregated.as_deref().is_some_and(|of| of.iter().any(|of| of.urr == id))
    };
    u16::try_from(records.urrs.iter().position(has)?).ok()
}

impl SessionUsage {
    pub(crate) fn slots(&self) -> Vec<UsageSlot> {
        let slots = self.measures.iter().map(|measure| measure.slot);
        slots.chain(self.activity.map(|activity| activity.slot)).collect()
    }

    /// Sets the members of every credit pool: its URRs, and the pool's own counters.
    pub(crate) fn link_pools(&mut self, records: &Records, source: &dyn UsageSource) {
        for urr in &records.urrs {
            let Some(aggregated) = urr.settings.aggregated.as_deref() else { continue };
            let slot = |id: UrrId| self.measure(id).map(|measure| measure.slot);
            let own = slot(urr.id).map(|slot| (slot, POOL_WEIGHT_ONE));
            let others = aggregated.iter().filter_map(|of| Some((slot(of.urr)?, of.weight)));
            let of = own.into_iter().chain(others).collect();
            if let Some(measure) = self.measures.iter_mut().find(|m| m.id == urr.id) {
                measure.set_pool_members(of, source);
            }
        }
    }

    /// Removes and returns measurements of removed URRs, also if these are created again.
    pub(crate) fn remove_ended(
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

    /// Assigns a new generation to entries that differ from `before` or begin a new measurement.
    /// Returns true if there are any.
    pub(crate) fn renew(
        &mut self,
        records: &Records,
        before: &[UrrEntry],
        generation: &mut u32,
    ) -> bool {
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

    /// Returns when something is due if no packet arrives.
    pub(crate) fn deadline(
        &self,
        records: &Records,
        source: &dyn UsageSource,
        now: Nanos,
    ) -> Option<Nanos> {
        let urrs = records.urrs.iter();
        let activity = self.activity.zip(records.inactivity_timer);
        let deadlines = urrs
            .filter_map(|urr| self.measure(urr.id)?.deadline(urr, source, now))
            .chain(activity.and_then(|(activity, timer)| activity.deadline(source, timer)))
            .chain(activation::next_change(records, now));
        // NOTE: at least 1 ms ahead, as a deadline without effect must not return at once.
        deadlines.min().map(|at| at.max(now + Nanos::from_millis(1)))
    }
}

/// Handles all that is due for each URR; returns triggers to report, in the order of records.
pub(crate) fn advance_urrs(
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
    pub(crate) fn take_renewed(&mut self, slot: UsageSlot) -> bool {
        self.measures.iter_mut().any(|measure| measure.slot == slot && measure.take_renewed())
    }

    pub(crate) fn set_generation(&mut self, slot: UsageSlot, generation: u32) {
        for measure in self.measures.iter_mut().filter(|measure| measure.slot == slot) {
            measure.generation = generation;
        }
        for activity in self.activity.iter_mut().filter(|activity| activity.slot == slot) {
            activity.generation = generation;
        }
    }
}

/// Returns true if the inactivity timer has just expired.
pub(crate) fn advance_activity(
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
