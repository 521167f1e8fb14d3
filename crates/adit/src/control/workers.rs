//! Drains and resumes workers: moves sessions between workers while packets pass.

use adit_datapath::{GroupOwners, WaitingCapacity, first_owners};
use adit_kernel::idle::Doorbell;
use adit_types::{Nanos, Role, WorkerId};
use tracing::info;

use super::ControlThread;
use crate::admin::{AdminAnswer, AnswerSink};
use crate::control_parts::ControlParts;

/// How long earlier changes may take to reach all workers; sessions move only after that.
const SETTLE_WAIT_MAX: Nanos = Nanos::from_secs(10);

/// A change of owners that an operator requested.
pub(super) struct OwnerChangeAct {
    worker: usize,
    drains: bool,
    next: GroupOwners,
    since: Nanos,
    answer: AnswerSink,
}

impl ControlThread {
    /// Begins to move the sessions of a worker to the others, or, unless `drains`, to give it
    /// sessions again. The answer leaves when all have moved, or when the act is refused.
    pub(super) fn begin_owner_change(
        &mut self,
        now: Nanos,
        worker: &str,
        drains: bool,
        answer: AnswerSink,
    ) {
        let (worker, drained) = match self.checked_worker(worker, drains) {
            Ok(checked) => checked,
            Err(refused) => return answer(refused),
        };
        let owners = &self.parts.owners;
        let next = owners_without_drained(&drained, self.parts.nodes.threads());
        self.drained = drained;
        if next == *owners.owners() {
            return answer(outcome(worker, drains, 0));
        }
        self.owners = Some(OwnerChangeAct { worker, drains, next, since: now, answer });
    }

    /// Checks an act on a worker. Returns its id, and by worker whether it is drained afterwards.
    fn checked_worker(&self, text: &str, drains: bool) -> Result<(usize, Vec<bool>), AdminAnswer> {
        if let Some(refused) = self.refusal_while_passive() {
            return Err(refused);
        }
        let refused = |why: String| Err(AdminAnswer::Refused(why));
        let threads = &self.parts.threads;
        if threads.iter().any(|thread| thread.role == Role::RxTx) {
            return refused(
                "with datapath.model = \"eventdev\" workers own no sessions: the event scheduler gives flows to any of \
                 them"
                    .to_owned(),
            );
        }
        let Some(worker) = text.parse().ok().filter(|worker: &usize| *worker < threads.len())
        else {
            return Err(AdminAnswer::Unknown(format!(
                "no worker has the number \"{text}\"; `adit show workers` lists them"
            )));
        };
        let role = threads[worker].role;
        if role != Role::Worker {
            let what = role.name();
            return refused(format!("thread {worker} is a {what} thread, which owns no sessions"));
        }
        if self.owners.is_some() {
            return refused("sessions move to other workers at this moment; try again".to_owned());
        }
        let mut drained = self.drained.clone();
        drained.resize(self.parts.owners.workers(), false);
        drained[worker] = drains;
        if drained.iter().all(|is_drained| *is_drained) {
            return refused(format!(
                "worker {worker} is the only one with sessions; resume another one first"
            ));
        }
        Ok((worker, drained))
    }

    /// True if rules may be published: no sessions are moving between owners.
    pub(super) const fn may_publish(&self) -> bool {
        self.owners.is_none()
    }

    /// Continues a change of owners.
    pub(super) fn continue_owner_change(&mut self, now: Nanos) {
        let Some(pending) = &self.owners else { return };
        let ControlParts { owners, publisher, commands, bells, config, .. } = &mut self.parts;
        let mut has_published = false;
        let is_done = match owners.is_changing() {
            true => !owners.turn(publisher, &mut has_published),
            false => {
                let is_settled = publisher.unobserved() == 0
                    && commands.iter().all(|ring| ring.slots() == ring.buffer().capacity());
                if !is_settled {
                    return self.give_up_late_owner_change(now);
                }
                let room = WaitingCapacity {
                    buffered_pkts: config.buffer_pkts_per_worker(),
                    shaped_pkts: config.shaped_pkts_per_worker(),
                };
                has_published = owners.begin(&pending.next, room, publisher);
                !has_published
            }
        };
        if has_published {
            bells.iter().for_each(Doorbell::ring);
        }
        if !is_done {
            return;
        }
        let Some(OwnerChangeAct { worker, drains, since, answer, .. }) = self.owners.take() else {
            return;
        };
        let groups = self.groups_of(worker);
        let took_us = now.since(since).0 / 1000;
        info!(worker, drains, groups, took_us, "sessions have other owners");
        answer(outcome(worker, drains, groups));
    }

    /// Gives up a change of owners if earlier changes did not reach all workers in time.
    fn give_up_late_owner_change(&mut self, now: Nanos) {
        let is_late = |pending: &mut OwnerChangeAct| now.since(pending.since) >= SETTLE_WAIT_MAX;
        let Some(OwnerChangeAct { worker, drains, answer, .. }) = self.owners.take_if(is_late)
        else {
            return;
        };
        if let Some(drained) = self.drained.get_mut(worker) {
            *drained = !drains;
        }
        let why = "a worker does not take over changed rules, so no sessions can move; `adit show workers` has its state";
        answer(AdminAnswer::Refused(why.to_owned()));
    }

    fn groups_of(&self, worker: usize) -> usize {
        let owners = self.parts.owners.owners();
        owners.iter().filter(|owner| usize::from(owner.0) == worker).count()
    }
}

fn outcome(worker: usize, drains: bool, groups: usize) -> AdminAnswer {
    AdminAnswer::done(&match (drains, groups) {
        (true, _) => format!("worker {worker} has no sessions any more"),
        (false, 0) => format!("worker {worker} was not drained"),
        (false, groups) => format!("worker {worker} has {groups} of 64 groups of sessions again"),
    })
}

/// Returns the owner of each owner group if the `drained` workers have none: the group's owner at
/// the start unless that one is drained, else the worker with the fewest groups, on the same NUMA
/// node if possible.
fn owners_without_drained(drained: &[bool], nodes: &[Option<u32>]) -> GroupOwners {
    let first = first_owners(drained.len());
    let is_drained = |worker: usize| drained.get(worker).copied().unwrap_or_default();
    let mut counts = vec![0_usize; drained.len()];
    for owner in first {
        counts[usize::from(owner.0)] += 1;
    }
    first.map(|owner| {
        let owner_at = usize::from(owner.0);
        if !is_drained(owner_at) {
            return owner;
        }
        let node_of = |worker: usize| nodes.get(worker).copied().flatten();
        let others = (0..drained.len()).filter(|worker| !is_drained(*worker));
        let key = |worker: &usize| (node_of(*worker) != node_of(owner_at), counts[*worker]);
        let Some(to) = others.min_by_key(key) else { return owner };
        counts[to] += 1;
        WorkerId(u8::try_from(to).unwrap_or(owner.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(drained: &[bool], nodes: &[Option<u32>]) -> Vec<usize> {
        let owners = owners_without_drained(drained, nodes);
        let of = |worker| owners.iter().filter(|owner| usize::from(owner.0) == worker).count();
        (0..drained.len()).map(of).collect()
    }

    #[test]
    fn groups_of_drained_workers_are_shared_evenly_and_all_others_stay() {
        let none = [None; 4];
        assert_eq!(owners_without_drained(&[false; 4], &none), first_owners(4));
        assert_eq!(shares(&[false, true, false, false], &none), [22, 0, 21, 21]);
        assert_eq!(shares(&[true, true, false, true], &none), [0, 0, 64, 0]);
        let one = owners_without_drained(&[false, true, false, false], &none);
        for (owner, first) in one.iter().zip(first_owners(4)) {
            assert!(*owner == first || first == WorkerId(1));
        }
    }

    #[test]
    fn sessions_stay_on_their_node_if_it_has_another_worker() {
        let nodes = [Some(0), Some(0), Some(1), Some(1)];
        assert_eq!(shares(&[true, false, false, false], &nodes), [0, 32, 16, 16]);
        assert_eq!(shares(&[true, true, false, false], &nodes), [0, 0, 32, 32]);
    }
}
