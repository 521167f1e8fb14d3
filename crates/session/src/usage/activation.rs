//! PDRs with activation and deactivation times.
//!
//! Keys and claims do not depend on the times: packets for a PDR that does not match yet belong to
//! its session. Spec: TS 29.244 §5.2.1 (deferred PDR activation and deactivation).

use adit_types::Nanos;

use crate::record::Records;

/// Records in each PDR whether it matches at `now`.
pub(crate) fn update_active_pdrs(records: &mut Records, now: Nanos) {
    for pdr in &mut records.pdrs {
        pdr.is_active = pdr.times.is_active(now);
    }
}

/// Returns records that show which PDRs match at `now`; `None` if nothing changed.
pub(crate) fn with_active_pdrs(records: &Records, now: Nanos) -> Option<Records> {
    let mut pdrs = records.pdrs.iter();
    pdrs.any(|pdr| pdr.is_active != pdr.times.is_active(now)).then(|| {
        let mut with_active_pdrs = records.clone();
        update_active_pdrs(&mut with_active_pdrs, now);
        with_active_pdrs
    })
}

/// Returns the next time after `now` at which a PDR may begin or cease to match.
pub(crate) fn next_change(records: &Records, now: Nanos) -> Option<Nanos> {
    records.pdrs.iter().filter_map(|pdr| pdr.times.next(now)).min()
}
