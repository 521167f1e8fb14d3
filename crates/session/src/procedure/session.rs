//! Establishes, modifies and deletes sessions.

use adit_rules::{RuleDelta, SessionKey};
use adit_types::{PdrId, Seid, SessionIndex};

use crate::arrival::arrival_interfaces;
use crate::change::SessionChange;
use crate::cp_function::{CpFSeid, OwnerId};
use crate::end_marker::{self, EndMarker};
use crate::index::QerPacketRate;
use crate::record::Records;
use crate::refusal::Refusal;
use crate::session::{OpenSession, Session};
use crate::store::{Created, CreatedPdr, CreatedTrafficEndpoint, CreatedUe, SessionStore};
use crate::update::{self, ChangeKind, Committed, CompiledChange};
use crate::usage::{SessionUsage, UsageReport};

/// The result of an accepted establishment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Established {
    /// Our SEID of the session.
    pub up_seid: Seid,
    /// Dense index by which workers identify the session.
    pub index: SessionIndex,
    /// The delta to publish.
    pub delta: RuleDelta,
    /// PDRs whose F-TEID we chose, in the order of the change.
    pub created: Vec<CreatedPdr>,
    /// PDRs whose UE address we chose.
    pub created_ues: Vec<CreatedUe>,
    /// Traffic endpoints for which we chose an F-TEID or a UE address.
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    /// Sessions that the new one replaces. Publish their deltas after `delta`, so that packets
    /// always find one of the two sessions.
    pub replaced: Vec<ReplacedSession>,
}

/// A session that was deleted because a new one replaces it; see [`SessionChange::replaces`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedSession {
    /// Our SEID of the session.
    pub up_seid: Seid,
    /// The session's owner.
    pub owner: OwnerId,
    /// The control plane's endpoint.
    pub cp: CpFSeid,
    /// The delta to publish.
    pub delta: RuleDelta,
}

/// The result of an accepted modification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modified {
    /// The delta to publish; `None` if nothing changes for packets.
    pub delta: Option<RuleDelta>,
    /// Usage that the request queries, up to the time of the modification.
    pub reports: Vec<UsageReport>,
    /// Packet rates that the request queries.
    pub packet_rates: Vec<QerPacketRate>,
    /// PDRs, created or updated, whose F-TEID we chose, in the order of the change.
    pub created: Vec<CreatedPdr>,
    /// One End Marker for each FAR that requests one and leaves its tunnel, to be sent once all
    /// workers run the change.
    pub end_markers: Vec<EndMarker>,
    /// PDRs whose UE address we chose.
    pub created_ues: Vec<CreatedUe>,
    /// Traffic endpoints for which we chose an F-TEID or a UE address.
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    /// The PDRs in `created` and `created_ues` that were updated, not created.
    pub updated: Vec<PdrId>,
}

impl SessionStore {
    /// Creates a session with the rules of `change`.
    ///
    /// # Errors
    /// A [`Refusal`] if the table is full or a rule cannot be accepted; nothing has changed then.
    ///
    /// Spec: TS 29.244 §6.3.2, §7.5.2.
    pub fn establish(
        &mut self,
        owner: OwnerId,
        cp: CpFSeid,
        change: SessionChange,
    ) -> Result<Established, Refusal> {
        let index = self.index_for(&change)?;
        let seid = self.seids.plan(index);
        let up_seid = seid.seid();
        let (records, usage) = (Records::default(), SessionUsage::default());
        let (origin, buffer_epoch) = (owner, 0);
        let mut session =
            OpenSession { up_seid, index, owner, origin, cp, records, buffer_epoch, usage };
        let mut resolved = update::prepare(self, &session, change)?;
        let created = resolved.created.clone();
        let mut compiled =
            update::compile_change(self, &session, &mut resolved, ChangeKind::Establish);
        compiled.refuse_too_large()?;
        let gone = core::mem::take(&mut resolved.replaced);
        let replaced = self.replace_sessions(&gone, &mut compiled);
        self.mark_commit(up_seid, index, &compiled);
        self.seids.commit(seid);
        self.indices.take(index);
        let Committed { delta, .. } = update::commit(self, &mut session, resolved, compiled);
        let Some(delta) = delta else { unreachable!("an establishment always yields a delta") };
        let Created { pdrs: created, ues: created_ues, endpoints: created_endpoints } = created;
        Ok(Established { up_seid, index, delta, created, created_ues, created_endpoints, replaced })
    }

    /// Deletes sessions that the new session of `compiled` replaces; it gets their claims.
    fn replace_sessions(
        &mut self,
        gone: &[SessionIndex],
        compiled: &mut CompiledChange,
    ) -> Vec<ReplacedSession> {
        if gone.is_empty() {
            return Vec::new();
        }
        let claims = compiled.take_over_claims();
        let known = gone.iter().filter_map(|index| self.session_at(*index).map(Session::open));
        let known: Vec<OpenSession> = known.collect();
        let end = |mut session: OpenSession| {
            let (up_seid, owner, cp) = (session.up_seid, session.owner, session.cp);
            let delta = self.end_session(&mut session, &claims);
            ReplacedSession { up_seid, owner, cp, delta }
        };
        known.into_iter().map(end).collect()
    }

    /// Returns the index for a new session with the rules of `change`: if possible, one whose owner
    /// is on the NUMA node of the port at which the session's packets arrive.
    pub(crate) fn index_for(&self, change: &SessionChange) -> Result<SessionIndex, Refusal> {
        let nodes = self.indices.nodes();
        let node = match nodes.node_count() {
            1 => None,
            _ => arrival_interfaces(&self.provisioning, change)
                .find_map(|interface| nodes.of_interface(interface)),
        };
        self.indices.peek(node).ok_or(Refusal::SessionTableFull)
    }

    /// Changes the session `up_seid`.
    ///
    /// # Errors
    /// A [`Refusal`] if there is no such session or a rule cannot be accepted; nothing has changed
    /// then.
    ///
    /// Spec: TS 29.244 §6.3.3, §7.5.4.
    pub fn modify(&mut self, up_seid: Seid, change: SessionChange) -> Result<Modified, Refusal> {
        let known = self.session(up_seid).ok_or(Refusal::UnknownSession { up_seid })?;
        let mut session = known.open();
        let cp = change.cp_f_seid;
        let leaving = end_marker::requested(self.catalog(), &session.records, &change);
        let queried = change.query_packet_rates.clone();
        let new: Vec<PdrId> = change.create_pdrs.iter().map(|pdr| pdr.id).collect();
        let mut resolved = update::prepare(self, &session, change)?;
        let end_markers = end_marker::of_left_tunnels(leaving, &resolved.records.fars);
        let created = resolved.created.clone();
        let compiled = update::compile_change(self, &session, &mut resolved, ChangeKind::Modify);
        compiled.refuse_too_large()?;
        self.begin_commit(&session, &compiled);
        session.cp = cp.unwrap_or(session.cp);
        let Committed { delta, reports } = update::commit(self, &mut session, resolved, compiled);
        let Created { pdrs: created, ues: created_ues, endpoints: created_endpoints } = created;
        let chosen = created.iter().map(|made| made.pdr);
        let chosen = chosen.chain(created_ues.iter().map(|made| made.pdr));
        let updated = chosen.filter(|pdr| !new.contains(pdr)).collect();
        let asked = (!queried.is_empty()).then(|| self.packet_rates(up_seid)).into_iter().flatten();
        let packet_rates = asked.filter(|rate| queried.contains(&rate.qer)).collect();
        Ok(Modified {
            delta,
            reports,
            packet_rates,
            created,
            created_ues,
            created_endpoints,
            updated,
            end_markers,
        })
    }

    /// Deletes the session `up_seid`.
    ///
    /// # Errors
    /// [`Refusal::UnknownSession`] if there is no such session.
    ///
    /// Spec: TS 29.244 §6.3.4, §7.5.6.
    pub fn delete(&mut self, up_seid: Seid) -> Result<RuleDelta, Refusal> {
        let mut session = self.session(up_seid).ok_or(Refusal::UnknownSession { up_seid })?.open();
        Ok(self.end_session(&mut session, &[]))
    }

    /// Deletes a session. `handed_over`: claims that another session gets at once.
    fn end_session(&mut self, session: &mut OpenSession, handed_over: &[SessionKey]) -> RuleDelta {
        let mut resolved = update::Resolved::default();
        let mut compiled = update::compile_change(self, session, &mut resolved, ChangeKind::Delete);
        compiled.hand_over(handed_over);
        self.begin_commit(session, &compiled);
        let Committed { delta, .. } = update::commit(self, session, resolved, compiled);
        let Some(delta) = delta else { unreachable!("a deletion always yields a delta") };
        delta
    }

    /// Begins the commit of `compiled`; until it ends, its session is not in the store.
    fn begin_commit(&mut self, session: &OpenSession, compiled: &CompiledChange) {
        self.mark_commit(session.up_seid, session.index, compiled);
        drop(self.remove_session(session.index));
    }
}
