//! Second stage: whose packet is this?

use adit_tables::View;
use adit_types::SessionIndex;
use adit_types::limits::BURST_MAX;

use crate::columns::{Lane, Side};

/// Finds the session of every packet in the lane.
///
/// Shape:   reads `keys[0..n]`; writes `sessions[0..n]`, `SessionIndex::NONE` on a miss. n ≤ BURST_MAX.
/// Cost:    two passes in the key table, then two over the rules: slots are asked for while the
///          table answers the others, rules and the line of the counters while slots arrive. No allocation, no clock.
/// Spec:    TS 29.281 §5.1 (TEID); TS 29.244 §5.2.1 (packet forwarding model).
/// Errors:  none; a miss becomes a drop in `s3_classify`.
pub(crate) fn s2_lookup<B, S: Side>(view: &View<'_>, lane: &mut Lane<'_, B, S>) {
    let mut sessions = [SessionIndex::NONE; BURST_MAX];
    let found = &mut sessions[..lane.keys.len()];
    S::lookup(view, &lane.keys, found);
    for session in found.iter() {
        view.prefetch_slot(*session);
    }
    for session in found.iter() {
        view.prefetch_rules(*session);
        view.prefetch_express(*session, S::COUNTED);
    }
    lane.sessions.extend(found.iter().copied());
}
