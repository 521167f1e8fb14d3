//! Withheld sessions: workers have to see all their packets, so the offload forwards none.

use adit_types::SessionIndex;

use super::Publisher;

impl Publisher {
    /// Leaves a session to the workers: the offload, if there is one, forwards none of its packets
    /// until [`Publisher::release_withheld`].
    pub fn withhold(&mut self, session: SessionIndex) {
        self.offload.as_mut().into_iter().for_each(|offload| offload.withhold(session));
    }

    /// Undoes one [`Publisher::withhold`]. Returns true if the caller should publish the rules of
    /// the session again, so that the offload gets it.
    pub fn release_withheld(&mut self, session: SessionIndex) -> bool {
        self.offload.as_mut().is_some_and(|offload| offload.release(session))
    }
}
