//! Records the roles and the memory of both adits over time, by querying their admin sockets.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use adit_lab_process::stop::Stop;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use crate::faults::addresses::UPFS;
use crate::faults::starvation::CpuWaits;
use crate::faults::timeline::{EventKind, STALL_MIN_MS, Stall, Timeline, lock};
use crate::faults::upf::AdminTarget;

const INTERVAL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(500);
/// Memory is sampled once in this many queries.
const MEMORY_TURNS: u64 = 10;

/// The last answer of an adit to a query.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct UpfStatus {
    /// Role, such as `active` or `standby`; empty if the adit does not answer.
    pub role: String,
    /// State of the store, such as `working` or `failing`.
    pub state: String,
    /// The epoch of the adit's lease.
    pub epoch: Option<u64>,
}

/// The role of an adit, from a time on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RoleSample {
    /// Start of the role. Unit: ms since the start of the run.
    pub at_ms: u64,
    pub upf: usize,
    #[serde(flatten)]
    pub status: UpfStatus,
}

/// Resident memory of a process at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct MemorySample {
    /// Time of the sample. Unit: ms since the start of the run.
    pub at_ms: u64,
    pub upf: usize,
    pub pid: u32,
    /// True if the adit was the standby, which has not touched the memory for packets yet.
    pub is_standby: bool,
    /// Resident memory. Unit: KiB.
    pub kib: u64,
}

#[derive(Debug, Default)]
struct MonitorState {
    targets: [Option<AdminTarget>; UPFS.len()],
    status: [UpfStatus; UPFS.len()],
    memory: Vec<MemorySample>,
    roles: Vec<RoleSample>,
    starved: Vec<Stall>,
}

/// The running monitor. Drop ends it.
#[derive(Debug)]
pub(crate) struct Monitor {
    state: Arc<Mutex<MonitorState>>,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Monitor {
    /// Starts a thread for each adit, so that an adit that hangs does not delay queries of the
    /// other.
    /// # Errors
    /// The system can start no thread.
    /// The system has no thread left.
    pub(crate) fn start(timeline: &Timeline) -> Result<Self> {
        let mut monitor =
            Self { state: Arc::default(), stop: Stop::default(), threads: Vec::new() };
        for at in 0..UPFS.len() {
            let (state, stop) = (Arc::clone(&monitor.state), monitor.stop.clone());
            let timeline = timeline.clone();
            let thread = thread::Builder::new()
                .name("monitor".to_owned())
                .spawn(move || watch(at, &state, &stop, &timeline))
                .context("start the monitor")?;
            monitor.threads.push(thread);
        }
        Ok(monitor)
    }

    /// Sets where to query an adit.
    pub(crate) fn set_target(&self, at: usize, target: Option<AdminTarget>) {
        if let Some(own) = lock(&self.state).targets.get_mut(at) {
            *own = target;
        }
    }

    /// Returns the last answer of an adit.
    pub(crate) fn status(&self, at: usize) -> UpfStatus {
        lock(&self.state).status.get(at).cloned().unwrap_or_default()
    }

    /// Returns the adit that is active; if both claim to be, the first.
    pub(crate) fn active(&self) -> Option<usize> {
        lock(&self.state).status.iter().position(|status| status.role == "active")
    }

    /// Returns the times at which other processes occupied the CPUs of an adit.
    pub(crate) fn starved(&self) -> Vec<Stall> {
        lock(&self.state).starved.clone()
    }

    /// Returns the roles so far, in the order of time.
    pub(crate) fn roles(&self) -> Vec<RoleSample> {
        lock(&self.state).roles.clone()
    }

    /// Returns the samples of memory so far.
    pub(crate) fn memory(&self) -> Vec<MemorySample> {
        lock(&self.state).memory.clone()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop.raise();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                eprintln!("adit-lab: the monitor panicked");
            }
        }
    }
}

fn watch(at: usize, state: &Mutex<MonitorState>, stop: &Stop, timeline: &Timeline) {
    let (mut turn, mut waits) = (0_u64, CpuWaits::default());
    while !stop.is_raised() {
        let target = lock(state).targets.get(at).cloned().flatten();
        let document = target.as_ref().and_then(|target| target.show("store", PATIENCE).ok());
        let text = |key: &str| {
            let value = document.as_ref().and_then(|document| document.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let epoch = document.as_ref().and_then(|document| document.get("epoch")?.as_u64());
        let status = UpfStatus { role: text("role"), state: text("state"), epoch };
        let length_ms = target.as_ref().map_or(0, |target| waits.sample_waits(target.pid()));
        let mut now = lock(state);
        if length_ms >= STALL_MIN_MS {
            now.starved.push(Stall { end_ms: timeline.now_ms(), length_ms });
        }
        let before = now.status.get(at).cloned();
        if before.is_some_and(|before| before != status) {
            let who = UPFS.get(at).copied().unwrap_or_default();
            let words = if status.role.is_empty() {
                "does not answer".to_owned()
            } else {
                format!("{}, store {}", status.role, status.state)
            };
            timeline.note(EventKind::Role, who, words);
            now.roles.push(RoleSample {
                at_ms: timeline.now_ms(),
                upf: at,
                status: status.clone(),
            });
            now.status.iter_mut().skip(at).take(1).for_each(|own| *own = status.clone());
        }
        if turn.is_multiple_of(MEMORY_TURNS)
            && let Some(target) = &target
            && let Some(kib) = target.memory_kib()
        {
            let (at_ms, pid) = (timeline.now_ms(), target.pid());
            let is_standby = status.role == "standby";
            now.memory.push(MemorySample { at_ms, upf: at, pid, is_standby, kib });
        }
        drop(now);
        turn += 1;
        thread::sleep(INTERVAL);
    }
}
