//! The disk of `make vm-image` in a virtual machine, as `deploy/vm` configures it.

use std::process::Command;
use std::time::Duration;

use adit_testkit::vm::{is_possible, script};
use adit_tests::guest::pass_users_packets;
use adit_tests::process::{binary, is_root, run, skip};

use crate::package::{has, packages, root};

/// The distribution's packages are unpacked and compressed.
const LIMIT: Duration = Duration::from_secs(1200);

#[test]
fn disk_for_virtual_machines_starts_adit_which_forwards_both_ways() {
    let _alone = crate::alone();
    let Some(lab) = binary("adit-lab") else { return };
    let programs = ["mmdebstrap", "sfdisk", "mke2fs", "qemu-img"];
    if !is_root() || !has(&programs) || !is_possible() {
        return;
    }
    let Some(packages) = packages() else { return };
    let disk = packages.adit.with_file_name("adit.qcow2");
    let mut make = Command::new(script("vm-image.sh"));
    let output = run(make.arg(&disk).arg(&packages.adit), LIMIT);
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && told.contains("E: ") {
        return skip(format_args!("mmdebstrap: {}", told.lines().last().unwrap_or_default()));
    }
    assert!(output.status.success(), "{told}");
    let start = format!(
        "VM_SECONDS=400 {} {} {} $N3 $N6",
        script("image-vm.sh").display(),
        disk.display(),
        root().join("deploy/vm").display()
    );
    let addresses = ["--upf-n3=10.0.3.2", "--gnb=10.0.3.10", "--upf-n6=10.0.6.2", "--dn=10.0.6.1"];
    pass_users_packets(&lab, &start, &addresses);
}
