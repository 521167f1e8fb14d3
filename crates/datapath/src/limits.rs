//! Limits the messages and reports of one worker that received packets cause.

use adit_types::Nanos;

use crate::neighbor_queue::REQUEST_INTERVAL;

/// How fast a bucket fills, and how much it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefillRate {
    /// Time in which a bucket earns one token.
    token: Nanos,
    /// Maximum of tokens in a bucket.
    burst: u64,
}

impl RefillRate {
    /// The order of magnitude that host stacks use for ICMP errors; the burst suffices for a
    /// traceroute of three probes over 16 hops. Spec: RFC 4443 §2.4 (f) and RFC 1812 §4.3.2.8
    /// demand a limit and leave its value open.
    pub(crate) const USUAL: Self = Self { token: Nanos(1_000_000), burst: 50 };

    /// So many tokens a second, and at most `burst` at once.
    pub(crate) const fn per_second(tokens: u64, burst: u64) -> Self {
        Self { token: Nanos(1_000_000_000 / tokens), burst }
    }

    /// For all unknown senders (strangers) together: 100 messages per second.
    pub(crate) const STRANGERS: Self = Self { token: Nanos(10_000_000), burst: 20 };
}

/// A token bucket that is full at first. Unit: packets.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    /// Tokens that were taken and are not earned again yet.
    spent: u64,
    /// The time up to which tokens were earned.
    filled_at: Nanos,
}

impl TokenBucket {
    pub(crate) const fn new() -> Self {
        Self { spent: 0, filled_at: Nanos(0) }
    }

    /// Takes a token; false if the bucket is empty.
    pub(crate) fn take(&mut self, now: Nanos, rate: RefillRate) -> bool {
        let earned = now.since(self.filled_at).0 / rate.token.0;
        if earned >= self.spent {
            self.spent = 0;
            self.filled_at = now;
        } else {
            self.spent -= earned;
            self.filled_at += Nanos(earned * rate.token.0);
        }
        let is_free = self.spent < rate.burst;
        self.spent += u64::from(is_free);
        is_free
    }
}

/// Buckets for one kind of message. Each GTP-U peer of sessions has its own; all other senders
/// (strangers) share one.
#[derive(Debug)]
pub(crate) struct PeerBuckets {
    /// By the peer's index modulo [`Self::PEER_BUCKETS`], so with many peers a few share a bucket.
    known: Box<[TokenBucket]>,
    strangers: TokenBucket,
    rate_of_strangers: RefillRate,
}

impl PeerBuckets {
    /// Number of buckets for peers.
    const PEER_BUCKETS: usize = 1024;

    fn new(rate_of_strangers: RefillRate) -> Self {
        let known = vec![TokenBucket::new(); Self::PEER_BUCKETS].into_boxed_slice();
        Self { known, strangers: TokenBucket::new(), rate_of_strangers }
    }

    /// Takes a token: from the bucket of the peer or neighbor with the index `position`, or from
    /// that of all strangers if it is `None`. False if the bucket is empty.
    pub(crate) fn take(&mut self, now: Nanos, position: Option<u32>) -> bool {
        let own = position
            .and_then(|position| self.known.get_mut(position as usize % Self::PEER_BUCKETS));
        match own {
            Some(own) => own.take(now, RefillRate::USUAL),
            None => self.strangers.take(now, self.rate_of_strangers),
        }
    }
}

/// The limits of one worker for messages that received packets cause.
#[derive(Debug)]
pub(crate) struct MessageLimits {
    /// ICMP errors that are sent.
    pub icmp: TokenBucket,
    /// GTP-U Error Indications and Supported Extension Headers Notifications that are sent.
    pub gtpu: PeerBuckets,
    /// Reports of GTP-U Error Indications.
    pub error_indications: PeerBuckets,
    /// Reports of paths whose MTU is smaller than that of the link.
    pub path_mtus: PeerBuckets,
    /// Reports of End Markers. A peer that sessions have just left may send them.
    pub end_markers: PeerBuckets,
    /// Reports of the restart times in received Echo Requests.
    pub recoveries: PeerBuckets,
    /// Echo Responses to strangers.
    pub echo_responses: TokenBucket,
    /// Reports that another station claims a neighbor's address.
    pub neighbors: PeerBuckets,
    /// Reports that another station claims one of our addresses.
    pub conflicts: TokenBucket,
    /// TCP segments that are sent in place of servers, to redirect UEs.
    pub redirects: TokenBucket,
    /// When a duplicated packet last requested the address of a neighbor.
    neighbor_requested_at: Option<Nanos>,
}

impl MessageLimits {
    pub(crate) fn new() -> Self {
        Self {
            icmp: TokenBucket::new(),
            gtpu: PeerBuckets::new(RefillRate::USUAL),
            error_indications: PeerBuckets::new(RefillRate::STRANGERS),
            path_mtus: PeerBuckets::new(RefillRate::STRANGERS),
            end_markers: PeerBuckets::new(RefillRate::USUAL),
            recoveries: PeerBuckets::new(RefillRate::STRANGERS),
            echo_responses: TokenBucket::new(),
            neighbors: PeerBuckets::new(RefillRate::STRANGERS),
            conflicts: TokenBucket::new(),
            redirects: TokenBucket::new(),
            neighbor_requested_at: None,
        }
    }

    /// Returns true at most once per [`REQUEST_INTERVAL`], for all neighbors together: then a
    /// duplicated packet may request the link-layer address of its neighbor.
    pub(crate) fn take_neighbor_request_of_duplicate(&mut self, now: Nanos) -> bool {
        let may = self.neighbor_requested_at.is_none_or(|at| now.since(at) >= REQUEST_INTERVAL);
        if may {
            self.neighbor_requested_at = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Nanos = RefillRate::USUAL.token;

    #[test]
    fn bucket_gives_the_burst_then_the_rate() {
        let mut bucket = TokenBucket::new();
        let now = Nanos::from_secs(10);
        let mut take = |now| bucket.take(now, RefillRate::USUAL);
        let first = (0..200).filter(|_| take(now)).count();
        assert_eq!(first, 50);
        assert!(!take(now + Nanos(TOKEN.0 - 1)));
        assert!(take(now + TOKEN));
        assert!(!take(now + TOKEN));
        let in_a_second =
            (1..=1000).filter(|ms| take(now + TOKEN + Nanos::from_millis(*ms))).count();
        assert_eq!(in_a_second, 1000);
    }

    #[test]
    fn bucket_with_time_going_back_stays_bounded() {
        let mut bucket = TokenBucket::new();
        assert!(bucket.take(Nanos::from_secs(100), RefillRate::USUAL));
        let taken =
            (0..200).filter(|_| bucket.take(Nanos::from_secs(1), RefillRate::USUAL)).count();
        assert_eq!(taken, 49);
    }

    #[test]
    fn strangers_and_other_peers_take_nothing_from_a_peer() {
        let mut buckets = PeerBuckets::new(RefillRate::STRANGERS);
        let now = Nanos::from_secs(10);
        let taken = |buckets: &mut PeerBuckets, position| {
            (0..100_000).filter(|_| buckets.take(now, position)).count()
        };
        assert_eq!(taken(&mut buckets, None), 20);
        assert_eq!(taken(&mut buckets, Some(7)), 50);
        assert_eq!(taken(&mut buckets, Some(70_000)), 50);
    }
}
