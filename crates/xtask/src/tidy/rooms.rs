//! The table of rooms, which are the crates: which rooms each may import, and what its code may do.
//! `docs/internals/rooms.md` has the same table, and ARCHITECTURE.md names each room.

use std::fs;

use cargo_metadata::{DependencyKind, Metadata, Package};

use super::regions::{Region, regions};
use super::source::SourceFile;

/// One room: its package, the rooms that it may import, and what its code may do.
struct Room {
    package: &'static str,
    imports: &'static [&'static str],
    may: &'static [RoomPermission],
}

/// A permission that only some rooms have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoomPermission {
    /// The room may contain `unsafe` blocks.
    Unsafe,
    /// The room may read a clock.
    Clock,
    /// The room may use serde, to describe values that outlive the process.
    Values,
}

use RoomPermission::{Clock, Unsafe, Values};

impl Room {
    /// Returns the name of the room in documents.
    fn name(&self) -> &'static str {
        short_name(self.package)
    }

    /// Returns the end of the room's row in `docs/internals/rooms.md`: imports and permissions.
    fn row_end(&self) -> String {
        let imports = match self.imports {
            ANY => vec!["any"],
            imports => imports.iter().map(|package| short_name(package)).collect(),
        };
        let of_room = self.may.iter().map(|permission| match permission {
            Unsafe => "`unsafe`".to_owned(),
            Clock => "clock".to_owned(),
            Values => "serde".to_owned(),
        });
        let folder = format!("crates/{}/src/", self.name());
        let files = UNSAFE_FILES.iter().filter_map(|file| file.strip_prefix(folder.as_str()));
        let of_files = files.map(|file| format!("`unsafe` in `{file}`"));
        let permissions: Vec<String> = of_room.chain(of_files).collect();
        format!("| {} | {} |", or_dash(&imports.join(", ")), or_dash(&permissions.join(", ")))
    }
}

/// Returns the name of a package in documents.
fn short_name(package: &'static str) -> &'static str {
    package.strip_prefix("adit-").unwrap_or(package)
}

/// Returns the text of a table cell; a dash if it is empty.
fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

const ROOMS: &[Room] = &[
    Room { package: "adit-types", imports: &[], may: &[] },
    Room { package: "adit-baseline", imports: &[], may: &[Unsafe] },
    Room { package: "adit-wire", imports: &["adit-types"], may: &[] },
    Room { package: "adit-pfcp", imports: &["adit-types"], may: &[] },
    Room { package: "adit-rules", imports: &["adit-types"], may: &[] },
    Room { package: "adit-pktio", imports: &["adit-types"], may: &[] },
    Room { package: "adit-session", imports: &["adit-types", "adit-rules"], may: &[] },
    Room { package: "adit-tables", imports: &["adit-types", "adit-rules"], may: &[Unsafe] },
    Room { package: "adit-store", imports: &["adit-types"], may: &[] },
    Room {
        package: "adit-n4",
        imports: &["adit-types", "adit-pfcp", "adit-rules", "adit-session", "adit-store"],
        may: &[Values],
    },
    Room {
        package: "adit-datapath",
        imports: &["adit-types", "adit-wire", "adit-rules", "adit-pktio", "adit-tables"],
        may: &[],
    },
    Room { package: "adit-dpdk-sys", imports: &[], may: &[Unsafe] },
    Room {
        package: "adit-dpdk",
        imports: &["adit-types", "adit-wire", "adit-rules", "adit-pktio", "adit-dpdk-sys"],
        may: &[Unsafe, Clock],
    },
    Room { package: "adit-machine", imports: &[], may: &[Clock, Values] },
    Room { package: "adit-xdp", imports: &["adit-types", "adit-rules"], may: &[Unsafe, Clock] },
    Room {
        package: "adit-kernel",
        imports: &["adit-types", "adit-wire", "adit-pktio"],
        may: &[Unsafe],
    },
    Room { package: "adit-topology", imports: &["adit-machine"], may: &[] },
    Room { package: "adit-transport", imports: &["adit-types", "adit-pktio"], may: &[] },
    Room {
        package: "adit-shared-store",
        imports: &["adit-types", "adit-store", "adit-transport"],
        may: &[Clock],
    },
    Room {
        package: "adit-operate",
        imports: &["adit-types", "adit-tables", "adit-n4"],
        may: &[Clock],
    },
    Room { package: "adit-nrf", imports: &["adit-types", "adit-transport"], may: &[Clock] },
    Room {
        package: "adit",
        imports: &[
            "adit-types",
            "adit-baseline",
            "adit-wire",
            "adit-pfcp",
            "adit-rules",
            "adit-pktio",
            "adit-session",
            "adit-tables",
            "adit-store",
            "adit-n4",
            "adit-datapath",
            "adit-dpdk",
            "adit-machine",
            "adit-xdp",
            "adit-kernel",
            "adit-topology",
            "adit-transport",
            "adit-shared-store",
            "adit-operate",
            "adit-nrf",
        ],
        may: &[Clock],
    },
    Room { package: "adit-lab-process", imports: &["adit-types"], may: &[Clock] },
    Room {
        package: "adit-lab-engine",
        imports: &["adit-types", "adit-wire", "adit-pktio", "adit-dpdk", "adit-lab-process"],
        may: &[Clock],
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
            "adit-machine",
            "adit-transport",
            "adit-lab-process",
            "adit-lab-engine",
            "adit-lab-smf",
        ],
        may: &[Clock],
    },
    Room {
        package: "adit-lab",
        imports: &[
            "adit-types",
            "adit-baseline",
            "adit-wire",
            "adit-pfcp",
            "adit-transport",
            "adit-lab-process",
            "adit-lab-engine",
            "adit-lab-smf",
            "adit-lab-measure",
        ],
        may: &[Clock],
    },
    Room {
        package: "adit-testkit",
        imports: &[
            "adit-types",
            "adit-wire",
            "adit-pfcp",
            "adit-rules",
            "adit-pktio",
            "adit-store",
        ],
        may: &[],
    },
    Room {
        package: "adit-bench",
        imports: &[
            "adit-types",
            "adit-baseline",
            "adit-wire",
            "adit-pfcp",
            "adit-rules",
            "adit-pktio",
            "adit-session",
            "adit-tables",
            "adit-store",
            "adit-n4",
            "adit-datapath",
            "adit-dpdk",
            "adit-xdp",
            "adit-kernel",
            "adit-transport",
            "adit-shared-store",
            "adit-operate",
        ],
        may: &[Clock],
    },
    Room { package: "adit-tests", imports: ANY, may: &[Unsafe, Clock] },
    Room { package: "xtask", imports: &["adit-pfcp", "adit-n4"], may: &[Clock] },
];

/// In `imports`: the room may import every other room.
const ANY: &[&str] = &["*"];

/// Files that may contain `unsafe` in rooms without that permission.
const UNSAFE_FILES: &[&str] = &[
    "crates/bench/src/c_floor.rs",
    "crates/lab-engine/src/memif/shared.rs",
    "crates/lab-measure/src/baseband_app/sched_attributes.rs",
    "crates/lab/src/tun.rs",
    "crates/topology/src/hwloc.rs",
    "crates/topology/src/hwloc_sys.rs",
    "crates/transport/src/busy_poll.rs",
    "crates/wire/src/rss/gfni.rs",
];

/// Rooms that may only be imported by tests.
const TEST_ROOMS: &[&str] = &["adit-testkit"];

/// Forbidden names of files and folders: they do not describe the contents.
const FORBIDDEN_NAMES: &[&str] = &["utils", "common", "helpers", "misc", "manager", "core"];

/// External crates that only rooms of floor 5 may import: configuration, terminals and runtimes.
const FLOOR_FIVE_CRATES: &[&str] =
    &["serde", "serde_json", "toml", "clap", "tokio", "tracing-subscriber", "anyhow"];

const FLOOR_FIVE: &[&str] = &[
    "adit",
    "adit-operate",
    "adit-nrf",
    "adit-bench",
    "adit-lab-process",
    "adit-lab-engine",
    "adit-lab-smf",
    "adit-lab-measure",
    "adit-lab",
    "adit-tests",
    "xtask",
];

/// Rooms whose code workers run: no lock, no lazy initialization, no thread-local.
const LOCK_FREE: &[&str] =
    &["adit-types", "adit-wire", "adit-rules", "adit-pktio", "adit-tables", "adit-datapath"];
/// Files of such rooms in which the control side may take a lock.
const LOCK_FILES: &[&str] = &[
    "crates/rules/src/flows/software_card.rs",
    "crates/rules/src/flows/usage.rs",
    "crates/datapath/src/owner_map.rs",
    "crates/tables/src/publish.rs",
    "crates/tables/src/sync.rs",
];
const CLOCKS: &[&str] = &["Instant::now", "SystemTime::now", "_rdtsc"];
const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "#[ignore"];
const LOCKS: &[&str] = &["Mutex", "RwLock", "Condvar", "OnceLock", "LazyLock", "thread_local!"];

/// The document with the table of rooms.
const TABLE_PATH: &str = "docs/internals/rooms.md";
/// The document that names each room.
const PAGE_PATH: &str = "ARCHITECTURE.md";

/// Maximum length of a source file. Unit: lines.
const LINES_MAX: usize = 800;

/// Adds a finding for each import and each file that breaks the table.
pub(super) fn check(metadata: &Metadata, files: &[SourceFile], findings: &mut Vec<String>) {
    for package in metadata.workspace_packages() {
        let Some(room) = ROOMS.iter().find(|room| room.package == package.name.as_str()) else {
            findings.push(format!("{}: not in the table of rooms", package.name));
            continue;
        };
        check_imports(room, &imports(package), findings);
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
        check_manifest(room, &manifest, findings);
        for file in files.iter().filter(|file| file.package == package.name.as_str()) {
            check_file(room, file, findings);
        }
    }
    let read = |path: &str| fs::read_to_string(metadata.workspace_root.join(path));
    check_documents(
        &read(TABLE_PATH).unwrap_or_default(),
        &read(PAGE_PATH).unwrap_or_default(),
        findings,
    );
}

/// Adds a finding for each room that a document lacks, or describes differently, and for each name
/// in it that is no room.
fn check_documents(table: &str, page: &str, findings: &mut Vec<String>) {
    for (path, text) in [(TABLE_PATH, table), (PAGE_PATH, page)] {
        let named: Vec<&str> = text.lines().filter_map(room_of_row).collect();
        for room in ROOMS.iter().filter(|room| !named.contains(&room.name())) {
            findings.push(format!("{path}: no row of the room {}", room.name()));
        }
        for name in named.iter().filter(|name| ROOMS.iter().all(|room| room.name() != **name)) {
            findings.push(format!("{path}: {name} is no room"));
        }
    }
    for row in table.lines() {
        let room = ROOMS.iter().find(|room| room_of_row(row) == Some(room.name()));
        let Some(room) = room else { continue };
        let end = room.row_end();
        if !row.ends_with(&end) {
            findings.push(format!("{TABLE_PATH}: the row of {} must end with {end}", room.name()));
        }
    }
}

/// Returns the room of a table row whose first cells are a floor and a room.
fn room_of_row(row: &str) -> Option<&str> {
    let mut cells = row.strip_prefix("| ")?.split(" | ");
    let floor = cells.next()?;
    let is_floor = floor == "dev" || floor.parse::<u8>().is_ok();
    cells.next()?.strip_prefix('`')?.strip_suffix('`').filter(|_| is_floor)
}

/// Returns the number of rooms.
pub(super) fn count() -> usize {
    ROOMS.len()
}

/// A dependency of a package.
struct RoomImport<'a> {
    name: &'a str,
    for_tests: bool,
}

fn imports(package: &Package) -> Vec<RoomImport<'_>> {
    let dependencies = package.dependencies.iter();
    dependencies
        .map(|dependency| RoomImport {
            name: dependency.name.as_str(),
            for_tests: dependency.kind == DependencyKind::Development,
        })
        .collect()
}

fn check_imports(room: &Room, imports: &[RoomImport<'_>], findings: &mut Vec<String>) {
    for &RoomImport { name, for_tests } in imports {
        let own = name.starts_with("adit");
        let test_room = TEST_ROOMS.contains(&name) && (for_tests || room.package == "adit-tests");
        if own && !for_tests && !test_room && room.imports != ANY && !room.imports.contains(&name) {
            findings.push(format!("{}: may not import {name}", room.package));
        }
        let is_value = name == "serde" && room.may.contains(&Values);
        let is_floor_five = is_value || FLOOR_FIVE.contains(&room.package);
        if !for_tests && FLOOR_FIVE_CRATES.contains(&name) && !is_floor_five {
            findings.push(format!("{}: {name} belongs to the binaries", room.package));
        }
    }
}

/// Checks that the room inherits the lints of the workspace, such as `unreachable_pub` and
/// `allow_attributes_without_reason`.
fn check_manifest(room: &Room, manifest: &str, findings: &mut Vec<String>) {
    if !manifest.contains("[lints]\nworkspace = true") {
        findings.push(format!("{}: does not inherit the lints of the workspace", room.package));
    }
}

fn check_file(room: &Room, file: &SourceFile, findings: &mut Vec<String>) {
    let shown = file.path.as_str();
    let in_tests = shown.contains("/tests/") || shown.ends_with("tests.rs");
    let mut names = shown.rsplit('/').map(|name| name.trim_end_matches(".rs"));
    for name in [names.next(), names.next()].into_iter().flatten() {
        if FORBIDDEN_NAMES.contains(&name) {
            findings.push(format!("{shown}: \"{name}\" says nothing about what is inside"));
        }
    }
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!("{shown}: {lines} lines; is there a second concept inside?"));
    }
    check_code(room, file, in_tests, findings);
}

/// Checks only code: comments and strings may name what code must not use.
fn check_code(room: &Room, file: &SourceFile, in_tests: bool, findings: &mut Vec<String>) {
    let shown = file.path.as_str();
    let unsafe_here = room.may.contains(&Unsafe) || UNSAFE_FILES.contains(&shown);
    let clock_here = room.may.contains(&Clock) || in_tests;
    let no_locks = LOCK_FREE.contains(&room.package) && !in_tests && !LOCK_FILES.contains(&shown);
    let code = regions(&file.text).into_iter().filter(|part| part.1 == Region::Code);
    for (line, _, code) in code {
        let place = format!("{shown}:{line}");
        if !unsafe_here && has_unsafe(code) {
            findings.push(format!("{place}: unsafe has its own rooms"));
        }
        if !clock_here && CLOCKS.iter().any(|clock| code.contains(clock)) {
            findings.push(format!("{place}: time is an argument here"));
        }
        let lock = LOCKS.iter().find(|lock| code.contains(**lock));
        if let Some(lock) = lock.filter(|_| no_locks) {
            findings.push(format!("{place}: {lock} has no place on the packet path"));
        }
        if UNFINISHED.iter().any(|mark| code.contains(mark)) {
            findings.push(format!("{place}: unfinished or skipped"));
        }
    }
}

fn has_unsafe(code: &str) -> bool {
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|form| code.contains(form))
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
    fn import_outside_the_table_is_found() {
        let found = |package: &str, name: &str, for_tests: bool| {
            let room = ROOMS.iter().find(|room| room.package == package).unwrap();
            let mut findings = Vec::new();
            check_imports(room, &[RoomImport { name, for_tests }], &mut findings);
            findings
        };
        assert_eq!(found("adit-rules", "adit-types", false), Vec::<String>::new());
        assert_eq!(
            found("adit-rules", "adit-tables", false),
            ["adit-rules: may not import adit-tables"]
        );
        assert_eq!(found("adit-rules", "adit-tables", true), Vec::<String>::new());
        assert_eq!(
            found("adit-rules", "adit-testkit", false),
            ["adit-rules: may not import adit-testkit"]
        );
        assert_eq!(
            found("adit-session", "serde", false),
            ["adit-session: serde belongs to the binaries"]
        );
        assert_eq!(found("adit-tests", "adit-testkit", false), Vec::<String>::new());
    }

    #[test]
    fn document_with_another_table_is_found() {
        let row = |room: &Room| format!("| 1 | `{}` | text {}", room.name(), room.row_end());
        let rows: Vec<String> = ROOMS.iter().map(row).collect();
        let all = rows.join("\n");
        let found = |table: &str, page: &str| {
            let mut findings = Vec::new();
            check_documents(table, page, &mut findings);
            findings
        };
        assert_eq!(found(&all, &all), Vec::<String>::new());
        assert_eq!(
            found(&rows[1..].join("\n"), &all),
            [format!("{TABLE_PATH}: no row of the room types")]
        );
        let more = format!("{all}\n| dev | `attic` | text | – | – |");
        assert_eq!(found(&all, &more), [format!("{PAGE_PATH}: attic is no room")]);
        let other = all.replace("| types, rules | `unsafe` |", "| types | `unsafe` |");
        let expected =
            format!("{TABLE_PATH}: the row of tables must end with | types, rules | `unsafe` |");
        assert_eq!(found(&other, &all), [expected]);
    }

    #[test]
    fn row_has_imports_and_permissions() {
        let end = |name: &str| ROOMS.iter().find(|room| room.name() == name).unwrap().row_end();
        assert_eq!(end("types"), "| – | – |");
        assert_eq!(end("transport"), "| types, pktio | `unsafe` in `busy_poll.rs` |");
        assert_eq!(end("xdp"), "| types, rules | `unsafe`, clock |");
        assert_eq!(end("tests"), "| any | `unsafe`, clock |");
    }

    #[test]
    fn unsafe_is_found_in_code_only() {
        assert!(has_unsafe("let x = unsafe { y };"));
        assert!(!has_unsafe("#![forbid(unsafe_code)]"));
    }

    #[test]
    fn room_without_the_lints_of_the_workspace_is_found() {
        let found = |manifest: &str| {
            let mut findings = Vec::new();
            check_manifest(&ROOMS[0], manifest, &mut findings);
            findings.len()
        };
        assert_eq!(found("[package]\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(found("[package]\n\n[lints.clippy]\npanic = \"allow\"\n"), 1);
    }

    fn of(package: &str, path: &str, text: &str) -> Vec<String> {
        let room = ROOMS.iter().find(|room| room.package == package).unwrap();
        let mut findings = Vec::new();
        check_file(room, &SourceFile::new(package, path, text).unwrap(), &mut findings);
        findings
    }

    #[test]
    fn code_of_another_room_is_found() {
        let path = "crates/session/src/x.rs";
        assert_eq!(of("adit-session", path, "fn f() { unsafe { g() } }").len(), 1);
        assert_eq!(of("adit-session", path, "fn f() { Instant::now(); }").len(), 1);
        assert_eq!(of("adit-session", path, "fn f() { todo!() }").len(), 1);
        assert_eq!(of("adit-session", "crates/session/src/utils.rs", "").len(), 1);
        assert_eq!(of("adit-session", path, &"\n".repeat(801)).len(), 1);
        assert_eq!(of("adit-session", "crates/session/tests/x.rs", &"\n".repeat(801)).len(), 1);
        assert_eq!(of("adit-session", path, &"\n".repeat(800)), Vec::<String>::new());
        assert_eq!(
            of("adit-datapath", "crates/datapath/src/x.rs", "struct A(Mutex<u8>);").len(),
            1
        );
    }

    #[test]
    fn comments_and_texts_may_name_what_code_may_not_have() {
        let text = "// unsafe { }\nfn f() -> &'static str { \"Instant::now todo!(\" }";
        assert_eq!(of("adit-session", "crates/session/src/x.rs", text), Vec::<String>::new());
    }
}
