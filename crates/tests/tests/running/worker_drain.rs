//! A running `adit` whose workers give their sessions away and get them back in turns, while
//! packets cross it and sessions come: none is lost, and those of a session keep their order.

use std::path::Path;
use std::time::Duration;

use crate::associated_smf::TestSmf;
use crate::load::{LoadSession, ReloadTraffic};
use crate::smf;
use adit_tests::daemon::{self, Daemon, adit};
use adit_tests::process::{ChildProcess, is_root, run, skip_on_this_machine};
use serde_json::Value;

/// Environment variable of the run inside the daemon's namespace: the folder of the daemon.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const TEST: &str = "worker_drain::workers_are_drained_and_resumed_in_turns_without_a_lost_packet";
const SESSIONS: u16 = 48;
/// Workers at most: each needs its own core.
const WORKERS_MAX: usize = 3;
const ROUNDS: u16 = 6;
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn workers_are_drained_and_resumed_in_turns_without_a_lost_packet() {
    let _alone = crate::alone();
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(Path::new(&dir));
    }
    if !is_root() {
        return;
    }
    let workers = cores().len();
    if workers < 2 {
        return skip_on_this_machine("two cores are needed");
    }
    let namespace = daemon::veth_namespace("drain");
    let Some(daemon) = Daemon::start_in(namespace, configuration) else { return };
    let mut command = daemon.this_test(TEST);
    let output = ChildProcess::start(command.env(INSIDE, daemon.dir())).finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let counters = daemon.show("counters");
    assert_eq!((&counters["dropped_pkts"], &counters["identity_holds"]), (&0.into(), &true.into()));
    let output = daemon.stop();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    let acts = log.lines().filter(|line| line.contains("audit") && line.contains("drain_worker"));
    assert_eq!(acts.count(), usize::from(ROUNDS) + workers - 1, "{log}");
}

fn cores() -> Vec<usize> {
    daemon::cores().into_iter().take(WORKERS_MAX).collect()
}

fn configuration(dir: &Path) -> String {
    let pairs = cores().len();
    let device = |at: usize, iface: &str| {
        format!("net_af_packet{at},iface={iface},qpairs={pairs},framecnt=2048")
    };
    let (access, core) = (device(0, "up0"), device(1, "core0"));
    let ports = daemon::interfaces([access.as_str(), core.as_str()], &smf::N3.to_string());
    daemon::node(200, &cores(), dir) + &ports
}

fn inside(dir: &Path) {
    let mut smf = TestSmf::associated();
    let sessions: Vec<_> =
        (1..=SESSIONS).map(|number| LoadSession::establish(&mut smf, number).unwrap()).collect();
    let load = ReloadTraffic::start(sessions);
    let count = workers(dir).len();
    for round in 0..ROUNDS {
        let worker = usize::from(round) % count;
        assert_eq!(
            act(dir, "drain", worker),
            Ok(format!("worker {worker} has no sessions any more"))
        );
        let row = &workers(dir)[worker];
        let state = (&row["state"], &row["groups"], &row["sessions"]);
        assert_eq!(state, (&"drained".into(), &0.into(), &0.into()));
        // Sessions come meanwhile.
        LoadSession::establish(&mut smf, SESSIONS + 1 + round).unwrap();
        if round == 0 {
            let owned =
                workers(dir).iter().map(|row| row["sessions"].as_u64().unwrap()).sum::<u64>();
            assert_eq!(owned, u64::from(SESSIONS) + 1);
            let (last, others) = (count - 1, 1..count - 1);
            others.clone().for_each(|other| drop(act(dir, "drain", other).unwrap()));
            let refused = act(dir, "drain", last).unwrap_err();
            assert!(refused.contains("is the only one with sessions"), "{refused}");
            others.for_each(|other| drop(act(dir, "resume", other).unwrap()));
        }
        std::thread::sleep(Duration::from_millis(300));
        let resumed = act(dir, "resume", worker).unwrap();
        assert!(resumed.contains("of 64 groups of sessions again"), "{resumed}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let arrived = load.stop();
    assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");
    let rows = workers(dir);
    assert!(rows.iter().all(|row| row["handed_off_pkts"].as_u64().unwrap() > 0), "{rows:?}");
}

/// Carries out `adit worker`. Returns its output.
fn act(dir: &Path, verb: &str, worker: usize) -> Result<String, String> {
    let output = run(&mut adit(dir, &["worker", verb, &worker.to_string()]), LIMIT);
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).trim().to_owned();
    match output.status.success() {
        true => Ok(said(&output.stdout)),
        false => Err(said(&output.stderr)),
    }
}

fn workers(dir: &Path) -> Vec<Value> {
    let output = run(&mut adit(dir, &["show", "workers", "--json"]), LIMIT);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["workers"].as_array().unwrap().clone()
}
