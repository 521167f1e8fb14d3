//! The target of a measurement. The tester starts it or finds it running, and reaches it through
//! ports and, for a UPF, through PFCP.

mod arguments;
mod configuration;
mod cpu;
pub(crate) mod load;
mod model;
pub(crate) mod placement;
pub(crate) mod rules;
mod server;
mod testpmd;

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use adit_types::{MacAddr, PortId, Qfi, VlanId};
use adit_wire::PduSessionContainer;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

pub(crate) use self::arguments::{NetworkOptions, TargetArguments};
use self::configuration::{TargetCores, adit_configuration};
use self::cpu::{RunQueueWait, cpu_by_core};
use self::load::LoadProbe;
use super::testbed::{Testbed, memif_address, memif_server_of, memif_socket};
use adit_lab_engine::frame::{Endpoints, FrameFormat, TesterTunnel};
use adit_lab_engine::memif::{Listener, Memif, MemifAddress};
use adit_lab_engine::neighbor::PortAddresses;
use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::adit_config::ExecutionModel;
use adit_lab_process::process::{Process, TimedProgram, owned_command};
use adit_lab_process::scratch::Scratch;
use adit_lab_process::stop::{Stop, environment};
use adit_lab_smf::bulk::{SessionsConfig, TeidAllocation};
use adit_lab_smf::{LabSmf, SessionProfile, SmfOptions};

/// Number of lines shown from the log of a failed target.
const LOG_TAIL_LINES: usize = 12;
/// The exit status of a `--start` that this machine cannot run; the last line of its log has the
/// reason.
const MACHINE_LACKS_STATUS: i32 = 77;
const SHOW_TIMEOUT: Duration = Duration::from_secs(5);

/// Kind of target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetKind {
    /// `adit`, started by the tester on memif.
    Adit,
    /// `dpdk-testpmd` in mode macswap, started by the tester on memif.
    Testpmd,
    /// A UPF that is running or that `--start` starts.
    Upf,
    /// Anything that returns the packets that it receives on `--port`.
    L2,
}

impl TargetKind {
    /// Returns the name on the command line.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Adit => "adit",
            Self::Testpmd => "testpmd",
            Self::Upf => "upf",
            Self::L2 => "l2",
        }
    }
}

/// How the tester reaches a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetAccess {
    /// Through DPDK ports with these device strings.
    Dpdk(Vec<String>),
    /// Through the tester's own memifs at these addresses; the target connects as client.
    Memif(Vec<MemifAddress>),
}

impl TargetAccess {
    /// Reaches the ports that `options` name: DPDK device strings, or all of them `memif:SOCKET`.
    ///
    /// # Errors
    /// An option is missing; the ports differ in kind; a socket has no name.
    fn of_options(options: &[(&str, &Option<String>)]) -> Result<Self> {
        let names = options.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ");
        let (mut devices, mut sockets) = (Vec::new(), Vec::new());
        for (name, device) in options {
            let Some(device) = device else {
                return Err(environment(format!(
                    "this target needs {name} DEVICE, a DPDK device string or memif:SOCKET"
                )));
            };
            match device.strip_prefix("memif:") {
                Some("" | "@") => {
                    return Err(environment(format!("{name} {device}: the socket has no name")));
                }
                Some(socket) => sockets.push(MemifAddress::from(socket)),
                None => devices.push(device.clone()),
            }
        }
        match (devices.is_empty(), sockets.is_empty()) {
            (true, _) => Ok(Self::Memif(sockets)),
            (_, true) => Ok(Self::Dpdk(devices)),
            _ => Err(environment(format!(
                "{names}: use memif:SOCKET for all of them, or DPDK devices for all of them"
            ))),
        }
    }

    /// Returns the servers of the memifs whose client the tester is.
    ///
    /// # Errors
    /// A device string is invalid.
    pub(crate) fn memif_servers(&self) -> Result<Vec<MemifAddress>> {
        let Self::Dpdk(devices) = self else { return Ok(Vec::new()) };
        let servers = devices.iter().map(|device| memif_server_of(device));
        Ok(servers.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// Who chooses uplink TEIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TeidChoice {
    /// The tester.
    Given,
    /// The UPF.
    Chosen,
}

/// How threads of the started adit behave without packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum PollChoice {
    /// They poll on.
    #[default]
    Busy,
    /// They sleep.
    Adaptive,
}

/// IP version under GTP-U on N3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OuterFamily {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl TargetArguments {
    /// True for a target with PFCP.
    #[must_use]
    pub(crate) fn is_upf(&self) -> bool {
        matches!(self.target, TargetKind::Adit | TargetKind::Upf)
    }

    /// Returns how long to wait for each part of the target.
    #[must_use]
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.target_timeout)
    }

    /// Returns the arguments of the target's memif that connects to the tester's socket `name`.
    fn memif_client(&self, name: &str) -> String {
        let sharing = if self.zero_copy { ",zero-copy=yes" } else { "" };
        format!("role=client,id=0,socket={}{sharing}", memif_socket(name))
    }

    /// Returns the rules of each session.
    ///
    /// # Errors
    /// The file of the profile cannot be read.
    pub(crate) fn profile(&self) -> Result<SessionProfile> {
        if let Some(path) = &self.pfcp.rule_profile {
            return SessionProfile::read(path);
        }
        Ok(self.pfcp.rules.profile(self.network.qfi))
    }

    /// Returns who chooses uplink TEIDs.
    #[must_use]
    pub(crate) fn teid_choice(&self) -> TeidAllocation {
        let default =
            if self.target == TargetKind::Adit { TeidChoice::Chosen } else { TeidChoice::Given };
        match self.pfcp.teids.unwrap_or(default) {
            TeidChoice::Given => TeidAllocation::Given(1),
            TeidChoice::Chosen => TeidAllocation::Chosen,
        }
    }

    /// Makes the tester's SMF, before association.
    ///
    /// # Errors
    /// The address or the Node ID of the SMF cannot be used.
    pub(crate) fn lab_smf(&self) -> Result<LabSmf> {
        let options = SmfOptions {
            window: self.pfcp.window,
            rate: self.pfcp.request_rate,
            keeps_reports: false,
        };
        LabSmf::bind(self.pfcp.smf, self.pfcp.n4, self.pfcp.node_id.as_deref(), options)
    }

    /// Returns the sessions to establish at the start.
    ///
    /// # Errors
    /// The rule profile cannot be read; a network instance has no labels.
    pub(crate) fn sessions_config(&self, gnb_teid: u32) -> Result<SessionsConfig> {
        let octets = |name: &Option<String>| {
            name.as_ref().map(|name| self.pfcp.instance_encoding.octets(name)).transpose()
        };
        Ok(SessionsConfig {
            count: self.first_sessions.unwrap_or(self.sessions),
            endpoints: self.network.endpoints(),
            ipv6: self.network.inner.is_ipv6(),
            gnbs: self.network.gnb_addresses(),
            gnb_teid,
            upf: self.network.upf_n3_address(),
            teids: self.teid_choice(),
            profile: self.profile()?,
            profiles: self.profiles.clone(),
            network_instances: [
                octets(&self.pfcp.access_instance)?,
                octets(&self.pfcp.core_instance)?,
            ],
        })
    }

    /// Returns how the tester reaches the target: through its N3 and N6, or through the port of an
    /// L2 target.
    ///
    /// # Errors
    /// An option is missing or invalid.
    pub(crate) fn reach(&self) -> Result<TargetAccess> {
        match self.target {
            TargetKind::Adit => {
                Ok(TargetAccess::Memif(vec![memif_address("n3"), memif_address("n6")]))
            }
            TargetKind::Testpmd => Ok(TargetAccess::Memif(vec![memif_address("l2")])),
            TargetKind::Upf => {
                TargetAccess::of_options(&[("--n3", &self.upf.n3), ("--n6", &self.upf.n6)])
            }
            TargetKind::L2 => TargetAccess::of_options(&[("--port", &self.port)]),
        }
    }

    /// Returns the core of a target that the tester starts.
    ///
    /// # Errors
    /// The core is the tester's, and `--allow-shared-core` is missing.
    pub(crate) fn core(&self, bench: &Testbed) -> Result<u16> {
        let planned = self.placed.as_ref().and_then(|placed| placed.workers.first().copied());
        let core = planned
            .or(self.target_core)
            .or_else(|| bench.other_core())
            .unwrap_or_else(|| bench.core());
        if core == bench.core() && !self.allow_shared_core {
            return Err(environment(format!(
                "tester and target would share core {core}, which makes figures invalid; choose others \
                 with --core and --target-core, or use --allow-shared-core"
            )));
        }
        Ok(core)
    }
}

impl TargetArguments {
    /// Returns the core of the target's receiver, for models with receivers: the first core that
    /// neither tester nor workers use, or else `core`.
    #[must_use]
    pub(crate) fn receiver_core(&self, bench: &Testbed, core: u16) -> u16 {
        if let Some(placed) = &self.placed {
            return placed.receiver.unwrap_or(core);
        }
        let mut others = bench.other_cores().filter(|other| *other != core);
        others.nth(usize::from(self.adit.workers).saturating_sub(1)).unwrap_or(core)
    }

    /// Returns the cores of the target's workers, `core` first: fewer than `--workers` if the
    /// machine lacks cores in addition to the tester's.
    #[must_use]
    pub(crate) fn worker_cores(&self, bench: &Testbed, core: u16) -> Vec<u16> {
        if let Some(placed) = &self.placed {
            return placed.workers.clone();
        }
        let others = bench.other_cores().filter(|other| *other != core);
        std::iter::once(core).chain(others).take(usize::from(self.adit.workers)).collect()
    }
}

impl NetworkOptions {
    /// Returns the addresses of the UEs and their server.
    #[must_use]
    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints {
            ue_v4: self.ue,
            ue_v6: self.ue6,
            server_v4: self.server,
            server_v6: self.server6,
        }
    }

    /// Returns the GTP-U address of the UPF.
    #[must_use]
    pub(crate) fn upf_n3_address(&self) -> IpAddr {
        match self.n3_family {
            OuterFamily::Ipv4 => self.upf_n3.into(),
            OuterFamily::Ipv6 => self.upf_n3_v6.into(),
        }
    }

    /// Returns the addresses of the gNBs. IPv6 addresses differ in the low 32 bits.
    #[must_use]
    pub(crate) fn gnb_addresses(&self) -> Vec<IpAddr> {
        let nth = |k: u32| -> IpAddr {
            match self.n3_family {
                OuterFamily::Ipv4 => Ipv4Addr::from_bits(self.gnb.to_bits().wrapping_add(k)).into(),
                OuterFamily::Ipv6 => {
                    let [.., a, b, c, d] = self.gnb_v6.octets();
                    let low = u32::from_be_bytes([a, b, c, d]);
                    let high = self.gnb_v6.to_bits() & !u128::from(u32::MAX);
                    Ipv6Addr::from_bits(high | u128::from(low.wrapping_add(k))).into()
                }
            }
        };
        (0..self.gnbs).map(nth).collect()
    }

    /// Returns the addresses of the tester's ports: the gNBs on N3, the data network on N6.
    #[must_use]
    pub(crate) fn port_addresses(&self, macs: [MacAddr; 2]) -> Vec<PortAddresses> {
        let [n3, n6] = macs;
        let gnbs = self.gnb_addresses();
        let v4 = |address: &IpAddr| if let IpAddr::V4(v4) = address { Some(*v4) } else { None };
        let v6 = |address: &IpAddr| if let IpAddr::V6(v6) = address { Some(*v6) } else { None };
        vec![
            PortAddresses {
                port: PortId(0),
                mac: n3,
                vlan: self.vlan(true),
                ipv4: gnbs.iter().filter_map(v4).collect(),
                ipv6: gnbs.iter().filter_map(v6).collect(),
            },
            PortAddresses {
                port: PortId(1),
                mac: n6,
                vlan: self.vlan(false),
                ipv4: vec![self.dn],
                ipv6: vec![self.dn6],
            },
        ]
    }

    /// Returns ports and next hops of the frames to N3 and N6.
    #[must_use]
    pub(crate) fn next_hops(&self) -> [(PortId, IpAddr); 2] {
        [(PortId(0), self.upf_n3_address()), (PortId(1), self.upf_n6.into())]
    }

    /// The QFI.
    #[must_use]
    pub(crate) fn qfi(&self) -> Option<Qfi> {
        Qfi::new(self.qfi)
    }

    /// Returns the VLAN of N3 (`is_access`) or N6.
    #[must_use]
    pub(crate) fn vlan(&self, is_access: bool) -> VlanId {
        let given = if is_access { self.vlan_n3 } else { self.vlan_n6 };
        given.and_then(VlanId::new).unwrap_or(VlanId::UNTAGGED)
    }

    /// Returns the format of the frames of one direction, between these MAC addresses.
    #[must_use]
    pub(crate) fn form(&self, uplink: bool, src_mac: MacAddr, dst_mac: MacAddr) -> FrameFormat {
        let psc = (!self.no_psc).then(|| self.qfi().map(PduSessionContainer::uplink)).flatten();
        FrameFormat {
            src_mac,
            dst_mac,
            vlan: self.vlan(uplink),
            tunnel: uplink.then(|| TesterTunnel {
                upf: self.upf_n3_address(),
                gnb: self.gnb_addresses().first().copied().unwrap_or(self.gnb.into()),
                psc,
            }),
            uplink,
            inner: self.inner,
            endpoints: self.endpoints(),
        }
    }
}

/// A target with a folder for its files. Drop stops a target that the tester started and removes
/// the folder. If the tester is killed, the target is killed too, since it may be paused.
#[derive(Debug)]
pub(crate) struct RunningTarget {
    process: Option<Process>,
    /// Cores of the target's workers.
    cores: Vec<u16>,
    kind: TargetKind,
    /// Maximum time for the target to connect.
    timeout: Duration,
    dir: Scratch,
    log: PathBuf,
    adit: Option<PathBuf>,
}

impl RunningTarget {
    /// Starts the target, unless it runs already.
    ///
    /// # Errors
    /// The program is missing or cannot be started.
    pub(crate) fn start(arguments: &TargetArguments, bench: &Testbed, core: u16) -> Result<Self> {
        if arguments.adit.placement.is_some() && arguments.placed.is_none() {
            return Err(environment(
                "this measurement takes no --placement; throughput, latency, ramp and soak do",
            ));
        }
        let dir = Scratch::create(arguments.target.name())?;
        let log = dir.path().join("target.log");
        let kind = arguments.target;
        let mut running = Self {
            process: None,
            cores: arguments.worker_cores(bench, core),
            kind,
            timeout: arguments.timeout(),
            dir,
            log,
            adit: None,
        };
        let command = match (arguments.target, &arguments.start) {
            (TargetKind::Adit, _) => {
                let binary = find_binary(arguments.adit.binary.as_deref())?;
                let config = running.dir.path().join("adit.toml");
                let cores = &running.cores;
                let receiver = arguments.receiver_core(bench, core);
                let placed = arguments.placed.as_ref();
                let main = placed.map_or(bench.core(), |placed| placed.control);
                let placed = TargetCores { main, workers: cores, receiver };
                let text = adit_configuration(arguments, &placed, running.dir.path());
                fs::write(&config, text).context("write adit's configuration")?;
                let mut command = owned_command(&binary, "KILL");
                command.args(["run", "--config"]).arg(&config).env("NO_COLOR", "1");
                running.adit = Some(binary);
                command
            }
            (TargetKind::Testpmd, _) => {
                let memif = arguments.memif_client("l2");
                testpmd::command(bench, core, arguments.target_rates, &memif)?
            }
            (_, Some(line)) => {
                let mut command = owned_command("sh", "KILL");
                command.args(["-c", line]);
                command
            }
            (_, None) => return Ok(running),
        };
        let mut command = command;
        command.stdin(Stdio::null());
        let log = running.log.clone();
        let start = || Process::start("target", command, &log, &log);
        let process = match &arguments.placed {
            Some(placed) => bench.on_cores(&placed.allowed, start),
            None => bench.on_all_cores(start),
        }?;
        running.process = Some(process);
        Ok(running)
    }

    /// Waits until a server of the target listens at `address`.
    ///
    /// # Errors
    /// The target ends; no server within the timeout; `stop` was raised.
    pub(crate) fn wait_for_server(&mut self, address: &MemifAddress, stop: &Stop) -> Result<()> {
        server::wait_for_server(address, self.timeout, || stop.check().and_then(|()| self.check()))
    }

    /// Waits until the target connects as the client of a memif.
    ///
    /// # Errors
    /// The target ends, does not connect, or violates the protocol; `stop` was raised.
    pub(crate) fn accept(&mut self, listener: &Listener, stop: &Stop) -> Result<Memif> {
        listener.accept(self.timeout, || stop.check().and_then(|()| self.check()))
    }

    /// Checks that the target runs.
    ///
    /// # Errors
    /// The target has ended; the error has the last lines of the log, or only the last line if the
    /// machine lacks something.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        match process.poll()? {
            None => Ok(()),
            Some(status) if status.code() == Some(MACHINE_LACKS_STATUS) => {
                Err(environment(self.log_tail().lines().last().unwrap_or_default()))
            }
            Some(status) => {
                bail!("the target ended ({status}); end of its log:\n{}", self.log_tail())
            }
        }
    }

    /// Pauses the target until [`Self::resume`].
    pub(crate) fn pause(&self) {
        self.process.iter().for_each(Process::pause);
    }

    /// Resumes the target.
    pub(crate) fn resume(&self) {
        self.process.iter().for_each(Process::resume);
    }

    /// Returns the last lines of the target's log.
    #[must_use]
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// Returns the CPU time of the target's threads by core, since the start. Unit: 10 ms.
    #[must_use]
    pub(crate) fn cpu_by_core(&self) -> BTreeMap<u16, u64> {
        let pid = self.process.as_ref().map(Process::id);
        pid.map_or_else(BTreeMap::new, cpu_by_core)
    }

    /// Returns how long threads on the cores of the target's workers have waited to run; `None` if
    /// the kernel does not report it or the tester did not start the target.
    #[must_use]
    pub(crate) fn run_queue_wait(&self) -> Option<RunQueueWait> {
        let pid = self.process.as_ref().map(Process::id)?;
        RunQueueWait::of(pid, &self.cores)
    }

    /// Returns a reader of the target's load; `None` unless the tester started an adit.
    #[must_use]
    pub(crate) fn load_probe(&self) -> Option<LoadProbe> {
        let (pid, adit) = (self.process.as_ref()?.id(), self.adit.clone()?);
        Some(LoadProbe { pid, adit, socket: self.dir.path().join("admin.sock") })
    }

    /// Returns the resident memory of the target; `None` unless the tester started it. Unit: KiB.
    #[must_use]
    pub(crate) fn memory_kib(&self) -> Option<u64> {
        let pid = self.process.as_ref()?.id();
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Returns the counters of the target, if it has any. Ends a testpmd, which prints its counters
    /// only at the end.
    pub(crate) fn counters(&mut self, stop: &Stop) -> Option<Value> {
        match self.kind {
            TargetKind::Adit => {
                let mut command = Command::new(self.adit.as_ref()?);
                command.args(["show", "counters", "--json", "--socket"]);
                command.arg(self.dir.path().join("admin.sock"));
                let program =
                    TimedProgram::start(self.dir.path(), "show", command, SHOW_TIMEOUT).ok()?;
                let output = program.wait(stop).ok().filter(|output| output.success)?;
                serde_json::from_str(&output.stdout).ok()
            }
            TargetKind::Testpmd => {
                self.process.as_mut()?.terminate().ok()?;
                let text = fs::read_to_string(&self.log).ok()?;
                testpmd::counters(&text)
            }
            TargetKind::Upf | TargetKind::L2 => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(n3: &str, n6: &str) -> Result<TargetAccess> {
        let option = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        TargetAccess::of_options(&[("--n3", &option(n3)), ("--n6", &option(n6))])
    }

    #[test]
    fn ports_of_a_upf_are_devices_or_own_memifs() {
        let own = access("memif:/run/n3.sock", "memif:@n6").unwrap();
        let (n3, n6) = (MemifAddress::File("/run/n3.sock".into()), MemifAddress::from("@n6"));
        assert_eq!(own, TargetAccess::Memif(vec![n3, n6]));
        assert_eq!(own.memif_servers().unwrap(), []);
        for (n3, n6, wanted) in [
            ("net_null0", "", "needs --n6 DEVICE"),
            ("net_null0", "memif:/run/n6.sock", "--n3 and --n6: use memif:SOCKET for all"),
            ("memif:", "memif:/run/n6.sock", "--n3 memif:: the socket has no name"),
            ("memif:/run/n3.sock", "memif:@", "--n6 memif:@: the socket has no name"),
        ] {
            let error = access(n3, n6).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn tester_waits_for_the_servers_of_its_client_ports() {
        let servers = |n3, n6| access(n3, n6).unwrap().memif_servers().unwrap();
        let server = "net_memif0,role=server,socket=/run/a.sock";
        assert_eq!(servers(server, "0000:03:00.1"), []);
        let file = "net_memif1,role=client,socket=/run/a.sock,socket-abstract=no";
        assert_eq!(servers(server, file), [MemifAddress::from("/run/a.sock")]);
        // The driver's defaults: a client, an abstract socket.
        let both = ["@/run/a.sock", "@/run/memif.sock"].map(MemifAddress::from);
        assert_eq!(servers("net_memif0,socket=/run/a.sock", "net_memif1"), both);
    }
}
