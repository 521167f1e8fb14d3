//! Plans the effect of a change on a session's measurements.

use adit_types::{Nanos, UrrId, UsageSlot};

use super::s2_resolve::Resolved;
use crate::kept::KeptUsage;
use crate::record::{Records, Urr, UsageTriggers};
use crate::session::OpenSession;
use crate::store::SessionStore;
use crate::usage::{
    EndedMeasurement, InactivityTimer, Measurement, SessionUsage, UsageChange, UsageReport,
};

impl SessionStore {
    /// Plans the measurements of `session` after a change to `resolved`. Does not change the store.
    /// Stage 2 has checked that there are enough slots. `own`: the session's own slot, if a URR may
    /// take it.
    pub(crate) fn plan_usage(
        &self,
        session: &OpenSession,
        resolved: &Resolved,
        own: Option<UsageSlot>,
    ) -> UsagePlan {
        let source = &*self.usage.0;
        let UsageChange { at, removed, updated, queried, query_reference } = &resolved.usage;
        let (before, records) = (&session.records, &resolved.records);
        let mut usage = session.usage.clone();
        let mut all_slots = usage.slots();
        let ended = usage.remove_ended(before, records, removed);
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
        let first = own.and_then(|_| most_named_urr(records));
        let mut slots = SlotPlan { store: self, own, taken: 0, generation: self.generation };
        for urr in &records.urrs {
            let update = updated.iter().find(|update| update.id == urr.id);
            match usage.measures.iter_mut().find(|measure| measure.id == urr.id) {
                Some(measure) => {
                    if let Some(update) = update {
                        measure.provision(&update.settings, urr, *at);
                    }
                    if measure.take_renewed() || update.is_some() {
                        measure.generation = slots.next_generation();
                    }
                }
                None => {
                    let (slot, generation) = match first == Some(urr.id) {
                        true => slots.take_own(),
                        false => slots.take_slot(),
                    };
                    usage.measures.push(Measurement::new(urr, slot, generation, source, *at));
                }
            }
        }
        usage.link_pools(records, source);
        let mut slots_retired: Vec<UsageSlot> =
            ended.iter().map(|ended| ended.measure.slot).collect();
        slots_retired.extend(usage.change_activity(before, records, &mut slots, *at));
        let (slots_taken, generation) = (slots.taken, slots.generation);
        usage.own_urr = usage.own_urr.or(own.filter(|_| slots.own.is_none()));
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

impl SessionStore {
    /// Plans the measurements of a restored session: those that it had, in counters of this
    /// process. Does not change the store; otherwise like [`Self::plan_usage`].
    pub(crate) fn plan_former_usage(
        &self,
        mut usage: SessionUsage,
        used: &KeptUsage,
        resolved: &Resolved,
        own: Option<UsageSlot>,
    ) -> UsagePlan {
        let (source, records, at) = (&*self.usage.0, &resolved.records, resolved.usage.at);
        let first = own.and_then(|_| most_named_urr(records));
        let mut slots = SlotPlan { store: self, own, taken: 0, generation: self.generation };
        let place = |measure: &Measurement| match first == Some(measure.id) {
            true => (measure.slot, slots.take_own()),
            false => (measure.slot, slots.take_slot()),
        };
        let places: Vec<(UsageSlot, (UsageSlot, u32))> = usage.measures.iter().map(place).collect();
        let moved = |from: UsageSlot| {
            places.iter().find(|(known, _)| *known == from).map_or(from, |(_, (to, _))| *to)
        };
        for (measure, (_, (slot, generation))) in usage.measures.iter_mut().zip(&places) {
            measure.move_members(moved);
            let known = used.counts.iter().find(|(id, _)| *id == measure.id);
            let counts = known.map(|(_, counts)| *counts).unwrap_or_default();
            measure.resume(*slot, *generation, counts, source);
        }
        if let Some(timer) = &mut usage.activity {
            (timer.slot, timer.generation) = slots.take_own();
            timer.since = used.last.map_or(timer.since, |last| last.max(timer.since));
        }
        usage.own_urr = own.filter(|_| slots.own.is_none());
        UsagePlan {
            slots_taken: slots.taken,
            generation: slots.generation,
            all_slots: usage.slots(),
            deadline: usage.deadline(records, source, at),
            after: usage,
            ..UsagePlan::default()
        }
    }
}

/// The effect of a change on a session's measurements.
#[derive(Debug, Default)]
pub(crate) struct UsagePlan {
    pub after: SessionUsage,
    pub ended: Vec<EndedMeasurement>,
    pub slots_retired: Vec<UsageSlot>,
    pub slots_taken: usize,
    /// All slots of the session before and after the change.
    pub all_slots: Vec<UsageSlot>,
    /// The generation that was assigned last.
    pub generation: u32,
    pub reports: Vec<UsageReport>,
    pub deadline: Option<Nanos>,
}

/// Returns the URR that most PDRs name; of several, the first.
fn most_named_urr(records: &Records) -> Option<UrrId> {
    let pdrs = |urr: &Urr| records.pdrs.iter().filter(|pdr| pdr.urrs.contains(&urr.id)).count();
    records.urrs.iter().rev().max_by_key(|urr| pdrs(urr)).map(|urr| urr.id)
}

/// Assigns slots and generations to new measurements, without changing the store.
struct SlotPlan<'a> {
    store: &'a SessionStore,
    /// The session's own slot, while it may be assigned.
    own: Option<UsageSlot>,
    taken: usize,
    generation: u32,
}

impl SlotPlan<'_> {
    fn take_slot(&mut self) -> (UsageSlot, u32) {
        let Some(slot) = self.store.usage_slots.peek(self.taken) else {
            unreachable!("stage 2 refuses what needs more usage slots than there are")
        };
        self.taken += 1;
        (slot, self.next_generation())
    }

    /// Assigns the session's own slot if possible, else another one.
    fn take_own(&mut self) -> (UsageSlot, u32) {
        match self.own.take() {
            Some(own) => (own, self.next_generation()),
            None => self.take_slot(),
        }
    }

    fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }
}

impl SessionUsage {
    /// Starts, restarts or ends the inactivity timer; returns the slot of a timer that ended.
    fn change_activity(
        &mut self,
        before: &Records,
        after: &Records,
        slots: &mut SlotPlan<'_>,
        at: Nanos,
    ) -> Option<UsageSlot> {
        match (&mut self.activity, after.inactivity_timer) {
            (None, Some(_)) => {
                // The session's own slot suits the timer, because the timer counts all packets.
                let (slot, generation) = slots.take_own();
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
