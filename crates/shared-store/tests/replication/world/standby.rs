//! A standby: it keeps the tail of the active process, and follows the server.

use adit_shared_store::replication::{ReplicationServer, ReplicationTail};
use adit_store::{GroupPosition, Incarnation, QueuedGroup};

use super::network::{LossyNetwork, MemoryTransport};
use super::random::ReplicationRandom;
use super::server::SharedServer;
use super::{NAME, TAIL_OCTETS_MAX, WorldCounts, address};

pub(super) struct Standby {
    pub(super) host: usize,
    pub(super) server: ReplicationServer<MemoryTransport>,
    /// The network between it and the shared store is down.
    pub(super) is_cut_off: bool,
    /// The last group that it has found in the shared store.
    found: GroupPosition,
}

impl Standby {
    pub(super) fn start(
        host: usize,
        incarnation: Incarnation,
        network: &LossyNetwork,
        shared: &SharedServer,
    ) -> Self {
        let mut tail = ReplicationTail::new(NAME, incarnation, TAIL_OCTETS_MAX);
        // The standby looked at the lease before it began.
        tail.note_epoch(shared.epoch);
        let server = ReplicationServer::new(network.transport(host), address(host), tail).unwrap();
        Self { host, server, is_cut_off: false, found: shared.last() }
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.server.tail().incarnation()
    }

    /// Finds some of the groups that are new in the shared store. Those that it takes from its tail
    /// are the same ones.
    pub(super) fn follow(
        &mut self,
        shared: &SharedServer,
        random: &ReplicationRandom,
        counts: &mut WorldCounts,
    ) {
        self.server.tail_mut().note_epoch(shared.epoch);
        let new = shared.after(self.found);
        let some = usize::try_from(random.below(new.len() as u64 + 1)).unwrap();
        let new = if random.permille(500) { new } else { &new[..some] };
        let Some((through, _)) = new.last() else { return };
        let tail = self.server.tail_mut();
        match tail.groups_between(self.found, *through) {
            Some(groups) => {
                let groups: Vec<&QueuedGroup> = groups.collect();
                let of_server: Vec<_> = new.iter().map(|(_, group)| group).collect();
                assert_eq!(groups, of_server, "the tail has other groups than the shared store");
                counts.found_in_tail += new.len();
            }
            None => counts.found_in_server += new.len(),
        }
        tail.drop_found(*through);
        self.found = *through;
    }

    pub(super) fn found(&self) -> GroupPosition {
        self.found
    }
}
