//! Gives the binary its revision: that of `ADIT_REVISION`, or of the git clone that it is built in.
//! A debug build does not look at git, so commits do not compile it again.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ADIT_REVISION");
    let given = env::var("ADIT_REVISION").ok().filter(|revision| !revision.is_empty());
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let known = given.or_else(|| if is_debug { None } else { revision_of_clone() });
    let revision = known.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=ADIT_REVISION={revision}");
}

/// The revision of the clone, with `-dirty` if files differ from it. `None` outside of a clone,
/// such as in an archive.
fn revision_of_clone() -> Option<String> {
    let described = git(&["describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"])?;
    // Written by each commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    Some(described)
}

/// The output of git in one line.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|line| !line.is_empty())
}
