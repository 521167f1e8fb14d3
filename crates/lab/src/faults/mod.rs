//! `adit-lab faults`: runs real processes under injected faults, in the manner of a Jepsen test. A
//! generator (the SMF and its users) makes load, a nemesis injects faults that are drawn from a
//! seed, and a checker compares the acknowledged state with the actual one.

mod addresses;
mod book;
mod checker;
mod fault;
mod messages;
mod monitor;
mod nemesis;
mod observer;
mod page;
mod report;
mod run;
mod server;
mod setting;
mod shim;
mod small_disk;
mod smf;
mod starvation;
mod switch;
mod timeline;
mod upf;
mod users;
mod world;

use std::path::{Path, PathBuf};

use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::process::is_installed;
use adit_lab_process::scratch::Scratch;
use adit_lab_process::stop::{Stop, environment};
use anyhow::{Context, Result};
use clap::ValueEnum;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub(crate) use crate::faults::fault::FaultKind;
use crate::faults::report::{FaultsReport, RunReport};
use crate::faults::run::RunOptions;
pub(crate) use crate::faults::setting::StoreSetting;
use crate::faults::shim::COMPILER;

/// Niceness of the lab and its processes, so that a busy machine does not look like a fault.
const NICENESS: i32 = -10;

/// Options of `adit-lab faults`.
#[derive(Debug, clap::Args)]
pub(crate) struct FaultsArguments {
    /// Settings of the store; default: all of them, one after the other.
    #[arg(long, value_enum, value_delimiter = ',')]
    setting: Vec<StoreSetting>,
    /// Seed of the first run; each further run has the next one. Default: a random one.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How long faults are injected in each run. Unit: s.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    duration: u64,
    /// Only these faults.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULT")]
    only: Vec<FaultKind>,
    /// Runs of each setting.
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u64,
    /// The previous release, for the fault `update`.
    #[arg(long, value_name = "BINARY")]
    former: Option<PathBuf>,
    /// Folder for report.html, report.json, and the logs of runs that found something.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the report as JSON; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// The adit binary to run; default: the one in the directory of adit-lab.
    #[arg(long, value_name = "PATH")]
    adit: Option<PathBuf>,
}

/// Makes all runs. False if a run found that a promise was broken.
///
/// # Errors
/// The machine does not allow the runs, or `stop` was raised.
pub(crate) fn run(arguments: &FaultsArguments, stop: &Stop) -> Result<bool> {
    check_machine(arguments)?;
    // Best effort: without the privilege, more faults cannot be judged because the machine is too
    // slow.
    let _ = rustix::process::nice(NICENESS);
    let adit = find_binary(arguments.adit.as_deref())?;
    let former = match &arguments.former {
        Some(former) => Some(find_binary(Some(former))?),
        None => None,
    };
    let mut report = FaultsReport {
        tool: format!("adit-lab {}", env!("CARGO_PKG_VERSION")),
        adit: adit.display().to_string(),
        left_out: left_out(arguments, former.as_deref()),
        runs: Vec::new(),
    };
    for text in &report.left_out {
        eprintln!("left out: {text}");
    }
    let seed = arguments.seed.unwrap_or_else(|| SmallRng::from_os_rng().random_range(1..1_000_000));
    let result =
        all_runs(arguments, [&adit, former.as_deref().unwrap_or(&adit)], seed, stop, &mut report);
    if let Some(out) = &arguments.out {
        std::fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
        let json = serde_json::to_vec_pretty(&report).context("write the report")?;
        std::fs::write(out.join("report.json"), json)
            .and_then(|()| std::fs::write(out.join("report.html"), page::render(&report)))
            .context("write the report")?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report).context("write the report")?);
    }
    result?;
    Ok(report.runs.iter().all(RunReport::is_kept))
}

fn all_runs(
    arguments: &FaultsArguments,
    binaries: [&Path; 2],
    seed: u64,
    stop: &Stop,
    report: &mut FaultsReport,
) -> Result<()> {
    let settings = match arguments.setting.as_slice() {
        [] => &StoreSetting::ALL[..],
        some => some,
    };
    for nth in 0..arguments.runs {
        for setting in settings {
            let seed = seed.wrapping_add(nth);
            let kinds = kinds(arguments, *setting, arguments.former.is_some());
            if kinds.is_empty() {
                eprintln!("{}: none of these faults fits", setting.name());
                continue;
            }
            let scratch = Scratch::create("faults")?;
            let options = RunOptions {
                setting: *setting,
                seed,
                duration_ms: arguments.duration * 1000,
                kinds,
                binaries,
                dir: scratch.path(),
            };
            let progress = |text: &str| eprintln!("  {} seed {seed}: {text}", setting.name());
            let run = run::run(&options, stop, &progress);
            let is_good = run.as_ref().is_ok_and(RunReport::is_kept);
            if let (false, Some(out)) = (is_good, &arguments.out) {
                run::keep_logs(scratch.path(), &out.join(format!("{}-{seed}", setting.name())))?;
            }
            let run = run?;
            say(arguments, &run);
            report.runs.push(run);
        }
    }
    Ok(())
}

/// Prints what a run found, and how to repeat the run.
fn say(arguments: &FaultsArguments, run: &RunReport) {
    let mut lines = vec![run.summary()];
    for finding in &run.findings {
        lines.push(format!("  at {} ms, {}: {}", finding.at_ms, finding.kind.name(), finding.text));
    }
    if !run.is_kept() {
        let mut command = format!(
            "adit-lab faults --setting {} --seed {} --duration {}",
            run.setting.name(),
            run.seed,
            arguments.duration
        );
        if !arguments.only.is_empty() {
            let only: Vec<String> = arguments.only.iter().map(|kind| kind.name()).collect();
            command += &format!(" --only {}", only.join(","));
        }
        lines.push(format!("  again with: {command}"));
    }
    let text = lines.join("\n");
    if arguments.json {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
}

/// Returns the kinds of faults in a run.
fn kinds(arguments: &FaultsArguments, setting: StoreSetting, has_former: bool) -> Vec<FaultKind> {
    let all = FaultKind::value_variants().iter().copied();
    all.filter(|kind| kind.fits(setting))
        .filter(|kind| match arguments.only.is_empty() {
            true => !kind.is_beyond_promises(),
            false => arguments.only.contains(kind),
        })
        .filter(|kind| *kind != FaultKind::Update || has_former)
        .filter(|kind| !kind.needs_shim() || is_installed(COMPILER))
        .collect()
}

fn left_out(arguments: &FaultsArguments, former: Option<&Path>) -> Vec<String> {
    let mut all = Vec::new();
    let is_wanted = |kind| arguments.only.is_empty() || arguments.only.contains(&kind);
    if former.is_none() && is_wanted(FaultKind::Update) {
        all.push("update: no former release (--former BINARY)".to_owned());
    }
    if !is_installed(COMPILER) {
        for kind in FaultKind::value_variants() {
            if kind.needs_shim() && is_wanted(*kind) {
                all.push(format!("{}: no C compiler ({COMPILER})", kind.name()));
            }
        }
    }
    all
}

fn check_machine(arguments: &FaultsArguments) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(environment("adit-lab faults needs root: namespaces and packet sockets"));
    }
    let needs_servers = arguments.setting.iter().any(|setting| setting.servers() > 0)
        || arguments.setting.is_empty();
    for (program, package) in
        [("ip", "iproute2"), ("ethtool", "ethtool"), ("nsenter", "util-linux")]
            .into_iter()
            .chain(needs_servers.then_some(("redis-server", "redis-server")))
    {
        if !is_installed(program) {
            return Err(environment(format!("there is no {program}: install {package}")));
        }
    }
    Ok(())
}
