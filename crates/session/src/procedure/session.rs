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
use crate::update::{self, ChangeKind, Committed, Compiled};
use crate::usage::{SessionUsage, UsageReport};

/// The result of an accepted establishment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Established {
    /// Our identifier of the session.
    pub up_seid: Seid,
    /// Dense index by which workers identify the session.
    pub index: SessionIndex,
    /// The delta to publish.
    pub delta: RuleDelta,
    /// PDRs whose F-TEID was chosen here, in the order of the change.
    pub created: Vec<CreatedPdr>,
    /// PDRs whose UE address was chosen here.
    pub created_ues: Vec<CreatedUe>,
    /// Traffic endpoints for which something was chosen here.
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    /// Sessions that it replaces. Publish their ends after `delta`, so that packets always find one
    /// of both.
    pub replaced: Vec<ReplacedSession>,
}

/// A session that gave way to a new one; see [`SessionChange::replaces`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedSession {
    /// Our identifier of the session.
    pub up_seid: Seid,
    /// Its owner.
    pub owner: OwnerId,
    /// The control plane's endpoint.
    pub cp: CpFSeid,
    /// The delta to publish.
    pub delta: RuleDelta,
}

/// The result of an accepted modification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modified {
    /// The delta to publish; `None` when nothing changes for packets.
    pub delta: Option<RuleDelta>,
    /// Usage that the request queries, up to the modification.
    pub reports: Vec<UsageReport>,
    /// Packet rates that the request queries.
    pub packet_rates: Vec<QerPacketRate>,
    /// PDRs, created or updated, whose F-TEID was chosen here, in the order of the change.
    pub created: Vec<CreatedPdr>,
    /// End Markers of FARs that leave their tunnel, one for each FAR that requests one; sent once
    /// all workers run the change.
    pub end_markers: Vec<EndMarker>,
    /// PDRs whose UE address was chosen here.
    pub created_ues: Vec<CreatedUe>,
    /// Traffic endpoints for which something was chosen here.
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    /// The PDRs among those of `created` and `created_ues` that were updated, not created.
    pub updated: Vec<PdrId>,
}

impl SessionStore {
    /// Creates a session with the rules of `change`.
    ///
    /// # Errors
    /// A [`Refusal`] when the table is full or a rule cannot be accepted; nothing has changed then.
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

    /// Ends sessions that give way to the new one of `compiled`, which takes their claims.
    fn replace_sessions(
        &mut self,
        gone: &[SessionIndex],
        compiled: &mut Compiled,
    ) -> Vec<ReplacedSession> {
        if gone.is_empty() {
            return Vec::new();
        }
        let claims = compiled.take_claims();
        let known = gone.iter().filter_map(|index| self.session_at(*index).map(Session::open));
        let known: Vec<OpenSession> = known.collect();
        let end = |mut session: OpenSession| {
            let (up_seid, owner, cp) = (session.up_seid, session.owner, session.cp);
            let delta = self.end_session(&mut session, &claims);
            ReplacedSession { up_seid, owner, cp, delta }
        };
        known.into_iter().map(end).collect()
    }

    /// The index that a new session with the rules of `change` gets: one whose owner is on the node
    /// of the port that its packets arrive at, if there is a free one.
    pub(crate) fn index_for(&self, change: &SessionChange) -> Result<SessionIndex, Refusal> {
        let nodes = self.indices.nodes();
        let node = match nodes.count() {
            1 => None,
            _ => arrival_interfaces(&self.provisioning, change)
                .find_map(|interface| nodes.of_interface(interface)),
        };
        self.indices.peek(node).ok_or(Refusal::SessionTableFull)
    }

    /// Changes the session `up_seid`.
    ///
    /// # Errors
    /// A [`Refusal`] when there is no such session or a rule cannot be accepted; nothing has
    /// changed then.
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
    /// [`Refusal::UnknownSession`] when there is no such session.
    ///
    /// Spec: TS 29.244 §6.3.4, §7.5.6.
    pub fn delete(&mut self, up_seid: Seid) -> Result<RuleDelta, Refusal> {
        let mut session = self.session(up_seid).ok_or(Refusal::UnknownSession { up_seid })?.open();
        Ok(self.end_session(&mut session, &[]))
    }

    /// Ends a session, some of whose claims may go to another one.
    fn end_session(&mut self, session: &mut OpenSession, handed_over: &[SessionKey]) -> RuleDelta {
        let mut resolved = update::Resolved::default();
        let mut compiled = update::compile_change(self, session, &mut resolved, ChangeKind::Delete);
        compiled.hand_over(handed_over);
        self.begin_commit(session, &compiled);
        let Committed { delta, .. } = update::commit(self, session, resolved, compiled);
        let Some(delta) = delta else { unreachable!("a deletion always yields a delta") };
        delta
    }

    /// Begins the commit of `compiled` and removes its session from the store.
    fn begin_commit(&mut self, session: &OpenSession, compiled: &Compiled) {
        self.mark_commit(session.up_seid, session.index, compiled);
        drop(self.remove_session(session.index));
    }
}
