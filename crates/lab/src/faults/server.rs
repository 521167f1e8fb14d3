//! The servers of the store: `redis-server` processes, each on its own host.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use adit_lab_process::netns::NetNamespace;
use adit_lab_process::process::Process;
use adit_transport::resp::{RespValue, write_command};
use anyhow::{Context, Result, bail};

use crate::faults::addresses::server_address;
use crate::faults::setting::StoreSetting;
use crate::faults::shim::Shim;

pub(crate) const PORT: u16 = 6379;
/// Maximum time of an answer while no fault delays it.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum time until the servers have formed a cluster or a primary with replicas.
const JOIN_MAX: Duration = Duration::from_secs(30);

/// A server and its files.
#[derive(Debug)]
pub(crate) struct Server {
    pub name: String,
    at: usize,
    dir: PathBuf,
    options: Vec<String>,
    process: Option<Process>,
    is_paused: bool,
}

impl Server {
    /// Creates a server without starting it; its files are in a folder of `dir`.
    pub(crate) fn new(at: usize, dir: &Path, options: &[&str]) -> Result<Self> {
        let name = format!("s{}", at + 1);
        let dir = dir.join(&name);
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Ok(Self { name, at, dir, options, process: None, is_paused: false })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((server_address(self.at), PORT))
    }

    /// True if the process runs and is not paused.
    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some() && !self.is_paused
    }

    /// Starts the process, and waits until the server answers.
    ///
    /// # Errors
    /// There is no `redis-server`, or it does not start.
    pub(crate) fn start(&mut self, host: &NetNamespace, shim: Option<&Shim>) -> Result<()> {
        let mut command = host.command("redis-server");
        command.args(["--bind", &server_address(self.at).to_string(), "--protected-mode", "no"]);
        command.args(["--port", &PORT.to_string(), "--dir"]).arg(&self.dir);
        command.arg("--unixsocket").arg(self.socket()).args(&self.options);
        if let Some(shim) = shim {
            shim.preload(&mut command);
        }
        let log = self.dir.with_extension("log");
        self.process = Some(Process::start(&self.name, command, &log, &log)?);
        self.is_paused = false;
        let end = Instant::now() + ANSWER_MAX;
        loop {
            let reply = self.ask(&["PING"]);
            if reply.as_ref().is_ok_and(|words| words == &["PONG"]) {
                return Ok(());
            }
            if Instant::now() > end {
                let why = reply.err().map_or_else(String::new, |error| format!(" ({error:#})"));
                bail!("{} does not start{why}; see {}", self.name, log.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the process.
    ///
    /// # Errors
    /// The wait for the process fails.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.kill())
    }

    /// Removes the files of a server that does not run.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn forget(&self) -> Result<()> {
        for name in ["appendonlydir", "dump.rdb"] {
            let path = self.dir.join(name);
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            if path.exists() {
                removed.with_context(|| format!("remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Pauses the process until [`Self::resume`].
    pub(crate) fn pause(&mut self) {
        self.process.iter().for_each(Process::pause);
        self.is_paused = true;
    }

    /// Resumes a paused process.
    pub(crate) fn resume(&mut self) {
        self.process.iter().for_each(Process::resume);
        self.is_paused = false;
    }

    /// Sends a command over the server's socket file, and so not over the network. Returns the
    /// words of the reply.
    ///
    /// # Errors
    /// The server does not answer, or answers with an error.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<Vec<String>> {
        let stream = UnixStream::connect(self.socket()).context("connect to the server")?;
        stream.set_read_timeout(Some(ANSWER_MAX)).context("set a timeout")?;
        send_command(stream, words)
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }
}

/// Makes running servers a primary with replicas, or a cluster, as the setting requires.
///
/// # Errors
/// The servers have not joined in time.
pub(crate) fn join(setting: StoreSetting, servers: &[Server], world: &NetNamespace) -> Result<()> {
    let Some(first) = servers.first() else { return Ok(()) };
    match setting {
        StoreSetting::Journal | StoreSetting::Server | StoreSetting::Pair => return Ok(()),
        StoreSetting::Replicated => {
            let (ip, port) = (first.address().ip().to_string(), PORT.to_string());
            for replica in servers.iter().skip(1) {
                replica.ask(&["REPLICAOF", &ip, &port])?;
            }
        }
        StoreSetting::Cluster => {
            let mut command = world.command("redis-cli");
            command.args(["--cluster", "create", "--cluster-yes", "--cluster-replicas", "1"]);
            command.args(servers.iter().map(|server| server.address().to_string()));
            let output = command.output().context("run redis-cli")?;
            if !output.status.success() {
                bail!("redis-cli: {}", String::from_utf8_lossy(&output.stdout).trim());
            }
        }
    }
    let end = Instant::now() + JOIN_MAX;
    let is_joined = |server: &Server| match setting {
        StoreSetting::Replicated => {
            reply_contains(server, &["INFO", "replication"], "master_link_status:up")
        }
        _ => {
            reply_contains(server, &["CLUSTER", "INFO"], "cluster_state:ok")
                && (reply_contains(server, &["ROLE"], "master")
                    || reply_contains(server, &["ROLE"], "connected"))
        }
    };
    let skipped = usize::from(setting == StoreSetting::Replicated);
    while !servers.iter().skip(skipped).all(is_joined) {
        if Instant::now() > end {
            bail!("the servers of the store do not come together");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn reply_contains(server: &Server, words: &[&str], text: &str) -> bool {
    server.ask(words).is_ok_and(|reply| reply.iter().any(|word| word.contains(text)))
}

/// Sends a command over the network of this thread's namespace.
///
/// # Errors
/// The server does not answer within `patience`, or answers with an error.
pub(crate) fn command_over_network(
    address: SocketAddr,
    words: &[&str],
    patience: Duration,
) -> Result<Vec<String>> {
    let stream = TcpStream::connect_timeout(&address, patience).context("connect")?;
    stream.set_read_timeout(Some(patience)).context("set a timeout")?;
    send_command(stream, words)
}

fn send_command(mut stream: impl Read + Write, words: &[&str]) -> Result<Vec<String>> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut out = Vec::new();
    write_command(&mut out, &words);
    stream.write_all(&out).context("send a command")?;
    let (mut reply, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some((value, _)) = RespValue::read(&reply).context("read a reply")? {
            let mut all = Vec::new();
            flatten(&value, &mut all);
            return match value {
                RespValue::Error(_) => bail!("{}", all.join(" ")),
                _ => Ok(all),
            };
        }
        match stream.read(&mut part).context("read a reply")? {
            0 => bail!("the server closed the connection"),
            len => reply.extend(part.iter().take(len)),
        }
    }
}

fn flatten(value: &RespValue<'_>, out: &mut Vec<String>) {
    match value {
        RespValue::Simple(text)
        | RespValue::Error(text)
        | RespValue::Bulk(text)
        | RespValue::BigNumber(text) => out.push(String::from_utf8_lossy(text).into_owned()),
        RespValue::Integer(number) => out.push(number.to_string()),
        RespValue::Double(number) => out.push(number.to_string()),
        RespValue::Boolean(truth) => out.push(truth.to_string()),
        RespValue::Null => out.push(String::new()),
        RespValue::Array(all)
        | RespValue::Map(all)
        | RespValue::Set(all)
        | RespValue::Push(all) => {
            all.for_each(|one| flatten(&one, out));
        }
    }
}
