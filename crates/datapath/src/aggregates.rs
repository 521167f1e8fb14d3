//! Charges packets to aggregates: the rate of the packet's slice, and the rate of all sessions.
//!
//! Aggregates never stop guaranteed packets: these pass and are charged, so the other packets get
//! the rest. If a transmit queue is full, guaranteed packets wait in [`crate::tx_backlog`], which
//! has a limit.
//!
//! Other packets pass while the aggregates are open. If a closed aggregate polices, arriving
//! packets are dropped; if it shapes, flows take turns. A packet that already waits in a queue is
//! never dropped because of an aggregate.

use crate::shaper::{RateSet, TurnContext};
use adit_rules::{Excess, Guarantee, PublishedPdr, PublishedRules};
use adit_tables::{ALL_SESSIONS, Aggregate, AggregateKey, Leases, Meter};
use adit_types::limits::SLICES_MAX;
use adit_types::{Direction, Nanos, SessionIndex, SliceId};

use crate::context::StepContext;

/// Bound of the aggregates' indexes: two directions of each slice, and of all sessions together.
#[allow(clippy::cast_possible_truncation, reason = "asserted")]
pub(crate) const AGGREGATES_MAX: u8 = 2 * (SLICES_MAX as u8 + 1);

const _: () = assert!(SLICES_MAX < 32, "a `RateSet` has 64 bits");

/// Determines how aggregates handle a packet: its slice and its guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AggregateTerms {
    pub slice: SliceId,
    pub guarantee: Guarantee,
}

/// An aggregate that blocks a packet: it is closed, or it is another flow's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockingRate {
    /// The index of the packet's first aggregate. The packet's flow waits in the ring of this one.
    pub ring_rate: u8,
    /// The index of the aggregate that blocks the packet.
    pub rate: u8,
    /// When that aggregate opens; now if it is another flow's turn.
    pub at: Nanos,
    /// Says whether the packet is queued or dropped.
    pub excess: Excess,
}

impl AggregateTerms {
    /// Returns the terms of packets of `pdr`; the guarantee is that of the first QER that has one.
    pub(crate) fn of(rules: &PublishedRules, pdr: &PublishedPdr, direction: Direction) -> Self {
        let meters = rules.qers_of(pdr).filter_map(|qer| qer.meter);
        let mut guarantees = meters.map(|meter| meter.guarantee(direction));
        let guarantee = guarantees.find(|of| *of != Guarantee::Nothing).unwrap_or_default();
        Self { slice: rules.slice(), guarantee }
    }

    /// Encodes the terms as a number: zero without slice and guarantee. Bits 8..16 are the
    /// guarantee (0 nothing, 1 everything, else 2 + the bucket's index), bits 0..8 the slice.
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

    /// Returns the aggregates of one direction: first the slice's, then that of all sessions.
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
    /// open, and it is no other flow's turn. Ignores guarantees. May take leases of the aggregates.
    ///
    /// # Errors
    /// Returns the first aggregate that the packet has to wait for.
    pub(crate) fn check_open(
        self,
        ctx: &StepContext<'_>,
        leases: &mut Leases,
        direction: Direction,
        turn: TurnContext,
    ) -> Result<(), BlockingRate> {
        let mut first = None;
        for (key, aggregate) in self.aggregates(ctx, direction) {
            let rate = aggregate_index(key);
            let ring_rate = *first.get_or_insert(rate);
            let excess = aggregate.limit().excess();
            // If `turn` is of the ring of all sessions, this is also the turn of the slice's ring
            // that is served within it.
            let has_turn = turn.rate == Some(rate)
                || turn.rate == Some(aggregate_index(AggregateKey { slice: ALL_SESSIONS, ..key }));
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

    /// Returns the bucket of the guarantee. `None` if the guarantee has no bucket, or if it is
    /// closed.
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

    /// Charges a packet of `bytes` octets to the bucket of the guarantee if there is one and it is
    /// open. Returns whether the packet is guaranteed: the bucket was open, or all is guaranteed.
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

/// Returns the context of a packet that arrives while flows wait for the rates `contended`.
pub(crate) const fn turn_of_arrival(contended: RateSet) -> TurnContext {
    TurnContext { rate: None, contended }
}

/// Returns the index of an aggregate: bit 0 is the direction, above it the slice.
const fn aggregate_index(key: AggregateKey) -> u8 {
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
        let last =
            aggregate_index(AggregateKey { slice: SliceId(15), direction: Direction::Downlink });
        assert_eq!(last, AGGREGATES_MAX - 1);
    }
}
