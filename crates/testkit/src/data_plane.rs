//! A data plane without packets: it records changes, and the test decides when they take effect.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use adit_rules::{
    DataPlane, DeltaId, KeyChange, RuleDelta, SessionKey, SessionRules, UsageCounts, UsageSource,
};
use adit_types::{SessionIndex, UsageSlot};

/// Usage that a test sets for each slot; it is the same for all generations of the slot.
#[derive(Debug, Default)]
pub struct RecordedUsage(Mutex<BTreeMap<UsageSlot, UsageCounts>>);

impl RecordedUsage {
    /// Sets the counters of a slot.
    pub fn set(&self, slot: UsageSlot, counts: UsageCounts) {
        if let Ok(mut all) = self.0.lock() {
            all.insert(slot, counts);
        }
    }
}

impl UsageSource for RecordedUsage {
    fn usage(&self, slot: UsageSlot, _: u32) -> UsageCounts {
        self.0.lock().ok().and_then(|all| all.get(&slot).copied()).unwrap_or_default()
    }
}

/// A [`DataPlane`] that records its changes.
///
/// Changes take effect at once, except after [`DataPlaneRecorder::hold`], when they wait for
/// [`DataPlaneRecorder::release`].
#[derive(Debug, Default)]
pub struct DataPlaneRecorder {
    /// Keys, and the sessions that packets with them belong to.
    keys: BTreeMap<SessionKey, SessionIndex>,
    /// The rules of each session that has any.
    rules: BTreeMap<SessionIndex, SessionRules>,
    unobserved: VecDeque<DeltaId>,
    /// How many of `unobserved` have taken effect, from the front.
    in_effect: usize,
    is_held: bool,
    usage: Arc<RecordedUsage>,
}

impl DataPlaneRecorder {
    /// Makes changes wait for [`Self::release`] from now on.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// Makes all changes take effect now, and later ones at once.
    pub fn release(&mut self) {
        self.is_held = false;
        self.in_effect = self.unobserved.len();
    }

    /// Returns the session that packets with this key belong to.
    #[must_use]
    pub fn session_of(&self, key: SessionKey) -> Option<SessionIndex> {
        self.keys.get(&key).copied()
    }

    /// Returns the rules of a session.
    #[must_use]
    pub fn rules(&self, session: SessionIndex) -> Option<&SessionRules> {
        self.rules.get(&session)
    }

    /// Returns the number of sessions with rules.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.rules.len()
    }

    /// Returns the number of keys that belong to a session.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Returns the counters that the control side reads.
    #[must_use]
    pub fn usage(&self) -> &RecordedUsage {
        &self.usage
    }
}

impl DataPlane for DataPlaneRecorder {
    /// # Panics
    /// If ids do not ascend, or if an added or removed key belongs to another session.
    fn apply(&mut self, id: DeltaId, delta: RuleDelta) {
        assert!(self.unobserved.back().is_none_or(|last| *last < id), "{id:?} does not ascend");
        let RuleDelta { session, keys, rules } = delta;
        for change in keys {
            match change {
                KeyChange::Add(key) => {
                    let before = self.keys.insert(key, session);
                    assert!(before.is_none_or(|known| known == session), "{key:?} is in use");
                }
                KeyChange::Remove(key) => {
                    let before = self.keys.remove(&key);
                    assert!(before.is_none_or(|known| known == session), "{key:?} leads elsewhere");
                }
            }
        }
        match rules {
            Some(rules) => self.rules.insert(session, *rules),
            None => self.rules.remove(&session),
        };
        self.unobserved.push_back(id);
        if !self.is_held {
            self.in_effect = self.unobserved.len();
        }
    }

    fn poll_observed(&mut self) -> Option<DeltaId> {
        self.in_effect = self.in_effect.checked_sub(1)?;
        self.unobserved.pop_front()
    }

    fn unobserved(&self) -> usize {
        self.unobserved.len()
    }

    fn usage_source(&self) -> Arc<dyn UsageSource> {
        Arc::clone(&self.usage) as Arc<dyn UsageSource>
    }
}
