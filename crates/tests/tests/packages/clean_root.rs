//! A root of the distribution of this machine with what the package depends on, and nothing else.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_tests::process::{TestNamespace, is_root, run, skip};
use tempfile::TempDir;

use crate::package::{Packages, has, said, target};

/// Where Debian and Ubuntu name the archives of packages.
const SOURCES: [&str; 3] = [
    "/etc/apt/sources.list.d/debian.sources",
    "/etc/apt/sources.list.d/ubuntu.sources",
    "/etc/apt/sources.list",
];
const LIMIT: Duration = Duration::from_secs(300);

/// Commands run in the root `$0` with its own `/proc`, and with the devices of this machine.
pub(crate) const ENTER: &str = "mount --make-rprivate / && mount -t proc proc \"$0/proc\" && \
    mount --rbind /sys \"$0/sys\" && mount --rbind /dev \"$0/dev\" &&";

/// Files and folders that dpkg and other packages write, such as the lock of adduser.
const ELSEWHERE: [&str; 7] = [
    "./run/adduser",
    "./var/log",
    "./var/cache",
    "./var/lib/dpkg",
    "./var/lib/apt",
    "./tmp",
    "./var/backups",
];

/// A copy of the root. Dropping it removes the copy.
#[derive(Debug)]
pub(crate) struct CleanRoot {
    folder: TempDir,
}

impl CleanRoot {
    /// `None`, with the reason printed, without what makes it.
    pub(crate) fn new(packages: &Packages) -> Option<Self> {
        if !is_root() || !has(&["mmdebstrap"]) {
            return None;
        }
        let depends = said(Command::new("dpkg-deb").arg("-f").arg(&packages.adit).arg("Depends"));
        let template = template(depends.trim())?;
        let folder = tempfile::tempdir().unwrap();
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto", "-T"]).arg(&template).arg(folder.path());
        said(&mut copy);
        // chroot needs no more.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        // The root does not have to survive the machine.
        let root = Self { folder };
        std::fs::write(root.path("/etc/dpkg/dpkg.cfg.d/test"), "force-unsafe-io\n").unwrap();
        Some(root)
    }

    /// Its path outside.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside.trim_start_matches('/'))
    }

    /// A command in it, and perhaps in a namespace.
    pub(crate) fn command(&self, namespace: Option<&TestNamespace>, words: &[&str]) -> Command {
        let enter = format!("{ENTER} exec chroot \"$0\" \"$@\"");
        let unshare = ["--mount", "sh", "-c", &enter];
        let mut command = match namespace {
            None => Command::new("unshare"),
            Some(namespace) => namespace.command(Path::new("unshare")),
        };
        command.args(unshare).arg(self.folder.path()).args(words).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        command
    }

    /// The output of a command that succeeds.
    pub(crate) fn said(&self, words: &[&str]) -> String {
        said(&mut self.command(None, words))
    }

    /// Puts a package into it, and returns the path there.
    pub(crate) fn put(&self, package: &Path) -> String {
        let name = package.file_name().unwrap().to_str().unwrap();
        std::fs::copy(package, self.path("/tmp").join(name)).unwrap();
        format!("/tmp/{name}")
    }

    /// Mode, owner and name of each file but those of dpkg.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let listed = self.said(&["find", ".", "-xdev", "-printf", "%M %u:%g %p\n"]);
        let is_own = |line: &&str| {
            let path = line.splitn(3, ' ').nth(2).unwrap();
            // adduser leaves the former version of its files.
            !ELSEWHERE.iter().any(|folder| path.starts_with(folder)) && !path.ends_with('-')
        };
        listed.lines().filter(is_own).map(str::to_owned).collect()
    }

    pub(crate) fn text(&self, inside: &str) -> String {
        std::fs::read_to_string(self.path(inside)).unwrap()
    }
}

/// The root that copies are made of, in the build folder. It is made once for each list of
/// dependencies.
fn template(depends: &str) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    depends.hash(&mut hasher);
    let folder = target().join(format!("package-root-{:016x}", hasher.finish()));
    if folder.exists() {
        return Some(folder);
    }
    let aside = folder.with_extension("new");
    let _ = std::fs::remove_dir_all(&aside);
    let release = std::fs::read_to_string("/etc/os-release").unwrap();
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    let names = depends.split(',').map(|of| of.split(['(', '|']).next().unwrap().trim());
    let names = names.collect::<Vec<_>>().join(",");
    let sources = SOURCES.iter().find(|path| Path::new(path).exists())?;
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--mode=root", "--variant=minbase", "--include", &names, suite]);
    let output = run(make.arg(&aside).arg(sources), LIMIT);
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        skip(format_args!("mmdebstrap makes no root: {}", told.lines().last().unwrap_or_default()));
        return None;
    }
    std::fs::rename(&aside, &folder).unwrap();
    Some(folder)
}
