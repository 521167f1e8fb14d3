//! `adit-lab selftest`: measures the tester's own highest rate and errors on back-to-back ports in one
//! process, and whether it detects planted faults.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adit_dpdk::{Port, WorkerIo};
use adit_types::{MacAddr, PortId, Qfi, VlanId};
use adit_wire::PduSessionContainer;
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::any_engine::AnyEngine;
use super::progress::mpps;
use super::report::OutputArguments;
use super::report::{Figure, Recorder, ReportHeader, TrialReport};
use super::target::TargetAccess;
use super::testbed::{Testbed, TestbedArguments, memif_socket, on_core, wait_for_links};
use super::traffic::{Size, rate_pps};
use adit_lab_engine::clock::{NS_PER_S, TickClock};
use adit_lab_engine::fault::{DELAY_NS, Fault, Forwarder, found};
use adit_lab_engine::frame::{Endpoints, FrameFormat, Template, TesterTunnel, UePacketKind};
use adit_lab_engine::neighbor::Neighbors;
use adit_lab_engine::pacer::{OfferedRate, RateStep};
use adit_lab_engine::plan::{PlanConfig, SessionOrder, draw_plan};
use adit_lab_engine::stream::StreamConfig;
use adit_lab_engine::trial::{Engine, TrialConfig, TrialProgress};
use adit_lab_process::stop::{Interrupted, Stop, environment};

/// Sessions of the self-test.
const SESSIONS: usize = 100_000;
/// Rate of the time stamp measurement. Unit: packets per second and stream.
const QUIET_PPS: u64 = 50_000;
/// Trials of the tester's ceiling before a measurement. The best one counts, since disturbances only
/// slow the tester down.
const CEILING_TRIALS: usize = 3;
/// Length of each. Unit: ns.
const CEILING_NS: u64 = 400_000_000;
/// Maximum number of trials of one fault; disturbed trials are repeated.
const FAULT_TRIALS_MAX: usize = 3;
const LINK_TIMEOUT: Duration = Duration::from_secs(10);

/// Ports of the self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SelftestLink {
    /// The tester's own memif, which returns packets on the same core: the ceiling for adit and testpmd.
    Memif,
    /// Two joined memif ports of DPDK: the ceiling for targets on DPDK ports.
    Dpdk,
    /// Two joined ring ports of DPDK, almost without driver cost.
    Ring,
}

/// Options of `adit-lab selftest`.
#[derive(Debug, clap::Args)]
pub struct SelftestArguments {
    #[command(flatten)]
    bench: TestbedArguments,
    /// Connection between the ports.
    #[arg(long, value_enum, default_value_t = SelftestLink::Memif)]
    wire: SelftestLink,
    /// Length of each trial, in seconds.
    #[arg(long, value_name = "S", default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    duration: u64,
    /// Lengths of the UEs' IP packets: bytes, `imix`, `pcap:FILE`, or
    /// `LENGTH:WEIGHT/…`.
    #[arg(long, value_name = "SIZE", default_value = "64")]
    size: Size,
    /// Insert faults in a forwarder between the ports, on a second core.
    #[arg(long)]
    faults: bool,
    /// One packet in N gets a fault.
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u64).range(2..))]
    one_in: u64,
    /// Rate of both streams while faults are inserted, unless the tester's highest rate is lower.
    #[arg(long, value_name = "RATE", default_value = "200k", value_parser = rate_pps)]
    fault_rate: u64,
    #[command(flatten)]
    output: OutputArguments,
}

/// A planted fault and its detection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FaultReport {
    /// The fault; `none` is the forwarder alone.
    pub fault: String,
    /// Packets that got the fault.
    pub planted: u64,
    /// Packets in which the tester detected it.
    pub found: u64,
    /// The trial.
    pub trial: TrialReport,
}

impl FaultReport {
    /// True if the tester was absent so long that no packet overtook a delayed one, or the forwarder so
    /// long that its queue was full.
    fn is_disturbed(&self) -> bool {
        let refused: u64 = self.trial.streams.iter().map(|stream| stream.refused).sum();
        self.trial.gap_ns_max >= DELAY_NS / 2 || refused > 0
    }
}

/// The report of a self-test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SelftestReport {
    /// Machine, time, warnings.
    #[serde(flatten)]
    pub header: ReportHeader,
    /// Ports of the self-test.
    pub wire: SelftestLink,
    /// Lengths of the UEs' IP packets.
    pub size: Size,
    /// Packets per second that one core sends and receives at the same time.
    pub ceiling_pps: u64,
    /// The trial of the ceiling.
    pub ceiling: Option<TrialReport>,
    /// The trial at a low rate: its latency is the tester's own time stamp error.
    pub quiet: Option<TrialReport>,
    /// The trial at half the ceiling: its loss is the tester's own.
    pub half: Option<TrialReport>,
    /// The planted faults.
    pub faults: Vec<FaultReport>,
    /// The figures to compare.
    pub figures: Vec<Figure>,
    /// True if every check passed.
    pub passed: bool,
}

/// Runs the self-test. Returns true if every check passed.
///
/// # Errors
/// The ports cannot be opened; [`Interrupted`].
pub(crate) fn run(arguments: &SelftestArguments, stop: &Stop) -> Result<bool> {
    let wires = devices(arguments.wire, arguments.faults);
    let bench = Testbed::start(&arguments.bench, &wires)?;
    let mut recorder = Recorder::start("selftest", &bench);
    let mut report = SelftestReport {
        header: ReportHeader::default(),
        wire: arguments.wire,
        size: arguments.size.clone(),
        ceiling_pps: 0,
        ceiling: None,
        quiet: None,
        half: None,
        faults: Vec::new(),
        figures: Vec::new(),
        passed: false,
    };
    let live = TrialProgress::default();
    {
        let mut engine = back_to_back(&bench, arguments.wire, &wires, stop)?;
        engine.set_streams(streams(&arguments.size, arguments.wire == SelftestLink::Dpdk)?);
        bench.on_tester(&live, "selftest", || {
            measure(&mut engine, arguments, &live, &mut report, stop);
            Ok(())
        })?;
    }
    if arguments.faults && !stop.is_raised() {
        plant(&bench, arguments, &live, &mut recorder, &mut report, stop)?;
    }
    report.figures = figures(&report);
    let failures = failures(&report);
    report.passed = failures.is_empty();
    for sentence in failures.into_iter().chain(disturbed(&report)) {
        recorder.warn(sentence);
    }
    let complete = !stop.is_raised();
    report.header = recorder.finish(complete);
    arguments.output.deliver(&report, print)?;
    if complete { Ok(report.passed) } else { Err(Interrupted.into()) }
}

/// Device strings: the ports of the self-test, then two memif pairs around the forwarder.
fn devices(wire: SelftestLink, faults: bool) -> Vec<String> {
    let mut devices = match wire {
        SelftestLink::Memif => Vec::new(),
        SelftestLink::Dpdk => pair("self", 0).to_vec(),
        SelftestLink::Ring => vec!["net_ring0".to_owned(), "net_ring1".to_owned()],
    };
    if faults {
        devices.extend(FORWARDER.into_iter().flat_map(|(name, first)| pair(name, first)));
    }
    devices
}

/// Names of the memifs between tester and forwarder, with the number of their first device.
const FORWARDER: [(&str, u32); 2] = [("fault0", 2), ("fault1", 4)];

/// Device strings of both ends of a memif.
fn pair(name: &str, first: u32) -> [String; 2] {
    let socket = memif_socket(name);
    let end = |index: u32, role: &str| format!("net_memif{index},role={role},id=0,socket={socket}");
    [end(first, "server"), end(first + 1, "client")]
}

/// An engine on joined ports, or on ports that return each packet.
fn back_to_back(
    bench: &Testbed,
    wire: SelftestLink,
    devices: &[String],
    stop: &Stop,
) -> Result<AnyEngine> {
    if wire == SelftestLink::Memif {
        return AnyEngine::mirrored(bench);
    }
    let names: Vec<&str> = devices.iter().take(2).map(String::as_str).collect();
    let (ports, io) = open(bench, &names, stop)?;
    Ok(AnyEngine::dpdk(bench, io, ports, Neighbors::default()))
}

fn open(bench: &Testbed, names: &[&str], stop: &Stop) -> Result<(Vec<Port>, WorkerIo)> {
    let (mut ports, mut queues) = (Vec::new(), Vec::new());
    for name in names {
        let (port, queue) = bench.open(name)?;
        ports.push(port);
        queues.push(queue);
    }
    let named: Vec<(&str, &Port)> = names.iter().copied().zip(&ports).collect();
    wait_for_links(&named, LINK_TIMEOUT, stop, || Ok(()))?;
    Ok((ports, WorkerIo::new(queues, bench.pool())))
}

/// The streams: uplink from port 0, downlink from port 1.
fn streams(size: &Size, cross: bool) -> Result<Vec<StreamConfig>> {
    let teids: Vec<u32> = (1u32..).take(SESSIONS).collect();
    let plan = draw_plan(&PlanConfig {
        teids: &teids,
        first: 0,
        gnbs: &[Ipv4Addr::new(192, 0, 2, 1).into()],
        source_ports: 1,
        weights: &size.weights,
        order: SessionOrder::Random,
        seed: 1,
    });
    let plan: Arc<[_]> = plan.into();
    let stream = |uplink: bool| -> Result<StreamConfig> {
        let psc = Qfi::new(9).map(PduSessionContainer::uplink);
        let form = FrameFormat {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            vlan: VlanId::UNTAGGED,
            tunnel: uplink.then_some(TesterTunnel {
                upf: Ipv4Addr::new(192, 0, 2, 2).into(),
                gnb: Ipv4Addr::new(192, 0, 2, 1).into(),
                psc,
            }),
            uplink,
            inner: UePacketKind::Udp4,
            endpoints: Endpoints {
                ue_v4: Ipv4Addr::new(10, 0, 0, 1),
                ue_v6: Ipv6Addr::UNSPECIFIED,
                server_v4: Ipv4Addr::new(198, 51, 100, 1),
                server_v6: Ipv6Addr::UNSPECIFIED,
            },
        };
        let (tx, other) = if uplink { (PortId(0), PortId(1)) } else { (PortId(1), PortId(0)) };
        Ok(StreamConfig {
            tx,
            rx: if cross { other } else { tx },
            templates: size
                .lens
                .iter()
                .map(|len| Template::new(&form, *len))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| environment(format!("size {}: {error}", size.name)))?
                .into(),
            plan: Arc::clone(&plan),
            rx_teid: uplink.then_some(1),
        })
    };
    Ok(vec![stream(true)?, stream(false)?])
}

const NAMES: [&str; 2] = ["uplink", "downlink"];

fn trial_config(duration_ns: u64, rate: OfferedRate) -> TrialConfig {
    TrialConfig {
        courses: vec![RateStep::always(rate); 2],
        duration_ns,
        drain_ns: 2_000_000_000,
        quiet_ns: 2_000_000_000,
        absence_ns_min: 1_000_000,
        late_max_ns: 10_000_000,
        burst: 32,
        timeline: false,
        window_ns: 0,
    }
}

fn measure(
    engine: &mut AnyEngine,
    arguments: &SelftestArguments,
    live: &TrialProgress,
    report: &mut SelftestReport,
    stop: &Stop,
) {
    let mut trial = |rate: OfferedRate| {
        let hz = engine.hz();
        let pps = match rate {
            OfferedRate::Max => None,
            OfferedRate::Pps(pps) => Some(2 * pps),
        };
        live.rate_pps.store(pps.unwrap_or_default(), Ordering::Relaxed);
        let outcome = engine.run(&trial_config(arguments.duration * NS_PER_S, rate), live, stop);
        TrialReport::new(pps, &NAMES, &outcome, hz)
    };
    let ceiling = trial(OfferedRate::Max);
    report.ceiling_pps = ceiling.received_pps;
    report.ceiling = Some(ceiling);
    if stop.is_raised() {
        return;
    }
    report.quiet = Some(trial(OfferedRate::Pps(QUIET_PPS)));
    if stop.is_raised() {
        return;
    }
    report.half = Some(trial(OfferedRate::Pps(report.ceiling_pps / 4)));
}

/// Runs one trial with each fault in a forwarder between two memif pairs.
fn plant(
    bench: &Testbed,
    arguments: &SelftestArguments,
    live: &TrialProgress,
    recorder: &mut Recorder,
    report: &mut SelftestReport,
    stop: &Stop,
) -> Result<()> {
    let target_core = bench.other_core().unwrap_or_else(|| {
        recorder.warn("tester and forwarder share the only core");
        bench.core()
    });
    recorder.cores("forwarder", &[target_core]);
    // The tester's port first, then the forwarder's.
    let names: Vec<String> =
        FORWARDER.into_iter().flat_map(|(name, first)| pair(name, first)).collect();
    let opened = names.iter().map(|name| bench.open(name)).collect::<Result<Vec<_>>>()?;
    let (ports, queues): (Vec<Port>, Vec<_>) = opened.into_iter().unzip();
    let named: Vec<(&str, &Port)> = names.iter().map(String::as_str).zip(&ports).collect();
    wait_for_links(&named, LINK_TIMEOUT, stop, || Ok(()))?;
    let mut queues = queues.into_iter();
    let mut take = || queues.next().ok_or_else(|| anyhow!("a port is missing"));
    let (tester_0, target_0, tester_1, target_1) = (take()?, take()?, take()?, take()?);
    let io = WorkerIo::new(vec![tester_0, tester_1], bench.pool());
    let mut engine = Engine::new(io, bench.clock(), Neighbors::default(), 2);
    engine.set_streams(streams(&arguments.size, true)?);
    let target_io = WorkerIo::new(vec![target_0, target_1], bench.pool());
    let delay = bench.clock().ticks_of_ns(DELAY_NS);
    let mut forwarder = Forwarder::new(target_io, None, arguments.one_in, delay);
    let faults =
        [None, Some(Fault::Drop), Some(Fault::Duplicate), Some(Fault::Reorder), Some(Fault::Delay)];
    let rate = OfferedRate::Pps((arguments.fault_rate / 2).min(report.ceiling_pps / 8));
    let hz = engine.clock.hz();
    let pps = if let OfferedRate::Pps(pps) = rate { Some(2 * pps) } else { None };
    live.rate_pps.store(pps.unwrap_or_default(), Ordering::Relaxed);
    let config = trial_config(arguments.duration * NS_PER_S, rate);
    for fault in faults {
        let name = fault.map_or("none", Fault::name);
        for _ in 0..FAULT_TRIALS_MAX {
            if stop.is_raised() {
                return Ok(());
            }
            forwarder.plant(fault);
            let what = format!("selftest, fault {name}");
            let outcome = while_forwarding(bench, target_core, &mut forwarder, || {
                bench.on_tester(live, &what, || Ok(engine.run(&config, live, stop)))
            })?;
            let fault = FaultReport {
                fault: name.to_owned(),
                planted: forwarder.faults_injected(),
                found: found(fault, &outcome, hz),
                trial: TrialReport::new(pps, &NAMES, &outcome, hz),
            };
            let again = fault.planted != fault.found && fault.is_disturbed();
            report.faults.retain(|earlier| earlier.fault != fault.fault);
            report.faults.push(fault);
            if !again {
                break;
            }
            eprintln!("fault {name}: tester or forwarder lost their cores for some time");
        }
    }
    drop((engine, forwarder));
    Ok(())
}

/// Runs `work` while `forwarder` forwards on `core`.
fn while_forwarding<T>(
    bench: &Testbed,
    core: u16,
    forwarder: &mut Forwarder<WorkerIo>,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let done = AtomicBool::new(false);
    let mut clock = bench.clock();
    std::thread::scope(|scope| {
        let target = scope.spawn(|| {
            on_core(bench.eal(), core, || {
                while !done.load(Ordering::Relaxed) {
                    forwarder.step(clock.ticks());
                }
                Ok(())
            })
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        target.join().map_err(|_| anyhow!("the forwarder's thread panicked"))??;
        result
    })
}

fn figures(report: &SelftestReport) -> Vec<Figure> {
    let ceiling = Figure::of("tester's ceiling", "pps", &[report.ceiling_pps]);
    let quiet = report.quiet.iter().flat_map(|quiet| &quiet.streams).map(|stream| {
        let name = format!("p50 of the tester itself, {}", stream.name);
        Figure::of(&name, "ns", &[stream.latency.p50_ns])
    });
    std::iter::once(ceiling).chain(quiet).collect()
}

/// The tester's ceiling: the rate that one core sends and receives at the same time with these sizes,
/// without a target. The best of three short trials on ports of the same kind as the target's.
///
/// # Errors
/// The ports cannot be opened; a size is impossible; [`Interrupted`].
pub(crate) fn ceiling(
    bench: &Testbed,
    size: &Size,
    reach: &TargetAccess,
    stop: &Stop,
) -> Result<TrialReport> {
    let wire = if matches!(reach, TargetAccess::Memif(_)) {
        SelftestLink::Memif
    } else {
        SelftestLink::Dpdk
    };
    let mut engine = back_to_back(bench, wire, &pair("ceiling", 20), stop)?;
    engine.set_streams(streams(size, wire == SelftestLink::Dpdk)?);
    let live = TrialProgress::default();
    let config = trial_config(CEILING_NS, OfferedRate::Max);
    let mut outcomes = Vec::new();
    for _ in 0..CEILING_TRIALS {
        stop.check()?;
        let run = || Ok(engine.run(&config, &live, stop));
        outcomes.push(bench.on_tester(&live, "tester's own ceiling", run)?);
    }
    stop.check()?;
    let hz = engine.hz();
    let reports = outcomes.iter().map(|outcome| TrialReport::new(None, &NAMES, outcome, hz));
    let best = reports.max_by_key(|report| report.received_pps);
    best.ok_or_else(|| anyhow!("no trial was run"))
}

/// One sentence for each failed check.
fn failures(report: &SelftestReport) -> Vec<String> {
    let mut failures = Vec::new();
    if report.ceiling_pps == 0 {
        failures.push("nothing came back".to_owned());
    }
    for trial in report.quiet.iter().chain(&report.half) {
        let lost: u64 = trial.streams.iter().map(|stream| stream.lost).sum();
        if lost > 0 && !trial.tester_limited {
            let rate = mpps(trial.rate_pps.unwrap_or_default());
            failures.push(format!("the tester itself lost {lost} packets at {rate}"));
        }
    }
    for FaultReport { fault, planted, found, .. } in &report.faults {
        if planted != found {
            failures.push(format!("fault {fault}: {planted} planted, {found} found"));
        } else if *planted == 0 && fault != "none" {
            failures.push(format!("fault {fault}: no packet got it; use a longer --duration"));
        }
    }
    failures
}

/// One sentence for each trial disturbed by an absence of the tester.
fn disturbed(report: &SelftestReport) -> Vec<String> {
    let trials = report.quiet.iter().chain(&report.half).filter(|trial| trial.tester_limited);
    trials
        .map(|trial| {
            format!(
                "the tester could not keep {}: its core was taken away for up to {} µs",
                mpps(trial.rate_pps.unwrap_or_default()),
                trial.gap_ns_max / 1000
            )
        })
        .collect()
}

fn print(report: &SelftestReport) {
    println!("ceiling      {} (one core sends and receives)", mpps(report.ceiling_pps));
    if let Some(quiet) = &report.quiet {
        for stream in &quiet.streams {
            let (own, late) = (&stream.latency, &stream.lateness);
            println!(
                "time stamps  {}: min {} ns, p50 {} ns, p99.9 {} ns, max {} ns; sends p99.9 {} ns late",
                stream.name, own.min_ns, own.p50_ns, own.p99_9_ns, own.max_ns, late.p99_9_ns
            );
        }
    }
    if let Some(half) = &report.half {
        let lost: u64 = half.streams.iter().map(|stream| stream.lost).sum();
        let sent: u64 = half.streams.iter().map(|stream| stream.sent).sum();
        println!("loss floor   {lost} of {sent} packets at {}", mpps(half.offered_pps));
    }
    for fault in &report.faults {
        println!("fault        {}: {} planted, {} found", fault.fault, fault.planted, fault.found);
    }
    for warning in &report.header.warnings {
        println!("warning      {warning}");
    }
    println!("{}", if report.passed { "passed" } else { "failed" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(faults: &[(&str, u64, u64)]) -> SelftestReport {
        let fault = |(fault, planted, found): &(&str, u64, u64)| FaultReport {
            fault: (*fault).to_owned(),
            planted: *planted,
            found: *found,
            trial: TrialReport::default(),
        };
        SelftestReport {
            header: ReportHeader::default(),
            wire: SelftestLink::Memif,
            size: "64".parse().unwrap(),
            ceiling_pps: 1,
            ceiling: None,
            quiet: None,
            half: None,
            faults: faults.iter().map(fault).collect(),
            figures: Vec::new(),
            passed: false,
        }
    }

    #[test]
    fn each_planted_fault_must_be_found_and_one_must_be_planted() {
        assert!(failures(&report(&[("none", 0, 0), ("drop", 2, 2), ("delay", 7, 7)])).is_empty());
        for fault in [("none", 0, 1), ("drop", 3, 2), ("reorder", 10, 9), ("delay", 2, 3)] {
            let sentences = failures(&report(&[fault]));
            let wanted = format!("fault {}: {} planted, {} found", fault.0, fault.1, fault.2);
            assert_eq!(sentences, [wanted]);
        }
        let [sentence] = &failures(&report(&[("drop", 0, 0)]))[..] else { panic!("one sentence") };
        assert!(sentence.contains("no packet got it"), "{sentence}");
    }

    #[test]
    fn loss_of_the_tester_itself_fails_unless_its_core_was_taken() {
        let mut report = report(&[]);
        let stream = crate::report::StreamReport { lost: 1, ..Default::default() };
        report.half = Some(TrialReport { streams: vec![stream], ..TrialReport::default() });
        assert_eq!((failures(&report).len(), disturbed(&report).len()), (1, 0));
        report.half.iter_mut().for_each(|half| half.tester_limited = true);
        assert_eq!((failures(&report).len(), disturbed(&report).len()), (0, 1));
    }
}
