//! `adit` on a machine with two NUMA nodes, a virtual one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::path::Path;
use std::process::Command;

use adit_tests::process::{binary, skip_on_this_machine};

/// Names the folder that the kernel package is unpacked in, if not that of `scripts/install.sh test`.
const KERNEL_ROOT: &str = "ADIT_TEST_VM_ROOT";

/// The script's status if the machine lacks something.
const MISSING: i32 = 77;

#[test]
fn threads_and_memory_are_on_the_node_of_the_ports_in_a_virtual_machine() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/two-nodes-vm.sh");
    let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/vm-root");
    let usual = if Path::new(unpacked).exists() { unpacked } else { "/" };
    let root = std::env::var_os(KERNEL_ROOT).unwrap_or_else(|| usual.into());
    let Some(adit) = binary("adit") else { return };
    let output = Command::new(script).arg(adit).arg(root).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(0) => assert!(told.contains("status of the test: 0"), "{told}"),
        Some(MISSING) => {
            skip_on_this_machine(String::from_utf8_lossy(&output.stderr).trim());
        }
        _ => panic!("{told}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}
