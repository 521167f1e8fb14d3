//! Traffic that passes although a quota is used up: flows and applications that a URR exempts from
//! its quota action. Spec: TS 29.244 §7.5.2.4 (QUASF).

use adit_rules::SdfFilter;
use adit_types::PdrId;
use adit_types::limits::SDF_FILTERS_PER_PDR_MAX;

use crate::change::SdfSpec;
use crate::provisioning::Known;
use crate::record::{Exempted, Urr};
use crate::refusal::Refusal;
use crate::update::s1_provide::provide_sdf;

/// Checks that every exemption names traffic.
pub(super) fn check(known: Known<'_>, urr: &Urr) -> Result<(), Refusal> {
    let Some(Exempted { flows, applications }) = &urr.settings.exempted else { return Ok(()) };
    if flows.len() > SDF_FILTERS_PER_PDR_MAX || flows.iter().any(|flow| filter(flow).is_none()) {
        return Err(Refusal::ExemptedFlowInvalid { urr: urr.id });
    }
    match applications.iter().all(|id| known.application(id).is_some()) {
        true => Ok(()),
        false => Err(Refusal::UnknownExemptedApplication { urr: urr.id }),
    }
}

/// What a URR exempts.
pub(super) fn filters(known: Known<'_>, urr: &Urr) -> Vec<SdfFilter> {
    let Some(Exempted { flows, applications }) = &urr.settings.exempted else { return Vec::new() };
    let of_applications = applications.iter().filter_map(|id| known.application(id));
    let of_applications = of_applications.flat_map(<[SdfFilter]>::to_vec);
    flows.iter().filter_map(filter).chain(of_applications).collect()
}

/// A filter by identifier alone names nothing: there is no PDR whose filter it could be.
fn filter(spec: &SdfSpec) -> Option<SdfFilter> {
    let sdf = provide_sdf(PdrId(0), spec.clone()).ok()?;
    sdf.reference().is_none().then_some(sdf.filter)
}
