//! `adit-bench kinds`: cycles of each kind of packet, and of each stage.
//!
//! A packet that is dropped at a stage has run the stages before it. So the rows from `s1_parse` to
//! `s6_apply` are cumulative: each has the cost of a packet that ends there. `all stages` is a
//! packet forwarded without the fast path.

use adit_pktio::RxChecksum;
use adit_rules::{ApplyAction, DropReason, Gate};
use serde_json::{Value, json};

use super::measure::{
    ExpectedOutcome, Floor, WorkerBenchConfig, active_sessions, establish, measure,
    measure_in_turns,
};
use super::network::BenchIpVersion;
use super::packet::{BenchPacket, Quirk};
use super::report;
use super::sessions::{BenchFilters, BenchProfile};
use crate::size::BenchSize;

/// One kind of packet.
struct BenchPacketKind {
    name: &'static str,
    packet: BenchPacket,
    profile: BenchProfile,
    outcome: ExpectedOutcome,
}

const fn uplink(container: bool, family: BenchIpVersion, quirk: Quirk) -> BenchPacket {
    BenchPacket::Uplink { container, family, quirk }
}

const fn forwarded(
    name: &'static str,
    packet: BenchPacket,
    profile: BenchProfile,
) -> BenchPacketKind {
    BenchPacketKind { name, packet, profile, outcome: ExpectedOutcome::Forwarded }
}

const fn dropped(
    name: &'static str,
    quirk: Quirk,
    profile: BenchProfile,
    reason: DropReason,
) -> BenchPacketKind {
    let packet = uplink(true, BenchIpVersion::V4, quirk);
    BenchPacketKind { name, packet, profile, outcome: ExpectedOutcome::Dropped(reason) }
}

const USUAL: BenchProfile = BenchProfile::USUAL;
const TAGGED: BenchProfile = BenchProfile { is_tagged: true, ..USUAL };
const V6: BenchProfile = BenchProfile { v6: true, ..USUAL };
const NO_QFI: BenchProfile = BenchProfile { qfi: false, ..USUAL };
const N9: BenchProfile = BenchProfile { n9: true, ..USUAL };
const GIVEN: BenchProfile = BenchProfile { given_keys: true, ..USUAL };
const FILTERED: BenchProfile = BenchProfile { filters: BenchFilters::Several, ..USUAL };
const CLOSED: BenchProfile = BenchProfile { gate: Gate::Closed, ..USUAL };
const DROP: BenchProfile = BenchProfile { action: ApplyAction::DROP, ..USUAL };
const BUFF: BenchProfile = BenchProfile { action: ApplyAction::BUFF, ..USUAL };

/// Kinds with the same profile are adjacent, since they share their sessions.
const KINDS: [BenchPacketKind; 22] = [
    forwarded("uplink", BenchPacket::UPLINK, USUAL),
    forwarded("downlink", BenchPacket::DOWNLINK, USUAL),
    dropped("s1_parse: unknown EtherType", Quirk::EtherType, USUAL, DropReason::EtherTypeUnknown),
    dropped("s2_lookup: unknown TEID", Quirk::Teid, USUAL, DropReason::TeidUnknown),
    dropped("s3_classify: foreign UE address", Quirk::Source, USUAL, DropReason::UeSourceSpoofed),
    dropped("s4_enforce: closed gate", Quirk::Spare, CLOSED, DropReason::GateClosed),
    dropped("s6_apply: FAR drops", Quirk::Spare, DROP, DropReason::FarDrop),
    forwarded("all stages: spare bit", uplink(true, BenchIpVersion::V4, Quirk::Spare), USUAL),
    forwarded("uplink, sequence number", uplink(true, BenchIpVersion::V4, Quirk::Sequence), USUAL),
    forwarded("uplink, VLAN on either side", BenchPacket::UPLINK, TAGGED),
    forwarded("downlink, VLAN on either side", BenchPacket::DOWNLINK, TAGGED),
    forwarded("uplink, no container", uplink(false, BenchIpVersion::V4, Quirk::None), NO_QFI),
    forwarded("downlink, no container", BenchPacket::DOWNLINK, NO_QFI),
    forwarded("uplink, IPv6 UE", uplink(true, BenchIpVersion::V6, Quirk::None), V6),
    forwarded("downlink, IPv6 UE", BenchPacket::Downlink { family: BenchIpVersion::V6 }, V6),
    forwarded("uplink, to another UPF (N9)", BenchPacket::UPLINK, N9),
    forwarded("downlink, from another UPF (N9)", BenchPacket::DOWNLINK, N9),
    forwarded("uplink, keys of the SMF", BenchPacket::UPLINK, GIVEN),
    forwarded("uplink, 8 SDF filters", BenchPacket::UPLINK, FILTERED),
    forwarded("downlink, 8 SDF filters", BenchPacket::DOWNLINK, FILTERED),
    dropped("uplink, closed gate", Quirk::None, CLOSED, DropReason::GateClosed),
    BenchPacketKind {
        name: "downlink, buffered",
        packet: BenchPacket::DOWNLINK,
        profile: BUFF,
        outcome: ExpectedOutcome::Buffered,
    },
];

/// Measures each kind with the sessions of `size`.
///
/// # Errors
/// A packet had an unexpected outcome.
pub(crate) fn run(size: &BenchSize) -> anyhow::Result<Value> {
    let &BenchSize { sessions: count, packets, burst } = size;
    let mut rows = Vec::new();
    let usual = establish(USUAL, count)?;
    let plan = |kind: &BenchPacketKind| WorkerBenchConfig {
        packet: kind.packet,
        outcome: kind.outcome,
        checksum: RxChecksum::Good,
        active: count,
        packets,
        burst,
    };
    let plan_of_floor = plan(&KINDS[0]);
    let active = active_sessions(&usual.sessions, &plan_of_floor)?;
    let mut floor = Floor::new(&plan_of_floor);
    let [bare] = measure_in_turns(&plan_of_floor, [&mut || floor.run(active, &plan_of_floor)])?;
    rows.push(row("floor: MAC swap, no worker", count, burst, &bare));
    drop(usual);
    for kind in &KINDS {
        let mut resident = establish(kind.profile, count)?;
        let figures = measure(&mut resident, &plan(kind))
            .map_err(|error| error.context(format!("packet kind \"{}\"", kind.name)))?;
        rows.push(row(kind.name, count, burst, &figures));
    }
    Ok(report::of("kinds", &rows))
}

fn row(name: &str, count: usize, burst: usize, figures: &super::measure::Figures) -> Value {
    figures.add_to(json!({ "kind": name, "sessions": count, "burst_pkts": burst }))
}
