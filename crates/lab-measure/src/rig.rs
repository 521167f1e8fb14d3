//! The rig of a measurement: the tester, the target and its sessions.

mod change;
mod close;
mod course;
mod load;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_types::{MacAddr, PortId};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use self::close::record_target;

use super::absence::{CoreAbsence, absence_ns_min};
use super::agreement::TesterTotals;
use super::any_engine::{AnyEngine, UnlinkedPorts};
use super::progress::mpps;
use super::report::{Report, TrialReport};
use super::selftest;
use super::target::{RunningTarget, TargetAccess, TargetArguments, TargetKind};
use super::testbed::{Testbed, TestbedArguments, on_core};
use super::traffic::{Size, TrafficDirection};
use adit_lab_engine::clock::{NS_PER_S, scaled};
use adit_lab_engine::frame::Template;
use adit_lab_engine::pacer::{OfferedRate, RateStep};
use adit_lab_engine::plan::{PlanConfig, PlannedPacket, SessionOrder, draw_plan};
use adit_lab_engine::stream::StreamConfig;
use adit_lab_engine::trial::{StreamOutcome, TrialConfig, TrialOutcome, TrialProgress};
use adit_lab_process::adit_config::ExecutionModel;
use adit_lab_process::stop::{Interrupted, Stop, environment};
use adit_lab_smf::LabSmf;
use adit_lab_smf::bulk::{SessionsConfig, UpfSessionIds};
use adit_lab_smf::churn::Churn;
use adit_lab_smf::exchange::ProcedureReport;

/// TEID of session 0 at its gNB.
pub(crate) const GNB_TEID: u32 = 0x4000_0000;
/// Maximum time for a neighbor to answer.
pub(crate) const ARP_TIMEOUT: Duration = Duration::from_secs(5);
/// Rate of the first trial, which shows whether packets come back at all.
const FIRST_PPS: u64 = 2000;
const FIRST_NS: u64 = 500_000_000;
/// Rate of the warm-up: targets process a session's first packet at a fraction of their rate.
const WARM_UP_PPS: u64 = 400_000;
const WARM_UP_NS_MIN: u64 = 100_000_000;
/// Time in which the first packet of a direction must come back; the target may resolve its
/// neighbors meanwhile.
const FIRST_PACKET_TIMEOUT: Duration = Duration::from_secs(5);
const DRAIN_NS: u64 = 500_000_000;
/// A trial ends when no packet has arrived for this long. With churn the wait is [`DRAIN_NS`],
/// since targets hold packets of idle sessions for longer. Unit: ns.
const QUIET_NS: u64 = 100_000_000;
/// The tester skips packets that are later than this, which exceeds a time slice of another
/// process. Unit: ns.
const LATE_MAX_NS: u64 = 10_000_000;
/// Trials of at least this length contain a whole second of the target's statistics. Unit: ns.
const RATE_NS_MIN: u64 = 2_000_000_000;
/// Results above this share of the tester's own ceiling get a warning. Unit: percent.
const CEILING_SHARE_PERCENT: u64 = 90;
const NO_SESSIONS: &str = "this target has no sessions";

/// The traffic of a trial, apart from its rate.
#[derive(Debug, Clone)]
pub(crate) struct TrialCase {
    /// Which streams run.
    pub direction: TrafficDirection,
    /// Sizes of the UEs' packets.
    pub size: Size,
    /// Sessions with traffic.
    pub active: u32,
    /// Order of the sessions in the traffic.
    pub order: SessionOrder,
}

impl TrialCase {
    /// Returns the name of the case in reports.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        format!("{} {}, {} active", self.direction.name(), self.size.title(), self.active)
    }

    /// Returns the position of the case on the axes of plots.
    #[must_use]
    pub(crate) fn axes(&self) -> BTreeMap<String, Value> {
        let (size, value) = match self.size.bytes() {
            Some(bytes) if self.size.is_payload() => ("payload, bytes", json!(bytes)),
            Some(bytes) => ("IP packet, bytes", json!(bytes)),
            None => ("size", json!(self.size.title())),
        };
        let direction = json!(self.direction.name());
        let axes =
            [("direction", direction), (size, value), ("active sessions", json!(self.active))];
        axes.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Adds the case to a report. Returns the name of the case.
    pub(crate) fn add_to(&self, report: &mut Report) -> String {
        let name = self.name();
        report.case(&name).axes = self.axes();
        name
    }
}

/// Everything that a trial needs. Fields drop in order: ports close before DPDK ends.
#[derive(Debug)]
pub(crate) struct Rig {
    engine: AnyEngine,
    smf: Option<LabSmf>,
    /// The target.
    pub target: RunningTarget,
    bench: Testbed,
    /// Raised to end the measurement.
    stop: Stop,
    arguments: TargetArguments,
    /// Configuration of the sessions; `None` if the target has none.
    sessions_config: Option<SessionsConfig>,
    next_hops: [MacAddr; 2],
    sessions: UpfSessionIds,
    burst: usize,
    /// Capacity of a queue on either side. Unit: packets.
    queue_pkts: u64,
    /// Report of the establishment: duration, latency and failures.
    pub established: Option<ProcedureReport>,
    /// The tester's own ceiling, if it was measured. Unit: packets per second.
    ceiling_pps: Option<u64>,
    live: TrialProgress,
    /// Changes of sessions during the trials.
    churn: Option<Churn>,
    cpu: Option<BTreeMap<u16, u64>>,
    /// Packets sent and received in all trials.
    pub totals: TesterTotals,
}

impl Rig {
    /// Measures the tester's ceiling, starts the target, establishes the sessions, and verifies
    /// that packets come back.
    ///
    /// # Errors
    /// A step fails; [`Interrupted`].
    pub(crate) fn build(
        report: &mut Report,
        bench_arguments: &TestbedArguments,
        arguments: &TargetArguments,
        calibrate: Option<&Size>,
        stop: &Stop,
    ) -> Result<Self> {
        let reach = arguments.reach()?;
        // Report mistakes in rules and names before anything starts.
        let sessions_config =
            arguments.is_upf().then(|| arguments.sessions_config(GNB_TEID)).transpose()?;
        let devices: &[String] =
            if let TargetAccess::Dpdk(devices) = &reach { devices } else { &[] };
        arguments.check_model()?;
        let bench = Testbed::start(bench_arguments, devices)?;
        report.record_tester(&bench);
        record_target(arguments, report);
        let core = arguments.core(&bench)?;
        record_cores(arguments, &bench, core, report);
        if let Some(size) = calibrate {
            report.ceiling = Some(selftest::ceiling(&bench, size, &reach, stop)?);
        }
        let start = || RunningTarget::start(arguments, &bench, core);
        let (waiting, mut target) = UnlinkedPorts::open_with_target(&bench, &reach, start, stop)?;
        let engine = waiting.drive(&bench, &mut target, arguments, stop)?;
        let queue_pkts = engine.queue_pkts(bench_arguments.descriptors);
        let mut rig = Self {
            engine,
            smf: None,
            target,
            bench,
            stop: stop.clone(),
            arguments: arguments.clone(),
            sessions_config,
            next_hops: [MacAddr([2, 0, 0, 0, 0, 2]); 2],
            sessions: UpfSessionIds {
                uplink_teids: vec![1; usize::try_from(arguments.sessions).unwrap_or(1)],
                up_seids: Vec::new(),
            },
            burst: 32,
            queue_pkts,
            established: None,
            ceiling_pps: report.ceiling.as_ref().map(|ceiling| ceiling.received_pps),
            live: TrialProgress::default(),
            churn: None,
            cpu: None,
            totals: TesterTotals::default(),
        };
        if arguments.is_upf() {
            rig.establish()?;
            rig.resolve()?;
        }
        report
            .procedures
            .extend(rig.established.clone().map(|of| ("establishment".to_owned(), of)));
        rig.first_packets()?;
        Ok(rig)
    }

    /// Establishes association and sessions. Meanwhile the tester's thread serves the ports, since
    /// the UPF resolves MAC addresses.
    fn establish(&mut self) -> Result<()> {
        let (arguments, stop) = (&self.arguments, &self.stop);
        let mut smf = arguments.lab_smf()?;
        let config = self.sessions_config.as_ref().context(NO_SESSIONS)?;
        let (target, timeout) = (&mut self.target, arguments.timeout());
        eprintln!("establishing {} sessions with {}", config.count, arguments.pfcp.n4);
        let (sessions, report) = serve_while(
            &self.bench,
            || self.engine.serve(),
            || {
                let mut watch = || {
                    stop.check()?;
                    target.check()
                };
                smf.associate(timeout, &mut watch)?;
                smf.establish_all(config, &mut watch)
            },
        )?;
        smf.answer_in_background()?;
        self.sessions = sessions;
        self.established = Some(report);
        self.smf = Some(smf);
        Ok(())
    }

    /// Resolves the UPF's MAC addresses on N3 and N6.
    fn resolve(&mut self) -> Result<()> {
        let wanted = self.arguments.network.next_hops();
        let (engine, stop) = (&mut self.engine, &self.stop);
        let found = on_tester_quietly(&self.bench, || {
            wanted
                .iter()
                .map(|(port, address)| engine.resolve(*port, *address, ARP_TIMEOUT, stop))
                .collect::<Vec<_>>()
        })?;
        stop.check()?;
        for ((slot, found), (_, address)) in self.next_hops.iter_mut().zip(found).zip(wanted) {
            *slot = found.with_context(|| {
                format!(
                    "no answer to ARP or neighbor discovery for {address} within {ARP_TIMEOUT:?}"
                )
            })?;
        }
        Ok(())
    }

    /// Verifies that packets come back, before any measurement.
    fn first_packets(&mut self) -> Result<()> {
        for direction in [TrafficDirection::Uplink, TrafficDirection::Downlink] {
            let case = TrialCase {
                direction,
                size: "128".parse().map_err(|error: String| anyhow!(error))?,
                active: u32::try_from(self.sessions.uplink_teids.len())
                    .unwrap_or(u32::MAX)
                    .min(1000),
                order: SessionOrder::Sequential,
            };
            self.set_case(&case)?;
            let end = Instant::now() + FIRST_PACKET_TIMEOUT;
            while let Some(reason) = self.first_trial(&case)? {
                if Instant::now() > end {
                    bail!("{reason}");
                }
            }
        }
        Ok(())
    }

    /// Sends the first packets of a case. Returns the reason why the target seems not to forward;
    /// `None` if a packet came back.
    fn first_trial(&mut self, case: &TrialCase) -> Result<Option<String>> {
        let rate = OfferedRate::Pps(FIRST_PPS);
        let outcome = self.run(case, rate, FIRST_NS, "first packets")?;
        let sum = |figure: fn(&StreamOutcome) -> u64| outcome.sum(figure);
        Ok((sum(|stream| stream.arrivals.received) == 0).then(|| {
            format!(
                "none of {} {} packets came back ({} on a wrong port or in a wrong tunnel, {} other frames): \
                 the target does not forward them",
                sum(|stream| stream.sending.sent),
                case.direction.name(),
                sum(|stream| stream.arrivals.misdelivered),
                outcome.other_frames
            )
        }))
    }

    /// Sends a packet to every active session, so that trials do not measure first packets.
    pub(crate) fn warm_up(&mut self, case: &TrialCase) -> Result<()> {
        let round = TrialCase { order: SessionOrder::Sequential, ..case.clone() };
        self.set_case(&round)?;
        let span = scaled(case.active.into(), NS_PER_S, WARM_UP_PPS).max(WARM_UP_NS_MIN);
        self.run(&round, OfferedRate::Pps(WARM_UP_PPS), span, "warm-up")?;
        Ok(())
    }

    /// Makes the frames and the transmit plan of a case.
    ///
    /// # Errors
    /// A size is impossible, or `active` exceeds the number of sessions.
    pub(crate) fn set_case(&mut self, case: &TrialCase) -> Result<()> {
        let arguments = &self.arguments;
        let active = usize::try_from(case.active).unwrap_or(usize::MAX);
        let all = &self.sessions.uplink_teids;
        let teids = all.get(..active).ok_or_else(|| {
            environment(format!(
                "{} active sessions are more than there are ({}, --sessions)",
                case.active,
                all.len()
            ))
        })?;
        let plan: Arc<[_]> = draw_plan(&PlanConfig {
            teids,
            first: 0,
            gnbs: &arguments.network.gnb_addresses(),
            source_ports: arguments.network.source_ports,
            weights: &case.size.weights,
            order: case.order,
            seed: 1,
        })
        .into();
        let stream = |uplink| self.stream(uplink, &case.size, Arc::clone(&plan));
        let streams = vec![stream(true)?, stream(false)?];
        self.engine.set_streams(streams);
        Ok(())
    }

    /// Makes the stream of a direction.
    fn stream(
        &self,
        uplink: bool,
        size: &Size,
        plan: Arc<[PlannedPacket]>,
    ) -> Result<StreamConfig> {
        let is_upf = self.arguments.is_upf();
        let (tx, rx) = match (is_upf, uplink) {
            (true, true) => (0, 1),
            (true, false) => (1, 0),
            (false, _) => (0, 0),
        };
        let mac = self.engine.mac(usize::from(tx == 1)).context("a port is missing")?;
        let [n3, n6] = self.next_hops;
        let form = self.arguments.network.form(uplink, mac, if uplink { n3 } else { n6 });
        let template = |len: &usize| {
            Template::new(&form, *len).map_err(|error| environment(format!("size {len}: {error}")))
        };
        let templates = size.lens.iter().map(template).collect::<Result<Vec<_>>>()?;
        Ok(StreamConfig {
            tx: PortId(tx),
            rx: PortId(rx),
            templates: templates.into(),
            plan,
            rx_teid: (is_upf && !uplink).then_some(GNB_TEID),
        })
    }

    fn run(
        &mut self,
        case: &TrialCase,
        rate: OfferedRate,
        duration_ns: u64,
        what: &str,
    ) -> Result<TrialOutcome> {
        let config = self.constant_rate_config(case, rate, duration_ns);
        self.run_trial(&config, what)
    }

    /// Makes the configuration of a trial at one rate. The progress line shows the rate.
    fn constant_rate_config(
        &self,
        case: &TrialCase,
        rate: OfferedRate,
        duration_ns: u64,
    ) -> TrialConfig {
        let pps = if let OfferedRate::Pps(pps) = rate { pps } else { 0 };
        self.live.rate_pps.store(pps, Ordering::Relaxed);
        let courses = case.direction.rates(rate).into_iter().map(RateStep::always).collect();
        self.trial_config(courses, pps, duration_ns)
    }

    /// Makes the configuration of a trial in which each stream follows its sequence of rates; `pps`
    /// is the rate of all streams together, zero if it varies.
    fn trial_config(&self, courses: Vec<Vec<RateStep>>, pps: u64, duration_ns: u64) -> TrialConfig {
        TrialConfig {
            courses,
            duration_ns,
            drain_ns: DRAIN_NS,
            quiet_ns: if self.churn.is_some() { DRAIN_NS } else { QUIET_NS },
            absence_ns_min: absence_ns_min(pps, self.queue_pkts),
            late_max_ns: LATE_MAX_NS,
            burst: self.burst,
            timeline: false,
            window_ns: 0,
        }
    }

    /// Runs one trial and adds it to the totals.
    fn run_trial(&mut self, config: &TrialConfig, what: &str) -> Result<TrialOutcome> {
        let (engine, live, stop) = (&mut self.engine, &self.live, &self.stop);
        let outcome = match &mut self.churn {
            None => self.bench.on_tester(live, what, || Ok(engine.run(config, live, stop)))?,
            Some(churn) => {
                let smf = self.smf.as_mut().context(NO_SESSIONS)?;
                self.bench.on_tester(live, what, || {
                    let mut failure = None;
                    let outcome = engine.run_with_callback(config, live, stop, &mut || {
                        if failure.is_none() {
                            failure = churn.step(smf).err();
                        }
                    });
                    failure.map_or(Ok(outcome), Err)
                })?
            }
        };
        self.totals.sent += outcome.sum(|stream| stream.sending.sent);
        self.totals.received += outcome.sum(|stream| {
            let arrivals = &stream.arrivals;
            arrivals.received + arrivals.duplicates + arrivals.too_late + arrivals.misdelivered
        });
        if config.duration_ns >= RATE_NS_MIN {
            self.totals.fastest_pps = self.totals.fastest_pps.max(fastest_second(&outcome));
        }
        self.target.check()?;
        Ok(outcome)
    }

    /// Returns the frequency of the tester's clock. Unit: Hz.
    #[must_use]
    pub(crate) fn hz(&self) -> u64 {
        self.engine.hz()
    }

    /// Runs one trial of the case set by [`Self::set_case`].
    ///
    /// # Errors
    /// The target has ended; [`Interrupted`].
    pub(crate) fn trial(
        &mut self,
        case: &TrialCase,
        rate: OfferedRate,
        duration_ns: u64,
        timeline: bool,
    ) -> Result<TrialReport> {
        self.cpu.get_or_insert_with(|| self.target.cpu_by_core());
        let waited = self.target.run_queue_wait();
        let config = TrialConfig { timeline, ..self.constant_rate_config(case, rate, duration_ns) };
        let outcome = self.run_trial(&config, &case.name())?;
        let target_ns =
            waited.zip(self.target.run_queue_wait()).map(|(before, now)| before.until(&now));
        let hz = self.engine.hz();
        let pps = if let OfferedRate::Pps(pps) = rate { Some(pps) } else { None };
        let mut report = TrialReport::new(pps, &["uplink", "downlink"], &outcome, hz);
        let (count, tester_ns) = (outcome.absences, outcome.absent_ns);
        let pps = report.offered_pps;
        report.absence = CoreAbsence::of(count, tester_ns, target_ns, pps, self.queue_pkts);
        if !outcome.complete {
            return Err(Interrupted.into());
        }
        Ok(report)
    }

    /// # Errors
    /// The rate is above the tester's measured ceiling.
    pub(crate) fn refuse_above_ceiling(&self, pps: u64) -> Result<()> {
        match self.ceiling_pps {
            Some(ceiling) if pps > ceiling => Err(environment(format!(
                "a rate of {} is above the tester's own ceiling on this machine ({})",
                mpps(pps),
                mpps(ceiling)
            ))),
            _ => Ok(()),
        }
    }

    /// Warns if a result is near the tester's ceiling.
    pub(crate) fn warn_near_ceiling(&self, report: &mut Report, what: &str, pps: u64) {
        let Some(ceiling) = self.ceiling_pps else { return };
        if pps.saturating_mul(100) > ceiling.saturating_mul(CEILING_SHARE_PERCENT) {
            report.warn(format!(
                "{what}: {} is within 10 % of the tester's own ceiling ({}); the target may be faster",
                mpps(pps),
                mpps(ceiling)
            ));
        }
    }

    /// Warns if the target's threads spent more than a tenth of their CPU time on the tester's core
    /// since the first trial.
    pub(crate) fn warn_of_shared_core(&self, report: &mut Report) {
        let (Some(before), now) = (&self.cpu, self.target.cpu_by_core()) else { return };
        let used = |core: u16| {
            let before = before.get(&core).copied().unwrap_or(0);
            now.get(&core).copied().unwrap_or(0).saturating_sub(before)
        };
        let total: u64 = now.keys().map(|core| used(*core)).sum();
        let shared = used(self.bench.core());
        if shared * 10 > total && total > 0 {
            report.warn(format!(
                "the target spent {shared} of {total} ticks of CPU time on the tester's core {}",
                self.bench.core()
            ));
        }
    }

    /// Returns the target's counters, and deletes the sessions of a target that keeps running.
    ///
    /// # Errors
    /// The sessions cannot be deleted.
    pub(crate) fn finish(&mut self, stop: &Stop) -> Result<Option<serde_json::Value>> {
        let counters = self.target.counters(stop);
        if let Some(smf) = self.smf.as_mut().filter(|_| self.arguments.target == TargetKind::Upf) {
            let engine = &mut self.engine;
            serve_while(&self.bench, || engine.serve(), || smf.delete_all(|| Ok(())))?;
        }
        Ok(counters)
    }
}

/// Records the target's cores, and warns if tester and target can disturb each other.
pub(crate) fn record_cores(
    arguments: &TargetArguments,
    bench: &Testbed,
    core: u16,
    report: &mut Report,
) {
    let started = arguments.start.is_some()
        || matches!(arguments.target, TargetKind::Adit | TargetKind::Testpmd);
    if started || arguments.target_core.is_some() {
        let cores = arguments.worker_cores(bench, core);
        report.cores("target", &cores);
        record_placement(arguments, report);
        if arguments.adit.model != ExecutionModel::RunToCompletion {
            let receiver = arguments.receiver_core(bench, core);
            report.cores("receiver", &[receiver]);
            if cores.contains(&receiver) {
                report.warn(format!(
                    "the receiver shares core {receiver} with a worker: rates are those of both together, and \
                     latencies contain the time that one waits for the other"
                ));
            }
        }
        if cores.len() < usize::from(arguments.adit.workers) {
            report.warn(format!(
                "{} workers requested, but this machine has cores for {} beside the tester's",
                arguments.adit.workers,
                cores.len()
            ));
        }
    } else {
        report.warn("adit-lab did not start the target: it may share the tester's core");
    }
    if core == bench.core() && started {
        report.warn(format!(
            "tester and target shared core {core}: the figures are valid for neither"
        ));
    }
}

/// Records the CPU that a placement plan has for control, and warns of rules that the plan breaks,
/// except of one that it was made to break.
fn record_placement(arguments: &TargetArguments, report: &mut Report) {
    let Some(placed) = &arguments.placed else { return };
    report.cores("control", &[placed.control]);
    for found in &placed.breaks {
        if arguments.adit.placement.as_ref().is_none_or(|choice| !choice.breaks(found)) {
            report.warn(format!("this machine leaves no better placement; it breaks {found}"));
        }
    }
}

/// Returns the highest received rate of a whole second, but at least the average of the trial.
/// Unit: packets per second.
fn fastest_second(outcome: &TrialOutcome) -> u64 {
    let whole = usize::try_from(outcome.sending_ns / 1_000_000_000).unwrap_or(0);
    let of_second = |at: usize| -> u64 {
        let seconds = outcome.streams.iter().filter_map(|stream| stream.seconds.get(at));
        seconds.map(|second| second.summary(1_000_000_000).count).sum()
    };
    let fastest = (0..whole).map(of_second).max().unwrap_or(0);
    fastest.max(outcome.pps(outcome.sum(|stream| stream.arrivals.received)))
}

/// Runs `work` on this thread, while a thread on the tester's core calls `serve`, which answers on
/// the ports.
pub(super) fn serve_while<T>(
    bench: &Testbed,
    mut serve: impl FnMut() + Send,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            on_core(bench.eal(), bench.core(), || {
                while !done.load(Ordering::Acquire) {
                    serve();
                    std::thread::sleep(Duration::from_micros(200));
                }
                Ok(())
            })
        });
        let result = work();
        done.store(true, Ordering::Release);
        server.join().map_err(|_| anyhow!("the tester's thread panicked"))??;
        result
    })
}

/// Runs `work` on a registered thread on the tester's core, without a progress line.
pub(super) fn on_tester_quietly<T: Send>(
    bench: &Testbed,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| on_core(bench.eal(), bench.core(), || Ok(work())));
        thread.join().map_err(|_| anyhow!("the tester's thread panicked"))?
    })
}
