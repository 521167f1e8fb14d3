//! Packet rates: how many packets pass in a unit of time.
//!
//! Made for devices that send a few packets an hour: serving PLMN, APN and small data rate control.
//! A window begins with the first packet behind the last window, so that nothing counts while
//! nobody sends. What a window has left outlives the session: the control plane may take it along.
//!
//! Spec: TS 29.244 §8.2.63, §8.2.139; TS 23.501 §5.31.14.

use core::hash::{Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use adit_types::{Direction, Nanos};

/// So many packets in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketQuota {
    /// Packets of one window.
    pub pkts_max: u16,
    /// Length of a window. Unit: nanoseconds.
    pub unit: Nanos,
}

/// The packet rate of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketLimit {
    /// What always counts.
    pub plain: PacketQuota,
    /// What passes beyond it. It is meant for exception reports, which no header tells from others.
    pub additional: Option<PacketQuota>,
}

/// What passed in the window that began last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketWindow {
    /// The window's end.
    pub until: Nanos,
    /// Packets that passed in it.
    pub passed: u64,
}

impl PacketWindow {
    /// The window, which at `now` ends no later than one of `quota` would that began now: one that is
    /// longer belonged to another rate.
    #[must_use]
    pub fn settled(self, quota: PacketQuota, now: Nanos) -> Self {
        Self { until: self.until.min(now + quota.unit), passed: self.passed }
    }

    /// The window at `now`: a new one where the last one is over.
    #[must_use]
    pub fn at(self, quota: PacketQuota, now: Nanos) -> Self {
        match self.until <= now {
            true => Self { until: now + quota.unit, passed: 0 },
            false => self.settled(quota, now),
        }
    }

    /// Packets that may still pass in the window at `now`.
    #[must_use]
    pub fn left(self, quota: PacketQuota, now: Nanos) -> u16 {
        let passed = u16::try_from(self.at(quota, now).passed).unwrap_or(u16::MAX);
        quota.pkts_max.saturating_sub(passed)
    }
}

/// A window that one thread writes and others read.
#[derive(Debug, Default)]
struct Cell {
    until: AtomicU64,
    passed: AtomicU64,
}

impl Cell {
    fn load(&self) -> PacketWindow {
        let [until, passed] = [&self.until, &self.passed].map(|word| word.load(Ordering::Relaxed));
        PacketWindow { until: Nanos(until), passed }
    }

    fn store(&self, PacketWindow { until, passed }: PacketWindow) {
        self.until.store(until.0, Ordering::Relaxed);
        self.passed.store(passed, Ordering::Relaxed);
    }
}

/// What one direction let pass and what not.
#[derive(Debug, Default)]
struct Course {
    plain: Cell,
    additional: Cell,
    dropped: AtomicU64,
}

/// What passed and what not, of both directions, as long as the QER exists. Written by the worker that
/// owns the session.
#[derive(Debug, Default)]
struct Counts([Course; 2]);

/// What is left of one direction's packet rate. Spec: TS 29.244 §8.2.139.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketsLeft {
    /// Packets that may pass.
    pub packets: u16,
    /// Packets that may pass beyond them, where there is an additional rate.
    pub additional: Option<u16>,
    /// When the last window of the two ends; now, where none runs.
    pub until: Nanos,
}

/// The packet rates of a QER, and what passed of them: its clones share that, and other rates may
/// take it over ([`PacketRate::with_limits`]).
#[derive(Debug, Clone, Default)]
pub struct PacketRate {
    limits: [Option<PacketLimit>; 2],
    counts: Arc<Counts>,
}

impl PacketRate {
    /// Rates of which nothing passed; without one in a direction everything passes there.
    #[must_use]
    pub fn new(uplink: Option<PacketLimit>, downlink: Option<PacketLimit>) -> Self {
        Self { limits: [uplink, downlink], counts: Arc::default() }
    }

    /// Other rates that go on with what passed of these.
    #[must_use]
    pub fn with_limits(&self, uplink: Option<PacketLimit>, downlink: Option<PacketLimit>) -> Self {
        Self { limits: [uplink, downlink], counts: Arc::clone(&self.counts) }
    }

    /// The rate of `direction`.
    #[inline]
    #[must_use]
    pub const fn limit(&self, direction: Direction) -> Option<PacketLimit> {
        let [uplink, downlink] = self.limits;
        match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }
    }

    fn course(&self, direction: Direction) -> &Course {
        let Counts([uplink, downlink]) = &*self.counts;
        match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }
    }

    /// The quota that a packet would count in at `now`, and where. `None` where both are used up.
    fn open(&self, limit: PacketLimit, direction: Direction, now: Nanos) -> Option<Open<'_>> {
        let Course { plain, additional, .. } = self.course(direction);
        let both = [Some((plain, limit.plain)), limit.additional.map(|quota| (additional, quota))];
        both.into_iter().flatten().find_map(|(cell, quota)| {
            let window = cell.load().at(quota, now);
            (window.passed < u64::from(quota.pkts_max)).then_some(Open { cell, window })
        })
    }

    /// True when a packet may pass at `now`; one that may not is counted. For the worker that owns the
    /// session only.
    #[must_use]
    pub fn is_open(&self, direction: Direction, now: Nanos) -> bool {
        let Some(limit) = self.limit(direction) else { return true };
        if self.open(limit, direction, now).is_some() {
            return true;
        }
        let Course { plain, additional, dropped } = self.course(direction);
        // A window of another rate ends in time from now on.
        plain.store(plain.load().settled(limit.plain, now));
        if let Some(quota) = limit.additional {
            additional.store(additional.load().settled(quota, now));
        }
        dropped.store(dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        false
    }

    /// Counts a packet that passes at `now`. For the worker that owns the session only.
    pub fn pass(&self, direction: Direction, now: Nanos) {
        let Some(limit) = self.limit(direction) else { return };
        if let Some(Open { cell, window }) = self.open(limit, direction, now) {
            cell.store(PacketWindow { passed: window.passed + 1, ..window });
        }
    }

    /// Lets the windows of a direction, which end at `until`, have only so many packets left, and no
    /// more than the rate has. Before any worker knows the rate.
    pub fn resume(&self, direction: Direction, (packets, additional): (u16, u16), until: Nanos) {
        let Some(limit) = self.limit(direction) else { return };
        let window = |quota: PacketQuota, left: u16| {
            let passed = u64::from(quota.pkts_max.saturating_sub(left));
            PacketWindow { until, passed }
        };
        let course = self.course(direction);
        course.plain.store(window(limit.plain, packets));
        if let Some(quota) = limit.additional {
            course.additional.store(window(quota, additional));
        }
    }

    /// What is left of the rate of a direction at `now`; `None` without one.
    #[must_use]
    pub fn left(&self, direction: Direction, now: Nanos) -> Option<PacketsLeft> {
        let PacketLimit { plain, additional } = self.limit(direction)?;
        let course = self.course(direction);
        let [first, second] = [course.plain.load(), course.additional.load()];
        let further = additional.map(|quota| (second.left(quota, now), second.until));
        let until = further.map_or(first.until, |(_, until)| until.max(first.until));
        Some(PacketsLeft {
            packets: first.left(plain, now),
            additional: further.map(|(left, _)| left),
            until: until.max(now),
        })
    }

    /// Packets of a direction that the rate dropped.
    #[must_use]
    pub fn dropped(&self, direction: Direction) -> u64 {
        self.course(direction).dropped.load(Ordering::Relaxed)
    }
}

/// Where a packet counts.
struct Open<'a> {
    cell: &'a Cell,
    window: PacketWindow,
}

/// Equal rates that share what passed.
impl PartialEq for PacketRate {
    fn eq(&self, other: &Self) -> bool {
        self.limits == other.limits && Arc::ptr_eq(&self.counts, &other.counts)
    }
}

impl Eq for PacketRate {}

impl Hash for PacketRate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.limits.hash(state);
        Arc::as_ptr(&self.counts).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Nanos = Nanos::from_secs(3600);
    const UL: Direction = Direction::Uplink;

    fn quota(pkts_max: u16, unit: Nanos) -> PacketQuota {
        PacketQuota { pkts_max, unit }
    }

    fn limit(plain: PacketQuota, additional: Option<PacketQuota>) -> Option<PacketLimit> {
        Some(PacketLimit { plain, additional })
    }

    /// Packets of `count` at `now` that pass.
    fn passed(rate: &PacketRate, count: usize, now: Nanos) -> usize {
        let pass = |_: &usize| {
            let is_open = rate.is_open(UL, now);
            if is_open {
                rate.pass(UL, now);
            }
            is_open
        };
        (0..count).filter(pass).count()
    }

    #[test]
    fn window_begins_with_its_first_packet_and_lets_so_many_pass() {
        let rate = PacketRate::new(limit(quota(3, HOUR), None), None);
        let first = Nanos::from_secs(100);
        assert_eq!(passed(&rate, 5, first), 3);
        assert_eq!(passed(&rate, 5, first + HOUR - Nanos(1)), 0);
        assert_eq!(passed(&rate, 5, first + HOUR), 3);
        assert_eq!(rate.dropped(UL), 2 + 5 + 2);
        assert!(rate.is_open(Direction::Downlink, first), "no rate there");
        assert_eq!(rate.left(Direction::Downlink, first), None);
    }

    #[test]
    fn additional_packets_pass_behind_the_plain_ones_in_their_own_window() {
        let minute = Nanos::from_secs(60);
        let rate = PacketRate::new(limit(quota(2, minute), Some(quota(1, HOUR))), None);
        let now = Nanos::from_secs(1);
        assert_eq!(passed(&rate, 5, now), 3);
        let left = PacketsLeft { packets: 0, additional: Some(0), until: now + HOUR };
        assert_eq!(rate.left(UL, now), Some(left));
        assert_eq!(passed(&rate, 5, now + minute), 2, "the additional one is used up");
        let later = now + HOUR + minute;
        let left = PacketsLeft { packets: 2, additional: Some(1), until: later };
        assert_eq!(rate.left(UL, later), Some(left), "no window runs");
    }

    #[test]
    fn zero_lets_nothing_pass() {
        let rate = PacketRate::new(limit(quota(0, HOUR), None), None);
        assert_eq!(passed(&rate, 2, Nanos(5)), 0);
    }

    #[test]
    fn rate_goes_on_where_another_session_left_it() {
        let now = Nanos::from_secs(50);
        for (left, expected) in [(1, 1), (0, 0), (9, 3)] {
            let rate = PacketRate::new(limit(quota(3, HOUR), None), None);
            rate.resume(UL, (left, 0), now + Nanos::from_secs(10));
            assert_eq!(passed(&rate, 5, now), expected);
            assert_eq!(passed(&rate, 5, now + Nanos::from_secs(10)), 3);
        }
    }

    #[test]
    fn new_rate_counts_what_passed_of_the_old_one_but_not_for_longer_than_its_own_unit() {
        let now = Nanos::from_secs(50);
        let weekly = PacketRate::new(limit(quota(4, Nanos::from_secs(7 * 86_400)), None), None);
        assert_eq!(passed(&weekly, 9, now), 4);
        let hourly = weekly.with_limits(limit(quota(6, HOUR), None), None);
        assert_ne!(hourly, weekly);
        assert_eq!(passed(&hourly, 9, now), 2);
        assert_eq!(passed(&hourly, 9, now + HOUR - Nanos(1)), 0);
        assert_eq!(passed(&hourly, 9, now + HOUR), 6);
        assert_eq!(hourly.dropped(UL), weekly.dropped(UL));
    }
}
