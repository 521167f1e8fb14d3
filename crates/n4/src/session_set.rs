//! Sets of sessions that a CP function names together: by FQ-CSID, and by Group ID.
//!
//! A session tells its sets when it is established, and may change them. The index forgets a
//! session with the change that removes it. Spec: TS 29.244 §6.2.9, §8.2.43, §8.2.198.

use std::collections::{BTreeSet, HashMap};

use adit_pfcp::IeType;
use adit_pfcp::ie::{FqCsid, GroupId};
use adit_pfcp::{Cause, Repeated};
use adit_types::SessionIndex;
use adit_types::limits::SETS_PER_SESSION_MAX;

use crate::refusal::Rejected;

/// Names one set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SetKey {
    /// A PDN connection set of a node: type and address of the node, number of the set.
    Csid(Vec<u8>, u16),
    /// A group.
    Group(Vec<u8>),
}

/// Which sessions are in which sets.
#[derive(Debug, Default)]
pub(crate) struct SessionSets {
    members: HashMap<SetKey, BTreeSet<SessionIndex>>,
    sets: HashMap<SessionIndex, Vec<SetKey>>,
}

impl SessionSets {
    /// Puts a session into these sets and out of all others.
    pub fn assign(&mut self, session: SessionIndex, keys: Vec<SetKey>) {
        self.remove(session);
        if keys.is_empty() {
            return;
        }
        for key in &keys {
            self.members.entry(key.clone()).or_default().insert(session);
        }
        self.sets.insert(session, keys);
    }

    /// Forgets a session.
    pub fn remove(&mut self, session: SessionIndex) {
        for key in self.sets.remove(&session).unwrap_or_default() {
            if let Some(members) = self.members.get_mut(&key) {
                members.remove(&session);
                if members.is_empty() {
                    self.members.remove(&key);
                }
            }
        }
    }

    /// The sessions that are in any of the sets, each once.
    pub fn members(&self, keys: &[SetKey]) -> BTreeSet<SessionIndex> {
        keys.iter().filter_map(|key| self.members.get(key)).flatten().copied().collect()
    }

    /// Sessions that are in some set.
    pub fn len(&self) -> usize {
        self.sets.len()
    }
}

/// The sets that FQ-CSIDs and Group IDs name.
///
/// # Errors
/// Cause 69 for an FQ-CSID whose octets end early, Cause 75 for too many sets.
pub(crate) fn keys<'a>(
    fq_csids: Repeated<'a, FqCsid<'a>>,
    groups: impl IntoIterator<Item = GroupId<'a>>,
) -> Result<Vec<SetKey>, Rejected> {
    let mut keys = Vec::new();
    for fq_csid in fq_csids {
        let incorrect = Rejected::with_ie(Cause::MandatoryIeIncorrect, IeType::FQ_CSID);
        csids(fq_csid.0, &mut keys).ok_or(incorrect)?;
    }
    keys.extend(groups.into_iter().map(|group| SetKey::Group(group.0.to_vec())));
    if keys.len() > SETS_PER_SESSION_MAX {
        return Err(Rejected::new(Cause::NoResourcesAvailable));
    }
    Ok(keys)
}

/// Octet 1: type of the node address (0 IPv4, 1 IPv6, 2 four octets of operator and node) in the
/// upper half, number of CSIDs in the lower. Then the address, then two octets a CSID.
fn csids(octets: &[u8], keys: &mut Vec<SetKey>) -> Option<()> {
    let (&first, _) = octets.split_first()?;
    let address_len = match first >> 4 {
        0 | 2 => 4,
        1 => 16,
        _ => return None,
    };
    let (node, rest) = octets.split_at_checked(1 + address_len)?;
    let list = rest.get(..2 * usize::from(first & 0x0f))?;
    // The count is no part of the node's identity.
    let node: Vec<u8> = core::iter::once(first >> 4).chain(node.iter().skip(1).copied()).collect();
    for csid in list.chunks_exact(2) {
        let &[hi, lo] = csid else { return None };
        keys.push(SetKey::Csid(node.clone(), u16::from_be_bytes([hi, lo])));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fq_csid_yields_one_set_per_csid_of_its_node() {
        let mut keys = Vec::new();
        assert_eq!(csids(&[0x02, 192, 0, 2, 1, 0, 5, 1, 0], &mut keys), Some(()));
        let node = vec![0, 192, 0, 2, 1];
        assert_eq!(keys, [SetKey::Csid(node.clone(), 5), SetKey::Csid(node, 256)]);
        for short in [&[][..], &[0x01], &[0x01, 1, 2, 3, 4, 0], &[0x31, 1, 2, 3, 4, 0, 1]] {
            assert_eq!(csids(short, &mut Vec::new()), None, "{short:?}");
        }
    }

    #[test]
    fn session_leaves_its_sets_when_assigned_anew_or_removed() {
        let group = |name: u8| SetKey::Group(vec![name]);
        let mut sets = SessionSets::default();
        sets.assign(SessionIndex(1), vec![group(1), group(2)]);
        sets.assign(SessionIndex(2), vec![group(2)]);
        let both = [SessionIndex(1), SessionIndex(2)];
        assert_eq!(sets.members(&[group(1), group(2)]), both.into());
        sets.assign(SessionIndex(1), vec![group(3)]);
        assert_eq!(sets.members(&[group(1), group(2)]), [SessionIndex(2)].into());
        sets.remove(SessionIndex(1));
        sets.remove(SessionIndex(2));
        assert!(sets.members.is_empty() && sets.sets.is_empty());
    }
}
