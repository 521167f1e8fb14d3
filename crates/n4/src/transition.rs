//! Dispositions of an association's sessions: they move to another SMF of the set or to another
//! address, or stay only if they are controlled from certain addresses.
//!
//! A job applies a disposition to one session after another. Anything else that concerns a session
//! meanwhile applies it to that session first, so the order is not visible. Sessions that the
//! association gets after the start are not affected. Spec: TS 29.244 §5.22, §6.2.6.2.2.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_session::{OwnerId, SessionStore};
use adit_types::{Seid, SessionIndex};

/// The treatment of the sessions of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionDisposition {
    /// The association `to` controls the sessions from now on, from this address.
    Move { to: OwnerId, address: IpAddr },
    /// The sessions stay if their CP F-SEID is at one of the addresses, and end otherwise.
    Retain { at: Arc<[IpAddr]> },
    /// The sessions end, as the association that they were moving to is gone.
    End,
}

/// A disposition that was not applied to all sessions yet.
#[derive(Debug)]
struct Transition {
    number: u64,
    disposition: SessionDisposition,
    /// The disposition was applied to all sessions with lower indices, except `current`.
    next: SessionIndex,
    /// The session before `next` that the job is about to process.
    current: Option<SessionIndex>,
    /// Sessions from `next` on that have the disposition already, or came later and need none.
    settled: BTreeSet<SessionIndex>,
}

impl Transition {
    /// Returns the disposition if it was not applied to this session yet; it counts as applied from
    /// now on.
    pub(crate) fn take(&mut self, session: SessionIndex) -> Option<SessionDisposition> {
        let is_due = match self.current.take_if(|current| *current == session) {
            Some(_) => true,
            None => session >= self.next && self.settled.insert(session),
        };
        is_due.then(|| self.disposition.clone())
    }
}

/// All transitions; those of one association in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Transitions {
    of: BTreeMap<OwnerId, Vec<Transition>>,
    last_number: u64,
}

impl Transitions {
    /// Begins a transition, and returns its number.
    pub(crate) fn begin(&mut self, owner: OwnerId, fate: SessionDisposition) -> u64 {
        self.last_number += 1;
        let (number, next) = (self.last_number, SessionIndex(0));
        let transition =
            Transition { number, disposition: fate, next, current: None, settled: BTreeSet::new() };
        self.of.entry(owner).or_default().push(transition);
        number
    }

    /// Returns the next session of `owner` to which transition `number` has not applied its
    /// disposition yet. If there is none, ends the transition and returns `None`.
    pub(crate) fn next(
        &mut self,
        owner: OwnerId,
        number: u64,
        store: &SessionStore,
    ) -> Option<Seid> {
        let all = self.of.get_mut(&owner)?;
        let transition = all.iter_mut().find(|transition| transition.number == number)?;
        while let Some(session) = store.next_owned(owner, transition.next) {
            let index = session.index();
            transition.next = index.next();
            if !transition.settled.remove(&index) {
                transition.current = Some(index);
                return Some(session.up_seid());
            }
        }
        all.retain(|transition| transition.number != number);
        if all.is_empty() {
            self.of.remove(&owner);
        }
        None
    }

    /// True if the sessions of `owner` are moving to another association, or end because this one
    /// is gone. The last reports of deleted sessions then have no receiver: only the former CP
    /// function knew these sessions.
    pub(crate) fn leaves_ended_without_receiver(&self, owner: OwnerId) -> bool {
        let stays = |transition: &Transition| match transition.disposition {
            SessionDisposition::Move { to, .. } => to == owner,
            SessionDisposition::Retain { .. } => true,
            SessionDisposition::End => false,
        };
        self.of.get(&owner).is_some_and(|transitions| !transitions.iter().all(stays))
    }

    /// Returns the next disposition that was not applied to this session; it counts as applied from
    /// now on.
    pub(crate) fn take(
        &mut self,
        owner: OwnerId,
        session: SessionIndex,
    ) -> Option<SessionDisposition> {
        self.of.get_mut(&owner)?.iter_mut().find_map(|transition| transition.take(session))
    }

    /// Exempts a session that the association has just got.
    pub(crate) fn exempt(&mut self, owner: OwnerId, session: SessionIndex) {
        for transition in self.of.get_mut(&owner).into_iter().flatten() {
            if session >= transition.next {
                transition.settled.insert(session);
            }
        }
    }

    /// Returns the association to which the sessions of an ended association are moving.
    pub(crate) fn successor(&self, owner: OwnerId) -> Option<OwnerId> {
        self.of.get(&owner)?.iter().find_map(|transition| match transition.disposition {
            SessionDisposition::Move { to, .. } => Some(to),
            SessionDisposition::Retain { .. } | SessionDisposition::End => None,
        })
    }

    /// Returns the ended associations whose sessions are moving to one of `heirs`.
    pub(crate) fn predecessors_of(&self, heirs: &[OwnerId]) -> Vec<OwnerId> {
        let is_theirs = |owner: &OwnerId| {
            let heir = self.successor(*owner).filter(|heir| heir != owner);
            heir.is_some_and(|heir| heirs.contains(&heir))
        };
        self.of.keys().copied().filter(is_theirs).collect()
    }

    /// Changes the disposition of sessions that are moving to `heir`. Returns their associations.
    pub(crate) fn redirect(&mut self, heir: OwnerId, fate: &SessionDisposition) -> Vec<OwnerId> {
        let mut diverted = Vec::new();
        for (&owner, all) in &mut self.of {
            for transition in all {
                if matches!(transition.disposition, SessionDisposition::Move { to, .. } if to == heir)
                {
                    transition.disposition = fate.clone();
                    diverted.push(owner);
                }
            }
        }
        diverted
    }

    /// Drops all dispositions of an association, whose sessions end.
    pub(crate) fn drop_transitions_of(&mut self, owner: OwnerId) {
        self.of.remove(&owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{establish, sessions};

    const ONE: OwnerId = OwnerId(1);
    const HEIR: OwnerId = OwnerId(2);
    const MOVE: SessionDisposition =
        SessionDisposition::Move { to: HEIR, address: IpAddr::V4(core::net::Ipv4Addr::LOCALHOST) };

    #[test]
    fn disposition_is_applied_once_to_each_session_that_was_there_at_the_beginning() {
        let mut sessions = sessions();
        let [first, second] = [1, 2].map(|last| establish(&mut sessions, ONE, last));
        let mut transitions = Transitions::default();
        let number = transitions.begin(ONE, MOVE);
        let later = establish(&mut sessions, ONE, 3);
        transitions.exempt(ONE, later.index);
        assert_eq!(transitions.take(ONE, second.index), Some(MOVE), "before its turn");
        assert_eq!(transitions.take(ONE, second.index), None);
        assert_eq!(transitions.next(ONE, number, sessions.store()), Some(first.up_seid));
        assert_eq!(transitions.take(ONE, first.index), Some(MOVE));
        assert_eq!(transitions.next(ONE, number, sessions.store()), None, "no other is left");
        assert!(transitions.of.is_empty());
    }

    #[test]
    fn sessions_on_their_way_follow_when_their_heir_ends() {
        let mut transitions = Transitions::default();
        transitions.begin(ONE, MOVE);
        assert_eq!(transitions.successor(ONE), Some(HEIR));
        assert_eq!(transitions.predecessors_of(&[HEIR]), [ONE]);
        assert!(
            transitions.leaves_ended_without_receiver(ONE)
                && !transitions.leaves_ended_without_receiver(HEIR)
        );
        assert_eq!(transitions.redirect(HEIR, &SessionDisposition::End), [ONE]);
        assert_eq!(transitions.successor(ONE), None);
        assert_eq!(transitions.take(ONE, SessionIndex(0)), Some(SessionDisposition::End));
        transitions.drop_transitions_of(ONE);
        assert!(!transitions.leaves_ended_without_receiver(ONE));
    }
}
