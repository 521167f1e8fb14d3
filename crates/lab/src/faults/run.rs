//! Makes one run: starts hosts and processes, injects faults one after another, and checks the
//! results.

use std::fs;
use std::path::Path;
use std::time::Duration;

use adit_lab_process::stop::Stop;
use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::faults::book::{Finding, FindingKind};
use crate::faults::checker::{self, ACCEPTED_AGAIN_MAX_MS};
use crate::faults::fault::{FaultKind, FaultPlan, FaultRecord};
use crate::faults::monitor::Monitor;
use crate::faults::nemesis::FaultTargets;
use crate::faults::observer::PromotingObserver;
use crate::faults::report::{Activity, RunReport};
use crate::faults::server::Server;
use crate::faults::setting::StoreSetting;
use crate::faults::shim::Shim;
use crate::faults::smf::BookingSmf;
use crate::faults::switch::Observations;
use crate::faults::timeline::{StallDetector, Timeline, lock};
use crate::faults::upf::TestedUpf;
use crate::faults::users::{INTERVAL, Users};
use crate::faults::world::Hosts;

/// Interval at which the loop watches all processes.
const TURN_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time until processes run and sessions have packets. Unit: ms.
const START_MAX_MS: u64 = 60_000;
/// Maximum time to wait until all processes are back in their roles after a fault; then the run
/// continues. Unit: ms.
const WHOLE_MAX_MS: u64 = 20_000;
/// Maximum time until open requests are answered or given up at the end. Unit: ms.
const SETTLE_MAX_MS: u64 = 15_000;
const SHOW_PATIENCE: Duration = Duration::from_secs(10);

/// The options of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions<'o> {
    pub setting: StoreSetting,
    pub seed: u64,
    pub duration_ms: u64,
    pub kinds: Vec<FaultKind>,
    /// The binaries of this release and of the previous one.
    pub binaries: [&'o Path; 2],
    /// Folder for the files of this run.
    pub dir: &'o Path,
}

/// The processes of a run. Drop ends them, then removes the devices and folders that they use.
struct RunProcesses {
    users: Option<Users>,
    smf: BookingSmf,
    monitor: Monitor,
    observer: Option<PromotingObserver>,
    upfs: Vec<TestedUpf>,
    servers: Vec<Server>,
    server_shims: Vec<Option<Shim>>,
    hosts: Hosts,
    stalls: StallDetector,
    timeline: Timeline,
    observations: Observations,
}

/// Makes a run.
///
/// # Errors
/// The hosts or processes cannot be started, or `stop` was raised.
pub(crate) fn run(
    options: &RunOptions<'_>,
    stop: &Stop,
    progress: &dyn Fn(&str),
) -> Result<RunReport> {
    let mut running = start(options)?;
    running.wait_for_packets(stop)?;
    let mut faults = Vec::new();
    let plan = FaultPlan::new(options.kinds.clone(), options.seed);
    let end_ms = running.timeline.now_ms() + options.duration_ms;
    for fault in plan {
        running.sleep(fault.gap_ms, stop)?;
        if running.timeline.now_ms() >= end_ms {
            break;
        }
        let record = running.fault(options, fault, stop, progress)?;
        faults.push(record);
    }
    finish(options, running, faults, stop)
}

fn start(options: &RunOptions<'_>) -> Result<RunProcesses> {
    let timeline = Timeline::start();
    let setting = options.setting;
    let hosts = Hosts::make(setting.upfs(), setting.servers(), &timeline)?;
    let library = match options.kinds.iter().any(|kind| kind.needs_shim()) {
        true => Shim::compile(options.dir)?,
        false => None,
    };
    let shim = |name: &str| library.as_deref().map(|library| Shim::new(library, name)).transpose();
    let (mut servers, mut server_shims) = (Vec::new(), Vec::new());
    for (at, host) in hosts.servers.iter().enumerate() {
        let mut server = Server::new(at, options.dir, &setting.server_options())?;
        let shim = shim(&server.name)?;
        server.start(host, shim.as_ref())?;
        servers.push(server);
        server_shims.push(shim);
    }
    crate::faults::server::join(setting, &servers, &hosts.world)?;
    let observer = match setting {
        StoreSetting::Replicated => {
            Some(PromotingObserver::start(&hosts.world, servers.len(), &timeline)?)
        }
        _ => None,
    };
    let mut upfs = Vec::new();
    for (at, host) in hosts.upfs.iter().enumerate() {
        let [binary, _] = options.binaries;
        let mut upf = TestedUpf::new(at, options.dir, binary, setting, &timeline)?;
        upf.shim = shim(upf.name)?;
        upf.start(host)?;
        upfs.push(upf);
    }
    let monitor = Monitor::start(&timeline)?;
    let smf = BookingSmf::start(&hosts.world, options.seed, &timeline)?;
    let users = Users::start(&hosts.world, smf.shared_book(), &timeline)?;
    let stalls = StallDetector::start(&timeline);
    Ok(RunProcesses {
        users: Some(users),
        smf,
        monitor,
        observer,
        upfs,
        servers,
        server_shims,
        hosts,
        stalls,
        timeline,
        observations: Observations::default(),
    })
}

impl RunProcesses {
    /// Waits one interval, restarts processes that have ended, and collects observations.
    fn turn(&mut self, stop: &Stop) -> Result<()> {
        stop.sleep(TURN_INTERVAL)?;
        for (at, (upf, host)) in self.upfs.iter_mut().zip(&self.hosts.upfs).enumerate() {
            upf.supervise(host)?;
            self.monitor.set_target(at, upf.target());
        }
        let seen = self.hosts.switch.take_observations();
        self.observations.arp.extend(seen.arp);
        self.observations.pfcp.extend(seen.pfcp);
        Ok(())
    }

    fn sleep(&mut self, span_ms: u64, stop: &Stop) -> Result<()> {
        let end_ms = self.timeline.now_ms() + span_ms;
        while self.timeline.now_ms() < end_ms {
            self.turn(stop)?;
        }
        Ok(())
    }

    /// Waits until packets of users arrive in both directions.
    fn wait_for_packets(&mut self, stop: &Stop) -> Result<()> {
        let has_packets = |users: &Users| {
            let log = lock(users.log());
            [&log.uplink, &log.downlink]
                .into_iter()
                .all(|packets| packets.iter().filter(|one| one.arrivals > 0).count() > 20)
        };
        while !self.users.as_ref().is_some_and(has_packets) || !self.has_all_roles() {
            if self.timeline.now_ms() > START_MAX_MS {
                bail!(
                    "no packets of users within a minute; adit's last words: {}",
                    self.last_log_lines()
                );
            }
            self.turn(stop)?;
        }
        Ok(())
    }

    fn last_log_lines(&self) -> String {
        let words = self.upfs.iter().map(|upf| format!("{}: {}", upf.name, upf.last_log_line()));
        words.collect::<Vec<_>>().join("; ")
    }

    /// True if one adit is active and the other one, if there are two, is its standby.
    fn has_all_roles(&self) -> bool {
        let mut roles: Vec<String> =
            (0..self.upfs.len()).map(|at| self.monitor.status(at).role).collect();
        roles.sort();
        let wanted: &[&str] = if roles.len() == 1 { &["active"] } else { &["active", "standby"] };
        roles == wanted
    }

    fn fault(
        &mut self,
        options: &RunOptions<'_>,
        fault: crate::faults::fault::PlannedFault,
        stop: &Stop,
        progress: &dyn Fn(&str),
    ) -> Result<FaultRecord> {
        let start_ms = self.timeline.now_ms();
        let held = self.scene(options).inject(fault)?;
        self.note(format!("begins: {}", held.text));
        progress(&held.text);
        self.sleep(fault.hold_ms / 2, stop)?;
        self.scene(options).continue_fault(&held)?;
        self.sleep(fault.hold_ms - fault.hold_ms / 2, stop)?;
        self.scene(options).end_fault(&held)?;
        self.note(format!("ends: {}", held.text));
        let end_ms = self.timeline.now_ms();
        if held.starts_upf && !held.calls_standby {
            self.wait_for(WHOLE_MAX_MS, stop, Self::has_all_roles)?;
        }
        // Waits until a primary exists, and the replica that must have each change: before, no
        // change can be accepted.
        let limit_ms = self.timeline.now_ms() + WHOLE_MAX_MS;
        while self.timeline.now_ms() < limit_ms && !self.scene(options).can_accept() {
            self.turn(stop)?;
        }
        let due_from_ms = match held.calls_standby {
            // A request that was open at the start may still be answered.
            true => start_ms + 100,
            false => self.timeline.now_ms(),
        };
        self.wait_for(WHOLE_MAX_MS, stop, |running| {
            running.has_all_roles() && running.has_accepted_change_since(due_from_ms)
        })?;
        Ok(FaultRecord {
            kind: held.kind,
            text: held.text,
            start_ms,
            end_ms,
            due_from_ms,
            bound_ms: ACCEPTED_AGAIN_MAX_MS,
            accepted_ms: None,
            whole_ms: self.timeline.now_ms(),
            is_too_slow_to_judge: false,
        })
    }

    fn note(&self, text: String) {
        self.timeline.note(crate::faults::timeline::EventKind::Fault, "nemesis", text);
    }

    fn has_accepted_change_since(&self, from_ms: u64) -> bool {
        let book = lock(self.smf.book());
        let last = book.counted.iter().rev().find(|answer| answer.is_accepted);
        last.is_some_and(|answer| answer.at_ms >= from_ms)
    }

    /// Waits until `is_met` holds, for at most `limit_ms`. Returns whether it held.
    fn wait_for(
        &mut self,
        limit_ms: u64,
        stop: &Stop,
        is_met: impl Fn(&Self) -> bool,
    ) -> Result<bool> {
        let end_ms = self.timeline.now_ms() + limit_ms;
        while self.timeline.now_ms() < end_ms {
            if is_met(self) {
                return Ok(true);
            }
            self.turn(stop)?;
        }
        Ok(false)
    }

    fn scene<'s>(&'s mut self, options: &RunOptions<'s>) -> FaultTargets<'s> {
        FaultTargets {
            setting: options.setting,
            switch: &self.hosts.switch,
            upf_hosts: &self.hosts.upfs,
            server_hosts: &self.hosts.servers,
            upfs: &mut self.upfs,
            servers: &mut self.servers,
            server_shims: &self.server_shims,
            monitor: &self.monitor,
            observer: self.observer.as_ref(),
            smf: &self.smf,
            binaries: options.binaries,
        }
    }

    /// Returns the sessions that the active adit shows, once no requests are open.
    fn settled_sessions(&mut self, stop: &Stop) -> Result<Option<Value>> {
        self.smf.set_quiet(true);
        self.wait_for(SETTLE_MAX_MS, stop, |running| lock(running.smf.book()).open_requests == 0)?;
        // After an association was set up again, the UPF may still be deleting sessions.
        self.sleep(1000, stop)?;
        // Retries, because a slow answer at this moment is no violation.
        let limit_ms = self.timeline.now_ms() + WHOLE_MAX_MS;
        loop {
            let active = self.monitor.active();
            let target = active.and_then(|at| self.upfs.get(at)?.target());
            let shown = target.and_then(|target| target.show("sessions", SHOW_PATIENCE).ok());
            if shown.is_some() || self.timeline.now_ms() >= limit_ms {
                return Ok(shown);
            }
            self.turn(stop)?;
        }
    }

    /// Deletes the held sessions, to get their last usage reports.
    fn release_held(&mut self, stop: &Stop) -> Result<()> {
        self.smf.release_held();
        self.sleep(200, stop)?;
        self.wait_for(SETTLE_MAX_MS, stop, |running| lock(running.smf.book()).open_requests == 0)?;
        Ok(())
    }
}

fn finish(
    options: &RunOptions<'_>,
    mut running: RunProcesses,
    mut faults: Vec<FaultRecord>,
    stop: &Stop,
) -> Result<RunReport> {
    running.sleep(1000, stop)?;
    let shown = running.settled_sessions(stop)?;
    let compared_ms = running.timeline.now_ms();
    let mut findings = match &shown {
        Some(shown) => checker::sessions(compared_ms, &lock(running.smf.book()), shown),
        None => {
            let text = "no adit shows its sessions at the end".to_owned();
            vec![Finding { at_ms: compared_ms, kind: FindingKind::Late, text }]
        }
    };
    let log = running.users.take().context("users run")?.finish();
    running.release_held(stop)?;
    let end_ms = running.timeline.now_ms();
    let stalls = running.stalls.finish();
    let stalls = [stalls, running.monitor.starved()].concat();
    let book = std::mem::take(&mut *lock(running.smf.book()));
    let roles = running.monitor.roles();
    findings.extend(book.findings.iter().cloned());
    findings.extend(checker::acceptance(&mut faults, &book, &stalls, end_ms));
    findings.extend(checker::answers(&running.observations.pfcp, &roles));
    let spans = checker::two_answer_spans_of(&running.observations.arp);
    findings.extend(checker::long_spans(&spans, &stalls));
    let losses = checker::packets(&book, &log, &faults, &stalls);
    findings.extend(checker::unexplained(&losses));
    let crashes = process_end_count(&faults);
    let interval_ms = u64::try_from(INTERVAL.as_millis()).unwrap_or(5);
    let (usage, of_usage) = checker::usage(end_ms, &book, &log, crashes, interval_ms);
    findings.extend(of_usage);
    let memory = running.monitor.memory();
    let (memory_growth_kib, of_memory) = checker::memory(&memory);
    findings.extend(of_memory);
    for upf in &running.upfs {
        findings.extend(upf.unexpected_ends.iter().map(|(at_ms, text)| Finding {
            at_ms: *at_ms,
            kind: FindingKind::Crash,
            text: format!("{} {text}", upf.name),
        }));
    }
    findings.sort_by_key(|finding| finding.at_ms);
    let unpromised: Vec<String> = faults
        .iter()
        .filter(|fault| fault.kind.is_beyond_promises())
        .map(|fault| fault.kind.name())
        .collect();
    Ok(RunReport {
        setting: options.setting,
        seed: options.seed,
        duration_ms: end_ms,
        activity: Activity::of(&book, &log, end_ms),
        events: running.timeline.events(),
        roles,
        stalled_ms: stalls.iter().map(|stall| stall.length_ms).sum(),
        longest_stall_ms: stalls.iter().map(|stall| stall.length_ms).max().unwrap_or(0),
        two_answer_spans: spans,
        losses,
        usage,
        memory_growth_kib,
        memory,
        sessions: crate::faults::report::RunSessions::of(&book, shown.as_ref()),
        unpromised,
        findings,
        faults,
    })
}

/// Returns how often a process ended and may have lost the usage since its last record.
fn process_end_count(faults: &[FaultRecord]) -> u64 {
    let ends = faults.iter().filter(|fault| fault.kind.ends_process());
    u64::try_from(ends.count()).unwrap_or(u64::MAX)
}

/// Copies the logs and configurations of a run.
///
/// # Errors
/// A file cannot be copied.
pub(crate) fn keep_logs(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).context("read the folder of the run")?.flatten() {
        let path = entry.path();
        let target = to.join(entry.file_name());
        if path.is_dir() {
            keep_logs(&path, &target)?;
        } else if path.extension().is_some_and(|end| end == "log" || end == "toml") {
            fs::copy(&path, &target).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}
