//! Observes a packet on its way through the stages, for taps.
//!
//! The stages are compiled for each observer: [`NoObserver`] does nothing and serves all packets
//! that no tap selected; [`TapRecord`] serves the selected ones, which take the stages alone.

use adit_pktio::PacketBuf;
use adit_rules::{
    PdrMismatch, PublishedPdr, QerEntry, RateLimit, TapItem, TapQer, TapSession, TapStage,
};
use adit_types::limits::TAP_PDRS_MAX;

use crate::columns::{BurstLane, LaneKind, Matched, PacketVerdict};
use crate::context::StepContext;
use crate::stage::forward_plan::plan_forwarding;
use crate::tap::TapRecord;

/// Is called with a lane after each stage.
pub(crate) trait StageObserver {
    /// Called after headers are parsed.
    #[inline(always)] // PERF (adit-bench kinds): compiled away without a tap.
    fn parsed(&mut self) {}

    /// Called after sessions are looked up.
    #[inline(always)] // PERF (adit-bench kinds): compiled away without a tap.
    fn looked_up<B: PacketBuf, K: LaneKind>(
        &mut self,
        _ctx: &StepContext<'_>,
        _lane: &BurstLane<'_, B, K>,
    ) {
    }

    /// Called after the packet was compared with PDRs: it matches the one at `found`, or none.
    /// `mismatch` returns why it does not match a PDR.
    #[inline(always)] // PERF (adit-bench kinds): compiled away without a tap.
    fn compared(
        &mut self,
        _pdrs: &[PublishedPdr],
        _found: Option<usize>,
        _mismatch: impl Fn(&PublishedPdr) -> PdrMismatch,
    ) {
    }

    /// Called after PDRs are found.
    #[inline(always)] // PERF (adit-bench kinds): compiled away without a tap.
    fn classified<B: PacketBuf, K: LaneKind>(
        &mut self,
        _ctx: &StepContext<'_>,
        _lane: &BurstLane<'_, B, K>,
    ) {
    }

    /// Called after gates and rates are enforced.
    #[inline(always)] // PERF (adit-bench kinds): compiled away without a tap.
    fn enforced(&mut self) {}

    /// Called after URRs have counted.
    #[inline(always)] // PERF (adit-bench kinds): compiled away without a tap.
    fn accounted<B: PacketBuf, K: LaneKind>(
        &mut self,
        _ctx: &StepContext<'_>,
        _lane: &BurstLane<'_, B, K>,
    ) {
    }

    /// Called after FARs are applied.
    #[inline(always)] // PERF (adit-bench kinds): compiled away without a tap.
    fn applied(&mut self) {}
}

/// The observer that does nothing.
pub(crate) struct NoObserver;

impl StageObserver for NoObserver {}

impl StageObserver for TapRecord {
    fn parsed(&mut self) {
        self.end_stage(TapStage::Parse);
    }

    fn looked_up<B: PacketBuf, K: LaneKind>(
        &mut self,
        ctx: &StepContext<'_>,
        lane: &BurstLane<'_, B, K>,
    ) {
        self.end_stage(TapStage::Lookup);
        let session = lane.sessions.first().zip(lane.arrivals.first());
        let Some((session, arrival)) = session else { return };
        let Some(rules) = ctx.view.rules(*session) else { return };
        let teid = K::IS_TUNNELED.then_some(arrival.teid);
        let direction = match teid {
            Some(teid) => rules.tunnel_side(teid).direction,
            None => adit_types::Direction::Downlink,
        };
        let pdrs = u16::try_from(rules.pdrs(direction).len()).unwrap_or(u16::MAX);
        let has_matcher = rules.matcher(direction).is_some();
        let seid = rules.up_seid;
        self.push_detail(|| TapItem::Session(TapSession { seid, teid, pdrs, has_matcher }));
    }

    fn compared(
        &mut self,
        pdrs: &[PublishedPdr],
        found: Option<usize>,
        mismatch: impl Fn(&PublishedPdr) -> PdrMismatch,
    ) {
        let (before, rest) = pdrs.split_at(found.unwrap_or(pdrs.len()));
        let before = before.iter().take(TAP_PDRS_MAX - 1).map(|pdr| (pdr, Some(&mismatch)));
        for (pdr, mismatch) in before.chain(rest.first().map(|pdr| (pdr, None))) {
            self.push_detail(|| TapItem::Tried {
                pdr: pdr.id,
                precedence: pdr.precedence,
                mismatch: mismatch.map(|mismatch| mismatch(pdr)),
            });
        }
    }

    fn classified<B: PacketBuf, K: LaneKind>(
        &mut self,
        ctx: &StepContext<'_>,
        lane: &BurstLane<'_, B, K>,
    ) {
        self.end_stage(TapStage::Classify);
        if !self.has_details() {
            return;
        }
        let matched = lane.verdicts.first().zip(lane.sessions.first());
        let Some((PacketVerdict::Pass(matched), session)) = matched else { return };
        let Matched { rules, pdr, direction, .. } = *matched;
        self.push(TapItem::Matched { pdr: pdr.id, direction });
        for qer in rules.qers_of(pdr) {
            let has_room = limit_of(qer, matched).map(|(limit, bucket)| {
                let meter = ctx.view.meter(*session, direction, bucket);
                // Only reads the meter: unlike the stages, forgives no debt.
                let opens_at = meter.and_then(|meter| meter.opens_at(limit, ctx.now));
                opens_at.is_some_and(|at| at <= ctx.now)
            });
            self.push(TapItem::Qer(TapQer {
                qer: qer.id,
                is_gate_open: qer.gate(direction) == adit_rules::Gate::Open,
                has_room,
                has_packet_rate: qer.packet_rate.is_some(),
            }));
        }
        let usage = ctx.view.usage();
        for at in &pdr.urrs {
            if let Some(urr) = rules.urrs.get(usize::from(*at)) {
                let _ = self.urrs.try_push((urr.id, urr.slot, usage.counted_bytes(urr.slot)));
            }
        }
        self.restart_stage();
    }

    fn enforced(&mut self) {
        self.end_stage(TapStage::Enforce);
    }

    fn accounted<B: PacketBuf, K: LaneKind>(
        &mut self,
        ctx: &StepContext<'_>,
        lane: &BurstLane<'_, B, K>,
    ) {
        self.end_stage(TapStage::Account);
        if !self.has_details() {
            return;
        }
        let usage = ctx.view.usage();
        for (urr, slot, before) in core::mem::take(&mut self.urrs) {
            self.push(TapItem::Urr { urr, before, after: usage.counted_bytes(slot) });
        }
        let (Some(verdict), Some(arrival), Some(ip)) =
            (lane.verdicts.first(), lane.arrivals.first(), lane.ips.first())
        else {
            return;
        };
        let (PacketVerdict::Pass(matched) | PacketVerdict::Divert(matched)) = verdict else {
            return;
        };
        let far = matched.far;
        self.push(TapItem::Far {
            far: far.id,
            action: far.action,
            destination: far.destination,
            outer: far.outer_header_creation(),
            must_queue: matched.must_queue,
        });
        let frame = lane.bufs.first().map(PacketBuf::data).unwrap_or_default();
        if let PacketVerdict::Pass(_) = verdict
            && let Ok(plan) = plan_forwarding(ctx, frame, arrival, ip, matched)
        {
            let (egress, is_switched) = (plan.egress, plan.is_switched);
            let interface = egress.interface.id;
            self.note_egress(interface);
            let (station, mac, dscp) = (egress.station, egress.mac, plan.dscp(matched));
            self.push(TapItem::Egress { interface, station, mac, is_switched, dscp });
        }
        self.restart_stage();
    }

    fn applied(&mut self) {
        self.end_stage(TapStage::Apply);
    }
}

/// Returns the maximum bit rate of a QER in the packet's direction, and its bucket.
fn limit_of(qer: &QerEntry, matched: &Matched<'_>) -> Option<(RateLimit, u8)> {
    let meter = qer.meter?;
    let limit = meter.limit(matched.direction);
    (limit != RateLimit::UNLIMITED).then_some((limit, meter.bucket))
}
