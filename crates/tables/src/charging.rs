//! Charges packets to the first two rate buckets of one direction of a session.
//!
//! The buckets that a fast rule names are in one of three states ([`BucketState`]):
//!
//! - *Idle*: the `due` time of all buckets is past, so each has all its credit.
//! - *Deferred*: all were idle when a packet passed. The charge of this packet is stored beside the
//!   fast rule ([`DeferredCharge`]); the buckets hold a mark and the limits instead.
//! - *Busy*: the `due` time of a bucket is in the future. The charges are in the buckets.
//!
//! ```text
//!        defer               settle: somebody needs the buckets
//! idle ────────▶ deferred ───────────────────────────────────▶ busy or idle
//!   ▲               ▲  │ add: a packet of the same moment, or while none is idle
//!   │               └──┘ restart: a packet after all became idle again
//!   └────────────────────────────── time ─────────────────────── busy
//! ```
//!
//! Time alone does not end *deferred*: the next packet restarts the charge, or a caller settles it.
//!
//! Most packets find all buckets of their fast rule idle. Then the new state of the buckets depends
//! only on the packet's time and length and on the limits. So the time and the octets are stored
//! beside the rule, and the buckets are computed when they are needed. The next packet needs only
//! the bucket of the slowest rate: once this one is idle, all are. That takes one multiplication,
//! whether the rule has one bucket or two.
//!
//! | | idle | deferred | busy |
//! |---|---|---|---|
//! | [`DeferredCharge::try_charge_idle`] | | restart | |
//! | [`DeferredCharge::try_charge_at_once`] | | add | |
//! | [`DeferredCharge::try_charge`] | defer | add, or settle | charge |
//! | [`MeterPair::try_charge`], [`MeterPair::charge_waiting`] | charge | closed | charge |
//! | [`DeferredCharge::settle`] | | settle | |
//!
//! A bucket with a deferred charge looks closed to code that does not settle it first. When the
//! publisher resets a bucket, the deferred charge of this bucket is gone.
//!
//! Threads: the worker that owns the session reads and writes buckets and charges. The publisher
//!          reads the octets that passed ([`DeferredCharge::passed`]), sets limits, and resets
//!          buckets. `tests/loom_charging.rs` explores their interleavings.

use adit_rules::{Bucket, RateLimit, time_at_price};
use adit_types::Nanos;

use crate::counters::{Counter, READ_ATTEMPTS_MAX};
use crate::sync::{Ordering, fence};

/// How many buckets are in one cache line.
pub(crate) const BUCKETS_PER_LINE: usize = 2;

/// Value of `MeterCell::due` while a charge of the bucket is deferred ([`DeferredCharge`]). Times
/// are below 2^62 nanoseconds, so a bucket with this value has neither credit nor room for a packet
/// to wait.
const DEFERRED: u64 = 1 << 63;

/// Highest price (time per octet) of deferred charges: greatest depth and longest packet together
/// take less than 2^64 units of 2^-24 ns at this price, about 950 bit/s, so no product overflows.
const PRICE_MAX: u64 = 1 << 47;

/// The state of the buckets of a fast rule. Charges of all its buckets are deferred together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BucketState {
    /// All buckets have had full credit since before now, and no charge is deferred.
    Idle,
    /// The charge of a bucket in the line is deferred.
    Deferred,
    /// The `due` time of a bucket is in the future.
    Busy,
}

#[derive(Debug, Default, Clone)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
pub(crate) struct MeterCell {
    /// See [`Bucket::due`], or [`DEFERRED`]. Unit: nanoseconds.
    pub(crate) due: Counter,
    /// See [`Bucket::fraction`], unit 2^-64 ns. While a charge is deferred: [`RateLimit::to_bits`]
    /// of the limit at that time.
    pub(crate) fraction: Counter,
    /// Octets that passed the bucket.
    pub(crate) passed: Counter,
    /// [`RateLimit::to_bits`] of the present limit. Written by the publisher.
    pub(crate) limit: Counter,
}

/// Two buckets of one direction.
#[derive(Debug, Default, Clone)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C, align(64))]
pub(crate) struct MeterLine(pub(crate) [MeterCell; BUCKETS_PER_LINE]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<MeterLine>() == 64, "one cache line");

/// The first two buckets of one direction of a session, with the limits stored next to them.
#[derive(Debug, Clone, Copy)]
pub struct MeterPair<'a>(&'a MeterLine);

impl<'a> MeterPair<'a> {
    #[inline]
    pub(crate) const fn of(line: &'a MeterLine) -> Self {
        Self(line)
    }

    #[inline]
    pub(crate) const fn line(self) -> &'a MeterLine {
        self.0
    }

    /// Charges a packet of `bytes` octets to the buckets `which` (bit n is bucket n) if all of them
    /// are open at `now`. Returns whether it did. For the worker that owns the session only. The
    /// buckets must be the session's own: none may be linked to a correlated rate.
    ///
    /// No fast rule has a limit [`RateLimit::CLOSED`]. But a worker that read its fast rule just
    /// before the publisher closed the limit may meet `CLOSED` here: then the packet may pass, and
    /// the bucket is charged as at the slowest rate.
    #[inline(never)]
    #[must_use]
    pub fn try_charge(self, which: u64, now: Nanos, bytes: u16) -> bool {
        let Self(MeterLine([first, second])) = self;
        match which {
            0 => true,
            1 | 2 => (if which == 1 { first } else { second }).try_charge(now, bytes),
            _ => self.try_charge_both(now, bytes),
        }
    }

    /// Does [`MeterPair::try_charge`] with both buckets.
    // PERF (adit-bench datapath --rates police): once per packet. Idle buckets, which are open, are
    // charged in place; their depth and fraction are not read.
    #[inline(always)]
    #[must_use]
    pub fn try_charge_both(self, now: Nanos, bytes: u16) -> bool {
        let Self(MeterLine([first, second])) = self;
        if first.is_idle(now) && second.is_idle(now) {
            first.charge_idle(now, bytes);
            second.charge_idle(now, bytes);
            return true;
        }
        self.try_charge_busy(now, bytes)
    }

    /// Does [`MeterPair::try_charge_both`] with buckets that may not be idle.
    // PERF (adit-bench datapath --rates police): reads both buckets before it branches, so that
    // each word is loaded once. Cold, so that the packet loop keeps its values in registers.
    #[cold]
    #[inline(never)]
    fn try_charge_busy(self, now: Nanos, bytes: u16) -> bool {
        let Self(MeterLine([first, second])) = self;
        let (a, b) = (first.peek(now), second.peek(now));
        // The OR is negative if either room is.
        if a.room | b.room < 0 {
            return false;
        }
        first.charge_peeked(&a, now, bytes);
        second.charge_peeked(&b, now, bytes);
        true
    }

    /// Returns whether the buckets `which` are open at `now`; the error is the time when they open.
    /// `None` if one of their limits is [`RateLimit::CLOSED`]. Forgives debt that dates from
    /// previous limits. The buckets must be the session's own.
    #[inline(never)]
    #[must_use]
    pub fn check_open(self, which: u64, now: Nanos) -> Option<Result<(), Nanos>> {
        let Self(MeterLine(cells)) = self;
        let mut opens = Nanos(0);
        for (_, cell) in (0..).zip(cells).filter(|(at, _)| which >> at & 1 != 0) {
            let (limit, bucket) = (cell.limit(), cell.bucket());
            let settled = bucket.without_former_debt(limit, now);
            let at = settled.opens_at(limit)?;
            if settled != bucket {
                cell.set(settled);
            }
            opens = opens.max(at);
        }
        Some(if opens <= now { Ok(()) } else { Err(opens) })
    }

    /// Charges a packet that waited, of `bytes` octets, to the buckets `which` if all of them are
    /// open at `now`. Returns the least [`Bucket::room`] that is left, negative if a bucket is
    /// closed then. `None` if it did not charge, which includes that [`MeterPair::check_open`]
    /// would forgive debt first. The buckets must be the session's own.
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): once per packet that leaves its queue; straight-line
    // code, so that its values stay in registers.
    #[must_use]
    pub fn charge_waiting(self, which: u64, now: Nanos, bytes: u16) -> Option<i64> {
        let Self(MeterLine([first, second])) = self;
        if which == 3 {
            let (a, b) = (first.peek(now), second.peek(now));
            if a.room | b.room < 0 || a.limit == RateLimit::CLOSED || b.limit == RateLimit::CLOSED {
                return None;
            }
            let a = first.charge_peeked(&a, now, bytes);
            let b = second.charge_peeked(&b, now, bytes);
            return Some(a.min(b));
        }
        let cell = match which {
            1 => first,
            2 => second,
            _ => return None,
        };
        let peeked = cell.peek(now);
        if peeked.room < 0 || peeked.limit == RateLimit::CLOSED {
            return None;
        }
        Some(cell.charge_peeked(&peeked, now, bytes))
    }

    /// True if a packet may wait for the buckets `which`: each is open at `now`, or its limit
    /// shapes. False for [`RateLimit::CLOSED`], and if a bucket has debt from a previous limit:
    /// then the stages process the packet, and [`Meter::is_open`] forgives the debt.
    // PERF (adit-bench datapath --rates wait): once per packet that waits.
    #[inline(always)]
    #[must_use]
    pub fn can_wait(self, which: u64, now: Nanos) -> bool {
        let Self(MeterLine([first, second])) = self;
        (which & 1 == 0 || first.admits_waiting(now))
            && (which & 2 == 0 || second.admits_waiting(now))
    }
}

impl MeterLine {
    /// Returns the state of the buckets `which`.
    fn state(&self, which: u64, now: Nanos) -> BucketState {
        match self.is_deferred() {
            true => BucketState::Deferred,
            false if self.used(which).all(|cell| cell.is_idle(now)) => BucketState::Idle,
            false => BucketState::Busy,
        }
    }

    /// The buckets `which`.
    fn used(&self, which: u64) -> impl Iterator<Item = &MeterCell> {
        let Self(cells) = self;
        cells.iter().enumerate().filter(move |(at, _)| which >> at & 1 != 0).map(|(_, cell)| cell)
    }

    /// True if a charge of one of the buckets is deferred.
    #[inline]
    pub(crate) fn is_deferred(&self) -> bool {
        let Self([first, second]) = self;
        // PERF (adit-bench datapath --rates wait): one branch for both.
        (first.due.load() | second.due.load()).cast_signed() < 0
    }
}

impl MeterCell {
    /// Marks that a charge of the bucket by its present limit is deferred.
    #[inline]
    fn defer(&self) {
        self.fraction.set(self.limit.load());
        self.due.set(DEFERRED);
    }

    /// Returns the limit of the bucket's deferred charge, or `None` if no charge is deferred.
    #[inline]
    fn deferred_limit(&self) -> Option<RateLimit> {
        self.is_deferred().then(|| RateLimit::from_bits(self.fraction.load()))
    }

    /// True if a charge of the bucket is deferred.
    #[inline]
    pub(crate) fn is_deferred(&self) -> bool {
        self.due.load() == DEFERRED
    }

    #[inline]
    pub(crate) fn bucket(&self) -> Bucket {
        Bucket { due: self.due.load(), fraction: self.fraction.load() }
    }

    /// See [`MeterPair::can_wait`].
    #[inline(always)]
    // PERF (adit-bench datapath --rates wait): once per packet, as its caller.
    fn admits_waiting(&self, now: Nanos) -> bool {
        // The fraction, less than a nanosecond, does not matter.
        Bucket { due: self.due.load(), fraction: 0 }.admits_waiting(self.limit(), now)
    }

    /// True if `due` is before `now`: the bucket has all its credit.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet, as its caller.
    pub(crate) fn is_idle(&self, now: Nanos) -> bool {
        self.due.load() < now.0
    }

    /// Charges a packet of `bytes` octets to a bucket that is idle.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet, as its caller.
    fn charge_idle(&self, now: Nanos, bytes: u16) {
        self.commit(Bucket::after_idle(self.limit(), now, u64::from(bytes)), bytes);
    }

    /// See [`MeterPair::try_charge`].
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet, as its caller.
    fn try_charge(&self, now: Nanos, bytes: u16) -> bool {
        if self.is_idle(now) {
            self.charge_idle(now, bytes);
            return true;
        }
        self.try_charge_busy(now, bytes)
    }

    /// Does [`MeterCell::try_charge`] with a bucket that may not be idle.
    #[inline]
    fn try_charge_busy(&self, now: Nanos, bytes: u16) -> bool {
        let peeked = self.peek(now);
        if peeked.room < 0 {
            return false;
        }
        self.charge_peeked(&peeked, now, bytes);
        true
    }

    /// Reads the bucket and its limit, and computes its room at `now`.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet, as its caller.
    fn peek(&self, now: Nanos) -> PeekedBucket {
        let (bucket, limit) = (self.bucket(), self.limit());
        PeekedBucket { room: bucket.room(limit, now), bucket, limit }
    }

    /// Charges a packet of `bytes` octets to a bucket after a peek. Returns the [`Bucket::room`]
    /// that is left.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet, as its caller.
    fn charge_peeked(&self, peeked: &PeekedBucket, now: Nanos, bytes: u16) -> i64 {
        let after = peeked.bucket.after_unsaturated(peeked.limit, now, bytes);
        self.commit(after, bytes);
        after.room(peeked.limit, now)
    }

    #[inline]
    pub(crate) fn limit(&self) -> RateLimit {
        RateLimit::from_bits(self.limit.load())
    }

    #[inline]
    pub(crate) fn set(&self, Bucket { due, fraction }: Bucket) {
        self.due.set(due);
        self.fraction.set(fraction);
    }

    /// Charges a packet of `bytes` octets, whether or not the bucket is open.
    #[inline]
    pub(crate) fn charge(&self, limit: RateLimit, now: Nanos, bytes: u16) {
        self.commit(self.bucket().after(limit, now, bytes), bytes);
    }

    /// Stores the bucket `after` a packet of `bytes` octets, and counts the octets.
    #[inline]
    pub(crate) fn commit(&self, after: Bucket, bytes: u16) {
        self.set(after);
        self.passed.add(u64::from(bytes));
    }
}

/// A bucket as it was read, with its limit and its room at that time.
struct PeekedBucket {
    /// See [`Bucket::room`].
    room: i64,
    bucket: Bucket,
    limit: RateLimit,
}

/// A fast rule, and the buckets that its packets are charged to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChargedRule {
    /// The head of the fast rule's cell.
    pub head: u64,
    /// The buckets that the rule's packets have to pass; bit n is bucket n.
    pub which: u64,
}

/// A packet's charge that is tried on copies of the buckets.
#[derive(Debug, Clone, Copy)]
pub struct TrialCharge {
    /// The head of the cell with the packet's fast rule; `None` if SDF filters selected the rule.
    pub flags: Option<u64>,
    /// The buckets to charge: bit n is bucket n.
    pub buckets: u64,
    /// The packet's octets.
    pub bytes: u16,
}

/// A charge to the buckets of one fast rule that is not written to them yet.
#[derive(Debug, Default, Clone)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
pub(crate) struct DeferredCharge {
    /// The head of the fast rule's cell; zero if nothing is deferred.
    head: Counter,
    /// When the first packet passed, with all buckets idle. Unit: nanoseconds.
    since: Counter,
    /// Octets of the packets from `since` on.
    octets: Counter,
    /// The price (time per octet) of the slowest rate.
    price: Counter,
    /// The least depth of the buckets. Unit: nanoseconds.
    depth: Counter,
    /// Octets that passed since the first charge was deferred: the buckets do not count them yet.
    passed: Counter,
}

impl DeferredCharge {
    /// Charges a packet of `bytes` octets of the fast rule with `head` if a charge of this rule is
    /// deferred and all its buckets are idle again at `now`. Returns whether it did.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): once per packet with buckets.
    pub(crate) fn try_charge_idle(&self, head: u64, now: Nanos, bytes: u16) -> bool {
        if self.head.load() != head || self.since.load().wrapping_add(self.time().0) >= now.0 {
            return false;
        }
        self.charge(now, bytes);
        true
    }

    /// Charges a packet of `bytes` octets of the fast rule with `head` if a charge of this rule was
    /// deferred at this same `now`, and even the bucket of the least depth has room. Returns
    /// whether it did.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): most packets with busy buckets follow others of
    // their session in the burst.
    pub(crate) fn try_charge_at_once(&self, head: u64, now: Nanos, bytes: u16) -> bool {
        if self.head.load() != head
            || self.since.load() != now.0
            || self.time().0 > self.depth.load()
        {
            return false;
        }
        self.add(bytes);
        true
    }

    /// Charges a packet of `bytes` octets of `rule` to its buckets if all of them are open at
    /// `now`. Returns whether it did. Defers the charge if the buckets were idle. After `false`, no
    /// charge is deferred.
    pub(crate) fn try_charge(
        &self,
        pair: MeterPair<'_>,
        rule: ChargedRule,
        now: Nanos,
        bytes: u16,
    ) -> bool {
        let line = pair.line();
        match line.state(rule.which, now) {
            BucketState::Deferred => {
                if self.head.load() == rule.head && self.try_add(line, now, bytes) {
                    return true;
                }
                self.settle(line);
                // Idle or busy now.
                self.try_charge(pair, rule, now, bytes)
            }
            BucketState::Idle if self.try_defer(line, rule, now, bytes) => true,
            BucketState::Idle | BucketState::Busy => pair.try_charge(rule.which, now, bytes),
        }
    }

    /// True if a packet would be charged, at once or after a deferred charge is written. Tries it
    /// on copies. For the worker that owns the session only.
    pub(crate) fn would_charge(
        &self,
        pair: MeterPair<'_>,
        TrialCharge { flags, buckets, bytes }: TrialCharge,
        now: Nanos,
    ) -> bool {
        let (charge, line) = (self.clone(), pair.line().clone());
        let rule = ChargedRule { head: flags.unwrap_or_default(), which: buckets };
        flags.is_some_and(|head| {
            charge.try_charge_idle(head, now, bytes) || charge.try_charge_at_once(head, now, bytes)
        }) || charge.try_charge(MeterPair::of(&line), rule, now, bytes)
    }

    #[inline(always)]
    // PERF (adit-bench datapath --rates police): part of [`DeferredCharge::try_charge_idle`].
    fn charge(&self, now: Nanos, bytes: u16) {
        let bytes = u64::from(bytes);
        self.since.set(now.0);
        self.octets.set(bytes);
        self.passed.add(bytes);
    }

    #[inline(always)]
    // PERF (adit-bench datapath --rates police): part of [`DeferredCharge::try_charge_at_once`].
    fn add(&self, bytes: u16) {
        self.octets.add(u64::from(bytes));
        self.passed.add(u64::from(bytes));
    }

    /// Returns the time that the deferred octets take at the slowest rate.
    #[inline(always)]
    // PERF (adit-bench datapath --rates police): part of [`DeferredCharge::try_charge_idle`].
    fn time(&self) -> Nanos {
        time_at_price(self.price.load(), self.octets.load())
    }

    /// Adds a packet to the deferred charge if the buckets are open but not idle; else false.
    fn try_add(&self, line: &MeterLine, now: Nanos, bytes: u16) -> bool {
        let is_busy_and_open = |limit: RateLimit| {
            let bucket = self.bucket(limit);
            bucket.due >= now.0 && bucket.room(limit, now) >= 0
        };
        let octets = self.octets.load() + u64::from(bytes);
        let is_representable = self.price.load().checked_mul(octets).is_some();
        let MeterLine(cells) = line;
        if !is_representable
            || !cells.iter().filter_map(MeterCell::deferred_limit).all(is_busy_and_open)
        {
            return false;
        }
        self.add(bytes);
        true
    }

    /// Defers the charge of a packet to the buckets of `rule`, which are idle. Returns whether it
    /// did: not if a limit is closed or slower than [`PRICE_MAX`], or without buckets.
    fn try_defer(&self, line: &MeterLine, rule: ChargedRule, now: Nanos, bytes: u16) -> bool {
        let ChargedRule { head, which } = rule;
        let limits = || line.used(which).map(MeterCell::limit);
        let price = limits().map(RateLimit::price).max();
        // The price of a closed limit is the highest.
        let Some(price) = price.filter(|price| *price <= PRICE_MAX) else { return false };
        let depth = limits().map(RateLimit::depth).min().unwrap_or_default();
        // Drops octets of an earlier charge whose buckets were all reset.
        self.passed.set(0);
        line.used(which).for_each(MeterCell::defer);
        self.price.set(price);
        self.depth.set(depth.0);
        // See `DeferredCharge::read_passed`.
        fence(Ordering::Release);
        self.head.set(head);
        self.charge(now, bytes);
        true
    }

    /// Writes a deferred charge to the buckets.
    #[cold]
    pub(crate) fn settle(&self, MeterLine(cells): &MeterLine) {
        let passed = self.passed.load();
        // See `DeferredCharge::read_passed`.
        self.head.set(0);
        fence(Ordering::Release);
        for cell in cells {
            if let Some(limit) = cell.deferred_limit() {
                cell.passed.add(passed);
                fence(Ordering::Release);
                cell.set(self.bucket(limit));
            }
        }
        fence(Ordering::Release);
        self.passed.set(0);
    }

    /// Returns the octets that passed the bucket of `cell`, with deferred ones. For any thread:
    /// retries while the worker moves octets from here to the bucket.
    pub(crate) fn passed(&self, cell: &MeterCell) -> u64 {
        let mut sum = 0;
        for _ in 0..READ_ATTEMPTS_MAX {
            match self.read_passed(cell) {
                Ok(sum) => return sum,
                Err(torn) => sum = torn,
            }
        }
        sum
    }

    /// Does [`DeferredCharge::passed`] in one attempt. The sum includes all octets that passed
    /// before the call, and none that pass after it returns. The error is a sum that may lack
    /// octets, or count some twice.
    pub(crate) fn read_passed(&self, cell: &MeterCell) -> Result<u64, u64> {
        let head = self.head.load();
        fence(Ordering::Acquire);
        let (is_deferred, deferred) = (cell.is_deferred(), self.passed.load());
        fence(Ordering::Acquire);
        let sum = cell.passed.load().wrapping_add(if is_deferred { deferred } else { 0 });
        fence(Ordering::Acquire);
        let is_same_charge = head == self.head.load();
        fence(Ordering::Acquire);
        let is_moving = is_deferred && head == 0;
        // The same rule may have deferred another charge meanwhile. Unless the new charge is
        // smaller, the sum does not exceed the octets that passed.
        let has_moved = is_deferred != cell.is_deferred() || self.passed.load() < deferred;
        let is_whole = is_same_charge && !is_moving && !has_moved;
        if is_whole { Ok(sum) } else { Err(sum) }
    }

    /// Returns the bucket as it is after the deferred charge.
    fn bucket(&self, limit: RateLimit) -> Bucket {
        Bucket::after_idle(limit, Nanos(self.since.load()), self.octets.load())
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
#[path = "charging/tests.rs"]
mod tests;
