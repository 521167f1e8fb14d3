//! Programs in Go, built from the modules under `interop/` with the pinned versions.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{run, skip};

/// Longest build. The first one fetches and compiles all dependencies.
const BUILD_LIMIT: Duration = Duration::from_secs(600);

/// A correction of mistakes in a foreign program that would hide the subject of the test.
#[derive(Debug, Clone, Copy)]
pub struct SourcePatch {
    /// The module.
    pub module: &'static str,
    /// Files within the module, texts in them, and their replacements.
    pub changes: &'static [(&'static str, &'static str, &'static str)],
}

impl SourcePatch {
    /// Copies the module to `target`, corrects the copy, and returns the `go.mod` of `source` with
    /// the copy in place of the module.
    fn apply(&self, mut go: Command, source: &Path, target: &Path) -> PathBuf {
        let listed = run(go.args(["list", "-m", "-f", "{{.Dir}}", self.module]), BUILD_LIMIT);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let original = String::from_utf8(listed.stdout).unwrap();
        let copy = target.join("mended");
        if copy.exists() {
            std::fs::remove_dir_all(&copy).unwrap();
        }
        let mut copied = Command::new("cp");
        copied.args(["-r", "--no-preserve=mode"]).arg(original.trim()).arg(&copy);
        assert!(run(&mut copied, BUILD_LIMIT).status.success());
        for (file, from, to) in self.changes {
            let file = copy.join(file);
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.contains(from), "{} has changed: {from}", file.display());
            std::fs::write(&file, text.replace(from, to)).unwrap();
        }
        let modules = std::fs::read_to_string(source.join("go.mod")).unwrap();
        let modules = format!("{modules}\nreplace {} => {}\n", self.module, copy.display());
        let path = target.join("mended.mod");
        std::fs::write(&path, modules).unwrap();
        std::fs::copy(source.join("go.sum"), target.join("mended.sum")).unwrap();
        path
    }
}

/// As [`build_patched`], without corrections.
#[must_use]
pub fn build(module: &str, packages: &[&str]) -> Option<PathBuf> {
    build_patched(module, packages, None)
}

/// Builds `packages` of the module `interop/<module>` and returns the folder with the binaries.
/// `None`, with the reason printed, without Go or without its modules.
///
/// # Panics
/// When the module does not compile; when something is missing and the environment says `CI`.
#[must_use]
pub fn build_patched(
    module: &str,
    packages: &[&str],
    mend: Option<SourcePatch>,
) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop").join(module);
    if Command::new("go").arg("version").output().is_err() {
        skip("go not found");
        return None;
    }
    let go = || {
        let mut command = Command::new("go");
        // Only the installed toolchain: a test does not download another one.
        command.current_dir(&source).env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
        command
    };
    let fetched = run(go().args(["mod", "download"]), BUILD_LIMIT);
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr);
        skip(format_args!("go modules of {module}: {}", why.lines().next().unwrap_or_default()));
        return None;
    }
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).unwrap().join("interop").join(module);
    std::fs::create_dir_all(&target).unwrap();
    let mut command = go();
    command.args(["build", "-trimpath", "-buildvcs=false"]);
    if let Some(mend) = mend {
        command.arg("-modfile").arg(mend.apply(go(), &source, &target));
    }
    command.arg("-o").arg(&target).args(packages);
    let built = run(&mut command, BUILD_LIMIT);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(target)
}
