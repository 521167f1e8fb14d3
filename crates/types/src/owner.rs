//! Which worker owns a session.

use crate::{SessionIndex, WorkerId};

/// Number of owner groups: all sessions of a group have the same owner. A power of two, so that the
/// low bits of an index select the group; at least `limits::WORKERS_MAX`, so that each worker has
/// one.
pub const OWNER_GROUPS: u32 = 64;

/// Shift from a session index to its owner group: neighboring sessions are in one group, because
/// values that workers write for them may share a cache line.
pub const OWNER_GROUP_SHIFT: u32 = 1;

/// Factor that spreads consecutive groups over the workers, so that even few sessions are shared
/// evenly: odd, and close to [`OWNER_GROUPS`] divided by the golden ratio.
pub const OWNER_STRIDE: u32 = 39;

/// Returns the owner group of `session`, below [`OWNER_GROUPS`].
#[inline]
#[must_use]
pub const fn owner_group(session: SessionIndex) -> u32 {
    session.0 >> OWNER_GROUP_SHIFT & (OWNER_GROUPS - 1)
}

/// The owners of all sessions when workers begin: only a session's owner processes its packets and
/// writes its counters.
///
/// The owner follows from the session index alone, so that it is known as soon as the key table
/// returns the index, whatever the kind of key. Later a whole group may get another owner
/// (`datapath::owner_map`). Parts that only steer packets, such as filters of NICs and sockets,
/// keep using the owners of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owners {
    workers: u32,
}

impl Owners {
    /// Returns the owners if `workers` share the sessions; zero counts as one.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let most = u32::try_from(crate::limits::WORKERS_MAX).unwrap_or(u32::MAX);
        Self { workers: u32::try_from(workers).unwrap_or(most).clamp(1, most) }
    }

    /// How many workers share the sessions.
    #[must_use]
    pub const fn workers(self) -> usize {
        self.workers as usize
    }

    /// Returns the owner of `session`. The result is meaningless for `SessionIndex::NONE`.
    ///
    /// Cost: two multiplications; no load.
    #[inline]
    #[must_use]
    pub const fn of(self, session: SessionIndex) -> WorkerId {
        self.of_group(session.0 >> OWNER_GROUP_SHIFT)
    }

    /// Returns the owner of all sessions of a group. Only the low bits of `group` count.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "below WORKERS_MAX, which fits 8 bits")]
    pub const fn of_group(self, group: u32) -> WorkerId {
        WorkerId(
            (group.wrapping_mul(OWNER_STRIDE) % OWNER_GROUPS * self.workers / OWNER_GROUPS) as u8,
        )
    }
}

const _: () = assert!(crate::limits::WORKERS_MAX <= OWNER_GROUPS as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(workers: usize, sessions: u32) -> Vec<u32> {
        let owners = Owners::new(workers);
        let mut shares = vec![0; workers];
        for session in 0..sessions {
            shares[usize::from(owners.of(SessionIndex(session)).0)] += 1;
        }
        shares
    }

    #[test]
    fn every_number_of_workers_shares_the_sessions_as_evenly_as_groups_allow() {
        for workers in 1..=crate::limits::WORKERS_MAX {
            let shares = shares(workers, OWNER_GROUPS << OWNER_GROUP_SHIFT);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(*least > 0 && most - least <= 1 << OWNER_GROUP_SHIFT, "{workers}: {shares:?}");
        }
    }

    #[test]
    fn few_sessions_are_shared_too() {
        for workers in 2..=16_u32 {
            let shares =
                shares(usize::try_from(workers).unwrap(), (workers * 2) << OWNER_GROUP_SHIFT);
            assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
        }
    }

    #[test]
    fn neighboring_sessions_of_one_cache_line_have_one_owner() {
        for workers in [2, 3, 5, 64] {
            let owners = Owners::new(workers);
            for pair in 0..1000_u32 {
                let of = |at| owners.of(SessionIndex(2 * pair + at));
                assert_eq!(of(0), of(1), "{workers} workers, pair {pair}");
            }
        }
    }

    #[test]
    fn owner_is_a_worker_that_exists_whatever_the_index() {
        for workers in [0, 1, 2, 63, 64, 65, usize::MAX] {
            let owners = Owners::new(workers);
            for session in [0, 1, 127, 128, u32::MAX - 1, u32::MAX] {
                assert!(usize::from(owners.of(SessionIndex(session)).0) < owners.workers());
            }
        }
    }
}
