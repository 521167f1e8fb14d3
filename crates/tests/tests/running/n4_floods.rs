//! Floods of N4, on real sockets, next to a healthy SMF: in the names of absent hosts, and in the
//! SMF's own name.
//!
//! `ADIT_FLOOD_S` is how long each lasts. Unit: seconds.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::smf;
use adit_testkit::packet::PacketBuilder;
use adit_tests::daemon::{self, Daemon};
use adit_tests::link::{PacketLink, mac};
use adit_tests::process::{ChildProcess, TestNamespace, is_root};
use adit_types::MacAddr;
use serde_json::Value;

/// Environment variable of the run inside the daemon's namespace.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const N4: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 2);
/// On the loopback device of adit's host: its answers need no neighbor, but the same send buffer.
const SMF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);
const HEARTBEAT_EVERY: Duration = Duration::from_millis(100);
/// A later answer is taken for lost. Half of all must be there within a tenth of it.
const LIMIT: Duration = Duration::from_secs(1);

#[test]
fn hosts_that_are_not_there_cost_an_smf_no_answer() {
    let _alone = crate::alone();
    let test = "n4_floods::hosts_that_are_not_there_cost_an_smf_no_answer";
    in_namespace("n4dead", test, || {
        let (link, station) = (PacketLink::open("n4b"), mac("n4a"));
        let mut n = 0;
        survive(20_000, || {
            let host = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 4, 1).to_bits() + n % 254);
            n += 1;
            if host != N4 {
                let request = smf::setup(n, host, smf::SMF_STARTED);
                let frame = PacketBuilder::ethernet(station, MacAddr([2, 0, 0, 0, 0, 9]))
                    .ipv4(host, N4)
                    .udp(8805, 8805);
                link.send(&frame.payload(&request).build());
            }
        });
    });
}

#[test]
fn heartbeats_in_its_name_cost_an_smf_no_answer() {
    let _alone = crate::alone();
    in_namespace("n4name", "n4_floods::heartbeats_in_its_name_cost_an_smf_no_answer", || {
        let forger = UdpSocket::bind((SMF, 0)).unwrap();
        let mut n = 5_000_000;
        survive(50_000, || {
            n += 1;
            // The kernel refuses none of them: this socket expects no answers.
            let _ = forger.send_to(&smf::heartbeat(n, smf::SMF_STARTED), (N4, 8805));
        });
    });
}

fn in_namespace(purpose: &str, test: &str, inside: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if !is_root() {
        return;
    }
    let namespace = TestNamespace::new(purpose);
    namespace.ip(&["link", "add", "n4a", "type", "veth", "peer", "name", "n4b"]);
    for end in ["n4a", "n4b"] {
        namespace.ip(&["link", "set", end, "addrgenmode", "none", "up"]);
    }
    namespace.ip(&["addr", "add", &format!("{N4}/24"), "dev", "n4a"]);
    let started = Daemon::start_in(namespace, |dir| {
        let node = daemon::node(4096, &daemon::cores()[..1], dir);
        let node = node.replace(daemon::N4, &N4.to_string());
        node + &daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3)
    });
    let Some(daemon) = started else { return };
    let child = ChildProcess::start(daemon.this_test(test).env(INSIDE, "1"));
    let output = child.finish(flood_lasts() + Duration::from_secs(30));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let associations = daemon.show("associations");
    let is_smf =
        |one: &Value| one["peer"].as_str().is_some_and(|peer| peer.starts_with(&format!("{SMF}:")));
    let all = associations["associations"].as_array().unwrap();
    assert!(all.iter().any(is_smf), "{associations}");
    assert!(daemon.stop().status.success());
}

fn flood_lasts() -> Duration {
    let seconds = std::env::var("ADIT_FLOOD_S").ok().map(|text| text.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// Sends `per_s` datagrams a second next to an SMF, whose heartbeats are all answered.
fn survive(per_s: u32, mut send: impl FnMut()) {
    let socket = UdpSocket::bind((SMF, 8805)).unwrap();
    socket.connect((N4, 8805)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    ask(&socket, 1, &smf::setup(1, SMF, smf::SMF_STARTED)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let smf = scope.spawn(|| {
            let mut took = Vec::new();
            for sequence in 2.. {
                let sent = Instant::now();
                took.push(ask(&socket, sequence, &smf::heartbeat(sequence, smf::SMF_STARTED)));
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(HEARTBEAT_EVERY.saturating_sub(sent.elapsed()));
            }
            took
        });
        let (begin, mut sent) = (Instant::now(), 0);
        while begin.elapsed() < flood_lasts() {
            let due = u64::from(per_s) * u64::try_from(begin.elapsed().as_millis()).unwrap() / 1000;
            (sent..due).for_each(|_| send());
            sent = sent.max(due);
            std::thread::sleep(Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
        let mut took = smf.join().unwrap();
        took.sort_unstable_by_key(|took| took.unwrap_or(Duration::MAX));
        let answered = took.iter().flatten().count();
        let (half, last) = (took[took.len() / 2], took.iter().flatten().last());
        println!("{sent} datagrams; {answered} of {} answered, {half:?}, {last:?}", took.len());
        assert_eq!(answered, took.len(), "not answered");
        assert!(half.unwrap() <= LIMIT / 10, "{half:?}");
    });
}

/// How long the answer to a request took, or `None`. Other datagrams come in between: answers to
/// the forger have another port.
fn ask(socket: &UdpSocket, sequence: u32, request: &[u8]) -> Option<Duration> {
    let sent = Instant::now();
    socket.send(request).unwrap();
    let mut buffer = [0; 4096];
    while sent.elapsed() < LIMIT {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let header = smf::raw(&buffer[..len]).header;
        let is_answer = header.message_type.info().is_some_and(|info| !info.is_request);
        if is_answer && header.sequence == sequence {
            return Some(sent.elapsed());
        }
    }
    None
}
