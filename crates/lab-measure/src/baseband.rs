//! `adit-lab baseband`: response times of a baseband application's graph of threads on this
//! machine, and the throughput of a program that runs at the same time.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;

use crate::baseband_app::{
    BackgroundKind, BackgroundLoad, Calibration, LatencyRequest, ResponseTimes, SchedulingPolicy,
    StageTimes, TimeDistribution, TtiOutcome, Workload, WorkloadOutcome, time_ns,
};
use adit_lab_process::stop::{Stop, environment};

use crate::measurement::{LabMeasurement, Prepared};
use crate::plot::{LineStyle, Plot, Series, linear, logarithmic};
use crate::progress::show;
use crate::quantity::{Quantity, higher, lower};
use crate::report::{OutputArguments, Report};

const MISSED_TTIS: Quantity<'_> = lower("missed TTIs", "ppm");
const TIMED_OUT: Quantity<'_> = lower("scheduler timeouts", "ppm");
/// Execution times of a kind of thread, and the delay of the I/O thread (`release`).
const EXECUTION: [Quantity<'_>; 3] =
    [lower("execution p50", "ns"), lower("execution p99", "ns"), lower("execution max", "ns")];
/// Percentiles of the response time, except those that fall among TTIs without response.
const PERCENTILES: [(Quantity<'_>, f64); 5] = [
    (lower("response p50", "ns"), 50.0),
    (lower("response p90", "ns"), 90.0),
    (lower("response p99", "ns"), 99.0),
    (lower("response p99.9", "ns"), 99.9),
    (lower("response p99.99", "ns"), 99.99),
];
/// Time for the background program to reach its usual speed.
const BACKGROUND_WARM_UP: Duration = Duration::from_millis(500);
/// Above this excess of the median over the fastest round, the calibration gets a warning.
const EXCESS_PERMILLE_MAX: u64 = 100;

/// Distributions of execution times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum TimesKind {
    /// Each execution takes the time of its stage.
    #[default]
    Fixed,
    /// A gaussian distribution, whose tail is longer than the time of the stage.
    Gaussian,
}

/// Options of `adit-lab baseband`.
#[derive(Debug, clap::Args)]
pub struct BasebandArguments {
    /// Cells, each with an uplink and a downlink thread.
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u16).range(1..=64))]
    cells: u16,
    /// Duration of a TTI, and the deadline of its response.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = time_ns)]
    tti: u64,
    /// Time of an uplink thread.
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = time_ns)]
    uplink: u64,
    /// Time of the scheduler thread.
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = time_ns)]
    scheduler: u64,
    /// Time of a downlink thread.
    #[arg(long, value_name = "TIME", default_value = "300us", value_parser = time_ns)]
    downlink: u64,
    /// Distribution of execution times.
    #[arg(long, value_enum, default_value_t)]
    times: TimesKind,
    /// Mean of a gaussian distribution, in percent of the stage's time.
    #[arg(long, value_name = "PERCENT", default_value_t = 70,
        value_parser = clap::value_parser!(u8).range(1..=100))]
    mean_percent: u8,
    /// Standard deviation of a gaussian distribution, in percent of the stage's time.
    #[arg(long, value_name = "PERCENT", default_value_t = 10,
        value_parser = clap::value_parser!(u8).range(1..=100))]
    deviation_percent: u8,
    /// Scheduling policy of the threads.
    #[arg(long, value_enum, default_value_t)]
    policy: SchedulingPolicy,
    /// Real-time priority with --policy fifo; the I/O thread has the next higher one.
    #[arg(long, value_name = "N", default_value_t = 90,
        value_parser = clap::value_parser!(u8).range(1..=98))]
    priority: u8,
    /// Cores for the threads of the first cell, the second one and so on; the scheduler is on the
    /// first. With twice as many cores as cells, downlink threads have the second half. Default:
    /// the kernel chooses.
    #[arg(long, value_name = "CORE,…", value_delimiter = ',')]
    cores: Vec<u16>,
    /// Core of the I/O thread; default: the first of --cores.
    #[arg(long, value_name = "CORE")]
    io_core: Option<u16>,
    /// Give each thread a core-scheduling cookie of its own: nothing else runs on its sibling core
    /// at the same time.
    #[arg(long)]
    core_scheduling: bool,
    /// Hold /dev/cpu_dma_latency at this number of µs: cores enter no idle state with a longer
    /// wake-up, and with 0 none.
    #[arg(long, value_name = "US",
        value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    cpu_dma_latency: Option<u32>,
    /// Duration of a round.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time_ns)]
    duration: u64,
    /// Number of rounds.
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Program with normal priority that runs next to the workload. Its throughput is measured
    /// alone first, then together with the workload.
    #[arg(long, value_enum)]
    background: Option<BackgroundKind>,
    /// Cores of that program; default: all.
    #[arg(long, value_name = "CORE,…", value_delimiter = ',')]
    background_cores: Vec<u16>,
    /// Its threads; default: one for each of its cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    background_threads: Option<u16>,
    /// Speed of busy work from an earlier report, to give two machines or settings the same work;
    /// default: it is measured.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations_per_ms: Option<u64>,
    /// Seed of gaussian execution times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArguments,
}

/// A program that runs together with the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BackgroundSpec {
    /// The program.
    kind: BackgroundKind,
    /// CPU cores of the program; empty for all.
    cores: Vec<u16>,
    /// Number of threads of the program.
    threads: u16,
}

impl BasebandArguments {
    fn workload(&self) -> Result<Workload> {
        let distribution = match self.times {
            TimesKind::Fixed => TimeDistribution::Fixed,
            TimesKind::Gaussian => TimeDistribution::Gaussian {
                mean_percent: self.mean_percent.into(),
                deviation_percent: self.deviation_percent.into(),
            },
        };
        if !(100_000..=1_000_000_000).contains(&self.tti) {
            return Err(environment("--tti: expected 100us to 1s"));
        }
        let workload = Workload {
            cells: self.cells,
            tti_ns: self.tti,
            ttis: (self.duration / self.tti).max(1),
            times: StageTimes {
                uplink_ns: self.uplink,
                scheduler_ns: self.scheduler,
                downlink_ns: self.downlink,
            },
            distribution,
            policy: self.policy,
            priority: self.priority,
            cores: self.cores.clone(),
            io_core: self.io_core,
            core_scheduling: self.core_scheduling,
            seed: self.seed,
        };
        workload.check()?;
        Ok(workload)
    }

    fn background(&self, cpus: u32) -> Option<BackgroundSpec> {
        let cores = match self.background_cores.len() {
            0 => u16::try_from(cpus).unwrap_or(u16::MAX),
            count => u16::try_from(count).unwrap_or(u16::MAX),
        };
        let threads = self.background_threads.unwrap_or(cores).max(1);
        let kind = self.background?;
        Some(BackgroundSpec { kind, cores: self.background_cores.clone(), threads })
    }
}

/// The workload, the background program, and their results so far.
pub(crate) struct BasebandRig {
    workload: Workload,
    calibration: Calibration,
    background: Option<BackgroundSpec>,
    /// Outcomes of all TTIs so far.
    ttis: Vec<TtiOutcome>,
    rounds: usize,
    _latency: Option<LatencyRequest>,
}

impl LabMeasurement for BasebandArguments {
    const NAME: &'static str = "baseband";
    type Rig = BasebandRig;
    /// Index of a round.
    type Case = u32;

    fn output(&self) -> &OutputArguments {
        &self.output
    }

    fn prepare(&self, report: &mut Report, _: &Stop) -> Result<Prepared<Self>> {
        let workload = self.workload()?;
        let background = self.background(report.machine.cpus);
        let latency = self.cpu_dma_latency.map(LatencyRequest::hold).transpose()?;
        let calibration = match self.iterations_per_ms {
            Some(iterations) => Calibration::given(iterations),
            None => workload.calibrate()?,
        };
        warn(report, &workload, calibration);
        report.cores("baseband", &workload.cores);
        if let Some(spec) = &background {
            report.cores("background", &spec.cores);
            report.condition("background", format!("{:?}, {} threads", spec.kind, spec.threads));
        }
        report.condition("cells", workload.cells);
        report.condition("TTI", format!("{} µs", workload.tti_ns / 1000));
        report.condition("policy", workload.policy);
        report.condition("iterations of busy work per ms", calibration.iterations_per_ms);
        if let Some(latency_us) = self.cpu_dma_latency {
            report.condition("/dev/cpu_dma_latency", format!("held at {latency_us} µs"));
        }
        let (ttis, rounds, _latency) = (Vec::new(), 0, latency);
        let rig = BasebandRig { workload, calibration, background, ttis, rounds, _latency };
        Ok(Some((rig, (1..=self.rounds).collect())))
    }

    fn measure(
        &self,
        rig: &mut BasebandRig,
        number: &u32,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()> {
        let what = format!("round {number} of {}", self.rounds);
        rig.round(&what, report, stop)?;
        stop.check()
    }

    fn conclude(&self, rig: BasebandRig, report: &mut Report) -> Result<()> {
        // A figure that some round lacks is left out.
        report.figures.retain(|figure| !figure.case.is_empty() || figure.runs == rig.rounds);
        let without = rig.ttis.iter().filter(|tti| tti.response_ns.is_none()).count();
        if without > 0 {
            let text = "TTIs have no response, since a thread was busy with an earlier one; percentiles among them are missing";
            report.warn(format!("{without} {text}"));
        }
        let Workload { times, tti_ns, .. } = &rig.workload;
        report.plot(distribution(&ResponseTimes::of(&rig.ttis), times.path_ns(), *tti_ns));
        Ok(())
    }
}

/// Plots the distribution of the response times, with the times of the graph's path and of a TTI.
fn distribution(times: &ResponseTimes, path_ns: u64, tti_ns: u64) -> Plot {
    // Exact below 2^53.
    let us = |ns: u64| ns as f64 / 1e3;
    let points = times.cdf().into_iter();
    let points = points.map(|of| (us(of.response_ns), of.ttis_ppm as f64 / 1e6)).collect();
    let (x, y) = (logarithmic("response time, µs"), linear("share of the TTIs"));
    let mut plot = Plot::new("Response time", x, y, LineStyle::Line);
    plot.name = "response-cdf".to_owned();
    plot.series.push(Series::new("here", points));
    for (name, ns) in [("sum of the times", path_ns), ("TTI", tti_ns)] {
        plot.series.push(Series::reference(name, vec![(us(ns), 0.0), (us(ns), 1.0)]));
    }
    plot
}

fn warn(report: &mut Report, workload: &Workload, calibration: Calibration) {
    if workload.times.path_ns() > workload.tti_ns {
        report.warn("uplink, scheduler and downlink together take longer than a TTI");
    }
    let pinned = workload.cores.len();
    if pinned > 0 && pinned < workload.cells.into() {
        report.warn(format!("{} cells share {pinned} cores", workload.cells));
    }
    let excess = calibration.median_excess_permille;
    if excess > EXCESS_PERMILLE_MAX {
        report.warn(format!(
            "the median round of the calibration took {}.{} % longer than the fastest: others use the core, or its frequency changes",
            excess / 10,
            excess % 10
        ));
    }
}

impl BasebandRig {
    /// Runs one round: the background program alone, then together with the workload. Keeps the
    /// figures if the workload is interrupted, but not if the round is interrupted before.
    fn round(&mut self, what: &str, report: &mut Report, stop: &Stop) -> Result<()> {
        let mut load = match &self.background {
            None => None,
            Some(spec) => {
                show(&format!("{what}: {} alone", spec.kind.product()));
                Some(BackgroundLoad::start(spec.kind, &spec.cores, spec.threads, stop)?)
            }
        };
        let mut alone = None;
        if let Some(load) = &mut load {
            stop.sleep(BACKGROUND_WARM_UP)?;
            let span = Duration::from_nanos(self.workload.tti_ns * self.workload.ttis / 2);
            let meter = ThroughputMeter::start(load)?;
            stop.sleep(span)?;
            alone = Some(meter.per_minute(load)?);
        }
        let meter = load.as_mut().map(ThroughputMeter::start).transpose()?;
        let outcome =
            crate::baseband_app::run(&self.workload, self.calibration, stop, &mut |progress| {
                show(&format!("{what}: {} of {} TTIs", progress.ttis, progress.planned));
            })?;
        show("");
        let beside = match (&mut load, meter) {
            (Some(load), Some(meter)) => Some(meter.per_minute(load)?),
            _ => None,
        };
        add_round(&self.workload, &outcome, report);
        if let (Some(spec), Some(alone), Some(beside)) = (&self.background, alone, beside) {
            add_background(spec, [alone, beside], report);
        }
        self.ttis.extend(outcome.ttis);
        self.rounds += 1;
        Ok(())
    }
}

/// Counts what a program has produced: primes or frames.
struct ThroughputMeter {
    start: Instant,
    made: u64,
}

impl ThroughputMeter {
    fn start(load: &mut BackgroundLoad) -> Result<Self> {
        Ok(Self { made: load.product_count()?, start: Instant::now() })
    }

    fn per_minute(&self, load: &mut BackgroundLoad) -> Result<u64> {
        let (made, elapsed) = (load.product_count()?, self.start.elapsed());
        let made = u128::from(made.saturating_sub(self.made));
        let per_minute = made * 60_000_000 / elapsed.as_micros().max(1);
        Ok(u64::try_from(per_minute).unwrap_or(u64::MAX))
    }
}

/// Adds the figures of a round to the report.
fn add_round(workload: &Workload, outcome: &WorkloadOutcome, report: &mut Report) {
    let times = ResponseTimes::of(&outcome.ttis);
    report.add(lower("response min", "ns"), "", times.min_ns());
    report.add(lower("response mean", "ns"), "", times.mean_ns());
    for (quantity, percent) in PERCENTILES {
        report.add(quantity, "", times.percentile_ns(percent));
    }
    report.add(lower("response max", "ns"), "", times.max_ns());
    let ppm = |is_one: &dyn Fn(&TtiOutcome) -> bool| {
        let part = outcome.ttis.iter().filter(|tti| is_one(tti)).count();
        u64::try_from(part * 1_000_000).ok()?.checked_div(u64::try_from(outcome.ttis.len()).ok()?)
    };
    report.add(MISSED_TTIS, "", ppm(&|tti| tti.is_missed(workload.tti_ns)));
    report.add(TIMED_OUT, "", ppm(&|tti| tti.timed_out));
    for stage in &outcome.stages {
        let times = [stage.p50_ns, stage.p99_ns, stage.max_ns];
        for (quantity, ns) in EXECUTION.into_iter().zip(times) {
            report.add(quantity, &stage.stage, [ns]);
        }
    }
}

/// Adds the throughput per minute of the background program, alone and beside the workload.
fn add_background(spec: &BackgroundSpec, [alone, beside]: [u64; 2], report: &mut Report) {
    let unit = format!("{}/min", spec.kind.product());
    report.add(higher("background alone", &unit), "", [alone]);
    report.add(higher("background beside", &unit), "", [beside]);
    let share = (beside * 1000).checked_div(alone);
    report.add(higher("background share", "permille"), "", share);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> BasebandArguments {
        #[derive(Debug, clap::Parser)]
        struct BasebandCli {
            #[command(flatten)]
            arguments: BasebandArguments,
        }
        <BasebandCli as clap::Parser>::parse_from([&["baseband"], words].concat()).arguments
    }

    fn outcome(responses: &[Option<u64>]) -> WorkloadOutcome {
        let tti = |response_ns: &Option<u64>| TtiOutcome {
            response_ns: *response_ns,
            timed_out: response_ns.is_none(),
        };
        WorkloadOutcome {
            ttis: responses.iter().map(tti).collect(),
            stages: Vec::new(),
            complete: true,
        }
    }

    #[test]
    fn defaults_are_those_of_the_study() {
        let workload = arguments(&[]).workload().unwrap();
        assert_eq!((workload.cells, workload.tti_ns, workload.ttis), (2, 1_000_000, 10_000));
        assert_eq!(workload.times.path_ns(), 900_000);
        assert_eq!(workload.distribution, TimeDistribution::Fixed);
        let error = arguments(&["--tti=10us"]).workload().unwrap_err();
        assert_eq!(error.to_string(), "--tti: expected 100us to 1s");
    }

    #[test]
    fn background_has_a_thread_for_each_of_its_cores() {
        let spec = |words: &[&str]| arguments(words).background(4);
        assert_eq!(spec(&[]), None);
        assert_eq!(spec(&["--background=primes"]).unwrap().threads, 4);
        let pinned = spec(&["--background=primes", "--background-cores=0,1"]).unwrap();
        assert_eq!((pinned.threads, pinned.cores), (2, vec![0, 1]));
    }

    #[test]
    fn figures_count_missed_ttis_and_leave_out_what_a_round_lacks() {
        let workload = arguments(&[]).workload().unwrap();
        let spec = arguments(&["--background=primes"]).background(1).unwrap();
        let mut report = Report::default();
        let mut add = |responses: &[Option<u64>], share: u64| {
            add_round(&workload, &outcome(responses), &mut report);
            add_background(&spec, [1000, share], &mut report);
        };
        add(&[Some(900_000), Some(1_000_001)], 800);
        add(&[Some(910_000), None], 700);
        let find = |name: &str| report.figures.iter().find(|figure| figure.name == name);
        assert_eq!(find("missed TTIs").unwrap().median, 500_000);
        assert_eq!(find("scheduler timeouts").unwrap().values, [0, 500_000]);
        assert_eq!(find("response p50").unwrap().max, 910_000);
        assert_eq!(find("response p99").unwrap().runs, 1);
        let share = find("background share").unwrap();
        assert_eq!((share.min, share.max, &*share.unit), (700, 800, "permille"));
        assert_eq!(find("background alone").unwrap().unit, "primes/min");
        let (ttis, rounds) = (vec![TtiOutcome { response_ns: None, timed_out: false }], 2);
        let (background, calibration) = (None, Calibration::given(1));
        let rig = BasebandRig { workload, calibration, background, ttis, rounds, _latency: None };
        arguments(&[]).conclude(rig, &mut report).unwrap();
        assert!(report.figures.iter().all(|figure| figure.name != "response p99"));
        assert!(report.warnings[0].starts_with("1 TTIs have no response"));
    }

    #[test]
    fn distribution_has_the_ends_of_the_path_and_of_the_tti() {
        let ttis = outcome(&[Some(905_000), Some(1_400_000)]).ttis;
        let plot = distribution(&ResponseTimes::of(&ttis), 900_000, 1_000_000);
        assert_eq!((plot.series.len(), plot.series[0].points.last()), (3, Some(&(1400.0, 1.0))));
        assert_eq!(plot.series[2].points, [(1000.0, 0.0), (1000.0, 1.0)]);
    }
}
