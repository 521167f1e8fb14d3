//! Reports about user plane paths that wait for CP functions.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_types::limits::{NODE_REPORT_DELAYS_MAX, NODE_REPORT_PEERS_MAX, PATHS_TO_REPORT_MAX};

use crate::path_qos::PathDelays;

/// State of a user plane path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportedPathState {
    Failed,
    Recovered,
}

/// The reports that wait for one CP function.
#[derive(Debug, Default)]
pub(crate) struct PathReports {
    waiting: BTreeMap<IpAddr, ReportedPathState>,
    pub restarted: BTreeSet<IpAddr>,
    pub delays: VecDeque<PathDelays>,
    pub in_flight: bool,
}

/// The reports of one request.
#[derive(Debug)]
pub(crate) struct NodeReportBatch {
    pub paths: Vec<(IpAddr, ReportedPathState)>,
    pub restarted: Vec<IpAddr>,
    pub delays: Vec<PathDelays>,
}

impl PathReports {
    /// False when there is no room.
    pub(crate) fn push(&mut self, gtpu_peer: IpAddr, path: ReportedPathState) -> bool {
        match self.waiting.get(&gtpu_peer) {
            Some(ReportedPathState::Failed) if path == ReportedPathState::Recovered => {
                self.waiting.remove(&gtpu_peer);
                true
            }
            None if self.waiting.len() >= PATHS_TO_REPORT_MAX => false,
            _ => {
                self.waiting.insert(gtpu_peer, path);
                true
            }
        }
    }

    pub(crate) fn push_restart(&mut self, gtpu_peer: IpAddr) -> bool {
        let has_room = self.restarted.len() < PATHS_TO_REPORT_MAX;
        if has_room {
            self.restarted.insert(gtpu_peer);
        }
        has_room
    }

    pub(crate) fn push_delays(&mut self, delays: PathDelays) -> bool {
        let has_room = self.delays.len() < PATHS_TO_REPORT_MAX;
        if has_room {
            self.delays.push_back(delays);
        }
        has_room
    }

    /// The reports of the next request, which counts as in flight from now on.
    pub(crate) fn start(&mut self) -> Option<NodeReportBatch> {
        let is_idle =
            self.waiting.is_empty() && self.restarted.is_empty() && self.delays.is_empty();
        if self.in_flight || is_idle {
            return None;
        }
        self.in_flight = true;
        let paths = std::iter::from_fn(|| self.waiting.pop_first()).take(NODE_REPORT_PEERS_MAX);
        let paths = paths.collect();
        let restarted = std::iter::from_fn(|| self.restarted.pop_first());
        let restarted = restarted.take(NODE_REPORT_PEERS_MAX).collect();
        let count = self.delays.len().min(NODE_REPORT_DELAYS_MAX);
        let delays = self.delays.drain(..count).collect();
        Some(NodeReportBatch { paths, restarted, delays })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: usize) -> IpAddr {
        IpAddr::V4(u32::try_from(number).unwrap().into())
    }

    #[test]
    fn recovery_cancels_a_failure_that_was_not_reported() {
        let mut reports = PathReports::default();
        assert!(reports.push(host(1), ReportedPathState::Failed));
        assert!(reports.push(host(1), ReportedPathState::Recovered));
        assert!(reports.start().is_none());
        assert!(reports.push(host(1), ReportedPathState::Recovered));
        let batch = reports.start().unwrap();
        assert_eq!(batch.paths, [(host(1), ReportedPathState::Recovered)]);
    }

    #[test]
    fn one_request_is_in_flight_and_holds_a_bounded_number_of_peers() {
        let mut reports = PathReports::default();
        for number in 0..=NODE_REPORT_PEERS_MAX {
            assert!(reports.push(host(number), ReportedPathState::Failed));
        }
        assert!(reports.push_restart(host(1)));
        let batch = reports.start().unwrap();
        assert_eq!((batch.paths.len(), batch.restarted), (NODE_REPORT_PEERS_MAX, vec![host(1)]));
        assert!(reports.start().is_none(), "one is in flight");
        reports.in_flight = false;
        assert_eq!(reports.start().map(|batch| batch.paths.len()), Some(1));
    }

    #[test]
    fn peers_beyond_the_bound_are_refused_and_known_ones_updated() {
        let mut reports = PathReports::default();
        for number in 0..PATHS_TO_REPORT_MAX {
            assert!(reports.push(host(number), ReportedPathState::Failed));
            assert!(reports.push_restart(host(number)));
        }
        assert!(!reports.push(host(PATHS_TO_REPORT_MAX), ReportedPathState::Failed));
        assert!(!reports.push_restart(host(PATHS_TO_REPORT_MAX)));
        assert!(reports.push(host(0), ReportedPathState::Recovered));
        assert!(reports.push(host(PATHS_TO_REPORT_MAX), ReportedPathState::Failed));
    }
}
