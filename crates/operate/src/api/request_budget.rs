//! Limits the requests of clients: a bucket for each access token, and for each of a fixed number
//! of groups of addresses.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use adit_types::limits::{API_REQUESTS_BURST_MAX, API_REQUESTS_PER_S_MAX, API_TOKENS_MAX};

/// Number of buckets for addresses without a token. A power of two.
const ADDRESS_BUCKETS: usize = 256;

/// Time after which a bucket has room for one more request.
const REQUEST_INTERVAL: Duration =
    Duration::from_nanos(1_000_000_000 / API_REQUESTS_PER_S_MAX as u64);

/// The client whose bucket a request is charged to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BudgetHolder {
    /// The holder of the token with this index.
    Token(usize),
    Address(IpAddr),
}

/// All buckets. The value of a bucket is the time at which it will be full; `None` if it is full.
#[derive(Debug)]
pub(crate) struct RequestBudget {
    buckets: Mutex<Vec<Option<Instant>>>,
    /// Random, so that outsiders cannot choose the addresses with which they share a bucket.
    seed: RandomState,
}

impl RequestBudget {
    pub(crate) fn new() -> Self {
        let buckets = vec![None; API_TOKENS_MAX + ADDRESS_BUCKETS];
        Self { buckets: Mutex::new(buckets), seed: RandomState::new() }
    }

    /// Takes `cost` requests from the bucket of a client, or returns the time until it has enough.
    pub(crate) fn take(
        &self,
        now: Instant,
        holder: BudgetHolder,
        cost: u32,
    ) -> Result<(), Duration> {
        let position = self.position(holder);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bucket) = buckets.get_mut(position) else { return Ok(()) };
        let full = bucket.filter(|full| *full > now).unwrap_or(now) + REQUEST_INTERVAL * cost;
        let capacity = REQUEST_INTERVAL * API_REQUESTS_BURST_MAX;
        match full.duration_since(now).checked_sub(capacity) {
            None | Some(Duration::ZERO) => {
                *bucket = Some(full);
                Ok(())
            }
            Some(missing) => Err(missing),
        }
    }

    fn position(&self, holder: BudgetHolder) -> usize {
        match holder {
            BudgetHolder::Token(number) => number.min(API_TOKENS_MAX - 1),
            BudgetHolder::Address(address) => {
                let hash = self.seed.hash_one(address) & (ADDRESS_BUCKETS as u64 - 1);
                API_TOKENS_MAX + usize::try_from(hash).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_types::limits::API_WRONG_TOKEN_COST;

    #[test]
    fn client_gets_its_burst_and_then_its_rate_and_others_are_untouched() {
        let budget = RequestBudget::new();
        let now = Instant::now();
        let one = BudgetHolder::Token(0);
        let taken = |now| (0..1000).filter(|_| budget.take(now, one, 1).is_ok()).count();
        assert_eq!(taken(now), 200);
        let missing = budget.take(now, one, 1).unwrap_err();
        assert_eq!(missing, REQUEST_INTERVAL);
        assert_eq!(taken(now + Duration::from_secs(1)), 50);
        assert!(budget.take(now, BudgetHolder::Token(1), 1).is_ok());
    }

    #[test]
    fn wrong_tokens_cost_more() {
        let budget = RequestBudget::new();
        let now = Instant::now();
        let from = BudgetHolder::Address([192, 0, 2, 1].into());
        let guesses = (0..100).filter(|_| budget.take(now, from, API_WRONG_TOKEN_COST).is_ok());
        assert_eq!(guesses.count(), 8);
    }
}
