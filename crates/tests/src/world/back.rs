//! Packets from one UE to another: they take part in the same exchange a second time.

use super::expected::Expected;
use super::{Arrival, World};
use crate::oracle::{Lane, Outcome, Verdict};

impl World {
    /// What becomes of the packets that came back in this step.
    pub(super) fn expect_back(&mut self, expected: &mut Expected) {
        let mut back = core::mem::take(&mut self.back);
        back.sort_by_cached_key(|(_, arrival)| self.judge(arrival).lane);
        for (from, arrival) in back {
            let verdict = self.judge(&arrival);
            let treated_by = self.treated_by(&arrival, verdict.session);
            self.count(&verdict);
            expected.came_back += 1;
            let is_copied = expected.copy(&verdict);
            // The packets of one UE to another keep their order.
            let order = verdict.session.map(|to| 1 << 63 | from << 24 | to as u64);
            let order = order.zip(verdict.lane);
            self.expect(expected, (treated_by, &arrival), verdict.outcome, order, is_copied);
        }
    }

    fn judge(&self, arrival: &Arrival) -> Verdict {
        self.oracle.judge(arrival.port, &arrival.frame)
    }

    /// What becomes of a packet that comes back for another UE.
    #[must_use]
    pub fn judge_back(&self, arrival: &Arrival) -> Option<Verdict> {
        match self.judge(arrival).outcome {
            Outcome::ComeBack { port, frame } => Some(self.oracle.judge(port, &frame)),
            _ => None,
        }
    }

    /// True when the order of a packet among others decides what becomes of it, which is said for
    /// packets of one lane only: it comes back to a session with rates or quotas, to wait, or in no
    /// lane of such.
    #[must_use]
    pub fn must_come_back_alone(&self, arrival: &Arrival) -> bool {
        let Some(Verdict { session, lane, outcome, copies, .. }) = self.judge_back(arrival) else {
            return false;
        };
        let session = session.map(|at| &self.oracle.sessions[at].1);
        let is_limited = session.is_some_and(|session| {
            session.qers.iter().any(|qer| qer.mbr.is_some() || qer.packet_rate.is_some())
                || session.urrs.iter().any(|urr| urr.settings.volume_quota.is_some())
        });
        let waits =
            matches!(outcome, Outcome::Buffer { .. } | Outcome::Hold { .. } | Outcome::Reassemble);
        is_limited || waits || !copies.is_empty() || lane == Some(Lane::EndMarker)
    }

    /// True when the next step may release packets for other UEs, which may not come with others.
    #[must_use]
    pub fn releases_packets_of_ues(&self) -> bool {
        let is_from_ue =
            |seid| self.buffered.iter().any(|packet| packet.by.seid == seid && packet.by.from_ue);
        self.changed.is_some_and(|(seid, _)| is_from_ue(seid))
    }
}
