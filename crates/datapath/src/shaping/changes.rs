//! Reviews the queues of a session when its rules change.

use crate::departures::Departures;
use crate::shaper::{QueueKey, QueuedPacket, ReviewOutcome};
use adit_pktio::PacketBuf;
use adit_rules::{PublishedPdr, PublishedRules};
use adit_tables::{NextRateChange, RateChange};
use adit_types::Direction;

use super::rates::queue_key_of;
use super::{ReadyFrame, Shaping, discard, send_unchecked};
use crate::context::StepContext;
use crate::tx_queues::FrameSender;

/// The moment of a step at which changes are reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReviewTime {
    /// At the beginning of a step: no packet is being processed, so the review of a change is
    /// final.
    StepBegin,
    /// In the middle of a step: packets that are being processed may still join queues by older
    /// rules, so the same changes are reviewed again at the beginning of the next step.
    MidStep,
}

impl<B: PacketBuf> Shaping<B> {
    /// True if rules with rates changed since the last review.
    #[inline]
    pub(crate) fn has_changes(&self, ctx: &StepContext<'_>) -> bool {
        ctx.view.rate_change_count() != self.rate_changes_seen
    }

    /// Reviews the queues of sessions whose rules changed. Packets of a queue that no PDR uses any
    /// more leave at once; packets of a queue whose PDRs all have closed gates, or whose session
    /// ended, are dropped; other queues are served by their new rates.
    ///
    /// Cost:    one load while nothing changed; per change, a load for each direction and the
    ///          packets that wait. If entries of the ring of changes were overwritten, all flows.
    /// Threads: the publisher writes a change before it swaps the rules, so a worker that sees new
    ///          rules also sees their change.
    #[inline]
    pub(crate) fn review_changes<Io: Departures<Buf = B>>(
        &mut self,
        ctx: &StepContext<'_>,
        sender: &mut FrameSender<'_, Io>,
        time: ReviewTime,
    ) {
        let count = ctx.view.rate_change_count();
        let is_begin = time == ReviewTime::StepBegin;
        if count == self.rate_changes_seen || self.is_empty() && !is_begin {
            return;
        }
        let seen = match self.is_empty() {
            // No packet waits: skip all changes whose rules are published.
            true => published_change_count(ctx, count),
            false => self.review_new_changes(ctx, sender),
        };
        if is_begin {
            self.rate_changes_seen = seen;
        }
    }

    /// Reviews the new changes. Returns how many changes have been reviewed since the start.
    #[cold]
    fn review_new_changes<Io: Departures<Buf = B>>(
        &mut self,
        ctx: &StepContext<'_>,
        sender: &mut FrameSender<'_, Io>,
    ) -> u64 {
        let Self { queues, leases, rate_changes_seen } = self;
        let mut seen = *rate_changes_seen;
        let review = |key: &QueueKey| match ctx.view.rules(key.session) {
            Some(rules) => review_queue(rules, *key),
            None => ReviewOutcome::Drop,
        };
        let mut take = |key: &QueueKey, may_leave, held: QueuedPacket<ReadyFrame<B>>| {
            if may_leave {
                send_unchecked(ctx, leases, sender, *key, held);
            } else {
                discard(ctx, sender.tally, *key, &held);
            }
        };
        loop {
            let change = match ctx.view.rate_change(seen) {
                NextRateChange::None => return seen,
                NextRateChange::One(change) => change,
                NextRateChange::Lost => {
                    seen = published_change_count(ctx, ctx.view.rate_change_count());
                    queues.review_all(review, take);
                    return seen;
                }
            };
            if !is_published(ctx, &change) {
                return seen;
            }
            for direction in [Direction::Uplink, Direction::Downlink] {
                if queues.has_packets_of(change.session, direction) {
                    queues.review(change.session, direction, review, &mut take);
                }
            }
            seen = seen.wrapping_add(1);
        }
    }
}

/// Returns how many of the first `count` changes have published rules: all, or all but the last,
/// because the publisher swaps the rules right after it writes their change.
fn published_change_count(ctx: &StepContext<'_>, count: u64) -> u64 {
    let last = count.wrapping_sub(1);
    match ctx.view.rate_change(last) {
        NextRateChange::One(change) if !is_published(ctx, &change) => last,
        _ => count,
    }
}

/// True if the rules of a change are published, or if the session has no rules: then none of its
/// packets waits by them.
fn is_published(ctx: &StepContext<'_>, change: &RateChange) -> bool {
    ctx.view.rules(change.session).is_none_or(|rules| change.is_included_in(rules.generation))
}

/// Returns the effect of new rules on a queue: its packets leave if no PDR uses the queue any more,
/// and are dropped if the gates of all its PDRs are closed.
fn review_queue(rules: &PublishedRules, key: QueueKey) -> ReviewOutcome {
    let direction = key.direction;
    let uses_queue = |pdr: &&PublishedPdr| queue_key_of(key.session, rules, pdr, direction) == key;
    let mut pdrs = rules.pdrs(direction).iter().filter(uses_queue).peekable();
    if pdrs.peek().is_none() {
        return ReviewOutcome::Release;
    }
    let is_open = pdrs.any(|pdr| rules.gates_open(pdr, direction));
    if is_open { ReviewOutcome::Recheck } else { ReviewOutcome::Drop }
}
