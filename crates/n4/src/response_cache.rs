//! The response cache of one peer: requests in progress, and answers kept for retransmissions.
//!
//! A retransmitted request must not run twice, and gets the same answer again. Answers are kept for
//! the time in which the peer may retransmit, up to a maximum number, beyond which the oldest
//! answer is dropped. An expired answer is not found any more, and is removed later, a bounded
//! number at a time. Spec: TS 29.244 §6.4.

use std::collections::{HashMap, VecDeque};

use adit_types::Nanos;
use adit_types::limits::{
    ANSWERS_FORGOTTEN_PER_STEP, PENDING_PER_PEER_MAX, RESPONSE_CACHE_PER_PEER_MAX,
};

/// The identity of a request among those of one peer address, to which the cache belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RequestKey {
    /// UDP source port of the request: sequence numbers are unique per source address and port.
    pub port: u16,
    /// Message type of the request.
    pub message_type: u8,
    /// Sequence number of the request.
    pub sequence: u32,
    /// Digest of SEID and body. A restarted peer may use the same sequence number again: its
    /// request then differs, while a retransmission is identical. Spec: TS 29.244 §6.4.
    pub digest: u64,
}

/// Whether a request was received before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestStatus<'a> {
    /// Not received before, or too long ago to be a retransmission.
    New,
    /// Accepted; its answer waits for workers, or for the store.
    InProgress,
    /// Answered with these bytes.
    Answered(&'a [u8]),
}

#[derive(Debug)]
enum ResponseCacheEntry {
    /// The answer waits for workers. `copied`: when the last copy of the request arrived.
    InProgress { copied: Nanos },
    /// The answer waits for the store.
    Held { copied: Nanos },
    Answered {
        bytes: Vec<u8>,
        at: Nanos,
        /// The number of the answer's record, if it has one.
        number: Option<u64>,
    },
}

/// A kept answer that has a record.
#[derive(Debug)]
pub(crate) struct RecordedAnswer<'a> {
    pub number: u64,
    pub at: Nanos,
    pub key: RequestKey,
    pub bytes: &'a [u8],
}

/// The requests of one peer that are in progress or answered.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache {
    entries: HashMap<RequestKey, ResponseCacheEntry>,
    /// Answered requests with the time of the answer, the oldest first. A request that was answered
    /// again later is listed twice.
    answered: VecDeque<(Nanos, RequestKey)>,
    in_progress: usize,
}

impl ResponseCache {
    /// Returns the status of `key`; answers older than `lifetime` do not count.
    pub(crate) fn find(&self, now: Nanos, lifetime: Nanos, key: &RequestKey) -> RequestStatus<'_> {
        match self.entries.get(key) {
            Some(ResponseCacheEntry::InProgress { .. } | ResponseCacheEntry::Held { .. }) => {
                RequestStatus::InProgress
            }
            Some(ResponseCacheEntry::Answered { bytes, at, .. }) if now.since(*at) < lifetime => {
                RequestStatus::Answered(bytes)
            }
            _ => RequestStatus::New,
        }
    }

    /// True if no further request may wait for workers.
    pub(crate) fn is_full_of_pending(&self) -> bool {
        self.in_progress >= PENDING_PER_PEER_MAX
    }

    /// Notes that the request `key` arrived at `now` and is being run. The caller has checked that
    /// it is new, and [`Self::is_full_of_pending`].
    pub(crate) fn begin(&mut self, now: Nanos, key: RequestKey) {
        debug_assert!(!matches!(
            self.entries.get(&key),
            Some(ResponseCacheEntry::InProgress { .. } | ResponseCacheEntry::Held { .. })
        ));
        self.in_progress += 1;
        self.entries.insert(key, ResponseCacheEntry::InProgress { copied: now });
    }

    /// Notes that the answer to `key`, which arrived at `received`, waits for the store without a
    /// time limit.
    pub(crate) fn hold(&mut self, received: Nanos, key: RequestKey) {
        let copied = match self.entries.get(&key) {
            Some(ResponseCacheEntry::InProgress { copied }) => {
                self.in_progress -= 1;
                *copied
            }
            _ => received,
        };
        self.entries.insert(key, ResponseCacheEntry::Held { copied });
    }

    /// Notes that a copy of a request in progress arrived: its sender still waits.
    pub(crate) fn note_copy(&mut self, now: Nanos, key: &RequestKey) {
        if let Some(
            ResponseCacheEntry::InProgress { copied } | ResponseCacheEntry::Held { copied },
        ) = self.entries.get_mut(key)
        {
            *copied = now;
        }
    }

    /// Returns when the last copy of a request arrived whose answer waits for the store.
    pub(crate) fn last_copy(&self, key: &RequestKey) -> Option<Nanos> {
        match self.entries.get(key) {
            Some(ResponseCacheEntry::Held { copied }) => Some(*copied),
            _ => None,
        }
    }

    /// Forgets the request `key` if its answer still waits.
    pub(crate) fn abandon(&mut self, key: &RequestKey) {
        match self.entries.get(key) {
            Some(ResponseCacheEntry::InProgress { .. }) => self.in_progress -= 1,
            Some(ResponseCacheEntry::Held { .. }) => {}
            _ => return,
        }
        self.entries.remove(key);
    }

    /// Keeps the answer to `key`, with the number of its record. Returns how many older answers
    /// were dropped for it (0 or 1).
    pub(crate) fn answer(
        &mut self,
        now: Nanos,
        key: RequestKey,
        number: Option<u64>,
        bytes: Vec<u8>,
    ) -> u64 {
        let answer = ResponseCacheEntry::Answered { bytes, at: now, number };
        let before = self.entries.insert(key, answer);
        self.in_progress -=
            usize::from(matches!(before, Some(ResponseCacheEntry::InProgress { .. })));
        self.answered.push_back((now, key));
        if self.answered.len() <= RESPONSE_CACHE_PER_PEER_MAX {
            return 0;
        }
        self.forget_oldest();
        1
    }

    /// Removes answers older than `lifetime`, at most [`ANSWERS_FORGOTTEN_PER_STEP`]. Returns how
    /// many were removed.
    pub(crate) fn expire(&mut self, now: Nanos, lifetime: Nanos) -> usize {
        let is_due =
            |oldest: Option<&(Nanos, _)>| oldest.is_some_and(|o| now.since(o.0) >= lifetime);
        let mut forgotten = 0;
        while forgotten < ANSWERS_FORGOTTEN_PER_STEP && is_due(self.answered.front()) {
            self.forget_oldest();
            forgotten += 1;
        }
        forgotten
    }

    /// Removes answers regardless of their age, a bounded number of them. False if none was left.
    pub(crate) fn remove_some_answers(&mut self) -> bool {
        self.expire(Nanos::NEVER, Nanos(0)) > 0
    }

    fn forget_oldest(&mut self) {
        let Some((answered, key)) = self.answered.pop_front() else { return };
        // The request may have been answered again later.
        if matches!(self.entries.get(&key), Some(ResponseCacheEntry::Answered { at, .. }) if *at == answered)
        {
            self.entries.remove(&key);
        }
    }

    /// Returns the time up to which there are `count` answers given after `after`, or all of them
    /// if there are fewer. `None` if there is none.
    pub(crate) fn next_part_end(&self, after: Option<Nanos>, count: usize) -> Option<Nanos> {
        let behind =
            self.answered.partition_point(|(at, _)| after.is_some_and(|after| *at <= after));
        let last = self.answered.len().checked_sub(1).filter(|last| *last >= behind)?;
        self.answered.get((behind + count - 1).min(last)).map(|(at, _)| *at)
    }

    /// Returns the answers with records that were given after `after` and not later than `until`.
    pub(crate) fn recorded_answers(
        &self,
        after: Option<Nanos>,
        until: Nanos,
    ) -> impl Iterator<Item = RecordedAnswer<'_>> {
        let behind =
            self.answered.partition_point(|(at, _)| after.is_some_and(|after| *at <= after));
        let part = self.answered.range(behind..).take_while(move |(at, _)| *at <= until);
        part.filter_map(|&(answered, key)| match self.entries.get(&key)? {
            // The request may have been answered again later.
            &ResponseCacheEntry::Answered { ref bytes, at, number } if at == answered => {
                Some(RecordedAnswer { number: number?, at, key, bytes })
            }
            _ => None,
        })
    }

    /// Returns when the last kept answer was given.
    pub(crate) fn newest_answer_time(&self) -> Option<Nanos> {
        self.answered.back().map(|(at, _)| *at)
    }

    /// True if no request is in progress or answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many requests are in progress or answered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Nanos = Nanos(10);

    fn key(sequence: u32) -> RequestKey {
        RequestKey { port: 8805, message_type: 50, sequence, digest: 0 }
    }

    #[test]
    fn request_goes_from_new_over_in_progress_to_answered() {
        let mut cache = ResponseCache::default();
        assert_eq!(cache.find(Nanos(0), LIFETIME, &key(1)), RequestStatus::New);
        cache.begin(Nanos(0), key(1));
        assert_eq!(cache.find(Nanos(0), LIFETIME, &key(1)), RequestStatus::InProgress);
        assert_eq!(cache.answer(Nanos(0), key(1), None, vec![9]), 0);
        assert_eq!(cache.find(Nanos(0), LIFETIME, &key(1)), RequestStatus::Answered(&[9]));
        assert_eq!(
            cache.find(Nanos(0), LIFETIME, &RequestKey { port: 1, ..key(1) }),
            RequestStatus::New
        );
        assert_eq!(
            cache.find(Nanos(0), LIFETIME, &RequestKey { digest: 1, ..key(1) }),
            RequestStatus::New
        );
        assert_eq!(
            cache.find(Nanos(0), LIFETIME, &RequestKey { message_type: 52, ..key(1) }),
            RequestStatus::New
        );
    }

    #[test]
    fn answer_expires_after_its_lifetime_and_pending_does_not() {
        let mut cache = ResponseCache::default();
        cache.begin(Nanos(0), key(1));
        cache.answer(Nanos(10), key(2), None, vec![]);
        cache.expire(Nanos(19), Nanos(10));
        assert_eq!(cache.len(), 2);
        cache.expire(Nanos(20), Nanos(10));
        assert_eq!(cache.find(Nanos(20), LIFETIME, &key(2)), RequestStatus::New);
        assert_eq!(cache.find(Nanos(20), LIFETIME, &key(1)), RequestStatus::InProgress);
        assert_eq!(cache.newest_answer_time(), None);
        assert!(!cache.is_empty());
    }

    #[test]
    fn answer_that_waits_for_the_store_does_not_expire_and_takes_no_place_of_a_request_in_progress()
    {
        let mut cache = ResponseCache::default();
        cache.begin(Nanos(1), key(1));
        cache.hold(Nanos(1), key(1));
        cache.hold(Nanos(2), key(2));
        assert_eq!(cache.in_progress, 0);
        cache.expire(Nanos(1000), LIFETIME);
        for number in 1..=2 {
            assert_eq!(cache.find(Nanos(1000), LIFETIME, &key(number)), RequestStatus::InProgress);
            assert_eq!(cache.last_copy(&key(number)), Some(Nanos(u64::from(number))));
        }
        cache.note_copy(Nanos(7), &key(2));
        assert_eq!(cache.last_copy(&key(2)), Some(Nanos(7)));
        cache.answer(Nanos(1000), key(1), None, vec![9]);
        cache.abandon(&key(2));
        assert_eq!(cache.find(Nanos(1001), LIFETIME, &key(1)), RequestStatus::Answered(&[9]));
        assert_eq!((cache.in_progress, cache.len()), (0, 1));
    }

    #[test]
    fn full_cache_forgets_the_oldest_answer_and_never_a_pending_request() {
        let mut cache = ResponseCache::default();
        cache.begin(Nanos(0), key(0));
        let mut evicted = 0;
        let max = u32::try_from(RESPONSE_CACHE_PER_PEER_MAX).unwrap();
        for sequence in 1..=max + 3 {
            evicted += cache.answer(Nanos(0), key(sequence), None, vec![]);
        }
        assert_eq!(evicted, 3);
        assert_eq!(cache.len(), RESPONSE_CACHE_PER_PEER_MAX + 1);
        assert_eq!(cache.find(Nanos(0), LIFETIME, &key(3)), RequestStatus::New);
        assert_eq!(cache.find(Nanos(0), LIFETIME, &key(4)), RequestStatus::Answered(&[]));
        assert_eq!(cache.find(Nanos(0), LIFETIME, &key(0)), RequestStatus::InProgress);
    }

    #[test]
    fn pending_requests_are_bounded() {
        let mut cache = ResponseCache::default();
        for sequence in 0..u32::try_from(PENDING_PER_PEER_MAX).unwrap() {
            assert!(!cache.is_full_of_pending());
            cache.begin(Nanos(0), key(sequence));
        }
        assert!(cache.is_full_of_pending());
    }

    #[test]
    fn answers_that_are_due_together_are_unknown_at_once_and_leave_in_steps() {
        let mut cache = ResponseCache::default();
        let count = u32::try_from(3 * ANSWERS_FORGOTTEN_PER_STEP).unwrap();
        for sequence in 0..count {
            cache.answer(Nanos(0), key(sequence), None, vec![7]);
        }
        assert_eq!(cache.find(Nanos(9), LIFETIME, &key(1)), RequestStatus::Answered(&[7]));
        let now = Nanos(1_000_000);
        assert_eq!(cache.expire(now, LIFETIME), ANSWERS_FORGOTTEN_PER_STEP);
        let last = key(count - 1);
        assert_eq!(
            cache.find(now, LIFETIME, &last),
            RequestStatus::New,
            "still there, but too old"
        );
        // Expired, so the same octets count as a new request.
        cache.begin(now, last);
        cache.answer(now, last, None, vec![8]);
        while cache.expire(now, LIFETIME) > 0 {}
        assert_eq!(
            (cache.len(), cache.find(now, LIFETIME, &last)),
            (1, RequestStatus::Answered(&[8]))
        );
    }
}
