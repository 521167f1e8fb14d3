//! Fifth stage: measures usage, and stops packets beyond packet rates and quotas.

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PacketRateMeter};

use crate::books::Books;
use crate::columns::{BurstLane, LaneKind, Matched, PacketVerdict};
use crate::context::StepContext;
use crate::stage::admit::stop_verdict;
use crate::stage::measure::UsageMeter;
use crate::stage::s3_classify::selector;

/// Counts the packets that pass, for their sessions and URRs and for the packet rates of their
/// QERs. Packets beyond a packet rate are dropped; packets beyond a quota take the URR's quota
/// action or are dropped.
///
/// Shape:   reads `sessions` and `ips[0..n]`; may turn `verdicts` from `Pass` to `Drop` or
///          `Divert`, or replace the FAR in them. n ≤ BURST_MAX.
/// Cost:    one cache line per packet and URR, prefetched in `s2_lookup` and `s4_enforce`; a URR in
///          a credit pool reads the lines of all the pool's members. No allocation, no clock.
/// Units:   octets of the inner IP packet, without outer headers and padding. Packets that later
///          stages drop (TTL, MTU, neighbor) are counted, too.
/// Spec:    TS 29.244 §8.2.63 (packet rate), §5.2.2.2 (volume is measured on the user's packet;
///          packets pass while the quota is not used up, so the last one may exceed it).
/// Threads: the counters belong to this worker, which owns the session.
pub(crate) fn s5_account<B: PacketBuf, S: LaneKind>(
    ctx: &StepContext<'_>,
    lane: &mut BurstLane<'_, B, S>,
    books: &mut Books,
) {
    let BurstLane { bufs, arrivals, verdicts, sessions, ips, .. } = lane;
    let packets = bufs.iter().zip(&*arrivals).zip(&*ips);
    for ((verdict, session), ((buf, arrival), ip)) in
        verdicts.iter_mut().zip(&*sessions).zip(packets)
    {
        let PacketVerdict::Pass(matched) = verdict else { continue };
        let direction = matched.direction;
        let bytes = u64::from(ip.total_len);
        if !packet_rates(matched).all(|rate| rate.admits_or_counts_drop(direction, ctx.now)) {
            UsageMeter::new(ctx, matched).count_gated(matched, bytes, books);
            *verdict = PacketVerdict::Drop(DropReason::PacketRateExceeded);
            continue;
        }
        if !matched.pdr.urrs.is_empty() {
            let meter = UsageMeter::new(ctx, matched);
            let packet = || buf.data().get(usize::from(arrival.ip_offset)..).unwrap_or_default();
            let flow = || selector(packet(), arrival, ip);
            if let Err(reason) = meter.pass(matched, flow, bytes, books) {
                *verdict = stop_verdict(*matched, reason);
                continue;
            }
        }
        packet_rates(matched).for_each(|rate| rate.pass(direction, ctx.now));
        ctx.view.count_session(*session, direction, 1, bytes);
    }
}

/// Returns the packet rates of the QERs of the packet's PDR.
#[inline]
fn packet_rates<'v>(matched: &Matched<'v>) -> impl Iterator<Item = &'v PacketRateMeter> + use<'v> {
    let Matched { rules, pdr, .. } = *matched;
    rules.qers_of(pdr).filter_map(|qer| qer.packet_rate.as_deref())
}
