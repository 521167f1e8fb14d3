//! `pfcpsim`, the control plane simulator of the omec-project, against a running `adit`.
//!
//! It offers what SMFs of that world send: TEIDs chosen by the control plane, two QERs on a PDR of
//! which the first has no gate of its own, FARs with an outer header and DROP, PDRs with SDF
//! filters, URRs, and a Node ID in its Association Release Request that is no address.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_tests::daemon::{Daemon, N3, N4};
use adit_tests::process::{Running, run};

const SESSIONS: usize = 1000;
const LIMIT: Duration = Duration::from_secs(60);

/// The simulator beside the daemon, and the command line that drives it.
struct Simulator<'a> {
    daemon: &'a Daemon,
    control: PathBuf,
    /// Ends with this value.
    _process: Running,
}

impl<'a> Simulator<'a> {
    fn start(daemon: &'a Daemon, binaries: &Path) -> Self {
        let mut command = daemon.command(&binaries.join("pfcpsim"));
        let process = Running::start(command.args(["--interface", "lo"]));
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

#[test]
fn pfcpsim_associates_and_creates_modifies_and_deletes_a_thousand_sessions() {
    let tools = [
        "github.com/omec-project/pfcpsim/cmd/pfcpsim",
        "github.com/omec-project/pfcpsim/cmd/pfcpctl",
    ];
    let Some(binaries) = adit_tests::go::build("pfcpsim", &tools) else { return };
    let Some(daemon) = Daemon::start("pfcpsim", 2 * SESSIONS) else { return };
    let simulator = Simulator::start(&daemon, &binaries);
    simulator.run(&["service", "associate"]);

    let filters =
        ["--app-filter", "udp:10.0.0.0/8:80-88:allow:100", "--app-filter", "ip:any:any:allow:200"];
    let pool = ["--ue-pool", "10.60.0.0/16", "--gnb-addr", "10.0.3.1"];
    simulator.session("create", &[&pool[..], &filters[..], &["--qfi", "9"]].concat()).unwrap();
    assert_eq!(daemon.sessions(), SESSIONS);
    simulator.session("modify", &[&pool[..], &filters[..]].concat()).unwrap();
    simulator.session("delete", &[]).unwrap();
    assert_eq!(daemon.sessions(), 0);
    simulator.run(&["service", "disassociate"]);
    println!("{:#}", daemon.show("counters"));

    let output = daemon.end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
