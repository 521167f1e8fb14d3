//! The arguments of `adit host`.

use std::path::PathBuf;

use adit_machine::placement::{CpuSet, PlacementRule};
use adit_machine::tuning::{HugePagesWanted, TuningProfile};
use clap::{Args, Subcommand, ValueEnum};

/// Commands about the machine.
#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Draw the machine: packages, nodes, caches, cores, memory, devices, limits, interrupts.
    Show {
        #[command(flatten)]
        source: MachineSource,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Propose CPUs for the threads of adit, with the rules and what breaking them costs.
    Plan(PlanArguments),
    /// Compare the settings of the machine with a profile. Changes nothing.
    Check(TuningArguments),
    /// Change the settings of the machine to a profile; `revert` takes them back.
    Apply {
        #[command(flatten)]
        arguments: TuningArguments,
        /// Stay, limit the wake-up latency of all CPUs to this many microseconds meanwhile, and
        /// revert at the end (SIGTERM, Ctrl-C). The kernel keeps the limit only as long as a
        /// process holds /dev/cpu_dma_latency.
        #[arg(long, value_name = "MICROSECONDS")]
        hold_latency_us: Option<u32>,
    },
    /// Take back what the last `apply` changed, also after a crash.
    Revert(TuningPlace),
    /// Measure what takes a core away from the thread that runs on it: interrupts, the hypervisor,
    /// other threads.
    Noise(NoiseArguments),
}

/// Arguments of a measurement of noise.
#[derive(Debug, Args)]
pub(crate) struct NoiseArguments {
    /// The core to measure. A thread of normal priority keeps it busy meanwhile.
    #[arg(long, value_name = "NUMBER")]
    pub core: u16,
    /// For how long, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub duration: u64,
    /// Shortest gap that counts, in nanoseconds.
    #[arg(long, value_name = "NANOSECONDS", default_value_t = 2_000)]
    pub threshold_ns: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The machine that a command is about. Default: the one that it runs on.
#[derive(Debug, Args)]
pub(crate) struct MachineSource {
    /// The machine of an XML file that `lstopo machine.xml` wrote.
    #[arg(long, value_name = "FILE", conflicts_with = "synthetic")]
    pub xml: Option<PathBuf>,
    /// With --xml: a folder with copies of that machine's /proc and /sys, for isolated CPUs, quotas
    /// and interrupts.
    #[arg(long, value_name = "FOLDER", requires = "xml")]
    pub xml_root: Option<PathBuf>,
    /// A made-up machine in hwloc's format, such as "pack:2 [numa] core:8 pu:2".
    #[arg(long, value_name = "TEXT")]
    pub synthetic: Option<String>,
}

/// Arguments of a plan.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    pub source: MachineSource,
    /// Plan for this configuration: its ports, execution model, numbers of threads and policies;
    /// and name the rules that its own CPUs break. Where it leaves the CPUs to a plan, adit takes
    /// this plan when it starts.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "workers", "receivers", "port"])]
    pub config: Option<PathBuf>,
    /// Execution model.
    #[arg(long, default_value = "run-to-completion")]
    pub model: PlannedModel,
    /// How many workers. Default: as many as fit.
    #[arg(long, value_name = "NUMBER")]
    pub workers: Option<usize>,
    /// How many receivers or Rx/Tx threads. Default: one for five workers.
    #[arg(long, value_name = "NUMBER")]
    pub receivers: Option<usize>,
    /// A device that is a port: PCI address or network interface. May be repeated.
    #[arg(long, value_name = "DEVICE")]
    pub port: Vec<String>,
    /// Use of the siblings of a core: "split", the default, leaves all but one free; "shared" uses
    /// them.
    #[arg(long)]
    pub siblings: Option<PlannedSiblings>,
    /// Ignore NUMA nodes, to compare; in a configuration placement = "uma".
    #[arg(long)]
    pub uma: bool,
    /// Break this rule, to measure its effect on this machine: threads are moved from the proposed
    /// CPUs to others.
    #[arg(long, value_name = "RULE", conflicts_with = "per_node")]
    pub breaking: Option<PlacementRule>,
    /// One process on each node that has ports, instead of one with all ports.
    #[arg(long)]
    pub per_node: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Execution models by their names in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlannedModel {
    RunToCompletion,
    Pipeline,
    /// With a scheduler on the cores of the other threads (dsw).
    Eventdev,
    /// With a scheduler on a core of its own (sw).
    EventdevCentral,
}

/// Use of the siblings of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlannedSiblings {
    Split,
    Shared,
}

/// A profile and its targets.
#[derive(Debug, Args)]
pub(crate) struct TuningArguments {
    /// default, ff, ff-noidle, ff-noidle-rt, core or rt.
    #[arg(long)]
    pub profile: TuningProfile,
    /// CPUs of the real-time threads, such as 2-3, with ff-noidle-rt, core and rt.
    #[arg(long, value_name = "CPUS", default_value = "")]
    pub cores: CpuSet,
    /// Make a cgroup of this name with these CPUs, as an isolated partition. Start adit in it.
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Hugepages of a node, such as 0:2048:512 for 512 pages of 2048 KiB on node 0. May be
    /// repeated.
    #[arg(long, value_name = "NODE:KIB:NUMBER", value_parser = huge_pages)]
    pub hugepages: Vec<HugePagesWanted>,
    /// Only the profile's frequencies, turbo, idle states and siblings, not its other settings.
    #[arg(long, conflicts_with = "partition")]
    pub cpu_only: bool,
    #[command(flatten)]
    pub place: TuningPlace,
}

/// The files, and how to print.
#[derive(Debug, Args)]
pub(crate) struct TuningPlace {
    /// A folder in place of /, to try a profile on copies of /proc and /sys.
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn huge_pages(text: &str) -> Result<HugePagesWanted, String> {
    let refused = || format!("\"{text}\" is not NODE:KIB:NUMBER, such as 0:2048:512");
    let mut parts = text.split(':');
    let mut next = || parts.next().ok_or_else(refused);
    let (node, page_kib, count) = (next()?, next()?, next()?);
    let is_whole = parts.next().is_none();
    match (node.parse(), page_kib.parse(), count.parse()) {
        (Ok(node), Ok(page_kib), Ok(count)) if is_whole => {
            Ok(HugePagesWanted { node, page_kib, count })
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugepages_are_three_numbers() {
        let wanted = HugePagesWanted { node: 1, page_kib: 2048, count: 512 };
        assert_eq!(huge_pages("1:2048:512"), Ok(wanted));
        for text in ["", "1:2048", "1:2048:512:0", "a:1:1", "1:2M:3", "-1:2048:1"] {
            assert!(huge_pages(text).is_err(), "{text}");
        }
    }
}
