//! Recovery from a panic within a commit: removes the session.
//!
//! Before a commit begins, nothing is written, so a panic leaves the store as it was. At its
//! beginning, a commit notes the session and the resources that it changes. A caller that catches a
//! panic must call [`SessionStore::recover`] before any other method.

use adit_rules::{KeyChange, RuleDelta, SessionKey};
use adit_types::{Seid, SessionIndex, SliceId, Teid};

use crate::alloc::TeidHolder;
use crate::store::{OpenCommit, RetiredResources, SessionStore};
use crate::update::CompiledChange;

impl SessionStore {
    /// Returns how many commits have begun. If the number is the same before and after a call that
    /// panicked, the call changed nothing.
    #[must_use]
    pub const fn commits(&self) -> u64 {
        self.commits
    }

    /// Returns the session of the last commit. It may no longer exist.
    #[must_use]
    pub const fn last_commit(&self) -> Option<Seid> {
        self.last_commit
    }

    /// Begins a commit: from here on the store is changed.
    pub(crate) fn mark_commit(
        &mut self,
        up_seid: Seid,
        index: SessionIndex,
        compiled: &CompiledChange,
    ) {
        let keys = compiled.all_keys();
        self.commits += 1;
        self.last_commit = Some(up_seid);
        let plan = compiled.usage();
        self.usage_slots.take_planned(plan.slots_taken);
        self.generation = plan.generation;
        let usage_slots = plan.all_slots.clone();
        self.correlated_rates.take(compiled.new_rates());
        let correlated_rates = compiled.all_rates();
        self.open_commit = Some(OpenCommit { index, keys, usage_slots, correlated_rates });
    }

    /// Removes the session of a commit that did not end. Returns the delta that removes the session
    /// from the workers; `None` if every commit ended.
    pub fn recover(&mut self) -> Option<RuleDelta> {
        let OpenCommit { index, keys, usage_slots, correlated_rates } = self.open_commit.take()?;
        drop(self.remove_session(index));
        self.tunnel_index.remove_session(index);
        self.packet_rates.set(index, Vec::new());
        self.guaranteed.set(index, SliceId::default(), &[]);
        self.deadlines.set(index, None);
        let mut waiting = Vec::new();
        for &key in &keys {
            match key {
                SessionKey::Teid(teid) => {
                    waiting.extend(self.recover_teid(teid, index).map(SessionKey::Teid));
                    continue;
                }
                _ if self.ues.holder(key) == Some(index) => self.ues.remove(key),
                _ => {}
            }
            let owed = self.retired.values().flatten().flat_map(|retired| &retired.keys);
            let is_owed = owed.into_iter().any(|&known| known == key);
            if self.ue_pools.retire(key, index, &[]) || self.ue_pools.is_retired(key) && !is_owed {
                waiting.push(key);
            }
        }
        let (is_last, usage) = (true, Vec::new());
        let retired =
            RetiredResources { keys: waiting, is_last, usage, usage_slots, correlated_rates };
        self.retired.entry(index).or_default().push_back(retired);
        let keys = keys.into_iter().map(KeyChange::Remove).collect();
        Some(RuleDelta { session: index, keys, rules: None })
    }

    /// Releases a TEID of the session. Returns the TEID if its reclaim must still be scheduled.
    fn recover_teid(&mut self, teid: Teid, index: SessionIndex) -> Option<Teid> {
        let owed = self.retired.get(&index).into_iter().flatten();
        let mut owed = owed.flat_map(|retired| &retired.keys);
        let is_owed = owed.any(|&known| known == SessionKey::Teid(teid));
        match self.teids.holder(teid) {
            TeidHolder::Session(session) if session == index => {
                self.teids.retire(teid).then_some(teid)
            }
            // NOTE: a key of the session is retired only by a commit of the session.
            TeidHolder::Retired if !is_owed => Some(teid),
            TeidHolder::Session(_) | TeidHolder::Retired | TeidHolder::Nobody => None,
        }
    }

    /// Makes the next commit panic half way, for tests of recovery.
    #[doc(hidden)]
    pub fn inject_fault_in_commit(&mut self) {
        self.fault_in_commit = true;
    }
}
