//! Usage arithmetic of one URR: measurements, thresholds, quotas and timers.
//!
//! Octets, packets and active time only grow; a measurement is the difference between two readings,
//! exact in 64 bits. A report ends a measurement and begins the next one, from whose start
//! thresholds count. A quota counts from the last report before it was provisioned, until it is
//! replaced.

mod carried;

use std::sync::Arc;

use adit_rules::{PoolMembers, UrrEntry, UsageCounts, UsageLimits, UsageSource};
use adit_types::limits::{EVENTS_PER_REPORT_MAX, MONITORING_TIMES_PER_URR_MAX};
use adit_types::{Nanos, UrrId, UsageSlot};

use super::report::{UsagePart, UsageReport, UsageVolume};
use crate::pack::packed;
use crate::record::{
    Monitoring, TimeMechanism, Urr, UrrSettings, UrrSettingsUpdate, UsageTriggers, Volumes,
};
use crate::rule::{Change, RulePart};

/// Time without packets after which traffic counts as stopped, unless the URR sets another time.
const STOP_OF_TRAFFIC: Nanos = Nanos::from_secs(60);

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

packed! {
    /// All growing values of a measurement at one time.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Reading {
        pub counts: UsageCounts,
        /// Active time; an interval of the time mechanism that has begun counts as a whole.
        pub active: Nanos,
        /// Active time; of the last interval, only the time that has passed counts.
        pub passed: Nanos,
        /// Number of events.
        pub events: u64,
        pub at: Nanos,
    }
}

impl Reading {
    fn volume_since(&self, base: &Self) -> UsageVolume {
        let (now, then) = (&self.counts, &base.counts);
        UsageVolume {
            ul_bytes: now.ul_bytes.wrapping_sub(then.ul_bytes),
            dl_bytes: now.dl_bytes.wrapping_sub(then.dl_bytes),
            ul_pkts: now.ul_pkts.wrapping_sub(then.ul_pkts),
            dl_pkts: now.dl_pkts.wrapping_sub(then.dl_pkts),
        }
    }
}

/// A threshold or quota: an amount that counts from a reading on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MeasuredLimit<T> {
    value: T,
    base: Reading,
}

impl MeasuredLimit<Volumes> {
    fn is_reached(&self, reading: &Reading) -> bool {
        let UsageVolume { ul_bytes, dl_bytes, .. } = reading.volume_since(&self.base);
        self.limits_from(0, 0).reached(ul_bytes, dl_bytes)
    }

    /// Returns the limits as counter values, for counters that had the given values at the base.
    fn limits_from(&self, ul_bytes: u64, dl_bytes: u64) -> UsageLimits {
        let limit =
            |base: u64, value: Option<u64>| value.map_or(u64::MAX, |v| base.saturating_add(v));
        UsageLimits {
            total_bytes: limit(ul_bytes.saturating_add(dl_bytes), self.value.total),
            ul_bytes: limit(ul_bytes, self.value.uplink),
            dl_bytes: limit(dl_bytes, self.value.downlink),
        }
    }

    fn limits(&self) -> UsageLimits {
        self.limits_from(self.base.counts.ul_bytes, self.base.counts.dl_bytes)
    }
}

impl MeasuredLimit<Nanos> {
    fn left(&self, reading: &Reading) -> Nanos {
        self.value - reading.passed.since(self.base.active)
    }
}

impl MeasuredLimit<u64> {
    fn is_reached(&self, reading: &Reading) -> bool {
        reading.events.saturating_sub(self.base.events) >= self.value
    }
}

packed! {
    /// The running measurement of one URR.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Measurement {
        pub id: UrrId,
        pub slot: UsageSlot,
        pub generation: u32,
        sequence: u32,
        /// The reading at which the measurement began.
        base: Reading,
        /// The readings at the monitoring times that have passed within this measurement.
        splits: Vec<Reading>,
        /// Active time in periods of activity that have ended.
        active: Nanos,
        /// When the present period of activity began; `None` while time does not run.
        running: Option<Nanos>,
        volume_threshold: Option<MeasuredLimit<Volumes>>,
        time_threshold: Option<MeasuredLimit<Nanos>>,
        volume_quota: Option<MeasuredLimit<Volumes>>,
        time_quota: Option<MeasuredLimit<Nanos>>,
        event_threshold: Option<MeasuredLimit<u64>>,
        event_quota: Option<MeasuredLimit<u64>>,
        /// True if the event quota is used up: packets are stopped when the last event is over.
        is_last_event: bool,
        /// When the events of this measurement happened.
        events: Vec<Nanos>,
        /// Number of all events.
        events_total: u64,
        mechanism: Option<TimeMechanism>,
        /// For a credit pool, the members whose usage adds up to the pool's.
        members: PoolMembers,
        /// Packets, uplink and downlink, to add so that the sum does not jump when members change.
        members_base_pkts: (u64, u64),
        /// How many more reports are allowed, if their number is limited.
        reports_left: Option<u16>,
        stopped: bool,
        /// When the quota holding time began, unless a packet arrived later.
        holding_since: Nanos,
        valid_until: Option<Nanos>,
        next_period: Option<Nanos>,
        monitoring: Vec<Monitoring>,
        /// True while traffic is going on.
        started: bool,
        /// The application of the packet that started the traffic.
        application: Option<Arc<str>>,
        /// True if a measurement or a part of it began, so that the entry needs a new generation.
        renewed: bool,
        /// Counts of previous processes, to be added to the present counters.
        carried: Option<Box<UsageCounts>>,
    }
}

impl Measurement {
    /// Begins a measurement. The counters of a reused slot are not reset; the difference counts.
    pub(crate) fn new(
        urr: &Urr,
        slot: UsageSlot,
        generation: u32,
        source: &dyn UsageSource,
        now: Nanos,
    ) -> Self {
        let counts = source.usage(slot, generation);
        let mut measure = Self {
            id: urr.id,
            slot,
            generation,
            sequence: 0,
            base: Reading { counts, at: now, ..Reading::default() },
            splits: Vec::new(),
            active: Nanos(0),
            running: None,
            volume_threshold: None,
            time_threshold: None,
            volume_quota: None,
            time_quota: None,
            event_threshold: None,
            event_quota: None,
            is_last_event: false,
            events: Vec::new(),
            events_total: 0,
            mechanism: None,
            members: PoolMembers::default(),
            members_base_pkts: (0, 0),
            reports_left: None,
            stopped: false,
            holding_since: now,
            valid_until: None,
            next_period: None,
            monitoring: Vec::new(),
            started: false,
            application: None,
            renewed: false,
            carried: None,
        };
        measure.provision(&urr.settings.clone().into(), urr, now);
        measure
    }

    /// Applies new thresholds, quotas and timers, and removes those that are withdrawn. `urr`: the
    /// rule after the change. Packets pass again if the last quota is withdrawn.
    pub(crate) fn provision(&mut self, new: &UrrSettingsUpdate, urr: &Urr, now: Nanos) {
        let base = self.base;
        update_limit(&mut self.volume_threshold, new.volume_threshold, base);
        update_limit(&mut self.time_threshold, new.time_threshold, base);
        update_limit(&mut self.event_threshold, new.event_threshold, base);
        update_limit(&mut self.volume_quota, new.volume_quota, base);
        update_limit(&mut self.time_quota, new.time_quota, base);
        update_limit(&mut self.event_quota, new.event_quota, base);
        let UrrSettings { volume_quota, time_quota, event_quota, .. } = &urr.settings;
        let has_quota = volume_quota.is_some() || time_quota.is_some() || event_quota.is_some();
        let has_new_quota =
            new.volume_quota.is_set() || new.time_quota.is_set() || new.event_quota.is_set();
        let loses_quota = new.volume_quota.is_withdrawal()
            || new.time_quota.is_withdrawal()
            || new.event_quota.is_withdrawal();
        if has_new_quota {
            self.stopped = new.event_quota == Change::Set(0);
            self.is_last_event = false;
            self.holding_since = now;
        } else if loses_quota && !has_quota {
            (self.stopped, self.is_last_event) = (false, false);
        }
        if has_new_quota || new.quota_validity_time != Change::Keep {
            self.valid_until = urr.settings.quota_validity_time.map(|time| now + time);
        }
        match new.period {
            Change::Keep => {}
            Change::Set(period) => self.next_period = Some(now + period),
            Change::Withdraw => self.next_period = None,
        }
        self.monitoring.change(new.monitoring.clone());
        self.mechanism = urr.settings.time_mechanism;
        self.reports_left.change(new.reports_max);
        if let Change::Set(information) = new.information {
            if information.inactive {
                self.pause(now);
            } else if information.immediate_start && self.running.is_none() {
                self.running = Some(now);
            }
        }
    }

    /// Stops the measurement of time while the URR is inactive; workers count no packets then.
    fn pause(&mut self, now: Nanos) {
        if let Some(since) = self.running.take() {
            self.active += self.consumed(now.since(since));
        }
    }

    fn consumed(&self, elapsed: Nanos) -> Nanos {
        self.mechanism.map_or(elapsed, |mechanism| mechanism.consumed(elapsed))
    }

    /// Returns the counters of the URR or, for a credit pool, the weighted sum of its members.
    fn present_counts(&self, source: &dyn UsageSource) -> UsageCounts {
        let own = source.usage(self.slot, self.generation);
        if self.members.of.is_empty() {
            return own;
        }
        let of = |slot: UsageSlot| source.usage(slot, self.generation);
        let (ul_bytes, dl_bytes) = self.members.bytes(|slot| {
            let counts = of(slot);
            (counts.ul_bytes, counts.dl_bytes)
        });
        let (ul_pkts, dl_pkts) = self.members_base_pkts;
        let base = UsageCounts { ul_pkts, dl_pkts, ..UsageCounts::default() };
        let sum = self.members.of.iter().fold(base, |sum, (slot, _)| sum.plus(of(*slot)));
        UsageCounts { ul_bytes, dl_bytes, first: None, ..sum }
    }

    /// Sets the members of a credit pool, so that what was counted so far stays.
    pub(crate) fn set_pool_members(&mut self, of: Vec<(UsageSlot, u64)>, source: &dyn UsageSource) {
        if self.members.of == of {
            return;
        }
        let before = self.counts(source);
        self.members = PoolMembers { of, base_bytes: (0, 0) };
        self.members_base_pkts = (0, 0);
        let after = self.counts(source);
        self.members.base_bytes = (
            before.ul_bytes.wrapping_sub(after.ul_bytes),
            before.dl_bytes.wrapping_sub(after.dl_bytes),
        );
        self.members_base_pkts = (
            before.ul_pkts.wrapping_sub(after.ul_pkts),
            before.dl_pkts.wrapping_sub(after.dl_pkts),
        );
    }

    /// Reads counters and active time.
    pub(crate) fn read(&self, source: &dyn UsageSource, now: Nanos) -> Reading {
        let counts = self.counts(source);
        let elapsed = self.running.map(|since| now.since(since));
        let consumed = elapsed.map_or(Nanos(0), |elapsed| self.consumed(elapsed));
        Reading {
            counts,
            active: self.active + consumed,
            passed: self.active + elapsed.unwrap_or_default(),
            events: self.events_total,
            at: now,
        }
    }

    /// Returns when the last packet in `reading` arrived, or `since` if that is later.
    fn last_active(reading: &Reading, since: Nanos) -> Nanos {
        reading.counts.last.map_or(since, |last| last.max(since))
    }

    /// Splits the measurement if a monitoring time has passed. Spec: TS 29.244 §5.2.2.2.
    fn split_if_due(&mut self, reading: &Reading) {
        while self.monitoring.first().is_some_and(|monitoring| monitoring.at <= reading.at) {
            let monitoring = self.monitoring.remove(0);
            // An update can set monitoring times that have passed while no report is due. If there
            // are too many, their usage belongs to the last part.
            if self.splits.len() < MONITORING_TIMES_PER_URR_MAX {
                self.splits.push(*reading);
            }
            self.begin_part();
            update_limit(&mut self.volume_threshold, monitoring.volume_threshold, *reading);
            update_limit(&mut self.time_threshold, monitoring.time_threshold, *reading);
            update_limit(&mut self.event_threshold, monitoring.event_threshold, *reading);
            update_limit(&mut self.volume_quota, monitoring.volume_quota, *reading);
            update_limit(&mut self.time_quota, monitoring.time_quota, *reading);
            update_limit(&mut self.event_quota, monitoring.event_quota, *reading);
            if monitoring.volume_quota.is_some()
                || monitoring.time_quota.is_some()
                || monitoring.event_quota.is_some()
            {
                self.stopped = false;
                self.is_last_event = false;
            }
        }
    }

    /// Returns the time without packets after which traffic has stopped; `None` for never.
    fn idle_time(urr: &Urr) -> Option<Nanos> {
        let needs_stop = urr.method.event || urr.triggers.contains(UsageTriggers::STOP_OF_TRAFFIC);
        urr.settings.inactivity_detection_time.or(needs_stop.then_some(STOP_OF_TRAFFIC))
    }

    /// Returns when time stops if no packet arrives: with the envelope, or after the idle time.
    fn running_until(&self, urr: &Urr, reading: &Reading) -> Option<Nanos> {
        let since = self.running?;
        let last = Self::last_active(reading, since);
        match self.mechanism {
            Some(mechanism) => Some(mechanism.end(since, last)),
            None => Some(last + Self::idle_time(urr)?),
        }
    }

    /// Stops time if no packet arrived for long enough. Returns triggers if traffic stopped or an
    /// envelope closed. The time until the stop counts as active. Spec: TS 29.244 §8.2.18, §8.2.81.
    fn stop_if_idle(&mut self, urr: &Urr, reading: &Reading) -> UsageTriggers {
        let mut due = UsageTriggers::empty();
        let end = self.running_until(urr, reading).filter(|end| *end <= reading.at);
        if let (Some(since), Some(end)) = (self.running, end) {
            self.active += end.since(since);
            // A packet after the envelope, but before this check, has opened the next one.
            let last = Self::last_active(reading, since);
            self.running = (self.mechanism.is_some() && last >= end).then_some(last);
            due.set(UsageTriggers::ENVELOPE_CLOSURE, self.mechanism.is_some());
        }
        let stopped = self.started
            && Self::idle_time(urr)
                .is_some_and(|time| Self::last_active(reading, Nanos(0)) + time <= reading.at);
        self.started &= !stopped;
        due.set(UsageTriggers::STOP_OF_TRAFFIC, stopped);
        due
    }

    /// True if the URR measures duration or envelopes.
    const fn measures_time(&self, urr: &Urr) -> bool {
        urr.method.duration || self.mechanism.is_some()
    }

    /// Handles the first packet after a pause; `application`: that of the packet's PDR, if any.
    pub(crate) fn start_traffic(
        &mut self,
        urr: &Urr,
        at: Nanos,
        application: Option<&str>,
    ) -> UsageTriggers {
        if self.measures_time(urr) && self.running.is_none() && !urr.information().inactive {
            self.running = Some(at);
            // Workers report a start once per generation, and traffic may stop before this event is
            // handled, so the next start needs a new generation.
            self.renewed = true;
        }
        if core::mem::replace(&mut self.started, true) {
            return UsageTriggers::empty();
        }
        self.renewed = true;
        self.application = application.map(Arc::from);
        if urr.method.event {
            self.events_total += 1;
            if self.events.len() < EVENTS_PER_REPORT_MAX {
                self.events.push(at);
            }
        }
        UsageTriggers::START_OF_TRAFFIC
    }

    /// Handles all that is due at `now`, and returns the triggers to report.
    pub(crate) fn advance(
        &mut self,
        urr: &Urr,
        source: &dyn UsageSource,
        now: Nanos,
    ) -> UsageTriggers {
        let mut due = self.stop_if_idle(urr, &self.read(source, now));
        let reading = self.read(source, now);
        self.split_if_due(&reading);
        due.set(
            UsageTriggers::VOLUME_THRESHOLD,
            self.volume_threshold.is_some_and(|limit| limit.is_reached(&reading)),
        );
        due.set(
            UsageTriggers::TIME_THRESHOLD,
            self.time_threshold.is_some_and(|limit| limit.left(&reading) == Nanos(0)),
        );
        due.set(
            UsageTriggers::EVENT_THRESHOLD,
            self.event_threshold.is_some_and(|limit| limit.is_reached(&reading)),
        );
        due.set(UsageTriggers::DROPPED_DL, self.is_dropped_reached(urr, &reading));
        due |= self.advance_quotas(urr, &reading);
        if let (Some(next), Some(period)) = (self.next_period, urr.settings.period)
            && next <= now
        {
            let periods = now.since(next).0 / period.0.max(1) + 1;
            self.next_period = Some(next + Nanos(period.0.saturating_mul(periods)));
            due |= UsageTriggers::PERIODIC;
        }
        due &= urr.triggers;
        // A report is due, even without a trigger, when it cannot hold more time stamps.
        due.set(
            UsageTriggers::EVENT_THRESHOLD,
            due.contains(UsageTriggers::EVENT_THRESHOLD)
                || self.events.len() >= EVENTS_PER_REPORT_MAX,
        );
        if self.reports_left == Some(0) { UsageTriggers::empty() } else { due }
    }

    fn is_dropped_reached(&self, urr: &Urr, reading: &Reading) -> bool {
        let (pkts, bytes) = self.dropped_limits(urr);
        reading.counts.dropped_dl_pkts >= pkts || reading.counts.dropped_dl_bytes >= bytes
    }

    /// Returns at how many packets and octets dropped downlink traffic is reported.
    fn dropped_limits(&self, urr: &Urr) -> (u64, u64) {
        let threshold = urr.settings.dropped_threshold.unwrap_or_default();
        let base = &self.base.counts;
        let limit = |base: u64, value: Option<u64>| {
            value.map_or(u64::MAX, |value| base.saturating_add(value))
        };
        (
            limit(base.dropped_dl_pkts, threshold.packets),
            limit(base.dropped_dl_bytes, threshold.bytes),
        )
    }

    fn advance_quotas(&mut self, urr: &Urr, reading: &Reading) -> UsageTriggers {
        let mut due = UsageTriggers::empty();
        due.set(
            UsageTriggers::VOLUME_QUOTA,
            self.volume_quota.is_some_and(|limit| limit.is_reached(reading)),
        );
        due.set(
            UsageTriggers::TIME_QUOTA,
            self.time_quota.is_some_and(|limit| limit.left(reading) == Nanos(0)),
        );
        due.set(
            UsageTriggers::QUOTA_HOLDING_TIME,
            self.holding_deadline(urr, reading).is_some_and(|deadline| deadline <= reading.at),
        );
        if !due.is_empty() {
            self.stop_at_quota();
        }
        if self.event_quota.take_if(|limit| limit.is_reached(reading)).is_some() {
            due |= UsageTriggers::EVENT_QUOTA;
            self.is_last_event = true;
        }
        self.stopped |= self.is_last_event && !self.started;
        if self.valid_until.take_if(|until| *until <= reading.at).is_some() {
            due |= UsageTriggers::QUOTA_VALIDITY_TIME;
            // INTEROP: SMFs send meaningless validity times with quotas that lack this trigger.
            if urr.triggers.contains(UsageTriggers::QUOTA_VALIDITY_TIME) {
                self.stop_at_quota();
            }
        }
        due
    }

    /// Stops packets until a new quota is set. If there is no quota, packets still pass.
    fn stop_at_quota(&mut self) {
        self.stopped |= self.has_quota() || self.is_last_event;
        self.volume_quota = None;
        self.time_quota = None;
        self.event_quota = None;
    }

    const fn has_quota(&self) -> bool {
        self.volume_quota.is_some() || self.time_quota.is_some() || self.event_quota.is_some()
    }

    fn holding_deadline(&self, urr: &Urr, reading: &Reading) -> Option<Nanos> {
        let holds = self.has_quota() && !self.stopped;
        let time = urr.settings.quota_holding_time.filter(|_| holds)?;
        Some(Self::last_active(reading, self.holding_since) + time)
    }

    /// Ends the measurement at `reading` with a report, or with several if monitoring times split
    /// it, and begins the next measurement. Notices, such as a start of traffic, do not end it.
    pub(crate) fn report(
        &mut self,
        urr: &Urr,
        reading: Reading,
        triggers: UsageTriggers,
        reports: &mut Vec<UsageReport>,
    ) {
        if (triggers & UsageTriggers::UNREQUESTED).is_empty()
            && let Some(left) = &mut self.reports_left
        {
            if *left == 0 {
                return;
            }
            *left -= 1;
        }
        if (triggers & !UsageTriggers::NOTICES).is_empty() {
            reports.push(UsageReport {
                volume: None,
                duration_s: None,
                ..self.part_report(urr, &reading, &reading, triggers)
            });
            return;
        }
        self.begin_part();
        let mut from = core::mem::replace(&mut self.base, reading);
        let splits = core::mem::take(&mut self.splits);
        let mut events = core::mem::take(&mut self.events).into_iter();
        let mut events_until = |from: &Reading, to: &Reading| -> Vec<Nanos> {
            let count = usize::try_from(to.events.saturating_sub(from.events));
            events.by_ref().take(count.unwrap_or(usize::MAX)).collect()
        };
        let mut part = UsagePart::Before;
        for split in &splits {
            let events = events_until(&from, split);
            let report = self.part_report(urr, &from, split, UsageTriggers::MONITORING_TIME);
            reports.push(UsageReport { part: Some(part), events, ..report });
            (from, part) = (*split, UsagePart::Between);
        }
        let events = events_until(&from, &reading);
        let last = (!splits.is_empty()).then_some(UsagePart::After);
        let report = self.part_report(urr, &from, &reading, triggers);
        reports.push(UsageReport { part: last, events, ..report });
        rebase_limit(&mut self.volume_threshold, reading);
        rebase_limit(&mut self.time_threshold, reading);
        rebase_limit(&mut self.event_threshold, reading);
    }

    fn part_report(
        &mut self,
        urr: &Urr,
        from: &Reading,
        to: &Reading,
        triggers: UsageTriggers,
    ) -> UsageReport {
        let volume = to.volume_since(from);
        let has_packets = volume.ul_pkts != 0 || volume.dl_pkts != 0;
        // Until the new generation is published, packets count as first packets of the old one.
        let first = to.counts.first.map_or(from.at, |first| first.max(from.at));
        let notices = UsageTriggers::START_OF_TRAFFIC | UsageTriggers::STOP_OF_TRAFFIC;
        let application = self.application.clone().filter(|_| triggers.intersects(notices));
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let information = urr.information();
        UsageReport {
            urr: urr.id,
            sequence,
            triggers,
            start: from.at,
            end: to.at,
            volume: urr.method.volume.then_some(volume),
            packets: information.packets,
            duration_s: urr.method.duration.then(|| to.active.0 / SECOND - from.active.0 / SECOND),
            first: has_packets.then_some(first),
            last: to.counts.last.filter(|_| has_packets),
            part: None,
            before_qos: information.before_qos,
            query_reference: None,
            application,
            events: Vec::new(),
        }
    }

    /// True once after a measurement or a part of it began.
    pub(crate) fn take_renewed(&mut self) -> bool {
        core::mem::take(&mut self.renewed)
    }

    /// Returns when to call [`Measurement::advance`] next if no packet arrives.
    pub(crate) fn deadline(
        &self,
        urr: &Urr,
        source: &dyn UsageSource,
        now: Nanos,
    ) -> Option<Nanos> {
        let reading = self.read(source, now);
        let reports = self.reports_left != Some(0);
        let asks = |trigger| reports && urr.triggers.contains(trigger);
        let time_left = |limit: Option<MeasuredLimit<Nanos>>| {
            limit.filter(|_| self.running.is_some()).map(|limit| now + limit.left(&reading))
        };
        let events = |limit: Option<MeasuredLimit<u64>>| {
            limit.filter(|limit| limit.is_reached(&reading)).map(|_| now)
        };
        let idle = Self::idle_time(urr).filter(|_| self.started);
        [
            self.next_period.filter(|_| asks(UsageTriggers::PERIODIC)),
            self.valid_until,
            self.monitoring.first().map(|monitoring| monitoring.at),
            time_left(self.time_threshold).filter(|_| asks(UsageTriggers::TIME_THRESHOLD)),
            time_left(self.time_quota),
            events(self.event_threshold).filter(|_| asks(UsageTriggers::EVENT_THRESHOLD)),
            events(self.event_quota),
            self.holding_deadline(urr, &reading),
            self.running_until(urr, &reading),
            idle.map(|time| Self::last_active(&reading, Nanos(0)) + time),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the entry that workers run; `quota_far`: the index of the quota action's FAR.
    pub(crate) fn entry(&self, urr: &Urr, quota_far: Option<u16>) -> UrrEntry {
        let asks = |trigger| urr.triggers.contains(trigger);
        let limits = |limit: Option<MeasuredLimit<Volumes>>| {
            limit.map_or(UsageLimits::NONE, |limit| self.limits_of_present(limit.limits()))
        };
        let waits_for_time = self.measures_time(urr) && self.running.is_none();
        let reports_start = urr.method.event
            || asks(UsageTriggers::START_OF_TRAFFIC)
            || asks(UsageTriggers::STOP_OF_TRAFFIC);
        UrrEntry {
            id: self.id,
            slot: self.slot,
            generation: self.generation,
            report: limits(self.volume_threshold.filter(|_| asks(UsageTriggers::VOLUME_THRESHOLD))),
            quota: limits(self.volume_quota),
            report_dropped: match asks(UsageTriggers::DROPPED_DL) {
                true => {
                    let (pkts, bytes) = self.dropped_limits(urr);
                    self.dropped_of_present(pkts, bytes)
                }
                false => (u64::MAX, u64::MAX),
            },
            stopped: self.stopped,
            quota_far,
            exempt: Vec::new(),
            pool: None,
            members: self.members.clone(),
            report_start: waits_for_time || reports_start && !self.started,
            before_qos: urr.information().before_qos,
        }
    }

    /// Returns the measurement's volume so far, and whether a quota stops packets.
    pub(crate) fn running_volume(&self, source: &dyn UsageSource) -> (UsageVolume, bool) {
        (self.read(source, self.base.at).volume_since(&self.base), self.stopped)
    }
}

packed!(MeasuredLimit<Volumes> { value, base });
packed!(MeasuredLimit<Nanos> { value, base });
packed!(MeasuredLimit<u64> { value, base });

/// Applies an update of a threshold or quota, which counts from `base` on.
fn update_limit<T>(
    limit: &mut Option<MeasuredLimit<T>>,
    update: impl Into<Change<T>>,
    base: Reading,
) {
    match update.into() {
        Change::Keep => {}
        Change::Set(value) => *limit = Some(MeasuredLimit { value, base }),
        Change::Withdraw => *limit = None,
    }
}

fn rebase_limit<T>(limit: &mut Option<MeasuredLimit<T>>, base: Reading) {
    if let Some(limit) = limit {
        limit.base = base;
    }
}
