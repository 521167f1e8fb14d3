//! Reports why a test skips.

use core::fmt::Display;
use std::io::Write;

/// Prints why a test skips if something installable is missing: root, a package, a program.
///
/// # Panics
/// When `CI` is in the environment: a job must not pass because it skips tests.
pub fn skip(reason: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "missing under CI: {reason}");
    report(reason);
}

/// Prints why a test skips if the machine itself lacks something: a core, a feature of its kernel.
pub fn skip_on_this_machine(reason: impl Display) {
    report(reason);
}

/// Writes to standard error itself: the harness hides the output of passing tests.
fn report(reason: impl Display) {
    // A closed standard error must not fail the test.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
