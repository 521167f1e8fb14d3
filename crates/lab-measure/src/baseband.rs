//! `adit-lab baseband`: response times of a baseband application's graph of threads on this
//! machine, and the throughput of a program that runs at the same time.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use adit_lab_baseband::{
    BackgroundKind, BackgroundLoad, Calibration, CdfPoint, LatencyRequest, ResponseTimes,
    SchedulingPolicy, StageDurations, StageTimes, TimeDistribution, TtiOutcome, Workload,
    WorkloadOutcome, time_ns,
};
use adit_lab_process::stop::{Stop, environment};

use crate::progress::show;
use crate::report::{Figure, OutputArguments, Recorder, ReportHeader};

/// Percentiles of the response time in reports, with their names.
pub(crate) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];
/// Time in which the background program reaches its speed.
const BACKGROUND_WARM_UP: Duration = Duration::from_millis(500);
/// Above this excess of the median round over the fastest one, the calibration gets a warning.
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
    /// Cores for the threads of the first cell, the second one and so on; the scheduler is on the first. With twice as many
    /// cores as cells, downlink threads have the second half. Default: the kernel chooses.
    #[arg(long, value_name = "CORE,…", value_delimiter = ',')]
    cores: Vec<u16>,
    /// Core of the I/O thread; default: the first of --cores.
    #[arg(long, value_name = "CORE")]
    io_core: Option<u16>,
    /// Give each thread a core-scheduling cookie of its own: nothing else runs on its sibling core
    /// at the same time.
    #[arg(long)]
    core_scheduling: bool,
    /// Hold /dev/cpu_dma_latency at this number of µs: cores enter no idle state with a longer wake-up, and with 0 none.
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
    /// Speed of busy work from an earlier report, to give two machines or settings the same work; default: it is measured.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations_per_ms: Option<u64>,
    /// Seed of gaussian execution times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArguments,
}

/// A program that runs together with the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackgroundSpec {
    /// The program.
    pub kind: BackgroundKind,
    /// Its cores; none for all.
    pub cores: Vec<u16>,
    /// Its threads.
    pub threads: u16,
}

/// The report of `adit-lab baseband`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BasebandReport {
    /// Machine, time, warnings.
    #[serde(flatten)]
    pub header: ReportHeader,
    /// The workload.
    pub workload: Workload,
    /// The request for a wake-up latency. Unit: µs.
    pub cpu_dma_latency_us: Option<u32>,
    /// The speed of busy work.
    pub calibration: Calibration,
    /// The program that runs together with the workload.
    pub background: Option<BackgroundSpec>,
    /// The figures to compare.
    pub figures: Vec<Figure>,
    /// The distribution of the response times of all rounds.
    pub cdf: Vec<CdfPoint>,
    /// The rounds.
    pub rounds: Vec<BasebandRound>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BasebandRound {
    /// TTIs that began.
    pub ttis: u64,
    /// Those with a late response, with a timeout of the scheduler, or without response.
    pub missed: u64,
    /// Those whose scheduler thread did not wait for all uplink threads.
    pub timed_out: u64,
    /// Those in which a thread was still busy with an earlier TTI.
    pub without_response: u64,
    /// Shortest response time. Unit: ns.
    pub min_ns: Option<u64>,
    /// Mean of the response times. Unit: ns.
    pub mean_ns: Option<u64>,
    /// Percentiles of all TTIs by name; null if it is among those without response. Unit: ns.
    pub percentiles_ns: Vec<(String, Option<u64>)>,
    /// Longest response time. Unit: ns.
    pub max_ns: Option<u64>,
    /// Execution times of the threads, and the delay of the I/O thread (`release`).
    pub stages: Vec<StageDurations>,
    /// Throughput of the program before the workload started. Unit: primes or frames per minute.
    pub background_alone: Option<u64>,
    /// Throughput together with the workload. Unit: primes or frames per minute.
    pub background_beside: Option<u64>,
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

/// Runs the rounds.
///
/// # Errors
/// The options do not fit this machine; a privilege or program is missing; `stop` was raised, after the report was delivered.
pub(crate) fn run(arguments: &BasebandArguments, stop: &Stop) -> Result<bool> {
    let workload = arguments.workload()?;
    let mut recorder = Recorder::without_ports("baseband");
    let background = arguments.background(recorder.cpus());
    let _latency = arguments.cpu_dma_latency.map(LatencyRequest::hold).transpose()?;
    let calibration = match arguments.iterations_per_ms {
        Some(iterations) => Calibration::given(iterations),
        None => workload.calibrate()?,
    };
    warn(&mut recorder, &workload, calibration);
    recorder.cores("baseband", &workload.cores);
    if let Some(spec) = &background {
        recorder.cores("background", &spec.cores);
    }
    let mut rounds =
        Rounds { workload: &workload, calibration, outcomes: Vec::new(), all: Vec::new() };
    let mut result = Ok(());
    for number in 1..=arguments.rounds {
        let what = format!("round {number} of {}", arguments.rounds);
        result = rounds.run(&what, background.as_ref(), stop);
        if result.is_err() || stop.is_raised() {
            break;
        }
    }
    if rounds.all.is_empty() {
        return result.and_then(|()| stop.check()).map(|()| true);
    }
    let result = result.and_then(|()| stop.check());
    let without: u64 = rounds.all.iter().map(|round| round.without_response).sum();
    if without > 0 {
        let text = "TTIs have no response, since a thread was busy with an earlier one; percentiles among them are missing";
        recorder.warn(format!("{without} {text}"));
    }
    let report = BasebandReport {
        header: recorder.finish(result.is_ok()),
        figures: figures(background.as_ref(), &rounds.all),
        cdf: ResponseTimes::of(&rounds.outcomes).cdf(),
        rounds: rounds.all,
        workload: workload.clone(),
        cpu_dma_latency_us: arguments.cpu_dma_latency,
        calibration,
        background,
    };
    arguments.output.deliver(&report, print)?;
    result.map(|()| true)
}

fn warn(recorder: &mut Recorder, workload: &Workload, calibration: Calibration) {
    if workload.times.path_ns() > workload.tti_ns {
        recorder.warn("uplink, scheduler and downlink together take longer than a TTI");
    }
    let pinned = workload.cores.len();
    if pinned > 0 && pinned < workload.cells.into() {
        recorder.warn(format!("{} cells share {pinned} cores", workload.cells));
    }
    let excess = calibration.median_excess_permille;
    if excess > EXCESS_PERMILLE_MAX {
        recorder.warn(format!(
            "the median round of the calibration took {}.{} % longer than the fastest: others use the core, or its frequency changes",
            excess / 10,
            excess % 10
        ));
    }
}

/// Rounds of a measurement.
struct Rounds<'w> {
    workload: &'w Workload,
    calibration: Calibration,
    outcomes: Vec<TtiOutcome>,
    all: Vec<BasebandRound>,
}

impl Rounds<'_> {
    /// One round: the program alone, then together with the workload. An interrupted workload
    /// counts, an interrupted start does not.
    fn run(&mut self, what: &str, background: Option<&BackgroundSpec>, stop: &Stop) -> Result<()> {
        let mut load = match background {
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
            adit_lab_baseband::run(self.workload, self.calibration, stop, &mut |progress| {
                show(&format!("{what}: {} of {} TTIs", progress.ttis, progress.planned));
            })?;
        show("");
        let beside = match (&mut load, meter) {
            (Some(load), Some(meter)) => Some(meter.per_minute(load)?),
            _ => None,
        };
        self.all.push(round(self.workload, &outcome, alone, beside));
        self.outcomes.extend(outcome.ttis);
        Ok(())
    }
}

/// Counts the products of a program.
struct ThroughputMeter {
    start: Instant,
    made: u64,
}

impl ThroughputMeter {
    fn start(load: &mut BackgroundLoad) -> Result<Self> {
        Ok(Self { made: load.made()?, start: Instant::now() })
    }

    fn per_minute(&self, load: &mut BackgroundLoad) -> Result<u64> {
        let (made, elapsed) = (load.made()?, self.start.elapsed());
        let made = u128::from(made.saturating_sub(self.made));
        let per_minute = made * 60_000_000 / elapsed.as_micros().max(1);
        Ok(u64::try_from(per_minute).unwrap_or(u64::MAX))
    }
}

fn round(
    workload: &Workload,
    outcome: &WorkloadOutcome,
    background_alone: Option<u64>,
    background_beside: Option<u64>,
) -> BasebandRound {
    let times = ResponseTimes::of(&outcome.ttis);
    let count = |is_one: &dyn Fn(&TtiOutcome) -> bool| {
        u64::try_from(outcome.ttis.iter().filter(|tti| is_one(tti)).count()).unwrap_or(u64::MAX)
    };
    BasebandRound {
        ttis: count(&|_| true),
        missed: count(&|tti| tti.is_missed(workload.tti_ns)),
        timed_out: count(&|tti| tti.timed_out),
        without_response: count(&|tti| tti.response_ns.is_none()),
        min_ns: times.min_ns(),
        mean_ns: times.mean_ns(),
        percentiles_ns: PERCENTILES
            .map(|(name, percent)| (name.to_owned(), times.percentile_ns(percent)))
            .to_vec(),
        max_ns: times.max_ns(),
        stages: outcome.stages.clone(),
        background_alone,
        background_beside,
    }
}

/// The figures of all rounds. One that a round lacks is left out.
fn figures(background: Option<&BackgroundSpec>, rounds: &[BasebandRound]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |name: &str, unit: &str, value: &dyn Fn(&BasebandRound) -> Option<u64>| {
        let values: Option<Vec<u64>> = rounds.iter().map(value).collect();
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            figures.push(Figure::of(name, unit, &values));
        }
    };
    add("response min", "ns", &|round| round.min_ns);
    add("response mean", "ns", &|round| round.mean_ns);
    for (index, (name, _)) in PERCENTILES.iter().enumerate() {
        let value = |round: &BasebandRound| round.percentiles_ns.get(index)?.1;
        add(&format!("response {name}"), "ns", &value);
    }
    add("response max", "ns", &|round| round.max_ns);
    let ppm = |part: u64, round: &BasebandRound| (part * 1_000_000).checked_div(round.ttis);
    add("missed TTIs", "ppm", &|round| ppm(round.missed, round));
    add("scheduler timeouts", "ppm", &|round| ppm(round.timed_out, round));
    if let Some(spec) = background {
        let unit = format!("{}/min", spec.kind.product());
        add("background alone", &unit, &|round| round.background_alone);
        add("background beside", &unit, &|round| round.background_beside);
        add("background share", "permille", &|round| {
            (round.background_beside? * 1000).checked_div(round.background_alone?)
        });
    }
    figures
}

fn print(report: &BasebandReport) {
    let workload = &report.workload;
    println!(
        "cells: {}, TTI {} µs, {}, {} iterations of busy work per ms",
        workload.cells,
        workload.tti_ns / 1000,
        workload.policy,
        report.calibration.iterations_per_ms
    );
    let mut table = comfy_table::Table::new();
    table.set_header(["", "unit", "median", "lowest", "highest"]);
    for figure in &report.figures {
        let (unit, values) = shown(figure);
        table.add_row([vec![figure.name.clone(), unit], values.to_vec()].concat());
    }
    println!("{table}");
    for warning in &report.header.warnings {
        println!("warning: {warning}");
    }
}

/// Unit, median, lowest and highest value for readers.
pub(crate) fn shown(figure: &Figure) -> (String, [String; 3]) {
    let values = [figure.median, figure.min, figure.max];
    match figure.unit.as_str() {
        "ns" => ("µs".to_owned(), values.map(|ns| format!("{}.{}", ns / 1000, ns % 1000 / 100))),
        unit => (unit.to_owned(), values.map(|value| value.to_string())),
    }
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
        let of = |responses: &[Option<u64>], share: u64| {
            round(&workload, &outcome(responses), Some(1000), Some(share))
        };
        let rounds = [of(&[Some(900_000), Some(1_000_001)], 800), of(&[Some(910_000), None], 700)];
        assert_eq!((rounds[1].missed, rounds[1].timed_out, rounds[1].without_response), (1, 1, 1));
        let spec = arguments(&["--background=primes"]).background(1);
        let figures = figures(spec.as_ref(), &rounds);
        let find = |name: &str| figures.iter().find(|figure| figure.name == name);
        assert_eq!(find("missed TTIs").unwrap().median, 500_000);
        assert_eq!(find("response p50").unwrap().max, 910_000);
        assert!(find("response p99").is_none());
        let share = find("background share").unwrap();
        assert_eq!((share.min, share.max, &*share.unit), (700, 800, "permille"));
        assert_eq!(find("background alone").unwrap().unit, "primes/min");
    }

    #[test]
    fn response_times_are_shown_in_microseconds() {
        let (unit, [median, ..]) = shown(&Figure::of("response p50", "ns", &[1_234_567]));
        assert_eq!((&*unit, &*median), ("µs", "1234.5"));
    }
}
