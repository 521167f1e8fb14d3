//! Idle policy of a worker: it polls its ports, or it sleeps.
//!
//! A sleeping worker wakes when one of its ports has packets, when its [`Doorbell`] rings (for
//! packets from another worker or a command from the control thread), and after a timeout. If a
//! driver offers no file descriptor to wait on (memif, NICs without interrupts), the timeout is
//! [`SLEEP_TO_COST_RATIO`] times the measured cost of a sleep, which is short. A sleeping worker is
//! offline for publication, so that no answer to the control plane waits for it.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use adit_types::Nanos;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};

/// A worker without packets for this long goes to sleep. It is longer than the cost of a sleep and
/// a wake-up.
const AWAKE_SPAN: Nanos = Nanos::from_micros(50);

/// The longest sleep of a worker whose ports can all wake it. It bounds how late adit ends, and how
/// late buffered packets time out.
const SLEEP_MAX: Nanos = Nanos::from_millis(20);

/// Ratio of a timed sleep's duration to its cost: with 24, sleeping takes 4 % of a core.
const SLEEP_TO_COST_RATIO: u64 = 24;

/// Bounds of a timed sleep. A shorter sleep is not worth its cost; during a longer one a port's
/// queues would overflow at usual rates.
const TIMED_SLEEP_MIN: Nanos = Nanos::from_micros(20);
const TIMED_SLEEP_MAX: Nanos = Nanos::from_millis(1);

/// Assumed cost of a timed sleep before the first one is measured.
const TIMED_SLEEP_COST_INITIAL: Nanos = Nanos::from_micros(2);

/// Wakes one worker.
#[derive(Debug, Clone)]
pub struct Doorbell {
    is_asleep: Arc<AtomicBool>,
    event: Arc<OwnedFd>,
}

impl Doorbell {
    /// Creates a doorbell that has not rung.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { is_asleep: Arc::default(), event: Arc::new(event) })
    }

    /// Wakes the worker if it sleeps. Must be called after packets or a command were put into a
    /// ring of the worker.
    ///
    /// Cost: a fence and a load; a system call only if the worker sleeps or is about to.
    pub fn ring(&self) {
        // Pairs with the fence in `announce_sleep`: either this load sees that the worker is about
        // to sleep, or the worker's last step sees the new entry.
        fence(Ordering::SeqCst);
        let is_asleep = &self.is_asleep;
        if is_asleep.load(Ordering::Relaxed) && is_asleep.swap(false, Ordering::AcqRel) {
            // The write fails only if the counter is full: a wake-up is then pending already.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Makes `ring` wake the worker from now on. The worker must run one more step before it
    /// sleeps: a packet may have arrived before the announcement.
    fn announce_sleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn wake(&self) {
        if !self.is_asleep.swap(false, Ordering::AcqRel) {
            // Clears a pending wake-up, if there is one.
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
    }
}

/// How a worker behaves after a step that found no packets.
#[derive(Debug)]
pub enum IdlePolicy {
    /// The worker polls again; if it shares its core, it yields first.
    Busy {
        /// True if another thread runs on the core.
        shares_core: bool,
    },
    /// The worker sleeps.
    Adaptive(Sleeper),
}

impl IdlePolicy {
    /// Must be called after every step. `rest` must take the worker offline for publication.
    /// Returns how long the worker slept.
    #[inline]
    pub fn after_step(
        &mut self,
        is_idle: bool,
        now: impl Fn() -> Nanos,
        rest: impl FnOnce(),
    ) -> Nanos {
        match self {
            Self::Adaptive(sleeper) => return sleeper.after_step(is_idle, now, rest),
            Self::Busy { shares_core: true } if is_idle => std::thread::yield_now(),
            Self::Busy { .. } => {}
        }
        Nanos(0)
    }
}

/// Puts a worker to sleep.
#[derive(Debug)]
pub struct Sleeper {
    bell: Doorbell,
    /// Descriptors that are readable while ports have packets.
    ports: Vec<OwnedFd>,
    /// `Some` if a port of the worker cannot wake it.
    timed_sleep: Option<TimedSleep>,
    idle_since: Option<Nanos>,
    is_dozing: bool,
}

impl Sleeper {
    /// Creates the sleeper of the calling thread, and sets the thread's timer slack. `ports` are
    /// descriptors that become readable when packets arrive; `None` if a port of the worker has no
    /// descriptor.
    pub fn new(bell: Doorbell, ports: Option<Vec<OwnedFd>>) -> Self {
        let cost = TIMED_SLEEP_COST_INITIAL.0;
        let timed_sleep = ports.is_none().then_some(TimedSleep { cost, spent: None });
        // Best effort: with the default slack, sleeps last 50 microseconds longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let ports = ports.unwrap_or_default();
        Self { bell, ports, timed_sleep, idle_since: None, is_dozing: false }
    }

    fn after_step(&mut self, is_idle: bool, now: impl Fn() -> Nanos, rest: impl FnOnce()) -> Nanos {
        if !is_idle {
            if core::mem::take(&mut self.is_dozing) {
                self.bell.wake();
            }
            self.idle_since = None;
            return Nanos(0);
        }
        if self.is_dozing {
            let began = now();
            rest();
            self.sleep();
            self.is_dozing = false;
            return now().since(began);
        }
        let now = now();
        let since = *self.idle_since.get_or_insert_with(|| {
            // The thread processed packets until now: that CPU time is no cost of a sleep.
            self.timed_sleep.iter_mut().for_each(|sleep| sleep.spent = None);
            now
        });
        if now.since(since) >= AWAKE_SPAN {
            self.is_dozing = true;
            self.bell.announce_sleep();
        }
        Nanos(0)
    }

    fn sleep(&mut self) {
        let span = self.timed_sleep.as_mut().map_or(SLEEP_MAX, TimedSleep::span);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(span.0).unwrap_or(0) };
        let descriptors = self.ports.iter().map(AsFd::as_fd).chain([self.bell.event.as_fd()]);
        let mut sources: Vec<_> =
            descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // An interruption by a signal counts as a timeout.
        let _ = poll(&mut sources, Some(&timeout));
        self.bell.wake();
    }
}

/// Adapts the duration of timed sleeps.
#[derive(Debug)]
struct TimedSleep {
    /// Moving average of the CPU time of a sleep. Unit: nanoseconds.
    cost: u64,
    /// CPU time of the thread at the start of the last sleep. Unit: nanoseconds.
    spent: Option<u64>,
}

impl TimedSleep {
    /// Measures the cost of the last sleep, and returns the duration of the next one.
    fn span(&mut self) -> Nanos {
        let spent = thread_time();
        if let Some(before) = self.spent.replace(spent) {
            let cost = spent.saturating_sub(before);
            self.cost = (7 * self.cost + cost) / 8;
        }
        Nanos(self.cost * SLEEP_TO_COST_RATIO).clamp(TIMED_SLEEP_MIN, TIMED_SLEEP_MAX)
    }
}

/// Returns the CPU time of the calling thread. Unit: nanoseconds.
pub fn thread_time() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    let (s, ns) = (u64::try_from(tv_sec).unwrap_or(0), u64::try_from(tv_nsec).unwrap_or(0));
    s * 1_000_000_000 + ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    fn has_rung(bell: &Doorbell) -> bool {
        rustix::io::read(&bell.event, &mut [0; 8]).is_ok()
    }

    #[test]
    fn bell_rings_once_and_only_for_a_worker_that_may_sleep() {
        let bell = Doorbell::new().unwrap();
        bell.ring();
        assert!(!has_rung(&bell), "the worker is awake");
        bell.announce_sleep();
        bell.ring();
        bell.ring();
        assert!(has_rung(&bell) && !has_rung(&bell));
        bell.announce_sleep();
        bell.wake();
        bell.ring();
        assert!(!has_rung(&bell), "it is awake again");
    }

    #[test]
    fn worker_looks_once_more_before_it_sleeps_and_rests_only_then() {
        let bell = Doorbell::new().unwrap();
        let mut pause = IdlePolicy::Adaptive(Sleeper::new(bell.clone(), Some(Vec::new())));
        let (clock, rests) = (Cell::new(Nanos(0)), Cell::new(0));
        let mut turn = |is_idle: bool, at: Nanos| {
            clock.set(at);
            pause.after_step(is_idle, || clock.get(), || rests.set(rests.get() + 1));
            rests.get()
        };
        let late = Nanos(AWAKE_SPAN.0 + 1);
        assert_eq!(turn(true, Nanos(1)), 0, "just idle");
        assert_eq!(turn(true, late), 0, "it says that it will sleep");
        assert_eq!(turn(false, late), 0, "the last look found something");
        bell.ring();
        assert!(!has_rung(&bell));
        let next = Nanos(2 * late.0);
        assert_eq!(turn(true, late), 0, "idle anew");
        assert_eq!(turn(true, next), 0);
        bell.ring();
        assert_eq!(turn(true, next), 1, "a bell that was rung ends the sleep");
        assert!(!has_rung(&bell), "and is heard");
        assert_eq!(turn(true, next), 1, "idle still: it may sleep again after one more look");
        assert_eq!(turn(true, next), 2);
    }

    #[test]
    fn readable_port_ends_the_sleep() {
        let port = Doorbell::new().unwrap();
        port.announce_sleep();
        port.ring();
        let readable = port.event.try_clone().unwrap();
        let mut sleeper = Sleeper::new(Doorbell::new().unwrap(), Some(vec![readable]));
        sleeper.sleep();
        assert!(has_rung(&port), "the port is left to the driver");
    }

    #[test]
    fn nap_stays_within_its_bounds_whatever_it_costs() {
        for cost in [0, 2_000, 17_000, u64::MAX / SLEEP_TO_COST_RATIO] {
            let mut sleep = TimedSleep { cost, spent: None };
            assert!((TIMED_SLEEP_MIN..=TIMED_SLEEP_MAX).contains(&sleep.span()), "{cost}");
        }
    }
}
