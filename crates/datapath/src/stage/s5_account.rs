//! Fifth stage: measure what the session uses, and stop what its packet rates and quotas do not cover.

use adit_pktio::PacketBuf;
use adit_rules::{
    DropReason, FlowSelector, PacketRateMeter, PublishedRules, PublishedUrr, UsageLimits,
    WorkerEvent,
};
use adit_tables::{UsageMark, UsageView};
use adit_types::{Direction, Nanos, PdrId, Seid};

use crate::columns::{BurstLane, LaneKind, Matched, PacketVerdict};
use crate::stage::egress::StepContext;
use crate::stage::s3_classify::selector;
use crate::stage::s4_enforce::{admit_far, stop_verdict};
use crate::tally::StepTally;
use crate::worker_state::Events;

/// Adds the packets that pass to their session's and their URRs' counters and to the packet rates of
/// their QERs. Packets beyond such a rate are dropped, and packets beyond a quota take the URR's quota
/// action or are dropped.
///
/// Shape:   reads `sessions` and `ips[0..n]`; may turn `verdicts` from `Pass` to `Drop`, to
///          `Divert`, or to another FAR. n ≤ BURST_MAX.
/// Cost:    one cache line per packet and URR, asked for in `s2_lookup` and `s4_enforce`; a URR in a
///          credit pool reads the lines of all its members. No allocation, no clock.
/// Units:   octets of the inner IP packet, without outer headers and padding. What the network
///          loses behind this stage (TTL, MTU, neighbor) is counted.
/// Spec:    TS 29.244 §8.2.63 (packet rate), §5.2.2.2 (volume is measured on the user's packet; packets pass while the
///          quota is not used up, so the last one may exceed it).
/// Threads: the counters belong to this worker, which owns the session.
pub(crate) fn s5_account<B: PacketBuf, S: LaneKind>(
    env: &StepContext<'_>,
    lane: &mut BurstLane<'_, B, S>,
    events: &mut Events,
    tally: &mut StepTally,
) {
    let BurstLane { bufs, arrivals, verdicts, sessions, ips, .. } = lane;
    let packets = bufs.iter().zip(&*arrivals).zip(&*ips);
    for ((verdict, session), ((buf, arrival), ip)) in
        verdicts.iter_mut().zip(&*sessions).zip(packets)
    {
        let PacketVerdict::Pass(matched) = verdict else { continue };
        let direction = matched.direction;
        let bytes = u64::from(ip.total_len);
        if !packet_rates(matched).all(|rate| rate.is_open(direction, env.now)) {
            UsageMeter::new(env, matched).count_gated(matched, direction, bytes, events, tally);
            *verdict = PacketVerdict::Drop(DropReason::PacketRateExceeded);
            continue;
        }
        if !matched.pdr.urrs.is_empty() {
            let meter = UsageMeter::new(env, matched);
            let packet = || buf.data().get(usize::from(arrival.ip_offset)..).unwrap_or_default();
            let flow = || selector(packet(), arrival, ip);
            if let Err(reason) = meter.pass(matched, flow, bytes, events, tally) {
                *verdict = stop_verdict(*matched, reason);
                continue;
            }
        }
        packet_rates(matched).for_each(|rate| rate.pass(direction, env.now));
        env.view.count_session(*session, direction, 1, bytes);
    }
}

/// The packet rates of a PDR's QERs.
#[inline]
fn packet_rates<'v>(matched: &Matched<'v>) -> impl Iterator<Item = &'v PacketRateMeter> + use<'v> {
    let Matched { rules, pdr, .. } = *matched;
    rules.qers_of(pdr).filter_map(|qer| qer.packet_rate.as_deref())
}

/// The URRs of a PDR.
#[inline]
fn urrs<'v>(
    rules: &'v PublishedRules,
    matched: &Matched<'v>,
) -> impl Iterator<Item = &'v PublishedUrr> + use<'v> {
    matched.pdr.urrs.iter().filter_map(|at| rules.urrs.get(usize::from(*at)))
}

/// The credit pool of a URR.
#[inline]
fn pool<'r>(rules: &'r PublishedRules, urr: &PublishedUrr) -> Option<&'r PublishedUrr> {
    rules.urrs.get(usize::from(urr.pool?))
}

/// True for a packet that the quota action of `urr` spares. Spec: TS 29.244 §7.5.2.4 (QUASF).
#[cold]
fn is_exempt(urr: &PublishedUrr, direction: Direction, flow: &FlowSelector) -> bool {
    urr.exempt.iter().any(|filter| filter.matches(direction, flow))
}

/// Counts one packet.
pub(crate) struct UsageMeter<'v> {
    usage: UsageView<'v>,
    now: Nanos,
    session: Seid,
    pdr: PdrId,
}

impl<'v> UsageMeter<'v> {
    /// A meter of a packet that `matched` belongs to.
    #[inline]
    pub fn new(env: &StepContext<'v>, matched: &Matched<'_>) -> Self {
        let (session, pdr) = (matched.rules.up_seid, matched.pdr.id);
        Self { usage: env.view.usage(), now: env.now, session, pdr }
    }

    /// Counts a packet that QERs and FAR let pass, unless a quota stops it. URRs whose quota is
    /// used up do not count what their quota action forwards, but what they exempt from it.
    ///
    /// # Errors
    /// `QuotaExhausted`, or why the FAR of the quota action drops.
    #[inline]
    pub fn pass(
        &self,
        matched: &mut Matched<'_>,
        flow: impl Fn() -> FlowSelector,
        bytes: u64,
        events: &mut Events,
        tally: &mut StepTally,
    ) -> Result<(), DropReason> {
        let (rules, direction) = (matched.rules, matched.direction);
        let stopped_by = |urr| {
            let by = self.exhausted(rules, urr)?;
            (by.exempt.is_empty() || !is_exempt(by, direction, &flow())).then_some(by)
        };
        if let Some(urr) = urrs(rules, matched).find_map(stopped_by) {
            self.stop(urr, events, tally);
            let far = urr.quota_far.and_then(|far| rules.fars.get(usize::from(far)));
            let admitted = match far {
                Some(far) => {
                    matched.far = far;
                    admit_far(far)
                }
                None => Err(DropReason::QuotaExhausted),
            };
            if let Err(reason) = admitted {
                // What is to be buffered counts when it is released.
                if !matched.far.buffers() || reason != DropReason::FarDrop {
                    self.count_dropped(matched, direction, bytes, events, tally);
                }
                return Err(reason);
            }
        }
        for urr in urrs(rules, matched).filter(|&urr| stopped_by(urr).is_none()) {
            self.count(rules, urr, direction, bytes, events, tally);
        }
        Ok(())
    }

    /// Counts a packet that a closed gate stopped, where it counts.
    #[cold]
    pub fn count_gated(
        &self,
        matched: &Matched<'_>,
        direction: Direction,
        bytes: u64,
        events: &mut Events,
        tally: &mut StepTally,
    ) {
        for urr in urrs(matched.rules, matched).filter(|urr| urr.before_qos) {
            if self.exhausted(matched.rules, urr).is_none() {
                self.count(matched.rules, urr, direction, bytes, events, tally);
            }
        }
        self.count_dropped(matched, direction, bytes, events, tally);
    }

    /// Counts a packet that rules dropped, towards the UE only. Spec: TS 29.244 §8.2.49.
    #[cold]
    pub fn count_dropped(
        &self,
        matched: &Matched<'_>,
        direction: Direction,
        bytes: u64,
        events: &mut Events,
        tally: &mut StepTally,
    ) {
        if direction == Direction::Uplink {
            return;
        }
        for urr in urrs(matched.rules, matched) {
            let (all_bytes, all_pkts) = self.usage.add_dropped(urr.slot, bytes);
            let (pkts, bytes) = urr.report_dropped;
            if all_pkts >= pkts || all_bytes >= bytes {
                self.report(urr, UsageMark::Dropped, events, tally);
            }
        }
    }

    /// Whose quota stops a packet of `urr`: its own, or that of its credit pool.
    #[inline]
    fn exhausted<'r>(
        &self,
        rules: &'r PublishedRules,
        urr: &'r PublishedUrr,
    ) -> Option<&'r PublishedUrr> {
        let is_exhausted = |urr: &&PublishedUrr| urr.stopped || self.is_reached(urr, &urr.quota());
        Some(urr).filter(is_exhausted).or_else(|| pool(rules, urr).filter(is_exhausted))
    }

    #[inline]
    fn is_reached(&self, urr: &PublishedUrr, limits: &UsageLimits) -> bool {
        if limits.is_none() {
            return false;
        }
        let (uplink, downlink) = match urr.members.of.is_empty() {
            true => self.usage.volume(urr.slot),
            false => urr.members.bytes(|slot| self.usage.volume(slot)),
        };
        limits.reached(uplink, downlink)
    }

    #[inline]
    fn count(
        &self,
        rules: &PublishedRules,
        urr: &PublishedUrr,
        direction: Direction,
        bytes: u64,
        events: &mut Events,
        tally: &mut StepTally,
    ) {
        self.usage.add(urr, direction, bytes, self.now);
        if urr.report_start {
            self.report(urr, UsageMark::Start, events, tally);
        }
        self.report_limits(urr, events, tally);
        if let Some(pool) = pool(rules, urr) {
            self.report_limits(pool, events, tally);
        }
    }

    #[inline]
    fn report_limits(&self, urr: &PublishedUrr, events: &mut Events, tally: &mut StepTally) {
        if self.is_reached(urr, &urr.report) {
            self.report(urr, UsageMark::Report, events, tally);
        }
        if self.is_reached(urr, &urr.quota()) {
            self.report(urr, UsageMark::Quota, events, tally);
        }
        self.usage.update_countable(urr);
    }

    /// A packet met a used-up quota. One that was never more than zero is told here.
    #[cold]
    fn stop(&self, urr: &PublishedUrr, events: &mut Events, tally: &mut StepTally) {
        if !urr.stopped {
            self.report(urr, UsageMark::Quota, events, tally);
        }
    }

    /// Tells once per generation; again with the next packet when the ring is full.
    #[inline]
    fn report(
        &self,
        urr: &PublishedUrr,
        mark: UsageMark,
        events: &mut Events,
        tally: &mut StepTally,
    ) {
        if !self.usage.is_unreported(urr, mark) {
            return;
        }
        let &PublishedUrr { slot, generation, .. } = urr;
        let (session, pdr) = (self.session, self.pdr);
        let event = match mark {
            UsageMark::Start => {
                WorkerEvent::TrafficStarted { session, slot, generation, at: self.now, pdr }
            }
            _ => WorkerEvent::UsageLimit { session, slot, generation },
        };
        if events.push(tally, event) {
            self.usage.mark_reported(urr, mark);
        }
    }
}
