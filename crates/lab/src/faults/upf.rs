//! The adits of a run: their configuration, their consecutive processes, and queries of their admin
//! sockets.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_lab_process::netns::NetNamespace;
use adit_lab_process::process::Process;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::faults::addresses::{DATA_NETWORK, N3, N4, N6, server_address, upf_address};
use crate::faults::setting::StoreSetting;
use crate::faults::shim::Shim;
use crate::faults::small_disk::SmallDisk;
use crate::faults::timeline::{EventKind, Timeline};

/// Duration of the lease on the records of a shared store. Unit: ms.
pub(crate) const LEASE_MS: u64 = 1000;
/// Interval at which the usage of a session is recorded. Unit: ms.
pub(crate) const USAGE_INTERVAL_MS: u64 = 1000;
/// Time until the supervisor restarts a process that has ended. Unit: ms.
const RESTART_MS: u64 = 300;

/// An adit, its files, and its present process.
#[derive(Debug)]
pub(crate) struct TestedUpf {
    pub name: &'static str,
    dir: PathBuf,
    binary: PathBuf,
    process: Option<Process>,
    is_paused: bool,
    /// When the supervisor starts the process; `None` while it runs, or while a fault forbids a
    /// start.
    due_ms: Option<u64>,
    starts: u32,
    timeline: Timeline,
    /// The library that is preloaded into adit.
    pub shim: Option<Shim>,
    /// The disk of the journal.
    disk: Option<SmallDisk>,
    /// Times and descriptions of ends that no fault explains.
    pub unexpected_ends: Vec<(u64, String)>,
}

impl TestedUpf {
    /// Creates an adit without starting it.
    ///
    /// # Errors
    /// The files of the adit cannot be written.
    pub(crate) fn new(
        at: usize,
        dir: &Path,
        binary: &Path,
        setting: StoreSetting,
        timeline: &Timeline,
    ) -> Result<Self> {
        let name = crate::faults::addresses::UPFS.get(at).copied().unwrap_or("a");
        let dir = dir.join(name);
        let journal = dir.join("journal");
        fs::create_dir_all(&journal).context("create the folder of the journal")?;
        let disk = match setting {
            StoreSetting::Journal => Some(SmallDisk::mount(&journal)?),
            _ => None,
        };
        fs::write(dir.join("adit.toml"), configuration(setting, at, &dir))
            .context("write a configuration")?;
        Ok(Self {
            name,
            dir,
            binary: binary.to_owned(),
            process: None,
            is_paused: false,
            due_ms: None,
            starts: 0,
            timeline: timeline.clone(),
            shim: None,
            disk,
            unexpected_ends: Vec::new(),
        })
    }

    /// Returns the disk of the journal.
    ///
    /// # Errors
    /// This adit has no journal.
    pub(crate) fn disk(&self) -> Result<&SmallDisk> {
        self.disk.as_ref().context("no journal")
    }

    /// Starts the process.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn start(&mut self, host: &NetNamespace) -> Result<()> {
        self.starts += 1;
        let mut command = host.command(&self.binary);
        command.args(["run", "--config"]).arg(self.dir.join("adit.toml"));
        command.env("NO_COLOR", "1").env("RUST_LOG", "info");
        if let Some(shim) = &self.shim {
            shim.preload(&mut command);
        }
        let log = self.log();
        self.process = Some(Process::start(self.name, command, &log, &log)?);
        (self.is_paused, self.due_ms) = (false, None);
        self.timeline.note(EventKind::Process, self.name, "starts");
        Ok(())
    }

    /// Sets the program for the next start.
    pub(crate) fn use_binary(&mut self, binary: &Path) {
        self.binary = binary.to_owned();
    }

    /// Ends the process: by SIGKILL if `is_kill`, otherwise in an orderly way, as `systemctl stop`
    /// does. It is not restarted before [`Self::start`].
    ///
    /// # Errors
    /// The wait for the process fails.
    pub(crate) fn stop_process(&mut self, is_kill: bool) -> Result<()> {
        self.due_ms = None;
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let words = if is_kill { "is killed" } else { "is stopped" };
        self.timeline.note(EventKind::Process, self.name, words);
        if is_kill { process.kill() } else { process.terminate().map(|_| ()) }
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

    /// Acts as a supervisor: restarts the process after it has ended by itself.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn supervise(&mut self, host: &NetNamespace) -> Result<()> {
        if let Some(process) = &mut self.process
            && let Some(status) = process.poll()?
        {
            let now_ms = self.timeline.now_ms();
            let text = format!("ended ({status}): {}", self.last_log_line());
            self.timeline.note(EventKind::Process, self.name, text.clone());
            // Status 1 is expected: an adit that lost its lease ends with it, after a message.
            if status.code().is_none_or(|code| code != 1) {
                self.unexpected_ends.push((now_ms, text));
            }
            (self.process, self.due_ms) = (None, Some(now_ms + RESTART_MS));
        }
        if self.due_ms.is_some_and(|due_ms| self.timeline.now_ms() >= due_ms) {
            self.start(host)?;
        }
        Ok(())
    }

    /// Returns where to query this adit; `None` while it cannot answer.
    pub(crate) fn target(&self) -> Option<AdminTarget> {
        let process = self.process.as_ref().filter(|_| !self.is_paused)?;
        Some(AdminTarget { socket: self.dir.join("admin.sock"), pid: process.id() })
    }

    fn log(&self) -> PathBuf {
        self.dir.join(format!("adit-{}.log", self.starts))
    }

    /// Returns the last line of the log.
    pub(crate) fn last_log_line(&self) -> String {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().next_back().unwrap_or("no log").to_owned()
    }
}

/// An admin socket, and the id of the process that serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminTarget {
    socket: PathBuf,
    pid: u32,
}

impl AdminTarget {
    /// Returns the document of a topic, as `adit show TOPIC --json` prints it.
    ///
    /// # Errors
    /// adit does not answer within `patience`.
    pub(crate) fn show(&self, topic: &str, patience: Duration) -> Result<Value> {
        let path = format!("/v1/{topic}");
        let answer = self.ask(&format!("GET {path} HTTP/1.0\r\n\r\n"), patience)?;
        if !answer.starts_with("HTTP/") {
            // Release 0.1.0 does not support HTTP, but a simpler protocol.
            let answer = self.ask(&format!("{{\"show\":\"{topic}\"}}\n"), patience)?;
            return serde_json::from_str(&answer).with_context(|| format!("{topic}: not JSON"));
        }
        let mut document = parse_document(&answer)?;
        while let Some(next) = document["next"].as_str() {
            let request = format!("GET {path}?cursor={next} HTTP/1.0\r\n\r\n");
            let mut page = parse_document(&self.ask(&request, patience)?)?;
            let rows = page[topic].as_array_mut().map(core::mem::take).unwrap_or_default();
            document[topic].as_array_mut().into_iter().for_each(|all| all.extend(rows.clone()));
            document["next"] = page["next"].take();
        }
        Ok(document)
    }

    /// Sends a request and returns the answer.
    fn ask(&self, request: &str, patience: Duration) -> Result<String> {
        let mut stream =
            UnixStream::connect(&self.socket).context("connect to the admin socket")?;
        stream.set_read_timeout(Some(patience)).context("set a timeout")?;
        stream.write_all(request.as_bytes()).context("ask")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("read the answer")?;
        Ok(answer)
    }

    /// Returns the resident memory, without huge pages: the kernel turns the session tables into
    /// these at any time. Unit: KiB.
    pub(crate) fn memory_kib(&self) -> Option<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).ok()?;
        let kib = |name: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        };
        Some(kib("Rss:")?.saturating_sub(kib("AnonHugePages:")?))
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

/// Parses the document in an HTTP answer.
fn parse_document(answer: &str) -> Result<Value> {
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    ensure!(head.starts_with("HTTP/1.0 200"), "adit refuses: {body}");
    serde_json::from_str(body).context("an answer that is not JSON")
}

/// Returns the configuration of the adit with index `at`, which has its files in `dir`. The
/// previous release must be able to read it too.
fn configuration(setting: StoreSetting, at: usize, dir: &Path) -> String {
    let socket = dir.join("admin.sock");
    let store = store_tables(setting, at, dir);
    format!(
        r#"[node]
id = "{N4}"
[n4]
listen = "{N4}:8805"
heartbeat_interval_ms = 2000
t1_ms = 2000
n1_retries = 3
[sessions]
sessions_max = 4096
[datapath]
workers = [0]
main_core = 0
poll = "adaptive"
[dpdk]
hugepages = "never"
memory_mib = 64
mempool_mbufs = 4096
rx_descriptors = 256
tx_descriptors = 256
[[port]]
name = "access"
device = "net_af_packet0,iface=n3"
[[port]]
name = "core"
device = "net_af_packet1,iface=n6"
[[interface]]
name = "n3"
role = "n3"
port = "access"
addresses = ["{N3}/24"]
[[interface]]
name = "n6"
role = "n6"
port = "core"
addresses = ["{N6}/24"]
[[route]]
interface = "n6"
prefix = "0.0.0.0/0"
next_hop = "{DATA_NETWORK}"
[[ue_pool]]
prefix = "10.46.0.0/16"
[admin]
socket = "{}"
{store}"#,
        socket.display()
    )
}

/// Returns the configuration of the store, of replication and of the standby.
fn store_tables(setting: StoreSetting, at: usize, dir: &Path) -> String {
    let servers: Vec<String> =
        (0..setting.servers()).map(|at| format!("\"{}:6379\"", server_address(at))).collect();
    let store = match setting {
        StoreSetting::Journal => format!("folder = \"{}\"", dir.join("journal").display()),
        _ => format!(
            "kind = \"redis\"\nservers = [{}]\nname = \"upf\"\nlease_ms = {LEASE_MS}\n\
             acknowledge_replicas = {}",
            servers.join(", "),
            u8::from(setting.servers() > 1)
        ),
    };
    let (own, other) = (upf_address(at), upf_address(1 - at.min(1)));
    let replication = match setting {
        StoreSetting::Pair => format!(
            "[store.replication]\nlisten = \"{own}:7000\"\nstandby = \"{other}:7000\"\n\
             transport = \"blocking\"\naccept_strangers = true\n"
        ),
        _ => String::new(),
    };
    let standby = match setting {
        StoreSetting::Journal => String::new(),
        _ => format!("[standby]\naddresses = [{{ device = \"n4\", address = \"{N4}/24\" }}]\n"),
    };
    format!("[store]\n{store}\nusage_interval_ms = {USAGE_INTERVAL_MS}\n{replication}{standby}")
}
