//! Predefined rules: checks of their activation, and the entries that workers run for them.
//!
//! A PDR that activates rules becomes one entry per rule. Packets that are the PDR's and match none
//! of them go on to other PDRs. FARs and QERs that rules add stand behind those of the session.
//! Spec: TS 29.244 §7.5.2.2, §8.2.72.

use adit_rules::{ApplyAction, PdrEntry};
use adit_types::limits::{PREDEFINED_RULES_PER_SESSION_MAX, QERS_PER_PDR_MAX};
use adit_types::{FarId, QerId, Qfi};

use crate::provisioning::{PredefinedAction, PredefinedDetection, PredefinedRule, RuleCatalog};
use crate::record::{Far, Pdr, Qer, Records};
use crate::refusal::Refusal;

/// Marks identifiers of predefined FARs and QERs. Spec: TS 29.244 §8.2.74, §8.2.75.
const PREDEFINED: u32 = 1 << 31;

/// Names must be known, and rules detect instead of the PDR's own filters or application.
pub(super) fn check(known: RuleCatalog<'_>, pdr: &Pdr) -> Result<(), Refusal> {
    for name in &pdr.predefined {
        if known.predefined(core::slice::from_ref(name)).next().is_none() {
            return Err(Refusal::UnknownPredefinedRule { pdr: pdr.id });
        }
    }
    let detects = !pdr.pdi.sdf.is_empty() || pdr.pdi.application.is_some();
    if detects && !pdr.predefined.is_empty() {
        return Err(Refusal::PredefinedRuleNotAlone { pdr: pdr.id });
    }
    let marks = known.predefined(&pdr.predefined).any(|rule| rule.qfi.is_some());
    if pdr.qers.len() + usize::from(marks) > QERS_PER_PDR_MAX {
        return Err(Refusal::TooManyQers { pdr: pdr.id });
    }
    Ok(())
}

/// The data path walks rules one by one.
pub(super) fn check_count(known: RuleCatalog<'_>, records: &Records) -> Result<(), Refusal> {
    let entries = |pdr: &Pdr| pdr.pdi.each().count() * known.predefined(&pdr.predefined).count();
    match records.pdrs.iter().map(entries).sum::<usize>() > PREDEFINED_RULES_PER_SESSION_MAX {
        true => Err(Refusal::TooManyPredefinedRules),
        false => Ok(()),
    }
}

/// True unless all packets of the PDR meet a rule that drops them.
pub(super) fn needs_far(known: RuleCatalog<'_>, pdr: &Pdr) -> bool {
    let forwards = |rule: &PredefinedRule| rule.action == PredefinedAction::Forward;
    pdr.predefined.is_empty() || known.predefined(&pdr.predefined).any(forwards)
}

/// FARs and QERs that the active rules of a session bring along, each once.
#[derive(Debug, Default)]
pub(super) struct PredefinedAdditions {
    /// FARs of the records, in front of these.
    first_far: usize,
    /// QERs of the records, in front of these.
    first_qer: usize,
    pub fars: Vec<Far>,
    pub qers: Vec<Qer>,
}

impl PredefinedAdditions {
    /// The additions of the rules of `records`.
    pub(super) fn new(known: RuleCatalog<'_>, records: &Records) -> Self {
        let (first_far, first_qer) = (records.fars.len(), records.qers.len());
        let mut brought = Self { first_far, first_qer, ..Self::default() };
        let rules = || records.pdrs.iter().flat_map(|pdr| known.predefined(&pdr.predefined));
        // A PDR without a FAR had rules that drop; the operator may have replaced them.
        let lacks_far = records.pdrs.iter().any(|pdr| pdr.far.is_none());
        if lacks_far || rules().any(|rule| rule.action == PredefinedAction::Drop) {
            let (id, action) = (FarId(PREDEFINED), ApplyAction::DROP);
            let duplicating = Vec::new();
            brought.fars.push(Far { id, action, bar: None, forwarding: None, duplicating });
        }
        for rule in rules() {
            let is_new = |qfi: &Qfi| brought.qer_of(*qfi).is_none();
            if let Some(qfi) = rule.qfi.filter(is_new) {
                // A QFI has six bits, so that there are at most 64 of them.
                let id = QerId(PREDEFINED | u32::from(qfi.value()));
                brought.qers.push(Qer { id, qfi: Some(qfi), ..Qer::default() });
            }
        }
        brought
    }

    fn qer_of(&self, qfi: Qfi) -> Option<usize> {
        self.qers.iter().position(|qer| qer.qfi == Some(qfi))
    }
}

/// The entry of `rule`, activated by the PDR whose own entry would be `pdr`; `None` while its
/// application is unknown.
pub(super) fn entry(
    known: RuleCatalog<'_>,
    brought: &PredefinedAdditions,
    pdr: &PdrEntry,
    rule: &PredefinedRule,
) -> Option<PdrEntry> {
    let sdf = match &rule.detection {
        PredefinedDetection::Filters(filters) => filters.clone(),
        PredefinedDetection::Application(id) => known.application(id)?.clone(),
    };
    let mut entry = PdrEntry { sdf, ..pdr.clone() };
    entry.precedence = rule.precedence.unwrap_or(pdr.precedence);
    if rule.action == PredefinedAction::Drop {
        entry.far = super::found::resolved(Some(brought.first_far));
    }
    // The first QER with a QFI marks. Stage 2 left room for it, unless the operator gave the rule a
    // QFI since.
    let has_room = !entry.qers.is_full();
    if let Some(at) = rule.qfi.and_then(|qfi| brought.qer_of(qfi)).filter(|_| has_room) {
        entry.qers.insert(0, super::found::resolved(Some(brought.first_qer + at)));
    }
    Some(entry)
}
