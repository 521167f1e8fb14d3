//! Runs tests in Miri, which finds undefined behavior that a run on the processor hides.
//!
//! Only crates whose memory Miri can follow take part: tables, packet buffers and queues. Tests
//! with many rounds run fewer rounds in Miri (`cfg!(miri)`). All tests also run without Miri. The
//! following do not run in Miri:
//!
//! - `dpdk`, `dpdk-sys`, `kernel` and `xdp`: they call foreign code and the system;
//! - `tables::large` as a mapping: in Miri its arrays come from the allocator;
//! - `threads`, `publication` and `prop_tables` of `tables`: they build large tables, or read them
//!   so often that a test would take minutes. `publish_memory` and `fast_rule_selector` run the
//!   same `unsafe` code;
//! - `loom_publish`: loom replaces the memory that Miri would follow.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::parallel;

/// A test program: its package, and the arguments by which cargo selects it.
struct MiriProgram {
    package: &'static str,
    selection: &'static [&'static str],
}

/// The test programs. Those that take longest come first.
const PROGRAMS: &[MiriProgram] = &[
    MiriProgram { package: "adit-tables", selection: &["--lib"] },
    MiriProgram { package: "adit-tables", selection: &["--test", "publish_memory"] },
    MiriProgram {
        package: "adit-tables",
        selection: &["--test", "tables", "fast_rule_selector::"],
    },
    MiriProgram { package: "adit-datapath", selection: &["--lib", "shaper::"] },
    MiriProgram { package: "adit-pktio", selection: &["--lib"] },
];

/// Runs all programs, or prints why it cannot. With `CI` in the environment a missing Miri is an
/// error.
///
/// # Errors
/// A test fails, or Miri finds undefined behavior.
pub(crate) fn run() -> anyhow::Result<()> {
    let is_there = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        let reason =
            "no Miri: rustup toolchain install nightly --component miri --component rust-src";
        if std::env::var_os("CI").is_some() {
            bail!("{reason}");
        }
        println!("skipped: {reason}");
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    // Each program runs on one core in Miri.
    let run = |program: &MiriProgram| run_one(&root, program);
    let failed = parallel::map(PROGRAMS, run).into_iter().filter_map(Result::err);
    let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

fn run_one(root: &Path, program: &MiriProgram) -> anyhow::Result<()> {
    let MiriProgram { package, selection } = program;
    let mut command = Command::new("cargo");
    // These variables select the toolchain that built this program, not Miri's.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    // Miri does not optimize, and warns if a profile requests it.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    command.current_dir(root).args(["+nightly", "miri", "test", "--quiet"]).args(*selection);
    command.args(["--target-dir", "target/miri", "--package", package]);
    let status = command.status().context("cannot run cargo miri")?;
    if !status.success() {
        bail!("{package} {} in Miri: {status}", selection.join(" "));
    }
    Ok(())
}
