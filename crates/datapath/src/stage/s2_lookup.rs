//! Second stage: finds the session of a packet.

use adit_tables::TablesView;
use adit_types::limits::BURST_MAX;
use adit_types::{DomainId, SessionIndex};

use crate::columns::{BurstLane, LaneKind};

/// Finds the session of every packet in the lane.
///
/// Shape:   reads `keys[0..n]`; writes `sessions[0..n]`, `SessionIndex::NONE` on a miss. n ≤
///          BURST_MAX.
/// Cost:    two passes over the key table, then two over the sessions, each of which prefetches
///          what the next one reads. No allocation, no clock.
/// Spec:    TS 29.281 §5.1 (TEID); TS 29.244 §5.2.1 (packet forwarding model).
/// Errors:  none; a miss becomes a drop in `s3_classify`.
pub(crate) fn s2_lookup<B, S: LaneKind>(view: &TablesView<'_>, lane: &mut BurstLane<'_, B, S>) {
    let mut sessions = [SessionIndex::NONE; BURST_MAX];
    let found = &mut sessions[..lane.keys.len()];
    if S::IS_TUNNELED || view.is_one_domain() {
        S::lookup(view, DomainId(0), &lane.keys, found);
    } else {
        lookup_by_domain(view, lane, found);
    }
    for session in found.iter() {
        view.prefetch_slot(*session);
    }
    for session in found.iter() {
        view.prefetch_rules(*session);
        view.prefetch_fast_rule(*session, S::USUAL_DIRECTION);
    }
    lane.sessions.extend(found.iter().copied());
}

/// Looks up the sessions of packets of several routing domains; consecutive packets of one domain
/// are looked up together.
fn lookup_by_domain<B, S: LaneKind>(
    view: &TablesView<'_>,
    lane: &BurstLane<'_, B, S>,
    found: &mut [SessionIndex],
) {
    let domain =
        |at: usize| lane.arrivals.get(at).map(|arrival| view.domain_within(arrival.interfaces));
    let mut first = 0;
    while let Some(here) = domain(first) {
        let end = (first..).find(|at| domain(*at) != Some(here)).unwrap_or(first + 1);
        let (Some(keys), Some(found)) = (lane.keys.get(first..end), found.get_mut(first..end))
        else {
            return;
        };
        S::lookup(view, here, keys, found);
        first = end;
    }
}
