//! A running `adit` that reads its configuration again and again while packets cross it: none is
//! lost, what changed counts, and a file that is refused changes nothing.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::associated_smf::TestSmf;
use crate::load::{FORMER_GATEWAY, LATER_GATEWAY, LoadSession, ReloadTraffic, SessionInNetwork};
use crate::smf::{self, SessionScript, list};
use adit_pfcp::Message;
use adit_pfcp::ie::{
    ActivatePredefinedRules, FTeid, NetworkInstance, UeIpAddress, UeIpAddressPoolIdentity,
};
use adit_pfcp::message::SessionEstablishmentResponse;
use adit_tests::daemon::{self, Daemon, adit};
use adit_tests::process::{ChildProcess, is_root, run};
use adit_types::Teid;
use serde_json::Value;

/// Environment variable of the run inside the daemon's namespace: the folder of the daemon.
const INSIDE: &str = "ADIT_TEST_INSIDE";

const TEST: &str =
    "reload::reload_loses_no_packet_and_counts_from_then_on_and_a_refused_file_changes_nothing";
const SESSIONS: u16 = 4;
/// Reloads under load. An odd number, so that the last one leads to the later gateway.
const RELOADS: u32 = 31;
const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn reload_loses_no_packet_and_counts_from_then_on_and_a_refused_file_changes_nothing() {
    let _alone = crate::alone();
    if let Some(dir) = std::env::var_os(INSIDE) {
        return inside(Path::new(&dir));
    }
    if !is_root() {
        return;
    }
    let namespace = daemon::veth_namespace("reload");
    let Some(daemon) = Daemon::start_in(namespace, |dir| configuration(dir, 0)) else { return };
    let mut command = daemon.this_test(TEST);
    let output = ChildProcess::start(command.env(INSIDE, daemon.dir())).finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let counters = daemon.show("counters");
    assert_eq!((&counters["dropped_pkts"], &counters["identity_holds"]), (&0.into(), &true.into()));
    signal_does_the_same(&daemon);
    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The configuration with the given number: those of odd numbers lead to another gateway, and each
/// differs from all others.
fn configuration(dir: &Path, number: u32) -> String {
    let devices =
        ["net_af_packet0,iface=up0,framecnt=2048", "net_af_packet1,iface=core0,framecnt=2048"];
    let ports = daemon::interfaces(devices, &smf::N3.to_string());
    let is_odd = number % 2 == 1;
    let gateway = if is_odd { LATER_GATEWAY } else { FORMER_GATEWAY }.0;
    let ports = ports.replace("next_hop = \"10.0.6.1\"", &format!("next_hop = \"{gateway}\""));
    let ports = ports.replace("role = \"n6\"", "role = \"n6\"\nnetwork_instance = \"internet\"");
    let ports = if number >= WITH_NETWORK { ports + NETWORK } else { ports };
    let node = daemon::node(100, &daemon::cores()[..1], dir);
    let node = node.replace("[sessions]", &format!("t1_ms = {}\n[sessions]", 3000 + number));
    let gtpu = format!(
        "[[route]]\ninterface = \"n3\"\nprefix = \"203.0.113.0/24\"\nnext_hop = \"{}\"\n",
        smf::GNB
    );
    let rules = format!(
        r#"
[log]
levels = "{levels}"
[qos]
burst_ms = {burst_ms}
[[ue_pool]]
identity = "former"
prefix = "10.60.0.0/{len}"
[[application]]
id = "video"
flow_descriptions = ["permit out ip from 203.0.113.{host}/32 to assigned"]
[[forwarding_policy]]
id = "marking"
dscp = {dscp}
[[predefined_rule]]
name = "no-mail"
application = "video"
precedence = {burst_ms}
action = "drop"
"#,
        levels = if is_odd { "error" } else { "warn" },
        burst_ms = 20 + number,
        len = 30 - number.min(10),
        host = 1 + number,
        dscp = number % 64,
    );
    node + &ports + if is_odd { &gtpu } else { "" } + &rules
}

/// The additions of this reload and later ones: another network instance with a pool, and an
/// interface for tunnels.
const WITH_NETWORK: u32 = 12;
const NETWORK: &str = r#"
[[interface]]
name = "ims"
role = "n6"
port = "core"
vlan = 7
addresses = ["10.0.7.2/24"]
network_instance = "ims"
[[interface]]
name = "n9"
role = "n9"
port = "access"
vlan = 8
addresses = ["10.0.8.2/24"]
[[route]]
interface = "ims"
prefix = "0.0.0.0/0"
next_hop = "10.0.7.1"
[[ue_pool]]
network_instance = "ims"
prefix = "10.62.0.0/24"
"#;

/// The additions of the last reload.
const ADDED: &str = "[[ue_pool]]\nidentity = \"later\"\nprefix = \"10.61.0.0/24\"\n\
                     [[predefined_rule]]\nname = \"web\"\n\
                     flow_descriptions = [\"permit out 6 from any 443 to assigned\"]\n";

fn inside(dir: &Path) {
    let mut smf = TestSmf::associated();
    let sessions: Vec<LoadSession> = (1..=SESSIONS)
        .map(|number| {
            let script = SessionScript::new(number.into(), number);
            let answer = smf.answer(|sequence| smf::establish(sequence, &script));
            LoadSession { ue: script.ue, teid: accepted(&answer).0 }
        })
        .collect();
    let early = smf.answer(of_later_pool);
    assert!(!established(&early).cause.is_accepted(), "neither pool nor rule is there yet");
    let load = ReloadTraffic::start(sessions.clone());
    for number in 1..=RELOADS {
        let config = configuration(dir, number);
        let config = if number == RELOADS { config + ADDED } else { config };
        let output = reload_with(dir, &config, &["--json"]);
        assert!(output.status.success(), "{}", said(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let keys =
            answer["changed"].as_array().unwrap().iter().map(|of| of["key"].as_str().unwrap());
        let keys: Vec<&str> = keys.collect();
        for key in
            ["n4.t1_ms", "route", "qos.burst_ms", "application", "predefined_rule", "log.levels"]
        {
            assert!(keys.contains(&key), "{key}: {answer}");
        }
        let interfaces = keys.iter().filter(|key| **key == "interface").count();
        assert_eq!(interfaces, if number == WITH_NETWORK { 2 } else { 0 }, "{answer}");
        assert!(!answer["outcome"].to_string().contains("does not answer"), "{answer}");
    }
    let in_network = session_in_the_added_network(&mut smf, sessions[0].ue);
    refused_files_change_nothing(dir);
    let arrived = load.stop();
    assert!(arrived.by_gateway.iter().all(|count| *count > 0), "{arrived:?}");
    assert_eq!((arrived.lost, arrived.late), ((0, 0), 0), "{arrived:?}");
    assert_eq!(arrived.last_gateway, Some(1), "the gateway of the last reload");
    later_session_uses_what_was_added(&mut smf);
    in_network.exchange();
}

/// Neither a key that needs a restart nor a mistake changes anything, and both say what to do.
fn refused_files_change_nothing(dir: &Path) {
    let shown = || run(&mut adit(dir, &["show", "routes", "--json"]), LIMIT).stdout;
    let before = shown();
    // The route, which could change, does not either.
    let config = configuration(dir, RELOADS + 1) + ADDED;
    let fixed = config.replace("[dpdk]", "burst_pkts = 16\n[dpdk]");
    let output = reload_with(dir, &fixed, &[]);
    let text = said(&output);
    assert!(!output.status.success() && text.contains("nothing was changed"), "{text}");
    assert!(text.contains("datapath.burst_pkts") && text.contains("restart adit"), "{text}");
    let output = reload_with(dir, &fixed, &["--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!output.status.success());
    assert_eq!(answer["outcome"], "refused", "{answer}");
    assert_eq!(answer["refused"][0]["key"], "datapath.burst_pkts", "{answer}");
    let removed = config.replace(NETWORK, "");
    let text = said(&reload_with(dir, &removed, &[]));
    assert!(
        text.contains("interface \"ims\"") && text.contains("restart adit to remove"),
        "{text}"
    );
    for (mistake, words) in
        [("[n4", "not TOML"), ("[n5]", "n5"), ("[gtpu]\nt3_ms = 1", "gtpu.t3_ms")]
    {
        let output = reload_with(dir, &format!("{config}{mistake}\n"), &[]);
        let text = said(&output);
        assert!(!output.status.success(), "{mistake}");
        let is_clear =
            ["nothing was changed", "line ", words].iter().all(|words| text.contains(words));
        assert!(is_clear, "{mistake}: {text}");
    }
    assert_eq!(shown(), before);
    fs::remove_file(dir.join("adit.toml")).unwrap();
    let output = run(&mut adit(dir, &["reload"]), LIMIT);
    assert!(said(&output).contains("cannot read"), "{}", said(&output));
    let config = configuration(dir, RELOADS) + ADDED;
    let output = reload_with(dir, &config, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "nothing changed\n", "{}", said(&output));
}

/// The UE of another session, whose network instance has the same address.
fn session_in_the_added_network(smf: &mut TestSmf, ue: Ipv4Addr) -> SessionInNetwork {
    let script = SessionScript { gnb_teid: Teid(0x0abc_0001), ..SessionScript::new(99, 1) };
    assert_eq!(script.ue, ue);
    let answer = smf.answer(|sequence| {
        smf::establish_with(sequence, &script, |body| {
            let name = Some(NetworkInstance(b"ims"));
            let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
            pdrs[1].pdi.network_instance = name;
            body.create_pdrs = Vec::leak(pdrs)[..].into();
            let mut fars: Vec<_> = body.create_fars.iter().collect();
            fars[0].forwarding_parameters.as_mut().unwrap().network_instance = name;
            body.create_fars = Vec::leak(fars)[..].into();
        })
    });
    let session = LoadSession { ue, teid: accepted(&answer).0 };
    SessionInNetwork { session, gnb_teid: script.gnb_teid }
}

/// The pool, the predefined rule and the route.
fn later_session_uses_what_was_added(smf: &mut TestSmf) {
    let bytes = smf.answer(of_later_pool);
    let (teid, ue) = accepted(&bytes);
    let ue = ue.unwrap();
    assert_eq!(ue.octets()[..3], [10, 61, 0], "{ue}");
    let session = LoadSession { ue, teid };
    // Its downlink PDR activates a rule, which has other packets.
    let arrived = ReloadTraffic::start_uplink(session);
    assert_eq!((arrived.by_gateway[0], arrived.last_gateway), (0, Some(1)), "{arrived:?}");
}

/// An establishment with an address of the pool and with the rule that the last reload adds.
fn of_later_pool(sequence: u32) -> Vec<u8> {
    smf::establish_with(sequence, &SessionScript::new(sequence.into(), 1), |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        for (pdr, destination) in pdrs.iter_mut().zip([false, true]) {
            let ue = UeIpAddress { choose_v4: true, destination, ..UeIpAddress::default() };
            pdr.pdi.ue_ip_addresses = list([ue]).into();
            pdr.ue_ip_address_pool_ids = list([UeIpAddressPoolIdentity(b"later")]).into();
        }
        pdrs[1].activate_predefined_rules = list([ActivatePredefinedRules(b"web")]).into();
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

/// Reloads by SIGHUP: the outcome is in the log, and `adit show` has it.
fn signal_does_the_same(daemon: &Daemon) {
    let config = configuration(daemon.dir(), RELOADS + 1) + ADDED;
    fs::write(daemon.dir().join("adit.toml"), config).unwrap();
    daemon.hang_up();
    let end = Instant::now() + LIMIT;
    let former = FORMER_GATEWAY.0.to_string();
    let has_former = |routes: &Value| {
        let mut rows = routes["routes"].as_array().unwrap().iter();
        rows.any(|row| row["origin"] == "static" && row["next_hop"] == *former)
    };
    while !has_former(&daemon.show("routes")) {
        assert!(Instant::now() < end, "{}", daemon.show("routes"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn reload_with(dir: &Path, config: &str, arguments: &[&str]) -> Output {
    fs::write(dir.join("adit.toml"), config).unwrap();
    run(adit(dir, &["reload"]).args(arguments), LIMIT)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn established(bytes: &[u8]) -> SessionEstablishmentResponse<'_> {
    let Message::SessionEstablishmentResponse(body) = smf::decode(bytes) else { panic!() };
    body
}

/// The TEID and the UE's address that were chosen.
pub(crate) fn accepted(bytes: &[u8]) -> (Teid, Option<Ipv4Addr>) {
    let body = established(bytes);
    assert!(body.cause.is_accepted(), "{body:?}");
    let created: Vec<_> = body.created_pdrs.iter().collect();
    let f_teid = created.iter().find_map(|pdr| pdr.local_f_teids.iter().next());
    let Some(FTeid::Given { teid, .. }) = f_teid else { panic!("{created:?}") };
    let ue = created.iter().find_map(|pdr| pdr.ue_ip_addresses.iter().next());
    (teid, ue.and_then(|ue| ue.v4))
}
