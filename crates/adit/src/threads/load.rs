//! Load of the threads of the packet path.
//!
//! A polling thread uses all of its core even without packets. So each thread measures its own load
//! and writes it to a few atomic words, which the control thread reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use adit_types::Nanos;

/// Steps per reading of the saturation: about 8 ms without packets, longer under load.
const STEPS_PER_READING: u32 = 1 << 16;

/// Approximate duration of a step without packets.
const IDLE_STEP_TIME: Nanos = Nanos(128);

/// Time that a reading of the recent busy share covers.
const RECENT_WINDOW: Nanos = Nanos::from_millis(10);

/// Time that a reading of the busy share and of the rings covers.
const WINDOW: Nanos = Nanos::from_secs(1);

/// The latest readings of a thread; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadLoad(Arc<LoadWords>);

#[derive(Debug, Default)]
struct LoadWords {
    saturation_percent: AtomicU8,
    recent_permille: AtomicU16,
    busy_permille: AtomicU16,
    ring_permille: AtomicU16,
}

impl ThreadLoad {
    /// Share of the thread's steps that had a full burst, which shows that packets wait. Unit:
    /// percent.
    pub(crate) fn saturation_percent(&self) -> u8 {
        self.0.saturation_percent.load(Ordering::Relaxed)
    }

    /// Share of the last 10 ms that the thread spent in steps with packets. Unit: thousandths.
    pub(crate) fn recent_permille(&self) -> u16 {
        self.0.recent_permille.load(Ordering::Relaxed)
    }

    /// Share of the last second that the thread spent in steps with packets. Unit: thousandths.
    pub(crate) fn busy_permille(&self) -> u16 {
        self.0.busy_permille.load(Ordering::Relaxed)
    }

    /// Largest fill of a ring of packets to this thread in the last second. Unit: thousandths of
    /// the ring.
    pub(crate) fn ring_permille(&self) -> u16 {
        self.0.ring_permille.load(Ordering::Relaxed)
    }
}

/// The data of a step from which load is computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepLoad {
    /// When the step began.
    pub began: Nanos,
    pub is_idle: bool,
    pub is_full: bool,
}

/// Measures the load of a thread, in that thread, and stores it in a [`ThreadLoad`].
#[derive(Debug)]
pub(crate) struct LoadMeter {
    gauge: ThreadLoad,
    turns: u32,
    full: u32,
    window_began: Nanos,
    /// Busy time of the window until `recent_began`.
    busy: Nanos,
    recent_began: Nanos,
    /// Busy time since `recent_began`.
    recent_busy: Nanos,
    /// When the last step began if it had packets, else `None`.
    busy_since: Option<Nanos>,
}

impl LoadMeter {
    /// Returns a meter that starts at `now`.
    pub(crate) fn new(gauge: ThreadLoad, now: Nanos) -> Self {
        Self {
            gauge,
            turns: 0,
            full: 0,
            window_began: now,
            busy: Nanos(0),
            recent_began: now,
            recent_busy: Nanos(0),
            busy_since: None,
        }
    }

    /// Counts a step; the previous step ended at `step.began`. `fullest_ring` returns the largest
    /// fill of the thread's rings since its last call, in thousandths.
    ///
    /// Cost: a few additions; stores once per [`STEPS_PER_READING`] steps,
    /// per [`RECENT_WINDOW`] and per [`WINDOW`].
    #[inline]
    pub(crate) fn count_step(&mut self, step: StepLoad, fullest_ring: impl FnOnce() -> u16) {
        if let Some(since) = self.busy_since {
            self.recent_busy += step.began.since(since);
        }
        self.busy_since = (!step.is_idle).then_some(step.began);
        self.turns += 1;
        self.full += u32::from(step.is_full);
        self.store_saturation();
        if step.began.since(self.recent_began) >= RECENT_WINDOW {
            self.store_recent(step.began, fullest_ring);
        }
    }

    /// Counts a sleep as the idle steps that it replaced.
    #[inline]
    pub(crate) fn count_sleep(&mut self, span: Nanos) {
        if span > Nanos(0) {
            let turns = u32::try_from(span.0 / IDLE_STEP_TIME.0).unwrap_or(STEPS_PER_READING);
            self.turns += turns.min(STEPS_PER_READING - self.turns);
            self.store_saturation();
        }
    }

    fn store_saturation(&mut self) {
        if self.turns == STEPS_PER_READING {
            let percent = u8::try_from(self.full * 100 / STEPS_PER_READING).unwrap_or(100);
            self.gauge.0.saturation_percent.store(percent, Ordering::Relaxed);
            (self.turns, self.full) = (0, 0);
        }
    }

    #[cold]
    fn store_recent(&mut self, now: Nanos, fullest_ring: impl FnOnce() -> u16) {
        let permille = share(self.recent_busy, now.since(self.recent_began));
        self.gauge.0.recent_permille.store(permille, Ordering::Relaxed);
        self.busy += self.recent_busy;
        (self.recent_began, self.recent_busy) = (now, Nanos(0));
        if now.since(self.window_began) >= WINDOW {
            let permille = share(self.busy, now.since(self.window_began));
            self.gauge.0.busy_permille.store(permille, Ordering::Relaxed);
            self.gauge.0.ring_permille.store(fullest_ring(), Ordering::Relaxed);
            (self.window_began, self.busy) = (now, Nanos(0));
        }
    }
}

/// Returns the share of `busy` in `span`. Unit: thousandths.
fn share(busy: Nanos, span: Nanos) -> u16 {
    let permille = busy.0.saturating_mul(1000) / span.0.max(1);
    u16::try_from(permille).unwrap_or(1000).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(began: Nanos, is_idle: bool, is_full: bool) -> StepLoad {
        StepLoad { began, is_idle, is_full }
    }

    #[test]
    fn saturation_is_the_share_of_full_turns_and_falls_when_they_end() {
        let gauge = ThreadLoad::default();
        let mut meter = LoadMeter::new(gauge.clone(), Nanos(0));
        let mut turn = |is_full: bool| meter.count_step(step(Nanos(0), !is_full, is_full), || 0);
        for at in 0..STEPS_PER_READING {
            assert_eq!(gauge.saturation_percent(), 0);
            turn(at % 4 != 0);
        }
        assert_eq!(gauge.saturation_percent(), 75);
        (0..STEPS_PER_READING).for_each(|_| turn(true));
        assert_eq!(gauge.saturation_percent(), 100);
        (0..STEPS_PER_READING).for_each(|_| turn(false));
        assert_eq!(gauge.saturation_percent(), 0);
        (0..STEPS_PER_READING).for_each(|_| turn(true));
        meter.count_sleep(Nanos::from_secs(1));
        assert_eq!(gauge.saturation_percent(), 0, "a long sleep is a reading of its own");
    }

    #[test]
    fn busy_share_is_the_time_of_steps_with_packets() {
        let gauge = ThreadLoad::default();
        let mut meter = LoadMeter::new(gauge.clone(), Nanos(0));
        // A quarter of the time in steps with packets.
        for ms in 0..=1000 {
            meter.count_step(step(Nanos::from_millis(ms), ms % 4 != 1, false), || 700);
        }
        assert_eq!((gauge.busy_permille(), gauge.ring_permille()), (250, 700));
        assert_eq!(gauge.recent_permille(), 200, "two of the last ten");
        meter.count_step(step(Nanos::from_secs(3), true, false), || 0);
        assert_eq!(gauge.recent_permille(), 0);
        assert_eq!(
            (gauge.busy_permille(), gauge.ring_permille()),
            (0, 0),
            "an idle second and more"
        );
    }
}
