//! A router of the kernel between adit and a gNB, whose link to the gNB is narrower than adit's.

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::associated_smf::TestSmf;
use crate::smf::{self, SessionScript};
use adit_pfcp::Message;
use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, is_root, run};
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, ip_mtu, set_ip_mtu_discover};

/// Environment variable of the run inside the daemon's namespace.
const INSIDE: &str = "ADIT_TEST_INSIDE";
const TEST: &str = "path_mtu::sender_behind_n6_learns_what_fits_a_narrow_link_behind_n3";
const PATIENCE: Duration = Duration::from_secs(30);
/// The MTU of the narrow link, and the part of it that a tunnel with a PDU Session Container leaves
/// to a packet. Unit: octets.
const NARROW: usize = 1400;
const FITS: usize = NARROW - 44;
/// IPv4 and UDP headers.
const HEADERS: usize = 28;

#[test]
fn sender_behind_n6_learns_what_fits_a_narrow_link_behind_n3() {
    let _alone = crate::alone();
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if !is_root() {
        return;
    }
    let namespace = daemon::linked_namespace("pathmtu");
    let gnb = smf::GNB.to_string();
    namespace.ip(&["link", "add", "far0", "mtu", "1400", "type", "veth", "peer", "name", "far1"]);
    namespace.ip(&["address", "add", "198.51.100.1/24", "dev", "far0"]);
    ["far0", "far1"].iter().for_each(|end| namespace.ip(&["link", "set", end, "up"]));
    namespace.ip(&["neighbor", "add", &gnb, "lladdr", "02:aa:00:00:03:01", "dev", "far0"]);
    let forward = ["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];
    assert!(run(namespace.command(Path::new("sh")).args(forward), PATIENCE).status.success());
    let started = Daemon::start_in(namespace, |dir| {
        let devices = ["kernel:packet,iface=up0", "kernel:packet,iface=core0"];
        daemon::node(100, &daemon::cores()[..1], dir) + &daemon::interfaces(devices, daemon::N3)
    });
    let Some(daemon) = started else { return };
    let child = ChildProcess::start(daemon.this_test(TEST).env(INSIDE, ""));
    let output = child.finish(2 * PATIENCE);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let paths = daemon.show("paths");
    let path = &paths["paths"][0];
    assert_eq!((&path["peer"], &path["mtu_bytes"]), (&gnb.into(), &NARROW.into()), "{paths}");
    assert_eq!(path["mtu_router"], "10.0.3.1", "{paths}");
    let counters = daemon.show("counters");
    assert!(counters["punts"]["path_mtu"].as_u64() > Some(0), "{counters}");
    assert_eq!(counters["identity_holds"], true);
    assert!(daemon.stop().status.success());
}

/// Establishes a session, and sends packets with DF to its UE until the kernel has learned that
/// they are too long.
fn inside() {
    let mut smf = TestSmf::associated();
    let script = SessionScript::new(1, 5);
    let bytes = smf.answer(|sequence| smf::establish(sequence, &script));
    let Message::SessionEstablishmentResponse(body) = smf::decode(&bytes) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let server = UdpSocket::bind("10.0.6.1:0").unwrap();
    set_ip_mtu_discover(&server, Ipv4PathMtuDiscovery::DO).unwrap();
    server.connect((script.ue, 9)).unwrap();
    // The packet fits adit's link to the router with all headers.
    let longest = vec![0; 1500 - 44 - HEADERS];
    let end = Instant::now() + PATIENCE;
    while server.send(&longest).is_ok() {
        assert!(Instant::now() < end, "the sender learns nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ip_mtu(&server).unwrap(), u32::try_from(FITS).unwrap());
}
