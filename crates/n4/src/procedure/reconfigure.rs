//! Changes the configuration of a running node.

use adit_types::{Nanos, SessionIndex};

use crate::backlog::JobTask;
use crate::config::NodeConfig;
use crate::node::Node;

impl Node {
    /// Adopts from `config` the policy for peers, the timers, the monitoring of GTP-U paths, how
    /// records are kept, and the objects that rules may refer to; ignores all else. New requests
    /// are decided by the new configuration. With `recompiles`, existing sessions get rules
    /// compiled by the new configuration, a bounded number in each iteration; otherwise they keep
    /// their rules.
    ///
    /// The interfaces (except that further ones may be appended), the conditions of slices and the
    /// network instance of each forwarding policy must not change: see
    /// [`adit_session::SessionStore::set_provisioning`].
    pub fn reconfigure(&mut self, now: Nanos, config: NodeConfig, recompiles: bool) {
        let NodeConfig {
            heartbeat_interval,
            sessions_outlive_peer,
            t1,
            n1,
            policy,
            paths,
            store,
            records,
            ..
        } = config;
        self.peers.admission.set_policy(policy.clone());
        self.peers.setups.set_first_pause(t1);
        self.paths.set_config(now, paths);
        self.sessions.set_provisioning(store.provisioning);
        self.sessions.records.set_config(records);
        self.pool_usage.next_look = now;
        let known = &mut self.config;
        known.store.provisioning = self.sessions.store().provisioning().clone();
        (known.heartbeat_interval, known.t1, known.n1) = (heartbeat_interval, t1, n1);
        known.sessions_outlive_peer = sessions_outlive_peer;
        (known.policy, known.paths) = (policy, paths);
        known.records = known.records.and(records);
        if recompiles && !self.sessions.store().is_empty() {
            let next = SessionIndex(0);
            let _ = self.start_job(None, JobTask::RecompileAll { next });
        }
    }
}
