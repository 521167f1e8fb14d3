//! The architecture as a failing check. The table here and ARCHITECTURE.md say the same thing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// One room: its package, its floor, the rooms it may import, and what its code may do.
struct Room {
    package: &'static str,
    imports: &'static [&'static str],
    may: &'static [RoomPermission],
}

/// Something that most rooms must not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoomPermission {
    /// Hold `unsafe` blocks.
    Unsafe,
    /// Read a clock.
    Clock,
}

use RoomPermission::{Clock, Unsafe};

const ROOMS: &[Room] = &[
    Room { package: "adit-types", imports: &[], may: &[] },
    Room { package: "adit-baseline", imports: &[], may: &[Unsafe] },
    Room { package: "adit-wire", imports: &["adit-types"], may: &[] },
    Room { package: "adit-pfcp", imports: &["adit-types"], may: &[] },
    Room { package: "adit-rules", imports: &["adit-types"], may: &[] },
    Room { package: "adit-pktio", imports: &["adit-types"], may: &[] },
    Room { package: "adit-session", imports: &["adit-types", "adit-rules"], may: &[] },
    Room { package: "adit-shaper", imports: &["adit-types"], may: &[] },
    Room { package: "adit-tables", imports: &["adit-types", "adit-rules"], may: &[Unsafe] },
    Room {
        package: "adit-n4",
        imports: &["adit-types", "adit-rules", "adit-pfcp", "adit-session"],
        may: &[],
    },
    Room {
        package: "adit-datapath",
        imports: &[
            "adit-types",
            "adit-rules",
            "adit-wire",
            "adit-pktio",
            "adit-shaper",
            "adit-tables",
        ],
        may: &[],
    },
    Room { package: "adit-dpdk-sys", imports: &[], may: &[Unsafe] },
    Room {
        package: "adit-dpdk",
        imports: &["adit-types", "adit-pktio", "adit-dpdk-sys"],
        may: &[Unsafe, Clock],
    },
    Room {
        package: "adit",
        imports: &[
            "adit-baseline",
            "adit-types",
            "adit-wire",
            "adit-rules",
            "adit-pfcp",
            "adit-pktio",
            "adit-session",
            "adit-tables",
            "adit-n4",
            "adit-datapath",
            "adit-dpdk",
        ],
        may: &[Clock],
    },
    Room { package: "adit-lab-process", imports: &[], may: &[Clock] },
    Room {
        package: "adit-lab-engine",
        imports: &["adit-types", "adit-wire", "adit-pktio", "adit-dpdk", "adit-lab-process"],
        may: &[],
    },
    Room {
        package: "adit-lab-smf",
        imports: &["adit-types", "adit-pfcp", "adit-lab-process", "adit-lab-engine"],
        may: &[Clock],
    },
    Room {
        package: "adit-lab-measure",
        imports: &[
            "adit-types",
            "adit-wire",
            "adit-pktio",
            "adit-dpdk",
            "adit-lab-process",
            "adit-lab-engine",
            "adit-lab-smf",
        ],
        may: &[Clock],
    },
    Room {
        package: "adit-lab",
        imports: &[
            "adit-baseline",
            "adit-types",
            "adit-wire",
            "adit-pfcp",
            "adit-lab-process",
            "adit-lab-smf",
            "adit-lab-measure",
        ],
        may: &[Clock],
    },
    Room {
        package: "adit-testkit",
        imports: &["adit-types", "adit-wire", "adit-pktio", "adit-rules", "adit-pfcp"],
        may: &[],
    },
    Room { package: "adit-tests", imports: ANY, may: &[Unsafe, Clock] },
    Room { package: "xtask", imports: &["adit-pfcp", "adit-n4"], may: &[] },
];

/// Every room of the house.
const ANY: &[&str] = &["*"];

/// Files with one reason to hold `unsafe` in a room that otherwise holds none.
const UNSAFE_FILES: &[&str] = &["crates/lab-engine/src/memif/shared.rs", "crates/lab/src/tun.rs"];

/// Rooms that only other rooms' tests may import.
const TEST_ROOMS: &[&str] = &["adit-testkit"];

/// Names that say nothing about what is inside.
const FORBIDDEN_NAMES: &[&str] = &["utils", "common", "helpers", "misc", "manager", "core"];

/// Crates that belong to the binaries: they bring configuration, terminals and runtimes.
const FLOOR_FIVE_CRATES: &[&str] =
    &["serde", "serde_json", "toml", "clap", "tokio", "tracing-subscriber", "anyhow"];

const FLOOR_FIVE: &[&str] = &[
    "adit",
    "adit-lab-process",
    "adit-lab-engine",
    "adit-lab-smf",
    "adit-lab-measure",
    "adit-lab",
    "adit-tests",
    "xtask",
];

/// Rooms that workers run through: no lock, nothing made on first use, nothing of a thread's own.
const LOCK_FREE: &[&str] =
    &["adit-types", "adit-wire", "adit-rules", "adit-pktio", "adit-tables", "adit-datapath"];
/// Files where the control side of the publication takes one.
const LOCK_FILES: &[&str] = &["crates/tables/src/publish.rs", "crates/tables/src/sync.rs"];
const LOCKS: &[&str] = &["Mutex", "RwLock", "Condvar", "OnceLock", "LazyLock", "thread_local!"];

/// Longest source file without a test in it.
const LINES_MAX: usize = 800;

pub fn run() -> anyhow::Result<()> {
    let metadata = MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    let root = metadata.workspace_root.clone().into_std_path_buf();
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let Some(room) = ROOMS.iter().find(|room| room.package == package.name.as_str()) else {
            findings.push(format!("{}: not in the table of rooms", package.name));
            continue;
        };
        check_imports(room, package, &mut findings);
        let folder = package.manifest_path.parent().map(|path| path.as_std_path().to_owned());
        for file in rust_files(&folder.unwrap_or_default())? {
            check_file(room, &root, &file, &mut findings)?;
        }
    }
    if findings.is_empty() {
        println!("tidy: {} rooms in order", ROOMS.len());
        return Ok(());
    }
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    bail!("{} findings", findings.len())
}

fn check_imports(room: &Room, package: &Package, findings: &mut Vec<String>) {
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let for_tests = dependency.kind == DependencyKind::Development;
        let own = name.starts_with("adit");
        let test_room = TEST_ROOMS.contains(&name) && (for_tests || room.package == "adit-tests");
        if own && !for_tests && !test_room && room.imports != ANY && !room.imports.contains(&name) {
            findings.push(format!("{}: may not import {name}", room.package));
        }
        if !for_tests && FLOOR_FIVE_CRATES.contains(&name) && !FLOOR_FIVE.contains(&room.package) {
            findings.push(format!("{}: {name} belongs to the binaries", room.package));
        }
    }
}

fn check_file(
    room: &Room,
    root: &Path,
    file: &Path,
    findings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let in_tests = shown.contains("/tests/") || shown.ends_with("tests.rs");
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let parent = file.parent().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    for name in [Some(stem), parent].into_iter().flatten() {
        if FORBIDDEN_NAMES.contains(&name) {
            findings.push(format!("{shown}: \"{name}\" says nothing about what is inside"));
        }
    }
    let lines = text.lines().count();
    if lines > LINES_MAX && !in_tests && !text.contains("#[cfg(test)]") {
        findings.push(format!("{shown}: {lines} lines; is there a second concept inside?"));
    }
    // This file names what it looks for.
    if shown.ends_with("xtask/src/tidy.rs") {
        return Ok(());
    }
    let unsafe_here = room.may.contains(&Unsafe) || UNSAFE_FILES.contains(&shown.as_str());
    let no_locks =
        LOCK_FREE.contains(&room.package) && !in_tests && !LOCK_FILES.contains(&shown.as_str());
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let place = format!("{shown}:{}", index + 1);
        if has_unsafe(code) && !unsafe_here {
            findings.push(format!("{place}: unsafe has its own rooms"));
        }
        let clock = ["Instant::now", "SystemTime::now", "_rdtsc"].iter().any(|c| code.contains(c));
        if clock && !room.may.contains(&Clock) && !in_tests {
            findings.push(format!("{place}: time is an argument here"));
        }
        let lock = LOCKS.iter().find(|lock| code.contains(**lock));
        if let Some(lock) = lock.filter(|_| no_locks) {
            findings.push(format!("{place}: {lock} has no place on the packet path"));
        }
        if ["todo!(", "unimplemented!(", "#[ignore"].iter().any(|mark| code.contains(mark)) {
            findings.push(format!("{place}: unfinished or skipped"));
        }
    }
    Ok(())
}

fn has_unsafe(code: &str) -> bool {
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|form| code.contains(form))
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_import_of_the_table_is_a_room() {
        let known = |name: &str| name == "*" || ROOMS.iter().any(|room| room.package == name);
        assert!(ROOMS.iter().flat_map(|room| room.imports).all(|name| known(name)));
    }

    #[test]
    fn imports_go_downward() {
        let position = |name: &str| ROOMS.iter().position(|room| room.package == name);
        for room in ROOMS.iter().filter(|room| room.imports != ANY) {
            for import in room.imports {
                assert!(position(import) < position(room.package), "{} → {import}", room.package);
            }
        }
    }

    #[test]
    fn unsafe_is_found_in_code_only() {
        assert!(has_unsafe("let x = unsafe { y };"));
        assert!(!has_unsafe("#![forbid(unsafe_code)]"));
    }
}
