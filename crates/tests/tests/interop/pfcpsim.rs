//! `pfcpsim`, the control plane simulator of the omec-project, against a running `adit`.
//!
//! It sends what control functions of that family send: TEIDs of its own choice, two QERs on a PDR,
//! FARs that drop and have a tunnel of zeros, flow descriptions with protocol names, two URRs per
//! PDR.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_tests::daemon::{Daemon, N3, N4};
use adit_tests::go::SourcePatch;
use adit_tests::process::{ChildProcess, run};

const SESSIONS: usize = 1000;
const LIMIT: Duration = Duration::from_secs(60);

/// INTEROP: pfcpsim reads every datagram into one buffer, even while it processes the answer
/// before, and repeats no request. Its URRs order a thousand usage reports a second, which
/// overwrite answers. Each of its heartbeats reports a restart in that second, which ends its
/// sessions (TS 23.527 §4.2). So reports and heartbeats come once an hour.
const MEND: SourcePatch = SourcePatch {
    module: "github.com/omec-project/pfcpsim",
    changes: &[
        ("internal/pfcpsim/server.go", "(1 * time.Second)", "(time.Hour)"),
        ("internal/pfcpsim/server.go", "(1*time.Second)", "(time.Hour)"),
        (
            "pkg/pfcpsim/pfcpsim.go",
            "DefaultHeartbeatPeriod = 5\n",
            "DefaultHeartbeatPeriod = 3600\n",
        ),
    ],
};

/// The simulator next to the daemon, and the command line that drives it.
struct Simulator<'a> {
    daemon: &'a Daemon,
    control: PathBuf,
    /// Dropping it ends the simulator.
    _process: ChildProcess,
}

impl<'a> Simulator<'a> {
    fn start(daemon: &'a Daemon, binaries: &Path) -> Self {
        // pfcpsim logs more than a pipe holds.
        let quiet = "exec \"$0\" --interface lo >/dev/null 2>&1";
        let mut command = daemon.command(Path::new("sh"));
        let process =
            ChildProcess::start(command.args(["-c", quiet]).arg(binaries.join("pfcpsim")));
        let simulator = Self { daemon, control: binaries.join("pfcpctl"), _process: process };
        let end = Instant::now() + Duration::from_secs(10);
        let configure = ["service", "configure", "--remote-peer-addr", N4, "--n3-addr", N3];
        while let Err(said) = simulator.try_run(&configure) {
            assert!(Instant::now() < end, "{said}");
            std::thread::sleep(Duration::from_millis(100));
        }
        simulator
    }

    fn try_run(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = self.daemon.command(&self.control);
        let output = run(command.args(arguments), LIMIT);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) {
        self.try_run(arguments).unwrap_or_else(|said| panic!("{arguments:?}: {said}"));
    }

    fn session(&self, verb: &str, more: &[&str]) -> Result<(), String> {
        let count = SESSIONS.to_string();
        let common = ["session", verb, "--count", &count, "--baseID", "1"];
        self.try_run(&[&common, more].concat())
    }
}

/// How many FARs buffer and notify the control plane.
fn count_paging(daemon: &Daemon) -> usize {
    let shown = daemon.show("sessions");
    let sessions = shown["sessions"].as_array().unwrap();
    let fars = sessions.iter().flat_map(|session| session["fars"].as_array().unwrap());
    let has = |far: &serde_json::Value, name: &str| {
        far["apply_action"].as_array().unwrap().iter().any(|known| known == name)
    };
    fars.filter(|far| has(far, "BUFF") && has(far, "NOCP")).count()
}

#[test]
fn pfcpsim_associates_and_creates_modifies_and_deletes_a_thousand_sessions() {
    let tools = [
        "github.com/omec-project/pfcpsim/cmd/pfcpsim",
        "github.com/omec-project/pfcpsim/cmd/pfcpctl",
    ];
    let mend = Some(MEND);
    let Some(binaries) = adit_tests::go::build_patched("pfcpsim", &tools, mend) else { return };
    let Some(daemon) = Daemon::start("pfcpsim", 2 * SESSIONS) else { return };
    let simulator = Simulator::start(&daemon, &binaries);
    simulator.run(&["service", "associate"]);

    // INTEROP: one filter only, since pfcpsim gives all filters of a session the identifier 1.
    let filter = ["--app-filter", "udp:10.0.0.0/8:80-88:allow:100"];
    let pool = ["--ue-pool", "10.60.0.0/16", "--gnb-addr", "10.0.3.1"];
    let create = [&pool[..], &filter[..], &["--qfi", "9"]].concat();
    simulator.session("create", &create).unwrap();
    assert_eq!(daemon.sessions(), SESSIONS);
    let change = [&pool[..], &filter[..]].concat();
    simulator.session("modify", &change).unwrap();
    assert_eq!((daemon.sessions(), count_paging(&daemon)), (SESSIONS, 0));
    simulator.session("modify", &[&change[..], &["--buffer", "--notifycp"]].concat()).unwrap();
    assert_eq!((daemon.sessions(), count_paging(&daemon)), (SESSIONS, SESSIONS));
    simulator.session("modify", &change).unwrap();
    assert_eq!((daemon.sessions(), count_paging(&daemon)), (SESSIONS, 0));
    simulator.session("delete", &[]).unwrap();
    assert_eq!(daemon.sessions(), 0);
    // INTEROP: pfcpsim names the Node ID 0.0.0.0 in its release and takes any answer.
    simulator.run(&["service", "disassociate"]);

    let output = daemon.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
