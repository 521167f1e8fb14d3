//! Packages of the programs that tests run, as `scripts/deb.sh` makes them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use adit_tests::process::{binary, run, skip};
use tempfile::TempDir;

/// The version of the packages, which is later than that of any release.
pub(crate) const VERSION: &str = "99.2";
const LIMIT: Duration = Duration::from_secs(180);

/// Both packages.
#[derive(Debug)]
pub(crate) struct Packages {
    pub adit: PathBuf,
    pub lab: PathBuf,
}

/// The packages, made once, in the build folder. `None`, with the reason printed, without what
/// makes them.
pub(crate) fn packages() -> Option<&'static Packages> {
    static MADE: OnceLock<Option<Packages>> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = target().join("test-packages");
        let _ = std::fs::remove_dir_all(&folder);
        make(&folder)
    })
    .as_ref()
}

/// Makes both packages in `folder`.
pub(crate) fn make(folder: &Path) -> Option<Packages> {
    let (adit, _) = (binary("adit")?, binary("adit-lab")?);
    if !has(&["dpkg-deb", "dpkg-shlibdeps"]) {
        return None;
    }
    let mut script = Command::new(root().join("scripts/deb.sh"));
    script.arg(adit.parent().unwrap()).arg(folder);
    // Better compression takes most of the time.
    script.env("ADIT_PACKAGE_VERSION", VERSION).env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
    let paths = said(&mut script);
    let [adit, lab] = paths.lines().map(PathBuf::from).collect::<Vec<_>>().try_into().unwrap();
    Some(Packages { adit, lab })
}

/// The package with another version, and perhaps another program.
pub(crate) fn repacked(package: &Path, version: &str, program: Option<&Path>) -> PathBuf {
    let tree = TempDir::new().unwrap();
    said(Command::new("dpkg-deb").arg("-R").arg(package).arg(tree.path()));
    let control = tree.path().join("DEBIAN/control");
    let text = std::fs::read_to_string(&control).unwrap();
    let lines = text.lines().map(|line| match line.starts_with("Version: ") {
        true => format!("Version: {version}\n"),
        false => format!("{line}\n"),
    });
    std::fs::write(&control, lines.collect::<String>()).unwrap();
    if let Some(program) = program {
        std::fs::copy(program, tree.path().join("usr/bin/adit")).unwrap();
    }
    let made = package.with_file_name(format!("adit_{version}.deb"));
    let mut deb = Command::new("dpkg-deb");
    deb.args(["--root-owner-group", "-z0", "--build"]).arg(tree.path()).arg(&made);
    said(&mut deb);
    made
}

/// True if all programs are there; else prints which one is missing.
pub(crate) fn has(programs: &[&str]) -> bool {
    let is_missing = |program: &&&str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        !std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
    };
    let missing = programs.iter().find(is_missing);
    if let Some(program) = missing {
        skip(format_args!("{program} is missing"));
    }
    missing.is_none()
}

/// The standard output of a command that succeeds.
pub(crate) fn said(command: &mut Command) -> String {
    let output = run(command, LIMIT);
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{told}");
    said
}

/// The build folder.
pub(crate) fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
