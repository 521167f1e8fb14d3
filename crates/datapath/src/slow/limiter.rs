//! The token bucket that bounds errors sent by one worker.

use adit_types::Nanos;

/// Errors per second in the long run; the order of magnitude that host stacks use. Spec: RFC 4443
/// §2.4 (f) and RFC 1812 §4.3.2.8 demand a bound and leave its value open.
const ERRORS_PER_SECOND: u64 = 1000;

/// Errors in a row after a quiet time: enough for a traceroute of three probes over 16 hops.
const BURST: u64 = 50;

/// Time that one token takes to appear.
const TOKEN: Nanos = Nanos(1_000_000_000 / ERRORS_PER_SECOND);

/// A token bucket that is full at first. Unit: packets.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    tokens: u64,
    /// Up to here time was turned into tokens.
    filled_at: Nanos,
}

impl TokenBucket {
    /// A full bucket.
    pub const fn new() -> Self {
        Self { tokens: BURST, filled_at: Nanos(0) }
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Nanos) -> bool {
        let earned = now.since(self.filled_at).0 / TOKEN.0;
        if earned >= BURST - self.tokens {
            self.tokens = BURST;
            self.filled_at = now;
        } else {
            self.tokens += earned;
            self.filled_at += Nanos(earned * TOKEN.0);
        }
        let is_free = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        is_free
    }
}

/// What bounds the messages that one worker sends or reports because somebody else sent something.
#[derive(Debug)]
pub(crate) struct Limits {
    /// ICMP errors.
    pub icmp: TokenBucket,
    /// GTP-U Error Indications and Supported Extension Headers Notifications.
    pub gtpu: TokenBucket,
    /// Reports of GTP-U signalling to the control thread.
    pub reports: TokenBucket,
    /// Segments answered for servers that UEs are redirected from.
    pub redirects: TokenBucket,
}

impl Limits {
    /// Full buckets.
    pub const fn new() -> Self {
        Self {
            icmp: TokenBucket::new(),
            gtpu: TokenBucket::new(),
            reports: TokenBucket::new(),
            redirects: TokenBucket::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_gives_the_burst_then_the_rate() {
        let mut bucket = TokenBucket::new();
        let now = Nanos::from_secs(10);
        let first = (0..200).filter(|_| bucket.take(now)).count();
        assert_eq!(first, 50);
        assert!(!bucket.take(now + Nanos(TOKEN.0 - 1)));
        assert!(bucket.take(now + TOKEN));
        assert!(!bucket.take(now + TOKEN));
        let in_a_second =
            (1..=1000).filter(|ms| bucket.take(now + TOKEN + Nanos::from_millis(*ms))).count();
        assert_eq!(in_a_second, 1000);
    }

    #[test]
    fn bucket_with_time_going_back_stays_bounded() {
        let mut bucket = TokenBucket::new();
        assert!(bucket.take(Nanos::from_secs(100)));
        let taken = (0..200).filter(|_| bucket.take(Nanos::from_secs(1))).count();
        assert_eq!(taken, 49);
    }
}
