//! Sets of sessions that a CP function identifies together: by FQ-CSID, or by Group ID.
//!
//! A session gets its sets when it is established; the CP function may change them.
//! Spec: TS 29.244 §6.2.9, §8.2.43, §8.2.198.

use std::collections::{BTreeSet, HashMap};

use adit_pfcp::Repeated;
use adit_pfcp::ie::{FqCsid, FqCsidNode, GroupId};
use adit_types::SessionIndex;
use adit_types::limits::SETS_PER_SESSION_MAX;

use super::SessionStates;
use crate::refusal::Rejected;

/// The identity of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SetKey {
    /// A PDN connection set: a node and one of its CSIDs.
    Csid(FqCsidNode, u16),
    /// A group, by its Group ID.
    Group(Vec<u8>),
}

/// The sets that one session is in.
#[derive(Debug, Default)]
pub(super) struct SetMembership {
    /// Serial number of the session among all that entered sets; see [`MemberCursor`].
    serial: u64,
    keys: Vec<SetKey>,
}

impl SetMembership {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// The sessions in each set.
#[derive(Debug)]
pub(super) struct SetIndex {
    own: SetKey,
    members: HashMap<SetKey, BTreeSet<SessionIndex>>,
    /// How many sessions are in any set.
    sessions: usize,
    last_serial: u64,
}

impl SetIndex {
    pub(super) fn new(own: SetKey) -> Self {
        Self { own, members: HashMap::new(), sessions: 0, last_serial: 0 }
    }
}

/// A position in a set. Sessions that entered the set after the cursor was made are skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberCursor {
    next: SessionIndex,
    last_serial: u64,
}

impl MemberCursor {
    /// Moves to the start of another set.
    pub(crate) const fn rewind(&mut self) {
        self.next = SessionIndex(0);
    }
}

impl SessionStates {
    /// Replaces the sets of a session. A session with an FQ-CSID of its CP function also enters the
    /// set of this node, and stays there until it ends.
    pub(crate) fn assign_sets(&mut self, session: SessionIndex, mut keys: Vec<SetKey>) {
        let was_in_own = self.is_in_own_set(session);
        let serial = self.membership(session).map(|membership| membership.serial);
        self.unassign_sets(session);
        if keys.is_empty() {
            return;
        }
        if was_in_own || keys.iter().any(|key| matches!(key, SetKey::Csid(..))) {
            keys.push(self.sets.own.clone());
        }
        for key in &keys {
            self.sets.members.entry(key.clone()).or_default().insert(session);
        }
        self.sets.last_serial += u64::from(serial.is_none());
        self.sets.sessions += 1;
        let serial = serial.unwrap_or(self.sets.last_serial);
        self.live.edit_rare(session, |rare| rare.sets = SetMembership { serial, keys });
    }

    /// Returns the sets into which CP functions have put a session.
    pub(crate) fn sets_of_cp_function(
        &self,
        session: SessionIndex,
    ) -> impl Iterator<Item = &SetKey> {
        let keys = self.membership(session).map_or(&[][..], |membership| &membership.keys);
        keys.iter().filter(|key| **key != self.sets.own)
    }

    /// Removes a session from all sets.
    pub(super) fn unassign_sets(&mut self, session: SessionIndex) {
        if self.membership(session).is_none() {
            return;
        }
        let left = self.live.edit_rare(session, |rare| core::mem::take(&mut rare.sets));
        self.sets.sessions -= 1;
        for key in left.keys {
            if let Some(members) = self.sets.members.get_mut(&key) {
                members.remove(&session);
                if members.is_empty() {
                    self.sets.members.remove(&key);
                }
            }
        }
    }

    fn membership(&self, session: SessionIndex) -> Option<&SetMembership> {
        let rare = self.live.get(session)?.rare.as_ref()?;
        Some(&rare.sets).filter(|sets| !sets.is_empty())
    }

    /// Returns how many sessions are in the set of this node.
    pub(crate) fn own_set_len(&self) -> usize {
        self.sets.members.get(&self.sets.own).map_or(0, BTreeSet::len)
    }

    /// True if the session is in the set of this node.
    pub(crate) fn is_in_own_set(&self, session: SessionIndex) -> bool {
        self.membership(session).is_some_and(|sets| sets.keys.contains(&self.sets.own))
    }

    /// Returns a cursor at the start of any set, for the members that it has now.
    pub(crate) const fn set_cursor(&self) -> MemberCursor {
        MemberCursor { next: SessionIndex(0), last_serial: self.sets.last_serial }
    }

    /// Returns the next session of a set, and moves the cursor behind it.
    pub(crate) fn next_member(
        &self,
        key: &SetKey,
        cursor: &mut MemberCursor,
    ) -> Option<SessionIndex> {
        let is_seen = |session: &&SessionIndex| {
            self.membership(**session).is_some_and(|sets| sets.serial <= cursor.last_serial)
        };
        let session = *self.sets.members.get(key)?.range(cursor.next..).find(is_seen)?;
        cursor.next = session.next();
        Some(session)
    }

    /// Returns how many sessions are in any set.
    pub(crate) const fn sessions_in_sets_len(&self) -> usize {
        self.sets.sessions
    }
}

/// Returns the sets that FQ-CSIDs and Group IDs identify.
///
/// # Errors
/// Cause 75 if there are too many sets.
pub(crate) fn set_keys<'a>(
    fq_csids: Repeated<'a, FqCsid<'a>>,
    groups: impl IntoIterator<Item = GroupId<'a>>,
) -> Result<Vec<SetKey>, Rejected> {
    let mut keys = Vec::new();
    for fq_csid in fq_csids {
        keys.extend(fq_csid.csids().map(|csid| SetKey::Csid(fq_csid.node, csid)));
    }
    keys.extend(groups.into_iter().map(|group| SetKey::Group(group.0.to_vec())));
    if keys.len() > SETS_PER_SESSION_MAX {
        return Err(Rejected::beyond_limit(
            "FQ-CSIDs and groups in one request",
            SETS_PER_SESSION_MAX,
        ));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SessionStates {
        fn members(&self, keys: &[SetKey]) -> BTreeSet<SessionIndex> {
            keys.iter().filter_map(|key| self.sets.members.get(key)).flatten().copied().collect()
        }
    }

    #[test]
    fn session_leaves_its_sets_when_assigned_anew_or_removed() {
        let group = |name: u8| SetKey::Group(vec![name]);
        let own = SetKey::Csid(FqCsidNode::Ipv4(core::net::Ipv4Addr::LOCALHOST), 7);
        let mut states = SessionStates::new(own.clone());
        states.assign_sets(SessionIndex(1), vec![group(1), group(2)]);
        states.assign_sets(SessionIndex(2), vec![group(2)]);
        let both = [SessionIndex(1), SessionIndex(2)];
        assert_eq!(states.members(&[group(1), group(2)]), both.into());
        states.assign_sets(SessionIndex(1), vec![group(3)]);
        assert_eq!(states.members(&[group(1), group(2)]), [SessionIndex(2)].into());
        let theirs = SetKey::Csid(FqCsidNode::Ipv4(core::net::Ipv4Addr::BROADCAST), 7);
        states.assign_sets(SessionIndex(2), vec![theirs]);
        states.assign_sets(SessionIndex(2), vec![group(2)]);
        assert_eq!(states.members(&[own]), [SessionIndex(2)].into());
        assert!(states.is_in_own_set(SessionIndex(2)) && !states.is_in_own_set(SessionIndex(1)));
        assert_eq!(states.sessions_in_sets_len(), 2);
        states.unassign_sets(SessionIndex(1));
        states.unassign_sets(SessionIndex(2));
        assert!(states.sets.members.is_empty() && states.live.0.is_empty());
        assert_eq!(states.sessions_in_sets_len(), 0);
    }

    #[test]
    fn cursor_sees_those_that_were_there_and_no_session_twice() {
        let group = |name: u8| SetKey::Group(vec![name]);
        let own = SetKey::Csid(FqCsidNode::Ipv4(core::net::Ipv4Addr::LOCALHOST), 7);
        let mut states = SessionStates::new(own);
        for session in [1, 2, 3] {
            states.assign_sets(SessionIndex(session), vec![group(1)]);
        }
        let mut cursor = states.set_cursor();
        assert_eq!(states.next_member(&group(1), &mut cursor), Some(SessionIndex(1)));
        states.unassign_sets(SessionIndex(1));
        states.assign_sets(SessionIndex(1), vec![group(1)]);
        states.unassign_sets(SessionIndex(2));
        states.assign_sets(SessionIndex(2), vec![group(1)]);
        states.assign_sets(SessionIndex(3), vec![group(2), group(1)]);
        assert_eq!(states.next_member(&group(1), &mut cursor), Some(SessionIndex(3)));
        assert_eq!(states.next_member(&group(1), &mut cursor), None);
    }
}
