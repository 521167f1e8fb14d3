//! Runs scripts that run programs in a virtual machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skip_on_this_machine;

/// Environment variable with the folder of the unpacked kernel package, if it is not the one of
/// `scripts/install.sh test`.
const KERNEL_ROOT: &str = "ADIT_TEST_VM_ROOT";

/// Exit status of a script if the machine lacks something.
const MISSING: i32 = 77;

/// Returns the root of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/")).to_owned()
}

/// Returns the folder that has the kernel of virtual machines.
#[must_use]
pub fn kernel_root() -> PathBuf {
    let unpacked = repository().join("target/vm-root");
    let usual = if unpacked.exists() { unpacked } else { "/".into() };
    std::env::var_os(KERNEL_ROOT).map_or(usual, PathBuf::from)
}

/// False, with the reason printed, if this machine cannot run a virtual machine.
///
/// # Panics
/// If there is no shell.
#[must_use]
pub fn is_possible() -> bool {
    let mut begin = Command::new("sh");
    begin.args(["-ec", ". \"$0\"; vm_begin \"$1\""]).arg(script("vm.sh")).arg(kernel_root());
    begin.output().is_ok_and(|output| output_of_vm(&output).is_some())
}

/// Returns the path of a script in `scripts/`.
#[must_use]
pub fn script(name: &str) -> PathBuf {
    repository().join("scripts").join(name)
}

/// Returns the standard output of a script that ran a virtual machine. `None`, with the reason
/// printed, if this machine lacks something.
///
/// # Panics
/// If the script failed.
#[must_use]
pub fn output_of_vm(output: &Output) -> Option<String> {
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(MISSING) {
        skip_on_this_machine(errors.trim());
        return None;
    }
    assert!(output.status.success(), "{told}\n{errors}");
    Some(told)
}

/// Runs a script that starts a virtual machine, with `programs` and [`kernel_root`] as arguments.
/// See [`output_of_vm`].
///
/// # Panics
/// If the script cannot be started or fails.
#[must_use]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run_in_vm(name: &str, programs: &[&Path]) -> Option<String> {
    let output = Command::new(script(name)).args(programs).arg(kernel_root()).output();
    match output {
        Ok(output) => output_of_vm(&output),
        Err(error) => panic!("{name}: {error}"),
    }
}
