//! Injects faults, and ends them.

use std::path::Path;
use std::time::Duration;

use adit_lab_process::netns::NetNamespace;
use anyhow::{Context, Result};

use crate::faults::addresses::{STORE_NETWORK, UPFS, WORLD, port};
use crate::faults::fault::{FaultKind, PlannedFault};
use crate::faults::monitor::Monitor;
use crate::faults::observer::PromotingObserver;
use crate::faults::server::Server;
use crate::faults::setting::StoreSetting;
use crate::faults::shim::Shim;
use crate::faults::smf::BookingSmf;
use crate::faults::switch::{PathRule, PortRules, Switch};
use crate::faults::upf::TestedUpf;

/// A key in the same hash slot as the records.
const PROBED_KEY: &str = "adit:{upf}:probe";
/// By how much a clock is stepped. Unit: s.
const CLOCK_STEP_S: i64 = 3600;

/// The processes and networks that faults act on.
pub(crate) struct FaultTargets<'s> {
    pub setting: StoreSetting,
    pub switch: &'s Switch,
    pub upf_hosts: &'s [NetNamespace],
    pub server_hosts: &'s [NetNamespace],
    pub upfs: &'s mut [TestedUpf],
    pub servers: &'s mut [Server],
    pub server_shims: &'s [Option<Shim>],
    pub monitor: &'s Monitor,
    pub observer: Option<&'s PromotingObserver>,
    pub smf: &'s BookingSmf,
    /// The binaries of this release and of the previous one.
    pub binaries: [&'s Path; 2],
}

/// A fault that is in effect.
#[derive(Debug)]
pub(crate) struct ActiveFault {
    pub kind: FaultKind,
    pub text: String,
    upf: usize,
    server: usize,
    /// The affected network device of `upf`.
    device: String,
    /// The replica that a promotion fault promotes.
    replica: Option<usize>,
    /// True if the fault separates the active adit from its store, ends its process or cuts off its
    /// host, so that the standby must take over.
    pub calls_standby: bool,
    /// True if an adit is started when the fault ends.
    pub starts_upf: bool,
}

impl FaultTargets<'_> {
    /// Begins a fault.
    ///
    /// # Errors
    /// The fault cannot be injected.
    pub(crate) fn inject(&mut self, fault: PlannedFault) -> Result<ActiveFault> {
        let active = self.monitor.active().unwrap_or(0);
        let is_standby = matches!(fault.kind, FaultKind::KillStandby | FaultKind::StopStandby);
        let upf = if is_standby { 1 - active.min(1) } else { active };
        let networks: &[u8] = match self.setting {
            StoreSetting::Journal => &[3, 4, 6],
            _ => &[STORE_NETWORK, 3, 4, 6, STORE_NETWORK],
        };
        let pick = usize::try_from(fault.pick).unwrap_or(0);
        let network = networks.get(pick % networks.len()).copied().unwrap_or(4);
        let name = UPFS.get(upf).copied().unwrap_or_default();
        let mut held = ActiveFault {
            kind: fault.kind,
            text: fault.kind.name(),
            upf,
            server: self.primary(),
            device: port(name, network),
            replica: None,
            calls_standby: false,
            starts_upf: false,
        };
        let words = match fault.kind {
            FaultKind::KillActive
            | FaultKind::KillStandby
            | FaultKind::TerminateActive
            | FaultKind::StopActive
            | FaultKind::StopStandby
            | FaultKind::Update => self.begin_process_fault(&mut held, is_standby)?,
            FaultKind::LinkDown
            | FaultKind::Silent
            | FaultKind::SilentOneWay
            | FaultKind::Degraded => self.begin_network_fault(&mut held, network, fault.pick)?,
            FaultKind::N4Cut => {
                self.switch.set(&port(WORLD, 4), SILENT);
                String::new()
            }
            FaultKind::SmfRestart => {
                self.smf.restart();
                String::new()
            }
            FaultKind::SmfSetup => {
                self.smf.set_up_again();
                String::new()
            }
            FaultKind::ClockStep => self.step_clock(&held, fault.pick)?,
            FaultKind::DiskFull
            | FaultKind::DiskFails
            | FaultKind::FilesRemoved
            | FaultKind::SlowSync => self.begin_disk_fault(&held, fault.pick)?,
            FaultKind::KillServer
            | FaultKind::StopServer
            | FaultKind::SilentServer
            | FaultKind::EmptyServer
            | FaultKind::FullServer
            | FaultKind::EvictingServer
            | FaultKind::StalePromotion => self.begin_server_fault(&mut held, fault.pick)?,
        };
        held.text += &words;
        Ok(held)
    }

    /// Begins a fault in the process of an adit. Returns a description.
    fn begin_process_fault(&mut self, held: &mut ActiveFault, is_standby: bool) -> Result<String> {
        held.calls_standby = self.setting != StoreSetting::Journal && !is_standby;
        let former = self.binaries[1].to_owned();
        let host = self.upf_hosts.get(held.upf).context("no such adit")?;
        let upf = self.upfs.get_mut(held.upf).context("no such adit")?;
        match held.kind {
            FaultKind::StopActive | FaultKind::StopStandby => upf.pause(),
            FaultKind::Update => {
                held.starts_upf = true;
                upf.stop_process(false)?;
                upf.use_binary(&former);
                upf.start(host)?;
            }
            kind => {
                held.starts_upf = true;
                upf.stop_process(kind != FaultKind::TerminateActive)?;
            }
        }
        Ok(format!(" {}", upf.name))
    }

    /// Begins a fault of a disk. Returns a description.
    fn begin_disk_fault(&mut self, held: &ActiveFault, pick: u32) -> Result<String> {
        match held.kind {
            FaultKind::DiskFails => self.upf_shim(held.upf)?.fail_disk(true)?,
            FaultKind::FilesRemoved => self.upf(held.upf)?.disk()?.remove_files()?,
            FaultKind::SlowSync => {
                let span_ms = 20 + i64::from(pick % 480);
                let (shim, who) = self.syncing_process(held)?;
                shim.slow_syncs(span_ms)?;
                return Ok(format!(" of {who}: {span_ms} ms"));
            }
            _ => {
                // A journal segment has its space reserved, so the segment must be used up too.
                self.smf.set_unpaced(true);
                self.upf(held.upf)?.disk()?.fill()?;
            }
        }
        Ok(String::new())
    }

    /// Begins a fault in a network of the active adit. Returns a description.
    fn begin_network_fault(
        &mut self,
        held: &mut ActiveFault,
        network: u8,
        pick: u32,
    ) -> Result<String> {
        held.calls_standby = network == STORE_NETWORK && held.kind != FaultKind::Degraded;
        if held.kind == FaultKind::LinkDown {
            self.set_link(held.upf, network, "down")?;
            return Ok(format!(" {}", held.device));
        }
        let (rules, words) = rules(held.kind, pick);
        self.switch.set(&held.device, rules);
        Ok(format!(" {}: {words}", held.device))
    }

    /// Begins a fault of the primary server. Returns a description.
    fn begin_server_fault(&mut self, held: &mut ActiveFault, pick: u32) -> Result<String> {
        let name = format!("s{}", held.server + 1);
        let server = self.servers.get_mut(held.server).context("no such server")?;
        match held.kind {
            FaultKind::KillServer => server.kill()?,
            FaultKind::StopServer => server.pause(),
            FaultKind::SilentServer => self.switch.set(&port(&name, STORE_NETWORK), SILENT),
            FaultKind::EmptyServer => {
                server.kill()?;
                server.forget()?;
                self.start_server(held.server)?;
            }
            FaultKind::StalePromotion => {
                let replicas: Vec<usize> =
                    (0..self.servers.len()).filter(|at| *at != held.server).collect();
                let nth = usize::try_from(pick).unwrap_or(0) % replicas.len().max(1);
                held.replica = replicas.get(nth).copied();
                self.observer.iter().for_each(|observer| observer.set_enabled(false));
                let replica = format!("s{}", held.replica.unwrap_or(0) + 1);
                self.switch.set(&port(&replica, STORE_NETWORK), SILENT);
                return Ok(format!(" of {replica}, {name} is killed"));
            }
            kind => {
                let is_full = kind == FaultKind::FullServer;
                let policy = if is_full { "noeviction" } else { "allkeys-random" };
                server.ask(&["CONFIG", "SET", "maxmemory-policy", policy])?;
                server.ask(&["CONFIG", "SET", "maxmemory", "1"])?;
            }
        }
        Ok(format!(" {name}"))
    }

    /// Does the second step of a fault that has two.
    ///
    /// # Errors
    /// The step fails.
    pub(crate) fn continue_fault(&mut self, held: &ActiveFault) -> Result<()> {
        let Some(replica) = held.replica else { return Ok(()) };
        // Promotes the replica before it can receive the writes that it has missed.
        self.server(replica)?.ask(&["REPLICAOF", "NO", "ONE"])?;
        self.server(held.server)?.kill()?;
        self.switch.heal();
        let promoted = self.server(replica)?.address();
        for at in 0..self.servers.len() {
            if at != replica && at != held.server {
                let (ip, port) = (promoted.ip().to_string(), promoted.port().to_string());
                self.server(at)?.ask(&["REPLICAOF", &ip, &port])?;
            }
        }
        Ok(())
    }

    /// Ends a fault.
    ///
    /// # Errors
    /// The fault cannot be ended.
    pub(crate) fn end_fault(&mut self, held: &ActiveFault) -> Result<()> {
        self.switch.heal();
        match held.kind {
            FaultKind::KillActive | FaultKind::KillStandby | FaultKind::TerminateActive => {
                let host = self.upf_hosts.get(held.upf).context("no such adit")?;
                self.upfs.get_mut(held.upf).context("no such adit")?.start(host)?;
            }
            FaultKind::StopActive | FaultKind::StopStandby => self.upf(held.upf)?.resume(),
            FaultKind::LinkDown => {
                let network = held.device.chars().next_back().and_then(|one| one.to_digit(10));
                let network = network.and_then(|network| u8::try_from(network).ok()).unwrap_or(4);
                self.set_link(held.upf, network, "up")?;
            }
            FaultKind::KillServer => self.start_server(held.server)?,
            FaultKind::StopServer => self.server(held.server)?.resume(),
            FaultKind::FullServer | FaultKind::EvictingServer => {
                let server = self.server(held.server)?;
                server.ask(&["CONFIG", "SET", "maxmemory", "0"])?;
                server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])?;
            }
            FaultKind::StalePromotion => {
                self.start_server(held.server)?;
                self.observer.iter().for_each(|observer| observer.set_enabled(true));
            }
            FaultKind::ClockStep => {
                let own = self.upfs.iter().filter_map(|upf| upf.shim.as_ref());
                own.chain(self.server_shims.iter().flatten())
                    .try_for_each(|shim| shim.step_clock(0))?;
            }
            FaultKind::Update => {
                let current = self.binaries[0].to_owned();
                let host = self.upf_hosts.get(held.upf).context("no such adit")?;
                let upf = self.upfs.get_mut(held.upf).context("no such adit")?;
                upf.stop_process(false)?;
                upf.use_binary(&current);
                upf.start(host)?;
            }
            FaultKind::Silent
            | FaultKind::SilentOneWay
            | FaultKind::Degraded
            | FaultKind::N4Cut
            | FaultKind::SmfRestart
            | FaultKind::SmfSetup
            | FaultKind::SilentServer
            | FaultKind::EmptyServer
            | FaultKind::FilesRemoved => {}
            FaultKind::DiskFails => self.upf_shim(held.upf)?.fail_disk(false)?,
            FaultKind::DiskFull => {
                self.smf.set_unpaced(false);
                self.upf(held.upf)?.disk()?.free()?;
            }
            FaultKind::SlowSync => self.syncing_process(held)?.0.slow_syncs(0)?,
        }
        Ok(())
    }

    fn upf(&mut self, at: usize) -> Result<&mut TestedUpf> {
        self.upfs.get_mut(at).context("no such adit")
    }

    fn server(&mut self, at: usize) -> Result<&mut Server> {
        self.servers.get_mut(at).context("no such server")
    }

    fn upf_shim(&self, upf: usize) -> Result<&Shim> {
        self.upfs.get(upf).and_then(|upf| upf.shim.as_ref()).context("no shim")
    }

    /// Returns the shim of the process that syncs acknowledged changes, and its name: the primary
    /// server, or the adit with the journal.
    fn syncing_process(&self, held: &ActiveFault) -> Result<(&Shim, String)> {
        if self.setting == StoreSetting::Journal {
            let name = UPFS.get(held.upf).copied().unwrap_or_default();
            return Ok((self.upf_shim(held.upf)?, name.to_owned()));
        }
        let shim = self.server_shims.get(held.server).and_then(Option::as_ref);
        Ok((shim.context("no shim")?, format!("s{}", held.server + 1)))
    }

    fn start_server(&mut self, at: usize) -> Result<()> {
        let host = self.server_hosts.get(at).context("no such server")?;
        let shim = self.server_shims.get(at).and_then(Option::as_ref);
        self.servers.get_mut(at).context("no such server")?.start(host, shim)
    }

    fn set_link(&self, upf: usize, network: u8, state: &str) -> Result<()> {
        let host = self.upf_hosts.get(upf).context("no such adit")?;
        host.ip_batch(&[], &format!("link set n{network} {state}\n"))
    }

    /// Returns the server that is the primary of the records, or the first server while there is
    /// none.
    fn primary(&self) -> usize {
        self.running_primary().unwrap_or(0)
    }

    /// Returns the server that is the primary of the records, if it runs.
    fn running_primary(&self) -> Option<usize> {
        let is_primary = |server: &Server| {
            server.is_running()
                && server.ask(&["ROLE"]).is_ok_and(|words| is_role(&words, "master"))
                && server.ask(&["GET", PROBED_KEY]).is_ok()
        };
        self.servers.iter().position(is_primary)
    }

    /// True if the servers can accept a change: there is a primary and, if the setting requires
    /// each change on a replica, also a replica.
    pub(crate) fn can_accept(&self) -> bool {
        let Some(primary) = self.running_primary() else { return self.servers.is_empty() };
        if matches!(self.setting, StoreSetting::Server | StoreSetting::Pair) {
            return true;
        }
        let primary = self.servers.get(primary).map(|server| server.address().ip().to_string());
        let follows = |server: &Server| {
            server.ask(&["ROLE"]).is_ok_and(|words| {
                is_role(&words, "slave")
                    && words.get(1) == primary.as_ref()
                    && words.get(3).is_some_and(|state| state == "connected")
            })
        };
        self.servers.iter().any(|server| server.is_running() && follows(server))
    }

    /// Steps the clock of the active adit or of the primary server. Returns a description.
    fn step_clock(&self, held: &ActiveFault, pick: u32) -> Result<String> {
        let step_s = if pick.is_multiple_of(2) { CLOCK_STEP_S } else { -CLOCK_STEP_S };
        let of_server = self.server_shims.get(held.server).and_then(Option::as_ref);
        let of_upf = self.upfs.get(held.upf).and_then(|upf| upf.shim.as_ref());
        let (shim, who) = match of_server.filter(|_| (pick / 2).is_multiple_of(2)) {
            Some(shim) => (Some(shim), format!("s{}", held.server + 1)),
            None => (of_upf, UPFS.get(held.upf).copied().unwrap_or_default().to_owned()),
        };
        shim.map_or(Ok(()), |shim| shim.step_clock(step_s))?;
        Ok(format!(" of {who}: {step_s:+} s"))
    }
}

const SILENT: PortRules = PortRules { from_host: PathRule::SILENT, to_host: PathRule::SILENT };

/// True if the reply to `ROLE` begins with this role.
fn is_role(words: &[String], role: &str) -> bool {
    words.first().is_some_and(|word| word == role)
}

/// Returns the rules of the switch for a network fault, and their description.
fn rules(kind: FaultKind, pick: u32) -> (PortRules, String) {
    let pick = pick / 8;
    match kind {
        FaultKind::SilentOneWay if pick.is_multiple_of(2) => {
            let rules = PortRules { from_host: PathRule::SILENT, ..PortRules::default() };
            (rules, "what it sends vanishes".to_owned())
        }
        FaultKind::SilentOneWay => {
            let rules = PortRules { to_host: PathRule::SILENT, ..PortRules::default() };
            (rules, "what it shall receive vanishes".to_owned())
        }
        FaultKind::Degraded => {
            let loss_permille = u16::try_from(pick % 200).unwrap_or(0);
            let delay = Duration::from_millis(u64::from(pick / 200 % 150));
            let path = PathRule { drops: false, loss_permille, delay };
            let words =
                format!("{loss_permille} ‰ lost and {} ms late each way", delay.as_millis());
            (PortRules { from_host: path, to_host: path }, words)
        }
        _ => (SILENT, "all vanishes".to_owned()),
    }
}
