//! Virtual machines at the other ends of vhost-user: `adit` in one, and one behind `adit`.

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testkit::vm::{is_possible, kernel_root, output_of_vm, script};
use adit_tests::daemon::{self, Daemon};
use adit_tests::guest::pass_users_packets;
use adit_tests::process::{ChildProcess, TestNamespace, binary, is_root};

use crate::jumbo::{HEADERS, KernelPeers, NEAR, SERVER, SHORT, link, payload};
use crate::smf;

/// Which part of a test runs: `server` in the machine, `users` in the daemon's namespace.
const PART: &str = "ADIT_TEST_PART";
/// Without acceleration, on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// The tester of `adit-lab` serves vhost-user; its target is `adit` in a machine without
/// acceleration.
#[test]
fn adit_in_a_virtual_machine_forwards_users_packets() {
    let _alone = crate::alone();
    let (Some(lab), Some(adit)) = (binary("adit-lab"), binary("adit")) else { return };
    if !is_root() || !is_possible() {
        return;
    }
    let (script, root) = (script("upf-vm.sh"), kernel_root());
    for ports in ["virtio", "kernel", "xdp"] {
        let [script, adit, root] = [&script, &adit, &root].map(|path| path.display());
        let start = format!("{script} tcg {ports} {adit} $N3 $N6 {root}");
        pass_users_packets(&lab, &start, &[]);
    }
}

#[test]
fn virtual_machine_behind_net_vhost_is_a_data_network_before_and_after_a_restart() {
    let _alone = crate::alone();
    const TEST: &str = "virtual_machine::virtual_machine_behind_net_vhost_is_a_data_network_before_and_after_a_restart";
    match std::env::var(PART).as_deref() {
        Ok("server") => return return_datagrams(),
        Ok(part) => return exchange(part == "last"),
        Err(_) if !is_root() || !is_possible() => return,
        Err(_) => {}
    }
    let namespace = TestNamespace::new("datanetwork");
    link(&namespace, SHORT);
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("n6");
    let ports = [
        format!("kernel:packet,iface={}", NEAR[0]),
        format!("net_vhost0,iface={}", socket.display()),
    ];
    let daemon = Daemon::start_in(namespace, |dir| {
        let node = daemon::node(100, &daemon::cores()[..1], dir);
        node + &daemon::interfaces(ports.each_ref().map(String::as_str), &smf::N3.to_string())
    });
    let Some(daemon) = daemon else { return };
    let mut command = Command::new(script("data-network-vm.sh"));
    command.env("VM_SECONDS", "400");
    command.arg(std::env::current_exe().unwrap()).arg(TEST).arg(&socket).arg(kernel_root());
    let machine = ChildProcess::start(&mut command);
    let users = |daemon: &Daemon, part: &str| {
        let users = daemon.this_test(TEST).env(PART, part).output().unwrap();
        (users.status.success(), String::from_utf8_lossy(&users.stderr).into_owned())
    };
    let (first, told) = users(&daemon, "first");
    let daemon = if first { daemon.restart() } else { daemon };
    let (last, told_last) = users(&daemon, "last");
    let Some(machine) = output_of_vm(&machine.finish(LIMIT)) else { return };
    assert!(first, "{told}\n{machine}");
    assert!(last, "{told_last}\n{machine}");
    let counters = daemon.show("counters");
    assert_eq!(counters["identity_holds"], true, "{counters}");
}

/// The host: it returns each datagram, until an empty one arrives. Checksums stay open for a card.
fn return_datagrams() {
    let socket = UdpSocket::bind(("0.0.0.0", SERVER.port())).unwrap();
    let mut octets = vec![0; 2048];
    loop {
        let (len, from) = socket.recv_from(&mut octets).unwrap();
        if len == 0 {
            return;
        }
        socket.send_to(&octets[..len], from).unwrap();
    }
}

/// A UE gets its datagrams back from the host. At last it lets the host end.
fn exchange(is_last: bool) {
    let peers = KernelPeers::establish(SHORT);
    let end = Instant::now() + LIMIT / 2;
    loop {
        peers.send_up(100);
        if peers.receive_down().is_some() {
            break;
        }
        assert!(Instant::now() < end, "nothing comes back");
    }
    while peers.receive_down().is_some() {}
    for len in [101, SHORT - HEADERS] {
        let comes_back = |_| {
            peers.send_up(len);
            peers.receive_down().is_some_and(|octets| octets == payload(len))
        };
        assert!((0..50).any(comes_back), "{len} octets");
    }
    if is_last {
        peers.send_up(0);
    }
}
