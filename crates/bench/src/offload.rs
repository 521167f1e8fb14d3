//! `adit-bench offload`: the cost of offloads for the control thread with many sessions.
//!
//! For a card: the turns that look for the sessions with the most packets, add their rules and read
//! their counters. The card is emulated in memory, so that only adit's own part is measured. For
//! XDP: the time to write the entries of all sessions, and the memory of the maps as the kernel
//! states it.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use adit_rules::flows::{FlowConfig, FlowDirections, FlowOffload, SoftwareCard};
use adit_rules::{
    FastRule, FastRuleForwarding, FastRulePeer, FastRuleTransport, FastRuleUe, FastRuleUsage,
    Offload, OffloadChoice, OffloadInterface, OffloadRule, OuterTos, SessionKey,
};
use adit_tables::TablesConfig;
use adit_types::{
    Direction, DomainId, InterfaceId, InterfaceRole, InterfaceSet, Ipv4Prefix, MacAddr, Nanos,
    NextHopIndex, PortId, Qfi, SessionIndex, SliceId, Teid, VlanId,
};
use adit_xdp::{XdpConfig, XdpOffload};
use anyhow::{Context, ensure};
use arrayvec::ArrayVec;
use serde_json::{Value, json};

use super::measure::{SHAPED_PKTS_FEW, WorkerBench};
use super::network::{GNB_ADDR, N3_ADDR};
use super::packet::BenchPacket;
use super::report::{self, quantile, rounded};
use super::sessions::{self, BenchProfile, Populated};

/// Time from one turn of the control thread to the next.
const TURN: Nanos = Nanos::from_millis(1);
const TURNS_PER_SECOND: f64 = 1000.0;
/// Number of turns, for three scans of all sessions, the last with rules for those with traffic.
const TURNS: usize = 30_000;
/// Packets per second of each session with traffic: few, so that the bench does not take long.
const PPS: usize = 40;
const STEPS_PER_TURN: usize = 16;

/// Which sessions are offloaded: as in `adit.example.toml`, but for the rate and the volumes.
const OFFLOAD_CHOICE: OffloadChoice = OffloadChoice {
    sessions_max: 10_000,
    enter_pps: 10,
    leave_pps: 5,
    calm: Nanos::from_secs(5),
    scan: Nanos::from_secs(10),
    watch: Nanos::from_millis(100),
    watch_bytes: 1 << 20,
};

/// Measures both offloads with `count` sessions.
///
/// # Errors
/// A session is refused, or a packet is not forwarded.
pub(crate) fn run(count: u32) -> anyhow::Result<Value> {
    let parts = [json!({ "sessions": count }), measure_card(count)?, measure_xdp(count)?];
    let members = parts.iter().filter_map(Value::as_object).flatten();
    let members = members.map(|(name, value)| (name.clone(), value.clone()));
    Ok(report::of("offload", &[members.collect()]))
}

/// Measures the turns of a control thread with a card.
fn measure_card(count: u32) -> anyhow::Result<Value> {
    eprintln!("establishing {count} sessions");
    let populated = sessions::populate_with(BenchProfile::USUAL, count.try_into()?, 1, card)?;
    let Populated { mut publisher, readers, sessions, .. } = populated;
    let mut worker =
        WorkerBench::new(readers.into_iter().next().context("one worker")?, SHAPED_PKTS_FEW);
    worker.step_time = Nanos(TURN.0 / STEPS_PER_TURN as u64);
    let hot = &sessions[..sessions.len().min(OFFLOAD_CHOICE.sessions_max)];
    let burst = (hot.len() * PPS / 1000).div_ceil(STEPS_PER_TURN);
    eprintln!("{TURNS} turns");
    let mut turns = Vec::with_capacity(TURNS);
    for turn in 1..=TURNS {
        for _ in 0..STEPS_PER_TURN {
            worker.prepare(BenchPacket::DOWNLINK, hot, burst)?;
            let (_, sent) = worker.run()?;
            ensure!(sent == burst, "a step forwarded {sent} of {burst} packets");
        }
        let start = Instant::now();
        publisher.turn(Nanos(turn as u64 * TURN.0));
        while publisher.poll_observed().is_some() {}
        turns.push(start.elapsed());
    }
    let report = publisher.offload().context("an offload")?;
    // In the first third only the scan has work. In the last third no more rules are added.
    let (first, calm) = (turns.len() / 3, 2 * turns.len() / 3);
    let mean = |times: &[Duration]| {
        let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
        (times.iter().sum::<Duration>() / count).as_secs_f64()
    };
    let scanning = mean(&turns[1..first]);
    let calm = &mut turns[calm..];
    let reading = mean(calm);
    calm.sort_unstable();
    let us = |seconds: f64| rounded(seconds * 1e6);
    let at = |permille| us(quantile(calm, permille).as_secs_f64());
    let ms = |seconds: f64| rounded(seconds * TURNS_PER_SECOND * 1e3);
    Ok(json!({
        "rte_flow_sessions_with_rules": report.sessions,
        "rte_flow_rules": report.entries,
        "rte_flow_scan_us_per_turn": us(scanning),
        "rte_flow_scan_ms_per_second": ms(scanning),
        "rte_flow_scan_and_read_us_per_turn": us(reading),
        "rte_flow_scan_and_read_us_per_turn_median": at(500),
        "rte_flow_scan_and_read_us_per_turn_p99": at(990),
        "rte_flow_scan_and_read_us_per_turn_max": at(1000),
        "rte_flow_scan_and_read_ms_per_second": ms(reading),
    }))
}

/// Makes a card in memory with room for all chosen sessions.
fn card(config: &TablesConfig) -> Option<Box<dyn Offload>> {
    let config = FlowConfig {
        sessions_max: config.sessions_max,
        interfaces: config.interfaces.iter().map(OffloadInterface::from).collect(),
        directions: FlowDirections::Both,
        choice: OFFLOAD_CHOICE,
    };
    let card = SoftwareCard::new(usize::MAX, None);
    Some(Box::new(FlowOffload::new(card, config, Nanos::from_millis(2))))
}

/// Measures the entries of all sessions in the maps of the XDP program.
fn measure_xdp(count: u32) -> anyhow::Result<Value> {
    let pool_len = 32 - count.next_power_of_two().trailing_zeros();
    let pool = Ipv4Prefix::containing(Ipv4Addr::new(10, 128, 0, 0), pool_len.try_into()?);
    let interface = |id: u8, role, v4| OffloadInterface {
        id: InterfaceId(id),
        role,
        domain: DomainId(0),
        port: PortId(id.into()),
        vlan: VlanId::UNTAGGED,
        mac: MacAddr([2, 0, 0, 0, 0, id]),
        mtu_bytes: 1500,
        keeps_syns: false,
        v4,
        v6: None,
    };
    let config = XdpConfig {
        sessions_max: count.try_into()?,
        teid_slot_bits: (2 * count).next_power_of_two().trailing_zeros().try_into()?,
        next_hops_max: 1024,
        interfaces: vec![
            interface(0, InterfaceRole::N3, Some(N3_ADDR)),
            interface(1, InterfaceRole::N6, None),
        ],
        ue_pools_v4: pool.map(|pool| (DomainId(0), pool)).into_iter().collect(),
        // Any device: the program is attached to none.
        devices: vec![(PortId(0), 1), (PortId(1), 1)],
    };
    let (before, start) = (map_bytes(), Instant::now());
    let (mut offload, programs) = match adit_xdp::load(&config, || Nanos(0)) {
        Ok(loaded) => loaded,
        Err(refusal) => return Ok(json!({ "xdp_refused": refusal.0 })),
    };
    let loading = start.elapsed();
    let start = Instant::now();
    fill(&mut offload, count, pool.context("a pool")?)?;
    let filling = start.elapsed();
    let map_bytes = map_bytes() - before;
    drop(programs);
    Ok(json!({
        "xdp_load_ms": rounded(loading.as_secs_f64() * 1e3),
        "xdp_fill_ms": rounded(filling.as_secs_f64() * 1e3),
        "xdp_fill_ns_per_session": rounded(filling.as_secs_f64() * 1e9 / f64::from(count)),
        "xdp_map_mib": map_bytes >> 20,
        "xdp_map_bytes_per_session": map_bytes / u64::from(count.max(1)),
    }))
}

/// Adds both entries and both keys of each session.
fn fill(offload: &mut XdpOffload, count: u32, pool: Ipv4Prefix) -> anyhow::Result<()> {
    let [access, core] = [0, 1].map(|id| InterfaceSet::only(InterfaceId(id)));
    let qfi = Qfi::new(9).context("a QFI")?;
    offload.set_gateway(core, 1, Some(NextHopIndex(0)));
    for number in 0..count {
        let session = SessionIndex(number);
        let (teid, ue) = (Teid(number + 1), Ipv4Addr::from_bits(pool.addr().to_bits() + number));
        let uplink = FastRuleForwarding::Uplink {
            teid,
            transport: FastRuleTransport::V4,
            qfis: ArrayVec::new(),
            egress: core,
        };
        let downlink = FastRuleForwarding::Downlink {
            teid,
            peer: FastRulePeer::V4(GNB_ADDR),
            next_hop: NextHopIndex(1),
            tos: OuterTos::default(),
            marking: Some((qfi, false)),
        };
        offload.add_key(SessionKey::Teid(teid), session);
        offload.add_key(SessionKey::UeIpv4(DomainId(0), ue), session);
        let each = [(Direction::Uplink, access, uplink), (Direction::Downlink, core, downlink)];
        for (direction, arrival, forwarding) in each {
            let rule = FastRule {
                arrival,
                ue_v4: FastRuleUe::Only(ue),
                ue_v6: FastRuleUe::None,
                forwarding,
                meters: [false; 2],
                slice: SliceId(0),
                guaranteed: false,
                usage: FastRuleUsage::default(),
            };
            let rule = OffloadRule { rule: &rule, is_limited: true, has_shared_rates: false };
            let put = offload.put(session, direction, &rule);
            ensure!(put.is_ok(), "session {number} is refused: {put:?}");
        }
    }
    Ok(())
}

/// Returns the memory of all maps of this process, as the kernel states it.
fn map_bytes() -> u64 {
    let files = std::fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten();
    let of_file = |text: String| {
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().parse::<u64>().ok()
        };
        Some((field("map_id:")?, field("memlock:")?))
    };
    // Several descriptors may name one map.
    let maps: BTreeMap<u64, u64> =
        files.filter_map(|file| of_file(std::fs::read_to_string(file.path()).ok()?)).collect();
    maps.values().sum()
}
