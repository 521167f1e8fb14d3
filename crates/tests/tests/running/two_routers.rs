//! BIRD beside a running `adit`, over the kernel twin of a port of DPDK, with two routers: users'
//! packets take both, and the other one alone once BFD finds that a router is gone.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use adit_testkit::packet::PacketBuilder;
use adit_tests::daemon::Daemon;
use adit_tests::link::PacketLink;
use adit_tests::process::{ChildProcess, TestNamespace, is_root, run};
use adit_types::MacAddr;

use crate::associated_smf::TestSmf;
use crate::jumbo::{DEVICES, PART};
use crate::kernel_twin::{OWN, af_packet, configuration, mac_of};
use crate::load::LoadSession;
use crate::routing::{
    ROUTER, RoutingDaemon, ip, is_installed, open_folder, printed, row, start_bird, wait,
};
use crate::smf;

const TEST: &str = "two_routers::users_leave_through_both_routers_and_through_one_once_bfd_ends";
const PATIENCE: Duration = Duration::from_secs(60);
/// The switch between adit and its routers: the SMF's address.
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 9);
/// The port of the switch to the second router.
const SECOND: &str = "port2";
/// The time from the last BFD packet to the end of the session (three intervals of 300 ms), and as
/// much again for a machine whose cores are all busy.
const DETECTION_MAX: Duration = Duration::from_millis(2000);

#[test]
fn users_leave_through_both_routers_and_through_one_once_bfd_ends() {
    let _alone = crate::alone();
    if std::env::var(PART).is_ok() {
        return send_through_routers();
    }
    if !is_root() || !is_installed(RoutingDaemon::Bird) {
        return;
    }
    let [namespace, routing, switch] = ["ecmp", "routing", "switch"].map(TestNamespace::new);
    let routers = ["10.0.6.1", "10.0.6.3"].map(|addr| (addr, TestNamespace::new("router")));
    connect(&namespace, &switch, &routers);
    let netns = format!("kernel_netns = \"{}\"", routing.name());
    let started = Daemon::start_in(namespace, |dir| {
        let text = configuration(dir, &af_packet(), &netns);
        let pool = "[[ue_pool]]\nprefix = \"10.45.0.0/16\"\n";
        let keys = "role = \"n6\"\nroutes = \"kernel\"\nannounce = \"pool\"";
        text.replace("role = \"n6\"", keys) + pool
    });
    let Some(daemon) = started else { return };
    let folder = open_folder();
    let text = fs::read_to_string(printed("bird.conf")).unwrap().replace("n6*", "twin6");
    let second = "protocol bgp router2 from routers { neighbor 10.0.6.3 as 65001; }\n";
    let config = folder.path().join("upf.conf");
    fs::write(&config, text + second).unwrap();
    let _beside = start_bird(&routing, &config, folder.path(), "upf");
    let _routers = [0, 1].map(|number| {
        let (addr, namespace) = &routers[number];
        let config = folder.path().join(format!("router{number}.conf"));
        fs::write(&config, ROUTER.replace("10.0.6.1", addr)).unwrap();
        start_bird(namespace, &config, folder.path(), &format!("router{number}"))
    });
    wait("a route through both routers", || members(&daemon) == ["10.0.6.1", "10.0.6.3"]);
    let pool = "10.45.0.0/16 via 10.0.6.2";
    wait("the pool at both routers", || {
        routers.iter().all(|(_, router)| ip(router, &["route"]).contains(pool))
    });

    let macs = [mac_of(daemon.namespace(), "near0"), mac_of(&routers[1].1, "rtr")];
    let mut traffic = switch.this_test(TEST);
    let output = ChildProcess::start(traffic.env(PART, "send").env(DEVICES, macs.join(" ")));
    let output = output.finish(2 * PATIENCE);
    println!("{}", String::from_utf8_lossy(&output.stderr));
    let routes = daemon.show("routes");
    assert!(output.status.success(), "{routes:#}");
    println!("from reading the kernel's message to the effect: {}", routes["effect_us"]);
    let counters = daemon.show("counters");
    assert_eq!((&counters["dropped_pkts"], &counters["identity_holds"]), (&0.into(), &true.into()));
    assert!(daemon.stop().status.success());
}

/// Links of adit and of each router to the switch, and of adit to the gNB, which is there, too.
/// Frames of the kernels have checksums.
fn connect(own: &TestNamespace, switch: &TestNamespace, routers: &[(&str, TestNamespace); 2]) {
    let link = |from: &TestNamespace, device: &str, port: &str| {
        let to = switch.name();
        from.ip(&["link", "add", device, "type", "veth", "peer", "name", port, "netns", to]);
        for (namespace, device) in [(from, device), (switch, port)] {
            namespace.ip(&["link", "set", device, "addrgenmode", "none", "up"]);
            let mut ethtool = namespace.command(Path::new("ethtool"));
            ethtool.args(["-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off"]);
            assert!(run(&mut ethtool, PATIENCE).status.success());
        }
    };
    link(own, "near0", "gnb0");
    link(own, "near1", "port0");
    for ((addr, router), port) in routers.iter().zip(["port1", SECOND]) {
        link(router, "rtr", port);
        router.ip(&["addr", "add", &format!("{addr}/24"), "dev", "rtr"]);
    }
    switch.ip(&["link", "add", "br0", "type", "bridge"]);
    for port in ["port0", "port1", SECOND] {
        switch.ip(&["link", "set", port, "master", "br0"]);
    }
    switch.ip(&["link", "set", "br0", "up"]);
    switch.ip(&["addr", "add", &format!("{SWITCH}/24"), "dev", "br0"]);
}

/// The next hops of the routers' route in adit, in order.
fn members(daemon: &Daemon) -> Vec<String> {
    let routes = daemon.show("routes");
    let Some(row) = row(&routes, "kernel", "198.51.100.0/24") else { return Vec::new() };
    let members = row["members"].as_array().unwrap().iter();
    let addr = |member: &str| {
        let addr = member.split([' ', ',']).find(|part| part.parse::<Ipv4Addr>().is_ok());
        addr.unwrap_or(member).to_owned()
    };
    let mut addrs: Vec<String> = members.map(|member| addr(member.as_str().unwrap())).collect();
    addrs.sort();
    addrs
}

/// Packets of a UE's flows on their way to the routers, in the namespace of the switch.
struct RoutedFlows {
    session: LoadSession,
    gnb: PacketLink,
    switch: PacketLink,
    upf: MacAddr,
    second_router: MacAddr,
}

impl RoutedFlows {
    /// Sends a packet of each flow in turn for `time`, one per millisecond. Returns how many left
    /// to the first and to the second router, and when the last one to the second was seen.
    fn send(&self, time: Duration) -> ([usize; 2], Option<Instant>) {
        let (end, mut to, mut last) = (Instant::now() + time, [0, 0], None);
        for flow in (4000..4064).cycle() {
            let packet = PacketBuilder::ethernet(self.upf, MacAddr([2, 0xaa, 0, 0, 3, 1]))
                .ipv4(smf::GNB, smf::N3)
                .gtpu(self.session.teid.0)
                .psc_ul(9)
                .ipv4(self.session.ue, "198.51.100.77")
                .udp(flow, 9000)
                .payload(b"to a router");
            self.gnb.send(&packet.build());
            std::thread::sleep(Duration::from_millis(1));
            while let Some(frame) = self.switch.try_receive() {
                if frame.ends_with(b"to a router") {
                    let is_second = frame[..6] == self.second_router.0;
                    to[usize::from(is_second)] += 1;
                    last = if is_second { Some(Instant::now()) } else { last };
                }
            }
            if Instant::now() > end {
                break;
            }
        }
        (to, last)
    }

    /// Sends until both routers get packets.
    fn wait_for_both(&self, what: &str) {
        wait(what, || self.send(Duration::from_millis(200)).0.iter().all(|count| *count > 20));
    }
}

fn send_through_routers() {
    let mut control = TestSmf::between(SWITCH, OWN);
    control.set_up();
    let session = LoadSession::establish(&mut control, 1).unwrap();
    let macs = std::env::var(DEVICES).unwrap();
    let octets = |mac: &str| mac.split(':').map(|of| u8::from_str_radix(of, 16).unwrap()).collect();
    let octets = macs.split(' ').map(octets);
    let mut macs = octets.map(|of: Vec<u8>| MacAddr(of.try_into().unwrap()));
    let flows = RoutedFlows {
        session,
        gnb: PacketLink::open("gnb0"),
        switch: PacketLink::open("port0"),
        upf: macs.next().unwrap(),
        second_router: macs.next().unwrap(),
    };
    flows.wait_for_both("packets at both routers");
    let (to, _) = flows.send(Duration::from_secs(1));
    eprintln!("to the routers: {to:?}");
    // 32 of 64 flows each, more or less.
    assert!(to.iter().all(|count| *count * 4 > to[0] + to[1]), "{to:?}");

    set_link(SECOND, "down");
    let cut = Instant::now();
    let (_, last) = flows.send(DETECTION_MAX);
    let moved = last.map_or(Duration::ZERO, |last| last - cut);
    eprintln!("the last packet to the dead router: {} ms after its end", moved.as_millis());
    let (to, _) = flows.send(Duration::from_millis(500));
    assert!(to[0] > 100 && to[1] == 0, "{to:?}");

    set_link(SECOND, "up");
    flows.wait_for_both("packets at both routers again");
}

fn set_link(device: &str, state: &str) {
    let mut command = std::process::Command::new("ip");
    let output = run(command.args(["link", "set", device, state]), PATIENCE);
    assert!(output.status.success());
}
