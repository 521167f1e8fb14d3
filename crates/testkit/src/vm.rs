//! Scripts that run programs in a virtual machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skip_on_this_machine;

/// Environment variable: the folder with the unpacked kernel package, if not that of
/// `scripts/install.sh test`.
const KERNEL_ROOT: &str = "ADIT_TEST_VM_ROOT";

/// The status of a script if the machine lacks something.
const MISSING: i32 = 77;

/// The root of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/")).to_owned()
}

/// The folder that has the kernel of virtual machines.
#[must_use]
pub fn kernel_root() -> PathBuf {
    let unpacked = repository().join("target/vm-root");
    let usual = if unpacked.exists() { unpacked } else { "/".into() };
    std::env::var_os(KERNEL_ROOT).map_or(usual, PathBuf::from)
}

/// False, with the reason printed, if this machine can run no virtual machine.
///
/// # Panics
/// When there is no shell.
#[must_use]
pub fn is_possible() -> bool {
    let mut begin = Command::new("sh");
    begin.args(["-ec", ". \"$0\"; vm_begin \"$1\""]).arg(script("vm.sh")).arg(kernel_root());
    begin.output().is_ok_and(|output| output_of_vm(&output).is_some())
}

/// The script of this name, in `scripts/`.
#[must_use]
pub fn script(name: &str) -> PathBuf {
    repository().join("scripts").join(name)
}

/// The standard output of a script of a virtual machine. `None`, with the reason printed, if this
/// machine lacks something.
///
/// # Panics
/// When the script failed.
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

/// Runs a script of a virtual machine with a program and [`kernel_root`]. See [`output_of_vm`].
///
/// # Panics
/// When the script cannot be started or fails.
#[must_use]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run_in_vm(name: &str, programs: &[&Path]) -> Option<String> {
    let output = Command::new(script(name)).args(programs).arg(kernel_root()).output();
    match output {
        Ok(output) => output_of_vm(&output),
        Err(error) => panic!("{name}: {error}"),
    }
}
