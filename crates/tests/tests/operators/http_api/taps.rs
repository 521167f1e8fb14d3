//! Traces and captures over HTTP: their contents, who may have them, and that they end with their
//! clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use adit_tests::daemon::adit;
use adit_tests::process::{ChildProcess, run, skip};
use serde_json::{Value, json};

use super::client::{self, HttpAnswer, connect, request};
use super::{
    ACTS, Behind, LIMIT, READS, TestSmf, assert_described, assert_problem, get, run_inside, show,
    with_tokens,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// The UE of the first session, and one that no session has.
pub(super) const UE: &str = "10.45.0.1";
pub(super) const NO_UE: &str = "10.47.255.77";

/// Packets from the host to a UE, until it is dropped.
pub(super) fn pings(ue: &str) -> ChildProcess {
    ChildProcess::start(Command::new("ping").args(["-i", "0.02", "-w", "600", ue]))
}

/// True if a file begins as one of pcapng does.
pub(super) fn is_pcapng(file: &[u8]) -> bool {
    file.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])
}

fn post(path: &str, wish: &Value) -> HttpAnswer {
    request("POST", path, Some(ACTS), Some(wish))
}

pub(super) fn wrong_wishes() {
    for path in ["/v1/traces", "/v1/captures"] {
        let drops = json!({ "drop": "any", "duration_ms": 10 });
        assert_problem(&request("POST", path, None, Some(&drops)), 401);
        assert_problem(&request("POST", path, Some(READS), Some(&drops)), 403);
        assert_problem(&get(path, ACTS), 405);
        assert_problem(&post(&format!("{path}?x=1"), &drops), 400);
        for (wish, status) in [
            (json!({}), 400),
            (json!({ "drop": "nonsense" }), 400),
            (json!({ "session": "here" }), 400),
            (json!({ "teid": "1", "ue": UE }), 400),
            (json!({ "teid": "1", "packets": 0 }), 400),
            (json!({ "teid": "1", "duration_ms": 86_400_001 }), 400),
            (json!({ "session": "0x1" }), 404),
            (json!({ "ue": "10.45" }), 422),
            (json!({ "teid": "1", "packets": -1 }), 422),
            (json!({ "teid": "1", "imsi": "1" }), 422),
            (json!([]), 422),
        ] {
            assert_problem(&post(path, &wish), status);
        }
    }
    assert_problem(&post("/v1/traces", &json!({ "teid": "1", "packets": 10_001 })), 400);
    assert_problem(&post("/v1/captures", &json!({ "interface": "n9" })), 404);
    assert_problem(&post("/v1/captures", &json!({ "all": true, "snap_bytes": 9217 })), 400);
}

#[test]
fn traces_and_captures_show_packets_and_end_with_their_clients() {
    let test = "http_api::taps::traces_and_captures_show_packets_and_end_with_their_clients";
    if Command::new("ping").arg("-V").stdout(Stdio::null()).status().is_err() {
        return skip("no ping");
    }
    let Some((said, log)) = run_inside(test, Behind::Links, with_tokens, |dir| {
        let mut smf = TestSmf::associated();
        let seid = smf.establish(1).unwrap().to_string();
        let pings = [UE, NO_UE].map(pings);
        sent_packets_are_traced(&seid);
        fast_path_is_shown(dir);
        dropped_packets_are_traced();
        captures_are_files(dir);
        clients_that_go_away_free_their_places(dir);
        drop(pings);
        smf.heartbeat();
    }) else {
        return;
    };
    if said.contains("no tshark") {
        skip("no tshark");
    }
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("audit")).collect();
    for words in [
        ["alice at 127.0.0.1", "act=\"trace\"", "dropped as ue_unknown", "done"],
        ["alice at 127.0.0.1", "act=\"capture\"", "UE 10.45.0.1", "done"],
        ["alice at 127.0.0.1", "act=\"trace\"", "TEID 0x00000001", "refused"],
    ] {
        assert!(lines.iter().any(|line| words.iter().all(|word| line.contains(word))), "{log}");
    }
}

/// The packets of a trace, each as described.
fn traced(wish: &Value) -> Vec<Value> {
    let answer = post("/v1/traces", wish);
    assert_eq!(answer.status, 200, "{answer:?}");
    let description = get("/openapi.json", "").json();
    let schema = json!({ "$ref": "#/components/schemas/TraceLine" });
    assert_described(&description, &schema, "a trace", &answer);
    let mut lines = answer.lines();
    let (end, head) = (lines.pop().unwrap(), lines.remove(0));
    assert_eq!(head["tap"]["interfaces"], json!(["n3", "n6"]));
    assert_eq!(end["end"]["packets"], lines.len(), "{end}");
    lines
}

/// Before adit has resolved the address of the gNB, packets wait for it; those that waited have no
/// session any more.
fn sent_packets_are_traced(seid: &str) {
    let wish = json!({ "session": seid, "packets": 2, "duration_ms": 20_000, "words": true });
    let end = Instant::now() + PATIENCE;
    let packets = loop {
        let packets = traced(&wish);
        let went_through =
            |packet: &Value| packet["outcome"]["kind"] == "sent" && packet["waited"].is_null();
        if packets.iter().all(went_through) {
            break packets;
        }
        assert!(Instant::now() < end, "{packets:?}");
    };
    assert_eq!(packets.len(), 2);
    for packet in &packets {
        assert_eq!(packet["session"]["up_seid"], seid);
        assert_eq!((&packet["direction"], &packet["far"]["far"]), (&json!("downlink"), &json!(2)));
        assert_eq!(packet["sent"][0]["port"], "access");
        assert_eq!(packet["words"]["outcome"], "sent");
        let lines = packet["words"]["lines"].as_array().unwrap();
        let far = lines.iter().find(|line| line["name"] == "FAR 2").unwrap();
        assert!(far["text"].as_str().unwrap().contains("forward to Access, in GTP-U"), "{far}");
    }
}

/// The command says what the fast path would do, and so does the API.
fn fast_path_is_shown(dir: &Path) {
    let trace = ["trace", "--ue", UE, "--path", "--packets", "1", "--duration", "20s"];
    let output = run(&mut adit(dir, &trace), PATIENCE);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = said.lines().find_map(|line| line.trim().strip_prefix("fast path"));
    let sent = "would send the same octets: port access (n3), ";
    assert!(line.is_some_and(|line| line.trim().starts_with(sent)), "{said}");
    for (ue, kind) in [(UE, "sends"), (NO_UE, "leaves")] {
        let wish = json!({ "ue": ue, "path": true, "packets": 1, "duration_ms": 20_000 });
        let packets = traced(&wish);
        assert_eq!(packets[0]["fast_path"]["kind"], kind, "{packets:?}");
        assert_eq!(packets[0]["fast_path"]["reason"].is_null(), kind == "sends", "{packets:?}");
    }
    let without = traced(&json!({ "ue": UE, "packets": 1, "duration_ms": 20_000 }));
    assert!(without[0].get("fast_path").is_none_or(Value::is_null), "{without:?}");
}

fn dropped_packets_are_traced() {
    let wish = json!({ "drop": "ue_unknown", "packets": 3, "duration_ms": 20_000 });
    let packets = traced(&wish);
    assert_eq!(packets.len(), 3);
    for packet in &packets {
        assert_eq!(packet["outcome"]["reason"], "ue_unknown");
        assert!(packet.get("words").is_none(), "{packet}");
        // The user's data does not leave adit: 14, 20 and 8 octets are headers.
        assert_eq!(packet["octets"].as_str().unwrap().len(), 2 * 42);
    }
    let none = traced(&json!({ "drop": "far_drop", "duration_ms": 100 }));
    assert!(none.is_empty(), "{none:?}");
}

fn captures_are_files(dir: &Path) {
    let wish = json!({ "ue": UE, "packets": 4, "duration_ms": 20_000 });
    let answer = post("/v1/captures", &wish);
    assert_eq!((answer.status, answer.kind()), (200, "application/x-pcapng"), "{answer:?}");
    assert!(answer.head.contains("content-disposition: attachment; filename=\"adit.pcapng\""));
    assert!(is_pcapng(&answer.body));
    let whole = json!({ "ue": UE, "packets": 4, "duration_ms": 20_000, "snap_bytes": 9216 });
    assert!(
        post("/v1/captures", &whole).body.len() > answer.body.len(),
        "users' data is not there"
    );
    let path = dir.join("http.pcapng");
    std::fs::write(&path, &answer.body).unwrap();
    if Command::new("tshark").arg("-v").stdout(Stdio::null()).status().is_err() {
        return println!("no tshark");
    }
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-e",
        "frame.interface_name",
        "-e",
        "frame.comment",
    ]);
    let output = run(tshark.arg("-r").arg(&path), PATIENCE);
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Each came to one port, and left through the other one.
    assert_eq!(rows.lines().filter(|row| *row == "core|sent").count(), 4, "{rows}");
    assert_eq!(rows.lines().filter(|row| *row == "access|sent").count(), 4, "{rows}");
}

/// A trace of an hour that has begun.
fn long_trace() -> TcpStream {
    let wish = json!({ "teid": "1", "duration_ms": 3_600_000 });
    let mut stream = connect();
    stream.write_all(&client::octets("POST", "/v1/traces", Some(ACTS), Some(&wish))).unwrap();
    let (mut known, mut octets) = (Vec::new(), [0; 4096]);
    while !known.windows(5).any(|part| part == b"tap\":") {
        let len = stream.read(&mut octets).unwrap();
        assert!(len > 0, "{}", String::from_utf8_lossy(&known));
        known.extend(&octets[..len]);
    }
    stream
}

/// Three of four places are for the HTTP interface. Its clients end without a word.
fn clients_that_go_away_free_their_places(dir: &Path) {
    let wish = json!({ "teid": "1", "duration_ms": 10 });
    let clients = [long_trace(), long_trace(), long_trace()];
    let taps = get("/v1/taps", READS).json();
    let rows = taps["taps"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "{taps}");
    assert!(rows.iter().all(|row| row["of"] == "TEID 0x00000001"), "{taps}");
    let shown = show(dir, &["taps"]);
    assert_eq!(shown["taps"].as_array().unwrap().len(), 3, "{shown}");
    assert_problem(&post("/v1/traces", &wish), 503);
    let output = run(&mut adit(dir, &["trace", "--teid", "1", "--duration", "10ms"]), LIMIT);
    assert!(output.status.success(), "the admin socket has a place of its own");
    // An act ends one tap, and the tap's client says so.
    let number = rows[0]["tap"].as_u64().unwrap();
    let ended = request("DELETE", &format!("/v1/taps/{number}"), Some(ACTS), None);
    assert_eq!(ended.status, 200, "{ended:?}");
    let [first, ..] = &clients;
    let mut rest = String::new();
    while !rest.contains("\"why\":\"ended\"") {
        let mut octets = [0; 4096];
        let len = { first }.read(&mut octets).unwrap();
        assert!(len > 0, "{rest}");
        rest.push_str(&String::from_utf8_lossy(&octets[..len]));
    }
    let again = request("DELETE", &format!("/v1/taps/{number}"), Some(ACTS), None);
    assert_problem(&again, 404);
    drop(clients);
    let end = Instant::now() + PATIENCE;
    while get("/v1/taps", READS).json()["taps"] != json!([]) {
        assert!(Instant::now() < end, "places are not free again");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(post("/v1/traces", &wish).status, 200);
}
