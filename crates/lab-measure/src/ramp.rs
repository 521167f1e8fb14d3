//! `adit-lab ramp`: adds sessions with traffic until the target reaches a limit.
//!
//! Each round establishes sessions, waits, and samples loss and CPU time at a fixed rate. The
//! number of sessions then grows by a factor. At the first limit the ramp goes back once to the
//! last number of sessions within the limits and continues with a fifth of the growth; the next
//! limit ends it.
//!
//! Source: study 003, *Impact of NUMA architecture and placement on a packet gateway*, section 3.2.
//! There the packets grow with the sessions (`--session-rate`), by 2 or 10 % (`--growth`), until
//! the CPU time of the packet path reaches a target (`--busy`). `--placement` compares where
//! threads run.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::cases::CaseArguments;
use super::measurement::{LabMeasurement, Prepared};
use super::progress::mpps;
use super::quantity::{Quantity, higher, lower, plain};
use super::report::{MeasuredCase, OutputArguments, Report, TrialReport};
use super::rig::{Rig, TrialCase};
use super::target::load::LoadReading;
use super::traffic::{rate_pps, span_ns};
use adit_lab_engine::clock::scaled;
use adit_lab_engine::pacer::OfferedRate;
use adit_lab_process::stop::{Stop, environment};

/// The most sessions of a round within the limits; [`RATE`] is the highest rate of such a round.
const SESSIONS: Quantity<'_> = higher("sessions within the limits", "sessions");
const RATE: Quantity<'_> = higher("rate within the limits", "pps");
/// Sessions established in a round per second.
const ESTABLISHED: Quantity<'_> = higher("established", "sessions/s");
const REFUSED: Quantity<'_> = lower("refused", "sessions");
const LOST: Quantity<'_> = lower("lost", "ppm").plotted();
const P99: Quantity<'_> = lower("p99 latency", "ns").plotted();
/// CPU time of the target, relative to one core.
const CPU: Quantity<'_> = lower("CPU time", "permille");
/// Resident memory of the target.
const MEMORY: Quantity<'_> = plain("memory", "KiB").plotted();

/// Maximum number of attempts to take an undisturbed sample.
const SAMPLES_MAX: u32 = 3;

/// Options of `adit-lab ramp`. `--sessions` is the largest number tried, `--request-rate` the rate
/// of establishment.
#[derive(Debug, clap::Args)]
pub struct RampArguments {
    /// Sessions of the first round.
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..))]
    from: u32,
    /// Growth per round, in percent: 10 multiplies by 1.1.
    #[arg(long, value_name = "PERCENT", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    growth: u32,
    /// Maximum number of rounds.
    #[arg(long, value_name = "N", default_value_t = 11,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Rate of all sessions together.
    #[arg(long, value_name = "RATE", default_value = "500k", value_parser = rate_pps)]
    rate: u64,
    /// Rate of each session instead: the rate of all grows with their number.
    #[arg(long, value_name = "PPS", conflicts_with = "rate",
        value_parser = clap::value_parser!(u64).range(1..))]
    session_rate: Option<u64>,
    /// After each sample read the load of the started adit for three seconds: busy share and CPU
    /// time of its threads, and what the machine shows of frequency, idle states and power.
    #[arg(long)]
    load: bool,
    /// Limit of the mean busy share of the threads of the packet path, in percent.
    #[arg(long, value_name = "PERCENT", requires = "load",
        value_parser = clap::value_parser!(u64).range(1..=100))]
    busy: Option<u64>,
    /// Pause between the last establishment and the sample.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span_ns)]
    settle: u64,
    /// Duration of the sample.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span_ns)]
    sample: u64,
    /// Limit of packet loss, in parts per million.
    #[arg(long, value_name = "PPM", default_value_t = 2000)]
    drop_ppm: u64,
    /// Limit of the target's CPU time, in percent of one core. A polling target uses 100 % per
    /// worker.
    #[arg(long, value_name = "PERCENT")]
    cpu: Option<u64>,
    /// Limit of refused sessions per round.
    #[arg(long, value_name = "N", default_value_t = 0)]
    failed: u64,
    #[command(flatten)]
    cases: CaseArguments,
}

/// One round.
#[derive(Debug, Clone, Default)]
struct RampRound {
    sessions: u32,
    /// Sessions established per second; `None` after the ramp went back.
    established_per_s: Option<u64>,
    /// Number of refused sessions.
    refused: u64,
    /// Share of lost packets. Unit: parts per million.
    drop_ppm: u64,
    /// CPU time and memory of the target, if the tester started it. Units: thousandths of a core,
    /// KiB.
    cpu_permille: Option<u64>,
    memory_kib: Option<u64>,
    trial: TrialReport,
    /// The load of the target, with `--load`.
    load: Option<LoadReading>,
}

impl LabMeasurement for RampArguments {
    const NAME: &'static str = "ramp";
    type Rig = Rig;
    type Case = TrialCase;

    fn output(&self) -> &OutputArguments {
        &self.cases.output
    }

    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>> {
        let mut target = self.cases.target.clone();
        if !target.is_upf() {
            return Err(environment("a ramp needs a target with sessions: --target adit or upf"));
        }
        target.sessions = target.sessions.max(self.from);
        target.first_sessions = Some(self.from);
        let Some((rig, mut cases)) = self.cases.prepare(target, report, stop)? else {
            return Ok(None);
        };
        rig.refuse_above_ceiling(self.rate_of(self.from))?;
        cases.truncate(1);
        Ok(Some((rig, cases)))
    }

    fn measure(
        &self,
        rig: &mut Rig,
        case: &TrialCase,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()> {
        let sessions_max = self.cases.target.sessions.max(self.from);
        let mut growth_permille = u64::from(self.growth) * 10;
        let mut held = 0;
        let mut backed_off = false;
        let mut wanted = self.from;
        let mut first = rig.established.take();
        for _ in 0..self.rounds {
            let established = match first.take() {
                Some(established) => established,
                None => rig.grow(wanted)?,
            };
            let mut round = self.sample(case, rig, stop)?;
            round.established_per_s = Some(established.per_second);
            round.refused = established.failed;
            if self.add(&round, established.first_failure.as_deref(), report) {
                if backed_off || held == 0 {
                    return Ok(());
                }
                backed_off = true;
                growth_permille = (growth_permille / 5).max(1);
                rig.shrink(held)?;
                let round = self.sample(case, rig, stop)?;
                if self.add(&round, None, report) {
                    return Ok(());
                }
            }
            held = rig.session_count();
            if held >= sessions_max {
                return Ok(());
            }
            let more = scaled(u64::from(held), 1000 + growth_permille, 1000);
            let more = more.max(u64::from(held) + 1).min(u64::from(sessions_max));
            wanted = u32::try_from(more).unwrap_or(sessions_max);
        }
        Ok(())
    }

    fn conclude(&self, rig: Rig, report: &mut Report) -> Result<()> {
        add_reached(report);
        rig.close(report)
    }
}

impl RampArguments {
    /// Returns the rate of `sessions` sessions together.
    fn rate_of(&self, sessions: u32) -> u64 {
        self.session_rate.map_or(self.rate, |rate| rate.saturating_mul(sessions.into()))
    }

    /// Waits until the target has settled, and samples it.
    fn sample(&self, case: &TrialCase, rig: &mut Rig, stop: &Stop) -> Result<RampRound> {
        stop.sleep(Duration::from_nanos(self.settle))?;
        let mut case = case.clone();
        case.active = rig.session_count();
        rig.set_case(&case)?;
        let cpu = |rig: &Rig| rig.target.cpu_by_core().values().sum::<u64>();
        let (before, start) = (cpu(rig), Instant::now());
        let mut trial = TrialReport::default();
        for _ in 0..SAMPLES_MAX {
            let rate = OfferedRate::Pps(self.rate_of(case.active));
            trial = rig.trial(&case, rate, self.sample, false)?;
            if !trial.is_disturbed() {
                break;
            }
        }
        let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let used_ms = cpu(rig).saturating_sub(before) * 10;
        let memory_kib = rig.target.memory_kib();
        let load = match self.load {
            true => Some(rig.load(&case, self.rate_of(case.active))?),
            false => None,
        };
        Ok(RampRound {
            sessions: case.active,
            drop_ppm: trial.loss_ppb / 1000,
            cpu_permille: memory_kib.map(|_| scaled(used_ms, 1000, elapsed_ms)),
            memory_kib,
            trial,
            load,
            ..RampRound::default()
        })
    }

    /// Adds a round to the report. Returns true if it reached a limit.
    fn add(&self, round: &RampRound, failure: Option<&str>, report: &mut Report) -> bool {
        let limit = self.limit(round, failure);
        let back_off = if round.established_per_s.is_some() { "" } else { ", backed off" };
        let name = format!("{} sessions{back_off}", round.sessions);
        let reached = limit.as_ref().map_or(String::new(), |limit| format!(", limit: {limit}"));
        let (offered, lost) = (mpps(round.trial.offered_pps), round.drop_ppm);
        eprintln!("{name}: {offered}, {lost} ppm lost{reached}");
        if round.trial.tester_limited {
            report.warn("the tester could not keep the rate in some rounds");
        }
        let case = report.case(&name);
        case.axes.insert("sessions".to_owned(), json!(round.sessions));
        case.axes.extend(limit.iter().map(|limit| ("limit".to_owned(), json!(limit))));
        case.trials.push(round.trial.clone());
        report.add(ESTABLISHED, &name, round.established_per_s);
        report.add(REFUSED, &name, [round.refused]);
        report.add(LOST, &name, [round.drop_ppm]);
        report.add(P99, &name, [round.trial.p99_ns()]);
        report.add(CPU, &name, round.cpu_permille);
        report.add(MEMORY, &name, round.memory_kib);
        if let Some(load) = &round.load {
            load.add_to(report, &name);
        }
        limit.is_some()
    }

    /// Returns the limit that a round reached; `None` if it is within all limits.
    fn limit(&self, round: &RampRound, failure: Option<&str>) -> Option<String> {
        if round.refused > self.failed {
            let first = failure.map_or(String::new(), |text| format!(": {text}"));
            return Some(format!("{} sessions refused{first}", round.refused));
        }
        if round.drop_ppm > self.drop_ppm {
            return Some(format!("{} ppm lost", round.drop_ppm));
        }
        let cpu = round.cpu_permille.zip(self.cpu);
        if let Some((used, _)) = cpu.filter(|(used, limit)| *used / 10 > *limit) {
            return Some(format!("{} % CPU", used / 10));
        }
        let busy = round.load.as_ref().map(|load| load.busy_permille).zip(self.busy);
        let (busy, _) = busy.filter(|(busy, limit)| *busy > limit * 10)?;
        Some(format!("{}.{} % busy", busy / 10, busy % 10))
    }
}

/// Adds the most sessions and the highest rate of the rounds within the limits.
fn add_reached(report: &mut Report) {
    let held = |case: &&MeasuredCase| !case.axes.contains_key("limit");
    let held = || report.cases.iter().filter(held);
    let sessions = held().filter_map(|case| case.axes.get("sessions")?.as_u64()).max();
    let rate = held().flat_map(|case| &case.trials).map(|trial| trial.received_pps).max();
    report.add(SESSIONS, "", [sessions.unwrap_or(0)]);
    report.add(RATE, "", [rate.unwrap_or(0)]);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct RampCommandLine {
        #[command(flatten)]
        arguments: RampArguments,
    }

    fn parse(words: &[&str]) -> Result<RampArguments, clap::Error> {
        let words = std::iter::once(&"x").chain(words);
        RampCommandLine::try_parse_from(words).map(|line| line.arguments)
    }

    #[test]
    fn each_limit_is_named_when_it_is_reached() {
        let arguments = parse(&["--cpu", "150", "--failed", "2"]).unwrap();
        let of = |refused, drop_ppm, cpu: u64| {
            let cpu_permille = Some(cpu * 10);
            let round = RampRound { refused, drop_ppm, cpu_permille, ..RampRound::default() };
            arguments.limit(&round, Some("no resources"))
        };
        assert_eq!(of(2, 2000, 150), None);
        assert_eq!(of(3, 0, 0).unwrap(), "3 sessions refused: no resources");
        assert_eq!(of(0, 2001, 0).unwrap(), "2001 ppm lost");
        assert_eq!(of(0, 0, 151).unwrap(), "151 % CPU");
    }

    fn busy(busy_permille: u64) -> Option<LoadReading> {
        Some(LoadReading { busy_permille, ..LoadReading::default() })
    }

    #[test]
    fn busy_share_is_a_limit_and_rates_may_grow_with_sessions() {
        let arguments = parse(&["--load", "--busy", "50", "--session-rate", "3"]).unwrap();
        let of = |permille| {
            arguments.limit(&RampRound { load: busy(permille), ..RampRound::default() }, None)
        };
        assert_eq!((of(500), of(501).unwrap()), (None, "50.1 % busy".to_owned()));
        assert_eq!((arguments.rate_of(1000), parse(&[]).unwrap().rate_of(1000)), (3000, 500_000));
        assert!(parse(&["--busy", "50"]).is_err(), "nothing reads it");
        assert!(parse(&["--rate", "1M", "--session-rate", "3"]).is_err());
    }

    #[test]
    fn figures_compare_rounds_by_their_sessions() {
        let round = |sessions, drop_ppm, established_per_s| RampRound {
            sessions,
            drop_ppm,
            established_per_s,
            load: busy(u64::from(sessions) / 10),
            trial: TrialReport { received_pps: u64::from(sessions) * 2, ..TrialReport::default() },
            ..RampRound::default()
        };
        let (arguments, mut report) = (parse(&[]).unwrap(), Report::default());
        let rounds = [round(1000, 0, Some(1)), round(1100, 5000, Some(1)), round(1000, 0, None)];
        let reached = rounds.map(|round| arguments.add(&round, None, &mut report));
        assert_eq!(reached, [false, true, false]);
        add_reached(&mut report);
        let value = |name: &str| report.figures.iter().find(|of| of.name == name).unwrap().median;
        assert_eq!(value("sessions within the limits"), 1000);
        assert_eq!(value("rate within the limits"), 2000);
        assert_eq!(value("busy share, 1100 sessions"), 110);
        assert_eq!(value("lost, 1000 sessions, backed off"), 0);
        assert_eq!(report.cases[1].axes["limit"], "5000 ppm lost");
    }
}
