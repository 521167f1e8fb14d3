//! Small helpers for several stages.

use adit_types::Teid;

use crate::record::Pdr;

pub(super) fn has_teid(pdr: &Pdr, teid: Teid) -> bool {
    pdr.pdi.each().any(|pdi| pdi.f_teid.is_some_and(|f_teid| f_teid.teid == teid))
}

/// Converts the index of a rule that stage 2 has found to exist.
pub(super) fn resolved(position: Option<usize>) -> u16 {
    let Some(position) = position.and_then(|position| u16::try_from(position).ok()) else {
        unreachable!("s2_resolve found the rule, and RULES_PER_SESSION_MAX fits 16 bits")
    };
    position
}
