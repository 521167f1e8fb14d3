//! Packets through a running `adit` while the primary of its shared store is killed and replaced:
//! none is lost, whatever becomes of requests meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::associated_smf::TestSmf;
use crate::load::{LoadSession, ReloadTraffic};
use crate::smf;
use adit_pfcp::ie::Cause;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, is_root, wait_for_file};
use adit_tests::redis::RedisProcess;

/// Environment variable of the run inside the daemon's namespace: the folder of the daemon.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const TEST: &str = "store_loss::packets_pass_while_the_primary_of_the_store_is_killed";
const SESSIONS: u16 = 24;
/// Files in the folder of the daemon by which the two runs agree.
const RUNNING: &str = "running";
const REPLACED: &str = "replaced";
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn packets_pass_while_the_primary_of_the_store_is_killed() {
    let _alone = crate::alone();
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(Path::new(&dir));
    }
    if !is_root() {
        return;
    }
    let namespace = daemon::veth_namespace("storeloss");
    let start = |port| RedisProcess::start_in(&namespace, port);
    let (Some(mut primary), Some(replica)) = (start(6379), start(6380)) else { return };
    replica.replicate(&primary);
    let Some(daemon) = Daemon::start_in(namespace, configuration) else { return };
    let child = ChildProcess::start(daemon.this_test(TEST).env(INSIDE, daemon.dir()));
    wait_for_file(&daemon.dir().join(RUNNING), LIMIT);
    std::thread::sleep(Duration::from_millis(500));
    primary.kill();
    std::thread::sleep(Duration::from_secs(2));
    // As a Sentinel does.
    replica.promote();
    std::thread::sleep(Duration::from_secs(2));
    let shown = daemon.show("store");
    assert_eq!(shown["server"], replica.address().to_string(), "{shown}");
    std::fs::write(daemon.dir().join(REPLACED), "").unwrap();
    let output = child.finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let counters = daemon.show("counters");
    // The kernel's own frames on its devices, now and then, are for no station of the test.
    let told = (&counters["dropped_pkts"], &counters["identity_holds"]);
    assert_eq!(told, (&counters["drops"]["frame_not_for_us"], &true.into()), "{counters}");
    assert!(daemon.stop().status.success());
}

fn configuration(dir: &Path) -> String {
    let device = |at: usize, iface: &str| format!("net_af_packet{at},iface={iface},framecnt=2048");
    let (access, core) = (device(0, "up0"), device(1, "core0"));
    let ports = daemon::interfaces([access.as_str(), core.as_str()], &smf::N3.to_string());
    let store =
        "kind = \"redis\"\nservers = [\"127.0.0.1:6379\", \"127.0.0.1:6380\"]\nname = \"upf-1\"";
    let node = daemon::node(4096, &daemon::cores()[..1], dir);
    node.replace("kind = \"none\"", store) + &ports
}

/// Sends packets of sessions, and establishes others, until the primary is replaced.
fn inside(dir: &Path) {
    let mut smf = TestSmf::associated();
    let sessions =
        (1..=SESSIONS).map(|number| LoadSession::establish(&mut smf, number).unwrap()).collect();
    let load = ReloadTraffic::start(sessions);
    std::fs::write(dir.join(RUNNING), "").unwrap();
    let (mut accepted, mut refused, mut longest) = (0, 0, Duration::ZERO);
    let mut number = SESSIONS;
    while !dir.join(REPLACED).exists() {
        number += 1;
        let asked = Instant::now();
        match LoadSession::establish(&mut smf, number) {
            Ok(_) => accepted += 1,
            Err(cause) => {
                assert_eq!(cause, Cause::SystemFailure);
                refused += 1;
            }
        }
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = LoadSession::establish(&mut smf, number + 1);
    assert!(after.is_ok(), "the new primary is not used: {after:?}");
    let arrived = load.stop();
    println!(
        "{accepted} sessions accepted, {refused} refused, longest wait {longest:?}; {arrived:?}"
    );
    // A request that is under way waits for the next primary; others are refused.
    assert!(refused > 0 || longest > Duration::from_secs(1), "the store was not away: {longest:?}");
    assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");
}
