//! Rates that a packet shares with other sessions: that of its slice, and that of all sessions.
//!
//! What is guaranteed is never held up by them: it passes, is charged, and the others wait for it. Nor
//! is it dropped for want of room in a transmit queue ([`crate::tx_backlog`]), whatever is shared.
//! The others pass while there is something left, and wait in turns otherwise.

use adit_rules::{Excess, Guarantee, PublishedPdr, PublishedRules};
use adit_shaper::{RateSet, TurnContext};
use adit_tables::{Aggregate, Leases, Meter};
use adit_types::limits::SLICES_MAX;
use adit_types::{Direction, Nanos, SessionIndex, SliceId};

use crate::context::StepContext;

/// Shared rates: two directions of each slice, and of all sessions together.
#[allow(clippy::cast_possible_truncation, reason = "asserted")]
pub(crate) const SHARED_RATES: u8 = 2 * (SLICES_MAX as u8 + 1);

const _: () = assert!(SLICES_MAX < 32);

/// What all sessions share.
const ALL: SliceId = SliceId(0);

/// What a packet shares, and what it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sharing {
    pub slice: SliceId,
    pub guarantee: Guarantee,
}

/// Why a packet does not pass yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosedRate {
    /// The number of the first shared rate.
    pub own_rate: u8,
    /// The number of the one that is closed.
    pub rate: u8,
    /// When that lets packets pass again.
    pub at: Nanos,
    /// What becomes of the packet.
    pub excess: Excess,
}

impl Sharing {
    /// What a packet shares by its rules.
    pub fn of(rules: &PublishedRules, pdr: &PublishedPdr, direction: Direction) -> Self {
        let meters = rules.qers_of(pdr).filter_map(|qer| qer.meter);
        let mut guarantees = meters.map(|meter| meter.guarantee(direction));
        let guarantee = guarantees.find(|of| *of != Guarantee::Nothing).unwrap_or_default();
        Self { slice: rules.slice(), guarantee }
    }

    /// The same as a number that is zero for what shares nothing of its own.
    #[inline]
    pub const fn tag(self) -> u16 {
        let guarantee = match self.guarantee {
            Guarantee::Nothing => 0,
            Guarantee::Whole => 1,
            Guarantee::Bucket(bucket) => 2 + bucket as u16,
        };
        guarantee << 8 | self.slice.0 as u16
    }

    /// What had this [`Sharing::tag`].
    pub const fn of_tag(tag: u16) -> Self {
        let [slice, guarantee] = tag.to_le_bytes();
        let guarantee = match guarantee {
            0 => Guarantee::Nothing,
            1 => Guarantee::Whole,
            bucket => Guarantee::Bucket(bucket - 2),
        };
        Self { slice: SliceId(slice), guarantee }
    }

    /// The shared rates of one direction, the slice's first.
    fn rates<'v>(
        self,
        ctx: &StepContext<'v>,
        direction: Direction,
    ) -> impl Iterator<Item = (SliceId, &'v Aggregate)> {
        let aggregates = ctx.view.aggregates();
        let own = Some(self.slice).filter(|slice| *slice != ALL);
        let levels = own.into_iter().chain([ALL]);
        levels.filter_map(move |level| Some((level, aggregates.get(level, direction)?)))
    }

    /// Tells whether a packet, whatever its guarantee, may pass the rates that it shares: they are
    /// open, and nobody waits whose turn is before that of its flow, which stands at `standing`.
    ///
    /// # Errors
    /// The first rate that it has to wait for.
    pub fn check_open(
        self,
        ctx: &StepContext<'_>,
        leases: &mut Leases,
        direction: Direction,
        standing: TurnContext,
    ) -> Result<(), ClosedRate> {
        let mut home = None;
        for (level, aggregate) in self.rates(ctx, direction) {
            let rate = number(level, direction);
            let home = *home.get_or_insert(rate);
            let excess = aggregate.limit().excess();
            // Whose turn it is at the second rate has had it at the first one.
            let had_turn =
                standing.rate == Some(rate) || standing.rate == Some(number(ALL, direction));
            if standing.contended.contains(rate) && !had_turn {
                return Err(ClosedRate { own_rate: home, rate, at: ctx.now, excess });
            }
            let opened = leases.check_open(aggregate, (level, direction), ctx.now);
            opened.map_err(|at| ClosedRate { own_rate: home, rate, at, excess })?;
        }
        Ok(())
    }

    /// Charges the rates that it shares with a packet of `bytes` octets that passes.
    pub fn charge(
        self,
        ctx: &StepContext<'_>,
        leases: &mut Leases,
        direction: Direction,
        bytes: u16,
    ) {
        for (level, aggregate) in self.rates(ctx, direction) {
            leases.charge(aggregate, (level, direction), ctx.now, bytes);
        }
    }

    /// The bucket of its guarantee, where that is apart and lets a packet pass.
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

    /// True when a packet is guaranteed that its other buckets let pass.
    #[inline]
    pub fn is_guaranteed(
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

    /// Charges its guarantee with a packet of `bytes` octets that passes. Returns whether the packet is
    /// guaranteed: there was something left.
    #[inline]
    pub fn charge_guarantee(
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
        meter.inspect(|meter| meter.pass(meter.limit(), ctx.now, bytes)).is_some()
    }
}

/// A packet that stands nowhere yet, while flows wait for `crowded`.
pub(crate) const fn arriving(crowded: RateSet) -> TurnContext {
    TurnContext { rate: None, contended: crowded }
}

/// The number of a shared rate.
const fn number(slice: SliceId, direction: Direction) -> u8 {
    slice.0 << 1 | direction as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_says_what_is_shared() {
        for guarantee in [Guarantee::Nothing, Guarantee::Whole, Guarantee::Bucket(63)] {
            for slice in [0, 15] {
                let sharing = Sharing { slice: SliceId(slice), guarantee };
                assert_eq!(Sharing::of_tag(sharing.tag()), sharing);
            }
        }
        let nothing = Sharing { slice: ALL, guarantee: Guarantee::Nothing };
        assert_eq!(nothing.tag(), 0);
        let last = number(SliceId(15), Direction::Downlink);
        assert_eq!(last, SHARED_RATES - 1);
    }
}
