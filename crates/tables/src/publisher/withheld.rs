//! Sessions whose packets workers have to see.

use adit_types::SessionIndex;

use super::Publisher;

impl Publisher {
    /// Leaves a session to the workers: the offload, if there is one, forwards none of its packets
    /// until [`Publisher::release_withheld`].
    pub fn withhold(&mut self, session: SessionIndex) {
        self.offload.as_mut().into_iter().for_each(|offload| offload.withhold(session));
    }

    /// Ends one [`Publisher::withhold`]. Returns true if the offload gets the session when its
    /// rules are published again.
    pub fn release_withheld(&mut self, session: SessionIndex) -> bool {
        self.offload.as_mut().is_some_and(|offload| offload.release(session))
    }
}
