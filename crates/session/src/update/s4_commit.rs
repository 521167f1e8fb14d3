//! Stage 4: write the change into the store and say what workers have to learn. Cannot fail.

use adit_rules::{KeyChange, RuleDelta, SessionKey};
use adit_types::{SessionIndex, Teid};

use super::s2_resolve::Resolved;
use super::s3_compile::compile;
use crate::keys;
use crate::session::Session;
use crate::store::{Retired, SessionStore};

/// What becomes of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is new.
    Establish,
    /// It stays.
    Modify,
    /// It ends.
    Delete,
}

/// Commits `resolved` as the new rules of `session`, which is not in its place meanwhile.
/// Returns the delta; `None` when a modification changes nothing for packets.
pub(crate) fn commit(
    store: &mut SessionStore,
    mut session: Session,
    resolved: Resolved,
    fate: Fate,
) -> Option<RuleDelta> {
    let index = session.index;
    let before = core::mem::replace(&mut session.records, resolved.records);
    store.teids.commit(resolved.teids, index);
    let retired =
        move_claims(store, index, &keys::claims(&before), &keys::claims(&session.records));

    let key_changes = changes(&keys::keys(&before), &keys::keys(&session.records));
    let up_seid = session.up_seid;
    let rules = (fate != Fate::Delete)
        .then(|| Box::new(compile(&store.provisioning, up_seid, &session.records)));
    let unchanged = fate == Fate::Modify
        && key_changes.is_empty()
        && rules.as_deref() == Some(&compile(&store.provisioning, up_seid, &before));
    if fate != Fate::Delete {
        store.put(session);
    }
    if unchanged {
        return None;
    }
    let gone = (fate == Fate::Delete).then_some(up_seid);
    let queue = store.retired.entry(index).or_default();
    queue.push_back(Retired { teids: retired, session: gone });
    Some(RuleDelta { session: index, keys: key_changes, rules })
}

/// Removals first, each in ascending order.
fn changes(before: &[SessionKey], after: &[SessionKey]) -> Vec<KeyChange> {
    let removed = keys::difference(before, after).map(KeyChange::Remove);
    removed.chain(keys::difference(after, before).map(KeyChange::Add)).collect()
}

/// Releases and takes claims; returns the released TEIDs that wait for their reclaim.
fn move_claims(
    store: &mut SessionStore,
    index: SessionIndex,
    before: &[SessionKey],
    after: &[SessionKey],
) -> Vec<Teid> {
    let mut retired = Vec::new();
    for key in keys::difference(before, after) {
        match key {
            SessionKey::Teid(teid) if store.teids.retire(teid) => retired.push(teid),
            SessionKey::Teid(_) => {}
            SessionKey::UeIpv4(addr) => drop(store.ue_v4.remove(&addr)),
            SessionKey::UeIpv6(upper) => drop(store.ue_v6.remove(&upper)),
        }
    }
    for key in keys::difference(after, before) {
        match key {
            SessionKey::Teid(teid) => store.teids.ensure_given(teid, index),
            SessionKey::UeIpv4(addr) => drop(store.ue_v4.insert(addr, index)),
            SessionKey::UeIpv6(upper) => drop(store.ue_v6.insert(upper, index)),
        }
    }
    retired
}
