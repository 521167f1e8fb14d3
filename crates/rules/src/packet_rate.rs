//! Packet rates: how many packets may pass in a unit of time.
//!
//! For devices that send a few packets an hour: serving PLMN, APN and small data rate control. A
//! window begins with the first packet after the end of the last window, so no window runs while no
//! packet arrives. The packets left of a window outlive the session: the control plane can carry
//! them to the next session.
//!
//! Spec: TS 29.244 §8.2.63, §8.2.139; TS 23.501 §5.31.14.

use core::hash::{Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use adit_types::{Direction, Nanos};

/// A maximum number of packets in a unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketQuota {
    /// Maximum number of packets in one window.
    pub pkts_max: u16,
    /// Length of a window. Unit: nanoseconds.
    pub unit: Nanos,
}

/// The packet rate of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketLimit {
    /// Packets of any kind that may pass.
    pub plain: PacketQuota,
    /// More packets that may pass, meant for exception reports. No header marks exception reports,
    /// so any packet beyond `plain` is counted here.
    pub additional: Option<PacketQuota>,
}

/// The window that began last, and the packets in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketWindow {
    /// When the window ends.
    pub until: Nanos,
    /// How many packets passed in the window.
    pub passed: u16,
    /// The window's length; zero if only its end is known.
    pub unit: Nanos,
}

impl PacketWindow {
    /// Returns the window at `now`: a new one if this one is over. A window of another length began
    /// before the limits changed (`since`); it ends at the latest one unit of `quota` after that.
    fn at(self, quota: PacketQuota, since: Nanos, now: Nanos) -> Self {
        let PacketQuota { unit, .. } = quota;
        let until = if self.unit == unit { self.until } else { self.until.min(since + unit) };
        match until <= now {
            true => Self { until: now + unit, passed: 0, unit },
            false => Self { until, passed: self.passed, unit },
        }
    }
}

/// A window that one thread writes and other threads read.
#[derive(Debug, Default)]
struct PacketWindowCell {
    until: AtomicU64,
    /// How many packets passed (16 bits), and above it the window's length in microseconds.
    passed_and_unit: AtomicU64,
}

/// Position of the length in `passed_and_unit`.
const PASSED_BITS: u32 = 16;

impl PacketWindowCell {
    fn load(&self) -> PacketWindow {
        let until = Nanos(self.until.load(Ordering::Acquire));
        let word = self.passed_and_unit.load(Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, reason = "the low 16 bits")]
        PacketWindow { until, passed: word as u16, unit: Nanos((word >> PASSED_BITS) * 1000) }
    }

    fn store(&self, PacketWindow { until, passed, unit }: PacketWindow) {
        // The end is written last: a reader that sees a new end sees a count at least as new, so a
        // new window never looks used up.
        let word = ((unit.0 / 1000) << PASSED_BITS) | u64::from(passed);
        self.passed_and_unit.store(word, Ordering::Relaxed);
        self.until.store(until.0, Ordering::Release);
    }
}

/// Windows of the packets of one direction that passed, and how many were dropped.
#[derive(Debug, Default)]
struct DirectionPacketCounts {
    plain: PacketWindowCell,
    additional: PacketWindowCell,
    dropped: AtomicU64,
}

/// Counts of both directions, kept while the QER exists. Written by the worker that owns the
/// session and, before any worker has the rate, by [`PacketRateMeter::resume`].
#[derive(Debug, Default)]
struct PacketRateCounts([DirectionPacketCounts; 2]);

/// Packets that the packet rate of one direction still allows. Spec: TS 29.244 §8.2.139.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketsLeft {
    /// How many packets may pass.
    pub packets: u16,
    /// How many packets of the additional rate may pass then; `None` without one.
    pub additional: Option<u16>,
    /// When the later of both windows ends; now if no window runs.
    pub until: Nanos,
}

/// The packet rates of a QER with the packets counted for them. Clones share the counts, and so do
/// rates that replace these ([`PacketRateMeter::with_limits`]).
#[derive(Debug, Clone, Default)]
pub struct PacketRateMeter {
    limits: [Option<PacketLimit>; 2],
    /// When a limit of either direction changed last.
    since: Nanos,
    counts: Arc<PacketRateCounts>,
}

impl PacketRateMeter {
    /// Makes rates that begin at `since`. A direction without a rate lets all packets pass.
    ///
    /// Units: each [`PacketQuota::unit`] is a multiple of a microsecond.
    #[must_use]
    pub fn new(limits: [Option<PacketLimit>; 2], since: Nanos) -> Self {
        Self { limits, since, counts: Arc::default() }
    }

    /// Returns meters with the rates replaced from `since` on; if they are equal, the old time of
    /// change stays. The counts stay.
    #[must_use]
    pub fn with_limits(&self, limits: [Option<PacketLimit>; 2], since: Nanos) -> Self {
        let since = if self.limits == limits { self.since } else { since };
        Self { limits, since, counts: Arc::clone(&self.counts) }
    }

    /// Returns the rate of `direction`, if it has one.
    #[inline]
    #[must_use]
    pub const fn limit(&self, direction: Direction) -> Option<PacketLimit> {
        let [uplink, downlink] = self.limits;
        match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }
    }

    fn direction_counts(&self, direction: Direction) -> &DirectionPacketCounts {
        let PacketRateCounts([uplink, downlink]) = &*self.counts;
        match direction {
            Direction::Uplink => uplink,
            Direction::Downlink => downlink,
        }
    }

    /// Returns the window in which to count a packet at `now`: the plain or else the additional
    /// one. `None` if both are used up.
    fn open_window(
        &self,
        limit: PacketLimit,
        direction: Direction,
        now: Nanos,
    ) -> Option<OpenPacketWindow<'_>> {
        let DirectionPacketCounts { plain, additional, .. } = self.direction_counts(direction);
        let both = [Some((plain, limit.plain)), limit.additional.map(|quota| (additional, quota))];
        both.into_iter().flatten().find_map(|(cell, quota)| {
            let window = cell.load().at(quota, self.since, now);
            (window.passed < quota.pkts_max).then_some(OpenPacketWindow { cell, window })
        })
    }

    /// Returns true if a packet may pass at `now`; otherwise counts it as dropped. Only for the
    /// worker that owns the session.
    #[must_use]
    pub fn admits_or_counts_drop(&self, direction: Direction, now: Nanos) -> bool {
        let Some(limit) = self.limit(direction) else { return true };
        let is_open = self.open_window(limit, direction, now).is_some();
        if !is_open {
            let dropped = &self.direction_counts(direction).dropped;
            dropped.store(dropped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        is_open
    }

    /// Counts a packet that passes at `now`. Only for the worker that owns the session.
    pub fn pass(&self, direction: Direction, now: Nanos) {
        let Some(limit) = self.limit(direction) else { return };
        if let Some(OpenPacketWindow { cell, window }) = self.open_window(limit, direction, now) {
            cell.store(PacketWindow { passed: window.passed + 1, ..window });
        }
    }

    /// Continues the windows of another session: `packets` and `additional` packets (at most the
    /// quota) of a direction may still pass until `until`, but at the latest until one unit after
    /// the limits changed last. Does nothing in a direction without a rate. Call it before a worker
    /// has the rate.
    pub fn resume(&self, direction: Direction, packets: u16, additional: u16, until: Nanos) {
        let Some(limit) = self.limit(direction) else { return };
        let window = |quota: PacketQuota, left: u16| PacketWindow {
            until,
            passed: quota.pkts_max.saturating_sub(left),
            unit: Nanos(0),
        };
        let counts = self.direction_counts(direction);
        counts.plain.store(window(limit.plain, packets));
        if let Some(quota) = limit.additional {
            counts.additional.store(window(quota, additional));
        }
    }

    /// Returns the packets left of the rate of a direction at `now`; `None` without a rate.
    #[must_use]
    pub fn left(&self, direction: Direction, now: Nanos) -> Option<PacketsLeft> {
        let PacketLimit { plain, additional } = self.limit(direction)?;
        let counts = self.direction_counts(direction);
        let of = |cell: &PacketWindowCell, quota: PacketQuota| {
            let PacketWindow { until, passed, .. } = cell.load().at(quota, self.since, now);
            // A window in which no packet passed is the same as no window.
            (quota.pkts_max.saturating_sub(passed), if passed == 0 { now } else { until })
        };
        let (packets, plain_until) = of(&counts.plain, plain);
        let further = additional.map(|quota| of(&counts.additional, quota));
        let until = further.map_or(plain_until, |(_, until)| until.max(plain_until));
        Some(PacketsLeft { packets, additional: further.map(|(left, _)| left), until })
    }

    /// Returns the windows of a direction that run at `now`: of the plain rate, then of the
    /// additional rate, even if the QER has no such rate now. A window without packets is zero.
    #[must_use]
    pub fn windows(&self, direction: Direction, now: Nanos) -> [PacketWindow; 2] {
        let limit = self.limit(direction);
        let counts = self.direction_counts(direction);
        let of = |cell: &PacketWindowCell, quota: Option<PacketQuota>| {
            let last = cell.load();
            let window = quota.map_or(last, |quota| last.at(quota, self.since, now));
            if window.passed > 0 && window.until > now { window } else { PacketWindow::default() }
        };
        let additional = limit.and_then(|limit| limit.additional);
        [of(&counts.plain, limit.map(|limit| limit.plain)), of(&counts.additional, additional)]
    }

    /// Continues windows that [`PacketRateMeter::windows`] returned. Call it before a worker has
    /// the rate.
    pub fn set_windows(&self, direction: Direction, [plain, additional]: [PacketWindow; 2]) {
        let counts = self.direction_counts(direction);
        counts.plain.store(plain);
        counts.additional.store(additional);
    }

    /// Returns how many packets of a direction the rate dropped.
    #[must_use]
    pub fn dropped(&self, direction: Direction) -> u64 {
        self.direction_counts(direction).dropped.load(Ordering::Relaxed)
    }
}

/// The window in which to count a packet, and the cell to write it back to.
struct OpenPacketWindow<'a> {
    cell: &'a PacketWindowCell,
    window: PacketWindow,
}

/// True if the rates are equal and the counts are shared.
impl PartialEq for PacketRateMeter {
    fn eq(&self, other: &Self) -> bool {
        (self.limits, self.since) == (other.limits, other.since)
            && Arc::ptr_eq(&self.counts, &other.counts)
    }
}

impl Eq for PacketRateMeter {}

impl Hash for PacketRateMeter {
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

    /// Returns how many of `count` packets at `now` pass.
    fn passed(rate: &PacketRateMeter, count: usize, now: Nanos) -> usize {
        let pass = |_: &usize| {
            let is_open = rate.admits_or_counts_drop(UL, now);
            if is_open {
                rate.pass(UL, now);
            }
            is_open
        };
        (0..count).filter(pass).count()
    }

    #[test]
    fn window_begins_with_its_first_packet_and_lets_so_many_pass() {
        let rate = PacketRateMeter::new([limit(quota(3, HOUR), None), None], Nanos(0));
        let first = Nanos::from_secs(100);
        assert_eq!(passed(&rate, 5, first), 3);
        assert_eq!(passed(&rate, 5, first + HOUR - Nanos(1)), 0);
        assert_eq!(passed(&rate, 5, first + HOUR), 3);
        assert_eq!(rate.dropped(UL), 2 + 5 + 2);
        assert!(rate.admits_or_counts_drop(Direction::Downlink, first), "no rate there");
        assert_eq!(rate.left(Direction::Downlink, first), None);
    }

    #[test]
    fn additional_packets_pass_behind_the_plain_ones_in_their_own_window() {
        let minute = Nanos::from_secs(60);
        let rate =
            PacketRateMeter::new([limit(quota(2, minute), Some(quota(1, HOUR))), None], Nanos(0));
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
        let rate = PacketRateMeter::new([limit(quota(0, HOUR), None), None], Nanos(0));
        assert_eq!(passed(&rate, 2, Nanos(5)), 0);
    }

    #[test]
    fn rate_goes_on_where_another_session_left_it() {
        let now = Nanos::from_secs(50);
        for (left, expected) in [(1, 1), (0, 0), (9, 3)] {
            let rate = PacketRateMeter::new([limit(quota(3, HOUR), None), None], Nanos(0));
            rate.resume(UL, left, 0, now + Nanos::from_secs(10));
            assert_eq!(passed(&rate, 5, now), expected);
            assert_eq!(passed(&rate, 5, now + Nanos::from_secs(10)), 3);
        }
    }

    /// Two windows with different ends, and a direction whose rate is removed while they run.
    #[test]
    fn windows_go_on_in_another_process_as_in_this_one() {
        let ten = Nanos::from_secs(10);
        let both = [limit(quota(2, ten), Some(quota(1, HOUR))), None];
        for gone in [false, true] {
            let rate = PacketRateMeter::new(both, Nanos(0));
            assert_eq!(passed(&rate, 3, Nanos::from_secs(100)), 3);
            let rate = if gone { rate.with_limits([None; 2], Nanos::from_secs(101)) } else { rate };
            let now = Nanos::from_secs(102);
            let restored = PacketRateMeter::new([None; 2], now);
            restored.set_windows(UL, rate.windows(UL, now));
            let [rate, restored] =
                [rate, restored].map(|rate| rate.with_limits(both, Nanos::from_secs(103)));
            for at in [104, 111, 112, 125, 3699, 3701, 3702] {
                let at = Nanos::from_secs(at);
                assert_eq!(passed(&restored, 4, at), passed(&rate, 4, at), "{gone}, {at:?}");
            }
        }
    }

    #[test]
    fn status_holds_no_longer_than_a_window_that_began_with_the_session() {
        let (now, day) = (Nanos::from_secs(50), Nanos::from_secs(86_400));
        let rate = PacketRateMeter::new([limit(quota(3, HOUR), Some(quota(2, day))), None], now);
        rate.resume(UL, 0, 2, now + day);
        assert_eq!(rate.left(UL, now).unwrap().until, now + HOUR);
        assert_eq!(passed(&rate, 1, now + Nanos(1)), 1, "an additional one");
        assert_eq!(passed(&rate, 9, now + HOUR), 3 + 1);
    }

    #[test]
    fn new_rate_counts_what_passed_of_the_old_one_but_not_for_longer_than_its_own_unit() {
        let now = Nanos::from_secs(50);
        let week = Nanos::from_secs(7 * 86_400);
        let weekly = PacketRateMeter::new([limit(quota(4, week), None), None], Nanos(0));
        assert_eq!(passed(&weekly, 9, now), 4);
        let at = now + Nanos::from_secs(60);
        let limits = [limit(quota(6, HOUR), None), None];
        let hourly = weekly.with_limits(limits, at);
        assert_ne!(hourly, weekly);
        assert_eq!(hourly, hourly.with_limits(limits, at + HOUR), "the same rates");
        let left = PacketsLeft { packets: 2, additional: None, until: at + HOUR };
        assert_eq!(hourly.left(UL, at), Some(left));
        assert_eq!(passed(&hourly, 9, at), 2);
        assert_eq!(passed(&hourly, 9, at + HOUR - Nanos(1)), 0);
        assert_eq!(passed(&hourly, 9, at + HOUR), 6);
        assert_eq!(hourly.dropped(UL), weekly.dropped(UL));
        // No packet is sent until the old window has nearly ended.
        let silent = PacketRateMeter::new([limit(quota(4, week), None), None], Nanos(0));
        assert_eq!(passed(&silent, 9, now), 4);
        let silent = silent.with_limits(limits, at);
        assert_eq!(passed(&silent, 9, now + week - Nanos(1)), 6);
    }
}
