//! Packet Flow Descriptions: applications that control planes describe.
//!
//! The PFDs of an application apply to the sessions of the whole node. Each control plane
//! provisions and withdraws its own. If several describe one application, the latest description is
//! in effect; when it is withdrawn, the one before it is in effect again. PFDs take precedence over
//! a configured application with the same identifier. Spec: TS 29.244 §6.2.5, §7.4.3.1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use adit_rules::SdfSet;
use adit_types::limits::{
    FLOW_DESCRIPTIONS_PER_APPLICATION_MAX, PFD_APPLICATION_ID_BYTES_MAX, PFD_APPLICATIONS_MAX,
    PFD_BYTES_MAX,
};

use crate::cp_function::OwnerId;
use crate::sdf_text::{self, SdfTextError};

/// The PFDs that a control plane provisions. An empty list withdraws all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PfdProvision {
    /// The applications; identifiers differ.
    pub applications: Vec<PfdApplication>,
}

/// The PFDs of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PfdApplication {
    /// Application ID.
    pub id: Box<str>,
    /// Flow descriptions (IPFilterRule), of which one must match; they replace the previous ones.
    /// An empty list withdraws the application.
    pub flow_descriptions: Vec<Box<str>>,
}

/// Why PFDs were refused. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PfdRefusal {
    /// A flow description cannot be understood or used.
    FlowDescription {
        /// The fault of the flow description.
        error: SdfTextError,
    },
    /// An application is named twice.
    DuplicateApplication,
    /// An identifier is longer than `limits::PFD_APPLICATION_ID_BYTES_MAX`.
    ApplicationIdTooLong,
    /// An application has more than `limits::FLOW_DESCRIPTIONS_PER_APPLICATION_MAX` flow
    /// descriptions.
    TooManyFlowDescriptions,
    /// There would be more than `limits::PFD_APPLICATIONS_MAX` applications.
    TooManyApplications,
    /// All PFDs together would have more than `limits::PFD_BYTES_MAX` octets.
    TooManyBytes,
}

/// The applications whose PFDs in effect changed: sessions that name one must be recompiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedApplications(pub(crate) Arc<BTreeSet<Arc<str>>>);

impl ChangedApplications {
    /// True if no PFDs in effect changed, so that no session must be recompiled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An application that a control plane described, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProvidedApplication<'a> {
    /// Application ID.
    pub id: &'a str,
    /// The control plane that described the application.
    pub owner: OwnerId,
    /// The flow descriptions of the application.
    pub flow_descriptions: &'a [Box<str>],
    /// True if packets are compared with these PFDs, not with those of a later control plane.
    pub in_effect: bool,
}

/// The PFDs of all control planes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pfds {
    /// By application, the PFDs of each control plane, the latest last; no list is empty.
    pub(crate) applications: BTreeMap<Arc<str>, Vec<ProvidedPfds>>,
}

/// The PFDs of one application by one control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProvidedPfds {
    pub(crate) owner: OwnerId,
    /// At least one filter.
    pub(crate) filters: SdfSet,
    /// The flow descriptions from which the filters were made.
    pub(crate) flow_descriptions: Arc<[Box<str>]>,
    /// Octets of the identifier and the flow descriptions.
    bytes: usize,
}

impl Pfds {
    /// Returns the filters of an application; `None` if no control plane described it.
    pub(crate) fn filters(&self, id: &str) -> Option<&SdfSet> {
        self.applications.get(id)?.last().map(|provided| &provided.filters)
    }

    /// Returns a copy in which `owner` provisioned more PFDs.
    pub(crate) fn provided(
        &self,
        owner: OwnerId,
        provision: PfdProvision,
    ) -> Result<Self, PfdRefusal> {
        if provision.applications.is_empty() {
            return Ok(self.without(owner));
        }
        let mut after = self.clone();
        let mut named = BTreeSet::new();
        for application in provision.applications {
            let id: Arc<str> = application.id.into();
            if !named.insert(Arc::clone(&id)) {
                return Err(PfdRefusal::DuplicateApplication);
            }
            after.withdraw(&id, owner);
            if !application.flow_descriptions.is_empty() {
                let provided = provided(owner, &id, application.flow_descriptions)?;
                after.applications.entry(id).or_default().push(provided);
            }
        }
        after.check_limits()
    }

    /// Returns a copy in which `descriptions` replace all PFDs of an application: flow descriptions
    /// of each control plane, the latest last.
    pub(crate) fn described(
        &self,
        id: &str,
        descriptions: Vec<(OwnerId, Vec<Box<str>>)>,
    ) -> Result<Self, PfdRefusal> {
        let mut after = self.clone();
        after.applications.remove(id);
        for (owner, texts) in descriptions.into_iter().filter(|(_, texts)| !texts.is_empty()) {
            after.withdraw(id, owner);
            let provided = provided(owner, id, texts)?;
            after.applications.entry(id.into()).or_default().push(provided);
        }
        after.check_limits()
    }

    fn check_limits(self) -> Result<Self, PfdRefusal> {
        let all = || self.applications.values().flatten();
        if all().count() > PFD_APPLICATIONS_MAX {
            return Err(PfdRefusal::TooManyApplications);
        }
        match all().map(|provided| provided.bytes).sum::<usize>() > PFD_BYTES_MAX {
            true => Err(PfdRefusal::TooManyBytes),
            false => Ok(self),
        }
    }

    fn withdraw(&mut self, id: &str, owner: OwnerId) {
        if let Some(all) = self.applications.get_mut(id) {
            all.retain(|provided| provided.owner != owner);
            if all.is_empty() {
                self.applications.remove(id);
            }
        }
    }

    /// Returns a copy without the PFDs of `owner`.
    pub(crate) fn without(&self, owner: OwnerId) -> Self {
        let mut after = self.clone();
        after.applications.retain(|_, all| {
            all.retain(|provided| provided.owner != owner);
            !all.is_empty()
        });
        after
    }

    /// Returns a copy in which `to` has the PFDs of `from`, unless it described the application.
    pub(crate) fn handed_over(&self, from: OwnerId, to: OwnerId) -> Self {
        let mut after = self.clone();
        for all in after.applications.values_mut() {
            if all.iter().any(|provided| provided.owner == to) {
                all.retain(|provided| provided.owner != from);
            }
            for provided in all.iter_mut().filter(|provided| provided.owner == from) {
                provided.owner = to;
            }
        }
        after
    }

    /// Returns the applications whose PFDs in effect differ from those in `after`.
    pub(crate) fn changed(&self, after: &Self) -> BTreeSet<Arc<str>> {
        let ids = self.applications.keys().chain(after.applications.keys());
        ids.filter(|id| self.filters(id) != after.filters(id)).cloned().collect()
    }
}

fn provided(owner: OwnerId, id: &str, texts: Vec<Box<str>>) -> Result<ProvidedPfds, PfdRefusal> {
    if id.len() > PFD_APPLICATION_ID_BYTES_MAX {
        return Err(PfdRefusal::ApplicationIdTooLong);
    }
    if texts.len() > FLOW_DESCRIPTIONS_PER_APPLICATION_MAX {
        return Err(PfdRefusal::TooManyFlowDescriptions);
    }
    let filters: Result<SdfSet, SdfTextError> =
        texts.iter().map(|text| sdf_text::parse_pfd(text)).collect();
    let filters = filters.map_err(|error| PfdRefusal::FlowDescription { error })?;
    let bytes = id.len() + texts.iter().map(|text| text.len()).sum::<usize>();
    Ok(ProvidedPfds { owner, filters, flow_descriptions: texts.into(), bytes })
}
