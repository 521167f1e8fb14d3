//! Schemas of answers that are made of parts.
#![allow(
    dead_code,
    reason = "a description: rows and members are JSON when they reach this module"
)]

use std::collections::BTreeMap;

use utoipa::ToSchema;

use crate::config::KeyRefusal;
use crate::snapshot::{SessionRow, UnreadyReason};
use crate::tap_client::text::PacketWords;

/// A session with its rules and its current use.
#[derive(ToSchema)]
pub(super) struct SessionNow {
    session: SessionRow,
    rates: Option<MeasuredRates>,
}

/// The use of a session per second, over the time of the measurement.
#[derive(Debug, serde::Serialize, ToSchema)]
pub(super) struct MeasuredRates {
    pub uplink_bps: u64,
    pub uplink_pps: u64,
    pub downlink_bps: u64,
    pub downlink_pps: u64,
    /// How long it was measured.
    pub measured_ms: u64,
}

/// The result of an act.
#[derive(ToSchema)]
pub(super) struct ActOutcome {
    /// The result, in words.
    outcome: String,
}

/// Why this adit is not ready; a problem document with the members of [`crate::snapshot::HealthDocument`].
#[derive(ToSchema)]
pub(super) struct UnreadyProblem {
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    ready: bool,
    reasons: Vec<UnreadyReason>,
}

/// Why a configuration is refused; a problem document with the keys.
#[derive(ToSchema)]
pub(super) struct ReloadProblem {
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    #[schema(required = false)]
    refused: Vec<KeyRefusal>,
}

/// A line of a trace: the first, one of a packet, or the last.
#[derive(serde::Serialize, ToSchema)]
#[serde(untagged)]
#[schema(example = json!({ "packet": 1, "time_unix_ns": 1_795_645_615_170_853_067_u64, "worker": 0, "from": "port",
    "port": "core", "interface": "n6", "len": 98, "headers": ["Ethernet 0e:4d:8a:80:34:e6 > ca:36:1d:ff:19:ac, IPv4 \
    10.0.6.1 > 10.45.0.77, TTL 64, ICMP type 8 code 0"], "octets": "ca36…", "stages_ns": { "parse": 550, "lookup": 900 },
    "outcome": { "kind": "dropped", "reason": "ue_unknown", "text": "No PFCP session owns the UE address." } }))]
pub(super) enum TraceLine {
    Head(TraceHeadLine),
    Packet(Box<TracedPacket>),
    End(TraceEndLine),
}

/// The head of a trace, before the first packet.
#[derive(serde::Serialize, ToSchema)]
pub(super) struct TraceHeadLine {
    tap: TraceHead,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TraceHead {
    /// Names of the interfaces.
    interfaces: Vec<String>,
    /// Names of the ports.
    ports: Vec<String>,
    /// Notes for the client.
    notes: Vec<String>,
}

/// How a trace ended.
#[derive(serde::Serialize, ToSchema)]
pub(super) struct TraceEndLine {
    end: TraceEnd,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TraceEnd {
    packets: u64,
    /// Packets that nobody looked at, because workers or the client had no room.
    skipped: u64,
    /// "packets", "duration", "ended" or "shutdown".
    why: String,
}

/// The stages and rules that a packet met. Members of stages that it did not reach are absent.
#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedPacket {
    /// Its number in the trace.
    packet: u64,
    /// Unit: nanoseconds since 1970-01-01.
    time_unix_ns: u64,
    worker: u16,
    /// "port", "another thread", "the worker itself" or "a queue of the worker".
    from: String,
    /// Where it arrived; null if that is unknown by now.
    port: Option<String>,
    interface: Option<String>,
    /// Unit: octets.
    len: u32,
    /// Its wait, if it left a queue or was dropped there: its session, rules and times were those
    /// of its arrival.
    #[schema(required = false)]
    waited: TracedWait,
    /// The link and outer headers, then those in a tunnel.
    #[schema(required = false)]
    headers: Vec<String>,
    /// The headers as hexadecimal digits.
    #[schema(required = false)]
    octets: String,
    /// Time of each stage.
    #[schema(required = false)]
    stages_ns: BTreeMap<String, u64>,
    #[schema(required = false)]
    session: TracedSession,
    /// PDRs in the order of comparison.
    #[schema(required = false)]
    pdrs_tried: Vec<TriedPdr>,
    /// The PDR that matched.
    #[schema(required = false)]
    pdr: u16,
    /// "uplink" or "downlink".
    #[schema(required = false)]
    direction: String,
    #[schema(required = false)]
    qers: Vec<TracedQer>,
    #[schema(required = false)]
    urrs: Vec<TracedUrr>,
    #[schema(required = false)]
    far: TracedFar,
    #[schema(required = false)]
    egress: TracedEgress,
    /// Frames that left.
    #[schema(required = false)]
    sent: Vec<TracedFrame>,
    outcome: TracedOutcome,
    /// The same in words, if requested.
    #[schema(required = false)]
    words: PacketWords,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedWait {
    /// The reason.
    r#for: String,
    /// How long.
    ns: u64,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedSession {
    up_seid: String,
    /// The key that led to it.
    by: String,
    /// PDRs of the direction.
    pdrs: u64,
    /// PDRs whose filters do not match are not compared one by one.
    compiled_filters: bool,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TriedPdr {
    pdr: u16,
    precedence: u32,
    matched: bool,
    /// Why not.
    why: Option<String>,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedQer {
    qer: u32,
    /// "open" or "closed".
    gate: String,
    /// "within" or "used up"; null without a maximum bit rate.
    rate: Option<String>,
    /// It limits packets per time.
    packet_rate: bool,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedUrr {
    urr: u32,
    /// 0: it did not count the packet.
    counted_bytes: u64,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedFar {
    far: u32,
    action: Vec<String>,
    destination: String,
    outer_header: Option<String>,
    waits_for_rate: bool,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedEgress {
    interface: String,
    next_hop: String,
    /// Null while it is unresolved.
    mac: Option<String>,
    /// It goes to another UE instead.
    switched_locally: bool,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedFrame {
    port: String,
    interface: String,
    /// Unit: octets.
    len: u32,
    #[schema(required = false)]
    headers: Vec<String>,
    #[schema(required = false)]
    octets: String,
}

#[derive(serde::Serialize, ToSchema)]
pub(super) struct TracedOutcome {
    /// "sent", "dropped", "consumed", "answered", "buffered", "queued", "waits", "switched" or "handed_off".
    kind: String,
    /// Why, for a packet that was dropped or consumed.
    reason: Option<String>,
    text: String,
}
