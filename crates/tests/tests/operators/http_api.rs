//! The HTTP interface of a running `adit`: every path of its description answers as described, and
//! agrees with `adit show`; whatever a client sends has a defined status and a problem document,
//! and N4 does not notice.

mod flood;
mod schema;
mod taps;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::associated_smf::TestSmf;
use crate::client::{self, HttpAnswer, connect, request, send};
use crate::smf::{self, SessionScript, decode, establish_with, heartbeat};
use adit_pfcp::Message;
use adit_pfcp::ie::{ApnDnn, SNssai};
use adit_tests::daemon::{self, Daemon, N4, adit};
use adit_tests::process::{ChildProcess, TestNamespace, is_root, run, skip};
use adit_types::Seid;
use serde_json::{Value, json};

/// Environment variable of the run inside the daemon's namespace: the folder of the daemon.
const INSIDE: &str = "ADIT_TEST_INSIDE";

/// Environment variable of the run inside the daemon's namespace: the process identifier of the
/// daemon.
const DAEMON: &str = "ADIT_TEST_DAEMON";

const READS: &str = "0123456789abcdef0123456789abcdef";
const ACTS: &str = "fedcba9876543210fedcba9876543210";
const LIMIT: Duration = Duration::from_secs(600);

/// The network behind the ports of the daemon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// A gNB at [`smf::GNB`], and a host with a route to UEs: the kernel.
    Links,
}

/// Runs the test again inside the namespace of a daemon with this `[api]` section, where `inside`
/// has the folder of the daemon. Returns its output, and the log of the daemon.
fn run_inside(
    test: &str,
    behind: Behind,
    section: impl FnOnce(&Path) -> String,
    inside: impl FnOnce(&Path),
) -> Option<(String, String)> {
    if let Some(dir) = std::env::var_os(INSIDE) {
        inside(Path::new(&dir));
        return None;
    }
    if !is_root() {
        return None;
    }
    let purpose = format!("api-{}", test.len());
    let (namespace, devices) = match behind {
        Behind::Nothing => {
            (TestNamespace::new(&purpose), ["net_null0,no-rx=1", "net_null1,no-rx=1"])
        }
        Behind::Links => (daemon::linked_namespace(&purpose), daemon::LINKED),
    };
    let gnb = format!("{}/32", smf::GNB);
    if behind == Behind::Links {
        namespace.ip(&["addr", "add", &gnb, "dev", "gnb0"]);
    }
    let daemon = Daemon::start_in(namespace, |dir| {
        let route =
            format!("[[route]]\ninterface = \"n3\"\nprefix = \"{gnb}\"\nnext_hop = \"10.0.3.1\"\n");
        daemon::node(1000.max(browsed_sessions() as usize), &daemon::cores()[..1], dir)
            + &daemon::interfaces(devices, daemon::N3)
            + &route
            + &section(dir)
    })?;
    let mut command = daemon.this_test(test);
    command.env(INSIDE, daemon.dir()).env(DAEMON, daemon.id().to_string());
    let output = ChildProcess::start(&mut command).finish(LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let show = daemon.show("health");
    assert_eq!(show["ready"], true, "{show}");
    let output = daemon.stop();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}");
    Some((said, log))
}

fn with_tokens(dir: &Path) -> String {
    let tokens = dir.join("api.tokens");
    fs::write(&tokens, format!("read grafana {READS}\nact alice {ACTS}\n")).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    format!("\n[api]\nlisten = \"127.0.0.1:8080\"\ntokens_file = \"{}\"\n", tokens.display())
}

impl TestSmf {
    /// Establishes a session; its UP SEID, or the Cause of the refusal.
    fn establish(&mut self, number: u32) -> Result<Seid, adit_pfcp::Cause> {
        let script = SessionScript::of_many(number.into(), number);
        let bytes = self.answer(|sequence| {
            establish_with(sequence, &script, |body| {
                body.apn_dnn = Some(ApnDnn(b"\x08internet"));
                body.s_nssai = Some(SNssai { sst: 1, sd: 0xa1b2 });
            })
        });
        let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
        body.up_f_seid.map(|up| up.seid).ok_or(body.cause)
    }

    fn heartbeat(&mut self) {
        self.answer(|sequence| heartbeat(sequence, smf::SMF_STARTED));
    }
}

fn get(path: &str, token: &str) -> HttpAnswer {
    request("GET", path, Some(token), None)
}

/// The output of `adit show` in the namespace.
fn show(dir: &Path, arguments: &[&str]) -> Value {
    let output = run(&mut adit(dir, &[&["show", "--json"], arguments].concat()), LIMIT);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_path_of_the_description_answers_as_described() {
    run_inside(
        "http_api::every_path_of_the_description_answers_as_described",
        Behind::Nothing,
        with_tokens,
        |dir| {
            let mut smf = TestSmf::associated();
            let seids: Vec<Seid> = (1..=5).map(|number| smf.establish(number).unwrap()).collect();
            call_all(&seids);
            agrees_with_show(dir);
            sessions_are_found(&seids[1..]);
            acts_do_what_they_say(&mut smf, &seids);
            assert_eq!(show(dir, &["node"])["state"], "running");
        },
    );
}

/// Calls every operation, and checks its answer against its schema.
fn call_all(seids: &[Seid]) {
    let description = get("/openapi.json", READS).json();
    let mut statuses = BTreeMap::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let seid = if method == "delete" { seids[0] } else { seids[1] };
            let target =
                path.replace("{seid}", &seid.to_string()).replace("{node_id}", "127.0.0.10");
            let body = match path.as_str() {
                "/v1/drain" | "/v1/workers/{worker}/drain" => Some(json!({ "on": false })),
                "/v1/log" => Some(json!({ "filter": "error" })),
                "/v1/traces" => Some(json!({ "drop": "any", "duration_ms": 50, "words": true })),
                "/v1/captures" => Some(json!({ "all": true, "duration_ms": 50 })),
                _ => None,
            };
            let target = target.replace("{tap}", "0").replace("{worker}", "0");
            let name = format!("{method} {path}");
            let answer = match path.as_str() {
                "/v1/live" => client::first_event(&target, ACTS),
                _ => request(&method.to_uppercase(), &target, Some(ACTS), body.as_ref()),
            };
            let described = &operation["responses"][answer.status.to_string()]["content"];
            let schema = described.as_object().unwrap_or_else(|| panic!("{name}: {answer:?}"));
            let (kind, schema) = schema.iter().next().unwrap();
            assert!(
                answer.head.contains(&format!("content-type: {kind}")),
                "{name}: {}",
                answer.head
            );
            assert_described(&description, &schema["schema"], &name, &answer);
            statuses.insert(name, answer.status);
        }
    }
    let not_ok: Vec<_> = statuses.iter().filter(|(_, status)| **status != 200).collect();
    // This adit is no standby, and has neither a tap with this number nor a session that is set
    // aside.
    let expected = [
        ("delete /v1/store/set_aside/{seid}".to_owned(), 404),
        ("delete /v1/taps/{tap}".to_owned(), 404),
        ("post /v1/takeover".to_owned(), 409),
    ];
    assert_eq!(not_ok, expected.each_ref().map(|(name, status)| (name, status)), "{statuses:?}");
    assert!(statuses.len() >= 25, "{statuses:?}");
}

/// Compares a document, or each line of several, with a schema.
#[track_caller]
fn assert_described(description: &Value, schema: &Value, name: &str, answer: &HttpAnswer) {
    let documents = match answer.kind() {
        // Octets.
        "application/x-pcapng" => return assert!(taps::is_pcapng(&answer.body), "{name}"),
        "application/x-ndjson" => answer.lines(),
        _ => vec![answer.json()],
    };
    for document in documents {
        let problems = schema::mistakes(description, schema, &document);
        assert!(problems.is_empty(), "{name}: {problems:?}: {document}");
    }
}

fn agrees_with_show(dir: &Path) {
    for (topic, path) in [
        ("associations", "/v1/associations"),
        ("drops", "/v1/drops"),
        ("routes", "/v1/routes"),
        ("kernel", "/v1/kernel"),
        ("applications", "/v1/applications"),
        ("store", "/v1/store"),
        ("nrf", "/v1/nrf"),
        ("offload", "/v1/offload"),
        ("taps", "/v1/taps"),
    ] {
        assert_eq!(show(dir, &[topic]), get(path, READS).json(), "{topic}");
    }
    let pages = show(dir, &["sessions"])["sessions"].clone();
    assert_eq!(pages, get("/v1/sessions", READS).json()["sessions"]);
    assert_eq!(show(dir, &["sessions", "--limit", "2"])["sessions"].as_array().unwrap().len(), 2);
    let found = show(dir, &["sessions", "--ue", "10.45.0.3"]);
    assert_eq!(found["sessions"][0]["ue"], json!(["10.45.0.3"]));
}

/// `seids` are those that are left.
fn sessions_are_found(seids: &[Seid]) {
    let found = |query: &str| -> Vec<String> {
        let answer = get(&format!("/v1/sessions?{query}"), READS);
        assert_eq!(answer.status, 200, "{answer:?}");
        let document = answer.json();
        let rows = document["sessions"].as_array().unwrap();
        rows.iter().map(|row| row["up_seid"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = seids.iter().map(ToString::to_string).collect();
    assert_eq!(found("dnn=Internet"), all);
    assert_eq!(found("slice=1-00a1b2"), all);
    assert_eq!(found("slice=1"), Vec::<String>::new());
    assert_eq!(found("ue=10.45.0.2"), all[..1]);
    assert_eq!(found("ue=10.45.0.2&dnn=other"), Vec::<String>::new());
    assert_eq!(found(&format!("seid={}", all[1])), all[1..2]);
    // The tunnel of the gNB, which no index has, and that of adit.
    assert_eq!(found("teid=0x01000003"), all[1..2]);
    let row = &get(&format!("/v1/sessions/{}", all[2]), READS).json()["session"];
    let teid = row["teids"][0].as_str().unwrap().to_owned();
    assert_eq!(found(&format!("teid={teid}")), all[2..3]);
    // Page by page.
    let (mut cursor, mut told) = (String::new(), Vec::new());
    loop {
        let page = get(&format!("/v1/sessions?limit=3{cursor}"), READS).json();
        let rows = page["sessions"].as_array().unwrap();
        assert!(rows.len() <= 3);
        told.extend(rows.iter().map(|row| row["up_seid"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(told, all);
    let measured = get(&format!("/v1/sessions/{}?measure_ms=100", all[0]), READS).json();
    assert_eq!(measured["rates"]["uplink_bps"], 0);
    assert!(measured["rates"]["measured_ms"].as_u64().unwrap() >= 100);
}

fn acts_do_what_they_say(smf: &mut TestSmf, seids: &[Seid]) {
    let ended = format!("/v1/sessions/{}", seids[0]);
    assert_eq!(get(&ended, READS).status, 404, "call_all ended it");
    assert_eq!(request("DELETE", &ended, Some(ACTS), None).status, 404);
    let drain = |on: bool| {
        let body = json!({ "on": on });
        assert_eq!(request("PUT", "/v1/drain", Some(ACTS), Some(&body)).status, 200);
    };
    drain(true);
    assert_eq!(get("/v1/node", READS).json()["state"], "draining");
    assert_eq!(smf.establish(9).unwrap_err(), adit_pfcp::Cause::EntityInCongestion);
    drain(false);
    smf.establish(9).unwrap();
    let body = json!({ "filter": "warn,adit_n4=debug" });
    assert_eq!(request("PUT", "/v1/log", Some(ACTS), Some(&body)).status, 200);
    let log = get("/v1/node", READS).json()["log"].clone();
    assert!(log.as_str().unwrap().contains("adit_n4=debug"), "{log}");
    let gone = request("DELETE", "/v1/associations/192.0.2.99", Some(ACTS), None);
    assert_eq!(gone.status, 404, "{gone:?}");
    let forced = "/v1/associations/192.0.2.99?force=true";
    assert_eq!(request("DELETE", forced, Some(READS), None).status, 403);
    assert_eq!(request("DELETE", forced, Some(ACTS), None).status, 404);
    let known = get("/v1/associations", READS).json()["associations"][0]["node_id"].clone();
    let forced = format!("/v1/associations/{}?force=true", known.as_str().unwrap());
    let ended = request("DELETE", &forced, Some(ACTS), None);
    assert_eq!(ended.status, 200, "{ended:?}");
    assert!(ended.text().contains("Cause 72"), "{ended:?}");
    let refused = smf.establish(10).unwrap_err();
    assert_eq!(refused, adit_pfcp::Cause::NoEstablishedAssociation);
    assert_eq!(get("/v1/associations", READS).json()["associations"], json!([]));
}

#[test]
fn bad_input_has_a_status_and_a_problem_document_and_n4_goes_on() {
    run_inside(
        "http_api::bad_input_has_a_status_and_a_problem_document_and_n4_goes_on",
        Behind::Nothing,
        with_tokens,
        |_| {
            let mut smf = TestSmf::associated();
            wrong_requests();
            smf.heartbeat();
            broken_connections();
            smf.heartbeat();
            many_connections();
            smf.heartbeat();
            // Places become free when the server sees that connections are closed.
            let is_alive = |_| {
                std::thread::sleep(Duration::from_millis(100));
                get("/healthz", "").status == 200
            };
            assert!((0..100).any(is_alive));
        },
    );
}

#[track_caller]
fn assert_problem(answer: &HttpAnswer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.head.contains("content-type: application/problem+json"), "{answer:?}");
    assert!(answer.head.contains("x-content-type-options: nosniff"), "{answer:?}");
    let document = answer.json();
    assert_eq!(document["status"], status);
    assert!(document["detail"].as_str().unwrap().len() > 10, "{document}");
}

fn wrong_requests() {
    for path in ["/v1/node", "/v1/live", "/v1/nothing", "/metrics"] {
        assert_problem(&request("GET", path, None, None), 401);
        assert_problem(&get(path, "not-a-token"), 401);
    }
    let drain = json!({ "on": true });
    assert_problem(&request("PUT", "/v1/drain", Some(READS), Some(&drain)), 403);
    taps::wrong_wishes();
    for path in [
        "/v1/node?x=1",
        "/v1/sessions?limit=0",
        "/v1/sessions?limit=1001",
        "/v1/sessions?limit=many",
        "/v1/sessions?cursor=here",
        "/v1/sessions?ue=10.45",
        "/v1/sessions?imsi=1",
        "/v1/sessions/none",
        "/v1/sessions/0x1?measure_ms=60000",
        "/v1/sessions/%ff",
        "/healthz?x=1",
    ] {
        assert_problem(&get(path, READS), 400);
    }
    for path in
        ["/v1/nothing", "/v1/sessions/0x1", "/v1/qos?session=10.99.9.9", "/etc/passwd", "/../x"]
    {
        assert_problem(&get(path, READS), 404);
    }
    assert_problem(&request("POST", "/v1/node", Some(ACTS), None), 405);
    let wrong = |body: Value| request("PUT", "/v1/drain", Some(ACTS), Some(&body));
    for body in [json!({ "on": 1 }), json!({}), json!({ "on": true, "x": 1 }), json!([])] {
        assert_problem(&wrong(body), 422);
    }
    assert_problem(&wrong(json!({ "on": "x".repeat(20_000) })), 413);
    let filter = json!({ "filter": "loud" });
    assert_problem(&request("PUT", "/v1/log", Some(ACTS), Some(&filter)), 409);
    let plain = format!(
        "PUT /v1/drain HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ACTS}\r\ncontent-length: 11\r\n\
         connection: close\r\n\r\n{{\"on\":true}}"
    );
    assert_problem(&send(plain.as_bytes()), 415);
    let cut =
        plain.replace("\r\ncontent-length", "\r\ncontent-type: application/json\r\ncontent-length");
    assert_problem(&send(cut.replace("true}", "tru}}").as_bytes()), 400);
}

fn broken_connections() {
    assert_problem(&send(b"hello\r\n\r\n"), 400);
    assert_problem(&send(b"GET / HTTP/9.9\r\n\r\n"), 400);
    assert_problem(&send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400);
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(60_000));
    assert_problem(&send(long.as_bytes()), 431);
    let many = "x: y\r\n".repeat(100);
    assert_problem(&send(format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes()), 431);
    // Half a request, and half a body, from a client that sends no more.
    let half = connect();
    (&half).write_all(b"GET / HTTP/1.1\r\nhost:").unwrap();
    let body = connect();
    let head = format!(
        "PUT /v1/drain HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ACTS}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    (&body).write_all(head.as_bytes()).unwrap();
    for slow in [half, body] {
        assert_problem(&client::read_answer(slow), 408);
    }
}

fn many_connections() {
    let open: Vec<_> = (0..1000).map(|_| connect()).collect();
    let mut refused = 0;
    for stream in &open {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut text = [0; 12];
        refused += usize::from(
            (&*stream).read(&mut text).is_ok_and(|len| text[..len].starts_with(b"HTTP/1.1 503")),
        );
    }
    assert!(refused > 0, "further connections are refused");
    drop(open);
}

#[test]
fn without_tokens_everybody_reads_by_a_local_name_and_nobody_acts() {
    run_inside(
        "http_api::without_tokens_everybody_reads_by_a_local_name_and_nobody_acts",
        Behind::Nothing,
        |_| "\n[api]\nlisten = \"127.0.0.1:8080\"\n".to_owned(),
        |_| {
            assert_eq!(request("GET", "/v1/node", None, None).status, 200);
            let drain = json!({ "on": true });
            assert_problem(&request("PUT", "/v1/drain", None, Some(&drain)), 403);
            let elsewhere =
                b"GET /v1/node HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
            assert_problem(&send(elsewhere), 421);
            for path in ["/", "/dashboard.js", "/api", "/icon.svg", "/readyz"] {
                let answer = request("GET", path, None, None);
                assert_eq!(answer.status, 200, "{path}");
                assert!(answer.head.contains("content-security-policy: default-src 'none'"));
            }
            let flood = || request("GET", "/v1/node", None, None).status;
            assert!(
                (0..1000).any(|_| flood() == 429),
                "a client that asks without end is slowed down"
            );
        },
    );
}

#[test]
fn acts_of_the_command_line_are_those_of_the_interface() {
    let Some(daemon) = Daemon::start_with("api-cli", |dir| {
        let ports = daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3);
        daemon::node(10, &daemon::cores()[..1], dir) + &ports
    }) else {
        return;
    };
    let said = |arguments: &[&str]| {
        let output = daemon.run(arguments);
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (is_done, text) = said(&["drain", "on"]);
    assert!(is_done && text.contains("Cause 74"), "{text}");
    assert_eq!(daemon.show("node")["state"], "draining");
    assert_eq!(daemon.show("health")["draining"], true);
    assert!(said(&["drain", "off"]).0);
    let (is_done, text) = said(&["session", "end", "0x1"]);
    assert!(!is_done && text.contains("no session has the UP SEID"), "{text}");
    let (is_done, text) = said(&["session", "end", "here"]);
    assert!(!is_done && text.contains("is not a SEID"), "{text}");
    let (is_done, text) = said(&["association", "release", "smf.example"]);
    assert!(!is_done && text.contains("no association"), "{text}");
    let (is_done, text) = said(&["worker", "drain", "0"]);
    assert!(!is_done && text.contains("is the only one with sessions"), "{text}");
    assert!(said(&["log", "info"]).0);
    let (is_done, text) = said(&["log", "loud"]);
    assert!(!is_done && text.contains("neither a level"), "{text}");
    let output = daemon.stop();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("audit")).collect();
    assert_eq!(lines.len(), 8, "{log}");
    assert!(lines[0].contains("drain") && lines[0].contains("uid 0"), "{log}");
    assert!(lines[2].contains("refused") && lines[2].contains("end_session"), "{log}");
}

#[test]
fn curl_at_the_admin_socket_reads_acts_and_traces_without_a_token() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skip("no curl");
    }
    let Some(daemon) = Daemon::start("api-curl", 10) else { return };
    let socket = daemon.dir().join("admin.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let curl = |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "20", "-w", "\n%{http_code}", "--unix-socket"]);
        let output = run(command.arg(&socket).args(arguments), LIMIT);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    };
    let json = |body: &str| serde_json::from_str::<Value>(body).unwrap();
    // A client that says nothing keeps nobody waiting.
    let _silent: Vec<_> =
        (0..20).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
    let (status, node) = curl(&["http://adit/v1/node"]);
    assert_eq!((status.as_str(), &json(&node)["state"]), ("200", &json!("running")), "{node}");
    assert_eq!(json(&curl(&["http://adit/v1/health"]).1), daemon.show("health"));
    let drain = |on: &str| curl(&["-X", "PUT", "--json", on, "http://adit/v1/drain"]);
    assert_eq!(drain("{\"on\":true}").0, "200");
    assert_eq!(daemon.show("node")["state"], "draining");
    let (status, problem) = drain("{\"on\":1}");
    assert_eq!((status.as_str(), &json(&problem)["status"]), ("422", &json!(422)), "{problem}");
    let (status, problem) = curl(&["-X", "DELETE", "http://adit/v1/sessions/0x1"]);
    assert_eq!(status, "404", "{problem}");
    let (status, text) = curl(&["http://adit/metrics"]);
    assert!(status == "200" && text.contains("adit_build_info"), "{text}");
    let wish = "{\"drop\":\"any\",\"duration_ms\":50}";
    let (status, lines) = curl(&["--json", wish, "http://adit/v1/traces"]);
    assert!(status == "200" && lines.contains("\"why\":\"duration\""), "{lines}");
    let output = daemon.stop();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut audit = log.lines().filter(|line| line.contains("audit"));
    assert!(audit.all(|line| line.contains("uid 0 pid")), "{log}");
}

/// Sessions that the dashboard shows: more by `DASHBOARD_SESSIONS`, to see how it does with many.
fn browsed_sessions() -> u32 {
    let wanted = std::env::var("DASHBOARD_SESSIONS").ok();
    wanted.map_or(120, |wanted| wanted.parse().unwrap())
}

#[test]
fn dashboard_works_in_a_browser() {
    let told =
        run_inside("http_api::dashboard_works_in_a_browser", Behind::Links, with_tokens, |_| {
            let mut smf = TestSmf::associated();
            for number in 1..=browsed_sessions() {
                smf.establish(number).unwrap();
            }
            // To the session that the browser looks at, and to a UE that no session has.
            let _pings = [taps::UE, taps::NO_UE].map(taps::pings);
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let mut command = Command::new("node");
            command.arg(root.join("scripts/dashboard-test.mjs"));
            command.arg(format!("http://127.0.0.1:8080/#token={ACTS}"));
            command.env("SETTLE_MS", "500").env("TRAFFIC", "1");
            if std::env::var_os("NODE_PATH").is_none() {
                command.env("NODE_PATH", root.join("target/browser/node_modules"));
            }
            let Ok(output) = command.output() else {
                println!("skipped: there is no node");
                return;
            };
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            println!("{said}");
            assert!(output.status.success(), "{said}");
        });
    if let Some(reason) = told.and_then(|(said, _)| {
        Some(said.lines().find_map(|line| line.strip_prefix("skipped: "))?.to_owned())
    }) {
        skip(reason);
    }
}

/// A certificate for localhost, by openssl; `None`, with the reason printed, without it.
fn certificate(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (dir.join("api.pem"), dir.join("api.key"));
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]);
    command.args([
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]);
    command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    if !command.output().is_ok_and(|output| output.status.success()) {
        skip("openssl makes no certificate");
        return None;
    }
    Some((certificate, key))
}

#[test]
fn interface_with_tls_answers_those_who_trust_its_certificate() {
    let scratch = tempfile::tempdir().unwrap();
    let Some((certificate, key)) = certificate(scratch.path()) else { return };
    let Some(daemon) = Daemon::start_with("api-tls", |dir| {
        let ports = daemon::interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], daemon::N3);
        let tls = format!(
            "tls_certificate = \"{}\"\ntls_key = \"{}\"\n",
            certificate.display(),
            key.display()
        );
        let section = with_tokens(dir).replace("127.0.0.1:8080", "0.0.0.0:8443") + &tls;
        daemon::node(10, &daemon::cores()[..1], dir) + &ports + &section
    }) else {
        return;
    };
    let curl = |arguments: &[&str]| {
        let mut command = daemon.command(Path::new("curl"));
        run(command.args(["-sS", "--max-time", "20"]).args(arguments), LIMIT)
    };
    let bearer = format!("Authorization: Bearer {READS}");
    let trusted = certificate.to_str().unwrap();
    let url = "https://localhost:8443/v1/node";
    let output = curl(&["--cacert", trusted, "-H", &bearer, url]);
    let node: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(node["node_id"], N4);
    assert!(!curl(&["-H", &bearer, url]).status.success(), "an unknown certificate");
    let plain = curl(&["http://localhost:8443/v1/node"]);
    assert!(!plain.status.success() || plain.stdout.is_empty());
    assert!(daemon.stop().status.success());
}
