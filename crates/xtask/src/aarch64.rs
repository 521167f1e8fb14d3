//! `cargo xtask aarch64`: every room compiles for aarch64.
//!
//! DPDK's headers depend on the architecture. apt fetches the arm64 packages of this machine's own
//! sources into the build folder, with lists and caches there, and installs nothing. clang
//! translates them. Nothing is linked or run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Packages with the headers.
const PACKAGES: [&str; 7] = [
    "libdpdk-dev",
    "libbsd-dev",
    "libc6-dev",
    "linux-libc-dev",
    "libelf-dev",
    "zlib1g-dev",
    "libhwloc-dev",
];

/// The folder of the packages that pkg-config reads.
const PKG_CONFIG: &str = "usr/lib/aarch64-linux-gnu/pkgconfig";

/// Checks all rooms, or prints what is missing. With `CI` in the environment that is an error.
///
/// # Errors
/// When a room does not compile.
pub(crate) fn run() -> anyhow::Result<()> {
    match prepare() {
        Ok(sysroot) => check(&sysroot),
        Err(reason) if std::env::var_os("CI").is_none() => {
            println!("skipped: aarch64: {reason:#}");
            Ok(())
        }
        Err(reason) => Err(reason),
    }
}

/// The folder with the headers, which are fetched if it is not there.
fn prepare() -> anyhow::Result<PathBuf> {
    let libraries = ["--print", "target-libdir", "--target", TARGET];
    let libraries = Command::new("rustc").args(libraries).output().context("cannot run rustc")?;
    if !Path::new(String::from_utf8_lossy(&libraries.stdout).trim()).exists() {
        bail!("the target is missing: rustup target add {TARGET}");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    std::fs::create_dir_all(&target).with_context(|| target.display().to_string())?;
    let folder = target.canonicalize()?.join("aarch64-headers");
    let sysroot = folder.join("root");
    if !sysroot.exists() {
        fetch(&folder, &sysroot)?;
    }
    Ok(sysroot)
}

/// Fetches the packages and unpacks them into `sysroot`.
fn fetch(folder: &Path, sysroot: &Path) -> anyhow::Result<()> {
    for part in ["state/lists/partial", "cache/archives/partial", "packages"] {
        std::fs::create_dir_all(folder.join(part)).context("folders for apt")?;
    }
    std::fs::write(folder.join("state/status"), "").context("folders for apt")?;
    let apt = |arguments: &[&str]| {
        let at = |path: &str| folder.join(path).display().to_string();
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]);
        for (name, value) in [
            ("Dir::State", at("state")),
            ("Dir::State::status", at("state/status")),
            ("Dir::Cache", at("cache")),
            ("APT::Sandbox::User", "root".to_owned()),
        ] {
            command.args(["-o", &format!("{name}={value}")]);
        }
        ran(command.current_dir(folder.join("packages")).args(arguments))
    };
    eprintln!("fetching the arm64 headers of {}", PACKAGES.join(", "));
    apt(&["update"])?;
    let mut download = vec!["download"];
    download.extend(PACKAGES);
    apt(&download)?;
    // Unpacked in another folder first, so an interrupted run leaves no partial one.
    let aside = folder.join("unpacking");
    for entry in std::fs::read_dir(folder.join("packages"))? {
        ran(Command::new("dpkg-deb").arg("-x").arg(entry?.path()).arg(&aside))?;
    }
    drop_private(&aside.join(PKG_CONFIG).join("libdpdk.pc"))?;
    std::fs::rename(&aside, sysroot).context("unpacked packages")
}

/// Without the requirements of `libdpdk.pc` for static linking, which need a dozen further
/// packages.
fn drop_private(file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let kept = text.lines().filter(|line| !line.starts_with("Requires.private"));
    let text: String = kept.flat_map(|line| [line, "\n"]).collect();
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

fn check(sysroot: &Path) -> anyhow::Result<()> {
    let headers = format!("--target={TARGET} --sysroot={}", sysroot.display());
    let mut command = Command::new("cargo");
    command
        .args(["check", "--quiet", "--workspace", "--all-targets", "--target", TARGET])
        .env("PKG_CONFIG_ALLOW_CROSS", "1")
        .env("PKG_CONFIG_SYSROOT_DIR", sysroot)
        .env("PKG_CONFIG_LIBDIR", sysroot.join(PKG_CONFIG))
        .env("BINDGEN_EXTRA_CLANG_ARGS", &headers)
        .env("CC_aarch64_unknown_linux_gnu", "clang")
        .env("AR_aarch64_unknown_linux_gnu", "ar")
        .env("CFLAGS_aarch64_unknown_linux_gnu", &headers);
    ran(&mut command).context("clang is needed too")?;
    println!("every room compiles for {TARGET}");
    Ok(())
}

fn ran(command: &mut Command) -> anyhow::Result<()> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown} failed ({status})");
    }
    Ok(())
}
