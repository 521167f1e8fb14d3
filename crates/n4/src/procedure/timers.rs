//! The work that each iteration of the control thread does.

use adit_pfcp::MessageType;
use adit_types::Nanos;
use adit_types::limits::TIMERS_PER_TURN_MAX;

use crate::containment::FaultPoint;
use crate::node::Node;
use crate::transaction::{DueRequest, RequestPurpose};
use crate::transmit::Transmit;

/// A kind of work: its name in the log of a fault, and the function that does it.
type TimerActivity = (&'static str, fn(&mut Node, Nanos));

impl Node {
    /// Runs work that is due by `now`: retransmissions, heartbeats, setups, expiry.
    ///
    /// Does a bounded part; the rest is due at once, so that requests of other peers are processed
    /// in between.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.count_faulty_turns();
        if self.is_following() {
            return self.advance_following(now);
        }
        if self.restoration.is_some() {
            return self.handle_timeout_of_restoration(now);
        }
        self.begin_turn(now);
        let activities: [TimerActivity; 17] = [
            ("retransmissions", Self::handle_due_requests),
            ("usage reports", Self::report_due_usage),
            ("releases", Self::prepare_due_releases),
            ("wishes for releases", Self::report_late_releases),
            ("last usage reports", Self::advance_drains),
            ("contested Node IDs", Self::decide_setups_without_holder),
            ("heartbeats", Self::send_due_heartbeats),
            ("silent peers", Self::end_silent_associations),
            ("session reports", Self::send_due_reports),
            ("node reports", Self::send_node_reports),
            ("notifications of downlink data", Self::send_due_notifications),
            ("GTP-U paths", Self::watch_paths),
            ("delays of GTP-U paths", Self::measure_paths),
            ("buffering durations", Self::end_due_buffering),
            ("usage of UE address pools", Self::report_pool_usage),
            ("association setups", Self::request_due_associations),
            ("records of usage", Self::record_usage),
        ];
        for (name, activity) in activities {
            self.run_contained(name, |node| activity(node, now));
        }
        // Continues jobs that were started just now, within the allowance of this iteration.
        self.advance_jobs(now);
        self.peers.forget_idle(now, self.config.retransmission().span());
    }

    fn prepare_due_releases(&mut self, now: Nanos) {
        if self.shutdown.prepare_releases_at.take_if(|at| *at <= now).is_some() {
            self.prepare_releases(now);
        }
    }

    fn request_due_associations(&mut self, now: Nanos) {
        while !self.shutdown.is_stopping
            && let Some((position, to)) = self.peers.setups.poll_due(now)
        {
            // The former sessions of the peer must have ended first.
            match self.backlog.has_job_at(to.ip()) {
                true => self.peers.setups.postpone(now, position),
                false => self.request_association(now, position, to),
            }
        }
    }

    /// Does the work that continues while records are restored, which shows peers that the node is
    /// alive.
    fn handle_timeout_of_restoration(&mut self, now: Nanos) {
        let activities: [TimerActivity; 2] = [
            ("retransmissions", Self::handle_due_requests),
            ("heartbeats", Self::send_due_heartbeats),
        ];
        for (name, activity) in activities {
            self.run_contained(name, |node| activity(node, now));
        }
    }

    /// Retransmits requests of ours that were not answered, or gives them up.
    fn handle_due_requests(&mut self, now: Nanos) {
        self.fail_if_injected(FaultPoint::Timer);
        for _ in 0..TIMERS_PER_TURN_MAX {
            let records = &self.sessions.records;
            match self.transactions.poll_due(now, |group| records.is_awaited(group)) {
                None => return,
                Some(DueRequest::Held) => {}
                // A held request is dropped when its session ends or moves.
                Some(DueRequest::Retransmit {
                    purpose: RequestPurpose::SessionReport { owner, .. },
                    ..
                }) if self.peers.association_of(owner).is_none() => {}
                Some(DueRequest::Retransmit { to, bytes, .. }) => {
                    self.counters.scalars.own_retransmissions += 1;
                    if let Some(&message_type) = bytes.get(1) {
                        self.counters.count_sent(MessageType(message_type));
                    }
                    // The first copy was sent after the store had the changes that it reports.
                    self.transmits.push_back(Transmit { to, bytes, answers: None });
                }
                Some(DueRequest::Failed(purpose)) => {
                    self.counters.scalars.own_requests_failed += 1;
                    self.handle_failed_request(now, purpose);
                }
            }
        }
    }
}
