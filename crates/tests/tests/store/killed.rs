//! A running `adit` that is killed again and again while an SMF changes its sessions: all that was
//! answered holds, nothing else is there, and no identifier is given twice. And one whose records
//! another adit takes.
//!
//! `ADIT_KILLS=100 cargo test -p adit-tests --test store killed:: -- --nocapture` kills it that
//! often and prints figures.

use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::changes::{ChangingSmf, Comparison, PATIENCE, compare};
use crate::smf;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, TestNamespace, binary, is_root};
use adit_tests::redis::{RedisCluster, RedisProcess};
use adit_tests::release::former_release;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

/// Environment variable of the run inside the daemon's namespace: the file whose appearance ends
/// the SMF's changes.
const INSIDE: &str = "ADIT_TEST_INSIDE";

const SMF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);
const SESSIONS: u32 = 2000;

#[test]
fn killed_adit_goes_on_with_all_that_it_answered_and_nothing_else() {
    let test = "killed::killed_adit_goes_on_with_all_that_it_answered_and_nothing_else";
    let book = run(test, |_| Some(()), journal, |(), daemon| kill_often(daemon));
    assert!(book.is_none_or(|book| book["refused"] == 0));
}

#[test]
fn killed_adit_goes_on_with_a_shared_store() {
    let start = |namespace: &TestNamespace| RedisProcess::start_in(namespace, 6379);
    let section =
        |_: &Path| "kind = \"redis\"\nservers = [\"127.0.0.1:6379\"]\nname = \"upf-1\"".to_owned();
    let test = "killed::killed_adit_goes_on_with_a_shared_store";
    run(test, start, section, |_, daemon| kill_often(daemon));
}

#[test]
fn adit_goes_on_when_the_primary_of_its_store_is_killed_and_has_all_that_it_answered() {
    let test =
        "killed::adit_goes_on_when_the_primary_of_its_store_is_killed_and_has_all_that_it_answered";
    let start = |namespace: &TestNamespace| {
        let start = |port| RedisProcess::start_in(namespace, port);
        let servers = [start(6379)?, start(6380)?, start(6381)?];
        let [primary, replicas @ ..] = &servers;
        replicas.iter().for_each(|replica| replica.replicate(primary));
        Some(servers)
    };
    let section = |_: &Path| {
        "kind = \"redis\"\nservers = [\"127.0.0.1:6379\", \"127.0.0.1:6380\", \"127.0.0.1:6381\"]\n\
         name = \"upf-1\"\nacknowledge_replicas = 1"
            .to_owned()
    };
    run(test, start, section, |servers, daemon| {
        let [primary, one, other] = servers;
        std::thread::sleep(Duration::from_secs(1));
        primary.kill();
        // As a Sentinel does.
        let is_first = one.replicated() >= other.replicated();
        let (next, last) = if is_first { (one, other) } else { (other, one) };
        next.promote();
        last.replicate(next);
        std::thread::sleep(Duration::from_secs(2));
        let shown = daemon.show("store");
        assert_eq!(shown["server"], next.address().to_string(), "{shown}");
        daemon.restart()
    });
}

#[test]
fn adit_goes_on_when_a_cluster_replaces_the_primary_of_its_records() {
    let test = "killed::adit_goes_on_when_a_cluster_replaces_the_primary_of_its_records";
    let start =
        |namespace: &TestNamespace| RedisCluster::start_in(namespace, 6379, "adit:{upf-1}:state");
    let section = |_: &Path| {
        "kind = \"redis\"\nservers = [\"127.0.0.1:6379\", \"127.0.0.1:6380\", \"127.0.0.1:6381\"]\n\
         name = \"upf-1\"\nacknowledge_replicas = 1"
            .to_owned()
    };
    run(test, start, section, |cluster, daemon| {
        std::thread::sleep(Duration::from_secs(1));
        let [primary, .., replica] = &mut cluster.nodes[..] else { panic!("four servers") };
        primary.kill();
        replica.wait("INFO replication", |answer| answer.contains("role:master"));
        // Until then there is no replica to acknowledge.
        primary.restart();
        primary.wait("INFO replication", |answer| answer.contains("master_link_status:up"));
        std::thread::sleep(Duration::from_secs(2));
        let shown = daemon.show("store");
        assert_eq!(shown["server"], replica.address().to_string(), "{shown}");
        daemon.restart()
    });
}

#[test]
fn update_and_roll_back_keep_all_sessions() {
    let test = "killed::update_and_roll_back_keep_all_sessions";
    // Also checked within the namespace of the daemon.
    let Some(former) = former_release() else { return };
    run(test, |_| Some(()), journal, |(), daemon| change_releases(daemon, &former));
}

#[test]
fn update_and_roll_back_keep_all_sessions_in_a_shared_store() {
    let test = "killed::update_and_roll_back_keep_all_sessions_in_a_shared_store";
    let start = |namespace: &TestNamespace| RedisProcess::start_in(namespace, 6379);
    let section =
        |_: &Path| "kind = \"redis\"\nservers = [\"127.0.0.1:6379\"]\nname = \"upf-1\"".to_owned();
    let Some(former) = former_release() else { return };
    run(test, start, section, |_, daemon| change_releases(daemon, &former));
}

/// From this program to that of the previous release and back, killed or ended in order, while its
/// SMF changes sessions.
fn change_releases(mut daemon: Daemon, former: &Path) -> Daemon {
    let Some(present) = binary("adit") else { return daemon };
    for (adit, is_killed) in
        [(former, true), (&present, true), (former, false), (&present, false), (former, true)]
            .into_iter()
            .chain([(present.as_path(), false)])
    {
        std::thread::sleep(Duration::from_millis(1500));
        let shown = daemon.show("store");
        assert_eq!(shown["sessions_not_restored"], 0, "{shown}");
        let ended = match is_killed {
            true => daemon.kill(),
            false => {
                daemon.terminate();
                let (output, ended) = daemon.wait_for_end();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                ended
            }
        };
        daemon = ended.with_program(adit).start();
    }
    let shown = daemon.show("store");
    assert_eq!(shown["sessions_not_restored"], 0, "{shown}");
    daemon
}

#[test]
fn adit_writes_its_sessions_again_to_a_store_that_came_back_empty() {
    let test = "killed::adit_writes_its_sessions_again_to_a_store_that_came_back_empty";
    let start = |namespace: &TestNamespace| RedisProcess::start_in(namespace, 6379);
    let section = |_: &Path| {
        "kind = \"redis\"\nservers = [\"127.0.0.1:6379\"]\nname = \"upf-1\"\nlease_ms = 600"
            .to_owned()
    };
    run(test, start, section, |redis, daemon| {
        std::thread::sleep(Duration::from_secs(1));
        // The new process has none of the earlier changes in the queue of its own ones.
        let daemon = daemon.restart();
        std::thread::sleep(Duration::from_secs(1));
        let is_written = |answer: &str| answer.trim() != "0";
        redis.wait("HLEN adit:{upf-1}:session", is_written);
        assert_eq!(redis.answer("FLUSHALL").trim(), "OK");
        // The refill begins with this field, and lasts for milliseconds.
        redis.wait("HEXISTS adit:{upf-1}:state checked", |answer| answer.trim() == "1");
        redis.wait("HEXISTS adit:{upf-1}:state filling", |answer| answer.trim() == "0");
        redis.wait("HLEN adit:{upf-1}:session", is_written);
        let shown = daemon.show("store");
        assert_eq!(shown["state"], "working", "{shown}");
        daemon.restart()
    });
}

#[test]
fn adit_makes_the_removed_folder_of_its_journal_again() {
    let test = "killed::adit_makes_the_removed_folder_of_its_journal_again";
    run(
        test,
        |_| Some(()),
        journal,
        |(), daemon| {
            std::thread::sleep(Duration::from_secs(1));
            let daemon = daemon.restart();
            std::fs::remove_dir_all(daemon.dir().join("journal")).unwrap();
            wait_for(|| daemon.show("store")["state"] == "failing");
            wait_for(|| daemon.show("store")["state"] == "working");
            std::thread::sleep(Duration::from_millis(500));
            daemon.restart()
        },
    );
}

/// The first file has the record of the association, which does not change later.
#[test]
fn adit_writes_records_again_of_which_its_journal_is_damaged() {
    let test = "killed::adit_writes_records_again_of_which_its_journal_is_damaged";
    run(
        test,
        |_| Some(()),
        journal,
        |(), daemon| {
            let first = daemon.dir().join("journal/0000000000000001.segment");
            let name = SMF.to_string().into_bytes();
            let mut at = None;
            wait_for(|| {
                let octets = std::fs::read(&first).unwrap();
                at = octets.windows(name.len()).position(|octets| octets == name);
                at.is_some()
            });
            let file = std::fs::File::options().write(true).open(&first).unwrap();
            file.write_at(b"x", u64::try_from(at.unwrap()).unwrap()).unwrap();
            // Upkeep comes to it when the file is full.
            wait_for(|| !first.exists());
            let shown = daemon.show("store");
            assert_eq!(
                (&shown["state"], &shown["upkeep_failure"]),
                (&"working".into(), &Value::Null)
            );
            daemon.restart()
        },
    );
}

fn journal(dir: &Path) -> String {
    format!("folder = \"{}\"", dir.join("journal").display())
}

fn wait_for(mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + 2 * PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "it never holds");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills adit at random moments.
fn kill_often(mut daemon: Daemon) -> Daemon {
    let kills: u32 = std::env::var("ADIT_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let mut rng = StdRng::from_os_rng();
    let mut longest = Duration::ZERO;
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(rng.random_range(300..1500)));
        let killed = Instant::now();
        daemon = daemon.restart();
        longest = longest.max(killed.elapsed());
    }
    println!("{kills} kills; longest restart {longest:?}");
    daemon
}

/// A configuration with the shared store that listens in the namespace.
fn shared(dir: &Path) -> String {
    let ports = daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3);
    let store =
        "kind = \"redis\"\nservers = [\"127.0.0.1:6379\"]\nname = \"upf-1\"\nlease_ms = 900";
    daemon::node(256, &daemon::cores()[..1], dir).replace("kind = \"none\"", store) + &ports
}

#[test]
fn adit_does_not_start_with_records_of_another_and_ends_when_another_takes_its_own() {
    if !is_root() {
        return;
    }
    let namespace = TestNamespace::new("lease");
    let Some(redis) = RedisProcess::start_in(&namespace, 6379) else { return };
    let Some(daemon) = Daemon::start_in(namespace, shared) else { return };
    let shown = daemon.show("store");
    assert_eq!((&shown["store"], &shown["state"]), (&"redis".into(), &"working".into()), "{shown}");
    assert_eq!(
        (&shown["epoch"], &shown["server"]),
        (&1.into(), &"127.0.0.1:6379".into()),
        "{shown}"
    );
    let elsewhere = daemon.dir().join("another");
    std::fs::create_dir(&elsewhere).unwrap();
    let another = shared(&elsewhere).replace(daemon::N4, "127.0.0.3");
    let output = daemon.run_another(&another);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("the records of \"upf-1\" belong to the adit"), "{told}");
    assert!(!output.status.success());
    // As another adit does.
    let state = "HSET adit:{upf-1}:state epoch 2 holder other/1";
    assert_eq!(redis.answer(state).trim(), "0");
    assert_eq!(redis.answer("SET adit:{upf-1}:lease other/1 PX 60000").trim(), "OK");
    let output = daemon.finish();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("adit cannot go on without its store"), "{told}");
    assert!(told.contains("the lease of the records belongs to other/1"), "{told}");
    assert!(!output.status.success());
}

#[test]
fn adit_that_waits_for_a_lease_ends_at_once_when_it_is_told_to() {
    let Some(adit) = binary("adit").filter(|_| is_root()) else { return };
    let namespace = TestNamespace::new("told-while-starting");
    let Some(redis) = RedisProcess::start_in(&namespace, 6379) else { return };
    // Nobody prolongs this one, so it is over after an hour.
    let state = "format 1 epoch 1 holder other/1 held 1 beat 7 lease_ms 3600000";
    assert_eq!(redis.answer(&format!("HSET adit:{{upf-1}}:state {state}")).trim(), "6");
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("adit.toml");
    std::fs::write(&config, shared(dir.path())).unwrap();
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut command = namespace.command(&adit);
        let mut process = ChildProcess::start(command.args(["run", "--config"]).arg(&config));
        process.wait_for("waiting for the end of the lease");
        process.signal(signal);
        let told = Instant::now();
        let output = process.finish(PATIENCE);
        assert_eq!(output.status.code(), Some(128 + signal), "{output:?}");
        assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    }
}

/// Runs the `test` with a store that `start` starts, if there is one, and that `section` describes;
/// `disturb` kills something. Returns the book of the SMF.
fn run<S>(
    test: &str,
    start: impl FnOnce(&TestNamespace) -> Option<S>,
    section: impl FnOnce(&Path) -> String,
    disturb: impl FnOnce(&mut S, Daemon) -> Daemon,
) -> Option<Value> {
    if let Some(end) = std::env::var_os(INSIDE) {
        let mut smf = ChangingSmf::new(SMF, daemon::N4.parse().unwrap(), SESSIONS);
        smf.associate();
        smf.change_until(end.as_ref());
        println!("book {}", smf.book());
        return None;
    }
    if !is_root() {
        return None;
    }
    let namespace = TestNamespace::new(test);
    let mut store = start(&namespace)?;
    let cores = daemon::cores();
    let daemon = Daemon::start_in(namespace, |dir| {
        let ports = daemon::interfaces(["net_null0", "net_null1"], &smf::N3.to_string());
        let node = daemon::node(4096, &cores[..1], dir);
        node.replace("kind = \"none\"", &section(dir)) + &ports
    })?;
    let end = daemon.dir().join("end");
    let smf = ChildProcess::start(daemon.this_test(test).env(INSIDE, &end));
    let daemon = disturb(&mut store, daemon);
    std::fs::write(&end, "").unwrap();
    let output = smf.finish(2 * PATIENCE);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    let line = told.lines().find_map(|line| line.strip_prefix("book ")).unwrap();
    let book: Value = serde_json::from_str(line).unwrap();
    let Comparison { lost, ghosts, sessions } = compare(&book, &daemon.show("sessions"));
    println!(
        "{} changes answered, {} refused, {sessions} sessions at the end: {lost} lost, {ghosts} ghosts; pauses of answers: \
         {} ms",
        book["answered"], book["refused"], book["pauses_ms"]
    );
    assert_eq!((lost, ghosts), (0, 0));
    let counters = daemon.show("counters");
    assert!(counters["n4"]["sessions_restored"].as_u64().unwrap() > 0, "{counters}");
    assert!(daemon.stop().status.success());
    Some(book)
}
