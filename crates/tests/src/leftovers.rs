//! A lab that ends leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;

/// Namespaces of the lab with process identifier `pid`.
///
/// # Panics
/// When a name is not text.
#[must_use]
pub fn namespaces(pid: u32) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return BTreeSet::new() };
    let names = entries.flatten().map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(&format!("-{pid}"))).collect()
}

/// Processes of the lab: those in its namespaces or with its folder in their command line.
fn processes_started_by(pid: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(&format!("adit-lab-{pid}")) || line.contains(&format!("adit-upf-{pid}")) {
            found.push(line);
        }
    }
    found
}

/// Network interfaces of this namespace.
///
/// # Panics
/// Without `/proc`.
#[must_use]
pub fn interfaces() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap();
    let names = table.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Checks that namespaces, processes, interfaces and files of the lab `pid` are gone. `before`: the
/// interfaces before it started.
///
/// # Panics
/// When something is left.
#[track_caller]
pub fn assert_nothing_left(pid: u32, before: &BTreeSet<String>) {
    assert_eq!(namespaces(pid), BTreeSet::new(), "namespaces are left");
    assert_eq!(processes_started_by(pid), Vec::<String>::new(), "processes are left");
    let new: Vec<_> = interfaces().difference(before).cloned().collect();
    assert_eq!(new, Vec::<String>::new(), "interfaces are left");
    for dir in ["/run", "/tmp", "/run/adit"] {
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for name in entries.flatten().map(|entry| entry.file_name().into_string().unwrap()) {
            assert_ne!(name, format!("adit-lab-{pid}"), "{dir} has files of the lab");
        }
    }
}
