//! `redis-server` processes on the loopback interface: single, replicated, and a Cluster.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::{run, skip};

const PROGRAM: &str = "redis-server";
const START_LIMIT: Duration = Duration::from_secs(20);
const COMMAND_LIMIT: Duration = Duration::from_secs(20);

/// A `redis-server` with its files in a folder of its own. Dropping it kills the process.
#[derive(Debug)]
pub struct RedisServer {
    child: Option<Child>,
    address: SocketAddr,
    options: Vec<String>,
    /// What `redis-cli` needs besides the address.
    login: Vec<String>,
    dir: TempDir,
}

impl RedisServer {
    /// A server that appends every change to a file, with further `options`. `None`, with the reason printed, if it is
    /// not installed.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(options: &[&str]) -> Option<Self> {
        Self::start_with(options, &[])
    }

    /// As [`Self::start`], for a server that lets `redis-cli` in only with `login`.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_with(options: &[&str], login: &[&str]) -> Option<Self> {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            skip("redis-server is not installed");
            return None;
        }
        let address = free_address();
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        let (options, login) = (owned(options), owned(login));
        let mut server = Self { child: None, address, options, login, dir };
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
        let mut command = Command::new(PROGRAM);
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
        // SAFETY: kill takes any pid and signal; the child was not waited for, so the pid is its own.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }

    /// What `redis-cli` prints for a command.
    #[must_use]
    pub fn answer(&self, command: &str) -> String {
        let mut cli = Command::new("redis-cli");
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        cli.args(["-h", &host, "-p", &port]).args(&self.login).args(command.split(' '));
        let output = run(&mut cli, COMMAND_LIMIT);
        String::from_utf8_lossy(&output.stdout).into_owned()
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

    /// Makes this server a primary, as a Sentinel would.
    ///
    /// # Panics
    /// When it refuses.
    pub fn promote(&self) {
        assert_eq!(self.answer("REPLICAOF NO ONE").trim(), "OK");
    }
}

impl Drop for RedisServer {
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

/// Six servers of a Cluster: three primaries, each with a replica.
#[derive(Debug)]
pub struct RedisCluster {
    /// The servers.
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a Cluster; `None`, with the reason printed, if `redis-server` is not installed.
    ///
    /// # Panics
    /// When it does not form.
    #[must_use]
    pub fn start() -> Option<Self> {
        let options = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "1000",
            "--cluster-config-file",
            "nodes.conf",
        ];
        let nodes: Option<Vec<_>> = (0..6).map(|_| RedisServer::start(&options)).collect();
        let nodes = nodes?;
        let mut cli = Command::new("redis-cli");
        cli.args(["--cluster", "create"]);
        cli.args(nodes.iter().map(|node| node.address().to_string()));
        cli.args(["--cluster-replicas", "1", "--cluster-yes"]);
        let output = run(&mut cli, Duration::from_secs(60));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        for node in &nodes {
            node.wait("CLUSTER INFO", |answer| answer.contains("cluster_state:ok"));
        }
        Some(Self { nodes })
    }

    /// The place of the primary of a key.
    ///
    /// # Panics
    /// When the Cluster has none.
    #[must_use]
    pub fn primary_of(&self, key: &str) -> usize {
        let has = |node: &RedisServer| {
            let answer = node.answer(&format!("HLEN {key}"));
            node.child.is_some()
                && !answer.contains("MOVED")
                && node.answer("ROLE").starts_with("master")
        };
        self.nodes.iter().position(has).unwrap()
    }
}
