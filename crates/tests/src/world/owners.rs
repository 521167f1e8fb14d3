//! Sessions that get other owners while packets wait.

use adit_datapath::{GroupOwners, WaitingCapacity, first_owners};
use adit_types::{SessionIndex, WorkerId, owner_group};
use rand::Rng;
use rand::rngs::StdRng;

use super::{InjectedFrame, WAITING_PKTS, World};

impl World {
    /// Gives some groups of sessions to other workers. Nothing that waits for rules leaves or is
    /// lost by that. Does nothing with one worker, with an event scheduler, while rules change or
    /// packets wait for a neighbor, and if one worker might have no room for the waiting packets.
    /// Returns how many groups have another owner.
    ///
    /// # Panics
    /// When the change does not end.
    pub fn change_owners(&mut self, rng: &mut StdRng) -> usize {
        let workers = self.roles.workers();
        let waiting = self.awaiting_rules.len();
        let is_busy = self.publisher.unobserved() > 0 || !self.awaiting_neighbor.is_empty();
        if self.owners.is_none() || is_busy || waiting > WAITING_PKTS {
            return 0;
        }
        // Often all that a worker has, sometimes single groups.
        let (drained, all) = (rng.random_range(0..workers), rng.random_ratio(1, 2));
        let former = self.owners();
        let mut next = former;
        let others: Vec<u8> = (0..u8::try_from(workers).unwrap()).collect();
        for owner in &mut next {
            if all && usize::from(owner.0) == drained || !all && rng.random_ratio(1, 4) {
                *owner = WorkerId(others[rng.random_range(0..workers)]);
            }
        }
        let changed = former.iter().zip(&next).filter(|(former, next)| former != next).count();
        let Some(owners) = &mut self.owners else { return 0 };
        let room = WaitingCapacity { buffered_pkts: WAITING_PKTS, shaped_pkts: WAITING_PKTS };
        if !owners.begin(&next, room, &mut self.publisher) {
            return 0;
        }
        for _ in 0..100 {
            // Each thread may be late by some steps.
            for (thread, io) in self.threads.iter_mut().zip(&mut self.ios) {
                for _ in 0..rng.random_range(0..3) {
                    thread.step(self.now, io);
                }
            }
            if !owners.turn(&mut self.publisher, &mut false) {
                break;
            }
        }
        assert!(!owners.is_changing(), "the change does not end");
        for packet in &mut self.awaiting_rules {
            if let Some(session) = self.store.session(packet.by.seid) {
                packet.worker = owner_of(owners.owners(), session.index());
            }
        }
        changed
    }

    /// The owners, by group.
    fn owners(&self) -> GroupOwners {
        let owners = self.owners.as_ref().map(|owners| *owners.owners());
        owners.unwrap_or_else(|| first_owners(self.roles.workers()))
    }

    /// The worker that processes packets of the session at a position: its owner.
    #[must_use]
    pub fn processing_worker(&self, arrival: &InjectedFrame, session: Option<usize>) -> usize {
        let Some(session) = session else { return arrival.worker };
        let seid = self.oracle.sessions[session].0;
        let index = self.store.session(seid).unwrap().index();
        self.owner_of(index)
    }

    /// The worker that owns a session.
    pub(super) fn owner_of(&self, session: SessionIndex) -> usize {
        owner_of(&self.owners(), session)
    }
}

fn owner_of(owners: &GroupOwners, session: SessionIndex) -> usize {
    usize::from(owners[owner_group(session) as usize].0)
}
