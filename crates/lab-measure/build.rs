//! Passes the git revision to the crate; every report contains it.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let revision = git(&["rev-parse", "--short=12", "HEAD"]);
    println!("cargo:rustc-env=ADIT_GIT_REVISION={}", revision.as_deref().unwrap_or("unknown"));
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
}
