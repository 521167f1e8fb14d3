//! A running `adit` for foreign control functions: N4 on the loopback device of a namespace, ports
//! that carry nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Namespace, Running, binary, is_root, run};

/// adit's N4 address. Every other address of 127.0.0.0/8 is a control function's.
pub const N4: &str = "127.0.0.2";
/// adit's N3 address.
pub const N3: &str = "10.0.3.2";

const START_LIMIT: Duration = Duration::from_secs(30);
const SHOW_LIMIT: Duration = Duration::from_secs(10);

/// A running `adit`. Dropping it ends the process and the namespace.
#[derive(Debug)]
pub struct Daemon {
    // Before the namespace that it lives in.
    process: Running,
    namespace: Namespace,
    adit: PathBuf,
    dir: TempDir,
}

impl Daemon {
    /// Starts `adit` and waits until it answers. `None`, told to the reader, where that cannot be.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(purpose: &str, sessions_max: usize) -> Option<Self> {
        let adit = binary("adit")?;
        if !is_root() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("adit.toml");
        std::fs::write(&config, configuration(sessions_max, &dir.path().join("admin.sock")))
            .unwrap();
        let namespace = Namespace::new(purpose);
        let mut command = namespace.command(&adit);
        command.args(["run", "--config"]).arg(&config).env("RUST_LOG", "error");
        let process = Running::start(&mut command);
        let daemon = Self { process, namespace, adit, dir };
        let end = Instant::now() + START_LIMIT;
        while !daemon.ask("counters").status.success() {
            if Instant::now() > end {
                let output = daemon.end();
                panic!("adit does not start: {}", String::from_utf8_lossy(&output.stderr));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(daemon)
    }

    /// A command that will run in the namespace of the daemon.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        self.namespace.command(program)
    }

    fn ask(&self, topic: &str) -> Output {
        let socket = self.dir.path().join("admin.sock");
        let mut show = Command::new(&self.adit);
        run(show.args(["show", topic, "--json", "--socket"]).arg(socket), SHOW_LIMIT)
    }

    /// What `adit show TOPIC --json` prints.
    ///
    /// # Panics
    /// When the daemon does not answer.
    #[must_use]
    pub fn show(&self, topic: &str) -> Value {
        let output = self.ask(topic);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "adit does not answer: {told}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// How many PFCP sessions there are.
    ///
    /// # Panics
    /// When the daemon does not answer.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.show("sessions")["sessions"].as_array().unwrap().len()
    }

    /// Asks the daemon to end, and waits for it.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn end(self) -> Output {
        let Self { process, namespace, dir, .. } = self;
        process.signal(libc::SIGTERM);
        let output = process.finish(START_LIMIT);
        drop((namespace, dir));
        output
    }
}

/// A CPU core that this process may use.
fn first_core() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first = list.trim().split([',', '-']).next().unwrap();
    first.parse().unwrap()
}

fn configuration(sessions_max: usize, socket: &Path) -> String {
    let (core, socket) = (first_core(), socket.display());
    format!(
        r#"
[node]
id = "{N4}"
[n4]
listen = "{N4}:8805"
# Simulators leave Heartbeat Requests unanswered.
heartbeat_interval_ms = 60000
[sessions]
sessions_max = {sessions_max}
[datapath]
workers = [{core}]
main_core = {core}
[dpdk]
hugepages = "never"
memory_mib = 64
mempool_mbufs = 4096
rx_descriptors = 256
tx_descriptors = 256
[[port]]
name = "access"
device = "net_null0,no-rx=1"
[[port]]
name = "core"
device = "net_null1,no-rx=1"
[[interface]]
name = "n3"
role = "n3"
port = "access"
addresses = ["{N3}/24"]
[[interface]]
name = "n6"
role = "n6"
port = "core"
addresses = ["10.0.6.2/24"]
[[route]]
interface = "n6"
prefix = "0.0.0.0/0"
next_hop = "10.0.6.1"
[admin]
socket = "{socket}"
"#
    )
}
