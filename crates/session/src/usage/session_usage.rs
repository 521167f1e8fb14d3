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

/// The source of counters. Comparisons of stores ignore it.
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

/// The effect of a change on measurements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UsageChange {
    /// When.
    pub at: Nanos,
    pub removed: Vec<UrrId>,
    pub updated: Vec<UrrUpdate>,
    /// URRs to report at once.
    pub queried: Vec<UrrId>,
    /// The reference that their reports carry.
    pub query_reference: Option<u32>,
}

/// The user plane inactivity timer: usage of all PDRs together, from which only the time of the
/// last packet is read. Spec: TS 29.244 §8.2.83.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InactivityTimer {
    pub(crate) slot: UsageSlot,
    pub(crate) generation: u32,
    pub(crate) since: Nanos,
    /// Inactivity was reported; the next packet starts the timer again.
    pub(crate) reported: bool,
}

impl InactivityTimer {
    pub(crate) fn deadline(&self, source: &dyn UsageSource, timer: Nanos) -> Option<Nanos> {
        let last = self.last(source);
        (!self.reported).then(|| last.map_or(self.since, |last| last.max(self.since)) + timer)
    }

    /// The last packet.
    pub(crate) fn last(&self, source: &dyn UsageSource) -> Option<Nanos> {
        source.usage(self.slot, self.generation).last
    }
}

/// The measurements of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SessionUsage {
    pub(crate) measures: Vec<Measurement>,
    pub(crate) activity: Option<InactivityTimer>,
    /// See [`SessionRules::own_urr`](adit_rules::SessionRules::own_urr): taken at establishment,
    /// and kept as long as the session exists.
    pub(crate) own_urr: Option<UsageSlot>,
}

/// A URR that ended, with its measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedMeasurement {
    pub(crate) urr: Urr,
    pub(crate) measure: Measurement,
}

/// The first packet of a URR's generation, or of the inactivity timer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficStart {
    /// The counters.
    pub slot: UsageSlot,
    /// The generation of the entry of these counters.
    pub generation: u32,
    /// When the packet came.
    pub at: Nanos,
    /// The PDR that it matched.
    pub pdr: PdrId,
}

/// The outcome of an event or a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageOutcome {
    /// Our SEID of the session.
    pub up_seid: Seid,
    /// Reports to the control plane.
    pub reports: Vec<UsageReport>,
    /// No packet came for the time of the user plane inactivity timer.
    pub inactive: bool,
    /// The delta to publish; owed one [`SessionStore::reclaim`](crate::SessionStore::reclaim).
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
packed!(SessionUsage { measures, activity, own_urr });

impl SessionUsage {
    pub(crate) fn measure(&self, id: UrrId) -> Option<&Measurement> {
        self.measures.iter().find(|measure| measure.id == id)
    }

    /// Workers' entries of all URRs in the order of the records, and then of the inactivity timer,
    /// without exempted traffic.
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

    /// Makes a report of every URR named in `due`, and of URRs linked to them.
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

/// Where the credit pool of a URR stands.
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

    /// Gives every credit pool the counters of its URRs, and its own ones.
    pub(crate) fn link_pools(&mut self, records: &Records, source: &dyn UsageSource) {
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

    /// Removes the measurements of URRs that are removed, including those that are created again.
    pub(crate) fn end(
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

    /// When something is due if no packet comes.
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
            .chain(activation::next(records, now));
        // NOTE: a deadline that passed without effect must not return at once.
        deadlines.min().map(|at| at.max(now + Nanos::from_millis(1)))
    }
}

/// Runs due events of every URR; returns the triggers to report, in the order of the records.
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

/// True when the inactivity timer ran out just now.
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
