//! Fifth stage: count what the session used.

use adit_tables::View;

use crate::columns::{Lane, Side, Verdict};

/// Adds the packets that pass to their sessions' counters.
///
/// Shape:   reads `verdicts`, `sessions` and `ips[0..n]`. n ≤ BURST_MAX.
/// Cost:    one worker-owned cache line per packet, asked for in `s2_lookup`. No allocation, no clock.
/// Units:   octets of the inner IP packet, without outer headers and padding. What the network
///          loses behind this stage (TTL, MTU, neighbor) is counted.
/// Spec:    TS 29.244 §5.2.2.2 (volume is measured on the user's packet).
/// Threads: the counters belong to this worker.
pub(crate) fn s5_account<B, S: Side>(view: &View<'_>, lane: &Lane<'_, B, S>) {
    let counters = view.session_counters();
    for ((verdict, session), ip) in lane.verdicts.iter().zip(&lane.sessions).zip(&lane.ips) {
        if let Verdict::Pass(matched) = verdict {
            counters.add(*session, matched.direction, 1, u64::from(ip.total_len));
        }
    }
}
