//! Runs unit tests in Miri, which finds undefined behavior that a run on the processor hides.
//!
//! Only rooms whose memory Miri can follow take part: tables, packet buffers and queues. DPDK is foreign
//! code, and long loops take minutes in Miri. The same tests run without Miri, too.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// A package, its programs, and words of which a test's name must contain one; no words for all tests.
struct MiriTests {
    package: &'static str,
    programs: &'static [&'static str],
    names: &'static [&'static str],
}

const TESTS: &[MiriTests] = &[
    MiriTests { package: "adit-pktio", programs: &["--lib"], names: &[] },
    MiriTests { package: "adit-shaper", programs: &["--lib"], names: &[] },
    MiriTests { package: "adit-tables", programs: &["--test", "publish_memory"], names: &[] },
    // Others take thousands of rounds, or ask the kernel for large pages.
    MiriTests {
        package: "adit-tables",
        programs: &["--lib"],
        names: &["address_and_flow_may", "is_read_", "are_found_by_slice_and_direction"],
    },
];

/// Runs all, or prints why not. With `CI` in the environment a missing Miri is an error.
///
/// # Errors
/// When a test fails or Miri finds something.
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
    for tests in TESTS {
        let mut command = Command::new("cargo");
        // Cargo sets these for the toolchain that built this program.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
        command.current_dir(&root).args(["+nightly", "miri", "test", "--quiet"]);
        command.args(tests.programs);
        command.args(["--target-dir", "target/miri", "--package", tests.package, "--"]);
        command.args(tests.names);
        let status = command.status().context("cannot run cargo miri")?;
        if !status.success() {
            bail!("{} in Miri: {status}", tests.package);
        }
    }
    Ok(())
}
