//! The properties of the machine that every report contains.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use adit_lab_engine::clock::{NS_PER_S, scaled};
use adit_machine::noise::NoiseReport;

/// Properties of the machine that figures depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor.
    pub cpu: String,
    /// Number of processors online.
    pub cpus: u32,
    /// Frequency of the time stamp counter. Unit: Hz.
    pub tsc_hz: u64,
    /// Kernel release.
    pub kernel: String,
    /// Kernel parameters that affect speed: isolation, ticks, idle states, mitigations, pages.
    /// Others are left out, since a command line may contain secrets.
    #[serde(default)]
    pub kernel_parameters: Vec<String>,
    /// State of mitigation by vulnerability, as the kernel reports it.
    pub mitigations: BTreeMap<String, String>,
    /// Number of reserved hugepages by page size.
    pub hugepages: BTreeMap<String, u64>,
    /// Transparent hugepages: the kernel's modes, the chosen one in brackets.
    #[serde(default)]
    pub transparent_hugepages: String,
    /// True if packet memory is on hugepages.
    pub uses_hugepages: bool,
    /// Memory. Unit: MiB.
    pub memory_mib: u64,
    /// DPDK's version.
    pub dpdk: String,
    /// Revision of the sources of this program.
    pub git_revision: String,
    /// Cores of the tester, and of the target if known.
    pub core_map: BTreeMap<String, Vec<u16>>,
    /// Causes that took each core away during a sample before the measurement.
    #[serde(default)]
    pub noise: Vec<NoiseReport>,
}

impl Machine {
    /// Reads the properties of this machine.
    #[must_use]
    pub fn read() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let cpu = model.map_or("unknown", |rest| rest.trim_start_matches(['\t', ' ', ':']));
        let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
        Self {
            cpu: cpu.trim().to_owned(),
            cpus: u32::try_from(cpus).unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            kernel_parameters: speed_parameters(&read("/proc/cmdline")),
            mitigations: mitigations(),
            hugepages: hugepages(),
            transparent_hugepages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .trim()
                .to_owned(),
            memory_mib: memory_mib(),
            git_revision: env!("ADIT_GIT_REVISION").to_owned(),
            ..Self::default()
        }
    }
}

impl Machine {
    /// Reads the properties without an EAL: DPDK's version and TSC frequency come from elsewhere.
    #[must_use]
    pub(crate) fn read_without_eal() -> Self {
        Self { dpdk: adit_dpdk::version(), tsc_hz: measured_tsc_hz(), ..Self::read() }
    }
}

impl Machine {
    /// Samples the noise of all cores of this process at the same time.
    pub(crate) fn sample_noise(&mut self) {
        const SPAN: Duration = Duration::from_millis(200);
        const THRESHOLD: Duration = Duration::from_micros(1);
        let sample =
            |core: u16| thread::spawn(move || adit_machine::noise::run(core, SPAN, THRESHOLD));
        let threads: Vec<_> = online_processors(&read("/proc/cpuinfo")).map(sample).collect();
        let reports = threads.into_iter().filter_map(|thread| thread.join().ok());
        // A core outside the process's cpuset has no report.
        self.noise = reports.flatten().collect();
    }
}

/// Returns the identifiers of the processors that are online.
fn online_processors(cpuinfo: &str) -> impl Iterator<Item = u16> {
    let number = |line: &str| {
        let (_, number) = line.strip_prefix("processor")?.split_once(':')?;
        number.trim().parse().ok()
    };
    cpuinfo.lines().filter_map(number)
}

/// Prints the machine and its steal time since boot as one JSON document.
///
/// # Errors
/// The serializer fails.
pub(crate) fn run() -> Result<bool> {
    let mut machine = Machine::read_without_eal();
    machine.sample_noise();
    let steal = StealTime::default().since_ms(&StealTime::now());
    let document = serde_json::json!({ "machine": machine, "steal_ms_since_boot": steal });
    println!("{}", serde_json::to_string_pretty(&document).context("write the machine as JSON")?);
    Ok(true)
}

/// Measures the time stamp counter against the system clock, to the nearest MHz. Unit: Hz.
fn measured_tsc_hz() -> u64 {
    const SPAN: Duration = Duration::from_millis(100);
    let (start, ticks) = (Instant::now(), adit_dpdk::tsc());
    thread::sleep(SPAN);
    let (elapsed, ticks) = (start.elapsed(), adit_dpdk::tsc().wrapping_sub(ticks));
    let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    (scaled(ticks, NS_PER_S, ns.max(1)) + 500_000) / 1_000_000 * 1_000_000
}

/// Names of kernel parameters that affect speed; a name with a dot covers a module's parameters.
const SPEED_PARAMETERS: &str = "\
    amd_iommu amd_pstate clocksource cpufreq. cpuidle. cpuidle_haltpoll. default_hugepagesz \
    haltpoll. hugepages hugepagesz idle intel_idle. intel_iommu intel_pstate iommu iommu. \
    irqaffinity isolcpus kthread_cpus kvm-intel. kvm-amd. l1tf maxcpus mds mitigations \
    nmi_watchdog nohz nohz_full nosmt nosoftlockup nospectre_v1 nospectre_v2 nowatchdog \
    nr_cpus numa_balancing pcie_aspm preempt processor. pti rcu_nocb_poll rcu_nocbs retbleed \
    skew_tick spec_store_bypass_disable spectre_v2 threadirqs transparent_hugepage tsc";

/// Returns the kernel parameters that affect speed. Arguments after `--` belong to init.
fn speed_parameters(command_line: &str) -> Vec<String> {
    let affects_speed = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        let module = name.find('.').and_then(|dot| name.get(..=dot));
        SPEED_PARAMETERS.split(' ').any(|known| name == known || module == Some(known))
    };
    let kernels = command_line.split_whitespace().take_while(|parameter| *parameter != "--");
    kernels.filter(affects_speed).map(str::to_owned).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn files(folder: &str) -> Vec<(String, std::path::PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

fn mitigations() -> BTreeMap<String, String> {
    files("/sys/devices/system/cpu/vulnerabilities")
        .into_iter()
        .filter_map(|(name, path)| Some((name, fs::read_to_string(path).ok()?.trim().to_owned())))
        .collect()
}

fn hugepages() -> BTreeMap<String, u64> {
    files("/sys/kernel/mm/hugepages")
        .into_iter()
        .filter_map(|(name, path)| {
            let count = fs::read_to_string(path.join("nr_hugepages")).ok()?.trim().parse().ok()?;
            Some((name.trim_start_matches("hugepages-").to_owned(), count))
        })
        .collect()
}

fn memory_mib() -> u64 {
    let text = read("/proc/meminfo");
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> =
        total.and_then(|rest| rest.split_whitespace().next()).and_then(|value| value.parse().ok());
    kib.unwrap_or_default() / 1024
}

/// Steal time by processor. Unit: ticks of 10 ms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StealTime(BTreeMap<String, u64>);

impl StealTime {
    /// Reads the counters of the kernel.
    #[must_use]
    pub(crate) fn now() -> Self {
        Self(Self::parse(&read("/proc/stat")))
    }

    fn parse(text: &str) -> BTreeMap<String, u64> {
        text.lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace();
                let cpu = fields.next()?.strip_prefix("cpu").filter(|name| !name.is_empty())?;
                // user nice system idle iowait irq softirq steal
                Some((cpu.to_owned(), fields.nth(7)?.parse().ok()?))
            })
            .collect()
    }

    /// Returns the steal time from `self` to `now`, or since boot for a processor that `self` does
    /// not contain. Unit: ms.
    #[must_use]
    pub(crate) fn since_ms(&self, now: &Self) -> BTreeMap<String, u64> {
        let since = |cpu: &String, ticks: &u64| {
            let before = self.0.get(cpu).copied().unwrap_or(0);
            ticks.saturating_sub(before) * 10
        };
        now.0.iter().map(|(cpu, ticks)| (cpu.clone(), since(cpu, ticks))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_the_properties_of_every_linux() {
        let machine = Machine::read();
        assert!(machine.cpus >= 1 && machine.memory_mib > 100, "{machine:?}");
        assert!(!machine.kernel.is_empty() && !machine.git_revision.is_empty());
    }

    #[test]
    fn processors_are_numbered_as_the_kernel_does() {
        let text = "processor\t: 0\nmodel name\t: processor 9\n\nprocessor\t: 12\n";
        assert_eq!(online_processors(text).collect::<Vec<_>>(), [0, 12]);
        let mut machine = Machine::default();
        machine.sample_noise();
        assert!(machine.noise.iter().all(|one| one.turns > 0) && !machine.noise.is_empty());
    }

    #[test]
    fn kernel_parameters_are_those_that_affect_speed() {
        let line = "root=UUID=1-2 isolcpus=1-3 nohz_full=1-3 quiet processor.max_cstate=1 \
                    token=secret hugepages=4 nokaslr=1 idle_hint=x nosmt -- --key nohz=off\n";
        let kept =
            ["isolcpus=1-3", "nohz_full=1-3", "processor.max_cstate=1", "hugepages=4", "nosmt"];
        assert_eq!(speed_parameters(line), kept);
    }

    #[test]
    fn steal_is_the_difference_by_processor() {
        let stat =
            |steal: u32| format!("cpu  1 2 3 4 5 6 7 99\ncpu0 1 2 3 4 5 6 7 {steal} 0 0\nintr 5\n");
        let (before, after) =
            (StealTime(StealTime::parse(&stat(3))), StealTime(StealTime::parse(&stat(8))));
        assert_eq!(before.since_ms(&after), BTreeMap::from([("0".to_owned(), 50)]));
    }
}
