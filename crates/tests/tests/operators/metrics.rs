//! The state of a running `adit` in its operator's tools: Prometheus with the shipped alerts and
//! dashboards, the service manager, the log, and a terminal.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{HttpAnswer, send};
use crate::smf::{self, SessionScript, decode, delete, establish_with, heartbeat, setup};
use adit_pfcp::Message;
use adit_pfcp::ie::{ApnDnn, SNssai};
use adit_tests::daemon::{self, Daemon, N4};
use adit_tests::process::{ChildProcess, TestNamespace, binary, is_root, run, skip};
use adit_types::Seid;
use serde_json::Value;

/// Environment variable of the run inside the daemon's namespace: the folder of the daemon.
const INSIDE: &str = "ADIT_TEST_INSIDE";

const LIMIT: Duration = Duration::from_secs(180);
const PATIENCE: Duration = Duration::from_secs(60);
const SMF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 10);

pub(crate) fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

/// The daemon has everything that has metrics: ports with links, a store, a pool, a shared rate
/// and an NRF, which does not answer.
fn start(purpose: &str) -> Option<Daemon> {
    if !is_root() {
        return None;
    }
    let namespace = TestNamespace::new(purpose);
    for (device, peer) in [("up0", "gnb0"), ("core0", "net0")] {
        namespace.ip(&["link", "add", device, "type", "veth", "peer", "name", peer]);
        for end in [device, peer] {
            namespace.ip(&["link", "set", end, "up"]);
        }
    }
    Daemon::start_in(namespace, |dir| {
        let devices = ["net_af_packet0,iface=up0", "net_af_packet1,iface=core0"];
        let folder = dir.join("journal");
        let node = daemon::node(1000, &daemon::cores()[..1], dir);
        let store = format!("kind = \"journal\"\nfolder = \"{}\"", folder.display());
        node.replace("kind = \"none\"", &store)
            + &daemon::interfaces(devices, daemon::N3)
            + "\n[[ue_pool]]\nprefix = \"10.45.0.0/16\"\n\n[qos.uplink]\nmbps_max = 100\n\
               \n[api]\nlisten = \"127.0.0.1:8080\"\n\n[nrf]\nservers = [\"http://127.0.0.1:7777\"]\n"
    })
}

/// An SMF does what SMFs do: one request is refused.
fn signal() {
    let socket = UdpSocket::bind((SMF, 8805)).unwrap();
    socket.connect((N4, 8805)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let answer = |bytes: &[u8]| {
        socket.send(bytes).unwrap();
        let mut buffer = vec![0; 4096];
        loop {
            let len = socket.recv(&mut buffer).unwrap();
            let header = smf::raw(&buffer[..len]).header;
            if header.message_type.info().is_some_and(|info| !info.is_request) {
                return buffer[..len].to_vec();
            }
        }
    };
    answer(&setup(1, SMF, smf::SMF_STARTED));
    answer(&heartbeat(2, smf::SMF_STARTED));
    let established = answer(&establish_with(3, &SessionScript::new(1, 1), |body| {
        body.apn_dnn = Some(ApnDnn(b"\x08internet"));
        body.s_nssai = Some(SNssai { sst: 1, sd: 0xa1b2 });
    }));
    let Message::SessionEstablishmentResponse(body) = decode(&established) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    answer(&delete(4, Seid(0x1234_5678)));
}

fn get(port: u16, path: &str, accept: &str) -> HttpAnswer {
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
    );
    if port == 8080 {
        return send(head.as_bytes());
    }
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    // A body in pieces: lengths stand in lines of their own.
    let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => body.split("\r\n").skip(1).step_by(2).collect(),
        false => body.to_owned(),
    };
    HttpAnswer { status: 200, head: head.to_owned(), body: body.into() }
}

/// Names of samples.
fn names(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// Names of metrics of adit in an expression.
fn named(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| word.starts_with("adit_") || word.starts_with("process_");
    words.filter(is_metric).map(str::to_owned).collect()
}

/// The expressions of the dashboards, as Grafana sends them.
fn dashboards() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in fs::read_dir(deployed("grafana")).unwrap() {
        let path = file.unwrap().path();
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let ids: BTreeSet<u64> = dashboard["panels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|panel| panel["id"].as_u64().unwrap())
            .collect();
        assert_eq!(ids.len(), dashboard["panels"].as_array().unwrap().len(), "{}", path.display());
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let filled =
                    expression.replace("$__rate_interval", "1m").replace("$instance", ".*");
                found.push((format!("{}: {}", path.display(), panel["title"]), filled));
            }
        }
    }
    assert!(found.len() > 30, "{}", found.len());
    found
}

/// The expressions of the alerts.
fn alerts() -> Vec<String> {
    let rules = fs::read_to_string(deployed("prometheus/rules.yml")).unwrap();
    let mut lines = rules.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(expression) = line.trim().strip_prefix("expr: ") else { continue };
        let folded = lines.clone().take_while(|line| line.starts_with("          "));
        found.push(match expression {
            ">-" => folded.collect::<Vec<_>>().join(" "),
            expression => expression.to_owned(),
        });
    }
    assert!(found.len() > 15, "{}", found.len());
    found
}

/// The output of a program for its input, which it must accept; `None` if it is not installed.
fn accepted_by(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let command = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = command else {
        skip(format_args!("no {program} (Debian package prometheus)"));
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{program} {arguments:?}: {}", said.concat());
    Some(said.concat())
}

#[test]
fn alerts_and_dashboards_name_metrics_that_exist_and_prometheus_scrapes_and_evaluates_them() {
    if let Some(dir) = std::env::var_os(INSIDE) {
        return scrape(Path::new(&dir));
    }
    let Some(daemon) = start("metrics") else { return };
    let test = "metrics::alerts_and_dashboards_name_metrics_that_exist_and_prometheus_scrapes_and_evaluates_them";
    let mut command = daemon.this_test(test);
    let output = ChildProcess::start(command.env(INSIDE, daemon.dir())).finish(LIMIT);
    let said =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert!(output.status.success(), "{}", said.concat());
    let shown = daemon.run(&["show", "metrics"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.ends_with("# EOF\n") && shown.contains("\nadit_n4_sessions 1.0\n"), "{shown}");
    assert!(daemon.stop().status.success());
}

/// Inside the namespace of the daemon.
fn scrape(dir: &Path) {
    signal();
    let answer = get(8080, "/metrics", "application/openmetrics-text;version=1.0.0");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(answer.head.to_ascii_lowercase().contains(kind), "{}", answer.head);
    let text = answer.text();
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let distinct: BTreeSet<&&str> = types.iter().collect();
    assert_eq!(types.len(), distinct.len(), "each family is there once");
    for sample in [
        "adit_n4_service_sessions{dnn=\"internet\",s_nssai=\"1-00a1b2\"} 1.0",
        "adit_n4_answers_total{request=\"session_establishment_request\",cause=\"1\"} 1",
        "adit_n4_answers_total{request=\"session_deletion_request\",cause=\"65\"} 1",
        "adit_port_link_up{port=\"access\"} 1.0",
        "adit_store_failing 0.0",
        "adit_datapath_identity_holds 1.0",
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample}: {text}");
    }
    let pool = "adit_ue_pool_used_addresses{network_instance=\"\",prefix=\"10.45.0.0/16\"} ";
    assert!(text.lines().any(|line| line.starts_with(pool)), "{text}");
    let known = names(text);
    each_is_explained(&known);
    let dashboards = dashboards();
    for (place, expression) in &dashboards {
        let unknown: Vec<_> = named(expression).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{place} names {unknown:?}");
    }
    for expression in alerts() {
        let unknown: Vec<_> = named(&expression).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "an alert names {unknown:?}");
    }
    let plain = get(8080, "/metrics", "text/plain");
    assert!(plain.head.contains("version=0.0.4"), "{}", plain.head);
    if accepted_by("promtool", &["check", "metrics"], plain.text()).is_none() {
        return;
    }
    let rules = deployed("prometheus/rules.yml");
    accepted_by("promtool", &["check", "rules", rules.to_str().unwrap()], "");
    evaluate(dir, &rules, &dashboards);
}

/// `adit explain` has the metrics of a running adit.
fn each_is_explained(metrics: &BTreeSet<String>) {
    let adit = binary("adit").unwrap();
    let output = run(Command::new(adit).arg("explain"), PATIENCE);
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let listed: BTreeSet<&str> = listed.lines().map(str::trim).collect();
    let is_explained = |name: &str| {
        let mut parts = ["_bucket", "_sum", "_count"].iter().filter_map(|of| name.strip_suffix(of));
        listed.contains(name) || parts.any(|name| listed.contains(name))
    };
    let others: Vec<_> = metrics.iter().filter(|name| !is_explained(name)).collect();
    assert!(others.is_empty() && metrics.len() > 100, "{others:?}");
}

/// A real Prometheus scrapes the daemon and evaluates the deployed rules.
fn evaluate(dir: &Path, rules: &Path, dashboards: &[(String, String)]) {
    let config = dir.join("prometheus.yml");
    let shipped = fs::read_to_string(deployed("prometheus/prometheus.yml")).unwrap();
    let own = shipped.replace("scrape_interval: 15s", "scrape_interval: 1s");
    assert_ne!(own, shipped);
    let rules = fs::canonicalize(rules).unwrap();
    let own = own.replace("  - rules.yml", &format!("  - {}", rules.display()));
    fs::write(&config, format!("global:\n  evaluation_interval: 1s\n{own}")).unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()));
    command.args(["--web.listen-address=127.0.0.1:9090", "--log.level=warn"]);
    let _prometheus = ChildProcess::start(&mut command);
    let query = |expression: &str| {
        let encoded: String = expression.bytes().map(|octet| format!("%{octet:02x}")).collect();
        let answer = get(9090, &format!("/api/v1/query?query={encoded}"), "*/*");
        answer.json()
    };
    let end = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect("127.0.0.1:9090").is_err()
        || query("min_over_time(up{job=\"adit\"}[5s])")["data"]["result"][0]["value"][1] != "1"
        || query("rate(adit_n4_datagrams_received_total[10s])")["data"]["result"][0].is_null()
    {
        assert!(Instant::now() < end, "it does not scrape: {}", query("up"));
        std::thread::sleep(Duration::from_millis(500));
    }
    let sessions = query("adit_n4_sessions");
    assert_eq!(sessions["data"]["result"][0]["value"][1], "1", "{sessions}");
    for (place, expression) in dashboards {
        let answer = query(expression);
        assert_eq!(answer["status"], "success", "{place}: {expression}: {answer}");
    }
    let answer = loop {
        let answer = get(9090, "/api/v1/rules", "*/*");
        let answer = answer.json();
        if !answer.to_string().contains("\"health\":\"unknown\"") {
            break answer;
        }
        assert!(Instant::now() < end, "{answer}");
        std::thread::sleep(Duration::from_millis(500));
    };
    let rules = answer["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), alerts().len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }
}

#[test]
fn loss_and_recovery_of_a_link_are_shown_and_counted() {
    let Some(daemon) = start("links") else { return };
    let port = || {
        let ports = daemon.show("ports");
        ports["ports"]
            .as_array()
            .unwrap()
            .iter()
            .find(|port| port["name"] == "access")
            .unwrap()
            .clone()
    };
    let wait = |expected: (&str, u64, u64)| {
        let end = Instant::now() + PATIENCE;
        loop {
            let port = port();
            let seen = (&port["link"], &port["link_losses"], &port["link_recoveries"]);
            if seen == (&expected.0.into(), &expected.1.into(), &expected.2.into()) {
                return;
            }
            assert!(Instant::now() < end, "{expected:?}: {port}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    wait(("up", 0, 0));
    daemon.namespace().ip(&["link", "set", "gnb0", "down"]);
    wait(("down", 1, 0));
    daemon.namespace().ip(&["link", "set", "gnb0", "up"]);
    wait(("up", 1, 1));
    assert!(daemon.stop().status.success());
}

#[test]
fn service_manager_hears_of_start_life_and_end_and_each_line_of_the_log_is_json() {
    if !is_root() {
        return;
    }
    let Some(adit) = binary("adit") else { return };
    let namespace = TestNamespace::new("notify");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let config = dir.path().join("adit.toml");
    let ports = daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3);
    fs::write(&config, daemon::node(100, &daemon::cores()[..1], dir.path()) + &ports).unwrap();
    let mut command = namespace.command(&adit);
    command
        .args(["run", "--log", "json", "--log-levels", "info,adit_n4=debug", "--config"])
        .arg(&config);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000").env_remove("WATCHDOG_PID");
    let process = ChildProcess::start(&mut command);
    let heard = || {
        let mut buffer = [0; 256];
        let len = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert_eq!(heard(), "READY=1");
    assert_eq!(heard(), "STATUS=forwarding");
    assert_eq!([heard(), heard(), heard()], ["WATCHDOG=1"; 3]);
    process.signal(libc::SIGTERM);
    let end = Instant::now() + PATIENCE;
    while heard() != "STOPPING=1\nSTATUS=stopping" {
        assert!(Instant::now() < end);
    }
    let output = process.finish(PATIENCE);
    assert!(output.status.success());
    let log = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let running = lines.iter().find(|line| line["message"] == "running").unwrap();
    assert_eq!((&running["level"], &running["target"]), (&"INFO".into(), &"adit::run".into()));
    assert!(running["timestamp"].is_string(), "{running}");
}

#[test]
fn top_shows_a_running_adit_and_leaves_the_terminal_as_it_was() {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("no script (Debian package bsdutils)");
    }
    let Some(daemon) = start("top") else { return };
    let once = daemon.run(&["top", "--once", "--json"]);
    let figures: Value = serde_json::from_slice(&once.stdout).unwrap();
    assert_eq!((&figures["model"], &figures["sessions"]), (&"run-to-completion".into(), &0.into()));
    assert_eq!(figures["ports"][0]["link"], "up", "{figures}");
    assert_eq!(figures["workers"].as_array().unwrap().len(), 1);
    let adit = binary("adit").unwrap();
    let socket = daemon.dir().join("admin.sock");
    for end in ["q", "\u{3}"] {
        let line = format!(
            "stty rows 30 cols 110; exec {} top --socket {}",
            adit.display(),
            socket.display()
        );
        let mut child = Command::new("script")
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut keys = child.stdin.take().unwrap();
        std::thread::sleep(Duration::from_secs(4));
        keys.write_all(b"3").unwrap();
        keys.flush().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        keys.write_all(end.as_bytes()).unwrap();
        keys.flush().unwrap();
        let output = child.wait_with_output().unwrap();
        let screen = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{screen}");
        let [enter, leave, busy] = ["\u{1b}[?1049h", "\u{1b}[?1049l", "busy"]
            .map(|part| screen.find(part).unwrap_or_else(|| panic!("{part:?}: {screen:?}")));
        assert!(enter < busy && busy < leave, "{screen:?}");
        assert!(screen.contains("\u{1b}[?25h"), "the cursor is visible again: {screen:?}");
    }
    assert!(daemon.stop().status.success());
}

#[test]
fn filters_explanations_completions_and_manual_pages_work_for_an_operator() {
    let Some(adit) = binary("adit") else { return };
    let said = |arguments: &[&str]| run(Command::new(&adit).args(arguments), PATIENCE);
    let output = said(&["explain", "teid_unknown"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("Look at: "));
    let output = said(&["explain", "teid_lost"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("teid_unknown"));
    let output = said(&["completions", "bash"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("_adit()"));
    let output = said(&["man"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(".TH adit 1"));
    let output = said(&["show", "ports", "--dnn", "internet"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no filter"));
}

#[test]
fn unit_of_the_service_is_valid() {
    let Some(adit) = binary("adit") else { return };
    let dir = tempfile::tempdir().unwrap();
    let unit = fs::read_to_string(deployed("systemd/adit.service")).unwrap();
    let own = unit.replace("/usr/bin/adit", adit.to_str().unwrap());
    assert_ne!(own, unit);
    let path = dir.path().join("adit.service");
    fs::write(&path, own).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output();
    let Ok(output) = verified else { return skip("no systemd-analyze") };
    let said = String::from_utf8_lossy(&output.stderr);
    let own = said.lines().filter(|line| line.contains("adit.service")).collect::<Vec<_>>();
    assert!(output.status.success() && own.is_empty(), "{said}");
}
