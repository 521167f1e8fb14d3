//! The counters of the node: messages by type, refusals by Cause, everything discarded.

use std::collections::BTreeMap;

use adit_pfcp::{Cause, IeIter, IeType, MessageType, PfcpDatagram};
use adit_types::Nanos;

use crate::durations::DurationHistogram;

macro_rules! scalars {
    ($( $(#[doc = $doc:literal])* $name:ident, )*) => {
        /// Counters with one value each.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct ScalarCounters {
            $( $(#[doc = $doc])* pub $name: u64, )*
        }

        impl ScalarCounters {
            fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [ $( (stringify!($name), self.$name), )* ].into_iter()
            }

            /// Returns name, value and explanation of every counter, in a fixed order.
            #[must_use]
            pub fn described(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![ $( (stringify!($name), self.$name, concat!($($doc),*).trim_ascii()), )* ]
            }
        }
    };
}

scalars! {
    /// Datagrams received.
    datagrams_received,
    /// Messages (or rests of datagrams) discarded: truncated header, or wrong length in a message
    /// that is not answered.
    discarded_malformed_header,
    /// Session related messages discarded: no SEID field in the header.
    discarded_seid_absent,
    /// Messages discarded: a Version Not Supported Response of a version that we do not speak.
    discarded_version,
    /// Messages discarded: a type that we do not know or do not serve.
    discarded_unknown_type,
    /// Responses discarded: no request of ours with this sequence number awaits one from this peer.
    discarded_unmatched_response,
    /// Responses to requests of ours discarded: undecodable.
    discarded_malformed_response,
    /// Requests discarded: undecodable, and their response has no Cause to report that.
    discarded_malformed_request,
    /// Requests refused: too many requests, of this peer or of all, or too many changes by PFDs
    /// wait for publication.
    refused_pending_full,
    /// Datagrams discarded: their source is not in the allow-list.
    discarded_peer_not_allowed,
    /// Requests discarded: their peer exceeds its rate.
    discarded_over_rate,
    /// Requests refused: the store fails, so what they change could not be kept.
    refused_store_fails,
    /// Responses discarded: too many messages wait for the store.
    discarded_store_waits,
    /// Sessions removed again: the store took so long that the CP function gave up their
    /// establishment.
    establishments_taken_back,
    /// Requests refused: the store is full, and what they change needs more room.
    refused_store_full,
    /// Datagrams discarded while sessions were restored: too many waited.
    discarded_restoring,
    /// Sessions restored from the store.
    sessions_restored,
    /// Sessions of the store that could not be restored.
    sessions_not_restored,
    /// Establishments refused: the association has the maximum number of sessions.
    refused_sessions_per_association_full,
    /// Establishments refused: a worker stands still.
    refused_worker_stands_still,
    /// Establishments refused: the operator drains the node.
    refused_draining,
    /// States of user plane paths not reported: too many waited.
    node_reports_lost_queue_full,
    /// Node reports without a response after N1 retransmissions. They are sent again.
    node_reports_lost_no_response,
    /// Node reports that the peer refused. They are sent again.
    node_reports_refused,
    /// Association updates of ours that the peer refused.
    association_updates_refused,
    /// Reports of how full the pools of UE addresses are.
    pool_usage_reports,
    /// Sessions whose control moved within their SMF set.
    sessions_moved,
    /// Sessions kept when their association was set up again: the peer had not restarted, or
    /// requested it.
    sessions_retained,
    /// Peers that claimed an SMF set, or alternative addresses, that `smf_sets` does not list for
    /// them.
    smf_set_claims_refused,
    /// Refused session requests whose errors were not logged, because others were logged just
    /// before.
    refusals_not_told,
    /// Messages whose handling ended in a fault of ours.
    faults,
    /// Messages without an answer because their handling ended in a fault of ours.
    discarded_after_fault,
    /// Sessions removed because a fault of ours left their change unfinished.
    sessions_removed_after_fault,
    /// Heartbeats and setups discarded because their Recovery Time Stamp is older than the known
    /// one, as in delayed messages.
    stale_recovery_time_stamps,
    /// Answers that could not be encoded, because they exceed the maximum length of a message.
    responses_too_long,
    /// Retransmitted requests answered again with the same bytes.
    retransmissions_replayed,
    /// Retransmitted requests discarded, because the answer still waits for publication.
    retransmissions_in_progress,
    /// Answers kept for retransmissions that were dropped early, to make room for newer ones.
    response_cache_evicted,
    /// Requests of ours sent again after T1.
    own_retransmissions,
    /// Requests of ours without a response after N1 retransmissions.
    own_requests_failed,
    /// Association setups refused: the Node ID has an association from another address.
    refused_node_id_of_other_address,
    /// Peers (or configured peers) refused, because too many associations exist.
    refused_associations_full,
    /// Associations that were established.
    associations_up,
    /// Associations that ended, for any reason.
    associations_down,
    /// Peers that did not answer heartbeats any more and whose sessions stayed.
    peers_silent,
    /// Times that our Recovery Time Stamp moved towards a peer whose sessions ended without its
    /// knowledge.
    recovery_time_stamps_moved,
    /// Peers that sent a new Recovery Time Stamp.
    peers_restarted,
    /// PFD Management Requests that were accepted.
    pfd_requests_accepted,
    /// Sessions established.
    sessions_established,
    /// Session modifications that were accepted.
    sessions_modified,
    /// Sessions deleted on request.
    sessions_deleted,
    /// Sessions removed because their association ended or was set up again, or the peer restarted.
    sessions_removed_with_association,
    /// Sessions removed because the CP function answered a report with Cause 65.
    sessions_removed_unknown_to_peer,
    /// Sessions replaced by new ones of the same CP function, or SMF set, with the same TEID or UE
    /// address.
    sessions_replaced,
    /// Sessions that the operator ended.
    sessions_ended_by_operator,
    /// Report items lost: too many wait, of one session or in total.
    reports_lost_queue_full,
    /// Report items without a response to their request after N1 retransmissions. Usage is sent
    /// again; all else is reported with its next event.
    reports_lost_no_response,
    /// Usage reports lost because their association ended before they were acknowledged, or with a
    /// session that ended by our decision.
    usage_reports_lost_with_association,
    /// Sessions whose association was released before they had reported their last usage.
    sessions_not_drained,
    /// Session Report Requests sent again to another SMF of the set, to which the response
    /// redirected.
    reports_redirected,
    /// Report items about sessions that were gone.
    reports_of_gone_sessions,
    /// Reports of downlink data that were not sent: reported already, or not requested any more.
    notifications_spared,
    /// Usage reports of sessions that are gone, dropped after the CP function has refused them, or
    /// not answered, too often.
    usage_reports_given_up,
    /// Session Report Requests that the CP function did not accept. Usage is sent again; all else
    /// is reported with its next event.
    reports_refused,
    /// Parts of Session Report Responses that could not be applied: an unknown BAR, a CP F-SEID of
    /// zero, or a tunnel towards the CP function that no FAR uses.
    report_responses_not_applied,
    /// End Markers handed to a worker.
    end_markers_commanded,
    /// Error Indications about tunnels that no session sends into.
    error_indications_of_no_session,
    /// GTP-U paths that failed.
    path_failures,
    /// GTP-U paths that recovered.
    path_recoveries,
    /// Messages of routers that packets into a tunnel exceed an MTU, about tunnels of sessions.
    path_mtus_told,
    /// Messages of routers that packets exceed an MTU, about tunnels that no session sends into.
    path_mtus_disbelieved,
    /// DL Buffering Durations that ended with buffered data discarded.
    buffering_durations_ended,
    /// Sessions that ended because this node stops and its peer had not released them in time.
    sessions_given_up,
    /// Session Set Deletion Requests that the peer refused.
    session_set_deletions_refused,
    /// Restarts of GTP-U peers.
    gtpu_peers_restarted,
    /// GTP-U paths whose requested delay is not measured, because too many paths are.
    paths_not_measured,
}

/// Message types that have named counters of received and sent messages.
const COUNTED_TYPES: [(MessageType, &str); 25] = [
    (MessageType::HEARTBEAT_REQUEST, "heartbeat_request"),
    (MessageType::HEARTBEAT_RESPONSE, "heartbeat_response"),
    (MessageType::PFD_MANAGEMENT_REQUEST, "pfd_management_request"),
    (MessageType::PFD_MANAGEMENT_RESPONSE, "pfd_management_response"),
    (MessageType::ASSOCIATION_SETUP_REQUEST, "association_setup_request"),
    (MessageType::ASSOCIATION_SETUP_RESPONSE, "association_setup_response"),
    (MessageType::ASSOCIATION_UPDATE_REQUEST, "association_update_request"),
    (MessageType::ASSOCIATION_UPDATE_RESPONSE, "association_update_response"),
    (MessageType::ASSOCIATION_RELEASE_REQUEST, "association_release_request"),
    (MessageType::ASSOCIATION_RELEASE_RESPONSE, "association_release_response"),
    (MessageType::VERSION_NOT_SUPPORTED_RESPONSE, "version_not_supported_response"),
    (MessageType::NODE_REPORT_REQUEST, "node_report_request"),
    (MessageType::NODE_REPORT_RESPONSE, "node_report_response"),
    (MessageType::SESSION_SET_DELETION_REQUEST, "session_set_deletion_request"),
    (MessageType::SESSION_SET_DELETION_RESPONSE, "session_set_deletion_response"),
    (MessageType::SESSION_SET_MODIFICATION_REQUEST, "session_set_modification_request"),
    (MessageType::SESSION_SET_MODIFICATION_RESPONSE, "session_set_modification_response"),
    (MessageType::SESSION_ESTABLISHMENT_REQUEST, "session_establishment_request"),
    (MessageType::SESSION_ESTABLISHMENT_RESPONSE, "session_establishment_response"),
    (MessageType::SESSION_MODIFICATION_REQUEST, "session_modification_request"),
    (MessageType::SESSION_MODIFICATION_RESPONSE, "session_modification_response"),
    (MessageType::SESSION_DELETION_REQUEST, "session_deletion_request"),
    (MessageType::SESSION_DELETION_RESPONSE, "session_deletion_response"),
    (MessageType::SESSION_REPORT_REQUEST, "session_report_request"),
    (MessageType::SESSION_REPORT_RESPONSE, "session_report_response"),
];

/// All counters of the node.
#[derive(Debug, Clone)]
pub struct N4Counters {
    /// Counters with one value each.
    pub scalars: ScalarCounters,
    received: [u64; COUNTED_TYPES.len()],
    sent: [u64; COUNTED_TYPES.len()],
    refused: [u64; 256],
    answers: BTreeMap<AnswerKind, u64>,
    durations: BTreeMap<u8, DurationHistogram>,
}

/// A request's type, and the Cause in the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct AnswerKind {
    request: u8,
    cause: Option<u8>,
}

impl Default for N4Counters {
    fn default() -> Self {
        Self {
            scalars: ScalarCounters::default(),
            received: [0; COUNTED_TYPES.len()],
            sent: [0; COUNTED_TYPES.len()],
            refused: [0; 256],
            answers: BTreeMap::new(),
            durations: BTreeMap::new(),
        }
    }
}

fn increment(values: &mut [u64; COUNTED_TYPES.len()], message_type: MessageType) {
    if let Some(row) = COUNTED_TYPES.iter().position(|&(row, _)| row == message_type) {
        values[row] += 1;
    }
}

fn value(values: &[u64; COUNTED_TYPES.len()], message_type: MessageType) -> u64 {
    COUNTED_TYPES.iter().position(|&(row, _)| row == message_type).map_or(0, |row| values[row])
}

impl N4Counters {
    pub(crate) fn count_received(&mut self, message_type: MessageType) {
        increment(&mut self.received, message_type);
    }

    pub(crate) fn count_sent(&mut self, message_type: MessageType) {
        increment(&mut self.sent, message_type);
    }

    pub(crate) fn count_refused(&mut self, cause: Cause) {
        self.refused[usize::from(cause.code())] += 1;
    }

    /// Counts the first response to a request, by its Cause.
    pub(crate) fn count_answer(&mut self, request: MessageType, response: &[u8]) {
        let body = PfcpDatagram::new(response).next().and_then(Result::ok);
        let mut ies = IeIter::new(body.map_or(&[], |message| message.body)).flatten();
        let cause = ies.find(|ie| ie.ie_type == IeType::CAUSE);
        let cause = cause.and_then(|ie| ie.value.first().copied());
        *self.answers.entry(AnswerKind { request: request.0, cause }).or_default() += 1;
    }

    pub(crate) fn add_duration(&mut self, request: MessageType, duration: Nanos) {
        self.durations.entry(request.0).or_default().add(duration, 1);
    }

    /// Returns for each message type its name and how many messages were received and sent,
    /// including retransmissions and replayed answers.
    pub fn messages(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let rows = COUNTED_TYPES.iter().zip(self.received.iter().zip(&self.sent));
        rows.map(|((_, name), (received, sent))| (*name, *received, *sent))
    }

    /// Returns how many first responses there were for each request type and Cause; `None` for a
    /// response without a Cause.
    pub fn answers(&self) -> impl Iterator<Item = (&'static str, Option<Cause>, u64)> {
        let answers = self.answers.iter();
        answers
            .map(|(kind, count)| (name_of(kind.request), kind.cause.map(Cause::from_code), *count))
    }

    /// Returns the time from a request to its first response, by request type.
    pub fn durations(&self) -> impl Iterator<Item = (&'static str, &DurationHistogram)> {
        self.durations.iter().map(|(request, durations)| (name_of(*request), durations))
    }

    /// Returns how many messages of a type were received with an intact header, including
    /// retransmissions.
    #[must_use]
    pub fn received(&self, message_type: MessageType) -> u64 {
        value(&self.received, message_type)
    }

    /// Returns how many messages of a type were sent, including retransmissions and replayed
    /// answers.
    #[must_use]
    pub fn sent(&self, message_type: MessageType) -> u64 {
        value(&self.sent, message_type)
    }

    /// Returns how many requests were refused with this Cause.
    #[must_use]
    pub fn refused(&self, cause: Cause) -> u64 {
        self.refused[usize::from(cause.code())]
    }

    /// Returns all counters by name, in a fixed order, without Causes that never occurred.
    #[must_use]
    pub fn list(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        for (row, (_, name)) in COUNTED_TYPES.iter().enumerate() {
            all.push((format!("received_{name}"), self.received[row]));
            all.push((format!("sent_{name}"), self.sent[row]));
        }
        all.extend(self.scalars.list().map(|(name, value)| (name.to_owned(), value)));
        let refused = self.refused.iter().enumerate().filter(|&(_, &count)| count > 0);
        all.extend(refused.map(|(code, &count)| (format!("refused_cause_{code}"), count)));
        all
    }
}

fn name_of(message_type: u8) -> &'static str {
    let row = COUNTED_TYPES.iter().find(|(row, _)| row.0 == message_type);
    row.map_or("other", |(_, name)| name)
}

/// Converts a count to `u64`, the type of counters. Saturates.
pub(crate) fn as_count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_names_every_counter_once() {
        let mut counters = N4Counters::default();
        counters.count_received(MessageType::HEARTBEAT_REQUEST);
        counters.count_sent(MessageType::HEARTBEAT_RESPONSE);
        counters.count_refused(Cause::NoEstablishedAssociation);
        counters.scalars.associations_up = 3;
        let list = counters.list();
        let get = |name: &str| list.iter().find(|(n, _)| n == name).map(|&(_, value)| value);
        assert_eq!(get("received_heartbeat_request"), Some(1));
        assert_eq!(get("sent_heartbeat_response"), Some(1));
        assert_eq!(get("associations_up"), Some(3));
        assert_eq!(get("refused_cause_72"), Some(1));
        assert_eq!(get("refused_cause_73"), None);
        let described = counters.scalars.described();
        assert!(described.contains(&("associations_up", 3, "Associations that were established.")));
        let text = |name: &str| described.iter().find(|row| row.0 == name).map(|row| row.2);
        assert!(text("discarded_malformed_header").is_some_and(|text| !text.contains("  ")));
        let mut names: Vec<_> = list.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), list.len());
    }
}
