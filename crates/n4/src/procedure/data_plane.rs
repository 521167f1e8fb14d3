//! Connects the node with the data plane that runs its sessions.

use adit_rules::{DataPlane, WorkerCommand};
use adit_types::Nanos;

use crate::node::Node;

impl Node {
    /// Passes every change that waits to `plane`, in order. Calls `command` with each command that
    /// all workers must receive before the next change.
    pub fn apply_changes<P: DataPlane>(
        &mut self,
        plane: &mut P,
        mut command: impl FnMut(WorkerCommand),
    ) {
        while let Some((id, delta)) = self.poll_delta() {
            while let Some(before) = self.poll_command_before(id) {
                command(before);
            }
            plane.apply(id, delta);
        }
    }

    /// Completes at most `max` changes that all workers of `plane` have observed, upon which their
    /// answers leave. Returns how many it completed.
    pub fn conclude_changes<P: DataPlane>(
        &mut self,
        now: Nanos,
        plane: &mut P,
        max: usize,
    ) -> usize {
        for count in 0..max {
            let Some(id) = plane.poll_observed() else { return count };
            self.handle_published(now, id);
        }
        max
    }
}
