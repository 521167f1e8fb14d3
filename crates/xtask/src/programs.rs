//! Builds the test programs and runs several at a time, in lanes. Prints a line for each program,
//! then which tests were skipped and why.
//!
//! The programs of `adit-tests` spend most of their time waiting for sockets, timers and other
//! programs. So one lane begins with them, while the others begin with programs that compute.
//!
//! `cargo test` shows neither the time of a program nor why a test was skipped, because it hides
//! the output of tests that pass.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cargo_metadata::{Message, MetadataCommand, TargetKind};

/// Start of the line by which a test prints why it was skipped.
const SKIPPED_PREFIX: &str = "skipped: ";

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct TestOptions {
    /// Test only these packages, such as `adit-n4`; all if none is named.
    #[arg(long, short)]
    package: Vec<String>,
    /// Number of programs that run at a time. With 1, times are measured without disturbance.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    lanes: u8,
    /// Print how long each program ran, longest first.
    #[arg(long)]
    times: bool,
}

/// A test program that was built.
struct TestProgram {
    /// Package and target, such as `adit-n4 n4`.
    name: String,
    executable: PathBuf,
    /// The folder of the package, which is the working directory of its tests.
    folder: PathBuf,
}

/// The result of running one program.
struct ProgramRun {
    name: String,
    passed: usize,
    failed: bool,
    /// Each reason for which tests were skipped, with the number of tests.
    skipped: BTreeMap<String, usize>,
    time: Duration,
}

/// Runs all programs, even after one has failed.
///
/// # Errors
/// The programs cannot be built, or one failed; the others run first.
pub(crate) fn run(options: &TestOptions) -> anyhow::Result<()> {
    let programs = build(&options.package)?;
    let queue = Mutex::new(programs.iter());
    let ended = AtomicUsize::new(0);
    let run_lane = |number: u8| -> anyhow::Result<Vec<ProgramRun>> {
        let next = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if number == 0 { queue.next_back() } else { queue.next() }
        };
        let mut runs = Vec::new();
        while let Some(program) = next() {
            let run = run_one(program)?;
            let outcome = if run.failed { "FAILED" } else { "ok" };
            println!(
                "{:>3}/{} {outcome:<6} {:>4} passed {:>6.1} s  {}",
                ended.fetch_add(1, Ordering::Relaxed) + 1,
                programs.len(),
                run.passed,
                run.time.as_secs_f64(),
                run.name
            );
            runs.push(run);
        }
        Ok(runs)
    };
    let mut runs = Vec::new();
    thread::scope(|scope| {
        let run_lane = &run_lane;
        let lanes: Vec<_> =
            (0..options.lanes).map(|number| scope.spawn(move || run_lane(number))).collect();
        for lane in lanes {
            match lane.join() {
                Ok(lane) => runs.extend(lane?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        anyhow::Ok(())
    })?;
    report(&mut runs, options.times)
}

/// Builds the test programs of `packages`, or of all packages if it is empty.
fn build(packages: &[String]) -> anyhow::Result<Vec<TestProgram>> {
    let metadata = MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    let mut command = Command::new("cargo");
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    // Selecting packages would change the features of dependencies, and so recompile most of them.
    command.arg("--workspace").stdout(Stdio::piped());
    let mut child = command.spawn().context("cargo cannot be run")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else {
            continue;
        };
        let package = metadata.packages.iter().find(|one| one.id == artifact.package_id);
        let package = package.map(|one| one.name.to_string()).unwrap_or_default();
        if !packages.is_empty() && !packages.contains(&package) {
            continue;
        }
        let kind =
            if artifact.target.kind.contains(&TargetKind::Test) { "" } else { "unit tests of " };
        let folder = artifact.manifest_path.parent().context("a manifest is in a folder")?;
        programs.push(TestProgram {
            name: format!("{package} {kind}{}", artifact.target.name),
            executable: executable.into_std_path_buf(),
            folder: folder.as_std_path().to_owned(),
        });
    }
    if !child.wait()?.success() {
        bail!("the test programs cannot be built");
    }
    programs.sort_by_key(|program| (program.name.starts_with("adit-tests "), program.name.clone()));
    Ok(programs)
}

fn run_one(program: &TestProgram) -> anyhow::Result<ProgramRun> {
    let started = Instant::now();
    let output = Command::new(&program.executable)
        .arg("--show-output")
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run", program.executable.display()))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let failed = !output.status.success();
    if failed {
        println!("{stdout}{stderr}{}: {}", program.name, output.status);
    }
    let mut skipped = BTreeMap::new();
    for line in stdout.lines().chain(stderr.lines()) {
        if let Some(reason) = line.strip_prefix(SKIPPED_PREFIX) {
            *skipped.entry(reason.to_owned()).or_insert(0) += 1;
        }
    }
    let passed = passed_tests(&stdout);
    Ok(ProgramRun { name: program.name.clone(), passed, failed, skipped, time: started.elapsed() })
}

/// Returns the number of passed tests in `test result: ok. 12 passed; …`.
fn passed_tests(stdout: &str) -> usize {
    let result = stdout.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    let count = result.and_then(|result| result.split_once(". ")).and_then(|(_, counts)| {
        counts.split_once(" passed").and_then(|(count, _)| count.parse().ok())
    });
    count.unwrap_or_default()
}

/// Prints what was skipped, the programs with their times if `times`, and the totals.
fn report(runs: &mut [ProgramRun], times: bool) -> anyhow::Result<()> {
    let skipped: usize = runs.iter().flat_map(|run| run.skipped.values()).sum();
    for run in runs.iter() {
        for (reason, count) in &run.skipped {
            println!("skipped {count}× in {}: {reason}", run.name);
        }
    }
    if times {
        runs.sort_by_key(|run| std::cmp::Reverse(run.time));
        for run in runs.iter() {
            println!("{:>7.1} s  {}", run.time.as_secs_f64(), run.name);
        }
    }
    let passed: usize = runs.iter().map(|run| run.passed).sum();
    println!("{passed} tests passed in {} programs, {skipped} skipped", runs.len());
    let failed: Vec<&str> =
        runs.iter().filter(|run| run.failed).map(|run| run.name.as_str()).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_passed_tests_is_read_from_the_result() {
        let stdout = "test a ... ok\n\ntest result: ok. 12 passed; 0 failed; 0 ignored\n";
        assert_eq!(passed_tests(stdout), 12);
        assert_eq!(passed_tests("test result: FAILED. 3 passed; 1 failed;"), 3);
        assert_eq!(passed_tests("Segmentation fault"), 0);
    }
}
