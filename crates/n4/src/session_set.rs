//! Sets of sessions that a CP function names together: by FQ-CSID, and by Group ID.
//!
//! A session tells its sets when it is established, and may change them. The index forgets a
//! session with the change that removes it. Spec: TS 29.244 §6.2.9, §8.2.43, §8.2.198.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use adit_pfcp::ie::{FqCsid, FqCsidNode, GroupId};
use adit_pfcp::{Cause, Repeated};
use adit_types::SessionIndex;
use adit_types::limits::SETS_PER_SESSION_MAX;

use crate::refusal::Rejected;

/// Names one set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SetKey {
    /// A PDN connection set of a node.
    Csid(FqCsidNode, u16),
    /// A group.
    Group(Vec<u8>),
}

/// Which sessions are in which sets.
#[derive(Debug)]
pub(crate) struct SessionSets {
    /// Our own set, in which every session is that a CP function put into one of its own.
    own: SetKey,
    members: HashMap<SetKey, BTreeSet<SessionIndex>>,
    sets: BTreeMap<SessionIndex, SetMembership>,
    /// How many sessions entered sets, in all.
    entered: u64,
}

/// The sets of one session.
#[derive(Debug)]
struct SetMembership {
    /// The number of the session among those that entered sets.
    since: u64,
    keys: Vec<SetKey>,
}

/// A place in a set; sessions that entered it later are not seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberCursor {
    next: SessionIndex,
    entered: u64,
}

impl SessionSets {
    /// No sessions yet.
    pub fn new(own: SetKey) -> Self {
        Self { own, members: HashMap::new(), sets: BTreeMap::new(), entered: 0 }
    }

    /// Puts a session into these sets and out of all others but our own, which it enters with a
    /// set of its CP function and does not leave again.
    pub fn assign(&mut self, session: SessionIndex, mut keys: Vec<SetKey>) {
        let was_in_own = self.is_in_own(session);
        let since = self.sets.get(&session).map(|known| known.since);
        self.remove(session);
        if keys.is_empty() {
            return;
        }
        if was_in_own || keys.iter().any(|key| matches!(key, SetKey::Csid(..))) {
            keys.push(self.own.clone());
        }
        for key in &keys {
            self.members.entry(key.clone()).or_default().insert(session);
        }
        self.entered += u64::from(since.is_none());
        let since = since.unwrap_or(self.entered);
        self.sets.insert(session, SetMembership { since, keys });
    }

    /// Forgets a session.
    pub fn remove(&mut self, session: SessionIndex) {
        let keys = self.sets.remove(&session).map(|known| known.keys);
        for key in keys.unwrap_or_default() {
            if let Some(members) = self.members.get_mut(&key) {
                members.remove(&session);
                if members.is_empty() {
                    self.members.remove(&key);
                }
            }
        }
    }

    /// How many sessions are in our own set.
    pub fn own_len(&self) -> usize {
        self.members.get(&self.own).map_or(0, BTreeSet::len)
    }

    /// True for a session in our own set.
    pub fn is_in_own(&self, session: SessionIndex) -> bool {
        self.sets.get(&session).is_some_and(|known| known.keys.contains(&self.own))
    }

    /// The beginning of any set, as it is now.
    pub const fn cursor(&self) -> MemberCursor {
        MemberCursor { next: SessionIndex(0), entered: self.entered }
    }

    /// The next session of a set; the cursor stands behind it then.
    pub fn next_member(&self, key: &SetKey, cursor: &mut MemberCursor) -> Option<SessionIndex> {
        let is_seen = |session: &&SessionIndex| {
            self.sets.get(session).is_some_and(|known| known.since <= cursor.entered)
        };
        let session = *self.members.get(key)?.range(cursor.next..).find(is_seen)?;
        cursor.next = session.next();
        Some(session)
    }

    /// Sessions that are in some set.
    pub fn len(&self) -> usize {
        self.sets.len()
    }
}

impl MemberCursor {
    /// To the beginning of another set.
    pub const fn rewind(&mut self) {
        self.next = SessionIndex(0);
    }
}

/// The sets that FQ-CSIDs and Group IDs name.
///
/// # Errors
/// Cause 75 for too many sets.
pub(crate) fn keys<'a>(
    fq_csids: Repeated<'a, FqCsid<'a>>,
    groups: impl IntoIterator<Item = GroupId<'a>>,
) -> Result<Vec<SetKey>, Rejected> {
    let mut keys = Vec::new();
    for fq_csid in fq_csids {
        keys.extend(fq_csid.csids().map(|csid| SetKey::Csid(fq_csid.node, csid)));
    }
    keys.extend(groups.into_iter().map(|group| SetKey::Group(group.0.to_vec())));
    if keys.len() > SETS_PER_SESSION_MAX {
        return Err(Rejected::new(Cause::NoResourcesAvailable));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SessionSets {
        fn members(&self, keys: &[SetKey]) -> BTreeSet<SessionIndex> {
            keys.iter().filter_map(|key| self.members.get(key)).flatten().copied().collect()
        }
    }

    #[test]
    fn session_leaves_its_sets_when_assigned_anew_or_removed() {
        let group = |name: u8| SetKey::Group(vec![name]);
        let own = SetKey::Csid(FqCsidNode::Ipv4(core::net::Ipv4Addr::LOCALHOST), 7);
        let mut sets = SessionSets::new(own.clone());
        sets.assign(SessionIndex(1), vec![group(1), group(2)]);
        sets.assign(SessionIndex(2), vec![group(2)]);
        let both = [SessionIndex(1), SessionIndex(2)];
        assert_eq!(sets.members(&[group(1), group(2)]), both.into());
        sets.assign(SessionIndex(1), vec![group(3)]);
        assert_eq!(sets.members(&[group(1), group(2)]), [SessionIndex(2)].into());
        let theirs = SetKey::Csid(FqCsidNode::Ipv4(core::net::Ipv4Addr::BROADCAST), 7);
        sets.assign(SessionIndex(2), vec![theirs]);
        sets.assign(SessionIndex(2), vec![group(2)]);
        assert_eq!(sets.members(&[own]), [SessionIndex(2)].into());
        assert!(sets.is_in_own(SessionIndex(2)) && !sets.is_in_own(SessionIndex(1)));
        sets.remove(SessionIndex(1));
        sets.remove(SessionIndex(2));
        assert!(sets.members.is_empty() && sets.sets.is_empty());
    }

    #[test]
    fn cursor_sees_those_that_were_there_and_no_session_twice() {
        let group = |name: u8| SetKey::Group(vec![name]);
        let own = SetKey::Csid(FqCsidNode::Ipv4(core::net::Ipv4Addr::LOCALHOST), 7);
        let mut sets = SessionSets::new(own);
        for session in [1, 2, 3] {
            sets.assign(SessionIndex(session), vec![group(1)]);
        }
        let mut cursor = sets.cursor();
        assert_eq!(sets.next_member(&group(1), &mut cursor), Some(SessionIndex(1)));
        sets.remove(SessionIndex(1));
        sets.assign(SessionIndex(1), vec![group(1)]);
        sets.remove(SessionIndex(2));
        sets.assign(SessionIndex(2), vec![group(1)]);
        sets.assign(SessionIndex(3), vec![group(2), group(1)]);
        assert_eq!(sets.next_member(&group(1), &mut cursor), Some(SessionIndex(3)));
        assert_eq!(sets.next_member(&group(1), &mut cursor), None);
    }
}
