//! Builds the fuzz targets and runs them one after another.
//!
//! libFuzzer runs with the stable toolchain; only the address sanitizer would need another one.
//! Inputs that fail go to `crates/tests/regressions/<target>/`, where the tests replay them. The
//! corpus of a run stays in `fuzz/corpus/<target>/`, which git ignores.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::parallel;

/// All targets. Those that find the most defects come first.
pub(crate) const TARGETS: [&str; 13] = [
    "n4_sequence",
    "pfcp_message",
    "pfcp_leaf_ies",
    "sdf_text",
    "pfd_contents",
    "datapath_frames",
    "compile",
    "gtpu_parse",
    "journal",
    "records",
    "resp",
    "replication",
    "config",
];

/// Compiler flags for the coverage that guides libFuzzer.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=4 --cfg fuzzing";

/// With an explicit target, cargo does not apply the flags to build scripts.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// How the targets are built and how long each runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct FuzzOptions {
    /// Time for each target.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Build with few optimizations: quick to build, slow to run.
    #[arg(long)]
    pub quick: bool,
}

/// Runs the targets `only`, or all if it is empty.
///
/// # Errors
/// The targets cannot be built, or a target failed; the others run first.
pub(crate) fn run(options: FuzzOptions, only: &[String]) -> anyhow::Result<()> {
    if let Some(unknown) = only.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        bail!("there is no target {unknown}; the targets are {}", TARGETS.join(", "));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let fuzz = root.join("fuzz");
    let profile = if options.quick { "quick" } else { "release" };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", profile, "--bins", "--target", TRIPLE])
        .current_dir(&fuzz)
        .env("RUSTFLAGS", COVERAGE)
        .env("CARGO_TARGET_DIR", fuzz.join("target"))
        .status()?;
    if !built.success() {
        bail!("the fuzz targets cannot be built");
    }
    let is_wanted = |name: &&str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let wanted: Vec<&str> = TARGETS.into_iter().filter(is_wanted).collect();
    let results =
        parallel::map(&wanted, |name| Ok((*name, run_one(&root, profile, name, options.seconds)?)));
    let results = results.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let broken: Vec<&str> =
        results.into_iter().filter(|(_, is_sound)| !is_sound).map(|(name, _)| name).collect();
    if !broken.is_empty() {
        bail!("found something, see crates/tests/regressions: {}", broken.join(", "));
    }
    Ok(())
}

/// Runs one target. True if it found nothing.
fn run_one(root: &Path, profile: &str, name: &str, seconds: u64) -> anyhow::Result<bool> {
    let corpus = root.join("fuzz/corpus").join(name);
    let finds = root.join("crates/tests/regressions").join(name);
    let seeds = root.join("fuzz/seeds").join(name);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&finds)?;
    let binary = root.join("fuzz/target").join(TRIPLE).join(profile).join(name);
    println!("{name}: {seconds} s");
    let status = Command::new(&binary)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", finds.display()))
        .args(["-timeout=10", "-rss_limit_mb=2048", "-verbosity=0"])
        .args([&corpus, &seeds])
        .status()
        .with_context(|| format!("cannot run {}", binary.display()))?;
    // Removes the folder only if it is empty.
    let _ = fs::remove_dir(&finds);
    Ok(status.success())
}
