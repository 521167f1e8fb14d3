//! Sessions of an association that get another fate: they go to another SMF of the set or to another
//! address, or stay only if they are controlled from certain addresses.
//!
//! A job settles one session after another; whatever concerns a session meanwhile settles it first,
//! so nobody sees the difference. Sessions that the association gets after the beginning are not
//! concerned. Spec: TS 29.244 §5.22, §6.2.6.2.2.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_rules::DeltaId;
use adit_session::{OwnerId, SessionStore};
use adit_types::{Seid, SessionIndex};

use crate::backlog::{JobTask, JobWaiter};
use crate::node::Node;
use crate::session_state::RemainingReports;

/// What becomes of the sessions of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionDisposition {
    /// This association controls them from this address.
    Move { to: OwnerId, address: IpAddr },
    /// They stay if their control plane is at one of the addresses, and end if not.
    Retain { at: Arc<[IpAddr]> },
    /// They end: whoever should have had them is gone.
    End,
}

/// A fate that not all sessions have met.
#[derive(Debug)]
struct Transition {
    number: u64,
    disposition: SessionDisposition,
    /// Sessions below this index have met it.
    next: SessionIndex,
    /// The session in front of `next` whose turn it is.
    current: Option<SessionIndex>,
    /// Sessions from `next` on that have met it, or came later.
    settled: BTreeSet<SessionIndex>,
}

impl Transition {
    /// The fate of a session that has yet to meet it, which it does now.
    fn take(&mut self, session: SessionIndex) -> Option<SessionDisposition> {
        let is_due = match self.current.take_if(|current| *current == session) {
            Some(_) => true,
            None => session >= self.next && self.settled.insert(session),
        };
        is_due.then(|| self.disposition.clone())
    }
}

/// All transitions, those of one association in the order of their beginning.
#[derive(Debug, Default)]
pub(crate) struct Transitions {
    of: BTreeMap<OwnerId, Vec<Transition>>,
    last_number: u64,
}

impl Transitions {
    /// Begins one; returns its number.
    fn begin(&mut self, owner: OwnerId, fate: SessionDisposition) -> u64 {
        self.last_number += 1;
        let (number, next) = (self.last_number, SessionIndex(0));
        let transition =
            Transition { number, disposition: fate, next, current: None, settled: BTreeSet::new() };
        self.of.entry(owner).or_default().push(transition);
        number
    }

    /// The next session that has yet to meet the disposition `number`; the transition ends without
    /// one.
    pub fn next(&mut self, owner: OwnerId, number: u64, store: &SessionStore) -> Option<Seid> {
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

    /// True if sessions of an association that ended go elsewhere: those that are gone except for
    /// their last reports then have no receiver, because only their former CP function knows them.
    pub fn strands_ended(&self, owner: OwnerId) -> bool {
        let stays = |transition: &Transition| match transition.disposition {
            SessionDisposition::Move { to, .. } => to == owner,
            SessionDisposition::Retain { .. } => true,
            SessionDisposition::End => false,
        };
        self.of.get(&owner).is_some_and(|transitions| !transitions.iter().all(stays))
    }

    /// The next fate that a session has yet to meet, which it does now.
    fn take(&mut self, owner: OwnerId, session: SessionIndex) -> Option<SessionDisposition> {
        self.of.get_mut(&owner)?.iter_mut().find_map(|transition| transition.take(session))
    }

    /// Takes in a session that the association got now.
    pub fn exempt(&mut self, owner: OwnerId, session: SessionIndex) {
        for transition in self.of.get_mut(&owner).into_iter().flatten() {
            if session >= transition.next {
                transition.settled.insert(session);
            }
        }
    }

    /// Who gets the sessions of an association that ended, if they are on their way.
    pub fn successor(&self, owner: OwnerId) -> Option<OwnerId> {
        self.of.get(&owner)?.iter().find_map(|transition| match transition.disposition {
            SessionDisposition::Move { to, .. } => Some(to),
            SessionDisposition::Retain { .. } | SessionDisposition::End => None,
        })
    }

    /// The associations that ended and whose sessions go to one of these.
    pub fn predecessors_of(&self, heirs: &[OwnerId]) -> Vec<OwnerId> {
        let is_theirs = |owner: &OwnerId| {
            let heir = self.successor(*owner).filter(|heir| heir != owner);
            heir.is_some_and(|heir| heirs.contains(&heir))
        };
        self.of.keys().copied().filter(is_theirs).collect()
    }

    /// What goes to `heir` meets another fate from now on. Returns whose sessions these are.
    fn redirect(&mut self, heir: OwnerId, fate: &SessionDisposition) -> Vec<OwnerId> {
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

    /// The sessions of an association end, whatever else was to become of them.
    fn drop_of(&mut self, owner: OwnerId) {
        self.of.remove(&owner);
    }
}

impl Node {
    /// Gives the sessions of an association another fate, one after another.
    pub(crate) fn begin_transition(
        &mut self,
        owner: OwnerId,
        fate: SessionDisposition,
        waiter: Option<JobWaiter>,
    ) {
        if let SessionDisposition::Move { to, .. } = fate {
            // What is on its way to this association goes on.
            self.sessions.transitions.redirect(owner, &fate);
            debug_assert!(to == owner || self.associations().any(|a| a.owner == to));
        }
        let number = self.sessions.transitions.begin(owner, fate);
        self.start_job(waiter, JobTask::Transition { owner, number });
    }

    /// The association ended and nobody inherits its sessions, nor those that were on their way to
    /// it: none of them reports any more.
    pub(crate) fn abandon_sessions(&mut self, owner: OwnerId) {
        self.sessions.transitions.drop_of(owner);
        self.sessions.states.abandon_reports(owner);
        for former in self.sessions.transitions.redirect(owner, &SessionDisposition::End) {
            self.sessions.states.abandon_reports(former);
        }
    }

    /// True while somebody hears of the sessions of `owner`: it is associated, or another one of its
    /// set is about to get them.
    pub(crate) fn has_control_plane(&self, owner: OwnerId) -> bool {
        self.associations().any(|association| association.owner == owner)
            || self.sessions.transitions.successor(owner).is_some()
    }

    /// Lets a session meet its fate if it has yet to. Returns the change that ends it.
    pub(crate) fn apply_disposition(&mut self, up_seid: Seid) -> Option<DeltaId> {
        loop {
            let session = self.sessions.store().session(up_seid)?;
            let (owner, index, cp) = (session.owner(), session.index(), session.cp_f_seid());
            match self.sessions.transitions.take(owner, index)? {
                SessionDisposition::Move { to, address } => {
                    self.sessions.states.keep_former_cp(up_seid, cp);
                    if let Some(sequence) = self.sessions.states.hand_over_reports(up_seid, to) {
                        self.transactions.close(sequence);
                    }
                    self.sessions.set_control(up_seid, to, cp.at(address));
                }
                SessionDisposition::Retain { at }
                    if at.iter().any(|&address| cp.is_at(address)) => {}
                SessionDisposition::Retain { .. } => return self.delete_session(up_seid),
                SessionDisposition::End => return self.end_session_with_association(up_seid),
            }
        }
    }

    /// Ends a session of an association that ended; its reports go with it.
    pub(crate) fn end_session_with_association(&mut self, up_seid: Seid) -> Option<DeltaId> {
        let deleted = self.sessions.delete(up_seid, RemainingReports::Discard)?;
        Some(self.forget_discarded(deleted))
    }

    /// Forgets what a session has to report: nobody hears of it.
    pub(crate) fn discard_reports(&mut self, up_seid: Seid) {
        let discarded = self.sessions.states.discard_reports(up_seid);
        self.drop_reports(discarded);
    }
}
