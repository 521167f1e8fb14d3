//! `adit` on a machine with two NUMA nodes, a virtual one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::path::Path;
use std::process::Command;

use adit_pfcp::Message;
use adit_pfcp::ie::NetworkInstance;
use adit_tests::process::{binary, skip_on_this_machine};

use crate::associated_smf::TestSmf;
use crate::smf::{self, SessionScript, list};

/// Environment variable: the folder with the unpacked kernel package, if not that of
/// `scripts/install.sh test`.
const KERNEL_ROOT: &str = "ADIT_TEST_VM_ROOT";

/// Set in the virtual machine: the sessions to establish, as
/// `FIRST COUNT NETWORK-INSTANCE-OF-THE-ACCESS-SIDE`.
const SESSIONS: &str = "ADIT_TEST_SESSIONS";

/// The script's status if the machine lacks something.
const MISSING: i32 = 77;

#[test]
fn threads_memory_and_sessions_are_on_the_nodes_of_their_ports_in_a_virtual_machine() {
    let _alone = crate::alone();
    if let Ok(sessions) = std::env::var(SESSIONS) {
        return establish(&sessions);
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/two-nodes-vm.sh");
    let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/vm-root");
    let usual = if Path::new(unpacked).exists() { unpacked } else { "/" };
    let root = std::env::var_os(KERNEL_ROOT).unwrap_or_else(|| usual.into());
    let Some(adit) = binary("adit") else { return };
    let smf = std::env::current_exe().unwrap();
    let output = Command::new(script).arg(adit).arg(smf).arg(root).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    match output.status.code() {
        Some(0) => assert!(told.contains("status of the test: 0"), "{told}"),
        Some(MISSING) => {
            skip_on_this_machine(String::from_utf8_lossy(&output.stderr).trim());
        }
        _ => panic!("{told}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// Establishes sessions whose packets arrive at the interface of a network instance.
fn establish(sessions: &str) {
    let mut words = sessions.split(' ');
    let mut number = || words.next().unwrap().parse::<u16>().unwrap();
    let (first, count) = (number(), number());
    let access = NetworkInstance(words.next().unwrap().to_owned().leak().as_bytes());
    let mut smf = TestSmf::associated();
    for number in first..first + count {
        let script = SessionScript::new(number.into(), number);
        let bytes = smf.answer(|sequence| {
            smf::establish_with(sequence, &script, |body| {
                let [mut up, down] = [0, 1].map(|at| body.create_pdrs.iter().nth(at).unwrap());
                up.pdi.network_instance = Some(access);
                body.create_pdrs = list([up, down]).into();
            })
        });
        let Message::SessionEstablishmentResponse(body) = smf::decode(&bytes) else { panic!() };
        assert!(body.cause.is_accepted(), "{body:?}");
    }
}
