//! The binary of the previous release, for tests of update and roll-back.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The releases that the repository lists.
const RELEASES: &str = include_str!("../../../releases.toml");

struct FormerRelease {
    version: String,
    revision: String,
}

fn last_release() -> FormerRelease {
    let releases: toml::Table = RELEASES.parse().unwrap();
    let last = releases["release"].as_array().unwrap().last().unwrap();
    let text = |key: &str| last[key].as_str().unwrap().to_owned();
    FormerRelease { version: text("version"), revision: text("revision") }
}

/// `adit` of the last release: `target/releases/VERSION/adit`. With `ADIT_RELEASES` in the
/// environment it is built there from the recorded revision if it is missing, which takes minutes.
/// `None`, with the reason printed, without it.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn former_release() -> Option<PathBuf> {
    let release = last_release();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let test = std::env::current_exe().unwrap();
    // The test is in target/PROFILE/deps.
    let folder = test.ancestors().nth(3).unwrap().join("releases").join(&release.version);
    let adit = folder.join("adit");
    if adit.exists() {
        return Some(adit);
    }
    if std::env::var_os("ADIT_RELEASES").is_none() {
        println!(
            "skipped: adit {} is not built; ADIT_RELEASES=1 builds it from {}",
            release.version, release.revision
        );
        return None;
    }
    if !has_revision(&root, &release.revision) {
        println!("skipped: this clone lacks the revision {}", release.revision);
        return None;
    }
    build(&root, &folder, &release);
    Some(adit)
}

fn has_revision(root: &Path, revision: &str) -> bool {
    let object = format!("{revision}^{{commit}}");
    let mut git = Command::new("git");
    git.args(["cat-file", "-e", &object]).current_dir(root).stderr(Stdio::null());
    git.status().is_ok_and(|status| status.success())
}

/// Builds the release outside of the repository's own build.
fn build(root: &Path, folder: &Path, release: &FormerRelease) {
    let source = folder.join("source");
    std::fs::create_dir_all(&source).unwrap();
    let mut git = Command::new("git");
    let archive = git.args(["archive", &release.revision]).current_dir(root).output().unwrap();
    assert!(archive.status.success(), "git archive {}", release.revision);
    let tar = folder.join("source.tar");
    std::fs::write(&tar, archive.stdout).unwrap();
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(&tar).arg("-C").arg(&source);
    assert!(unpack.status().unwrap().success(), "{unpack:?}");
    let target = folder.join("target");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "adit", "--target-dir"]).arg(&target);
    cargo.current_dir(&source).env("ADIT_REVISION", &release.revision);
    assert!(cargo.status().unwrap().success(), "adit {} cannot be built", release.version);
    std::fs::copy(target.join("debug/adit"), folder.join("adit.new")).unwrap();
    std::fs::rename(folder.join("adit.new"), folder.join("adit")).unwrap();
}
