//! Every capacity of Adit on one page. Reaching a limit is counted or is an error.

use crate::{SessionIndex, UsageSlot};

/// Most packets in one burst: two DPDK bursts of 32, so that a column fits the L1 cache.
pub const BURST_MAX: usize = 64;

/// Packets that a worker requests from a port at once unless the configuration says otherwise.
pub const BURST_DEFAULT: usize = 32;

/// Most PFCP sessions in one process: an index must fit 24 bits of a lookup entry.
pub const SESSIONS_MAX: usize = 1 << 24;

/// Rules of each kind (PDR, FAR, QER, URR) in one PFCP session.
pub const RULES_PER_SESSION_MAX: usize = 256;

/// BARs in one PFCP session.
pub const BARS_PER_SESSION_MAX: usize = 64;

/// Traffic endpoints in one PFCP session.
pub const TRAFFIC_ENDPOINTS_PER_SESSION_MAX: usize = 64;

/// Most QERs with a bit rate in one PFCP session: one for each QoS flow that a PDU session may
/// have. Buckets beyond the second are in arrays that all sessions share, on huge pages, and a set
/// of 64 bits finds a session's queues.
pub const RATES_PER_SESSION_MAX: usize = 64;

/// URRs of one PFCP session that draw from credit pools: a worker adds up their counters for each
/// packet of a pool.
pub const POOL_MEMBERS_PER_SESSION_MAX: usize = 64;

/// QERs that one PDR may name: session rate, flow rate, and room for two more.
pub const QERS_PER_PDR_MAX: usize = 4;

/// URRs that one PDR may name.
pub const URRS_PER_PDR_MAX: usize = 8;

/// Returns how many usage slots the URRs of all sessions share in a process with `sessions_max`
/// PFCP sessions: two per session (64 octets each) and 64 more, and at least as many as one session
/// may need. Each slot behind them belongs to one session ([`own_usage_slot`]).
#[must_use]
pub const fn usage_slots_max(sessions_max: usize) -> usize {
    let slots = sessions_max.saturating_mul(2).saturating_add(64);
    let of_one_session = RULES_PER_SESSION_MAX + 1;
    if slots < of_one_session { of_one_session } else { slots }
}

/// Returns the usage slot of a session's own URR, whose counters are next to the session's fast
/// rules.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "three times SESSIONS_MAX fit 32 bits")]
pub const fn own_usage_slot(sessions_max: usize, SessionIndex(session): SessionIndex) -> UsageSlot {
    UsageSlot(usage_slots_max(sessions_max) as u32 + session)
}

const _: () = assert!(usage_slots_max(SESSIONS_MAX) + SESSIONS_MAX < 1 << 31);

/// Returns how many correlated rates (which sessions share by QER Correlation ID) a process with
/// `sessions_max` PFCP sessions may have: one for each session, including removed rates that
/// workers may still use.
#[must_use]
pub const fn correlated_rates_max(sessions_max: usize) -> usize {
    sessions_max
}

/// Length of the log of rate changes. A worker that is further behind reviews all its queues.
pub const RATE_CHANGES_LEN: usize = 1024;

/// Most shapes of each kind of compiled rule that are remembered, so that sessions share them:
/// enough for a few hundred kinds of sessions towards a few thousand gNBs.
pub const RULE_SHAPES_MAX: usize = 16_384;

/// Copies of a packet that one FAR may request: for one or two lawful interception functions, and
/// reserve.
pub const DUPLICATES_PER_FAR_MAX: usize = 4;

/// Longest URL to which HTTP requests are redirected: the whole response still fits the smallest
/// segment of TCP over IPv6 (1220 octets). Unit: octets.
pub const REDIRECT_URL_BYTES_MAX: usize = 1024;

/// SDF filters that one PDR may carry.
pub const SDF_FILTERS_PER_PDR_MAX: usize = 16;

/// Networks behind the UE (framed routes, further UE addresses) that one PDI or traffic endpoint
/// may name: workers search them one by one.
pub const UE_NETWORKS_PER_PDI_MAX: usize = 32;

/// Traffic endpoints that one PDI may name: workers have a rule for each.
pub const TRAFFIC_ENDPOINTS_PER_PDI_MAX: usize = 8;

/// Most framed routes of one address family in a process, however many PFCP sessions it may have.
pub const FRAMED_ROUTES_MAX: usize = 65_536;

/// Returns how many framed routes of one address family a process with `sessions_max` PFCP sessions
/// may have.
#[must_use]
pub const fn framed_routes_max(sessions_max: usize) -> usize {
    let of_sessions = sessions_max.saturating_mul(UE_NETWORKS_PER_PDI_MAX);
    if of_sessions < FRAMED_ROUTES_MAX { of_sessions } else { FRAMED_ROUTES_MAX }
}

/// Flow descriptions of one application whose PFDs a CP function provides: a change of one compiles
/// all of them anew.
pub const FLOW_DESCRIPTIONS_PER_APPLICATION_MAX: usize = 64;

/// Applications whose PFDs CP functions provide; an application counts once for each CP function
/// that provides it.
pub const PFD_APPLICATIONS_MAX: usize = 1024;

/// Longest Application ID in PFDs: usage reports contain it, and a message must have room for all
/// reports that it may carry. Unit: octets.
pub const PFD_APPLICATION_ID_BYTES_MAX: usize = 255;

/// Applications that one URR exempts from its quota action: workers match their filters one by one.
pub const EXEMPTED_APPLICATIONS_PER_URR_MAX: usize = 8;

/// Octets of identifiers and flow descriptions of all applications whose PFDs CP functions provide.
pub const PFD_BYTES_MAX: usize = 1 << 20;

/// Predefined rules in one configuration.
pub const PREDEFINED_RULES_MAX: usize = 1024;

/// Predefined rules active in one PFCP session; a rule counts once for each PDR that activates it,
/// and once for each traffic endpoint of that PDR.
pub const PREDEFINED_RULES_PER_SESSION_MAX: usize = 256;

/// Lookup keys (TEIDs, UE addresses, framed routes) of one PFCP session.
pub const KEYS_PER_SESSION_MAX: usize = 2 * RULES_PER_SESSION_MAX;

/// Pools of UE addresses with an identity, which are announced to CP functions: with names of 100
/// octets, an association message stays below half of the largest one that we send.
pub const ANNOUNCED_POOLS_MAX: usize = 64;

/// Most packets that one worker holds while they wait for the rates of their QERs.
pub const SHAPED_PKTS_MAX: usize = 1 << 18;

/// Most packets in one queue of those that wait for rates: at 500 Mb/s, 12 ms of the longest
/// packets.
pub const SHAPED_PKTS_PER_FLOW_MAX: u32 = 512;

/// Guaranteed packets of one worker that wait for room in the transmit queue of one port. Further
/// packets are dropped as `tx_queue_full`.
pub const TX_WAITING_PKTS_MAX: usize = 256;

/// Network slices with rates of their own: a fast rule has four bits for the slice of its session.
pub const SLICES_MAX: usize = 15;

/// PFCP associations at most.
pub const ASSOCIATIONS_MAX: usize = 256;

/// Octets of a PFCP message that Adit sends or accepts: the largest UDP payload over IPv4.
pub const PFCP_MESSAGE_BYTES_MAX: usize = 65_507;

/// Responses kept per peer, to answer retransmitted requests.
pub const RESPONSE_CACHE_PER_PEER_MAX: usize = 65_536;

/// Records that a restoration names because they cannot be restored; further such records are only
/// counted.
pub const REFUSED_RECORDS_NAMED_MAX: usize = 100;

/// Reasons by which a restoration groups the sessions that it does not restore but sets aside.
pub const SET_ASIDE_REASONS_MAX: usize = 16;

/// Sessions that a restoration names for each reason to set sessions aside.
pub const SET_ASIDE_NAMED_MAX: usize = 8;

/// Datagrams that wait until sessions are restored.
pub const RESTORATION_DATAGRAMS_MAX: usize = 4096;

/// Sessions, or other records, that are brought up to date for the store in one iteration of the
/// control thread.
pub const USAGE_RECORDS_PER_TURN_MAX: usize = 64;

/// Taps at a time: traces and captures together.
pub const TAPS_MAX: usize = 4;

/// Most items of one packet's record in a tap: the received and the sent frame of 9,000 octets, and
/// the events between them.
pub const TAP_RECORD_LEN: usize = 448;

/// Length of the ring of one worker's tap items. Items that do not fit are skipped and counted.
pub const TAP_RING_LEN: usize = 16 * 1024;

/// PDRs that one packet's record in a tap names.
pub const TAP_PDRS_MAX: usize = 32;

/// Packets that a worker reports to taps in one step when their wait ends (they leave or are
/// dropped).
pub const TAP_LATE_PACKETS_PER_STEP_MAX: usize = 16;

/// Answers to all peers that a store keeps, for requests retransmitted after a restart; a further
/// answer replaces the oldest.
pub const ANSWER_RECORDS_MAX: u64 = 65_536;

/// Expired answers to one peer that are removed in one iteration of the control thread: with all
/// peers together 8,192, which takes a millisecond.
pub const ANSWERS_FORGOTTEN_PER_STEP: usize = 32;

/// Requests of one peer that wait for publication.
pub const PENDING_PER_PEER_MAX: usize = 1024;

/// Session Report Requests in flight at most; further sessions wait for their turn.
pub const REPORTS_IN_FLIGHT_MAX: usize = 16_384;

/// Session Report Requests that are sent in one iteration of the control thread.
pub const REPORTS_PER_TURN_MAX: usize = 512;

/// Report items (a PDR with downlink data, a usage report, …) of one PFCP session that wait to be
/// sent: the last usage of all URRs that it may have, split by some monitoring times.
pub const REPORT_ITEMS_PER_SESSION_MAX: usize = 4 * RULES_PER_SESSION_MAX;

/// Report items of all PFCP sessions that wait to be sent.
pub const REPORT_ITEMS_MAX: usize = 262_144;

/// Report items in one Session Report Request: as usage reports of about 100 octets each they take
/// some three Ethernet frames. The largest message could carry far more.
pub const REPORT_ITEMS_PER_REQUEST_MAX: usize = 32;

/// Attempts to report the last usage of an ended session before the report is given up: with their
/// pauses about five minutes.
pub const REPORT_ATTEMPTS_OF_ENDED_SESSION_MAX: u32 = 10;

/// Usage reports in one response; further ones follow in Session Report Requests. With about 130
/// octets each they stay below 9000 octets.
pub const USAGE_REPORTS_PER_RESPONSE_MAX: usize = 64;

/// Events of one URR in one usage report, each with a time stamp of 8 octets; the last one triggers
/// the report. A response with [`USAGE_REPORTS_PER_RESPONSE_MAX`] such reports still fits the
/// largest message that we send.
pub const EVENTS_PER_REPORT_MAX: usize = 16;

/// Monitoring times of one URR: no measurement is split more often, whatever updates add.
pub const MONITORING_TIMES_PER_URR_MAX: usize = 8;

/// SMFs of a set to which one Session Report Request is redirected, one after another.
pub const REPORT_REDIRECTS_MAX: u8 = 4;

/// Sessions of one association that are being ended at a time before the association is released:
/// their deletion is on its way to the workers, or their last usage to the CP function.
pub const DRAIN_SESSIONS_MAX: usize = 1024;

/// Requests of all peers together that wait for publication; with as many waiting changes no PFDs
/// are accepted any more.
pub const PENDING_MAX: usize = 16_384;

/// PFCP sessions that jobs process in one iteration of the control thread: ending as many usual
/// sessions takes about two milliseconds.
pub const SESSIONS_PER_TURN_MAX: usize = 128;

/// Changes that may wait for the workers before jobs pause.
pub const BACKGROUND_CHANGES_MAX: usize = 2048;

/// Jobs of all peers together; a further PFCP request that would begin a job is refused.
pub const JOBS_MAX: usize = 64;

/// Timers of one kind that run in one iteration of the control thread.
pub const TIMERS_PER_TURN_MAX: usize = 128;

/// Limits the work on new and lost GTP-U peers in one iteration of the control thread: the peers,
/// times the measurements of path delay with which each is compared.
pub const PEER_VISITS_PER_TURN_MAX: usize = 1024;

/// Sessions for which an Error Indication is reported at once; a job reports it for further
/// sessions.
pub const ERROR_INDICATION_USERS_MAX: usize = 16;

/// Heartbeat Requests per second from the addresses without an association that share a bucket; the
/// standard's interval is 60 seconds. Also the requests per second of one peer whose sequence
/// numbers continue: forged requests in its name do not use them up.
pub const HEARTBEATS_PER_S_MAX: u32 = 10;

/// Association Setup Requests per second of one peer, or of the addresses without an association
/// that share a bucket: a peer needs one.
pub const SETUPS_PER_S_MAX: u32 = 10;

/// Heartbeat Requests per second in the name of one peer that are answered, whatever their sequence
/// numbers.
pub const PEER_HEARTBEATS_PER_S_MAX: u32 = 5_000;

/// Association setups that wait until it is known whether the association that has their Node ID is
/// alive.
pub const CONTESTED_SETUPS_MAX: usize = 16;

/// GTP-U peers whose state has yet to be reported to one CP function.
pub const PATHS_TO_REPORT_MAX: usize = 4096;

/// GTP-U peers in one Node Report Request: with IPv6 addresses 21 octets each, so that all fit a
/// frame.
pub const NODE_REPORT_PEERS_MAX: usize = 64;

/// Requests to monitor the QoS of GTP-U paths (GTP-U Path QoS Control Information) of one CP
/// function.
pub const PATH_CONTROLS_MAX: usize = 64;

/// Traffic classes in one GTP-U Path QoS Control Information.
pub const PATH_TRAFFIC_CLASSES_MAX: usize = 4;

/// GTP-U paths, by peer and traffic class, whose delay is measured: each takes one Echo Request per
/// second. Also the limit for the paths that are reported to one CP function.
pub const PATH_PROBES_MAX: usize = 4096;

/// GTP-U Path QoS Reports in one Node Report Request: with all traffic classes 250 octets each.
pub const NODE_REPORT_DELAYS_MAX: usize = 32;

/// Alternative addresses of one SMF.
pub const ALTERNATIVE_ADDRESSES_MAX: usize = 16;

/// Sets (FQ-CSIDs, groups) that one PFCP session is in, or that one request names.
pub const SETS_PER_SESSION_MAX: usize = 64;

/// Further errors that are looked for in one refused request.
pub const FURTHER_ERRORS_MAX: usize = 8;

/// Consecutive iterations of the control thread with an internal fault after which faults are no
/// longer contained: a fault that returns each time is not repaired by going on.
pub const TURNS_WITH_FAULT_MAX: u32 = 64;

/// Kinds of internal faults that the log distinguishes.
pub const FAULT_KINDS_MAX: usize = 64;

/// Pairs of data network and slice whose sessions are counted; sessions of further pairs are
/// counted together.
pub const SERVICES_COUNTED_MAX: usize = 1024;

/// Connections of the HTTP interface that are served at the same time: each has a buffer of some
/// tens of KiB, and a page of the dashboard keeps one open.
pub const API_CONNECTIONS_MAX: usize = 256;

/// Connections of one address, or of the admin socket: a browser has six per page, and a scraper a
/// few.
pub const API_CONNECTIONS_PER_PEER_MAX: usize = 64;

/// Further connections that get a refusal; beyond them connections are closed without a response.
pub const API_REFUSALS_MAX: usize = 64;

/// Octets of the request line and the header fields of an HTTP request.
pub const API_HEADER_BYTES_MAX: usize = 16 << 10;

/// Header fields of an HTTP request: browsers send about twenty.
pub const API_HEADERS_MAX: usize = 64;

/// Octets of the body of an HTTP request: acts have a few members.
pub const API_BODY_BYTES_MAX: usize = 16 << 10;

/// Time limit for each of: the TLS handshake, reading the header fields, reading the body, and each
/// write to the client. Unit: seconds.
pub const API_CLIENT_TIMEOUT_S: u64 = 10;

/// HTTP requests per second of one token, or of one address without a token: a dashboard sends
/// about five.
pub const API_REQUESTS_PER_S_MAX: u32 = 50;

/// HTTP requests of one token or address that may come at once: a page with all that it loads,
/// several times over.
pub const API_REQUESTS_BURST_MAX: u32 = 200;

/// Number of requests that a request with a wrong token counts as: two guesses per second in the
/// long run.
pub const API_WRONG_TOKEN_COST: u32 = 25;

/// Requests of the HTTP interface that wait for the control thread, which answers one per
/// iteration: the admin socket thus waits for milliseconds at most.
pub const API_WAITING_REQUESTS_MAX: usize = 8;

/// Rows of one answer of the HTTP interface: they bound the memory of the answer.
pub const API_ROWS_MAX: usize = 1000;

/// Pages of the control thread in one answer of the HTTP interface: a search that finds nothing in
/// them returns a cursor, at which the client continues.
pub const API_PAGES_MAX: usize = 64;

/// Tokens of the HTTP interface.
pub const API_TOKENS_MAX: usize = 256;

/// Shortest token: 128 bits as hexadecimal digits have 32 octets, as Base64 22. Unit: octets.
pub const API_TOKEN_BYTES_MIN: usize = 20;

/// Longest token. Unit: octets.
pub const API_TOKEN_BYTES_MAX: usize = 256;

/// Traces and captures over the network at a time: one of [`TAPS_MAX`] stays for the admin
/// socket. Each has a thread and some 100 KiB that its client has yet to read.
pub const API_TAPS_MAX: usize = TAPS_MAX - 1;

/// Clients of the live stream of the HTTP interface.
pub const API_LIVE_CLIENTS_MAX: usize = 64;

/// Session indices that one page of an answer to `adit show` visits: takes the control thread less
/// than a millisecond.
pub const SESSIONS_PER_PAGE_MAX: usize = 256;

/// Neighbors or GTP-U paths of one page of an answer to `adit show`.
pub const ROWS_PER_PAGE_MAX: usize = 1024;

/// Workers at most.
pub const WORKERS_MAX: usize = 64;

/// Ethdev ports at most: DPDK's own build-time limit in distribution packages.
pub const PORTS_MAX: usize = 32;

/// Logical interfaces (port and VLAN) at most.
pub const INTERFACES_MAX: usize = 32;

/// Next hops (gateways, gNBs, on-link hosts) at most.
pub const NEXT_HOPS_MAX: usize = 65_536;

/// Addresses of UE pools in the direct index, which then takes 64 MiB.
pub const UE_POOL_INDEX_MAX: usize = 1 << 24;

/// Routes in the table of one process.
pub const ROUTES_MAX: usize = 4096;

/// Routes that change one by one, of all route tables together, such as those of a routing daemon:
/// an Internet table of IPv4 and IPv6, and as many again.
pub const ROUTES_IN_TABLES_MAX: usize = 2_500_000;

/// Next hops of one route.
pub const ROUTE_HOPS_MAX: usize = 64;

/// Different sets of two or more next hops that routes name.
pub const HOP_GROUPS_MAX: usize = 4096;

/// Flows are spread over so many parts of a set of next hops, each of which has one of them.
pub const HOP_GROUP_SLOTS: usize = 256;

/// Packets that one worker holds while the link-layer address of their next hop is being resolved.
pub const NEIGHBOR_PENDING_PKTS_MAX: usize = 256;

/// Packets that one worker holds for one next hop while its link-layer address is being resolved.
pub const NEIGHBOR_PENDING_PER_HOP_MAX: usize = 16;

/// Packets that one worker holds for one PFCP session while a FAR buffers.
pub const BUFFER_PKTS_PER_SESSION_MAX: u16 = 1024;

/// Packets that one worker holds for one PFCP session if no BAR suggests a number.
pub const BUFFER_PKTS_DEFAULT: u16 = 64;

/// Packets that one worker holds while FARs buffer, whatever the configuration says.
pub const BUFFER_PKTS_MAX: usize = 1 << 20;

/// Datagrams that one worker holds fragments of: GTP-U packets that a node on the way fragmented.
pub const REASSEMBLY_DATAGRAMS_MAX: usize = 256;

/// Fragments that one worker holds, each in a buffer of its own.
pub const REASSEMBLY_FRAGMENTS_MAX: usize = 512;

/// Fragments of one datagram: the largest packet buffer holds 11 with the length of an Ethernet
/// frame.
pub const REASSEMBLY_FRAGMENTS_PER_DATAGRAM_MAX: usize = 16;

/// Slow-path packets that one worker handles after one burst; further ones are dropped and counted.
pub const SLOW_PER_STEP_MAX: usize = BURST_MAX;

/// Octets of the rings between one worker and the thread of the kernel twins, by class of frames:
/// N4, routing protocols, neighbors, all others.
pub const KERNEL_RING_BYTES: [usize; 4] = [512 << 10, 512 << 10, 128 << 10, 1 << 20];

/// Frames per second that one worker gives to the kernel twins, by class as above.
pub const KERNEL_PPS_MAX: [u64; 4] = [100_000, 20_000, 1000, 50_000];

/// Frames of a class that a worker gives to the kernel twins at once, beyond the rate.
pub const KERNEL_BURST_PKTS: [u64; 4] = [4096, 1024, 128, 1024];

/// Octets of the ring for frames of the kernel twins, to the worker that sends them.
pub const FROM_KERNEL_RING_BYTES: usize = 1 << 20;

/// Frames of the kernel twins that a worker sends in one step.
pub const FROM_KERNEL_PER_STEP_MAX: usize = 32;

/// Events that wait between one worker and the control thread.
pub const EVENT_RING_LEN: usize = 4096;

/// Commands that wait between the control thread and one worker.
pub const COMMAND_RING_LEN: usize = 1024;

/// Packets that wait between one worker and another that owns their sessions.
pub const HANDOFF_RING_LEN: usize = 1024;

/// GTP-U extension headers walked in one packet; a longer chain is malformed for us.
pub const GTPU_EXTENSIONS_MAX: usize = 8;

/// IPv6 extension headers walked in one packet.
pub const IPV6_EXTENSIONS_MAX: usize = 8;

/// Octets in front of an inner packet that downlink encapsulation may need:
/// Ethernet 14 + VLAN 4 + IPv6 40 + UDP 8 + GTP-U 12 + PDU Session Container 8 (with PPI).
pub const ENCAPSULATION_BYTES_MAX: usize = 14 + 4 + 40 + 8 + 12 + 8;

const _: () = assert!(ENCAPSULATION_BYTES_MAX <= 128, "DPDK's default headroom is 128 octets");
const _: () = assert!(NEIGHBOR_PENDING_PER_HOP_MAX <= NEIGHBOR_PENDING_PKTS_MAX);

/// Longest packed record of a session. A store adds the session's names and usage, and the PFCP
/// node's state of the session. Unit: octets.
pub const SESSION_RECORD_BYTES_MAX: usize = STORE_VALUE_BYTES_MAX / 4 * 3;

/// Longest record in the durable store: a session with as many rules as it may have and four
/// filters of usual texts in each PDR, and reserve. Unit: octets.
pub const STORE_VALUE_BYTES_MAX: usize = 1 << 18;

/// Octets of changes that the durable store takes as one group, and that it writes at once.
pub const STORE_GROUP_BYTES_MAX: usize = 1 << 20;

/// Octets that a store counts for a change in addition to its value.
pub const RECORD_OVERHEAD_BYTES: usize = 300;

/// Octets of changes that are handed to the store and not durable yet; beyond that the PFCP node
/// holds back further changes, only the latest of each record.
pub const RECORD_OCTETS_UNDER_WAY_MAX: usize = 16 << 20;

/// Answers about one session that wait to be recorded together; each further one replaces the
/// oldest, whose request is not retransmitted any more.
pub const SESSION_ANSWERS_NOTED_MAX: usize = 16;

/// Octets of changes that wait to become durable; beyond that the store refuses further ones.
pub const STORE_BACKLOG_BYTES_MAX: usize = 64 << 20;
