//! Reports about user plane paths that wait to be sent to a CP function.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use adit_types::Nanos;
use adit_types::limits::{NODE_REPORT_DELAYS_MAX, NODE_REPORT_PEERS_MAX, PATHS_TO_REPORT_MAX};

use crate::path_qos::PathDelays;
use crate::report_pause::ReportPause;

/// The state of a path that a report announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportedPathState {
    Failed,
    Recovered,
}

/// A path state that waits to be reported.
#[derive(Debug, Clone, Copy)]
struct WaitingState {
    path: ReportedPathState,
    /// True if a report on this path was sent and not accepted: the CP function may have an earlier
    /// state.
    was_sent: bool,
}

/// The reports that wait for one CP function.
#[derive(Debug, Default)]
pub(crate) struct PathReports {
    waiting: BTreeMap<IpAddr, WaitingState>,
    restarted: BTreeSet<IpAddr>,
    delays: VecDeque<PathDelays>,
    /// The reports in the request that awaits its response.
    sending: Option<NodeReportBatch>,
    pause: ReportPause,
}

/// The reports that one request contains.
#[derive(Debug, Clone)]
pub(crate) struct NodeReportBatch {
    pub paths: Vec<(IpAddr, ReportedPathState)>,
    pub restarted: Vec<IpAddr>,
    pub delays: Vec<PathDelays>,
}

impl PathReports {
    /// Queues a path state; false if there is no room.
    pub(crate) fn push(&mut self, gtpu_peer: IpAddr, path: ReportedPathState) -> bool {
        match self.waiting.get(&gtpu_peer) {
            Some(WaitingState { path: ReportedPathState::Failed, was_sent: false })
                if path == ReportedPathState::Recovered =>
            {
                self.waiting.remove(&gtpu_peer);
                true
            }
            None if self.waiting.len() >= PATHS_TO_REPORT_MAX => false,
            known => {
                let was_sent = known.is_some_and(|known| known.was_sent);
                self.waiting.insert(gtpu_peer, WaitingState { path, was_sent });
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

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.restarted.is_empty() && self.delays.is_empty()
    }

    /// Returns the reports for the next request, which counts as sent from now on.
    pub(crate) fn start(&mut self, now: Nanos) -> Option<NodeReportBatch> {
        if self.sending.is_some() || self.is_idle() || now < self.pause.until() {
            return None;
        }
        let paths = std::iter::from_fn(|| self.waiting.pop_first()).take(NODE_REPORT_PEERS_MAX);
        let paths = paths.map(|(peer, waiting)| (peer, waiting.path)).collect();
        let restarted = std::iter::from_fn(|| self.restarted.pop_first());
        let restarted = restarted.take(NODE_REPORT_PEERS_MAX).collect();
        let count = self.delays.len().min(NODE_REPORT_DELAYS_MAX);
        let delays = self.delays.drain(..count).collect();
        self.sending = Some(NodeReportBatch { paths, restarted, delays });
        self.sending.clone()
    }

    /// Returns when reports may be sent that wait for the end of a pause.
    pub(crate) fn next_start(&self) -> Option<Nanos> {
        (self.sending.is_none() && !self.is_idle()).then(|| self.pause.until())
    }

    /// Notes that the CP function has accepted the reports that were sent.
    pub(crate) fn on_delivered(&mut self) {
        self.sending = None;
        self.pause = ReportPause::default();
    }

    /// Queues the reports that were sent again, unless they are out of date: the CP function
    /// refused them or did not answer. Returns how many reports found no room.
    pub(crate) fn on_not_delivered(&mut self, now: Nanos) -> usize {
        let Some(NodeReportBatch { paths, restarted, delays }) = self.sending.take() else {
            return 0;
        };
        self.pause.lengthen(now);
        let mut lost = 0;
        for (gtpu_peer, path) in paths {
            let has_room = self.waiting.len() < PATHS_TO_REPORT_MAX;
            match self.waiting.get_mut(&gtpu_peer) {
                Some(later) => later.was_sent = true,
                None if has_room => {
                    self.waiting.insert(gtpu_peer, WaitingState { path, was_sent: true });
                }
                None => lost += 1,
            }
        }
        lost += restarted.into_iter().filter(|&peer| !self.push_restart(peer)).count();
        for delays in delays.into_iter().rev() {
            match self.delays.len() < PATHS_TO_REPORT_MAX {
                true => self.delays.push_front(delays),
                false => lost += 1,
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(0);

    fn host(number: usize) -> IpAddr {
        IpAddr::V4(u32::try_from(number).unwrap().into())
    }

    #[test]
    fn recovery_cancels_a_failure_that_was_not_reported() {
        let mut reports = PathReports::default();
        assert!(reports.push(host(1), ReportedPathState::Failed));
        assert!(reports.push(host(1), ReportedPathState::Recovered));
        assert!(reports.start(NOW).is_none());
        assert!(reports.push(host(1), ReportedPathState::Recovered));
        let batch = reports.start(NOW).unwrap();
        assert_eq!(batch.paths, [(host(1), ReportedPathState::Recovered)]);
    }

    #[test]
    fn one_request_is_in_flight_and_holds_a_bounded_number_of_peers() {
        let mut reports = PathReports::default();
        for number in 0..=NODE_REPORT_PEERS_MAX {
            assert!(reports.push(host(number), ReportedPathState::Failed));
        }
        assert!(reports.push_restart(host(1)));
        let batch = reports.start(NOW).unwrap();
        assert_eq!((batch.paths.len(), batch.restarted), (NODE_REPORT_PEERS_MAX, vec![host(1)]));
        assert!(reports.start(NOW).is_none(), "one is in flight");
        reports.on_delivered();
        assert_eq!(reports.start(NOW).map(|batch| batch.paths.len()), Some(1));
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

    #[test]
    fn state_that_was_not_accepted_waits_for_the_end_of_a_pause_and_gives_way_to_a_later_one() {
        let mut reports = PathReports::default();
        for number in 1..=2 {
            reports.push(host(number), ReportedPathState::Failed);
        }
        reports.push_restart(host(3));
        reports.start(NOW);
        // The CP function may have received the report that awaits its response.
        assert!(reports.push(host(1), ReportedPathState::Recovered));
        assert_eq!(reports.on_not_delivered(NOW), 0);
        assert!(reports.push(host(2), ReportedPathState::Recovered), "a failure that was sent");
        let due = reports.next_start().unwrap();
        assert!(reports.start(Nanos(due.0 - 1)).is_none());
        let batch = reports.start(due).unwrap();
        let recovered = [1, 2].map(|number| (host(number), ReportedPathState::Recovered));
        assert_eq!((&batch.paths[..], &batch.restarted[..]), (&recovered[..], &[host(3)][..]));
        reports.on_delivered();
        assert_eq!(reports.next_start(), None);
    }
}
