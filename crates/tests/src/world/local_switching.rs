//! Packets from one UE to another, which the same step processes a second time.

use super::expected::ExpectedStep;
use super::{InjectedFrame, World};
use crate::oracle::{OracleLane, OracleOutcome, OracleVerdict};

impl World {
    /// Expects the outcomes of packets that came back in this step.
    pub(super) fn expect_locally_switched(&mut self, expected: &mut ExpectedStep) {
        let mut back = core::mem::take(&mut self.locally_switched);
        back.sort_by_cached_key(|(_, arrival)| self.judge(arrival).lane);
        for (from, arrival) in back {
            let verdict = self.judge(&arrival);
            let processed_by = self.processing_worker(&arrival, verdict.session);
            self.count(&verdict);
            expected.came_back += 1;
            let is_copied = expected.expect_copies(&verdict);
            // The packets of one UE to another keep their order.
            let to = verdict.session.map(|to| self.oracle.sessions[to].0.0);
            let order = to.map(|to| from << 64 | u128::from(to));
            let order = order.zip(verdict.lane);
            self.expect_outcome(
                expected,
                processed_by,
                &arrival,
                verdict.outcome,
                order,
                is_copied,
            );
        }
    }

    fn judge(&self, arrival: &InjectedFrame) -> OracleVerdict {
        self.oracle.judge(arrival.port, &arrival.frame)
    }

    /// True if the packet must arrive alone, because its order among packets of other lanes is
    /// undefined and decides outcomes: it comes back to a session with rates or quotas, waits, is
    /// copied, or is an End Marker.
    #[must_use]
    pub fn must_be_switched_alone(&self, verdict: &OracleVerdict) -> bool {
        let OracleOutcome::SwitchLocally { port, frame } = &verdict.outcome else { return false };
        let OracleVerdict { session, lane, outcome, copies, .. } = self.oracle.judge(*port, frame);
        let session = session.map(|at| &self.oracle.sessions[at].1);
        let is_limited = session.is_some_and(|session| session.has_rates() || session.has_quotas());
        let waits = matches!(
            outcome,
            OracleOutcome::Buffer { .. }
                | OracleOutcome::AwaitNeighbor { .. }
                | OracleOutcome::Reassemble
        );
        is_limited || waits || !copies.is_empty() || lane == Some(OracleLane::EndMarker)
    }

    /// True if the next step can release packets for other UEs. No others may arrive with them.
    #[must_use]
    pub fn releases_uplink_packets(&self) -> bool {
        let is_from_ue = |seid| {
            self.awaiting_rules.iter().any(|packet| packet.by.seid == seid && packet.by.from_ue)
        };
        self.changed.is_some_and(|(seid, _)| is_from_ue(seid))
    }
}
