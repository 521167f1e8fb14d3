//! `redis-server` processes on the loopback interface: single, replicated, and a Cluster.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use adit_shared_store::{SharedStore, SharedStoreOptions};
use adit_transport::{KernelTcp, KernelWait};
use tempfile::TempDir;

use crate::process::{TestNamespace, run, skip};

const PROGRAM: &str = "redis-server";
const START_LIMIT: Duration = Duration::from_secs(20);
const COMMAND_LIMIT: Duration = Duration::from_secs(20);

/// Options of a client of `servers` for the records `upf-1`, which acknowledge alone.
#[must_use]
pub fn store_options(
    servers: &[SocketAddr],
    instance: &str,
    process: u64,
    lease: Duration,
) -> SharedStoreOptions {
    SharedStoreOptions {
        servers: servers.to_vec(),
        name: "upf-1".to_owned(),
        instance: instance.to_owned(),
        process,
        login: None,
        acknowledge_replicas: 0,
        lease,
        patience: Duration::from_secs(1).min(lease / 2),
    }
}

/// A client over sockets that are slept on.
///
/// # Panics
/// Without descriptors.
#[must_use]
pub fn store_client(options: SharedStoreOptions) -> SharedStore<KernelTcp> {
    SharedStore::new(KernelTcp::new(KernelWait::Sleep).unwrap(), options)
}

/// A `redis-server` with its files in a folder of its own. Dropping it kills the process.
#[derive(Debug)]
pub struct RedisProcess {
    child: Option<Child>,
    /// The words with which every command begins.
    prefix: Vec<String>,
    address: SocketAddr,
    options: Vec<String>,
    /// Options of `redis-cli` in addition to the address.
    login: Vec<String>,
    dir: TempDir,
}

impl RedisProcess {
    /// A server that appends every change to a file, with further `options`. `None`, with the
    /// reason printed, if it is not installed.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(options: &[&str]) -> Option<Self> {
        Self::start_with(options, &[])
    }

    /// As [`Self::start`], at `port` of a network namespace.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_in(namespace: &TestNamespace, port: u16) -> Option<Self> {
        let prefix = ["ip", "netns", "exec", namespace.name()];
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), &prefix, &[], &[])
    }

    /// As [`Self::start`], for a server that lets `redis-cli` in only with `login`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_with(options: &[&str], login: &[&str]) -> Option<Self> {
        Self::start_at(free_address(), &[], options, login)
    }

    fn start_at(
        address: SocketAddr,
        prefix: &[&str],
        options: &[&str],
        login: &[&str],
    ) -> Option<Self> {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            skip("redis-server is not installed");
            return None;
        }
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        let (prefix, options, login) = (owned(prefix), owned(options), owned(login));
        let mut server = Self { child: None, prefix, address, options, login, dir };
        server.restart();
        Some(server)
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it with SIGKILL.
    ///
    /// # Panics
    /// When that fails.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again with the files that it has.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.kill();
        let log = std::fs::File::create(self.log_path()).unwrap();
        let mut command = self.command(PROGRAM);
        command.args(["--bind", &self.address.ip().to_string(), "--save", ""]);
        if !self.options.iter().any(|option| option == "--tls-port") {
            command.args(["--port", &self.address.port().to_string()]);
        }
        command.args(["--appendonly", "yes", "--daemonize", "no"]);
        command.args(["--dir"]).arg(self.dir.path()).args(self.options_with_port());
        let child = command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn();
        self.child = Some(child.unwrap());
        self.wait("PING", |answer| answer.trim() == "PONG");
    }

    fn command(&self, program: &str) -> Command {
        let Some((first, rest)) = self.prefix.split_first() else { return Command::new(program) };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }

    /// Options in which `PORT` stands for the port of the server.
    fn options_with_port(&self) -> Vec<String> {
        let port = self.address.port().to_string();
        self.options.iter().map(|option| option.replace("PORT", &port)).collect()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Stops or continues the process.
    pub fn signal(&self, signal: i32) {
        let Some(child) = &self.child else { return };
        let pid = i32::try_from(child.id()).unwrap();
        // SAFETY: kill takes any pid and signal; the child was not waited for, so the pid is its
        // own.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }

    /// The output of `redis-cli` for a command.
    #[must_use]
    pub fn answer(&self, command: &str) -> String {
        let mut cli = self.command("redis-cli");
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        cli.args(["-h", &host, "-p", &port]).args(&self.login).args(command.split(' '));
        let output = run(&mut cli, COMMAND_LIMIT);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn redis_cli(&self, arguments: &[String]) {
        let output = run(self.command("redis-cli").args(arguments), Duration::from_secs(60));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// Repeats a command until its answer is as wanted.
    ///
    /// # Panics
    /// When it takes too long.
    pub fn wait(&self, command: &str, is_wanted: impl Fn(&str) -> bool) {
        let end = Instant::now() + START_LIMIT;
        loop {
            let answer = self.answer(command);
            if is_wanted(&answer) {
                return;
            }
            let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
            assert!(Instant::now() < end, "{command}: {answer}\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes this server a replica of `primary`, and waits until it follows.
    ///
    /// # Panics
    /// When it does not.
    pub fn replicate(&self, primary: &Self) {
        let SocketAddr::V4(address) = primary.address else { panic!("IPv4") };
        let command = format!("REPLICAOF {} {}", address.ip(), address.port());
        assert_eq!(self.answer(&command).trim(), "OK");
        self.wait("INFO replication", |answer| answer.contains("master_link_status:up"));
    }

    /// Octets of changes that this replica has.
    ///
    /// # Panics
    /// When the server is no replica.
    #[must_use]
    pub fn replicated(&self) -> u64 {
        let answer = self.answer("INFO replication");
        let line = answer.lines().find_map(|line| line.strip_prefix("slave_repl_offset:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// Makes this server a primary, as a Sentinel would.
    ///
    /// # Panics
    /// When it refuses.
    pub fn promote(&self) {
        assert_eq!(self.answer("REPLICAOF NO ONE").trim(), "OK");
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An address of the loopback interface that nobody uses.
fn free_address() -> SocketAddr {
    // The port of a Cluster's own traffic is 10,000 higher.
    let is_usable = |address: &SocketAddr| address.port() < 55_000;
    let mut tried = Vec::new();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        if is_usable(&address) {
            return address;
        }
        tried.push(listener);
    }
}

/// Options of a server of a Cluster, which a replica takes over after about two seconds.
const CLUSTER_OPTIONS: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];

/// A Cluster of three primaries, and a replica of the one that has a key.
#[derive(Debug)]
pub struct RedisCluster {
    /// The primaries, that of the key first, and then its replica.
    pub nodes: Vec<RedisProcess>,
}

impl RedisCluster {
    /// Starts a Cluster; `None`, with the reason printed, if `redis-server` is not installed.
    ///
    /// # Panics
    /// When it does not form.
    #[must_use]
    pub fn start(key: &str) -> Option<Self> {
        let nodes: Option<_> = (0..4).map(|_| RedisProcess::start(&CLUSTER_OPTIONS)).collect();
        Some(Self::form(nodes?, key))
    }

    /// As [`Self::start`], in a network namespace, at ports from `port` on.
    ///
    /// # Panics
    /// When it does not form.
    #[must_use]
    pub fn start_in(namespace: &TestNamespace, port: u16, key: &str) -> Option<Self> {
        let prefix = ["ip", "netns", "exec", namespace.name()];
        let start = |port| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            RedisProcess::start_at(address, &prefix, &CLUSTER_OPTIONS, &[])
        };
        let nodes: Option<_> = (port..port + 4).map(start).collect();
        Some(Self::form(nodes?, key))
    }

    fn form(mut nodes: Vec<RedisProcess>, key: &str) -> Self {
        let addresses = |nodes: &[RedisProcess]| -> Vec<String> {
            nodes.iter().map(|node| node.address().to_string()).collect()
        };
        let create = ["--cluster", "create", "--cluster-yes"].map(str::to_owned);
        nodes[0].redis_cli(&[&create[..], &addresses(&nodes[..3])].concat());
        let is_ready = |answer: &str| answer.contains("cluster_state:ok");
        nodes[..3].iter().for_each(|node| node.wait("CLUSTER INFO", is_ready));
        let of_key = |node: &RedisProcess| !node.answer(&format!("GET {key}")).contains("MOVED");
        let primary = nodes[..3].iter().position(of_key).unwrap();
        nodes.swap(0, primary);
        let id = nodes[0].answer("CLUSTER MYID").trim().to_owned();
        let add = ["--cluster", "add-node"].map(str::to_owned);
        let replica = [nodes[3].address().to_string(), nodes[0].address().to_string()];
        let of = ["--cluster-slave", "--cluster-master-id", &id].map(str::to_owned);
        nodes[0].redis_cli(&[&add[..], &replica, &of].concat());
        nodes[3].wait("INFO replication", |answer| answer.contains("master_link_status:up"));
        nodes[3].wait("CLUSTER INFO", is_ready);
        Self { nodes }
    }
}
