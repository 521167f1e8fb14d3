//! Stage 4: writes the change into the store and returns the delta for the data plane. Cannot fail.
//!
//! [`compile_change`] and [`compile_restoration`] compute everything before the store is changed.

use adit_rules::{CorrelatedRateId, KeyChange, RuleDelta, SessionKey, SessionRules};
use adit_types::limits::{SESSION_RECORD_BYTES_MAX, own_usage_slot};
use adit_types::{SessionIndex, Teid};

use super::s2_resolve::Resolved;
use super::s3_compile::{compile, set_usage};
use super::usage_plan::UsagePlan;
use crate::index::QerPacketRates;
use crate::index::correlated_rates;
use crate::kept::KeptUsage;
use crate::keys::{self, SessionKeys};
use crate::packed_record::{PackedRecord, PackedRules};
use crate::record::Records;
use crate::refusal::Refusal;
use crate::session::{OpenSession, SessionIdentity};
use crate::store::{RetiredResources, SessionStore};
use crate::usage::{SessionUsage, UsageReport};

/// How a change affects its session as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The session is new.
    Establish,
    /// The session is restored. Nothing is released, so no reclaim follows.
    Restore,
    /// The session exists before and after the change.
    Modify,
    /// The session is deleted.
    Delete,
}

/// A change that is ready to be written into the store.
#[derive(Debug)]
pub(crate) struct CompiledChange {
    kind: ChangeKind,
    claims_before: Vec<SessionKey>,
    claims_after: Vec<SessionKey>,
    /// Claims that pass to another session without a reclaim, because that session replaces this
    /// one; for the new session, those that it gets.
    handed_over: Vec<SessionKey>,
    key_changes: Vec<KeyChange>,
    rules: Option<Box<SessionRules>>,
    rates_before: Vec<CorrelatedRateId>,
    rates_after: Vec<CorrelatedRateId>,
    /// True if nothing changes for packets.
    unchanged: bool,
    /// The packed session after the change; `None` if it is deleted.
    record: Option<PackedRecord>,
    usage: UsagePlan,
    packet_rates: QerPacketRates,
}

/// The measurements of a session of a previous run, and their usage.
#[derive(Debug)]
pub(crate) struct FormerUsage<'a> {
    pub usage: SessionUsage,
    pub used: &'a KeptUsage,
    /// The packed records, if these are unchanged.
    pub packed: Option<&'a PackedRules>,
}

/// The result of a commit.
#[derive(Debug)]
pub(crate) struct Committed {
    /// The delta to publish; `None` if a modification changes nothing for packets.
    pub delta: Option<RuleDelta>,
    /// Reports of the usage that the change queries.
    pub reports: Vec<UsageReport>,
}

impl CompiledChange {
    /// Refuses a change after which the record is too large.
    ///
    /// # Errors
    /// [`Refusal::RecordTooLarge`]: stores could not keep the record.
    pub(crate) fn refuse_too_large(&self) -> Result<(), Refusal> {
        let octets = self.record.as_ref().map_or(0, |record| record.octets().len());
        match octets > SESSION_RECORD_BYTES_MAX {
            true => Err(Refusal::RecordTooLarge),
            false => Ok(()),
        }
    }

    /// Marks the session's claims as taken over from replaced sessions, and returns them.
    pub(crate) fn take_over_claims(&mut self) -> Vec<SessionKey> {
        self.handed_over.clone_from(&self.claims_after);
        self.handed_over.clone()
    }

    /// Marks these claims of a deleted session as passed to the session that replaces it.
    pub(crate) fn hand_over(&mut self, claims: &[SessionKey]) {
        self.handed_over = claims.to_vec();
    }

    /// Returns the change of measurements.
    pub(crate) const fn usage(&self) -> &UsagePlan {
        &self.usage
    }

    /// Returns the correlated rates that the session names only after the change.
    pub(crate) fn new_rates(&self) -> impl Iterator<Item = CorrelatedRateId> {
        keys::difference(&self.rates_after, &self.rates_before)
    }

    /// Returns the correlated rates that the session names before or after the change.
    pub(crate) fn all_rates(&self) -> Vec<CorrelatedRateId> {
        self.rates_before.iter().copied().chain(self.new_rates()).collect()
    }

    /// Returns all claims (which include all keys) of the session before and after the change.
    pub(crate) fn all_keys(&self) -> Vec<SessionKey> {
        let added = keys::difference(&self.claims_after, &self.claims_before);
        self.claims_before.iter().copied().chain(added).collect()
    }
}

/// Compiles the change from the records of `session` to `resolved`. Does not change the store.
pub(crate) fn compile_change(
    store: &SessionStore,
    session: &OpenSession,
    resolved: &mut Resolved,
    fate: ChangeKind,
) -> CompiledChange {
    // A URR may get the session's own slot only at establishment: later, packets that no URR counts
    // may already have been counted there.
    let is_new = fate == ChangeKind::Establish;
    let own_slot = is_new.then(|| own_usage_slot(store.sessions_max(), session.index));
    let SessionKeys { claims: claims_after, keys: keys_after } =
        core::mem::take(&mut resolved.keys);
    let usage = store.plan_usage(session, resolved, own_slot);
    let (before, after) = (&session.records, &resolved.records);
    let packet_rates = store.packet_rates.plan(
        resolved.usage.at,
        session.index,
        &after.qers,
        &resolved.created_qers,
    );
    let identity = session.identity(&store.packet_rates);
    let buffer_epoch = epoch_after(session, resolved.drop_buffered);
    let identity_after = SessionIdentity { buffer_epoch, packet_rates: &packet_rates, ..identity };
    let compile = |identity, records, usage| compile(store.catalog(), identity, records, usage);
    let own = &store.provisioning;
    let SessionKeys { claims: claims_before, keys: keys_before } = SessionKeys::of(own, before);
    let key_changes = key_changes_between(&keys_before, &keys_after);
    let rules = (fate != ChangeKind::Delete)
        .then(|| Box::new(compile(identity_after, after, &usage.after)));
    // A removed claim may have to wait for a reclaim, which requires a delta.
    let unchanged = fate == ChangeKind::Modify
        && key_changes.is_empty()
        && keys::difference(&claims_before, &claims_after).next().is_none()
        && rules.as_deref() == Some(&compile(identity, before, &session.usage));
    let rates = |records: &Records| correlated_rates(session.origin, &records.qers);
    let (rates_before, rates_after) = (rates(before), rates(after));
    let pack = || PackedRecord::pack(after, &usage.after, buffer_epoch);
    let record = (fate != ChangeKind::Delete).then(pack);
    CompiledChange {
        kind: fate,
        claims_before,
        claims_after,
        handed_over: Vec::new(),
        key_changes,
        rules,
        rates_before,
        rates_after,
        unchanged,
        record,
        usage,
        packet_rates,
    }
}

/// Compiles the restoration of a session. `rules`: those that were prepared, if any. Does not
/// change the store.
pub(crate) fn compile_restoration(
    store: &SessionStore,
    session: &OpenSession,
    resolved: &mut Resolved,
    former: FormerUsage<'_>,
    rules: Option<Box<SessionRules>>,
) -> CompiledChange {
    let FormerUsage { usage, used, packed } = former;
    let own_slot = own_usage_slot(store.sessions_max(), session.index);
    let usage = store.plan_former_usage(usage, used, resolved, Some(own_slot));
    let SessionKeys { claims, keys } = core::mem::take(&mut resolved.keys);
    let records = &resolved.records;
    let packet_rates =
        store.packet_rates.plan(resolved.usage.at, session.index, &records.qers, &[]);
    used.resume_packet_rates(&packet_rates);
    let identity = session.identity(&store.packet_rates);
    let identity = SessionIdentity { packet_rates: &packet_rates, ..identity };
    let rules = match rules {
        Some(mut rules) => {
            set_usage(&mut rules, store.catalog(), records, &usage.after);
            rules
        }
        None => Box::new(compile(store.catalog(), identity, records, &usage.after)),
    };
    let record = match packed {
        Some(packed) => PackedRecord::repack(packed, &usage.after, session.buffer_epoch),
        None => PackedRecord::pack(records, &usage.after, session.buffer_epoch),
    };
    CompiledChange {
        kind: ChangeKind::Restore,
        claims_before: Vec::new(),
        claims_after: claims,
        handed_over: Vec::new(),
        key_changes: keys.into_iter().map(KeyChange::Add).collect(),
        rules: Some(rules),
        rates_before: Vec::new(),
        rates_after: correlated_rates(session.origin, &records.qers),
        unchanged: false,
        record: Some(record),
        usage,
        packet_rates,
    }
}

/// Returns the buffer epoch after the change; it increases if buffered packets are to be discarded.
fn epoch_after(session: &OpenSession, drop_buffered: bool) -> u32 {
    session.buffer_epoch.wrapping_add(u32::from(drop_buffered))
}

/// Commits `resolved` as the new rules of `session`, which the caller has removed from the store.
/// Puts the session back unless it is deleted.
pub(crate) fn commit(
    store: &mut SessionStore,
    session: &mut OpenSession,
    resolved: Resolved,
    compiled: CompiledChange,
) -> Committed {
    let index = session.index;
    let CompiledChange {
        kind: fate,
        claims_before,
        claims_after,
        handed_over,
        key_changes,
        rules,
        rates_before,
        rates_after,
        unchanged,
        record,
        usage,
        packet_rates,
    } = compiled;
    let before = core::mem::replace(&mut session.records, resolved.records);
    session.usage = usage.after;
    store.deadlines.set(index, usage.deadline);
    store.teids.commit(resolved.teids, index);
    session.buffer_epoch = epoch_after(session, resolved.drop_buffered);
    let SessionStore { tunnel_index, provisioning, .. } = store;
    tunnel_index.change(index, &before, &session.records, |parts| {
        provisioning.forwarding_interfaces(parts)
    });
    let slice = store.provisioning.qos.slice_of(&session.records);
    store.packet_rates.set(index, packet_rates);
    store.guaranteed.set(index, slice, &session.records.qers);
    store.ue_pools.commit(&resolved.ues, index);
    let claims = ClaimChange {
        before: &claims_before,
        after: &claims_after,
        handed_over: &handed_over,
        restored: &resolved.restored_teids,
    };
    let retired = move_claims(store, index, claims);
    if store.fault_in_commit {
        store.fault_in_commit = false;
        #[allow(clippy::panic, reason = "injected by a test")]
        {
            panic!("fault injected into a commit");
        }
    }
    if let Some(record) = record {
        store.insert_session(session.close(record));
    }
    if !unchanged && fate != ChangeKind::Restore {
        let queue = store.retired.entry(index).or_default();
        queue.push_back(RetiredResources {
            keys: retired,
            is_last: fate == ChangeKind::Delete,
            usage: usage.ended,
            usage_slots: usage.slots_retired,
            correlated_rates: keys::difference(&rates_before, &rates_after).collect(),
        });
    }
    store.open_commit = None;
    let delta = (!unchanged).then_some(RuleDelta { session: index, keys: key_changes, rules });
    Committed { delta, reports: usage.reports }
}

/// Returns the changes of lookup keys: removals first, each kind in ascending order.
fn key_changes_between(before: &[SessionKey], after: &[SessionKey]) -> Vec<KeyChange> {
    let removed = keys::difference(before, after).map(KeyChange::Remove);
    removed.chain(keys::difference(after, before).map(KeyChange::Add)).collect()
}

/// The claims of a session before and after a change.
#[derive(Clone, Copy)]
struct ClaimChange<'a> {
    before: &'a [SessionKey],
    after: &'a [SessionKey],
    handed_over: &'a [SessionKey],
    /// TEIDs that we chose in a previous run and that are to be restored.
    restored: &'a [Teid],
}

/// Releases and adds claims; returns the released keys that wait for a reclaim.
fn move_claims(
    store: &mut SessionStore,
    index: SessionIndex,
    ClaimChange { before, after, handed_over, restored }: ClaimChange<'_>,
) -> Vec<SessionKey> {
    let mut retired = Vec::new();
    for key in keys::difference(before, after) {
        let is_handed_over = handed_over.contains(&key);
        let waits = match key {
            SessionKey::Teid(teid) if is_handed_over && !store.teids.is_given(teid) => false,
            SessionKey::Teid(teid) => store.teids.retire(teid),
            SessionKey::UeIpv4(..) | SessionKey::UeIpv6(..) | SessionKey::Framed(..) => {
                store.ues.remove(key);
                !is_handed_over && store.ue_pools.retire(key, index, after)
            }
        };
        if waits {
            retired.push(key);
        }
    }
    for key in keys::difference(after, before) {
        let is_handed_over = handed_over.contains(&key);
        match key {
            SessionKey::Teid(teid) if is_handed_over && store.teids.hand_over(teid, index) => {}
            SessionKey::Teid(teid) if restored.contains(&teid) => store.teids.restore(teid, index),
            SessionKey::Teid(teid) => store.teids.ensure_given(teid, index),
            SessionKey::UeIpv4(..) | SessionKey::UeIpv6(..) | SessionKey::Framed(..) => {
                store.ues.insert(key, index);
                if is_handed_over {
                    store.ue_pools.hand_over(key, index);
                }
            }
        }
    }
    retired
}
