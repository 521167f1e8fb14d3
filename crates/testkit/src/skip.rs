//! Reports why a test is skipped.

use core::fmt::Display;
use std::io::Write;

/// Prints why a test is skipped if something is missing that can be installed: root, a package, a
/// program.
///
/// # Panics
/// If `CI` is in the environment: a CI job must not pass because it skips tests.
pub fn skip(reason: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "missing under CI: {reason}");
    report(reason);
}

/// Prints why a test is skipped if the machine itself lacks something: a core, a kernel feature.
pub fn skip_on_this_machine(reason: impl Display) {
    report(reason);
}

/// Writes to standard error directly: the test harness hides the captured output of passing tests.
fn report(reason: impl Display) {
    // A closed standard error must not fail the test.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
