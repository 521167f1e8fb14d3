//! Measures usage: counters of URRs, and their thresholds and quotas.

use adit_rules::{
    DropReason, FlowSelector, PublishedRules, PublishedUrr, UsageLimits, WorkerEvent,
};
use adit_tables::{UsageMark, UsageView};
use adit_types::{Direction, Nanos, PdrId, Seid};

use crate::books::Books;
use crate::columns::Matched;
use crate::context::StepContext;
use crate::stage::admit::admit_far;

/// Counts one packet in the URRs of its PDR.
pub(crate) struct UsageMeter<'v> {
    usage: UsageView<'v>,
    now: Nanos,
    session: Seid,
    pdr: PdrId,
}

impl<'v> UsageMeter<'v> {
    /// Creates the meter for a packet that matched `matched`.
    #[inline]
    pub(crate) fn new(ctx: &StepContext<'v>, matched: &Matched<'_>) -> Self {
        let (session, pdr) = (matched.rules.up_seid, matched.pdr.id);
        Self { usage: ctx.view.usage(), now: ctx.now, session, pdr }
    }

    /// Counts a packet that QERs and FAR let pass, unless a quota stops it. A URR whose quota is
    /// used up does not count a packet that its quota action forwards, unless the packet is exempt.
    ///
    /// # Errors
    /// `QuotaExhausted`, or why the FAR of the quota action drops the packet.
    #[inline]
    pub(crate) fn pass(
        &self,
        matched: &mut Matched<'_>,
        flow: impl Fn() -> FlowSelector,
        bytes: u64,
        books: &mut Books,
    ) -> Result<(), DropReason> {
        let Matched { rules, direction, .. } = *matched;
        let stopped_by = |urr| {
            let by = self.exhausted_urr(rules, urr)?;
            (by.exempt.is_empty() || !is_exempt(by, direction, &flow())).then_some(by)
        };
        if let Some(urr) = urrs(rules, matched).find_map(stopped_by) {
            self.stop(urr, books);
            let far = urr.quota_far.and_then(|far| rules.fars.get(usize::from(far)));
            let admitted = match far {
                Some(far) => {
                    matched.far = far;
                    admit_far(far)
                }
                None => Err(DropReason::QuotaExhausted),
            };
            if let Err(reason) = admitted {
                // Buffered packets are counted when they are released.
                if !matched.far.buffers() || reason != DropReason::FarDrop {
                    self.count_dropped(matched, bytes, books);
                }
                return Err(reason);
            }
        }
        for urr in urrs(rules, matched).filter(|&urr| stopped_by(urr).is_none()) {
            self.count(matched, urr, bytes, books);
        }
        Ok(())
    }

    /// Counts a packet that gates or rates stopped, for URRs that measure before QoS enforcement.
    #[cold]
    pub(crate) fn count_gated(&self, matched: &Matched<'_>, bytes: u64, books: &mut Books) {
        for urr in urrs(matched.rules, matched).filter(|urr| urr.before_qos) {
            if self.exhausted_urr(matched.rules, urr).is_none() {
                self.count(matched, urr, bytes, books);
            }
        }
        self.count_dropped(matched, bytes, books);
    }

    /// Counts a packet that rules dropped; only packets to the UE. Spec: TS 29.244 §8.2.49.
    #[cold]
    pub(crate) fn count_dropped(&self, matched: &Matched<'_>, bytes: u64, books: &mut Books) {
        if matched.direction == Direction::Uplink {
            return;
        }
        for urr in urrs(matched.rules, matched) {
            let (all_bytes, all_pkts) = self.usage.add_dropped(urr.slot, bytes);
            let (pkts, bytes) = urr.report_dropped;
            if all_pkts >= pkts || all_bytes >= bytes {
                self.report(urr, UsageMark::Dropped, books);
            }
        }
    }

    /// Returns the URR whose quota stops a packet of `urr`: the URR itself, or its credit pool.
    #[inline]
    fn exhausted_urr<'r>(
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
    fn count(&self, matched: &Matched<'_>, urr: &PublishedUrr, bytes: u64, books: &mut Books) {
        self.usage.add(urr, matched.direction, bytes, self.now);
        if urr.report_start {
            self.report(urr, UsageMark::Start, books);
        }
        self.report_limits(urr, books);
        if let Some(pool) = pool(matched.rules, urr) {
            self.report_limits(pool, books);
        }
    }

    #[inline]
    fn report_limits(&self, urr: &PublishedUrr, books: &mut Books) {
        if self.is_reached(urr, &urr.report) {
            self.report(urr, UsageMark::Threshold, books);
        }
        if self.is_reached(urr, &urr.quota()) {
            self.report(urr, UsageMark::Quota, books);
        }
        self.usage.update_unchecked(urr);
    }

    /// Reports that a used-up quota stopped a packet. Other than a quota of zero, it is reported
    /// already.
    #[cold]
    fn stop(&self, urr: &PublishedUrr, books: &mut Books) {
        if !urr.stopped {
            self.report(urr, UsageMark::Quota, books);
        }
    }

    /// Reports a mark once per generation of the URR; if the ring is full, again at the next
    /// packet.
    #[inline]
    fn report(&self, urr: &PublishedUrr, mark: UsageMark, books: &mut Books) {
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
        if books.report(event) {
            self.usage.mark_reported(urr, mark);
        }
    }
}

/// Returns the URRs of the packet's PDR.
#[inline]
fn urrs<'v>(
    rules: &'v PublishedRules,
    matched: &Matched<'v>,
) -> impl Iterator<Item = &'v PublishedUrr> + use<'v> {
    matched.pdr.urrs.iter().filter_map(|at| rules.urrs.get(usize::from(*at)))
}

/// Returns the credit pool of a URR, if it has one.
#[inline]
fn pool<'r>(rules: &'r PublishedRules, urr: &PublishedUrr) -> Option<&'r PublishedUrr> {
    rules.urrs.get(usize::from(urr.pool?))
}

/// True if the quota action of `urr` exempts a packet. Spec: TS 29.244 §7.5.2.4 (QUASF).
#[cold]
fn is_exempt(urr: &PublishedUrr, direction: Direction, flow: &FlowSelector) -> bool {
    urr.exempt.iter().any(|filter| filter.matches(direction, flow))
}
