//! A running `adit` whose interfaces have kernel twins: the kernel of its namespace and N4 are
//! reached over the ports that DPDK has. The other ends of the links, a gNB, an SMF and a host, are
//! in a namespace of their own.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_tests::daemon::{self, Daemon};
use adit_tests::link::PacketLink;
use adit_tests::process::{ChildProcess, TestNamespace, is_root, run};
use adit_types::MacAddr;
use adit_wire::EtherType;
use adit_wire::arp::{ArpOperation, ArpPacket};
use adit_wire::ethernet::EthernetHeader;

use crate::associated_smf::TestSmf;
use crate::jumbo::{self, DEVICES, FOLDER, KernelPeers, PART, SHORT, payload};
use crate::smf;

const PATIENCE: Duration = Duration::from_secs(60);

/// adit's address on N6, which N4 listens at, and the host's, which is the SMF's as well.
pub(crate) const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 2);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);
/// Octets of a TCP connection each way.
const TCP_BYTES: usize = 10 << 20;
const TCP_PORT: u16 = 5201;

/// The far ends of both veth links, in a namespace of their own. Frames of their kernel have
/// checksums.
fn link(own: &TestNamespace) -> TestNamespace {
    let far = TestNamespace::new("twinfar");
    for (number, address) in ["198.51.100.2/24", "10.0.6.1/24"].into_iter().enumerate() {
        let (near, device) = (format!("near{number}"), format!("far{number}"));
        own.ip(&[
            "link",
            "add",
            &near,
            "type",
            "veth",
            "peer",
            "name",
            &device,
            "netns",
            far.name(),
        ]);
        own.ip(&["link", "set", &near, "addrgenmode", "none", "up"]);
        far.ip(&["link", "set", &device, "addrgenmode", "none", "up"]);
        far.ip(&["address", "add", address, "dev", &device]);
        let mut ethtool = far.command(Path::new("ethtool"));
        ethtool.args(["-K", &device, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]);
        assert!(run(&mut ethtool, PATIENCE).status.success());
        let mut ethtool = own.command(Path::new("ethtool"));
        ethtool.args(["-K", &near, "gro", "off"]);
        assert!(run(&mut ethtool, PATIENCE).status.success());
    }
    far.ip(&["route", "add", "10.44.0.0/14", "via", "10.0.6.2"]);
    far
}

pub(crate) fn af_packet() -> [String; 2] {
    [0, 1].map(|number| format!("net_af_packet{number},iface=near{number}"))
}

/// The configuration with a twin of each interface, and more keys of these.
pub(crate) fn configuration(dir: &Path, devices: &[String; 2], keys: &str) -> String {
    let ports = daemon::interfaces([&devices[0], &devices[1]], &smf::N3.to_string());
    let node = daemon::node(100, &daemon::cores()[..1], dir);
    let node = node.replace(&format!("{}:8805", daemon::N4), &format!("{OWN}:8805"));
    let ports = ports
        .replace("role = \"n3\"", &format!("role = \"n3\"\nkernel = \"twin3\"\n{keys}"))
        .replace("role = \"n6\"", &format!("role = \"n6\"\nkernel = \"twin6\"\n{keys}"));
    node.replace("memory_mib = 64", "memory_mib = 256") + &ports
}

/// Runs a part of the test in a namespace to its end.
fn run_part(mut command: Command, part: &str) -> String {
    let output = ChildProcess::start(command.env(PART, part)).finish(PATIENCE);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{part}: {said}");
    said
}

fn ping(namespace: &TestNamespace, to: Ipv4Addr, more: &[&str]) {
    let mut command = namespace.command(Path::new("ping"));
    command.args(["-c", "5", "-i", "0.2", "-W", "2"]).args(more).arg(to.to_string());
    let output = run(&mut command, PATIENCE);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(" 0% packet loss"), "{to}: {said}");
}

/// The neighbors of a device by `ip neigh`.
fn neighbors(namespace: &TestNamespace, device: &str) -> String {
    let mut command = namespace.command(Path::new("ip"));
    let output = run(command.args(["neigh", "show", "dev", device]), PATIENCE);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn has_device(namespace: &TestNamespace, device: &str) -> bool {
    let mut command = namespace.command(Path::new("ip"));
    run(command.args(["link", "show", "dev", device]), PATIENCE).status.success()
}

pub(crate) fn mac_of(namespace: &TestNamespace, device: &str) -> String {
    let mut command = namespace.command(Path::new("cat"));
    // `/sys` of this process may show another namespace.
    let output = run(command.arg(format!("/sys/class/net/{device}/address")), PATIENCE);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Serves one TCP connection: takes and returns the octets.
fn serve_tcp() {
    let listener = TcpListener::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), TCP_PORT)).unwrap();
    eprintln!("listening");
    let (mut stream, _) = listener.accept().unwrap();
    let mut octets = vec![0; TCP_BYTES];
    stream.read_exact(&mut octets).unwrap();
    assert!(octets == payload(TCP_BYTES), "the octets arrive as they were");
    stream.write_all(&octets).unwrap();
}

/// Exchanges the octets with the other side.
fn connect_tcp(to: Ipv4Addr) {
    let mut stream = TcpStream::connect((to, TCP_PORT)).unwrap();
    let began = Instant::now();
    stream.write_all(&payload(TCP_BYTES)).unwrap();
    let mut octets = vec![0; TCP_BYTES];
    stream.read_exact(&mut octets).unwrap();
    assert!(octets == payload(TCP_BYTES), "the octets return as they were");
    let mbps = 16.0 * TCP_BYTES as f64 / began.elapsed().as_secs_f64() / 1e6;
    eprintln!("TCP over the twin: {mbps:.0} Mb/s");
}

fn exchange_tcp(server: Command, client: Command, part: &str) -> String {
    let mut server = server;
    let mut server = ChildProcess::start(server.env(PART, "serve"));
    server.wait_for("listening");
    let said = run_part(client, part);
    assert!(server.finish(PATIENCE).status.success());
    said
}

/// An SMF over the twin: association, session, heartbeats, users' packets.
fn run_n4() {
    let mut smf = TestSmf::between(HOST, OWN);
    smf.set_up();
    let peers = KernelPeers::establish_by(&mut smf, SHORT).passing();
    peers.expect_both_ways(1000);
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        let began = Instant::now();
        smf.answer(|sequence| smf::heartbeat(sequence, smf::SMF_STARTED));
        slowest = slowest.max(began.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
    eprintln!("slowest heartbeat: {slowest:?}");
    peers.expect_both_ways(1000);
}

/// Requests adit's address by ARP, and counts the answers of a second.
fn count_arp_answers() {
    let own = MacAddr([2, 0, 0, 0, 9, 9]);
    let request = ArpPacket::request(own, HOST, OWN);
    let mut frame = [0; 60];
    let header = EthernetHeader::new(MacAddr::BROADCAST, own, EtherType::ARP);
    header.emit(&mut frame).unwrap();
    request.emit(&mut frame[14..]).unwrap();
    let link = PacketLink::open("far1");
    link.send(&frame);
    let end = Instant::now() + Duration::from_secs(1);
    let mut answers = 0;
    while Instant::now() < end {
        let Some(frame) = link.try_receive() else { continue };
        let Some(arp) = frame.get(14..).filter(|_| frame[12..14] == [8, 6]) else { continue };
        let Ok((packet, _)) = ArpPacket::parse(arp) else { continue };
        let is_answer = packet.operation() == ArpOperation::REPLY && packet.sender_addr() == OWN;
        answers += usize::from(is_answer && packet.target_mac() == own);
    }
    assert_eq!(answers, 1, "one owner answers");
}

/// The gNB, the SMF and the host are the kernel of another namespace, behind memif and a bridge.
#[test]
fn kernel_and_n4_are_reached_over_a_port_of_dpdk() {
    let _alone = crate::alone();
    const TEST: &str = "kernel_twin::kernel_and_n4_are_reached_over_a_port_of_dpdk";
    match std::env::var(PART).ok().as_deref() {
        Some("bridge") => return jumbo::run_bridge(),
        Some("n4") => return run_n4(),
        Some("arp") => return count_arp_answers(),
        Some("serve") => return serve_tcp(),
        Some("to-own") => return connect_tcp(OWN),
        Some("to-host") => return connect_tcp(HOST),
        _ => {}
    }
    if !is_root() {
        return;
    }
    let (far, dir) = (TestNamespace::new("twinfar"), tempfile::tempdir().unwrap());
    jumbo::link(&far, SHORT);
    let [[first, first_far], [second, second_far]] =
        [0, 1].map(|nth| jumbo::memif(dir.path(), nth));
    let mut command = far.this_test(TEST);
    command.env(PART, "bridge").env(DEVICES, format!("{first_far} {second_far}"));
    let mut bridge = ChildProcess::start(command.env(FOLDER, dir.path()));
    bridge.wait_for("the bridge runs");
    let namespace = TestNamespace::new("twin");
    let started = Daemon::start_in(namespace, |dir| configuration(dir, &[first, second], ""));
    let Some(daemon) = started else { return };
    let own = daemon.namespace();
    println!("{}", run_part(far.this_test(TEST), "n4"));
    ping(&far, OWN, &[]);
    ping(&far, smf::N3, &[]);
    ping(own, HOST, &[]);
    // In three fragments each way.
    ping(&far, OWN, &["-s", "4000"]);
    println!("{}", exchange_tcp(daemon.this_test(TEST), far.this_test(TEST), "to-own"));
    println!("{}", exchange_tcp(far.this_test(TEST), daemon.this_test(TEST), "to-host"));
    run_part(far.this_test(TEST), "arp");
    let of_host = neighbors(own, "twin6");
    assert!(of_host.contains(&mac_of(&far, "far1")), "{of_host}");
    let of_own = neighbors(&far, "far1");
    assert!(of_own.contains(&mac_of(own, "twin6")), "{of_own}");
    let (kernel, counters) = (daemon.show("kernel"), daemon.show("counters"));
    println!("{kernel}\n{counters}");
    assert_eq!(counters["identity_holds"], true, "{counters}");
    let of = |class: &str| {
        let mut all = kernel["classes"].as_array().unwrap().iter();
        let is_it = |row: &&serde_json::Value| row["interface"] == "n6" && row["class"] == class;
        all.find(is_it).unwrap()["to_kernel"].as_u64().unwrap()
    };
    assert!(of("n4") >= 52 && of("other") > 5000 && of("neighbor") > 0, "{kernel}");
    let ended = daemon.kill();
    for device in ["twin3", "twin6"] {
        assert!(!has_device(ended.namespace(), device), "{device} ends with the process");
    }
    drop((ended, dir));
    assert!(bridge.finish(PATIENCE).status.success());
}

#[test]
fn twin_in_a_namespace_of_its_own_has_n4_there() {
    let _alone = crate::alone();
    const TEST: &str = "kernel_twin::twin_in_a_namespace_of_its_own_has_n4_there";
    if std::env::var(PART).is_ok() {
        return run_n4();
    }
    if !is_root() {
        return;
    }
    let (namespace, routing) = (TestNamespace::new("twinns"), TestNamespace::new("routing"));
    let far = link(&namespace);
    let keys = format!("kernel_netns = \"{}\"", routing.name());
    let started = Daemon::start_in(namespace, |dir| configuration(dir, &af_packet(), &keys));
    let Some(daemon) = started else { return };
    println!("{}", run_part(far.this_test(TEST), "n4"));
    ping(&far, OWN, &[]);
    assert!(has_device(&routing, "twin6") && !has_device(daemon.namespace(), "twin6"));
    let mut command = routing.command(Path::new("ip"));
    let routes = run(command.args(["route", "show", "default"]), PATIENCE);
    let routes = String::from_utf8_lossy(&routes.stdout).into_owned();
    assert!(
        routes.contains("via 10.0.6.1 dev twin6") && routes.contains("metric 4096"),
        "{routes}"
    );
    let has_carrier = || daemon.show("kernel")["twins"][1]["carrier"] == true;
    assert!(has_carrier());
    far.ip(&["link", "set", "far1", "down"]);
    let end = Instant::now() + PATIENCE;
    while has_carrier() {
        assert!(Instant::now() < end, "the carrier follows the link");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut command = routing.command(Path::new("ip"));
    let link = run(command.args(["link", "show", "dev", "twin6"]), PATIENCE);
    let link = String::from_utf8_lossy(&link.stdout).into_owned();
    assert!(link.contains("NO-CARRIER"), "{link}");
    assert!(daemon.stop().status.success());
    assert!(!has_device(&routing, "twin6"));
}

#[test]
fn twin_that_cannot_be_created_is_one_sentence_and_leaves_nothing() {
    let _alone = crate::alone();
    let null = [0, 1].map(|number| format!("net_null{number},no-rx=1"));
    let started = Daemon::start_with("twinbad", |dir| {
        let ports = daemon::interfaces([&null[0], &null[1]], daemon::N3);
        daemon::node(10, &daemon::cores()[..1], dir) + &ports
    });
    let Some(daemon) = started else { return };
    daemon.namespace().ip(&["link", "add", "taken", "type", "veth", "peer", "name", "other"]);
    let absent = "kernel_netns = \"adit-test-none\"";
    for (name, keys, words) in [
        ("taken", "", "there is a device of this name; remove it (ip link delete taken)"),
        ("twin6", absent, "cannot enter network namespace \"adit-test-none\""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let text = configuration(folder.path(), &null, "");
        let text = text.replace("\"twin6\"", &format!("\"{name}\"\n{keys}"));
        let output = daemon.run_another(&text);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
        assert!(!has_device(daemon.namespace(), "twin3"), "nothing is left: {said}");
    }
    assert!(daemon.stop().status.success());
}
