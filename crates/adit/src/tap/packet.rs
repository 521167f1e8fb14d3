//! The lines of a trace: its head, its packets, and its end.

use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Width of the column of names in the output of `adit trace`.
const NAME_WIDTH: usize = 11;

/// A line of a trace: the first, one of a packet, or the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(example = json!({ "packet": 1, "time_unix_ns": 1_795_645_615_170_853_067_u64, "worker": 0, "from": "port",
    "port": "core", "interface": "n6", "len": 98, "headers": ["Ethernet 0e:4d:8a:80:34:e6 > ca:36:1d:ff:19:ac, IPv4 \
    10.0.6.1 > 10.45.0.77, TTL 64, ICMP type 8 code 0"], "octets": "ca36…", "stages_ns": { "parse": 550, "lookup": 900 },
    "outcome": { "kind": "dropped", "reason": "ue_unknown", "text": "No PFCP session owns the UE address." } }))]
pub(crate) enum TraceLine {
    Head { tap: TraceHead },
    End { end: TraceEnd },
    Packet(Box<TracedPacket>),
}

/// The head of a trace, before the first packet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TraceHead {
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
    /// Names of the ports, in the order of their numbers.
    pub ports: Vec<String>,
    /// Notes for the client.
    pub notes: Vec<String>,
}

/// How a trace ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TraceEnd {
    pub packets: u64,
    /// Packets left out because workers or the client had no room.
    pub skipped: u64,
    /// "packets", "duration", "ended" or "shutdown".
    pub why: String,
}

/// The stages and rules that a packet met. Members of stages that it did not reach are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedPacket {
    /// Its number in the trace.
    pub packet: u64,
    /// Unit: nanoseconds since 1970-01-01.
    pub time_unix_ns: u64,
    pub worker: u16,
    /// "port", "another thread", "the worker itself" or "a queue of the worker".
    pub from: String,
    /// Where it arrived; null if that is unknown by now.
    pub port: Option<String>,
    pub interface: Option<String>,
    /// Unit: octets.
    pub len: u32,
    /// Its wait, if it left a queue or was dropped there: its session, rules and times were those
    /// of its arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<TracedWait>,
    /// The link and outer headers, then those in a tunnel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The headers as hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub octets: Option<String>,
    /// Time of each stage.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages_ns: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<TracedSession>,
    /// PDRs by precedence, up to the one that matched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pdrs_tried: Vec<TriedPdr>,
    /// The PDR that matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdr: Option<u16>,
    /// "uplink" or "downlink".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qers: Vec<TracedQer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urrs: Vec<TracedUrr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<TracedFar>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<TracedEgress>,
    /// The trial of the fast path, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_path: Option<TracedFastPath>,
    /// Frames that left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<TracedFrame>,
    pub outcome: TracedOutcome,
    /// The outcome and its reasons in words, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<PacketWords>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedWait {
    /// The reason.
    pub r#for: String,
    /// How long.
    pub ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedSession {
    pub up_seid: String,
    /// The key that led to it.
    pub by: String,
    /// PDRs of the direction.
    pub pdrs: u64,
    /// The SDF filters are compiled into a matcher.
    pub compiled_filters: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TriedPdr {
    pub pdr: u16,
    pub precedence: u32,
    pub matched: bool,
    /// Why not.
    pub why: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedQer {
    pub qer: u32,
    /// "open" or "closed".
    pub gate: String,
    /// "within" or "used up"; null without a maximum bit rate.
    pub rate: Option<String>,
    /// The QER limits packets per time.
    pub packet_rate: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedUrr {
    pub urr: u32,
    /// 0: it did not count the packet.
    pub counted_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedFar {
    pub far: u32,
    pub action: Vec<String>,
    pub destination: String,
    pub outer_header: Option<String>,
    pub waits_for_rate: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedEgress {
    pub interface: String,
    pub next_hop: String,
    /// Null while it is unresolved.
    pub mac: Option<String>,
    /// The packet goes to another UE instead.
    pub switched_locally: bool,
    /// DSCP that the rules give to the user's packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedFastPath {
    /// "sends", "queues" or "leaves": to the stages.
    pub kind: String,
    /// Why it leaves the packet to the stages.
    pub reason: Option<String>,
    pub text: String,
    /// The frame that it would send.
    pub port: Option<String>,
    pub interface: Option<String>,
    /// Unit: octets.
    pub len: Option<u32>,
    /// How the stages differ: a fault of Adit.
    pub difference: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedFrame {
    pub port: String,
    pub interface: String,
    /// Unit: octets.
    pub len: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub octets: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TracedOutcome {
    /// "sent", "dropped", "consumed", "answered", "buffered", "queued", "waits", "switched" or
    /// "handed_off".
    pub kind: String,
    /// Why, for a packet that was dropped or consumed.
    pub reason: Option<String>,
    pub text: String,
}

/// A packet as `adit trace` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PacketWords {
    /// When and where it arrived.
    pub head: String,
    /// Its events, in order.
    pub lines: Vec<WordsLine>,
    /// Its outcome.
    pub outcome: String,
}

/// One line about a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct WordsLine {
    /// Its subject, such as "FAR 1"; empty if it goes on with the line before.
    pub name: String,
    pub text: String,
}

impl fmt::Display for PacketWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, lines, outcome } = self;
        write!(f, "{head}")?;
        for WordsLine { name, text } in lines {
            write!(f, "\n    {name:NAME_WIDTH$} {text}")?;
        }
        writeln!(f, "\n  => {outcome}")
    }
}
