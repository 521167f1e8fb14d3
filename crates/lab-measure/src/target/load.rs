//! The load of a started adit: its own readings, CPU time of its threads, and what the machine
//! shows of power.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::cpu::{ThreadTimes, thread_times};
use crate::quantity::{lower, plain};
use crate::report::Report;

/// Time between the start of the load and the first reading.
const LOAD_LEAD: Duration = Duration::from_millis(300);
/// Time between both readings. The busy share that adit shows is that of a whole second between
/// them.
const READING_SPAN: Duration = Duration::from_millis(2200);
/// Duration of a trial beside a reading, which takes time itself. Unit: ns.
pub(crate) const LOAD_TRIAL_NS: u64 = 3_000_000_000;
/// The kernel calls its polling loop an idle state.
const POLL_STATE: &str = "POLL";

/// The load at one rate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LoadReading {
    /// Mean share of time that the threads of the packet path spent with packets, as adit counts
    /// it. Unit: thousandths.
    pub busy_permille: u64,
    /// Highest busy share of a thread of the packet path. Unit: thousandths.
    pub busiest_permille: u64,
    /// CPU time of the threads of the packet path, in thousandths of one CPU.
    pub path_cpu_permille: u64,
    /// CPU time of all threads of adit, in thousandths of one CPU.
    pub process_cpu_permille: u64,
    /// Mean frequency of the cores of the packet path; `None` if the machine does not show it.
    pub frequency_mhz: Option<u64>,
    /// Share of time that the cores of the packet path spent in idle states; `None` if the machine
    /// does not show it. Unit: thousandths.
    pub idle_permille: Option<u64>,
    /// Power of all packages of the machine; `None` if the machine does not show it.
    pub power_mw: Option<u64>,
}

impl LoadReading {
    /// Adds the figures of a case to the report.
    pub(crate) fn add_to(&self, report: &mut Report, case: &str) {
        let figures = [
            (lower("busy share", "permille"), Some(self.busy_permille)),
            (lower("highest busy share", "permille"), Some(self.busiest_permille)),
            (lower("CPU time of the packet path", "permille"), Some(self.path_cpu_permille)),
            (lower("CPU time of all threads", "permille"), Some(self.process_cpu_permille)),
            (plain("frequency", "MHz"), self.frequency_mhz),
            (plain("idle states", "permille"), self.idle_permille),
            (lower("power", "mW"), self.power_mw),
        ];
        for (quantity, value) in figures {
            report.add(quantity.plotted(), case, value);
        }
    }
}

/// Reads the load of a started adit.
#[derive(Debug, Clone)]
pub(crate) struct LoadProbe {
    pub pid: u32,
    pub adit: PathBuf,
    pub socket: PathBuf,
}

/// The fields of `adit show workers --json` that are read.
#[derive(Debug, Clone, Default, Deserialize)]
struct WorkersAnswer {
    workers: Vec<WorkerLoad>,
    idle_states: Vec<IdleState>,
    energy: Vec<Energy>,
}

#[derive(Debug, Clone, Deserialize)]
struct WorkerLoad {
    busy_percent: f64,
    frequency_mhz: Option<u64>,
    role: String,
}

#[derive(Debug, Clone, Deserialize)]
struct IdleState {
    core: u16,
    state: String,
    seconds: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct Energy {
    zone: String,
    joules: f64,
}

impl LoadProbe {
    /// Reads the load of the next seconds. Takes less than [`LOAD_TRIAL_NS`].
    ///
    /// # Errors
    /// adit does not answer.
    pub(crate) fn read(&self) -> Result<LoadReading> {
        sleep(LOAD_LEAD);
        let (first, before, began) = (self.workers()?, thread_times(self.pid), Instant::now());
        sleep(READING_SPAN);
        let (after, elapsed) = (thread_times(self.pid), began.elapsed());
        let last = self.workers()?;
        Ok(reading(&first, &last, before.until(&after), elapsed))
    }

    fn workers(&self) -> Result<WorkersAnswer> {
        let mut command = Command::new(&self.adit);
        command.args(["show", "workers", "--json", "--socket"]).arg(&self.socket);
        let output = command.stdin(Stdio::null()).output().context("start adit show")?;
        if !output.status.success() {
            bail!("adit show workers: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("read the answer of adit show workers")
    }
}

fn reading(
    first: &WorkersAnswer,
    last: &WorkersAnswer,
    spent: ThreadTimes,
    elapsed: Duration,
) -> LoadReading {
    // A signaling worker is left out: it has nothing to do in a measurement.
    let threads: Vec<_> = last.workers.iter().filter(|of| of.role != "signaling").collect();
    let busy: Vec<_> = threads.iter().map(|of| permille(of.busy_percent / 100.0)).collect();
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1);
    let share = |ns: u64| ns.saturating_mul(1000) / elapsed_ns;
    let frequencies: Vec<_> = threads.iter().filter_map(|of| of.frequency_mhz).collect();
    LoadReading {
        busy_permille: mean(&busy).unwrap_or(0),
        busiest_permille: busy.iter().copied().max().unwrap_or(0),
        path_cpu_permille: share(spent.path_ns),
        process_cpu_permille: share(spent.all_ns),
        frequency_mhz: mean(&frequencies),
        idle_permille: idle_permille(first, last, elapsed),
        power_mw: power_mw(first, last, elapsed),
    }
}

fn mean(values: &[u64]) -> Option<u64> {
    let count = u64::try_from(values.len()).ok().filter(|count| *count > 0)?;
    Some(values.iter().sum::<u64>() / count)
}

/// Returns the mean over cores of the share of time in idle states.
fn idle_permille(first: &WorkersAnswer, last: &WorkersAnswer, elapsed: Duration) -> Option<u64> {
    let seconds = |answer: &WorkersAnswer| {
        let mut cores: BTreeMap<u16, f64> = BTreeMap::new();
        // Several threads may show the states of one core.
        let mut states: BTreeMap<(u16, &str), f64> = BTreeMap::new();
        for state in answer.idle_states.iter().filter(|of| of.state != POLL_STATE) {
            states.insert((state.core, &state.state), state.seconds);
        }
        states.into_iter().for_each(|((core, _), s)| *cores.entry(core).or_default() += s);
        cores
    };
    let (before, after) = (seconds(first), seconds(last));
    let shares: Vec<_> = after
        .iter()
        .map(|(core, now)| {
            let spent = now - before.get(core).copied().unwrap_or(*now);
            permille(spent / elapsed.as_secs_f64())
        })
        .collect();
    mean(&shares)
}

/// Returns the power of all packages; `None` if a counter began again.
fn power_mw(first: &WorkersAnswer, last: &WorkersAnswer, elapsed: Duration) -> Option<u64> {
    let joules = |answer: &WorkersAnswer| -> Option<f64> {
        let packages = answer.energy.iter().filter(|zone| !zone.zone.contains('/'));
        packages.map(|zone| zone.joules).reduce(|sum, zone| sum + zone)
    };
    let spent = joules(last)? - joules(first)?;
    (spent >= 0.0).then(|| permille(spent / elapsed.as_secs_f64()))
}

/// Converts to thousandths; negative values become zero.
fn permille(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "shares and watts; the cast saturates"
    )]
    let thousandths = (value * 1000.0).round() as u64;
    thousandths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(seconds: f64, joules: f64) -> WorkersAnswer {
        let text = format!(
            r#"{{"model": "pipeline", "workers": [
                {{"role": "receiver", "core": 1, "busy_percent": 20.0, "frequency_mhz": 2000}},
                {{"role": "worker", "core": 2, "busy_percent": 41.5, "frequency_mhz": 2400}},
                {{"role": "signaling", "core": 0, "busy_percent": 0.0, "frequency_mhz": null}}],
              "idle_states": [
                {{"thread": 0, "core": 1, "state": "POLL", "seconds": 900.0}},
                {{"thread": 0, "core": 1, "state": "C6", "seconds": {seconds}}},
                {{"thread": 1, "core": 2, "state": "C6", "seconds": 5.0}}],
              "energy": [{{"zone": "package-0", "joules": {joules}}},
                {{"zone": "package-0/dram", "joules": 1e9}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn load_is_the_mean_of_the_packet_path_and_power_that_of_the_interval() {
        let spent = ThreadTimes { path_ns: 1_500_000_000, all_ns: 1_600_000_000 };
        let span = Duration::from_secs(2);
        let load = reading(&answer(7.0, 100.0), &answer(8.0, 130.0), spent, span);
        assert_eq!((load.busy_permille, load.busiest_permille), (307, 415));
        assert_eq!((load.path_cpu_permille, load.process_cpu_permille), (750, 800));
        assert_eq!(load.frequency_mhz, Some(2200));
        assert_eq!((load.idle_permille, load.power_mw), (Some(250), Some(15_000)));
        let mut report = Report::default();
        load.add_to(&mut report, "at rest");
        assert_eq!((report.figures.len(), &*report.figures[0].name), (7, "busy share, at rest"));
        let again = reading(&answer(7.0, 130.0), &answer(8.0, 1.0), spent, span);
        assert_eq!(again.power_mw, None);
        let mut nothing = answer(0.0, 0.0);
        (nothing.idle_states, nothing.energy) = (Vec::new(), Vec::new());
        let load = reading(&nothing, &nothing, spent, span);
        assert_eq!((load.idle_permille, load.power_mw), (None, None));
    }
}
