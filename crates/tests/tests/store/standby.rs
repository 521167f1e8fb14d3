//! Two adits with one shared store, one of them active: what the other one makes of a crash, of an
//! order, and of partitions. All that was answered holds, users' packets flow again, and no N4
//! message is needed.
//!
//! ```text
//!  adit-test-…-world                                      adit-test-…-one, …-two
//!  SMF           br4 10.0.4.1 ──────────────────────────── n4 (10.0.4.2 of the active one)
//!  gNB           br3 198.51.100.2 ──────────────────────── n3 (198.51.100.1, adit's)
//!  data network  br6 10.0.6.1 ──────────────────────────── n6 (10.0.6.2, adit's)
//!  redis-server  br9 10.0.9.1 ──────────────────────────── n9 10.0.9.2, 10.0.9.3
//!  replication   br8 ───────────────────────────────────── n8 10.0.8.2, 10.0.8.3
//! ```
//!
//! `ADIT_PARTITIONS=20 cargo test -p adit-tests --test store standby:: -- --nocapture` partitions
//! that often, and prints figures; `ADIT_SESSIONS=60000` is for more sessions.

mod nrf;
mod prober;
mod traffic;

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::changes::{ChangingSmf, Comparison, PATIENCE, compare};
use crate::smf::{self, SessionScript};
use adit_pfcp::Message;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, TestNamespace, is_root, run, skip, skip_on_this_machine};
use prober::{ProbeRound, ProbedAddress, longest_with_two, probe};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tempfile::TempDir;
use traffic::Traffic;

/// Environment variable of the run in the namespace of the SMF: the folder of its files.
const INSIDE: &str = "ADIT_TEST_INSIDE";

const SMF: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 1);
const N4: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 2);
const DATA_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);
const STORE: &str = "10.0.9.1";
const LEASE_MS: u64 = 1000;
const SESSIONS_DEFAULT: u32 = 1000;
/// Sessions whose packets flow.
const HELD: usize = 16;
const LIMIT: Duration = Duration::from_secs(10);

/// How many sessions the SMF has.
fn sessions() -> u32 {
    std::env::var("ADIT_SESSIONS").map_or(SESSIONS_DEFAULT, |sessions| sessions.parse().unwrap())
}

/// The SMF, users and the data network, until the file `end` appears in the folder.
fn inside(dir: &Path) {
    let mut smf = ChangingSmf::new(SMF, N4, sessions());
    smf.associate();
    let held = smf.hold(HELD);
    smf.establish_all();
    let traffic = Traffic::start(held, DATA_NETWORK);
    traffic.wait_for_packets(PATIENCE);
    std::fs::write(dir.join("ready"), "").unwrap();
    smf.change_until(&dir.join("end"));
    traffic.wait_for_packets(PATIENCE);
    let gaps = traffic.stop();
    println!("book {}", smf.book());
    println!(
        "gaps {}",
        serde_json::json!({ "uplink_ms": gaps.uplink_ms, "downlink_ms": gaps.downlink_ms })
    );
}

/// As [`INSIDE`], for the SMF on the host of the active one.
const BESIDE: &str = "ADIT_TEST_BESIDE";

/// An SMF on the host of an adit, which establishes sessions until the file `end` appears, and
/// prints which ones were acknowledged. It waits for answers that come late.
fn beside(dir: &Path) {
    let socket = UdpSocket::bind("127.0.0.10:8805").unwrap();
    socket.connect((N4, 8805)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut acknowledged: Vec<String> = Vec::new();
    let setup = smf::setup(1, Ipv4Addr::new(127, 0, 0, 10), smf::SMF_STARTED);
    socket.send(&setup).unwrap();
    let mut answer = [0; 8192];
    let (mut sequence, mut last) = (1, None);
    while last.is_none_or(|last: Instant| last.elapsed() < Duration::from_secs(1)) {
        if let Ok(len) = socket.recv(&mut answer) {
            match smf::decode(&answer[..len]) {
                Message::AssociationSetupResponse(body) => assert!(body.cause.is_accepted()),
                Message::SessionEstablishmentResponse(body) if body.cause.is_accepted() => {
                    acknowledged.push(body.up_f_seid.unwrap().seid.to_string());
                    std::fs::write(dir.join("ready"), "").unwrap();
                }
                _ => {}
            }
        }
        if last.is_some() {
            continue;
        }
        last = dir.join("end").exists().then(Instant::now);
        std::thread::sleep(Duration::from_millis(5));
        sequence += 1;
        let number = 1_000_000 + sequence;
        let script = SessionScript::of_many(number.into(), number);
        // Nobody may listen at the moment.
        let _ = socket.send(&smf::establish(sequence, &script));
    }
    println!("acknowledged {}", serde_json::json!(acknowledged));
}

/// As [`INSIDE`], for the station that sends requests for addresses.
const PROBER: &str = "ADIT_TEST_PROBER";

/// The addresses of the active adit.
fn probed() -> [ProbedAddress; 3] {
    let of = |device, station, target| ProbedAddress { device, station, target };
    [
        of("br3", Ipv4Addr::new(198, 51, 100, 2), smf::N3),
        of("br4", SMF, N4),
        of("br6", DATA_NETWORK, Ipv4Addr::new(10, 0, 6, 2)),
    ]
}

/// The lines that [`inside`] printed.
struct Told {
    book: Value,
    gaps: Value,
}

/// The world around two adits.
struct Pair {
    // Dropped before its namespace.
    _redis: ChildProcess,
    world: TestNamespace,
    dir: TempDir,
}

const NETWORKS: [(&str, &str); 5] = [
    ("3", "198.51.100.2/24"),
    ("4", "10.0.4.1/24"),
    ("6", "10.0.6.1/24"),
    ("8", "10.0.8.1/24"),
    ("9", "10.0.9.1/24"),
];

impl Pair {
    /// Bridges, and a store. `None`, with the reason printed, if the machine cannot have them.
    fn start(purpose: &str) -> Option<Self> {
        if !is_root() {
            return None;
        }
        if Command::new("redis-server").arg("--version").output().is_err() {
            skip("redis-server is not installed");
            return None;
        }
        let world = TestNamespace::new(&format!("{purpose}-world"));
        let mut probe = world.command("ip".as_ref());
        if !run(probe.args(["link", "add", "probe", "type", "bridge"]), LIMIT).status.success() {
            skip_on_this_machine("bridges cannot be made here");
            return None;
        }
        for (network, address) in NETWORKS {
            let bridge = format!("br{network}");
            world.ip(&["link", "add", &bridge, "type", "bridge"]);
            world.ip(&["address", "add", address, "dev", &bridge]);
            world.ip(&["link", "set", &bridge, "addrgenmode", "none", "up"]);
            without_offloads(&world, &bridge);
        }
        world.ip(&["route", "add", "10.45.0.0/16", "via", "10.0.6.2"]);
        let dir = tempfile::tempdir().unwrap();
        let mut redis = world.command("redis-server".as_ref());
        redis.args(["--bind", STORE, "--protected-mode", "no", "--save", "", "--dir"]);
        let pair = Self { _redis: ChildProcess::start(redis.arg(dir.path())), world, dir };
        pair.wait_for_store();
        Some(pair)
    }

    fn wait_for_store(&self) {
        let end = Instant::now() + LIMIT;
        loop {
            let mut ping = self.world.command("redis-cli".as_ref());
            let output = run(ping.args(["-h", STORE, "PING"]), LIMIT);
            if output.stdout.starts_with(b"PONG") {
                return;
            }
            assert!(Instant::now() < end, "{output:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts one of the adits, with further lines of `[store]`.
    fn adit(&self, purpose: &str, number: u8, store_lines: &str) -> Option<Daemon> {
        self.adit_with(purpose, number, store_lines, "")
    }

    /// As [`Self::adit`], with further lines of `[standby]`.
    fn adit_with(
        &self,
        purpose: &str,
        number: u8,
        store_lines: &str,
        standby_lines: &str,
    ) -> Option<Daemon> {
        let namespace = TestNamespace::new(&format!("{purpose}-{number}"));
        for (network, _) in NETWORKS {
            let (own, peer) = (format!("n{network}"), format!("n{network}-{number}"));
            let pair = ["link", "add", &own, "type", "veth", "peer", "name", &peer];
            namespace.ip(&[&pair[..], &["netns", self.world.name()]].concat());
            let bridge = format!("br{network}");
            self.world.ip(&["link", "set", &peer, "master", &bridge, "addrgenmode", "none", "up"]);
            namespace.ip(&["link", "set", &own, "addrgenmode", "none", "up"]);
            without_offloads(&namespace, &own);
            without_offloads(&self.world, &peer);
        }
        let of_kernel = [("10.0.9", "n9"), ("10.0.8", "n8")];
        let devices = if store_lines.contains(USER_SPACE) { &of_kernel[..1] } else { &of_kernel };
        for (network, device) in devices {
            let address = format!("{network}.{}/24", number + 1);
            namespace.ip(&["address", "add", &address, "dev", device]);
        }
        Daemon::start_in(namespace, |dir| configuration(dir, store_lines, standby_lines))
    }

    /// Starts a station that sends requests for N3's, N4's and N6's address.
    fn start_prober(&self, test: &str) -> ChildProcess {
        let dir = self.dir.path().join("prober");
        std::fs::create_dir_all(&dir).unwrap();
        let prober = ChildProcess::start(self.world.this_test(test).env(PROBER, &dir));
        wait_until("the prober asks", || dir.join("ready").exists());
        prober
    }

    /// Ends it, and returns its counts.
    fn end_prober(&self, prober: ChildProcess) -> Vec<ProbeRound> {
        std::fs::write(self.dir.path().join("prober/end"), "").unwrap();
        let output = prober.finish(LIMIT);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
        let rounds = told.lines().find_map(|line| line.strip_prefix("rounds ")).unwrap();
        prober::read(rounds)
    }

    /// Starts the SMF with users and their packets, and waits until these flow.
    fn start_inside(&self, test: &str) -> ChildProcess {
        let mut command = self.world.command(&std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(INSIDE, self.dir.path());
        let inside = ChildProcess::start(&mut command);
        let end = Instant::now() + 4 * PATIENCE;
        while !self.dir.path().join("ready").exists() {
            if Instant::now() > end {
                let output = inside.finish(LIMIT);
                panic!("no packets: {}", String::from_utf8_lossy(&output.stderr));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        inside
    }

    /// Ends the process that [`Self::start_inside`] started, and returns its output.
    fn end_inside(&self, inside: ChildProcess) -> Told {
        std::fs::write(self.dir.path().join("end"), "").unwrap();
        let output = inside.finish(2 * PATIENCE);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
        let line = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            serde_json::from_str(line).unwrap()
        };
        Told { book: line("book "), gaps: line("gaps ") }
    }
}

fn without_offloads(namespace: &TestNamespace, device: &str) {
    let mut ethtool = namespace.command("ethtool".as_ref());
    // Best effort: bridges do not have all of them.
    let _ = run(
        ethtool.args(["-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]),
        LIMIT,
    );
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < 4 * PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn configuration(dir: &Path, store_lines: &str, standby_lines: &str) -> String {
    let cores = daemon::cores();
    let devices = ["net_af_packet0,iface=n3", "net_af_packet1,iface=n6"];
    let ports = daemon::interfaces(devices, &smf::N3.to_string());
    let store = format!(
        "kind = \"redis\"\nservers = [\"{STORE}:6379\"]\nname = \"pair\"\nlease_ms = {LEASE_MS}\n\
         {store_lines}[standby]\naddresses = [{{ device = \"n4\", address = \"{N4}/24\" }}]\n\
         {standby_lines}"
    );
    let node = daemon::node(4096 + usize::try_from(sessions()).unwrap(), &cores[..1], dir)
        .replace("kind = \"none\"", &store);
    node.replace(&format!("listen = \"{}:8805\"", daemon::N4), &format!("listen = \"{N4}:8805\""))
        + &ports
}

fn role(daemon: &Daemon) -> String {
    daemon.show("store")["role"].as_str().unwrap().to_owned()
}

/// Waits until a daemon is active. Returns how long that took.
fn wait_for_active(daemon: &Daemon) -> Duration {
    let began = Instant::now();
    while role(daemon) != "active" {
        assert!(began.elapsed() < PATIENCE, "{}", daemon.show("store"));
        std::thread::sleep(Duration::from_millis(10));
    }
    began.elapsed()
}

/// Two adits, the first of which is active, and the SMF with users.
fn started(purpose: &str, test: &str) -> Option<(Pair, Daemon, Daemon, ChildProcess)> {
    started_with(purpose, test, ["", ""])
}

/// As [`started`], with further lines of `[store]` of each.
fn started_with(
    purpose: &str,
    test: &str,
    store_lines: [&str; 2],
) -> Option<(Pair, Daemon, Daemon, ChildProcess)> {
    let pair = Pair::start(purpose)?;
    let one = pair.adit(purpose, 1, store_lines[0])?;
    wait_for_active(&one);
    let two = pair.adit(purpose, 2, store_lines[1])?;
    assert_eq!(role(&two), "standby");
    let inside = pair.start_inside(test);
    Some((pair, one, two, inside))
}

fn assert_nothing_lost(told: &Told, active: &Daemon) {
    let Comparison { lost, ghosts, sessions } = compare(&told.book, &active.show("sessions"));
    println!(
        "{} changes answered, {} refused, {sessions} sessions at the end: {lost} lost, {ghosts} ghosts; longest pause of \
         packets uplink {} ms, downlink {} ms",
        told.book["answered"],
        told.book["refused"],
        told.gaps["uplink_ms"],
        told.gaps["downlink_ms"],
    );
    assert_eq!((lost, ghosts), (0, 0));
    let counters = active.show("counters");
    assert_eq!(counters["identity_holds"], true, "{counters}");
}

fn seconds(number: f64) {
    std::thread::sleep(Duration::from_secs_f64(number));
}

#[test]
fn standby_goes_on_after_a_crash_with_all_that_was_answered() {
    const TEST: &str = "standby::standby_goes_on_after_a_crash_with_all_that_was_answered";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    let Some((pair, one, two, smf)) = started("crash", TEST) else { return };
    seconds(1.0);
    let one = one.kill();
    let took = wait_for_active(&two);
    seconds(1.0);
    println!("lease {LEASE_MS} ms: active {} ms after the crash", took.as_millis());
    // The previous active one comes back as the standby, and takes over in turn.
    let one = one.start();
    assert_eq!(role(&one), "standby");
    seconds(0.5);
    let _two = two.kill();
    wait_for_active(&one);
    let told = pair.end_inside(smf);
    assert_nothing_lost(&told, &one);
}

#[test]
fn standby_takes_over_on_request_and_when_the_active_one_is_stopped() {
    const TEST: &str = "standby::standby_takes_over_on_request_and_when_the_active_one_is_stopped";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    let Some((pair, one, two, smf)) = started("order", TEST) else { return };
    let refused = one.run(&["takeover"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("it is active"), "{told}");
    seconds(0.5);
    let output = two.run(&["takeover"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    print!("adit takeover: {told}");
    assert_eq!(role(&two), "active");
    let (output, one) = one.wait_for_end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let one = one.start();
    assert_eq!(role(&one), "standby");
    seconds(0.5);
    two.terminate();
    let took = wait_for_active(&one);
    println!("active {} ms after SIGTERM of the other one", took.as_millis());
    let (output, _two) = two.wait_for_end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    seconds(0.5);
    let told = pair.end_inside(smf);
    assert_nothing_lost(&told, &one);
    // Both handed over in an orderly way, so the gap is shorter than a lease.
    for gap in [&told.gaps["uplink_ms"], &told.gaps["downlink_ms"]] {
        assert!(gap.as_u64().unwrap() < 5 * LEASE_MS, "{}", told.gaps);
    }
}

/// Cuts a daemon off from the store, or connects it again.
fn set_store_link(namespace: &TestNamespace, state: &str) {
    namespace.ip(&["link", "set", "n9", state]);
}

#[test]
fn active_one_without_the_store_acknowledges_nothing_after_its_lease_and_ends_when_it_learns_of_it()
{
    const TEST: &str = "standby::active_one_without_the_store_acknowledges_nothing_after_its_lease_and_ends_when_it_learns_of_it";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    if let Some(dir) = std::env::var_os(BESIDE) {
        return beside(dir.as_ref());
    }
    let Some((pair, one, two, smf)) = started("partition", TEST) else { return };
    // An SMF on the host of the active one: nothing redirects its requests to the other one.
    let beside = pair.dir.path().join("beside");
    std::fs::create_dir(&beside).unwrap();
    let mut command = one.command(&std::env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).env(BESIDE, &beside);
    let other_smf = ChildProcess::start(&mut command);
    while !beside.join("ready").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    seconds(1.0);
    set_store_link(one.namespace(), "down");
    let took = wait_for_active(&two);
    println!("active {} ms after the partition", took.as_millis());
    seconds(2.0);
    assert_eq!(one.show("store")["state"], "paused", "{}", one.show("store"));
    std::fs::write(beside.join("end"), "").unwrap();
    let output = other_smf.finish(2 * PATIENCE);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    let acknowledged = told.lines().find_map(|line| line.strip_prefix("acknowledged ")).unwrap();
    let acknowledged: Vec<String> = serde_json::from_str(acknowledged).unwrap();
    let sessions = two.show("sessions");
    let known: Vec<&str> = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["up_seid"].as_str().unwrap())
        .collect();
    let lost = acknowledged.iter().filter(|seid| !known.contains(&seid.as_str())).count();
    println!(
        "{} sessions acknowledged on the host that was cut off, {lost} lost",
        acknowledged.len()
    );
    assert!(!acknowledged.is_empty());
    assert_eq!(lost, 0);
    set_store_link(one.namespace(), "up");
    let (output, one) = one.wait_for_end();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("lease"), "{told}");
    println!("the one that was cut off: {}", told.lines().last().unwrap_or_default());
    let one = one.start();
    assert_eq!(role(&one), "standby");
    let told = pair.end_inside(smf);
    // This book has no sessions of the other SMF.
    let Comparison { lost, .. } = compare(&told.book, &two.show("sessions"));
    assert_eq!(lost, 0);
}

#[test]
fn partitions_at_random_moments_lose_nothing() {
    const TEST: &str = "standby::partitions_at_random_moments_lose_nothing";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    let partitions: u32 =
        std::env::var("ADIT_PARTITIONS").map_or(3, |partitions| partitions.parse().unwrap());
    let Some((pair, mut active, mut standby, smf)) = started("partitions", TEST) else { return };
    let (mut rng, mut takeovers) = (StdRng::from_os_rng(), 0);
    for _ in 0..partitions {
        seconds(rng.random_range(0.0..1.0));
        set_store_link(active.namespace(), "down");
        // Some are over before the lease is.
        std::thread::sleep(Duration::from_millis(rng.random_range(0..3 * LEASE_MS)));
        set_store_link(active.namespace(), "up");
        seconds(1.0);
        if role(&standby) == "active" {
            takeovers += 1;
            let (_, ended) = active.wait_for_end();
            (active, standby) = (standby, ended.start());
        }
        assert_eq!((role(&active), role(&standby)), ("active".to_owned(), "standby".to_owned()));
    }
    let told = pair.end_inside(smf);
    println!("{partitions} partitions, {takeovers} takeovers");
    assert_nothing_lost(&told, &active);
}

/// Lines for replication over sockets of the kernel, and over TCP in user space.
const BLOCKING: &str = "transport = \"blocking\"\n";
const USER_SPACE: &str = "transport = \"user\"\ndevice = \"net_af_packet8,iface=n8\"\n";

/// `[store.replication]` of each adit, with certificates from `dir`.
fn replication(transport: &str, dir: &Path) -> [String; 2] {
    let dir = dir.display();
    [(2, 3), (3, 2)].map(|(own, other)| {
        format!(
            "[store.replication]\nlisten = \"10.0.8.{own}:7000\"\nstandby = \"10.0.8.{other}:7000\"\n\
             tls_ca = \"{dir}/ca.pem\"\ntls_certificate = \"{dir}/{own}.pem\"\ntls_key = \"{dir}/{own}.key\"\n\
             {transport}"
        )
    })
}

/// Makes the certificates of both adits, as docs/store.md does, and one for another address. False,
/// with the reason printed, if they cannot be made.
fn make_certificates(dir: &Path) -> bool {
    if Command::new("openssl").arg("version").output().is_err() {
        skip("openssl is not installed");
        return false;
    }
    let key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=adit";
    let authority = format!("{key} -keyout ca.key -out ca.pem");
    let of = |own: u8| {
        format!(
            "{key} -keyout {own}.key -out {own}.pem -CA ca.pem -CAkey ca.key -addext basicConstraints=CA:FALSE -addext \
             subjectAltName=IP:10.0.8.{own}"
        )
    };
    for line in [authority, of(2), of(3), of(9)] {
        let mut openssl = Command::new("openssl");
        let output = run(openssl.current_dir(dir).args(line.split_whitespace()), LIMIT);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    true
}

/// The answer of the second adit's port to a command that ended the active adit while there was no
/// TLS: over TCP, over TLS without a certificate, with that of another host, and with that of the
/// first adit.
fn answers_to_strangers(world: &TestNamespace, dir: &Path) -> [String; 4] {
    let words = ["ADIT.HELLO", "4", "pair", "18446744073709551615", "0", "0", "0"];
    let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
    std::fs::write(dir.join("command"), format!("*{}\r\n{}", words.len(), words.concat())).unwrap();
    let tls = |certificate: &str| {
        format!(
            "(cat command; sleep 1) | timeout 2 openssl s_client -quiet -connect 10.0.8.3:7000 -CAfile ca.pem {certificate}"
        )
    };
    let plain = "exec 3<>/dev/tcp/10.0.8.3/7000; cat command >&3; timeout 1 cat <&3";
    let of = |own: u8| tls(&format!("-cert {own}.pem -key {own}.key"));
    [plain.to_owned(), tls(""), of(9), of(2)].map(|line| {
        let mut bash = world.command("bash".as_ref());
        let output = run(bash.current_dir(dir).args(["-c", &line]), LIMIT);
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

/// Waits until the standby's acknowledgment suffices for answers of `active`.
fn wait_for_replication(active: &Daemon) {
    let began = Instant::now();
    while active.show("store")["standby_acknowledges"] != true {
        assert!(began.elapsed() < PATIENCE, "{}", active.show("store"));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_only_the_standby_has_is_not_lost() {
    const TEST: &str = "standby::what_only_the_standby_has_is_not_lost";
    with_what_only_the_standby_has("replica", TEST, BLOCKING);
}

#[test]
fn what_only_the_standby_has_over_user_space_is_not_lost() {
    const TEST: &str = "standby::what_only_the_standby_has_over_user_space_is_not_lost";
    with_what_only_the_standby_has("user", TEST, USER_SPACE);
}

/// Takes the store, the active adit and the standby away in turns, replicated over `transport`.
fn with_what_only_the_standby_has(purpose: &str, test: &str, transport: &str) {
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    let files = tempfile::tempdir().unwrap();
    if !make_certificates(files.path()) {
        return;
    }
    let lines = replication(transport, files.path());
    let lines = lines.each_ref().map(String::as_str);
    let Some((pair, one, two, smf)) = started_with(purpose, test, lines) else { return };
    wait_for_replication(&one);
    let [plain, nobody, other, peer] = answers_to_strangers(&pair.world, files.path());
    // An alert at most.
    assert!(plain.len() <= 10 && nobody.is_empty() && other.is_empty(), "{plain} {nobody} {other}");
    // Even the peer's answer ends nothing.
    assert!(peer.starts_with("-LATER 1 "), "{peer}");
    seconds(0.5);
    let shown = one.show("store");
    assert_eq!(shown["standby_acknowledges"], true, "{shown}");
    // Without the store the standby acknowledges, until the lease is over.
    set_store_link(one.namespace(), "down");
    seconds(0.5);
    let shown = one.show("store");
    assert_eq!(shown["state"], "working", "{shown}");
    assert!(shown["groups_not_shared"].as_u64() > Some(0), "{shown}");
    wait_for_active(&two);
    // The adit that was cut off learns of the takeover from its former standby, or from the store.
    set_store_link(one.namespace(), "up");
    let (output, one) = one.wait_for_end();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("lease"), "{told}");
    let one = one.start();
    wait_for_replication(&two);
    seconds(0.5);
    // The adit that stops gives the store everything, and a new process takes the lease at once,
    // unless the standby was faster.
    let two = two.restart();
    let (active, standby) = if role(&two) == "active" { (two, one) } else { (one, two) };
    wait_for_active(&active);
    println!("after a restart: {}", active.show("store"));
    wait_for_replication(&active);
    // The standby is away, and comes back with nothing.
    let standby = standby.kill();
    // Over user space nobody says that the process is gone.
    let began = Instant::now();
    while active.show("store")["replicated"] != false {
        assert!(began.elapsed() < PATIENCE, "{}", active.show("store"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let standby = standby.start();
    wait_for_replication(&active);
    seconds(0.5);
    let _active = active.kill();
    wait_for_active(&standby);
    let told = pair.end_inside(smf);
    assert_nothing_lost(&told, &standby);
}

#[test]
fn addresses_never_have_two_answers_for_longer_than_a_second() {
    const TEST: &str = "standby::addresses_never_have_two_answers_for_longer_than_a_second";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    if let Some(dir) = std::env::var_os(PROBER) {
        return probe(dir.as_ref(), &probed());
    }
    let Some((pair, one, two, smf)) = started("answers", TEST) else { return };
    let prober = pair.start_prober(TEST);
    seconds(1.0);
    set_store_link(one.namespace(), "down");
    let took = wait_for_active(&two);
    seconds(4.0);
    let shown = one.show("store");
    assert_eq!(shown["state"], "paused", "{shown}");
    let health = one.show("health");
    assert!(health["reasons"].to_string().contains("\"paused\""), "{health}");
    let rounds = pair.end_prober(prober);
    let two_ms = longest_with_two(&rounds).as_millis();
    println!("active {} ms after the partition; two answers for {two_ms} ms", took.as_millis());
    assert!(two_ms < 1000, "{rounds:?}");
    let last = rounds.last().unwrap();
    assert_eq!(last.answers, [1, 1, 1], "{rounds:?}");
    set_store_link(one.namespace(), "up");
    let (output, _one) = one.wait_for_end();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("lease"), "{told}");
    let told = pair.end_inside(smf);
    assert_nothing_lost(&told, &two);
}

/// One adit that is cut off from the store for 3 s, and what a station saw of its addresses
/// meanwhile.
fn cut_off(purpose: &str, test: &str, standby_lines: &str, shown: &str) -> Option<Vec<ProbeRound>> {
    let pair = Pair::start(purpose)?;
    let one = pair.adit_with(purpose, 1, "", standby_lines)?;
    wait_for_active(&one);
    let smf = pair.start_inside(test);
    let prober = pair.start_prober(test);
    set_store_link(one.namespace(), "down");
    wait_until("the store is away", || one.show("store")["state"] == shown);
    seconds(3.0);
    assert_eq!(one.show("store")["state"], shown, "{}", one.show("store"));
    set_store_link(one.namespace(), "up");
    wait_until("the store is back", || one.show("store")["state"] == "working");
    seconds(1.0);
    let rounds = pair.end_prober(prober);
    let told = pair.end_inside(smf);
    println!("while it was cut off: {}", told.gaps);
    assert_nothing_lost(&told, &one);
    Some(rounds)
}

#[test]
fn adit_that_is_cut_off_pauses_and_goes_on_with_all_sessions() {
    const TEST: &str = "standby::adit_that_is_cut_off_pauses_and_goes_on_with_all_sessions";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    if let Some(dir) = std::env::var_os(PROBER) {
        return probe(dir.as_ref(), &probed());
    }
    let Some(rounds) = cut_off("pause", TEST, "", "paused") else { return };
    let silent = rounds.iter().filter(|round| round.answers == [0, 0, 0]).count();
    assert!(silent >= 10, "{rounds:?}");
    assert_eq!(rounds.last().unwrap().answers, [1, 1, 1], "{rounds:?}");
}

#[test]
fn adit_that_is_cut_off_forwards_on_if_configured() {
    const TEST: &str = "standby::adit_that_is_cut_off_forwards_on_if_configured";
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(dir.as_ref());
    }
    if let Some(dir) = std::env::var_os(PROBER) {
        return probe(dir.as_ref(), &probed());
    }
    let lines = "when_isolated = \"forward\"\n";
    let Some(rounds) = cut_off("forward", TEST, lines, "failing") else { return };
    let silent = rounds.iter().filter(|round| round.answers == [0, 0, 0]).count();
    assert_eq!(silent, 0, "{rounds:?}");
}
