//! `adit-lab selftest`: measures the tester's own highest rate and errors on back-to-back ports in
//! one process, and whether it detects planted faults.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adit_dpdk::{Port, WorkerIo, WorkerPort};
use adit_types::{MacAddr, PortId, Qfi, VlanId};
use adit_wire::PduSessionContainer;
use anyhow::{Result, anyhow};
use clap::ValueEnum;

use super::any_engine::AnyEngine;
use super::measurement::{LabMeasurement, Prepared};
use super::progress::mpps;
use super::quantity::{Quantity, higher, lower, plain};
use super::report::{OutputArguments, Report, StreamReport, TrialReport};
use super::target::TargetAccess;
use super::target::rules::possible_value;
use super::testbed::{Testbed, TestbedArguments, memif_socket, on_core, wait_for_links};
use super::traffic::{Size, rate_pps};
use adit_lab_engine::clock::{NS_PER_S, TickClock, TscClock};
use adit_lab_engine::fault::{DELAY_NS, Fault, Forwarder, packets_with_fault};
use adit_lab_engine::frame::{Endpoints, FrameFormat, Template, TesterTunnel, UePacketKind};
use adit_lab_engine::neighbor::Neighbors;
use adit_lab_engine::pacer::{OfferedRate, RateStep};
use adit_lab_engine::plan::{PlanConfig, SessionOrder, draw_plan};
use adit_lab_engine::stream::StreamConfig;
use adit_lab_engine::trial::{Engine, TrialConfig, TrialProgress};
use adit_lab_process::stop::{Interrupted, Stop, environment};

/// Packets per second that one core sends and receives at the same time.
const CEILING: Quantity<'_> = higher("tester's ceiling", "pps");
/// The latency at a low rate, which is the tester's own time stamp error.
const OWN_P50: Quantity<'_> = lower("p50 of the tester itself", "ns");
const OWN_P99_9: Quantity<'_> = lower("p99.9 of the tester itself", "ns");
const OWN_MAX: Quantity<'_> = lower("max of the tester itself", "ns");
/// The delay of bursts behind their schedule.
const LATE_P99_9: Quantity<'_> = lower("p99.9 of late sending", "ns");
/// Packets of one stream in a trial in which the tester must not lose any.
const SENT: Quantity<'_> = plain("sent", "packets");
const LOST: Quantity<'_> = lower("lost by the tester", "packets");
const PLANTED: Quantity<'_> = plain("planted", "packets");
const FOUND: Quantity<'_> = plain("found", "packets");

/// Sessions of the self-test.
const SESSIONS: usize = 100_000;
/// Rate of the time stamp measurement. Unit: packets per second and stream.
const QUIET_PPS: u64 = 50_000;
/// Number of trials of the tester's ceiling before a measurement. The best one counts, since
/// disturbances only slow the tester down.
const CEILING_TRIALS: usize = 3;
/// Duration of a trial of the ceiling. Unit: ns.
const CEILING_NS: u64 = 400_000_000;
/// Maximum number of trials of one fault; disturbed trials are repeated.
const FAULT_TRIALS_MAX: usize = 3;
const LINK_TIMEOUT: Duration = Duration::from_secs(10);

/// Ports of the self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SelftestLink {
    /// The tester's own memif, which returns packets on the same core: the ceiling for adit and
    /// testpmd.
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

/// A part of the self-test, in the order of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelftestCase {
    /// The highest rate.
    Ceiling,
    /// A low rate.
    Quiet,
    /// Half of the highest rate: its loss is the tester's own.
    Half,
    /// A fault in a forwarder between the ports, or the forwarder alone.
    Planted(Option<Fault>),
}

impl SelftestCase {
    const WITHOUT_FAULTS: [Self; 3] = [Self::Ceiling, Self::Quiet, Self::Half];
    const FAULTS: [Self; 5] = [
        Self::Planted(None),
        Self::Planted(Some(Fault::Drop)),
        Self::Planted(Some(Fault::Duplicate)),
        Self::Planted(Some(Fault::Reorder)),
        Self::Planted(Some(Fault::Delay)),
    ];

    fn name(self) -> String {
        match self {
            Self::Ceiling => "at the highest rate".to_owned(),
            Self::Quiet => "at a low rate".to_owned(),
            Self::Half => "at half the ceiling".to_owned(),
            Self::Planted(fault) => format!("fault {}", fault.map_or("none", Fault::name)),
        }
    }
}

/// The ports of the self-test. Fields drop in order: engines release ports before DPDK ends.
pub(crate) struct SelftestRig {
    engine: Option<AnyEngine>,
    faults: Option<FaultRig>,
    live: TrialProgress,
    bench: Testbed,
    ceiling_pps: u64,
}

/// Tester and forwarder.
struct FaultRig {
    engine: Engine<WorkerIo, TscClock>,
    forwarder: Forwarder<WorkerIo>,
    core: u16,
    _ports: Vec<Port>,
}

impl LabMeasurement for SelftestArguments {
    const NAME: &'static str = "selftest";
    type Rig = SelftestRig;
    type Case = SelftestCase;

    fn output(&self) -> &OutputArguments {
        &self.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        let wires = devices(self.wire, self.faults);
        let bench = Testbed::start(&self.bench, &wires)?;
        report.record_tester(&bench);
        report.condition("wire", possible_value(&self.wire));
        report.condition("size", self.size.title());
        let mut engine = back_to_back(&bench, self.wire, &wires, stop)?;
        engine.set_streams(streams(&self.size, self.wire == SelftestLink::Dpdk)?);
        let live = TrialProgress::default();
        let (engine, faults) = (Some(engine), None);
        let mut cases = SelftestCase::WITHOUT_FAULTS.to_vec();
        cases.extend(SelftestCase::FAULTS.into_iter().filter(|_| self.faults));
        Ok(Some((SelftestRig { engine, faults, live, bench, ceiling_pps: 0 }, cases)))
    }

    fn measure(
        &self,
        rig: &mut SelftestRig,
        case: &SelftestCase,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()> {
        let rate = match case {
            SelftestCase::Ceiling => OfferedRate::Max,
            SelftestCase::Quiet => OfferedRate::Pps(QUIET_PPS),
            SelftestCase::Half => OfferedRate::Pps(rig.ceiling_pps / 4),
            SelftestCase::Planted(fault) => {
                return self.run_fault_trials(rig, *fault, report, stop);
            }
        };
        let trial = self.trial(rig, rate, stop)?;
        add_trial(*case, &trial, report);
        if *case == SelftestCase::Ceiling {
            rig.ceiling_pps = trial.received_pps;
            report.add(CEILING, "", [trial.received_pps]);
        }
        report.case(&case.name()).trials.push(trial);
        Ok(())
    }

    fn conclude(&self, rig: SelftestRig, _: &mut Report) -> Result<()> {
        drop(rig);
        Ok(())
    }
}

impl SelftestArguments {
    fn trial(&self, rig: &mut SelftestRig, rate: OfferedRate, stop: &Stop) -> Result<TrialReport> {
        let engine = rig.engine.as_mut().ok_or_else(|| anyhow!("the ports are closed"))?;
        let (hz, live) = (engine.hz(), &rig.live);
        let pps = total_pps(rate);
        live.rate_pps.store(pps.unwrap_or_default(), Ordering::Relaxed);
        let config = trial_config(self.duration * NS_PER_S, rate);
        let run = || Ok(engine.run(&config, live, stop));
        let outcome = rig.bench.on_tester(live, "selftest", run)?;
        if !outcome.complete {
            return Err(Interrupted.into());
        }
        Ok(TrialReport::new(pps, &NAMES, &outcome, hz))
    }

    /// Runs trials with a fault, until one is not disturbed.
    fn run_fault_trials(
        &self,
        rig: &mut SelftestRig,
        fault: Option<Fault>,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()> {
        rig.engine = None;
        if rig.faults.is_none() {
            rig.faults = Some(self.forwarder(&rig.bench, report, stop)?);
        }
        let Some(faults) = &mut rig.faults else { unreachable!("it was just made") };
        let FaultRig { engine, forwarder, core, .. } = faults;
        let (bench, live) = (&rig.bench, &rig.live);
        let rate = OfferedRate::Pps((self.fault_rate / 2).min(rig.ceiling_pps / 8));
        let (hz, pps) = (engine.clock.hz(), total_pps(rate));
        live.rate_pps.store(pps.unwrap_or_default(), Ordering::Relaxed);
        let config = trial_config(self.duration * NS_PER_S, rate);
        let name = SelftestCase::Planted(fault).name();
        for trials_left in (0..FAULT_TRIALS_MAX).rev() {
            stop.check()?;
            forwarder.plant(fault);
            let what = format!("selftest, {name}");
            let outcome = while_forwarding(bench, *core, forwarder, || {
                bench.on_tester(live, &what, || Ok(engine.run(&config, live, stop)))
            })?;
            let (planted, seen) =
                (forwarder.faults_injected(), packets_with_fault(fault, &outcome, hz));
            let trial = TrialReport::new(pps, &NAMES, &outcome, hz);
            let again = planted != seen && is_disturbed(&trial) && trials_left > 0;
            report.case(&name).trials.push(trial);
            if !again {
                report.add(PLANTED, &name, [planted]);
                report.add(FOUND, &name, [seen]);
                report.findings.extend(wrong_detection(fault, planted, seen));
                break;
            }
            eprintln!("{name}: tester or forwarder lost their cores for some time");
        }
        Ok(())
    }

    /// Opens two memif pairs between tester and forwarder.
    fn forwarder(&self, bench: &Testbed, report: &mut Report, stop: &Stop) -> Result<FaultRig> {
        let core = bench.other_core().unwrap_or_else(|| {
            report.warn("tester and forwarder share the only core");
            bench.core()
        });
        report.cores("forwarder", &[core]);
        // In each pair the tester's port comes first.
        let names: Vec<String> = FORWARDER_MEMIFS
            .into_iter()
            .flat_map(|(name, first)| memif_pair(name, first))
            .collect();
        let (ports, queues) = open(bench, &names, stop)?;
        let mut queues = queues.into_iter();
        let mut take = || queues.next().ok_or_else(|| anyhow!("a port is missing"));
        let (tester_0, target_0, tester_1, target_1) = (take()?, take()?, take()?, take()?);
        let io = WorkerIo::new(vec![tester_0, tester_1], bench.pool());
        let mut engine = Engine::new(io, bench.clock(), Neighbors::default(), 2);
        engine.set_streams(streams(&self.size, true)?);
        let io = WorkerIo::new(vec![target_0, target_1], bench.pool());
        let delay = bench.clock().ticks_of_ns(DELAY_NS);
        let forwarder = Forwarder::new(io, None, self.one_in, delay);
        Ok(FaultRig { engine, forwarder, core, _ports: ports })
    }
}

/// Returns the rate of both streams together; `None` for the maximum.
fn total_pps(rate: OfferedRate) -> Option<u64> {
    match rate {
        OfferedRate::Max => None,
        OfferedRate::Pps(pps) => Some(2 * pps),
    }
}

/// Adds figures of a trial without faults, and findings if something is wrong with it.
fn add_trial(case: SelftestCase, trial: &TrialReport, report: &mut Report) {
    let sum = |value: fn(&StreamReport) -> u64| trial.streams.iter().map(value).sum::<u64>();
    let lost = sum(|stream| stream.lost);
    let rate = mpps(trial.rate_pps.unwrap_or_default());
    match case {
        SelftestCase::Ceiling if trial.received_pps == 0 => {
            report.findings.push("nothing came back".to_owned());
        }
        SelftestCase::Quiet | SelftestCase::Half if trial.tester_limited => report.warn(format!(
            "the tester could not keep {rate}: its core was taken away for up to {} µs",
            trial.gap_ns_max / 1000
        )),
        SelftestCase::Quiet | SelftestCase::Half if lost > 0 => {
            report.findings.push(format!("the tester itself lost {lost} packets at {rate}"));
        }
        _ => {}
    }
    match case {
        SelftestCase::Quiet => {
            for StreamReport { name, latency, lateness, .. } in &trial.streams {
                report.add(OWN_P50, name, [latency.p50_ns]);
                report.add(OWN_P99_9, name, [latency.p99_9_ns]);
                report.add(OWN_MAX, name, [latency.max_ns]);
                report.add(LATE_P99_9, name, [lateness.p99_9_ns]);
            }
        }
        SelftestCase::Half => {
            report.add(SENT, &case.name(), [sum(|stream| stream.sent)]);
            report.add(LOST, &case.name(), [lost]);
        }
        _ => {}
    }
}

/// Returns a finding if the tester detected another number of faults than were planted, or if none
/// was planted.
fn wrong_detection(fault: Option<Fault>, planted: u64, found: u64) -> Option<String> {
    let name = fault.map_or("none", Fault::name);
    match planted {
        _ if planted != found => Some(format!("fault {name}: {planted} planted, {found} found")),
        0 if fault.is_some() => {
            Some(format!("fault {name}: no packet got it; use a longer --duration"))
        }
        _ => None,
    }
}

/// True if the tester was off its core so long that no packet overtook a delayed one, or the
/// forwarder so long that its queue was full.
fn is_disturbed(trial: &TrialReport) -> bool {
    let refused: u64 = trial.streams.iter().map(|stream| stream.refused).sum();
    trial.gap_ns_max >= DELAY_NS / 2 || refused > 0
}

/// Returns device strings: the ports of the self-test, then two memif pairs around the forwarder.
fn devices(wire: SelftestLink, faults: bool) -> Vec<String> {
    let mut devices = match wire {
        SelftestLink::Memif => Vec::new(),
        SelftestLink::Dpdk => memif_pair("self", 0).to_vec(),
        SelftestLink::Ring => vec!["net_ring0".to_owned(), "net_ring1".to_owned()],
    };
    if faults {
        devices
            .extend(FORWARDER_MEMIFS.into_iter().flat_map(|(name, first)| memif_pair(name, first)));
    }
    devices
}

/// Names of the memifs between tester and forwarder, with the index of the first device of each.
const FORWARDER_MEMIFS: [(&str, u32); 2] = [("fault0", 2), ("fault1", 4)];

/// Returns the device strings of both ends of a memif.
fn memif_pair(name: &str, first: u32) -> [String; 2] {
    let socket = memif_socket(name);
    let end = |index: u32, role: &str| format!("net_memif{index},role={role},id=0,socket={socket}");
    [end(first, "server"), end(first + 1, "client")]
}

/// Makes an engine on joined ports, or on ports that return each packet.
fn back_to_back(
    bench: &Testbed,
    wire: SelftestLink,
    devices: &[String],
    stop: &Stop,
) -> Result<AnyEngine> {
    if wire == SelftestLink::Memif {
        return AnyEngine::mirrored(bench);
    }
    let names: Vec<String> = devices.iter().take(2).cloned().collect();
    let (ports, queues) = open(bench, &names, stop)?;
    let io = WorkerIo::new(queues, bench.pool());
    Ok(AnyEngine::dpdk(bench, io, ports, Neighbors::default()))
}

/// Opens joined ports, and waits for their links.
fn open(bench: &Testbed, names: &[String], stop: &Stop) -> Result<(Vec<Port>, Vec<WorkerPort>)> {
    let opened = names.iter().map(|name| bench.open(name)).collect::<Result<Vec<_>>>()?;
    let (ports, queues): (Vec<Port>, Vec<WorkerPort>) = opened.into_iter().unzip();
    wait_for_links(names, &ports, LINK_TIMEOUT, stop, || Ok(()))?;
    Ok((ports, queues))
}

/// Makes the streams: uplink from port 0, downlink from port 1.
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

/// Measures the tester's ceiling: the rate that one core sends and receives at the same time with
/// these sizes, without a target. Returns the best of three short trials on ports of the same kind
/// as the target's.
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
    let mut engine = back_to_back(bench, wire, &memif_pair("ceiling", 20), stop)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_planted_fault_must_be_found_and_one_must_be_planted() {
        assert_eq!(wrong_detection(None, 0, 0), None);
        assert_eq!(wrong_detection(Some(Fault::Drop), 2, 2), None);
        for (fault, planted, found) in
            [(None, 0, 1), (Some(Fault::Drop), 3, 2), (Some(Fault::Delay), 2, 3)]
        {
            let name = fault.map_or("none", Fault::name);
            let wanted = format!("fault {name}: {planted} planted, {found} found");
            assert_eq!(wrong_detection(fault, planted, found), Some(wanted));
        }
        let sentence = wrong_detection(Some(Fault::Drop), 0, 0).unwrap();
        assert!(sentence.contains("no packet got it"), "{sentence}");
    }

    #[test]
    fn loss_of_the_tester_itself_fails_unless_its_core_was_taken() {
        let stream = StreamReport { lost: 1, ..StreamReport::default() };
        let mut trial = TrialReport { streams: vec![stream], ..TrialReport::default() };
        let of = |case, trial: &TrialReport| {
            let mut report = Report::default();
            add_trial(case, trial, &mut report);
            (report.findings.len(), report.warnings.len())
        };
        assert_eq!(of(SelftestCase::Half, &trial), (1, 0));
        trial.tester_limited = true;
        assert_eq!(of(SelftestCase::Half, &trial), (0, 1));
        assert_eq!(of(SelftestCase::Ceiling, &trial), (1, 0), "nothing came back");
    }
}
