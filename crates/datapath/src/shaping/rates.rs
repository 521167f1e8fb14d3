//! The rates that a queue waits for: when they admit its next packet, and how they are charged.

use crate::shaper::{Eligibility, QueueKey, RingWait, SLOT_WIDTH, TurnContext};
use adit_rules::{
    Excess, FAST_RULE_METERS_MAX, Guarantee, PublishedPdr, PublishedRules, RateLimit,
};
use adit_tables::{Leases, Meter, MeterPair, TablesView, WaitCounts};
use adit_types::{Direction, Nanos, SessionIndex};

use crate::aggregates::{AggregateTerms, BlockingRate};
use crate::columns::Matched;
use crate::context::StepContext;

/// After a packet, a queue waits one slot for each QER that shares its correlated rate, at most 32
/// slots (1.05 ms). A bucket that is deeper than that makes up for the wait; a shallower one
/// loses rate.
const SHARERS_AHEAD_MAX: u64 = 32;

/// Returns the buckets that a packet has to pass, with their limits by its rules.
#[inline]
pub(crate) fn buckets<'m>(matched: &'m Matched<'_>) -> impl Iterator<Item = (RateLimit, u8)> + 'm {
    buckets_of(matched.rules, matched.pdr, matched.direction)
}

#[inline]
fn buckets_of<'m>(
    rules: &'m PublishedRules,
    pdr: &'m PublishedPdr,
    direction: Direction,
) -> impl Iterator<Item = (RateLimit, u8)> + 'm {
    let meters = rules.qers_of(pdr).filter_map(|qer| qer.meter);
    let limits = meters.map(move |meter| (meter.limit(direction), meter.bucket));
    limits.filter(|(limit, _)| *limit != RateLimit::UNLIMITED)
}

/// Returns the key of the queue that a packet waits in.
pub(crate) fn queue_key(session: SessionIndex, matched: &Matched<'_>) -> QueueKey {
    queue_key_of(session, matched.rules, matched.pdr, matched.direction)
}

/// Returns the key of the queue that packets of a PDR wait in.
pub(super) fn queue_key_of(
    session: SessionIndex,
    rules: &PublishedRules,
    pdr: &PublishedPdr,
    direction: Direction,
) -> QueueKey {
    let buckets =
        buckets_of(rules, pdr, direction).fold(0, |set, (_, bucket)| set | 1 << (bucket % 64));
    QueueKey { session, direction, buckets, tag: AggregateTerms::of(rules, pdr, direction).tag() }
}

/// Returns the buckets of a queue. Buckets beyond the second one are created when any session first
/// needs them, and stay.
#[inline]
pub(super) fn meters<'v>(view: &TablesView<'v>, key: QueueKey) -> impl Iterator<Item = Meter<'v>> {
    let QueueKey { session, direction, mut buckets, tag: _ } = key;
    core::iter::from_fn(move || {
        while buckets != 0 {
            let number = u8::try_from(buckets.trailing_zeros()).unwrap_or_default();
            buckets &= buckets - 1;
            if let Some(meter) = view.meter(session, direction, number) {
                return Some(meter);
            }
        }
        None
    })
}

/// Returns the counters of packets that wait for the first bucket of a queue, if it has a bucket.
#[inline]
pub(super) fn wait_counts<'v>(view: &TablesView<'v>, key: QueueKey) -> Option<WaitCounts<'v>> {
    match key.buckets {
        0 => None,
        // The first bucket is in the first pair, whose counters one lookup finds.
        which if which < 1 << FAST_RULE_METERS_MAX => {
            view.wait_counts(key.session, key.direction, which)
        }
        _ => meters(view, key).next().map(|meter| meter.wait_counts()),
    }
}

/// Which kinds of rates that several sessions or QERs share are in use.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharingInUse {
    /// True if aggregates are configured.
    pub aggregates: bool,
    /// True if any session has had a correlated rate since the start.
    pub correlated_rates: bool,
}

impl SharingInUse {
    #[inline]
    pub(super) fn of(ctx: &StepContext<'_>) -> Self {
        let aggregates = !ctx.view.aggregates().is_empty();
        Self { aggregates, correlated_rates: ctx.view.has_correlated_rates() }
    }
}

/// True if the bits of `buckets` are one or both of the session's first two buckets.
#[inline]
const fn has_only_first_pair(buckets: u64) -> bool {
    buckets.wrapping_sub(1) < (1 << FAST_RULE_METERS_MAX) - 1
}

/// Returns the first two buckets of a queue if they alone limit it: no aggregate is configured, and
/// the queue has no other bucket, no guarantee bucket and no correlated rate.
#[inline(always)]
// PERF (adit-bench datapath --rates wait): inlined, runs in every turn.
pub(super) fn own_pair<'v>(
    ctx: &StepContext<'v>,
    key: QueueKey,
    sharing: SharingInUse,
) -> Option<MeterPair<'v>> {
    if sharing.aggregates
        || matches!(AggregateTerms::of_tag(key.tag).guarantee, Guarantee::Bucket(_))
        || !has_only_first_pair(key.buckets)
        || sharing.correlated_rates && sharers(ctx, key) > 0
    {
        return None;
    }
    ctx.view.meter_pair(key.session, key.direction)
}

/// Returns when the first packet of a new queue may leave. Same as [`eligibility`], but with only
/// one lookup if the queue has an [`own_pair`].
pub(super) fn first_eligibility(
    ctx: &StepContext<'_>,
    leases: &mut Leases,
    key: QueueKey,
    turn: TurnContext,
) -> Eligibility {
    let pair = own_pair(ctx, key, SharingInUse::of(ctx));
    match pair.and_then(|pair| pair.check_open(key.buckets, ctx.now)) {
        Some(Ok(())) => Eligibility::Now,
        Some(Err(at)) => Eligibility::At(at),
        None => eligibility(ctx, leases, key, turn),
    }
}

/// Returns when the next packet of a queue may leave, by the present limits. Takes leases of
/// aggregates, and forgives debt from previous limits. Charges nothing.
pub(super) fn eligibility(
    ctx: &StepContext<'_>,
    leases: &mut Leases,
    key: QueueKey,
    turn: TurnContext,
) -> Eligibility {
    let mut own = Eligibility::Now;
    for meter in meters(&ctx.view, key) {
        let limit = meter.limit();
        if meter.is_open(limit, ctx.now) {
            continue;
        }
        let Some(at) = meter.opens_at(limit, ctx.now) else { return Eligibility::Never };
        own = match own {
            Eligibility::At(other) => Eligibility::At(other.max(at)),
            _ => Eligibility::At(at),
        };
    }
    if own != Eligibility::Now || ctx.view.aggregates().is_empty() {
        return own;
    }
    let terms = AggregateTerms::of_tag(key.tag);
    let guarantee = guarantee_opens_at(ctx, key, terms);
    if guarantee.is_some_and(|at| at <= ctx.now) {
        return Eligibility::Now;
    }
    match (terms.check_open(ctx, leases, key.direction, turn), guarantee) {
        (Ok(()), _) => Eligibility::Now,
        // A queue above its guarantee wakes when its guarantee opens. A queue that a policing
        // aggregate blocks joins no ring: while a ring has members, arriving packets of other
        // queues are dropped.
        (Err(_), Some(at)) => Eligibility::At(at),
        (Err(BlockingRate { excess: Excess::Policed, at, .. }), None) => Eligibility::At(at),
        (Err(BlockingRate { ring_rate, rate, at, .. }), None) => {
            Eligibility::InTurn(RingWait { ring_rate, rate, at, quantum: quantum(ctx, key) })
        }
    }
}

/// Returns when the guarantee of a queue admits a packet; `None` if nothing is guaranteed.
fn guarantee_opens_at(
    ctx: &StepContext<'_>,
    key: QueueKey,
    terms: AggregateTerms,
) -> Option<Nanos> {
    match terms.guarantee {
        Guarantee::Nothing => None,
        Guarantee::Whole => Some(ctx.now),
        Guarantee::Bucket(bucket) => {
            let meter = ctx.view.meter(key.session, key.direction, bucket)?;
            let limit = meter.limit();
            if meter.is_open(limit, ctx.now) {
                Some(ctx.now)
            } else {
                meter.opens_at(limit, ctx.now)
            }
        }
    }
}

/// Returns the quantum of a queue in the rounds of an aggregate: what its lowest rate admits in a
/// millisecond, at most 2^17. A queue without a rate counts as one of 100 Mb/s. Unit: octets.
fn quantum(ctx: &StepContext<'_>, key: QueueKey) -> u32 {
    const WITHOUT_RATE: u64 = 12_500;
    const MOST: u64 = 1 << 17;
    let quanta =
        meters(&ctx.view, key).map(|meter| meter.limit().bytes_within(Nanos::from_millis(1)));
    let quantum = quanta.min().unwrap_or(WITHOUT_RATE).min(MOST);
    u32::try_from(quantum).unwrap_or(u32::MAX)
}

/// Charges the buckets, aggregates and guarantee of a packet that leaves. Returns whether the
/// packet is guaranteed.
pub(super) fn charge(
    ctx: &StepContext<'_>,
    leases: &mut Leases,
    key: QueueKey,
    bytes: u16,
) -> bool {
    meters(&ctx.view, key).for_each(|meter| meter.charge(meter.limit(), ctx.now, bytes));
    let terms = AggregateTerms::of_tag(key.tag);
    terms.charge(ctx, leases, key.direction, bytes);
    terms.charge_guarantee(ctx, key.session, key.direction, bytes)
}

/// Returns how many QERs share the correlated rate of the queue's QER, including that QER. The
/// largest number if the queue has several correlated rates, zero if it has none.
fn sharers(ctx: &StepContext<'_>, key: QueueKey) -> u64 {
    meters(&ctx.view, key).filter_map(|meter| meter.sharers()).max().unwrap_or(0)
}

/// Returns when to serve a queue again that has just sent a packet. Its rates open at `at`. It
/// waits one slot more for each sharer of its correlated rate, so that sharers that have not sent
/// yet go first.
#[inline(never)]
pub(super) fn time_behind_sharers(ctx: &StepContext<'_>, key: QueueKey, at: Nanos) -> Nanos {
    at.max(ctx.now) + Nanos(SLOT_WIDTH.0 * sharers(ctx, key).min(SHARERS_AHEAD_MAX))
}
