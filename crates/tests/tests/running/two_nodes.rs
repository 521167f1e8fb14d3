//! `adit` on a machine with two NUMA nodes, a virtual one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use adit_pfcp::Message;
use adit_pfcp::ie::NetworkInstance;
use adit_testkit::vm::run_in_vm;
use adit_tests::process::binary;

use crate::associated_smf::TestSmf;
use crate::smf::{self, SessionScript, list};

/// Set in the virtual machine: the sessions to establish, as
/// `FIRST COUNT NETWORK-INSTANCE-OF-THE-ACCESS-SIDE`.
const SESSIONS: &str = "ADIT_TEST_SESSIONS";

#[test]
fn threads_memory_and_sessions_are_on_the_nodes_of_their_ports_in_a_virtual_machine() {
    let _alone = crate::alone();
    if let Ok(sessions) = std::env::var(SESSIONS) {
        return establish(&sessions);
    }
    let Some(adit) = binary("adit") else { return };
    let smf = std::env::current_exe().unwrap();
    let Some(told) = run_in_vm("two-nodes-vm.sh", &[&adit, &smf]) else { return };
    assert!(told.contains("status of the test: 0"), "{told}");
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
