//! The end of the process, and another one that restores its sessions.

use adit_session::FormerSession;

use super::{World, WorldLayout};
use crate::oracle::{Oracle, OracleFirstFragments};

impl World {
    /// Both sides after the process ended and another one restored its sessions from their records,
    /// without neighbors and without waiting packets. Rules, usage and the rest of packet rates go
    /// on; buckets of bit rates and counters of sessions begin again.
    ///
    /// # Panics
    /// When a session cannot be restored.
    #[must_use]
    pub fn restarted(self, layout: &WorldLayout) -> Self {
        let kept = self.store.sessions().map(|session| session.up_seid());
        let kept = kept.map(|seid| self.store.kept(self.now, seid).unwrap().octets());
        let kept: Vec<Vec<u8>> = kept.collect();
        let mut next = Self::new(layout);
        next.now = self.now;
        next.kept_their_rules = self.kept_their_rules;
        next.known_fragments = self.known_fragments;
        next.oracle.now = self.oracle.now;
        next.oracle.sessions = self.oracle.sessions;
        let Oracle { sessions, first_fragments, .. } = &mut next.oracle;
        *first_fragments = OracleFirstFragments::new();
        for (_, session) in sessions {
            session.due.clear();
            (session.uplink, session.downlink) = ((0, 0), (0, 0));
        }
        for octets in kept {
            let mut former = FormerSession::from_octets(&octets).unwrap();
            let restored = next.store.restore(next.now, &mut former).unwrap();
            next.publish(restored.delta);
        }
        next.settle();
        next
    }
}
