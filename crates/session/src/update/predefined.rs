//! Predefined rules: checks of their activation, and the PDR entries that workers run for them.
//!
//! A PDR that activates predefined rules becomes one entry per rule. A packet that matches the PDR
//! but none of the rules is compared with other PDRs. FARs and QERs that the rules add follow those
//! of the session.
//! Spec: TS 29.244 §7.5.2.2, §8.2.72.

use adit_rules::{ApplyAction, PdrEntry};
use adit_types::limits::{PREDEFINED_RULES_PER_SESSION_MAX, QERS_PER_PDR_MAX};
use adit_types::{FarId, QerId, Qfi};

use crate::provisioning::{PredefinedAction, PredefinedDetection, PredefinedRule, RuleCatalog};
use crate::record::{Far, Pdr, Qer, Records};
use crate::refusal::Refusal;

/// Set in identifiers of predefined FARs and QERs. Spec: TS 29.244 §8.2.74, §8.2.75.
const PREDEFINED: u32 = 1 << 31;

/// Checks the predefined rules that a PDR activates: their names are known, the PDR has no SDF
/// filters or application of its own beside them, and its QERs are not too many.
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

/// Checks the number of entries, because the data path compares them one by one.
pub(super) fn check_count(known: RuleCatalog<'_>, records: &Records) -> Result<(), Refusal> {
    let entries = |pdr: &Pdr| pdr.pdi.each().count() * known.predefined(&pdr.predefined).count();
    match records.pdrs.iter().map(entries).sum::<usize>() > PREDEFINED_RULES_PER_SESSION_MAX {
        true => Err(Refusal::TooManyPredefinedRules),
        false => Ok(()),
    }
}

/// False if all packets of the PDR can only match rules that drop them.
pub(super) fn needs_far(known: RuleCatalog<'_>, pdr: &Pdr) -> bool {
    let forwards = |rule: &PredefinedRule| rule.action == PredefinedAction::Forward;
    pdr.predefined.is_empty() || known.predefined(&pdr.predefined).any(forwards)
}

/// FARs and QERs that the active predefined rules of a session need, each once.
#[derive(Debug, Default)]
pub(super) struct PredefinedAdditions {
    /// How many FARs the records have; the added ones follow.
    first_far: usize,
    /// How many QERs the records have; the added ones follow.
    first_qer: usize,
    pub fars: Vec<Far>,
    pub qers: Vec<Qer>,
}

impl PredefinedAdditions {
    /// Collects the additions for the rules of `records`.
    pub(super) fn new(known: RuleCatalog<'_>, records: &Records) -> Self {
        let (first_far, first_qer) = (records.fars.len(), records.qers.len());
        let mut brought = Self { first_far, first_qer, ..Self::default() };
        let rules = || records.pdrs.iter().flat_map(|pdr| known.predefined(&pdr.predefined));
        // A PDR without a FAR had only rules that drop; the operator may have replaced them.
        let lacks_far = records.pdrs.iter().any(|pdr| pdr.far.is_none());
        if lacks_far || rules().any(|rule| rule.action == PredefinedAction::Drop) {
            let (id, action) = (FarId(PREDEFINED), ApplyAction::DROP);
            let duplicating = Vec::new();
            brought.fars.push(Far { id, action, bar: None, forwarding: None, duplicating });
        }
        for rule in rules() {
            let is_new = |qfi: &Qfi| brought.qer_of(*qfi).is_none();
            if let Some(qfi) = rule.qfi.filter(is_new) {
                // A QFI has six bits, so there are at most 64 such QERs.
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

/// Returns the entry for `rule`, which a PDR activates whose own entry would be `pdr`. `None` while
/// the rule's application is unknown.
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
    // The first QER with a QFI marks packets. Stage 2 left room, unless the operator added the
    // rule's QFI since.
    let has_room = !entry.qers.is_full();
    if let Some(at) = rule.qfi.and_then(|qfi| brought.qer_of(qfi)).filter(|_| has_room) {
        entry.qers.insert(0, super::found::resolved(Some(brought.first_qer + at)));
    }
    Some(entry)
}
