//! `adit trace` and `adit capture` on a running `adit`, with packets of the kernel on veth devices.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use adit_tests::daemon::{self, Daemon};
use adit_tests::process::{ChildProcess, is_root, run, skip};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

/// An address of a UE that no session has.
const UE: &str = "10.45.0.77";

/// An adit whose N6 leads to a host of the namespace, which has a route to UEs.
fn start() -> Option<Daemon> {
    if !is_root() {
        return None;
    }
    if Command::new("ping").arg("-V").stdout(Stdio::null()).status().is_err() {
        skip("no ping");
        return None;
    }
    let cores = daemon::cores();
    Daemon::start_in(daemon::linked_namespace("taps"), |dir| {
        daemon::node(100, &cores[..1], dir) + &daemon::interfaces(daemon::LINKED, daemon::N3)
    })
}

/// Packets to [`UE`] until it is dropped.
fn pings(daemon: &Daemon) -> ChildProcess {
    let mut ping = daemon.command(Path::new("ping"));
    ChildProcess::start(ping.args(["-i", "0.02", "-w", "60", UE]))
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A command for the daemon's socket.
fn tap(daemon: &Daemon, arguments: &[&str]) -> Command {
    daemon::adit(daemon.dir(), arguments)
}

#[test]
fn traces_and_captures_show_packets_and_end_with_their_clients() {
    let Some(daemon) = start() else { return };
    let pings = pings(&daemon);
    dropped_packet_is_traced(&daemon);
    capture_is_read_by_tshark(&daemon);
    files_are_the_owners(&daemon);
    mistakes_are_refused(&daemon);
    clients_that_go_away_free_their_places(&daemon);
    drop(pings);
    let output = daemon.stop();
    assert!(text(&output.stdout).contains("ue_unknown"), "{}", text(&output.stderr));
}

fn dropped_packet_is_traced(daemon: &Daemon) {
    let trace = ["trace", "--ue", UE, "--packets", "3", "--duration", "20s"];
    let packets = lines(&run(&mut tap(daemon, &[&trace[..], &["--json"]].concat()), PATIENCE));
    assert_eq!(packets.len(), 3, "{packets:?}");
    for packet in &packets {
        assert_eq!(packet["outcome"]["reason"], "ue_unknown", "{packet}");
        assert_eq!((&packet["port"], &packet["interface"]), (&"core".into(), &"n6".into()));
        let headers = packet["headers"][0].as_str().unwrap();
        assert!(headers.contains(&format!("10.0.6.1 > {UE}")), "{headers}");
        // The user's data does not leave adit: 14, 20 and 8 octets are headers.
        assert_eq!(packet["octets"].as_str().unwrap().len(), 2 * 42);
    }
    let output = run(&mut tap(daemon, &trace), PATIENCE);
    let said = text(&output.stdout);
    assert!(said.contains("DROPPED ue_unknown: No PFCP session owns"), "{said}");
    assert!(said.contains("classify"), "{said}");
    let reason = ["trace", "--drop", "ue_unknown", "--packets", "1", "--duration", "20s", "--json"];
    assert_eq!(lines(&run(&mut tap(daemon, &reason), PATIENCE)).len(), 1);
    let other = ["trace", "--drop", "far_drop", "--duration", "500ms"];
    let output = run(&mut tap(daemon, &other), PATIENCE);
    assert!(output.stdout.is_empty() && output.status.success());
    assert!(
        text(&output.stderr).contains("0 packets; the time is over"),
        "{}",
        text(&output.stderr)
    );
}

fn capture_is_read_by_tshark(daemon: &Daemon) {
    let capture = ["capture", "--all", "--packets", "5", "--duration", "20s"];
    let output = run(&mut tap(daemon, &capture), PATIENCE);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("5 packets captured, 0 lost"),
        "{}",
        text(&output.stderr)
    );
    let path = daemon.dir().join("stdout.pcapng");
    std::fs::write(&path, &output.stdout).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.args(["-T", "fields", "-E", "separator=|"]);
    for field in ["frame.interface_name", "frame.len", "frame.cap_len", "ip.dst", "frame.comment"] {
        tshark.args(["-e", field]);
    }
    if Command::new("tshark").arg("-v").stdout(Stdio::null()).status().is_err() {
        return skip("no tshark");
    }
    let output = run(tshark.arg("-r").arg(&path), PATIENCE);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let complaints = text(&output.stderr);
    assert!(!complaints.contains("damaged") && !complaints.contains("cut short"), "{complaints}");
    let rows = text(&output.stdout);
    let of_ue: Vec<&str> = rows.lines().filter(|row| row.contains(UE)).collect();
    assert!(!of_ue.is_empty(), "{rows}");
    for row in of_ue {
        let expected = format!("core|98|42|{UE}|dropped ue_unknown: ");
        assert!(row.starts_with(&expected), "{row}");
    }
}

fn files_are_the_owners(daemon: &Daemon) {
    let path = daemon.dir().join("kept.pcapng");
    let capture =
        ["capture", "--ue", UE, "--packets", "2", "--snap", "9216", "-w", path.to_str().unwrap()];
    let output = run(&mut tap(daemon, &capture), PATIENCE);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let length = std::fs::metadata(&path).unwrap().len();
    assert!(length > 2 * 98, "{length}");
    // An existing file is left as it is.
    let output = run(&mut tap(daemon, &capture), PATIENCE);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("must not exist"), "{}", text(&output.stderr));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
}

fn mistakes_are_refused(daemon: &Daemon) {
    for (arguments, word) in [
        (&["trace", "--session", "0x1"][..], "adit show sessions"),
        (&["trace", "--drop", "nonsense"], "far_drop"),
        (&["capture", "--interface", "n9"], "there are n3, n6"),
    ] {
        let output = run(&mut tap(daemon, arguments), PATIENCE);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
}

/// Four traces are all that there may be. Their clients end without a word.
fn clients_that_go_away_free_their_places(daemon: &Daemon) {
    let trace = ["trace", "--teid", "1", "--duration", "1h"];
    let traces: Vec<ChildProcess> = (0..4)
        .map(|_| {
            let mut client = ChildProcess::start(&mut tap(daemon, &trace));
            client.wait_for("following");
            client
        })
        .collect();
    let shown = daemon.show("taps");
    let rows = shown["taps"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{shown}");
    assert!(
        rows.iter().all(|row| row["kind"] == "trace" && row["of"] == "TEID 0x00000001"),
        "{shown}"
    );
    assert!(
        rows.windows(2).all(|pair| pair[0]["tap"].as_u64() < pair[1]["tap"].as_u64()),
        "{shown}"
    );
    let refused = run(&mut tap(daemon, &trace), PATIENCE);
    assert!(text(&refused.stderr).contains("4 traces and captures run already"));
    drop(traces);
    let end = Instant::now() + PATIENCE;
    let short = ["trace", "--ue", UE, "--packets", "1", "--duration", "10s"];
    while !run(&mut tap(daemon, &short), PATIENCE).status.success() {
        assert!(Instant::now() < end, "places are not free again");
        std::thread::sleep(Duration::from_millis(100));
    }
    // An interrupted one ends in order.
    let mut client = ChildProcess::start(&mut tap(daemon, &trace));
    client.wait_for("following");
    client.signal(libc::SIGINT);
    let output = client.finish(PATIENCE);
    assert!(output.status.success() && text(&output.stderr).contains("interrupted"));
}
