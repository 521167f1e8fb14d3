//! A running `adit` for foreign control functions: N4 on the loopback device of a namespace, ports
//! without traffic.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{ChildProcess, TestNamespace, binary, is_root, run};

/// adit's N4 address. Every other address of 127.0.0.0/8 is a control function's.
pub const N4: &str = "127.0.0.2";
/// adit's N3 address.
pub const N3: &str = "10.0.3.2";

const START_LIMIT: Duration = Duration::from_secs(30);
const SHOW_LIMIT: Duration = Duration::from_secs(30);

/// A running `adit`. Dropping it ends the process and the namespace.
#[derive(Debug)]
pub struct Daemon {
    // Dropped before its namespace.
    process: ChildProcess,
    namespace: TestNamespace,
    adit: PathBuf,
    config: PathBuf,
    dir: TempDir,
}

impl Daemon {
    /// Starts `adit` and waits until it answers. `None`, with the reason printed, if the machine
    /// cannot run it.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(purpose: &str, sessions_max: usize) -> Option<Self> {
        Self::start_with(purpose, |dir| configuration(sessions_max, dir))
    }

    /// As [`Self::start`], with the configuration that `configuration` returns for the folder of
    /// the daemon's sockets. See [`node`] and [`interfaces`].
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_with(purpose: &str, configuration: impl FnOnce(&Path) -> String) -> Option<Self> {
        if !is_root() {
            return None;
        }
        Self::start_in(TestNamespace::new(purpose), configuration)
    }

    /// As [`Self::start_with`], in a namespace that has devices already.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_in(
        namespace: TestNamespace,
        configuration: impl FnOnce(&Path) -> String,
    ) -> Option<Self> {
        let adit = binary("adit")?;
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("adit.toml");
        std::fs::write(&config, configuration(dir.path())).unwrap();
        let process = ChildProcess::start(&mut run_command(&namespace, &adit, &config));
        Some(Self { process, namespace, adit, config, dir }.wait_until_ready())
    }

    /// Kills the process, like a fault, and starts it again.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn restart(self) -> Self {
        self.restart_after(|_| {})
    }

    /// As [`Self::restart`], with a check of its namespace while no process runs.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn restart_after(self, check: impl FnOnce(&TestNamespace)) -> Self {
        let ended = self.kill();
        check(&ended.namespace);
        ended.start()
    }

    /// Kills the process, like a fault.
    #[must_use]
    pub fn kill(self) -> EndedDaemon {
        let Self { process, namespace, adit, config, dir } = self;
        drop(process);
        EndedDaemon { namespace, adit, config, dir }
    }

    /// Waits until the process ends by itself. Returns its output.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn wait_for_end(self) -> (Output, EndedDaemon) {
        let Self { process, namespace, adit, config, dir } = self;
        let output = process.finish(START_LIMIT);
        (output, EndedDaemon { namespace, adit, config, dir })
    }

    /// Requests the process to end, as `systemctl stop` does.
    pub fn terminate(&self) {
        self.process.signal(libc::SIGTERM);
    }

    /// Requests the process to read its configuration again, as a terminal or `kill -HUP` does.
    pub fn hang_up(&self) {
        self.process.signal(libc::SIGHUP);
    }

    /// Its namespace.
    #[must_use]
    pub const fn namespace(&self) -> &TestNamespace {
        &self.namespace
    }

    /// The process identifier of `adit`.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Runs `adit` with `arguments` and the admin socket of the daemon.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        run(&mut at_socket(&self.adit, self.dir.path(), arguments), SHOW_LIMIT)
    }

    /// Waits until it answers.
    fn wait_until_ready(self) -> Self {
        let end = Instant::now() + START_LIMIT;
        while !self.run_show("counters").status.success() {
            if Instant::now() > end {
                let output = self.stop();
                panic!("adit does not start: {}", String::from_utf8_lossy(&output.stderr));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self
    }

    /// The folder of its sockets.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command to run in the namespace of the daemon.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        self.namespace.command(program)
    }

    /// See [`TestNamespace::this_test`].
    #[must_use]
    pub fn this_test(&self, test: &str) -> Command {
        self.namespace.this_test(test)
    }

    fn run_show(&self, topic: &str) -> Output {
        self.run(&["show", topic, "--json"])
    }

    /// The output of `adit show TOPIC --json`.
    ///
    /// # Panics
    /// When the daemon does not answer.
    #[must_use]
    pub fn show(&self, topic: &str) -> Value {
        let mut output = self.run_show(topic);
        for _ in 0..3 {
            // On an overloaded machine adit answers to try again.
            if String::from_utf8_lossy(&output.stderr).contains("overloaded") {
                output = self.run_show(topic);
            }
        }
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

    /// Waits for the daemon to end by itself.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn finish(self) -> Output {
        let Self { process, namespace, dir, .. } = self;
        let output = process.finish(START_LIMIT);
        drop((namespace, dir));
        output
    }

    /// The end of another adit with this configuration, which must end by itself.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn run_another(&self, configuration: &str) -> Output {
        let config = self.dir.path().join("another.toml");
        std::fs::write(&config, configuration).unwrap();
        run(&mut run_command(&self.namespace, &self.adit, &config), START_LIMIT)
    }

    /// Requests the daemon to end, and waits for it.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn stop(self) -> Output {
        let Self { process, namespace, dir, .. } = self;
        process.signal(libc::SIGTERM);
        let output = process.finish(START_LIMIT);
        drop((namespace, dir));
        output
    }
}

/// A daemon whose process has ended. Dropping it removes the namespace.
#[derive(Debug)]
pub struct EndedDaemon {
    namespace: TestNamespace,
    adit: PathBuf,
    config: PathBuf,
    dir: TempDir,
}

impl EndedDaemon {
    /// Its namespace.
    #[must_use]
    pub const fn namespace(&self) -> &TestNamespace {
        &self.namespace
    }

    /// Has the daemon run this program from now on.
    #[must_use]
    pub fn with_program(self, adit: &Path) -> Self {
        Self { adit: adit.to_owned(), ..self }
    }

    /// Starts it again, and waits until it answers.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(self) -> Daemon {
        self.spawn().wait_until_ready()
    }

    /// As [`Self::start`], by a service manager: starts it again while it ends.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_as_service(self) -> Daemon {
        let (end, mut daemon) = (Instant::now() + START_LIMIT, self.spawn());
        while Instant::now() < end && !daemon.run_show("counters").status.success() {
            if daemon.process.has_ended() {
                daemon.process = ChildProcess::start(&mut run_command(
                    &daemon.namespace,
                    &daemon.adit,
                    &daemon.config,
                ));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        daemon.wait_until_ready()
    }

    fn spawn(self) -> Daemon {
        let Self { namespace, adit, config, dir } = self;
        let process = ChildProcess::start(&mut run_command(&namespace, &adit, &config));
        Daemon { process, namespace, adit, config, dir }
    }
}

fn run_command(namespace: &TestNamespace, adit: &Path, config: &Path) -> Command {
    let mut command = namespace.command(adit);
    command.args(["run", "--config"]).arg(config).env("RUST_LOG", "error");
    command
}

/// The CPU cores that this process may use.
///
/// # Panics
/// Without `/proc`.
#[must_use]
pub fn cores() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap()..=last.parse().unwrap()
    });
    ranges.flatten().collect()
}

/// A command of `adit` for the daemon whose sockets are in `dir`, in the caller's namespace.
///
/// # Panics
/// When `adit` was not built.
#[must_use]
pub fn adit(dir: &Path, arguments: &[&str]) -> Command {
    at_socket(&binary("adit").unwrap(), dir, arguments)
}

fn at_socket(adit: &Path, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(adit);
    command.args(arguments).arg("--socket").arg(dir.join("admin.sock"));
    command
}

/// All sections of the configuration but ports and interfaces, with workers on `cores`.
#[must_use]
pub fn node(sessions_max: usize, cores: &[usize], dir: &Path) -> String {
    let socket = dir.join("admin.sock");
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
workers = {cores:?}
main_core = {main_core}
[dpdk]
hugepages = "never"
memory_mib = 64
mempool_mbufs = 4096
rx_descriptors = 256
tx_descriptors = 256
[store]
kind = "none"
[admin]
socket = "{socket}"
"#,
        main_core = cores[0],
        socket = socket.display(),
    )
}

/// Devices of ports in a [`linked_namespace`].
pub const LINKED: [&str; 2] = ["net_af_packet0,iface=up0", "net_af_packet1,iface=core0"];

/// A namespace with a veth pair for each of adit's ports, whose other ends are `gnb0` and `net0`.
/// Nobody has an address there.
///
/// # Panics
/// Without the right to create one.
#[must_use]
pub fn veth_namespace(purpose: &str) -> TestNamespace {
    let namespace = TestNamespace::new(purpose);
    for (device, peer) in [("up0", "gnb0"), ("core0", "net0")] {
        namespace.ip(&["link", "add", device, "type", "veth", "peer", "name", peer]);
        for end in [device, peer] {
            namespace.ip(&["link", "set", end, "addrgenmode", "none", "up"]);
        }
    }
    namespace
}

/// As [`veth_namespace`], and behind the pairs the kernel is a gNB, 10.0.3.1, and a host, 10.0.6.1,
/// which has a route to UEs, 10.44.0.0/14.
///
/// # Panics
/// Without the right to create one.
#[must_use]
pub fn linked_namespace(purpose: &str) -> TestNamespace {
    let namespace = veth_namespace(purpose);
    namespace.ip(&["addr", "add", "10.0.3.1/24", "dev", "gnb0"]);
    namespace.ip(&["addr", "add", "10.0.6.1/24", "dev", "net0"]);
    namespace.ip(&["route", "add", "10.44.0.0/14", "via", "10.0.6.2"]);
    namespace
}

/// Ports `access` and `core` on two devices, with an interface on each and a route to 10.0.6.1.
/// Behind [`N3`] there is also a route to the gNBs of scripts in 198.51.100.0/24.
#[must_use]
pub fn interfaces(devices: [&str; 2], n3: &str) -> String {
    let [access, core] = devices;
    let to_gnbs = match n3 {
        N3 => {
            "[[route]]\ninterface = \"n3\"\nprefix = \"198.51.100.0/24\"\nnext_hop = \"10.0.3.1\"\n"
        }
        _ => "",
    };
    format!(
        r#"
[[port]]
name = "access"
device = "{access}"
[[port]]
name = "core"
device = "{core}"
[[interface]]
name = "n3"
role = "n3"
port = "access"
addresses = ["{n3}/24"]
[[interface]]
name = "n6"
role = "n6"
port = "core"
addresses = ["10.0.6.2/24"]
[[route]]
interface = "n6"
prefix = "0.0.0.0/0"
next_hop = "10.0.6.1"
{to_gnbs}"#
    )
}

fn configuration(sessions_max: usize, dir: &Path) -> String {
    let ports = interfaces(["net_null0,no-rx=1", "net_null1,no-rx=1"], N3);
    node(sessions_max, &cores()[..1], dir) + &ports
}
