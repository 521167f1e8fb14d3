//! The `adit` under test: its configuration, its process, and queries by `adit show`.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::topology::{
    ADIT_N3, ADIT_N3_V6, ADIT_N4, ADIT_N6, ADIT_N6_V6, ADIT_TUN, ADIT_TUN_V6, CORP_LINK, DN, DN_V6,
    Topology,
};
use adit_lab_process::adit_config::{AditConfig, ExecutionModel, WorkerPoll};
use adit_lab_process::process::{Process, TimedProgram};
use adit_lab_process::stop::Stop;

/// Name of adit's configuration file.
const CONFIG: &str = "adit.toml";
/// Name of the admin socket.
const SOCKET: &str = "admin.sock";
/// Number of lines of adit's log that are shown after a failure.
const LOG_TAIL_LINES: usize = 20;
const SHOW_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the link to the gNB.
const N3_LINK: &str = "n3";
/// Name of adit's TUN device, if its ports are the kernel's.
const TUN: &str = "adit0";
/// Interval of adit's heartbeats, short enough for a short demo to receive some.
const HEARTBEAT_INTERVAL_MS: u32 = 1000;

/// The kind of adit's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketDevice {
    /// DPDK's `net_af_xdp`.
    AfXdp,
    /// DPDK's `net_af_xdp` behind adit's XDP program.
    Xdp,
    /// Packet sockets, without DPDK.
    AfPacket,
    /// DPDK's `net_af_packet`.
    NetAfPacket,
    /// UDP sockets and a TUN device, without DPDK.
    Kernel,
}

impl PacketDevice {
    /// Returns the name of the devices on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AfXdp => "AF_XDP",
            Self::Xdp => "XDP",
            Self::AfPacket => "AF_PACKET",
            Self::NetAfPacket => "net_af_packet",
            Self::Kernel => "kernel",
        }
    }

    /// Returns the device string for the interface `interface`, which is device number `index` of
    /// its driver.
    fn argument(self, index: usize, interface: &str, queue_pairs: usize) -> String {
        let (device, queues) = match self {
            Self::AfXdp | Self::Xdp => {
                (format!("net_af_xdp{index},iface={interface}"), "queue_count")
            }
            Self::NetAfPacket => (format!("net_af_packet{index},iface={interface}"), "qpairs"),
            Self::AfPacket => return format!("kernel:packet,iface={interface}"),
            Self::Kernel if interface == N3_LINK => return "kernel:udp".to_owned(),
            Self::Kernel => return format!("kernel:tun,name={TUN}"),
        };
        match queue_pairs {
            1 => device,
            pairs => format!("{device},{queues}={pairs}"),
        }
    }
}

/// CPU cores of adit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoreAssignment {
    /// Core of all threads except the worker.
    pub main: usize,
    /// Core of the worker.
    pub worker: usize,
    /// How the worker waits for packets.
    pub poll: WorkerPoll,
}

impl CoreAssignment {
    /// Chooses the first two cores that this process may use; if there is only one, it serves for
    /// both.
    #[must_use]
    pub(crate) fn among(allowed: &[usize]) -> Self {
        let main = allowed.first().copied().unwrap_or(0);
        let worker = allowed.get(1).copied().unwrap_or(main);
        Self { main, worker, poll: WorkerPoll::Busy }
    }
}

/// The ports, the execution model and the CPUs of an adit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AditSetup {
    /// The driver of the ports.
    pub device: PacketDevice,
    /// Which core runs which part.
    pub model: ExecutionModel,
    /// The CPU cores.
    pub cores: CoreAssignment,
}

/// Access to the admin socket of a running adit.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    binary: PathBuf,
    socket: PathBuf,
    dir: PathBuf,
}

impl Admin {
    /// Returns the path of the admin socket.
    #[must_use]
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Runs `adit show TOPIC --json`.
    ///
    /// # Errors
    /// adit does not answer, its answer is not JSON, or `stop` was raised.
    pub(crate) fn show(&self, topic: &str, stop: &Stop) -> Result<Value> {
        let mut command = Command::new(&self.binary);
        command.args(["show", topic, "--json", "--socket"]).arg(&self.socket);
        // The live view and the checks call this at the same time, so each thread has its own
        // files.
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let name = format!("show-{topic}-{thread}");
        let output = TimedProgram::start(&self.dir, &name, command, SHOW_TIMEOUT)?.wait(stop)?;
        if !output.success {
            bail!("adit show {topic}: {}", output.error_line);
        }
        serde_json::from_str(&output.stdout).with_context(|| format!("adit show {topic}: not JSON"))
    }
}

/// A running adit. Drop ends the process.
#[derive(Debug)]
pub(crate) struct Adit {
    process: Process,
    admin: Admin,
    log: PathBuf,
}

impl Adit {
    /// Starts adit in the UPF namespace, with its files in `dir`. Appends the TOML text `sections`
    /// to its configuration.
    ///
    /// # Errors
    /// The configuration cannot be written, or the program cannot be started.
    pub(crate) fn start(
        binary: &Path,
        topology: &Topology,
        dir: &Path,
        setup: AditSetup,
        sections: &str,
    ) -> Result<Self> {
        let (config, device) = (dir.join(CONFIG), setup.device);
        let log = dir.join(format!("adit-{}.log", device.name()));
        let (has_corp, mtu) = (topology.corp.is_some(), topology.mtu_bytes);
        let mut text = configuration(setup, topology.ipv6, has_corp, mtu, dir);
        if has_corp {
            text += &corp_sections(device, setup.model, mtu);
        }
        text += sections;
        if device == PacketDevice::Kernel {
            text += &pool_sections(topology.ipv6);
        }
        fs::write(&config, text).context("write adit's configuration")?;
        let process = spawn(binary, topology, &config, &log)?;
        let (binary, socket) = (binary.to_owned(), dir.join(SOCKET));
        let admin = Admin { binary, socket, dir: dir.to_owned() };
        Ok(Self { process, admin, log })
    }

    /// Kills adit, runs `dead`, and starts adit again with the same configuration.
    ///
    /// # Errors
    /// The process cannot be started, or `dead` fails.
    pub(crate) fn kill_and_restart(
        &mut self,
        topology: &Topology,
        dead: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.process.kill()?;
        dead()?;
        let (binary, dir) = (self.admin.binary.clone(), self.admin.dir.clone());
        self.process = spawn(&binary, topology, &dir.join(CONFIG), &self.log)?;
        Ok(())
    }

    /// Returns access to the admin socket.
    #[must_use]
    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Returns the process id.
    #[must_use]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Checks that adit runs.
    ///
    /// # Errors
    /// adit has ended; the message contains the last line of its log.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.process.poll()? {
            None => Ok(()),
            Some(status) => Err(anyhow!("adit ended ({status}): {}", self.last_log_line())),
        }
    }

    /// Returns the last line of the log.
    fn last_log_line(&self) -> String {
        self.log_tail().lines().next_back().unwrap_or_default().to_owned()
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub(crate) fn log_tail(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        if lines.is_empty() {
            return "(adit wrote nothing)".to_owned();
        }
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// Terminates adit and returns its exit status.
    ///
    /// # Errors
    /// The signal or the wait for the process fails.
    pub(crate) fn terminate(&mut self) -> Result<ExitStatus> {
        self.process.terminate()
    }
}

fn spawn(binary: &Path, topology: &Topology, config: &Path, log: &Path) -> Result<Process> {
    let mut command = topology.upf.command(binary);
    // The log is shown to people: it must not contain escape sequences.
    command.args(["run", "--config"]).arg(config).env("NO_COLOR", "1");
    Process::start("adit", command, log, log)
}

/// Returns the configuration of the UE pools, to which the kernel must route.
fn pool_sections(ipv6: bool) -> String {
    let pool = |prefix: &str| format!("\n[[ue_pool]]\nprefix = \"{prefix}\"\n");
    pool("10.45.0.0/17")
        + &pool("10.45.208.0/20")
        + &if ipv6 { pool("2001:db8:45::/48") } else { String::new() }
}

/// Returns the configuration of port and interface of the second data network.
fn corp_sections(device: PacketDevice, model: ExecutionModel, mtu_bytes: u16) -> String {
    let xdp = if device == PacketDevice::Xdp { "xdp = \"on\"" } else { "" };
    let device = device.argument(2, CORP_LINK, queue_pairs(model));
    format!(
        r#"
[[port]]
name = "corp"
device = "{device}"
mtu_bytes = {mtu_bytes}
{xdp}

[[interface]]
name = "n6-corp"
role = "n6"
port = "corp"
addresses = ["{ADIT_N6}/24"]
network_instance = "corp"
"#
    )
}

/// Returns the number of queue pairs of each port; the lab's adit has one worker.
pub(crate) const fn queue_pairs(model: ExecutionModel) -> usize {
    1 + model.other_transmitter_count()
}

fn configuration(
    AditSetup { device, model, cores }: AditSetup,
    ipv6: bool,
    has_corp: bool,
    mtu_bytes: u16,
    dir: &Path,
) -> String {
    let addresses = |v4: Ipv4Addr, v6: Ipv6Addr, [v4_len, v6_len]: [u8; 2]| {
        let v6 = ipv6.then(|| format!("{v6}/{v6_len}"));
        std::iter::once(format!("{v4}/{v4_len}")).chain(v6).collect()
    };
    // With the kernel's ports, the kernel routes by itself.
    let is_kernel = device == PacketDevice::Kernel;
    let mut routes = Vec::new();
    if !is_kernel {
        routes.push(("0.0.0.0/0", DN.to_string()));
    }
    if ipv6 && !is_kernel {
        routes.push(("::/0", DN_V6.to_string()));
    }
    let n6 = match is_kernel {
        true => addresses(ADIT_TUN, ADIT_TUN_V6, [32, 128]),
        false => addresses(ADIT_N6, ADIT_N6_V6, [24, 64]),
    };
    AditConfig {
        n4: ADIT_N4,
        n4_port: 8805,
        heartbeat_ms: HEARTBEAT_INTERVAL_MS,
        t1_ms: 1000,
        unlimited_requests: false,
        sessions_max: 1024,
        main_core: cores.main,
        workers: vec![cores.worker],
        model,
        receiver: cores.main,
        poll: cores.poll,
        ignores_nodes: false,
        scales_frequency: false,
        qos: None,
        devices: [(0, N3_LINK), (1, "n6")]
            .map(|(index, interface)| device.argument(index, interface, queue_pairs(model))),
        xdp: device == PacketDevice::Xdp,
        mtu_bytes: [mtu_bytes; 2],
        n3: addresses(ADIT_N3, ADIT_N3_V6, [24, 64]),
        n6,
        routes,
        n6_instance: has_corp.then_some("internet"),
        vlans: [0; 2],
        store: Some(&dir.join("journal")),
        socket: &dir.join(SOCKET),
    }
    .text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_names_both_devices_and_leaves_ipv6_out_where_there_is_none() {
        let cores = CoreAssignment::among(&[0, 1, 2, 3]);
        assert_eq!((cores.main, cores.worker), (0, 1));
        let single = CoreAssignment::among(&[5]);
        assert_eq!((single.main, single.worker), (5, 5));
        let text = |device, model, ipv6| {
            let setup = AditSetup { device, model, cores };
            configuration(setup, ipv6, false, 1500, Path::new("/run/x"))
        };
        let usual = ExecutionModel::RunToCompletion;
        let of_af_xdp = text(PacketDevice::AfXdp, usual, true);
        assert!(of_af_xdp.contains("device = \"net_af_xdp0,iface=n3\""));
        assert!(of_af_xdp.contains("device = \"net_af_xdp1,iface=n6\""));
        assert!(of_af_xdp.contains("workers = [1]"));
        assert!(of_af_xdp.contains("next_hop = \"2001:db8:6::1\""));
        assert!(!of_af_xdp.contains("xdp = "));
        let of_xdp = text(PacketDevice::Xdp, usual, true);
        assert!(of_xdp.contains("device = \"net_af_xdp1,iface=n6\""));
        assert_eq!(of_xdp.matches("xdp = \"on\"").count(), 2);
        let of_af_packet = text(PacketDevice::AfPacket, ExecutionModel::Pipeline, false);
        assert!(of_af_packet.contains("device = \"kernel:packet,iface=n6\""));
        assert!(of_af_packet.contains("receivers = [0]"));
        assert!(!of_af_packet.contains("2001:"));
        let of_kernel = text(PacketDevice::Kernel, usual, true);
        assert!(
            of_kernel.contains("\"kernel:udp\"") && of_kernel.contains("\"kernel:tun,name=adit0\"")
        );
        assert!(of_kernel.contains("\"10.0.7.1/32\"") && !of_kernel.contains("next_hop"));
    }
}
