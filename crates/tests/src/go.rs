//! Programs in Go, built from the modules under `interop/` with the versions that those pin.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{run, skip};

/// A first build fetches and compiles everything that a module names.
const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// Builds `packages` of the module `interop/<module>` and returns the folder with the binaries.
/// `None`, told to the reader, where there is no Go or its modules cannot be had.
///
/// # Panics
/// When the module does not compile; when something is missing and the environment says `CI`.
#[must_use]
pub fn build(module: &str, packages: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop").join(module);
    let missing = |reason: String| {
        assert!(std::env::var_os("CI").is_none(), "{reason}");
        skip(reason);
    };
    if Command::new("go").arg("version").output().is_err() {
        missing("go not found".to_owned());
        return None;
    }
    let go = || {
        let mut command = Command::new("go");
        // The toolchain at hand: a download of another one is not ours to start.
        command.current_dir(&source).env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
        command
    };
    let fetched = run(go().args(["mod", "download"]), BUILD_LIMIT);
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr);
        missing(format!("go modules of {module}: {}", why.lines().next().unwrap_or_default()));
        return None;
    }
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).unwrap().join("interop").join(module);
    std::fs::create_dir_all(&target).unwrap();
    let mut command = go();
    command.args(["build", "-trimpath", "-buildvcs=false", "-o"]).arg(&target).args(packages);
    let built = run(&mut command, BUILD_LIMIT);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(target)
}
