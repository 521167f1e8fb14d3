//! Keeps sessions for a later process, and restores sessions of a previous one.

use core::net::IpAddr;
use std::sync::Arc;

use adit_rules::{NoUsage, RuleDelta, UsageSource};
use adit_types::{Nanos, Seid, SessionIndex, Teid};

use crate::alloc::seid_index;
use crate::cp_function::CpFSeid;
use crate::kept::{
    FormerSession, KeptAddress, KeptIdentity, KeptPacketRate, KeptSession, KeptUsage,
};
use crate::keys;
use crate::packed_record::RecordParts;
use crate::preparation::SessionPreparer;
use crate::record::{Records, UsageTriggers};
use crate::refusal::Refusal;
use crate::session::{OpenSession, Session};
use crate::store::{RetiredResources, SessionStore};
use crate::update::{self, Committed};
use crate::usage::{SessionUsage, UsageReport};

/// The result of restoring a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Our SEID of the session, the same as before.
    pub up_seid: Seid,
    /// Dense index by which workers identify the session, the same as before.
    pub index: SessionIndex,
    /// The delta to publish.
    pub delta: RuleDelta,
}

impl SessionStore {
    /// Returns the state of the session `up_seid` from which a later process can restore it.
    #[must_use]
    pub fn kept(&self, now: Nanos, up_seid: Seid) -> Option<KeptSession> {
        let session = self.session(up_seid)?;
        let open = session.open();
        let claims = keys::claims(&self.provisioning, &open.records);
        let teids = claims.iter().filter_map(|key| match *key {
            adit_rules::SessionKey::Teid(teid) => Some(teid),
            _ => None,
        });
        let teids: Vec<Teid> = teids.filter(|&teid| !self.teids.is_given(teid)).collect();
        let chosen = claims.iter().filter(|key| self.ue_pools.is_chosen(**key, open.index));
        let names = KeptIdentity {
            up_seid,
            owner: open.owner,
            origin: open.origin,
            cp: open.cp,
            teids,
            addresses: chosen.filter_map(|key| KeptAddress::of(*key)).collect(),
        };
        let usage = self.usage_so_far(now, session, &open);
        Some(KeptSession { names, usage, record: session.packed_record().clone() })
    }

    /// Returns the usage of the session `up_seid` so far, which the caller keeps from time to time.
    #[must_use]
    pub fn kept_usage(&self, now: Nanos, up_seid: Seid) -> Option<KeptUsage> {
        let session = self.session(up_seid)?;
        Some(self.usage_so_far(now, session, &session.open()))
    }

    fn usage_so_far(&self, now: Nanos, session: &Session, open: &OpenSession) -> KeptUsage {
        let source = &*self.usage.0;
        let usage = &open.usage;
        let rates = self.packet_rates.of(session.index()).iter();
        let rates = rates.flat_map(|(qer, rate)| KeptPacketRate::of(*qer, rate, now));
        KeptUsage {
            counts: usage.measures.iter().map(|known| (known.id, known.counts(source))).collect(),
            last: usage.activity.and_then(|timer| timer.last(source)),
            packet_rates: rates.collect(),
        }
    }

    /// True while TEIDs or UE addresses of the former session were released by another session, but
    /// not reclaimed yet. Until then the session must not be restored.
    #[must_use]
    pub fn awaits_reclaim(&self, former: &FormerSession) -> bool {
        let KeptIdentity { teids, addresses, .. } = &former.names;
        let mut keys = addresses.iter().filter_map(KeptAddress::key);
        teids.iter().any(|&teid| self.teids.is_retired(teid))
            || keys.any(|key| self.ue_pools.is_retired(key))
    }

    /// Accepts the checks and compiled rules of `preparer` from now on, if its provisioning equals
    /// that of the store, and until the store's changes. Only sessions that this preparer or none
    /// prepared may be restored afterwards.
    pub fn accept_prepared(&mut self, preparer: &SessionPreparer) {
        self.accepts_prepared = preparer.provisioning() == &self.provisioning;
    }

    /// Restores a session that a previous process kept, with the same SEID, TEIDs and UE addresses.
    /// It is cheapest in ascending order of the indices in [`FormerSession::up_seid`]. Do not call
    /// [`SessionStore::reclaim`] for the delta.
    ///
    /// Empties `former`. Drop it on the thread that made it, where freeing costs least.
    ///
    /// # Errors
    /// A [`Refusal`] if the configuration or another session forbids the session; nothing has
    /// changed then.
    pub fn restore(&mut self, now: Nanos, former: &mut FormerSession) -> Result<Restored, Refusal> {
        let FormerSession { names, usage: used, parts, rules, prepared } = former;
        let prepared = prepared.take().filter(|_| self.accepts_prepared);
        let KeptIdentity { up_seid, owner, origin, cp, teids, addresses } = names;
        let (up_seid, owner, origin) = (*up_seid, *owner, *origin);
        let index = seid_index(up_seid);
        if !self.indices.is_free(index) {
            return Err(Refusal::SessionTableFull);
        }
        let RecordParts { records, usage, buffer_epoch } = core::mem::take(parts);
        let mut session = OpenSession {
            up_seid,
            index,
            owner,
            origin,
            cp: *cp,
            records: Records::default(),
            buffer_epoch,
            usage: SessionUsage::default(),
        };
        let mut former = update::FormerUsage { usage, used, packed: Some(rules) };
        let teids = core::mem::take(teids);
        let rules = update::FormerRules { records, teids, prepared };
        let (mut resolved, rules) =
            update::prepare_restoration(self, now, &session, rules, &mut former)?;
        let compiled = update::compile_restoration(self, &session, &mut resolved, former, rules);
        self.mark_commit(up_seid, index, &compiled);
        self.indices.take(index);
        for key in addresses.iter().filter_map(KeptAddress::key) {
            self.ue_pools.restore(key, index);
        }
        let Committed { delta, .. } = update::commit(self, &mut session, resolved, compiled);
        let Some(delta) = delta else { unreachable!("a new session always yields a delta") };
        let OpenSession { records, usage, .. } = session;
        *parts = RecordParts { records, usage, buffer_epoch };
        Ok(Restored { up_seid, index, delta })
    }

    /// Reserves the index of a session that is not restored, so that no other session gets it.
    /// False if the index is not free.
    pub fn reserve_index(&mut self, up_seid: Seid) -> bool {
        self.indices.take(seid_index(up_seid))
    }

    /// Makes a reserved index available to other sessions.
    pub fn release_index(&mut self, up_seid: Seid) {
        self.indices.release(seid_index(up_seid));
    }

    /// Replaces the usage of a restored session by one that was kept later, before workers count
    /// for the session. Returns the delta with the new limits, if they change; the caller must call
    /// [`SessionStore::reclaim`] once for it.
    pub fn resume_usage(
        &mut self,
        now: Nanos,
        up_seid: Seid,
        used: &KeptUsage,
    ) -> Option<RuleDelta> {
        let source = Arc::clone(&self.usage.0);
        let session = self.session(up_seid)?.open();
        used.resume_packet_rates(self.packet_rates.of(session.index));
        let identity = session.identity(&self.packet_rates);
        let OpenSession { index, records, mut usage, buffer_epoch, .. } = session;
        let before = usage.entries(&records);
        resume(&mut usage, used, &*source);
        let mut generation = self.generation;
        let is_changed = usage.renew(&records, &before, &mut generation);
        let rules = is_changed
            .then(|| Box::new(update::compile(self.catalog(), identity, &records, &usage)));
        let deadline = usage.deadline(&records, &*source, now);
        self.generation = generation;
        self.deadlines.set(index, deadline);
        self.session_at_mut(index)?.write_back(&records, &usage, buffer_epoch);
        rules.map(|rules| {
            self.retired.entry(index).or_default().push_back(RetiredResources::default());
            RuleDelta { session: index, keys: Vec::new(), rules: Some(rules) }
        })
    }
}

impl FormerSession {
    /// Returns the last usage reports of a session that is not restored, one for each URR, with the
    /// trigger TEBUR. They contain the usage that was last written to the store; later usage is
    /// lost. Spec: TS 29.244 §8.2.41.
    #[must_use]
    pub fn last_usage(self, now: Nanos) -> Vec<UsageReport> {
        let Self { usage: used, parts: RecordParts { records, mut usage, .. }, .. } = self;
        resume(&mut usage, &used, &NoUsage);
        let mut due = vec![UsageTriggers::TERMINATION_BY_UP; records.urrs.len()];
        usage.report(&records.urrs, &mut due, &NoUsage, now)
    }

    /// Returns the UE addresses that the session's rules name: IPv4 addresses, and the first
    /// address of each IPv6 prefix.
    #[must_use]
    pub fn ue_addresses(&self) -> Vec<IpAddr> {
        self.parts.records.ue_addresses()
    }

    /// Returns addresses and SEID of the session's CP function.
    #[must_use]
    pub fn cp(&self) -> CpFSeid {
        self.names.cp
    }
}

/// Continues measurements in their present counters, from the counts in `used`.
fn resume(usage: &mut SessionUsage, used: &KeptUsage, source: &dyn UsageSource) {
    for measure in &mut usage.measures {
        let known = used.counts.iter().find(|(id, _)| *id == measure.id);
        let counts = known.map(|(_, counts)| *counts).unwrap_or_default();
        measure.resume(measure.slot, measure.generation, counts, source);
    }
    if let Some(timer) = &mut usage.activity {
        timer.since = used.last.map_or(timer.since, |last| last.max(timer.since));
    }
}
