//! The pipeline against the oracle: random sessions, packets and modifications.
//!
//! `ADIT_SEED=n` runs one scenario again, `ADIT_SCENARIOS=n` another number of them,
//! `ADIT_SCENARIOS=m..n` those from m to n.

use std::collections::HashMap;

use adit_rules::{DestinationInterface, SourceInterface, TapDropFilter, TapFilter, TapKey};
use adit_session::PdrSpec;
use adit_tests::oracle::{Oracle, OracleLane, OracleOutcome, OracleVerdict};
use adit_tests::world::{CardSettings, InjectedFrame, World, WorldLayout};
use adit_tests::{scenario, traffic};
use adit_types::InterfaceId;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const SCENARIOS: u64 = 140;
const PACKETS_PER_SCENARIO: usize = 2000;

/// The events of a run: a run without events fails.
#[derive(Debug, Default)]
struct Coverage {
    accepted: usize,
    refused: usize,
    transmitted: u64,
    fast_path: u64,
    /// Packets that the XDP program or the card forwarded.
    offloaded: u64,
    /// Packets that the owner of their session did not receive itself.
    handed_off: u64,
    /// Packets from one UE to another that did not leave.
    locally_switched: u64,
    /// SYNs that left with a lower MSS.
    mss_clamped: u64,
    /// Packets that left by the rules that held them although they match others now.
    kept_their_rules: u64,
    /// Later fragments of which the first was known.
    known_parts: u64,
    /// Packets that taps reported, and those of them that the fast path would send, queue for their
    /// rates, or leave to the stages.
    reported: u64,
    would_send: u64,
    would_queue: u64,
    would_leave: u64,
    drops: Vec<u64>,
    punts: Vec<u64>,
    /// Sessions that another process took over.
    restored: usize,
    /// Groups of sessions that got another owner.
    moved: usize,
}

/// An event between two packets at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    /// The process ends, and another one goes on.
    Restarts,
    /// Sessions get other owners.
    OwnerChanges,
}

#[test]
fn pipeline_and_oracle_agree_on_every_packet() {
    let world = |_, layout: &WorldLayout| Ok(scenario::world(layout));
    if let Some(coverage) = coverage_of(SCENARIOS, Between::Nothing, world) {
        check(&coverage);
    }
}

#[test]
fn restored_pipeline_and_oracle_agree_on_every_packet() {
    let world = |_, layout: &WorldLayout| Ok(scenario::world(layout));
    if let Some(coverage) = coverage_of(SCENARIOS / 4, Between::Restarts, world) {
        assert!(coverage.restored > 100 && coverage.transmitted > 1000, "{coverage:?}");
    }
}

#[test]
fn workers_that_give_sessions_away_and_oracle_agree_on_every_packet() {
    let world = |_, layout: &WorldLayout| Ok(scenario::world(layout));
    if let Some(coverage) = coverage_of(SCENARIOS, Between::OwnerChanges, world) {
        assert!(coverage.moved > 1000 && coverage.handed_off > 10_000, "{coverage:?}");
    }
}

#[test]
fn program_workers_and_oracle_agree_on_every_packet() {
    let layout = scenario::layout(&mut StdRng::seed_from_u64(1), 1);
    if let Err(error) = scenario::world_with_xdp(&layout) {
        println!("skipped: {error}");
        return;
    }
    let world = |_, layout: &WorldLayout| {
        scenario::world_with_xdp(layout).map_err(|error| error.to_string())
    };
    if let Some(coverage) = coverage_of(SCENARIOS, Between::Nothing, world) {
        assert!(coverage.offloaded > 1000, "{coverage:?}");
    }
}

#[test]
fn card_workers_and_oracle_agree_on_every_packet() {
    let world = |seed, layout: &WorldLayout| {
        Ok(scenario::world_with_card(layout, CardSettings::quick(seed)))
    };
    if let Some(coverage) = coverage_of(SCENARIOS, Between::Nothing, world) {
        // If rules copy DSCP or ECN into outer headers, a card forwards uplink only.
        assert!(coverage.offloaded > 300, "{coverage:?}");
    }
}

#[test]
fn tapped_workers_and_oracle_agree_on_every_packet() {
    let world = |seed, layout: &WorldLayout| {
        let mut world = scenario::world(layout);
        // Taps are for workers that take packets through all stages.
        if layout.queues.are_merged() {
            world.start_tap(tap_filter(seed));
        }
        Ok(world)
    };
    if let Some(coverage) = coverage_of(SCENARIOS / 2, Between::Nothing, world) {
        assert!(coverage.reported > 10_000 && coverage.fast_path > 1000, "{coverage:?}");
        // None of these packets would queue; `pipeline/path` has such packets.
        assert!(coverage.would_send > 300 && coverage.would_leave > 1000, "{coverage:?}");
    }
}

#[test]
fn trace_says_what_the_fast_path_does_with_the_same_packet_untraced() {
    let (mut fast, mut left) = (0, 0);
    for (seed, packets) in
        (1..=200).flat_map(|seed| [1, 4, 9, 16, 30].map(|packets| (seed, packets)))
    {
        let Some(untraced) = fast_packets(seed, packets, false).unwrap() else { continue };
        let traced = fast_packets(seed, packets, true).unwrap().unwrap();
        assert_eq!(untraced, traced, "seed {seed}, packet {packets}");
        *(if untraced > 0 { &mut fast } else { &mut left }) += 1;
    }
    assert!(fast > 10 && left > 100, "{fast} {left}");
}

/// Gives `packets` packets one by one to a world. Returns how often the last one took the fast path
/// (twice between UEs); with a trace of it, by the trace. `None` for a world without traces.
fn fast_packets(seed: u64, packets: usize, is_traced: bool) -> Result<Option<u64>, String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let layout = scenario::layout(&mut rng, seed);
    if !layout.queues.are_merged() {
        return Ok(None);
    }
    let mut world = scenario::world(&layout);
    let coverage = &mut Coverage::default();
    for _ in 0..10 {
        count(coverage, world.establish(&scenario::establishment(&mut rng)).is_ok());
    }
    let fast = |world: &World| world.publisher.snapshot().express_pkts;
    let (mut done, mut before) = (0, 0);
    while done < packets {
        for _ in 0..rng.random_range(0..2) {
            change(&mut rng, &mut world, coverage)?;
        }
        if world.releases_uplink_packets() {
            world.exchange(&[])?;
        }
        world.look_ahead();
        let mut arrivals = burst(&mut rng, &world);
        arrivals.truncate(1);
        done += arrivals.len();
        before = fast(&world);
        if done == packets && is_traced {
            world.start_tap(TapFilter { key: TapKey::Any, drop: None, one_of: 1 });
        }
        world.exchange(&arrivals)?;
        if done < packets {
            settle_waiting(&mut rng, &mut world)?;
        }
    }
    world.take_records()?;
    let would = world.reported.would_send + world.reported.would_queue;
    Ok(Some(if is_traced { would } else { fast(&world) - before }))
}

/// Runs so many scenarios, or those that the environment names, and fails at the first difference.
/// Returns their events; `None` for a single one.
fn coverage_of(
    scenarios: u64,
    between: Between,
    world: impl Fn(u64, &WorldLayout) -> Result<World, String>,
) -> Option<Coverage> {
    let chosen = std::env::var("ADIT_SCENARIOS").unwrap_or_else(|_| scenarios.to_string());
    let (first, last) = chosen.split_once("..").unwrap_or(("1", &chosen));
    let seeds: Vec<u64> = match std::env::var("ADIT_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (first.parse().unwrap()..=last.parse().unwrap()).collect(),
    };
    let mut coverage = Coverage::default();
    let mut differences = Vec::new();
    for &seed in &seeds {
        if let Err(difference) = run(seed, &mut coverage, |layout| world(seed, layout), between) {
            differences.push(format!("ADIT_SEED={seed}: {difference}"));
        }
    }
    let first = differences.iter().take(8).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(differences.is_empty(), "{} of {}: {first}", differences.len(), seeds.len());
    println!("{coverage:?}");
    (seeds.len() > 1).then_some(coverage)
}

/// Packets of all kinds, one after the other.
fn tap_filter(seed: u64) -> TapFilter {
    let all = TapFilter { key: TapKey::Any, drop: None, one_of: 1 };
    match seed % 4 {
        0 => all,
        1 => TapFilter { one_of: 3, ..all },
        2 => TapFilter { drop: Some(TapDropFilter::Any), ..all },
        _ => TapFilter { key: TapKey::Interface(InterfaceId(0)), ..all },
    }
}

#[test]
fn difference_between_the_sides_is_found() {
    let found: Vec<String> = (1..=8).filter_map(difference_of_changed_rules).collect();
    assert!(found.iter().any(|text| text.contains("\noracle: ")), "{found:?}");
}

/// The first line of a report if oracle and pipeline have different QERs.
fn difference_of_changed_rules(seed: u64) -> Option<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let layout = scenario::layout(&mut rng, seed);
    let mut world = scenario::world(&layout);
    for _ in 0..10 {
        let _ = world.establish(&scenario::establishment(&mut rng));
    }
    for (_, session) in &mut world.oracle.sessions {
        for qer in &mut session.qers {
            qer.rqi = !qer.rqi;
        }
    }
    (0..50).find_map(|_| {
        let arrivals = burst(&mut rng, &world);
        world.exchange(&arrivals).err()
    })
}

fn run(
    seed: u64,
    coverage: &mut Coverage,
    world: impl FnOnce(&WorldLayout) -> Result<World, String>,
    between: Between,
) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let layout = scenario::layout(&mut rng, seed);
    let mut world = world(&layout)?;
    for _ in 0..10 {
        count(coverage, world.establish(&scenario::establishment(&mut rng)).is_ok());
    }
    let mut packets = 0;
    while packets < PACKETS_PER_SCENARIO {
        if between == Between::OwnerChanges && rng.random_ratio(1, 2) {
            coverage.moved += world.change_owners(&mut rng);
        }
        if between == Between::Restarts && rng.random_ratio(1, 8) {
            note(coverage, &world);
            coverage.restored += world.oracle.sessions.len();
            world = scenario::restarted(&layout, world);
        }
        for _ in 0..rng.random_range(0..4) {
            change(&mut rng, &mut world, coverage)?;
        }
        if world.releases_uplink_packets() {
            world.exchange(&[])?;
        }
        world.look_ahead();
        let arrivals = burst(&mut rng, &world);
        packets += arrivals.len();
        world.exchange(&arrivals)?;
        settle_waiting(&mut rng, &mut world)?;
    }
    while let Some((seid, _)) = world.oracle.sessions.first() {
        let seid = *seid;
        step_before(&mut world, seid)?;
        world.delete(seid).map_err(|refusal| format!("{refusal:?}"))?;
    }
    world.look_ahead();
    let arrivals = burst(&mut rng, &world);
    world.exchange(&arrivals)?;
    if world.store.reserved() != adit_session::ReservedCounts::default() {
        return Err(format!("identifiers leaked: {:?}", world.store.reserved()));
    }
    note(coverage, &world);
    coverage.kept_their_rules += world.kept_their_rules;
    coverage.known_parts += world.known_fragments;
    world.take_records()?;
    coverage.reported += world.reported.pkts;
    coverage.would_send += world.reported.would_send;
    coverage.would_queue += world.reported.would_queue;
    coverage.would_leave += world.reported.would_leave;
    world.drain();
    if let Some(card) = world.card()
        && let (flows, counters) = (card.flows(), card.counters())
        && flows != counters
    {
        return Err(format!("{counters} counters of {flows} flows"));
    }
    Ok(())
}

/// Adds the counts of a process's workers.
fn note(coverage: &mut Coverage, world: &World) {
    let sum = world.publisher.snapshot();
    coverage.transmitted += sum.transmitted_pkts();
    coverage.fast_path += sum.express_pkts;
    coverage.offloaded += world.offloaded();
    coverage.handed_off += sum.handed_off_pkts;
    coverage.locally_switched += sum.locally_switched_pkts;
    coverage.mss_clamped += sum.mss_clamped_pkts;
    add(&mut coverage.drops, &sum.drops);
    add(&mut coverage.punts, &sum.punts);
}

fn step_before(world: &mut World, seid: adit_types::Seid) -> Result<(), String> {
    // A step can change the next session if one of its URRs reached a limit.
    while world.must_step_before(seid) {
        world.exchange(&[])?;
    }
    Ok(())
}

fn change(rng: &mut StdRng, world: &mut World, coverage: &mut Coverage) -> Result<(), String> {
    let accepted = match (rng.random_range(0..10), world.oracle.sessions.choose(rng)) {
        (0, Some((seid, _))) => {
            let seid = *seid;
            step_before(world, seid)?;
            world.delete(seid).is_ok()
        }
        (1 | 2, _) | (_, None) => world.establish(&scenario::establishment(rng)).is_ok(),
        (_, Some((seid, session))) => {
            let (seid, change) = (*seid, scenario::modification(rng, session));
            step_before(world, seid)?;
            world.modify(seid, &change).is_ok()
        }
    };
    count(coverage, accepted);
    Ok(())
}

fn burst(rng: &mut StdRng, world: &World) -> Vec<InjectedFrame> {
    let len = if rng.random_ratio(1, 4) { 1 } else { rng.random_range(1..=48) };
    let is_usual = rng.random_ratio(1, 3);
    let arrivals: Vec<InjectedFrame> = (0..len)
        .map(|_| {
            let (port, frame) = match is_usual && !rng.random_ratio(1, 20) {
                true => traffic::usual(rng, &world.oracle),
                false => traffic::packet(rng, &world.oracle),
            };
            InjectedFrame { worker: rng.random_range(world.receiving()), port, frame }
        })
        .collect();
    let mut oracle = None;
    let judge = |frame| JudgedFrame::new(frame, world, &mut oracle);
    let judged = arrivals.into_iter().map(judge).collect();
    let judged = without_lonely_beyond_quotas(world, without_further_parts(world, judged));
    let judged = in_one_lane(world, without_lonely(rng, world, judged));
    let judged = to_a_station_in_one_lane(world, judged);
    judged.into_iter().map(|judged| judged.frame).collect()
}

/// A frame that arrives, and the oracle's verdict on it.
struct JudgedFrame {
    frame: InjectedFrame,
    verdict: OracleVerdict,
    /// Its possible verdicts once earlier packets of the burst used up a quota.
    beyond_quotas: Vec<OracleVerdict>,
}

impl JudgedFrame {
    /// `copy`: one of the world's oracle, made when the first frame needs it.
    fn new(frame: InjectedFrame, world: &World, copy: &mut Option<Oracle>) -> Self {
        let InjectedFrame { port, frame: octets, .. } = &frame;
        let verdict = world.oracle.judge(*port, octets);
        let beyond_quotas = match verdict.session.map(|at| &world.oracle.sessions[at].1) {
            Some(session) if session.usage.values().any(|usage| usage.quota.is_some()) => copy
                .get_or_insert_with(|| world.oracle.clone())
                .judge_beyond_quotas(&verdict, *port, octets),
            _ => Vec::new(),
        };
        Self { frame, verdict, beyond_quotas }
    }
}

/// Removes later fragments of GTP-U packets whose first one can wait, and all but one of those that
/// wait, in this burst and before: the oracle judges fragments one by one, and parts that
/// contradict each other drop both. Removes later fragments whose first one passed by other rules,
/// which may have been fast: such rules have no filters and remember no fragments. A packet from
/// one UE to another can wait when it has come back.
fn without_further_parts(world: &World, mut arrivals: Vec<JudgedFrame>) -> Vec<JudgedFrame> {
    let mut is_first = !world.has_fragments();
    arrivals.retain(|JudgedFrame { verdict, .. }| {
        let returned = match &verdict.outcome {
            OracleOutcome::SwitchLocally { port, frame } => Some(world.oracle.judge(*port, frame)),
            _ => None,
        };
        let last = returned.as_ref().unwrap_or(verdict);
        let waits = last.outcome == OracleOutcome::Reassemble;
        let is_usable = !verdict.follows_other_rules;
        is_usable && (!waits || !last.is_known_fragment && core::mem::take(&mut is_first))
    });
    arrivals
}

/// Removes packets that must arrive alone once a quota is used up, unless they do.
fn without_lonely_beyond_quotas(world: &World, mut arrivals: Vec<JudgedFrame>) -> Vec<JudgedFrame> {
    if arrivals.len() > 1 {
        arrivals.retain(|JudgedFrame { beyond_quotas, .. }| {
            !beyond_quotas.iter().any(|verdict| world.must_be_switched_alone(verdict))
        });
    }
    arrivals
}

/// Removes packets to other UEs that must arrive alone, or all others but one of them.
fn without_lonely(
    rng: &mut StdRng,
    world: &World,
    mut arrivals: Vec<JudgedFrame>,
) -> Vec<JudgedFrame> {
    let is_lonely = |arrival: &mut JudgedFrame| world.must_be_switched_alone(&arrival.verdict);
    let mut lonely = arrivals.extract_if(.., is_lonely);
    match lonely.next() {
        Some(first) if rng.random_ratio(1, 4) => vec![first],
        _ => {
            lonely.for_each(drop);
            arrivals
        }
    }
}

/// Removes packets that arrive in another lane than earlier ones of their session, if both share a
/// rate or a quota: the order of lanes in a burst depends on how usual its packets are. With a tap,
/// packets are processed and buffered in the order in which they came, whatever their lane, so
/// sessions that share a rate count as one. A scheduler gives out the lanes of a flow in any
/// bursts, keeps no order between flows, and with an Rx queue none between ports.
fn in_one_lane(world: &World, mut arrivals: Vec<JudgedFrame>) -> Vec<JudgedFrame> {
    let has_events = world.roles.rx_tx() > 0;
    let mut ways = HashMap::new();
    arrivals.retain(
        |JudgedFrame { frame, verdict: OracleVerdict { session, lane, outcome, .. }, .. }| {
            let (Some(at), Some(lane)) = (*session, *lane) else { return true };
            let session = &world.oracle.sessions[at].1;
            let is_back = |pdr: &PdrSpec| {
                let far = session.fars.iter().find(|far| Some(far.id) == pdr.far);
                let forwarding = far.and_then(|far| far.forwarding.as_ref());
                forwarding.is_some_and(|to| to.destination == DestinationInterface::Access)
            };
            let from_tunnel = |pdr: &PdrSpec| {
                pdr.pdi.f_teid.is_some()
                    && (pdr.pdi.source != SourceInterface::Access || is_back(pdr))
            };
            let is_uplink = lane == OracleLane::Tunneled && !session.pdrs.iter().any(from_tunnel);
            let is_limited = session.has_quotas() || session.has_rates();
            let waits = has_events && matches!(outcome, OracleOutcome::Buffer { .. });
            if !is_limited && !waits && !world.is_tapped {
                return true;
            }
            let is_shared = session.shares_rates() && (world.is_tapped || has_events);
            // Uplink packets that come in one lane alone have rates of their own.
            let is_apart =
                is_uplink && !session.has_quotas() && !waits && !world.is_tapped && !is_shared;
            let group = (if is_shared { None } else { Some(at) }, is_apart);
            let of_port = (world.has_rx && is_limited).then_some(frame.port);
            let way = (lane, has_events.then_some(at), of_port);
            *ways.entry(group).or_insert(way) == way
        },
    );
    arrivals
}

/// With a tap, removes packets that would wait for a station behind others of another lane that
/// arrive with them on one port: those that the tap selects wait in the order in which they came,
/// the others lane by lane.
fn to_a_station_in_one_lane(world: &World, mut arrivals: Vec<JudgedFrame>) -> Vec<JudgedFrame> {
    let mut lanes = HashMap::new();
    arrivals.retain(|JudgedFrame { frame, verdict, .. }| {
        let OracleOutcome::AwaitNeighbor { interface, station, lane, .. } = verdict.outcome else {
            return true;
        };
        if !world.is_tapped || lane == OracleLane::EndMarker {
            return true;
        }
        let worker = world.processing_worker(frame, verdict.session);
        let queue = (worker, interface, station);
        *lanes.entry((queue, frame.worker, frame.port)).or_insert(lane) == lane
    });
    arrivals
}

/// Stations that packets wait for sometimes answer.
fn settle_waiting(rng: &mut StdRng, world: &mut World) -> Result<(), String> {
    let waiting = world.unresolved_stations();
    let Some((interface, station)) = waiting.first().copied() else { return Ok(()) };
    match rng.random_range(0..30) {
        0 => world.learn(interface, station),
        1..3 => world.expire_neighbor_waits()?,
        _ => {}
    }
    Ok(())
}

fn count(coverage: &mut Coverage, accepted: bool) {
    if accepted {
        coverage.accepted += 1;
    } else {
        coverage.refused += 1;
    }
}

fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(counts.len(), 0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn check(coverage: &Coverage) {
    use adit_rules::{DropReason, PuntReason};
    // Outcomes that these worlds cannot cause: they have no buffers in parts, no short headroom, no
    // full queues and rings, and not too many requests to redirect. No packet waits for its rate
    // (see `shaping.rs`), and no sessions share a rate. No two fragments of a datagram arrive (see
    // `fragments.rs`). FARs to the RAN have a tunnel at once. No router sends the MTU of a path
    // (see `pipeline/path_mtu.rs` of `datapath`).
    let absent = [
        DropReason::IcmpQuoteUnknown,
        DropReason::TunnelUnknown,
        DropReason::FragmentNoBuffer,
        DropReason::ReassemblyDuplicate,
        DropReason::ReassemblyOverlap,
        DropReason::ReassemblyTooMany,
        DropReason::ReassemblyTooLong,
        DropReason::ReassemblyFull,
        DropReason::AggregateExceeded,
        DropReason::HandoffFull,
        DropReason::SignalingFull,
        DropReason::SchedulerFull,
        DropReason::RedirectLimited,
        DropReason::ShapingQueueFull,
        DropReason::FrameSegmented,
        DropReason::HeadroomShort,
        DropReason::SlowQueueFull,
        // No interface of the worlds has a kernel twin.
        DropReason::KernelRateLimited,
        DropReason::KernelRingFull,
        DropReason::TxQueueFull,
        // Routes of the configuration are none of these.
        DropReason::RouteBlackhole,
        DropReason::RouteUnreachable,
    ];
    let unseen: Vec<&str> = DropReason::ALL
        .iter()
        .filter(|reason| coverage.drops[reason.index()] == 0 && !absent.contains(reason))
        .map(|reason| reason.name())
        .chain(
            PuntReason::ALL
                .iter()
                .filter(|reason| coverage.punts[reason.index()] == 0)
                .filter(|reason| {
                    !matches!(
                        reason,
                        PuntReason::Reassembled | PuntReason::PathMtu | PuntReason::KernelTwin
                    )
                })
                .map(|reason| reason.name()),
        )
        .collect();
    assert!(coverage.fast_path > 3_000, "{coverage:?}");
    assert!(coverage.handed_off > 10_000, "{coverage:?}");
    assert!(coverage.locally_switched > 500, "{coverage:?}");
    assert!(coverage.mss_clamped > 1_000, "{coverage:?}");
    assert!(coverage.kept_their_rules > 100, "{coverage:?}");
    assert!(coverage.known_parts > 100, "{coverage:?}");
    assert!(unseen.is_empty(), "never seen: {unseen:?}");
    assert!(coverage.accepted > coverage.refused, "{coverage:?}");
    assert!(coverage.transmitted > 35_000, "{coverage:?}");
    println!("{coverage:?}");
}
