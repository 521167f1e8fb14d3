//! Provisions and withdraws PFDs of control planes, and recompiles the sessions that name them.

use std::collections::BTreeSet;
use std::sync::Arc;

use adit_rules::RuleDelta;
use adit_types::SessionIndex;

use crate::cp_function::OwnerId;
use crate::provisioning::{
    ChangedApplications, PfdProvision, PfdRefusal, Pfds, PredefinedRule, ProvidedApplication,
    RuleCatalog,
};
use crate::record::{Pdr, Records, Urr};
use crate::session::OpenSession;
use crate::store::{RetiredResources, SessionStore};
use crate::update::compile;

impl SessionStore {
    /// Provisions all PFDs of `provision` for `owner`, or none. They apply to sessions that are
    /// established or modified later, and to others after [`SessionStore::recompile_naming`].
    ///
    /// # Errors
    /// A [`PfdRefusal`] if nothing was changed.
    pub fn provision_pfds(
        &mut self,
        owner: OwnerId,
        provision: PfdProvision,
    ) -> Result<ChangedApplications, PfdRefusal> {
        let after = self.pfds.provided(owner, provision)?;
        Ok(self.replace_pfds(after))
    }

    /// Replaces all PFDs of an application. `descriptions`: flow descriptions of each control
    /// plane, the latest last; an empty list withdraws the PFDs. Otherwise like
    /// [`SessionStore::provision_pfds`].
    ///
    /// # Errors
    /// A [`PfdRefusal`] if nothing was changed.
    pub fn describe_application(
        &mut self,
        id: &str,
        descriptions: Vec<(OwnerId, Vec<Box<str>>)>,
    ) -> Result<ChangedApplications, PfdRefusal> {
        let after = self.pfds.described(id, descriptions)?;
        Ok(self.replace_pfds(after))
    }

    /// Withdraws all PFDs of `owner`; see [`SessionStore::provision_pfds`].
    pub fn withdraw_pfds(&mut self, owner: OwnerId) -> ChangedApplications {
        self.replace_pfds(self.pfds.without(owner))
    }

    /// Transfers the PFDs of `from` to `to`; see [`SessionStore::provision_pfds`].
    pub fn hand_over_pfds(&mut self, from: OwnerId, to: OwnerId) -> ChangedApplications {
        self.replace_pfds(self.pfds.handed_over(from, to))
    }

    /// Recompiles the session at `index` with the current PFDs, if its rules name one of the
    /// changed applications. The caller must call [`SessionStore::reclaim`] once for the delta.
    ///
    /// Everything is computed before the store is changed.
    pub fn recompile_naming(
        &mut self,
        index: SessionIndex,
        changed: &ChangedApplications,
    ) -> Option<RuleDelta> {
        let session = self.session_at(index)?;
        let known = self.catalog();
        if !names_any_application(known, &session.records(), &changed.0) {
            return None;
        }
        self.recompile(index)
    }

    /// Compiles the rules of the session at `index` again, with unchanged records. The caller must
    /// call [`SessionStore::reclaim`] once for the delta.
    pub fn recompile(&mut self, index: SessionIndex) -> Option<RuleDelta> {
        let known = self.catalog();
        let session = self.session_at(index)?.open();
        let OpenSession { ref records, ref usage, .. } = session;
        let rules = compile(known, session.identity(&self.packet_rates), records, usage);
        let own = &self.provisioning;
        self.tunnel_index.note_interfaces(records, |parts| own.forwarding_interfaces(parts));
        self.retired.entry(index).or_default().push_back(RetiredResources::default());
        Some(RuleDelta { session: index, keys: Vec::new(), rules: Some(Box::new(rules)) })
    }

    /// Returns the applications with PFDs, by ascending identifier.
    pub fn provided_applications(&self) -> impl Iterator<Item = ProvidedApplication<'_>> {
        self.pfds.applications.iter().flat_map(|(id, all)| {
            let latest = all.last().map(|provided| provided.owner);
            all.iter().map(move |provided| ProvidedApplication {
                id,
                owner: provided.owner,
                flow_descriptions: &provided.flow_descriptions,
                in_effect: Some(provided.owner) == latest,
            })
        })
    }

    fn replace_pfds(&mut self, after: Pfds) -> ChangedApplications {
        let changed = self.pfds.changed(&after);
        self.pfds = after;
        ChangedApplications(Arc::new(changed))
    }
}

/// True if a rule of the session names one of the applications.
fn names_any_application(
    known: RuleCatalog<'_>,
    records: &Records,
    applications: &BTreeSet<Arc<str>>,
) -> bool {
    let by_rules = |pdr: &Pdr| {
        let rules = known.predefined(&pdr.predefined);
        let mut named = rules.filter_map(PredefinedRule::application);
        named.any(|id| applications.contains(id))
    };
    let names = |id: &str| applications.contains(id);
    let by_exemption = |urr: &Urr| {
        let exempted = urr.settings.exempted.as_ref();
        exempted.is_some_and(|exempted| exempted.applications.iter().any(|id| names(id)))
    };
    let by_pdr = |pdr: &Pdr| pdr.pdi.application.as_deref().is_some_and(names) || by_rules(pdr);
    records.pdrs.iter().any(by_pdr) || records.urrs.iter().any(by_exemption)
}
