//! A running `adit` with the XDP program on its ports: changes by an SMF under traffic, and the
//! death of the process.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::smf;
use adit_pfcp::Message;
use adit_testkit::packet::PacketBuilder;
use adit_tests::daemon::{self, Daemon};
use adit_tests::link::{PacketLink, mac};
use adit_tests::process::{run, skip_on_this_machine};
use adit_types::{MacAddr, Seid, Teid};

/// Environment variable of the run inside the daemon's namespace.
const INSIDE: &str = "ADIT_TEST_INSIDE";

const SESSIONS: u16 = 8;
const ROUNDS: u32 = 300;
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn changes_lose_nothing_and_a_killed_process_leaves_no_program() {
    let _alone = crate::alone();
    if std::env::var_os(INSIDE).is_some() {
        return exchange();
    }
    let probe = Command::new("ethtool").arg("--version").stdout(Stdio::null()).status();
    if probe.is_err() {
        return skip_on_this_machine("no ethtool");
    }
    if !adit_tests::process::is_root() {
        return;
    }
    let namespace = daemon::veth_namespace("xdp");
    for peer in ["gnb0", "net0"] {
        // Else the kernel drops frames that a program sends to it.
        let mut gro = namespace.command("ethtool".as_ref());
        let output = run(gro.args(["-K", peer, "gro", "on"]), PATIENCE);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // The kernel answers adit's ARP requests.
    namespace.ip(&["addr", "add", &format!("{}/24", smf::GNB), "dev", "gnb0"]);
    namespace.ip(&["addr", "add", "10.0.6.1/24", "dev", "net0"]);
    let cores = daemon::cores();
    let started = Daemon::start_in(namespace, |dir| {
        let devices = ["net_af_xdp0,iface=up0", "net_af_xdp1,iface=core0"];
        let ports = daemon::interfaces(devices, &smf::N3.to_string());
        let ports = ports.replace("device = ", "xdp = \"auto\"\ndevice = ");
        let pool = "[[ue_pool]]\nprefix = \"10.45.0.0/16\"\n";
        // The fewest that the configuration accepts.
        let node = daemon::node(100, &cores[..1], dir);
        let node = node.replace("mempool_mbufs = 4096", "mempool_mbufs = 5760");
        node + &ports + pool
    });
    let Some(daemon) = started else { return };
    if daemon.show("offload")["offload"] != "xdp" {
        return skip_on_this_machine("XDP does not work here");
    }
    let daemon = exchange_with(daemon);
    let ended = daemon.kill();
    let end = Instant::now() + PATIENCE;
    loop {
        let mut links = ended.namespace().command("ip".as_ref());
        let output = run(links.args(["link", "show"]), PATIENCE);
        let links = String::from_utf8_lossy(&output.stdout).into_owned();
        if links.contains("core0") && !links.contains("xdp") {
            break;
        }
        assert!(Instant::now() < end, "{links}");
    }
    // On a busy machine the kernel frees the sockets of a killed process after its program, and
    // refuses others on the same queues till then: adit ends with a message.
    let daemon = exchange_with(ended.start_as_service());
    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs [`exchange`] in the namespace of a daemon, whose program must forward most packets.
fn exchange_with(daemon: Daemon) -> Daemon {
    let name = "xdp_daemon::changes_lose_nothing_and_a_killed_process_leaves_no_program";
    let output = run(daemon.this_test(name).env(INSIDE, ""), Duration::from_secs(60));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{}", daemon.show("offload"));
    let sent = 2 * u64::from(SESSIONS) * u64::from(ROUNDS);
    let (counters, offload) = (daemon.show("counters"), daemon.show("offload"));
    assert_eq!(counters["transmitted_pkts"], sent, "{counters}");
    assert_eq!((&counters["dropped_pkts"], &counters["identity_holds"]), (&0.into(), &true.into()));
    let offloaded = offload["offloaded_pkts"].as_u64().unwrap();
    assert!(offloaded > sent / 2 && offloaded <= sent, "{offload}");
    daemon
}

/// The next frame on a link that ends with `mark` and was not sent by this end, which starts with
/// `not_to`.
fn receive(link: &PacketLink, mark: &[u8], not_to: MacAddr) -> Vec<u8> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let Some(frame) = link.try_receive() else {
            std::thread::yield_now();
            continue;
        };
        if frame.ends_with(mark) && frame[..6] != not_to.0 {
            return frame;
        }
    }
    panic!("a packet is lost: {mark:02x?}");
}

/// The gNB, the data network and the SMF. Every packet must arrive, in the tunnel of the last
/// answered change.
fn exchange() {
    // Else the kernel refuses the packets to the gNB by ICMP.
    let _gtpu = UdpSocket::bind((smf::GNB, 2152)).unwrap();
    let (gnb, network) = (PacketLink::open("gnb0"), PacketLink::open("net0"));
    let (upf_n3, upf_n6) = (mac("up0"), mac("core0"));
    let socket = UdpSocket::bind("127.0.3.1:8805").unwrap();
    socket.connect((daemon::N4, 8805)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = |bytes: &[u8]| {
        socket.send(bytes).unwrap();
        let mut buffer = vec![0; 4096];
        let len = socket.recv(&mut buffer).unwrap();
        buffer.truncate(len);
        buffer
    };
    ask(&smf::setup(1, Ipv4Addr::new(192, 0, 2, 10), smf::SMF_STARTED));
    let mut sequence = 1;
    let mut next = || {
        sequence += 1;
        sequence
    };
    let mut sessions: Vec<(Seid, Teid, smf::SessionScript, Teid)> = Vec::new();
    for number in 1..=SESSIONS {
        let script = smf::SessionScript::new(number.into(), number);
        let answer = ask(&smf::establish(next(), &script));
        let Message::SessionEstablishmentResponse(answer) = smf::decode(&answer) else {
            panic!("{answer:?}")
        };
        let created = answer.created_pdrs.iter().next().unwrap();
        let Some(adit_pfcp::ie::FTeid::Given { teid, .. }) = created.local_f_teids.iter().next()
        else {
            panic!("{created:?}")
        };
        let seid = answer.up_f_seid.unwrap().seid;
        sessions.push((seid, teid, script, script.gnb_teid));
    }
    // Gateway and gNB are resolved.
    std::thread::sleep(Duration::from_millis(1500));
    for round in 0..ROUNDS {
        for (number, (seid, teid, script, gnb_teid)) in (0_u32..).zip(&mut sessions) {
            if round % 10 == number {
                *gnb_teid = Teid(0x0200_0000 + round * 16 + number);
                let answer = ask(&smf::move_to(next(), *seid, *gnb_teid));
                let Message::SessionModificationResponse(answer) = smf::decode(&answer) else {
                    panic!("{answer:?}")
                };
                assert!(answer.cause.is_accepted(), "{answer:?}");
            }
            let mark = [round.to_be_bytes(), number.to_be_bytes()].concat();
            let up = PacketBuilder::ethernet(upf_n3, gnb.mac)
                .ipv4(smf::GNB, smf::N3)
                .gtpu(teid.0)
                .psc_ul(9)
                .ipv4(script.ue, "8.8.8.8")
                .udp(4000, 53)
                .payload(&mark);
            gnb.send(&up.build());
            let down = PacketBuilder::ethernet(upf_n6, network.mac)
                .ipv4("8.8.8.8", script.ue)
                .udp(53, 4000)
                .payload(&[&[0; 32], &mark[..]].concat());
            network.send(&down.build());
            receive(&network, &mark, upf_n6);
            let frame = receive(&gnb, &mark, upf_n3);
            assert_eq!(frame[46..50], gnb_teid.0.to_be_bytes(), "round {round}: a former tunnel");
        }
    }
}
