//! Owner and CP F-SEID of sessions, whose changes do not concern workers.
//!
//! Spec: TS 29.244 §5.22 (sessions controlled by an SMF set).

use adit_types::{Seid, SessionIndex};

use crate::change::SessionChange;
use crate::cp_function::{CpFSeid, OwnerId};
use crate::record::Records;
use crate::refusal::Refusal;
use crate::session::{OpenSession, Session};
use crate::store::SessionStore;
use crate::update;
use crate::usage::SessionUsage;

impl SessionStore {
    /// Checks a change of the session `up_seid`, or of a new session of `owner`, without applying
    /// it.
    ///
    /// # Errors
    /// The first [`Refusal`] that the change would meet.
    pub fn check_change(
        &self,
        owner: OwnerId,
        up_seid: Option<Seid>,
        change: SessionChange,
    ) -> Result<(), Refusal> {
        let known = up_seid.and_then(|up_seid| self.session(up_seid));
        match known {
            Some(session) => update::prepare(self, &session.open(), change),
            None => {
                let index = self.index_for(&change)?;
                let (origin, cp, records) = (owner, CpFSeid::default(), Records::default());
                let session = OpenSession {
                    up_seid: Seid(0),
                    index,
                    owner,
                    origin,
                    cp,
                    records,
                    buffer_epoch: 0,
                    usage: SessionUsage::default(),
                };
                update::prepare(self, &session, change)
            }
        }
        .map(drop)
    }

    /// Transfers the session `up_seid` to `owner`, with `cp` as the control plane's endpoint.
    /// Returns false if there is no such session.
    pub fn set_control(&mut self, up_seid: Seid, owner: OwnerId, cp: CpFSeid) -> bool {
        let Some(index) = self.session(up_seid).map(Session::index) else { return false };
        let Some(mut session) = self.remove_session(index) else { return false };
        session.owner = owner;
        session.set_cp_f_seid(cp);
        self.insert_session(session);
        true
    }

    /// Returns the owners that have sessions.
    pub fn owners(&self) -> impl Iterator<Item = OwnerId> {
        self.owned.keys().copied()
    }

    /// Returns the sessions of `owner`, by ascending index.
    pub fn owned_by(&self, owner: OwnerId) -> impl Iterator<Item = &Session> {
        let owned = self.owned.get(&owner).into_iter().flatten();
        owned.filter_map(|&index| self.session_at(index))
    }

    /// Returns the first session of `owner` with an index of at least `from`.
    #[must_use]
    pub fn next_owned(&self, owner: OwnerId, from: SessionIndex) -> Option<&Session> {
        self.session_at(*self.owned.get(&owner)?.range(from..).next()?)
    }
}
