//! `[datapath]`: the threads of the packet path.

use std::collections::BTreeMap;

use adit_datapath::Spread;
use adit_machine::placement::SiblingPolicy;
use adit_types::limits::{BURST_DEFAULT, BURST_MAX, WORKERS_MAX};
use adit_types::{Role, Roles};
use adit_wire::rss::ToeplitzKey;

use super::comparison::{BY_KEY, OnReload, PACKET_PATH};
use super::cpus::{CpuKey, Cpus, OtherCores, PerItem, PlacementSettings, ThreadCpus, per_item};
use super::declare::section;
use super::eventdev::{EventSection, EventSettings};
use super::keys::{IntoKey as _, Table};
use super::kinds::{Flag, Words, integer, words};
use super::section::ConfigDocument;

section! {
    /// The threads of the packet path.
    DatapathSection(PACKET_PATH) {
        /// Execution model. "run-to-completion": each worker receives, processes and transmits.
        /// "pipeline": receivers only receive, and hand each packet to the worker that owns its
        /// session; packets to adit itself (ARP, ICMP, GTP-U path management) go to a signaling
        /// worker on main_core. "eventdev": an event scheduler gives packets to workers.
        /// docs/internals/models.md says which to choose and what each costs.
        model: ModelName, MODELS.or(ModelName::RunToCompletion) => [];
        /// CPU cores of the workers, one worker each. Each session belongs to one worker. Workers
        /// poll: give them cores of their own. "auto" takes the plan of `adit host plan` for this
        /// machine and these ports, with as many workers as fit; { count = 4 } takes a plan for
        /// four. The plan has the cores of all threads then, so leave main_core and scheduler_core
        /// out; receivers and rx_tx take "auto", which is the default, or { count = 2 }.
        /// `adit check` prints the plan. docs/host.md
        workers: CpuKey, Cpus.required(CpuKey::default()) => ["[1]"];
        /// Rules of placement: "numa", or "uma" to ignore NUMA nodes, for comparisons.
        ignores_nodes: bool = "placement", words(&[("numa", false), ("uma", true)]).or(false);
        /// The siblings of a core: "split" leaves all but one free, "shared" uses them.
        siblings: SiblingPolicy, words(&[("split", SiblingPolicy::Split),
            ("shared", SiblingPolicy::Shared)]).or(SiblingPolicy::Split);
        /// CPU cores of the receivers of model = "pipeline".
        receivers: Option<CpuKey>, Cpus.optional("those of the plan") => ["# [2]"];
        /// How the receivers of model = "pipeline" choose workers: "owner" looks up the session,
        /// "rss" hashes the UE's address (workers then hand over packets of sessions that they do
        /// not own).
        spread: Spread, words(&[("owner", Spread::Owner), ("rss", Spread::Rss)]).or(Spread::Owner);
        /// The Toeplitz key of spread = "rss": "symmetric", the same hash for both directions of a
        /// flow, or "microsoft", the default of many network cards, which spreads addresses that
        /// differ in few bits more evenly.
        rss_key: ToeplitzKey, words(&[("symmetric", ToeplitzKey::SYMMETRIC),
            ("microsoft", ToeplitzKey::MICROSOFT)]).or(ToeplitzKey::SYMMETRIC);
        /// The behavior of a worker without packets, for all or as a list with one word per worker
        /// and then per receiver: "busy" polls on, "adaptive" sleeps after 50 microseconds without
        /// packets. Devices with a file descriptor (kernel:packet, net_af_xdp) wake the worker at
        /// once; with others it sleeps for short times and polls between them, which takes about 4
        /// % of its core.
        poll: PerItem<PollMode>, per_item(POLL_MODES).or(PerItem::One(PollMode::Busy)) => [];
        /// Real-time priority (SCHED_FIFO, CAP_SYS_NICE) of the threads of the packet path, or 0
        /// for none; with poll = "adaptive" only. For workers that share their core with the
        /// kernel's work for their ports (kernel:udp, kernel:tun): otherwise the kernel spends the
        /// core on packets that it then drops because the worker is late.
        realtime_priority: u8, integer(0..=99).or(0) => ["# 10"];
        /// Lower the frequency of the cores of the packet path while they have little to do, and
        /// raise it at once when they get busy. For cores without other threads of adit, on
        /// machines whose kernel controls frequencies (cpufreq), as root; elsewhere adit says why
        /// it has no effect. The former limits come back at the end, also after a crash.
        /// docs/host.md
        scales_frequency: bool = "scale_frequency", Flag.or(false),
            OnReload::Fixed("the limits of frequencies are recorded at the start");
        /// CPU core of everything else. Not with workers = "auto" or { count = 4 }.
        main_core: u16, integer(0..=1023).or(0) => [];
        /// Packets per receive burst.
        burst_pkts: usize, integer(1..=BURST_MAX).or(BURST_DEFAULT) => [];
        eventdev: EventSection, Table, BY_KEY;
    }
}

/// The name of an execution model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelName {
    RunToCompletion,
    Pipeline,
    EventDriven,
}

const MODELS: Words<ModelName> = words(&[
    ("run-to-completion", ModelName::RunToCompletion),
    ("pipeline", ModelName::Pipeline),
    ("eventdev", ModelName::EventDriven),
]);

const POLL_MODES: Words<PollMode> =
    words(&[("busy", PollMode::Busy), ("adaptive", PollMode::Adaptive)]);

impl DatapathSection {
    /// Checks the section and returns its settings. Stores the CPUs of all threads in the section.
    /// Mistakes are added to `document`.
    pub(super) fn settings(
        &mut self,
        document: &ConfigDocument<'_>,
        cpus: ThreadCpus,
    ) -> DatapathSettings {
        let ThreadCpus { settings, control, workers, planned } = cpus;
        (self.workers.cores, self.workers.count) = (workers.clone(), None);
        self.main_core = control;
        let problem = |key: &str, what: &str| document.problem(&format!("datapath.{key}"), what);
        if self.model != ModelName::Pipeline {
            let what = "is for model = \"pipeline\"; here nobody only receives";
            document.refuse("datapath", &["receivers", "spread", "rss_key"], what);
        } else if self.spread != Spread::Rss {
            let what = "is for spread = \"rss\"; here nothing is hashed";
            document.refuse("datapath", &["rss_key"], what);
        }
        if self.model != ModelName::EventDriven {
            document.refuse("datapath", &["eventdev"], "is for model = \"eventdev\"");
        }
        let model = match self.model {
            ModelName::RunToCompletion => ModelSettings::RunToCompletion,
            ModelName::Pipeline => {
                // The signaling worker runs in addition to workers and receivers.
                let room = WORKERS_MAX.saturating_sub(workers.len() + 1);
                let planned = planned.map(|planned| planned.receivers);
                let receivers = CpuKey::resolve(&mut self.receivers, planned);
                let (path, thread) = ("datapath.receivers", "receiver");
                OtherCores { path, most: room, thread, does: "only receives" }
                    .check(document, &receivers);
                let (spread, rss_key) = (self.spread, self.rss_key);
                ModelSettings::Pipeline { receivers, spread, rss_key }
            }
            ModelName::EventDriven => {
                let events = self.eventdev.settings(document, workers.len(), planned);
                ModelSettings::EventDriven(Box::new(events))
            }
        };
        let threads = workers.len() + model.other_threads();
        let poll = self.poll.of(threads).unwrap_or_else(|| {
            problem("poll", &per_item(POLL_MODES).refusal(Some(threads)));
            vec![PollMode::Busy; threads]
        });
        if self.model == ModelName::EventDriven && poll.contains(&PollMode::Adaptive) {
            problem("poll", "takes \"busy\" with model = \"eventdev\": a scheduler wakes nobody");
        }
        if self.realtime_priority > 0 && poll.contains(&PollMode::Busy) {
            let what = "takes 0 unless poll = \"adaptive\": nothing else would run on the core of a thread that polls on";
            problem("realtime_priority", what);
        }
        DatapathSettings {
            placement: settings,
            model,
            workers,
            poll,
            realtime_priority: self.realtime_priority,
            scales_frequency: self.scales_frequency,
            main_core: control,
            burst_pkts: self.burst_pkts,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatapathSettings {
    pub placement: PlacementSettings,
    pub model: ModelSettings,
    /// CPU core of each worker, by `WorkerId`.
    pub workers: Vec<u16>,
    /// Behavior without packets of each worker, then of each receiver.
    pub(super) poll: Vec<PollMode>,
    /// Real-time priority of the threads of the packet path, or 0 for none. With a priority all of
    /// these threads sleep while they have no packets.
    pub realtime_priority: u8,
    /// True to lower the frequency of the packet path's cores under small load, if that is
    /// possible.
    pub scales_frequency: bool,
    pub main_core: u16,
    pub burst_pkts: usize,
}

/// The execution model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelSettings {
    /// Workers receive, process and transmit.
    RunToCompletion,
    /// Receivers receive and hand over to workers.
    Pipeline {
        /// CPU core of each receiver.
        receivers: Vec<u16>,
        spread: Spread,
        /// The key of [`Spread::Rss`].
        rss_key: ToeplitzKey,
    },
    /// A scheduler gives workers packets that other threads receive.
    EventDriven(Box<EventSettings>),
}

impl ModelSettings {
    /// Returns the model's name in the configuration.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::RunToCompletion => "run-to-completion",
            Self::Pipeline { .. } => "pipeline",
            Self::EventDriven(_) => "eventdev",
        }
    }

    /// Returns how many threads receive for workers: receivers or Rx/Tx threads.
    pub(crate) fn other_threads(&self) -> usize {
        match self {
            Self::RunToCompletion => 0,
            Self::Pipeline { receivers, .. } => receivers.len(),
            Self::EventDriven(events) => events.rx_tx.len(),
        }
    }
}

impl DatapathSettings {
    pub(crate) fn roles(&self) -> Roles {
        match &self.model {
            ModelSettings::RunToCompletion => Roles::run_to_completion(self.workers.len()),
            ModelSettings::Pipeline { receivers, .. } => {
                Roles::pipeline(receivers.len(), self.workers.len())
            }
            ModelSettings::EventDriven(events) => {
                Roles::event_driven(events.rx_tx.len(), self.workers.len())
            }
        }
    }

    /// Returns the maximum of queue pairs of a port: one for each thread that transmits, or for
    /// each that receives if these are more.
    pub(crate) fn queues_max(&self) -> u16 {
        let roles = self.roles();
        u16::try_from(roles.transmitting().len().max(roles.receiving().len()))
            .unwrap_or(u16::MAX)
            .max(1)
    }

    /// Returns core, role and behavior without packets of each thread of the packet path.
    pub(crate) fn threads(&self) -> Vec<ThreadSettings> {
        let (of_workers, of_receivers) =
            self.poll.split_at(self.workers.len().min(self.poll.len()));
        let thread = |role| {
            move |(core, poll): (&u16, &PollMode)| ThreadSettings { role, core: *core, poll: *poll }
        };
        let mut threads: Vec<_> =
            self.workers.iter().zip(of_workers).map(thread(Role::Worker)).collect();
        if let ModelSettings::Pipeline { receivers, .. } = &self.model {
            // The signaling worker shares its core with the control thread, and has little to do.
            threads.push(thread(Role::Signaling)((&self.main_core, &PollMode::Adaptive)));
            threads.extend(receivers.iter().zip(of_receivers).map(thread(Role::Receiver)));
        }
        if let ModelSettings::EventDriven(events) = &self.model {
            threads.extend(events.rx_tx.iter().zip(of_receivers).map(thread(Role::RxTx)));
        }
        threads
    }

    /// Returns the core of the central event scheduler; `None` without one.
    pub(crate) fn scheduler_core(&self) -> Option<u16> {
        match &self.model {
            ModelSettings::EventDriven(events) => events.scheduler_core,
            _ => None,
        }
    }

    /// True if `core` runs the control thread, or several threads of the packet path.
    pub(crate) fn shares_core(&self, core: u16) -> bool {
        let threads = self.threads();
        let cores = threads.iter().map(|thread| thread.core).chain(self.scheduler_core());
        let on_core = cores.filter(|of| *of == core).count();
        on_core > 1 || core == self.main_core
    }

    /// Returns the cores on which several threads poll, the control thread included, with the names
    /// of these threads.
    pub(crate) fn shared_cores(&self) -> Vec<(u16, Vec<String>)> {
        let mut cores: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for (id, thread) in self.threads().iter().enumerate() {
            // The signaling worker sleeps most of the time, so it may share the main core.
            if thread.role != Role::Signaling {
                let name = format!("{} {id}", thread.role.name());
                cores.entry(thread.core).or_default().push(name);
            }
        }
        if let Some(core) = self.scheduler_core() {
            cores.entry(core).or_default().push("scheduler".to_owned());
        }
        if let Some(names) = cores.get_mut(&self.main_core) {
            names.insert(0, "control".to_owned());
        }
        cores.into_iter().filter(|(_, names)| names.len() > 1).collect()
    }
}

/// One thread of the packet path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadSettings {
    pub role: Role,
    pub core: u16,
    pub poll: PollMode,
}

/// Behavior of a thread while it has no packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollMode {
    /// It continues to poll.
    Busy,
    /// It sleeps after a while.
    Adaptive,
}

impl PollMode {
    /// Returns the mode's name in the configuration.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Adaptive => "adaptive",
        }
    }
}
