//! Exemptions: flows and applications whose traffic passes, by a URR, even if its quota is used up.
//! Spec: TS 29.244 §7.5.2.4 (QUASF).

use adit_rules::PacketFilter;
use adit_types::limits::{EXEMPTED_APPLICATIONS_PER_URR_MAX, SDF_FILTERS_PER_PDR_MAX};

use crate::provisioning::RuleCatalog;
use crate::record::SdfSpec;
use crate::record::{Exempted, Records, Urr};
use crate::refusal::Refusal;

/// Checks that every exemption describes traffic. An application that the URR exempted before the
/// change may have lost its PDFs in the meantime.
pub(super) fn check(known: RuleCatalog<'_>, before: &Records, urr: &Urr) -> Result<(), Refusal> {
    let Some(Exempted { flows, applications }) = &urr.settings.exempted else { return Ok(()) };
    if flows.len() > SDF_FILTERS_PER_PDR_MAX || flows.iter().any(|flow| flow.exempted().is_none()) {
        return Err(Refusal::ExemptedFlowInvalid { urr: urr.id });
    }
    if applications.len() > EXEMPTED_APPLICATIONS_PER_URR_MAX {
        return Err(Refusal::TooManyExemptedApplications { urr: urr.id });
    }
    let old = before.urrs.iter().find(|old| old.id == urr.id);
    let old = old.and_then(|old| old.settings.exempted.as_ref());
    let is_exempted_already =
        |id: &str| old.is_some_and(|old| old.applications.iter().any(|known| **known == *id));
    let is_usable = |id: &str| known.application(id).is_some() || is_exempted_already(id);
    match applications.iter().all(|id| is_usable(id)) {
        true => Ok(()),
        false => Err(Refusal::UnknownExemptedApplication { urr: urr.id }),
    }
}

/// Returns filters for the traffic that a URR exempts.
pub(super) fn filters(known: RuleCatalog<'_>, urr: &Urr) -> Vec<PacketFilter> {
    let Some(Exempted { flows, applications }) = &urr.settings.exempted else { return Vec::new() };
    let of_applications = applications.iter().filter_map(|id| known.application(id));
    let of_applications = of_applications.flat_map(|filters| filters.iter().cloned());
    flows.iter().filter_map(SdfSpec::exempted).chain(of_applications).collect()
}
