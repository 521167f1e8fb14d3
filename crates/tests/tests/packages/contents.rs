//! The packages themselves.

use std::process::Command;

use crate::package::{has, make, packages, root, said};

#[test]
fn two_builds_of_the_same_programs_have_the_same_octets() {
    let Some(first) = packages() else { return };
    let folder = tempfile::tempdir().unwrap();
    let second = make(folder.path()).unwrap();
    for (one, other) in [(&first.adit, &second.adit), (&first.lab, &second.lab)] {
        assert_eq!(one.file_name(), other.file_name());
        let is_same = std::fs::read(one).unwrap() == std::fs::read(other).unwrap();
        assert!(is_same, "{} differs", one.display());
    }
}

#[test]
fn lintian_has_no_complaint() {
    let Some(packages) = packages().filter(|_| has(&["lintian"])) else { return };
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--allow-root", "--no-cfg"]);
    // The version and the name of the archive are the test's.
    assert_eq!(said(lintian.arg(&packages.adit).arg(&packages.lab)), "");
}

#[test]
fn packages_have_what_they_promise_and_depend_on_drivers_that_nothing_links() {
    let Some(packages) = packages() else { return };
    let listed = said(Command::new("dpkg-deb").arg("-c").arg(&packages.adit));
    for file in [
        "-rwxr-xr-x root/root ./usr/bin/adit",
        "-rw-r--r-- root/root ./lib/systemd/system/adit.service",
        "-rw-r--r-- root/root ./usr/share/adit/systemd/xdp.conf",
        "-rw-r--r-- root/root ./usr/share/adit/host/sysctl.conf",
        "-rw-r--r-- root/root ./usr/share/adit/host/modules.conf",
        "-rw-r--r-- root/root ./usr/share/adit/grafana/adit-packets.json",
        "-rw-r--r-- root/root ./usr/share/adit/prometheus/rules.yml",
        "-rw-r--r-- root/root ./usr/share/bash-completion/completions/adit",
        "-rw-r--r-- root/root ./usr/share/doc/adit/examples/adit.example.toml",
        "-rw-r--r-- root/root ./usr/share/doc/adit/docs/internals/store.md",
        "-rw-r--r-- root/root ./usr/share/man/man1/adit-show.1.gz",
    ] {
        let [mode, owner, path] = file.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let is_listed = |line: &str| {
            line.starts_with(mode) && line.contains(owner) && line.ends_with(&format!(" {path}"))
        };
        assert!(listed.lines().any(is_listed), "{file} is not in:\n{listed}");
    }
    let depends = said(Command::new("dpkg-deb").arg("-f").arg(&packages.adit).arg("Depends"));
    for package in ["libc6 (", "librte-eal", "librte-bus-vdev", "librte-net-af-packet", "adduser"] {
        assert!(depends.contains(package), "{package} is not in: {depends}");
    }
    let depends = said(Command::new("dpkg-deb").arg("-f").arg(&packages.lab).arg("Depends"));
    assert!(depends.contains("iperf3") && depends.contains("librte-net-memif"), "{depends}");
}

#[test]
fn each_linked_crate_has_its_license_in_the_package() {
    let Some(packages) = packages() else { return };
    for (name, package) in [("adit", &packages.adit), ("adit-lab", &packages.lab)] {
        let tree = tempfile::tempdir().unwrap();
        said(Command::new("dpkg-deb").arg("-x").arg(package).arg(tree.path()));
        let papers = tree.path().join("usr/share/doc").join(name);
        let text = said(Command::new("zcat").arg(papers.join("third-party-licenses.gz")));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "tree",
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--package",
            name,
        ]);
        let crates = said(cargo.current_dir(root()));
        let from_registries = crates.lines().filter(|line| !line.contains("(/"));
        let names: Vec<_> = from_registries.filter_map(|line| line.split_once(" v")).collect();
        assert!(names.len() > 90, "{crates}");
        for (of, version) in names {
            let start = format!("{of} {}: ", version.split(' ').next().unwrap());
            let line = text.lines().find(|line| line.starts_with(&start));
            let line = line.unwrap_or_else(|| panic!("{start}is not in the licenses of {name}"));
            let numbers: Vec<_> = line.split(['[', ']']).skip(1).step_by(2).collect();
            assert!(!numbers.is_empty(), "{line}");
            for number in numbers {
                assert!(text.contains(&format!("\n[{number}] ---")), "{line}");
            }
        }
        assert!(text.contains("\nstd ") && text.contains("Apache License\n"), "{name}");
    }
}

/// Fractions of systemd's score of exposure, from 0 to 10.
const EXPOSURE_MAX: &str = "45";

#[test]
fn unit_of_the_service_keeps_the_rest_of_the_system_from_adit() {
    if !has(&["systemd-analyze"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("adit.service");
    std::fs::copy(root().join("deploy/systemd/adit.service"), &unit).unwrap();
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--threshold", EXPOSURE_MAX]);
    let shown = said(analyze.arg(&unit));
    assert!(shown.contains("User=/DynamicUser="), "{shown}");
}
