//! The aggregates that a packet passes: the rate of its slice, and that of all sessions.
//!
//! They never stop guaranteed packets: these pass and are charged, so the other packets get the
//! rest. If a transmit queue is full, guaranteed packets wait in [`crate::tx_backlog`], which has a
//! limit.
//!
//! Other packets pass while the aggregates are open. If a closed aggregate polices, arriving
//! packets are dropped; if it shapes, flows take turns. A queue that already waits is never dropped
//! for an aggregate.

use crate::shaper::{RateSet, TurnContext};
use adit_rules::{Excess, Guarantee, PublishedPdr, PublishedRules};
use adit_tables::{ALL_SESSIONS, Aggregate, AggregateKey, Leases, Meter};
use adit_types::limits::SLICES_MAX;
use adit_types::{Direction, Nanos, SessionIndex, SliceId};

use crate::context::StepContext;

/// How many numbers aggregates have: two directions of each slice, and of all sessions together.
#[allow(clippy::cast_possible_truncation, reason = "asserted")]
pub(crate) const AGGREGATE_RATES: u8 = 2 * (SLICES_MAX as u8 + 1);

const _: () = assert!(SLICES_MAX < 32, "a `RateSet` has 64 bits");

/// The terms by which a packet passes the aggregates: its slice and its guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AggregateTerms {
    pub slice: SliceId,
    pub guarantee: Guarantee,
}

/// The rate that blocks a packet: it is closed, or other flows have their turn first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockingRate {
    /// The number of the packet's first aggregate, in whose ring its flow waits.
    pub ring_rate: u8,
    /// The number of the aggregate that blocks it.
    pub rate: u8,
    /// When that opens; now if other flows have their turn first.
    pub at: Nanos,
    /// Whether the packet is queued or dropped.
    pub excess: Excess,
}

impl AggregateTerms {
    /// The terms of packets of `pdr`; the guarantee is that of the first QER that has one.
    pub(crate) fn of(rules: &PublishedRules, pdr: &PublishedPdr, direction: Direction) -> Self {
        let meters = rules.qers_of(pdr).filter_map(|qer| qer.meter);
        let mut guarantees = meters.map(|meter| meter.guarantee(direction));
        let guarantee = guarantees.find(|of| *of != Guarantee::Nothing).unwrap_or_default();
        Self { slice: rules.slice(), guarantee }
    }

    /// The terms as a number: zero without slice and guarantee. Bits 8..16 are the guarantee (0
    /// nothing, 1 whole, otherwise 2 + its bucket), bits 0..8 the slice.
    #[inline]
    pub(crate) const fn tag(self) -> u16 {
        let guarantee = match self.guarantee {
            Guarantee::Nothing => 0,
            Guarantee::Whole => 1,
            Guarantee::Bucket(bucket) => 2 + bucket as u16,
        };
        guarantee << 8 | self.slice.0 as u16
    }

    /// The inverse of [`AggregateTerms::tag`].
    pub(crate) const fn of_tag(tag: u16) -> Self {
        let [slice, guarantee] = tag.to_le_bytes();
        let guarantee = match guarantee {
            0 => Guarantee::Nothing,
            1 => Guarantee::Whole,
            bucket => Guarantee::Bucket(bucket - 2),
        };
        Self { slice: SliceId(slice), guarantee }
    }

    /// The aggregates of one direction: the slice's first, then that of all sessions.
    fn aggregates<'v>(
        self,
        ctx: &StepContext<'v>,
        direction: Direction,
    ) -> impl Iterator<Item = (AggregateKey, &'v Aggregate)> {
        let aggregates = ctx.view.aggregates();
        let own = Some(self.slice).filter(|slice| *slice != ALL_SESSIONS);
        let keys = own.into_iter().chain([ALL_SESSIONS]);
        let keys = keys.map(move |slice| AggregateKey { slice, direction });
        keys.filter_map(move |key| Some((key, aggregates.get(key)?)))
    }

    /// Checks whether the aggregates admit a packet of a flow that has the turn `turn`: they are
    /// open, and no other flow has its turn first. Guarantees do not matter here. Takes leases.
    ///
    /// # Errors
    /// The first aggregate that the packet has to wait for.
    pub(crate) fn check_open(
        self,
        ctx: &StepContext<'_>,
        leases: &mut Leases,
        direction: Direction,
        turn: TurnContext,
    ) -> Result<(), BlockingRate> {
        let mut first = None;
        for (key, aggregate) in self.aggregates(ctx, direction) {
            let rate = number(key);
            let ring_rate = *first.get_or_insert(rate);
            let excess = aggregate.limit().excess();
            // When the ring of all sessions has the turn, so does the slice's ring that is served
            // in it.
            let has_turn = turn.rate == Some(rate)
                || turn.rate == Some(number(AggregateKey { slice: ALL_SESSIONS, ..key }));
            if turn.contended.contains(rate) && !has_turn {
                return Err(BlockingRate { ring_rate, rate, at: ctx.now, excess });
            }
            let opened = leases.check_open(aggregate, key, ctx.now);
            opened.map_err(|at| BlockingRate { ring_rate, rate, at, excess })?;
        }
        Ok(())
    }

    /// Charges a packet of `bytes` octets to the aggregates.
    #[inline]
    pub(crate) fn charge(
        self,
        ctx: &StepContext<'_>,
        leases: &mut Leases,
        direction: Direction,
        bytes: u16,
    ) {
        let key = AggregateKey { slice: self.slice, direction };
        leases.charge(ctx.view.aggregates(), key, ctx.now, bytes);
    }

    /// The bucket of its guarantee, if it has one of its own and that is open.
    fn open_guarantee<'v>(
        self,
        ctx: &StepContext<'v>,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<Meter<'v>> {
        let Guarantee::Bucket(bucket) = self.guarantee else { return None };
        let meter = ctx.view.meter(session, direction, bucket)?;
        meter.is_open(meter.limit(), ctx.now).then_some(meter)
    }

    /// True if a packet is guaranteed, provided that its other buckets admit it.
    #[inline]
    pub(crate) fn is_guaranteed(
        self,
        ctx: &StepContext<'_>,
        session: SessionIndex,
        direction: Direction,
    ) -> bool {
        match self.guarantee {
            Guarantee::Nothing => false,
            Guarantee::Whole => true,
            Guarantee::Bucket(_) => self.open_guarantee(ctx, session, direction).is_some(),
        }
    }

    /// Charges a packet of `bytes` octets to its guarantee if that has a bucket and it is open.
    /// Returns whether the packet is guaranteed: that bucket was open, or everything is guaranteed.
    #[inline]
    pub(crate) fn charge_guarantee(
        self,
        ctx: &StepContext<'_>,
        session: SessionIndex,
        direction: Direction,
        bytes: u16,
    ) -> bool {
        let Guarantee::Bucket(_) = self.guarantee else {
            return self.guarantee == Guarantee::Whole;
        };
        let meter = self.open_guarantee(ctx, session, direction);
        meter.inspect(|meter| meter.charge(meter.limit(), ctx.now, bytes)).is_some()
    }
}

/// The context of a packet that arrives while flows wait for the rates `contended`.
pub(crate) const fn arriving(contended: RateSet) -> TurnContext {
    TurnContext { rate: None, contended }
}

/// The number of an aggregate: bit 0 is the direction, above it the slice.
const fn number(key: AggregateKey) -> u8 {
    key.slice.0 << 1 | key.direction as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_round_trips() {
        for guarantee in [Guarantee::Nothing, Guarantee::Whole, Guarantee::Bucket(63)] {
            for slice in [0, 15] {
                let terms = AggregateTerms { slice: SliceId(slice), guarantee };
                assert_eq!(AggregateTerms::of_tag(terms.tag()), terms);
            }
        }
        let nothing = AggregateTerms { slice: ALL_SESSIONS, guarantee: Guarantee::Nothing };
        assert_eq!(nothing.tag(), 0);
        let last = number(AggregateKey { slice: SliceId(15), direction: Direction::Downlink });
        assert_eq!(last, AGGREGATE_RATES - 1);
    }
}
