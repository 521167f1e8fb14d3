//! Encodes the queue that a packet has to join in one word.

use crate::shaper::{FlowIndex, QueueKey};
use adit_rules::{FAST_RULE_METERS_MAX, Guarantee};
use adit_tables::FastRuleSnapshot;
use adit_types::limits::{BURST_MAX, SHAPED_PKTS_MAX};
use adit_types::{Direction, SessionIndex};

use crate::aggregates::AggregateTerms;

/// The queue that a packet has to join before it leaves. Bits:
///
/// ```text
/// 32..64  complement of the queue's index, or of `NO_QUEUE` if there is none yet; bit 63 is set
/// 16..32  tag of the queue's key (`AggregateTerms::tag`)
/// 0..16   the session's buckets that the queue waits for
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueTicket(u64);

/// Greater than any index of a queue, and below 2^31.
const NO_QUEUE: u32 = (1 << 31) - 1;
const TAG_SHIFT: u32 = 16;
const INDEX_SHIFT: u32 = 32;
const BUCKETS: u64 = (1 << FAST_RULE_METERS_MAX) - 1;

const _: () = assert!(FAST_RULE_METERS_MAX <= 16);
const _: () = assert!(SHAPED_PKTS_MAX + BURST_MAX < NO_QUEUE as usize, "as many queues as packets");

impl QueueTicket {
    /// The ticket of a packet that joins no queue: it leaves right after the rewrite.
    pub(super) const NONE: Self = Self(0);

    /// True for [`QueueTicket::NONE`].
    #[inline]
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the ticket of packets of a fast rule, without the index of a queue.
    #[inline]
    pub(super) fn of(rule: &FastRuleSnapshot<'_>) -> Self {
        let guarantee = if rule.is_guaranteed() { Guarantee::Whole } else { Guarantee::Nothing };
        let tag = AggregateTerms { slice: rule.slice(), guarantee }.tag();
        Self(u64::from(!NO_QUEUE) << INDEX_SHIFT | u64::from(tag) << TAG_SHIFT | rule.meters())
    }

    /// Returns this ticket with the index of its queue.
    #[inline]
    pub(super) const fn with_queue(self, FlowIndex(index): FlowIndex) -> Self {
        Self(self.0 & ((1 << INDEX_SHIFT) - 1) | (!index as u64) << INDEX_SHIFT)
    }

    /// Returns this ticket, or `other` if this is [`QueueTicket::NONE`].
    #[inline]
    pub(super) const fn or(self, other: Self) -> Self {
        if self.is_none() { other } else { self }
    }

    /// Returns the session's buckets that the queue waits for.
    #[inline]
    pub(super) const fn buckets(self) -> u64 {
        self.0 & BUCKETS
    }

    /// Returns the tag of the queue's key.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a tag has 16 bits")]
    pub(super) const fn tag(self) -> u16 {
        (self.0 >> TAG_SHIFT) as u16
    }

    /// Returns the key of the queue.
    #[inline]
    pub(super) const fn key(self, session: SessionIndex, direction: Direction) -> QueueKey {
        QueueKey { session, direction, buckets: self.buckets(), tag: self.tag() }
    }

    /// Returns the index of the queue; `None` if the queue does not exist yet.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half is wanted")]
    pub(super) const fn queue(self) -> Option<FlowIndex> {
        match !((self.0 >> INDEX_SHIFT) as u32) {
            NO_QUEUE => None,
            index => Some(FlowIndex(index)),
        }
    }
}
