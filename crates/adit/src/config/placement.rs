//! CPUs of the threads: those that the file lists, or those of a plan for the machine.
//!
//! A plan needs the ports and the execution model, and determines how many threads there are, on
//! which other keys depend. So the plan is made before other keys are checked.

use adit_kernel::KernelDevice;
use adit_machine::placement::{MachineTopology, PlacedPort, PlacedRole, PlanModel, plan};
use adit_topology::TopologyError;
use adit_types::limits::WORKERS_MAX;

use super::cpus::{CpuKey, DistributorCpus, PlacementSettings, ThreadCpus, has_duplicate};
use super::datapath::{DatapathSection, ModelName};
use super::kinds::integer;
use super::section::ConfigDocument;
use super::{ModelSettings, PortDevice, PortSettings};

/// Returns the machine to plan for; called only if a plan is needed.
pub(super) type MachineReader<'a> = &'a dyn Fn() -> Result<MachineTopology, TopologyError>;

/// Returns the CPUs of `[datapath]`: those of a plan for all threads, or those that the file lists
/// for workers and the control thread.
pub(super) fn thread_cpus(
    document: &ConfigDocument<'_>,
    datapath: &DatapathSection,
    ports: &[PortSettings],
    machine: MachineReader<'_>,
) -> ThreadCpus {
    let settings = PlacementSettings {
        is_planned: datapath.workers.is_planned,
        siblings: datapath.siblings,
        ignores_nodes: datapath.ignores_nodes,
    };
    if !settings.is_planned {
        return listed(document, datapath, settings);
    }
    let what = "comes from the plan of datapath.workers; remove it";
    document.refuse("datapath", &["main_core"], what);
    let count = count(document, "datapath.workers", &datapath.workers);
    let model = plan_model(document, datapath);
    planned(model, count, settings, ports, machine).unwrap_or_else(|why| {
        document.problem("datapath.workers", why);
        // Placeholders after a failed plan, since other keys refer to the threads.
        let scheduler =
            matches!(model, PlanModel::EventDriven { has_scheduler: true, .. }).then_some(0);
        let planned = DistributorCpus { receivers: vec![0], scheduler };
        let workers = vec![0; count.unwrap_or(1).min(WORKERS_MAX / 2)];
        ThreadCpus { settings, control: 0, workers, planned: Some(planned) }
    })
}

/// Returns the number of threads to plan for. Adds a problem if it is out of range.
fn count(document: &ConfigDocument<'_>, path: &str, key: &CpuKey) -> Option<usize> {
    let count = key.count?;
    if !(1..=WORKERS_MAX).contains(&count) {
        document.problem(&format!("{path}.count"), integer(1..=WORKERS_MAX).refusal());
    }
    Some(count.clamp(1, WORKERS_MAX))
}

fn planned(
    model: PlanModel,
    workers: Option<usize>,
    settings: PlacementSettings,
    ports: &[PortSettings],
    machine: MachineReader<'_>,
) -> Result<ThreadCpus, String> {
    let machine = machine().map_err(|error| format!("{error}; list CPU cores"))?;
    let ports = ports.iter().map(|port| port.device.placed(&port.name, &machine)).collect();
    let plan = plan(&machine, &settings.request(model, workers, ports))
        .map_err(|refusal| format!("no plan for this machine: {refusal}"))?;
    let group = plan.placement.groups.first().ok_or("no plan for this machine")?;
    let narrow = |cpu: u32| {
        let cpu = u16::try_from(cpu).ok().filter(|cpu| *cpu < 1024);
        cpu.ok_or("the plan has CPUs above 1023, which adit cannot use; list CPU cores")
    };
    let of = |role| group.cpus(role).map(narrow).collect::<Result<Vec<_>, _>>();
    let receivers = match model {
        PlanModel::EventDriven { .. } => of(PlacedRole::RxTx)?,
        _ => of(PlacedRole::Receiver)?,
    };
    let scheduler = of(PlacedRole::Scheduler)?.first().copied();
    Ok(ThreadCpus {
        settings,
        control: narrow(group.control_cpu)?,
        workers: of(PlacedRole::Worker)?,
        planned: Some(DistributorCpus { receivers, scheduler }),
    })
}

/// Returns the CPUs of workers and the control thread, as the file lists them.
fn listed(
    document: &ConfigDocument<'_>,
    datapath: &DatapathSection,
    settings: PlacementSettings,
) -> ThreadCpus {
    let mut workers = datapath.workers.cores.clone();
    let path = "datapath.workers";
    if workers.is_empty() || workers.len() > WORKERS_MAX {
        document.problem(path, format!("takes 1 to {WORKERS_MAX} CPU cores, such as [1]"));
    } else if has_duplicate(&workers) {
        document.problem(path, "names a CPU core twice; each worker needs its own");
    }
    if workers.is_empty() {
        workers.push(0);
    }
    ThreadCpus { settings, control: datapath.main_core, workers, planned: None }
}

/// Returns the execution model, with the numbers of its receiving threads that the file has.
fn plan_model(document: &ConfigDocument<'_>, datapath: &DatapathSection) -> PlanModel {
    let counted = |path: &str, key: &Option<CpuKey>| {
        let key = key.as_ref()?;
        if !key.is_planned {
            let what = "takes \"auto\" or { count = 2 }: its CPU cores come from the plan of datapath.workers";
            document.problem(path, what);
        }
        count(document, path, key)
    };
    match datapath.model {
        ModelName::RunToCompletion => PlanModel::RunToCompletion,
        ModelName::Pipeline => {
            PlanModel::Pipeline { receivers: counted("datapath.receivers", &datapath.receivers) }
        }
        ModelName::EventDriven => {
            let events = &datapath.eventdev;
            let what = "comes from the plan of datapath.workers; remove it";
            document.refuse("datapath.eventdev", &["scheduler_core"], what);
            let rx_tx = counted("datapath.eventdev.rx_tx", &events.rx_tx);
            PlanModel::EventDriven { rx_tx, has_scheduler: events.is_central() }
        }
    }
}

impl PortDevice {
    /// Returns the port with the NUMA node of its device on `machine`.
    pub(crate) fn placed(&self, port: &str, machine: &MachineTopology) -> PlacedPort {
        let name = match self {
            Self::Dpdk(device) => Some(device.argument("iface").unwrap_or(device.name())),
            Self::Kernel(KernelDevice::Packet { iface }) => Some(iface.as_str()),
            Self::Kernel(_) => None,
        };
        let node = name.and_then(|name| machine.device(name)).and_then(|device| device.node);
        PlacedPort { name: port.to_owned(), node }
    }
}

impl ModelSettings {
    /// Returns the model with its numbers of threads, for a plan.
    pub(crate) fn to_plan(&self) -> PlanModel {
        match self {
            Self::RunToCompletion => PlanModel::RunToCompletion,
            Self::Pipeline { receivers, .. } => {
                PlanModel::Pipeline { receivers: Some(receivers.len()) }
            }
            Self::EventDriven(events) => PlanModel::EventDriven {
                rx_tx: Some(events.rx_tx.len()),
                has_scheduler: events.scheduler_core.is_some(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use adit_machine::placement::{MachineTopology, PlanModel, SiblingPolicy};
    use adit_topology::{TopologyError, read_synthetic, read_xml};

    use super::super::{Config, ModelSettings};

    const EXAMPLE: &str = include_str!("../../../../adit.example.toml");

    /// Reads a machine with two NUMA nodes, whose two ports are on node 1.
    fn two_node_server() -> MachineTopology {
        let file = "../topology/tests/machines/two-node-server.xml";
        read_xml(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), None).unwrap()
    }

    /// The example with `lines` instead of its CPUs and ports at interfaces of the two-node server.
    fn example(lines: &str, qpairs: usize) -> String {
        let mut text = EXAMPLE
            .replace("model = \"run-to-completion\"\n", "")
            .replace("main_core = 0\n", "")
            .replace("workers = [1]\n", &format!("{lines}\n#"))
            .replace("mempool_mbufs = 16384", "mempool_mbufs = 1048576");
        for (from, to) in [("n3", "ens2f0"), ("n6", "ens2f1")] {
            let device = format!("net_af_packet{from},iface={to},qpairs={qpairs}");
            text = text.replace(&format!("kernel:packet,iface={from}"), &device);
        }
        text
    }

    fn load(
        text: &str,
        machine: impl Fn() -> Result<MachineTopology, TopologyError>,
    ) -> Result<Config, Vec<String>> {
        let config = Config::parse_for(text, &machine);
        config.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn workers_are_on_the_node_of_the_ports_unless_nodes_are_ignored() {
        let of = |lines: &str, qpairs| {
            let config = load(&example(lines, qpairs), || Ok(two_node_server())).unwrap();
            (config.datapath.main_core, config.datapath.workers)
        };
        assert_eq!(of("workers = \"auto\"", 11), (12, (13..24).collect()));
        assert_eq!(of("workers = { count = 2 }", 2), (12, vec![13, 14]));
        let uma = "workers = { count = 2 }\nplacement = \"uma\"";
        assert_eq!(of(uma, 2), (0, vec![1, 2]));
        let shared = "workers = { count = 2 }\nsiblings = \"shared\"";
        assert_eq!(of(shared, 2), (12, vec![13, 37]));
        // Listed CPUs are used as they are.
        assert_eq!(of("workers = [3, 30]\nmain_core = 9", 2), (9, vec![3, 30]));
    }

    #[test]
    fn other_threads_of_a_model_are_in_the_plan() {
        let pipeline = |receivers: &str| {
            let lines = format!("model = \"pipeline\"\nworkers = {{ count = 3 }}{receivers}");
            load(&example(&lines, 4), || Ok(two_node_server())).unwrap().datapath
        };
        for (key, expected, workers) in [
            ("", vec![13], vec![14, 15, 16]),
            ("\nreceivers = \"auto\"", vec![13], vec![14, 15, 16]),
            ("\nreceivers = { count = 2 }", vec![13, 14], vec![15, 16, 17]),
        ] {
            let datapath = pipeline(key);
            let ModelSettings::Pipeline { receivers, .. } = &datapath.model else {
                panic!("{key}")
            };
            assert_eq!((receivers, &datapath.workers), (&expected, &workers), "{key}");
        }
        let events = |table: &str, rx_tx: usize| {
            let lines = "model = \"eventdev\"\nworkers = { count = 2 }";
            let text = example(lines, rx_tx)
                .replace("\n[dpdk]\n", &format!("\n[datapath.eventdev]\n{table}\n[dpdk]\n"));
            load(&text, || Ok(two_node_server())).unwrap().datapath
        };
        let central = events("scheduler = \"sw\"", 1);
        assert_eq!(central.scheduler_core(), Some(13));
        assert_eq!(central.workers, [15, 16]);
        let distributed = events("rx_tx = { count = 2 }", 2);
        let ModelSettings::EventDriven(settings) = &distributed.model else { panic!() };
        assert_eq!((&settings.rx_tx, distributed.scheduler_core()), (&vec![13, 14], None));
        let planned = PlanModel::EventDriven { rx_tx: Some(2), has_scheduler: false };
        assert_eq!(distributed.model.to_plan(), planned);
    }

    #[test]
    fn impossible_plan_is_refused_in_one_sentence() {
        let small = || read_synthetic("core:2 pu:1");
        let of = |lines: &str, qpairs| load(&example(lines, qpairs), small).unwrap_err();
        let many = of("workers = { count = 3 }", 3);
        assert_eq!(many.len(), 1, "{many:?}");
        assert!(many[0].contains("need 3 CPUs, and this process may use 2"), "{many:?}");
        let over = of("model = \"pipeline\"\nworkers = { count = 63 }", 64);
        let most = "has at most 63 threads, and this needs 76; take fewer workers";
        assert!(over.iter().any(|text| text.contains(most)), "{over:?}");
        let zero = of("workers = { count = 0 }", 1);
        assert!(
            zero[0].contains("datapath.workers.count: takes a whole number from 1"),
            "{zero:?}"
        );
        let word = of("workers = \"all\"", 1);
        assert!(word[0].contains("such as [1], \"auto\", or { count = 2 }"), "{word:?}");
        let control = of("workers = \"auto\"\nmain_core = 1", 1);
        assert!(control[0].contains("datapath.main_core: comes from the plan"), "{control:?}");
        let lines = "model = \"pipeline\"\nworkers = \"auto\"\nreceivers = [1]";
        let listed = of(lines, 2);
        assert!(listed[0].contains("datapath.receivers: takes \"auto\""), "{listed:?}");
        let pairs = of("workers = \"auto\"", 7);
        assert!(pairs.iter().all(|text| text.contains("write qpairs=1 into it")), "{pairs:?}");
    }

    #[test]
    fn cpuset_without_a_cpu_on_the_node_of_the_ports_is_reported() {
        let mut machine = two_node_server();
        machine.limits.allowed = "0-11".parse().unwrap();
        let refused = load(&example("workers = \"auto\"", 1), || Ok(machine.clone())).unwrap_err();
        assert!(refused[0].contains("port access is on node 1, where this process may use no CPU"));
        let uma = example("workers = \"auto\"\nplacement = \"uma\"", 11);
        assert_eq!(load(&uma, || Ok(machine.clone())).unwrap().datapath.workers.len(), 11);
        machine.limits.allowed = "99".parse().unwrap();
        let none = load(&example("workers = \"auto\"", 1), || Ok(machine.clone())).unwrap_err();
        assert!(none[0].contains("no CPU is both online and allowed"), "{none:?}");
    }

    #[test]
    fn machine_is_read_only_for_a_plan() {
        let fails = || Err(TopologyError::NoCpus);
        assert!(load(&example("workers = [1]", 1), fails).is_ok());
        let refused = load(&example("workers = \"auto\"", 1), fails).unwrap_err();
        assert!(refused[0].contains("list CPU cores"), "{refused:?}");
    }

    #[test]
    fn most_threads_that_adit_has_are_planned_on_a_larger_machine() {
        let large = || read_synthetic("core:200 pu:1");
        for (model, qpairs, workers) in [("run-to-completion", 64, 64), ("pipeline", 53, 52)] {
            let lines = format!("model = \"{model}\"\nworkers = \"auto\"");
            let datapath = load(&example(&lines, qpairs), large).unwrap().datapath;
            assert_eq!(datapath.workers.len(), workers);
            assert!(datapath.threads().len() <= 64, "{model}");
            assert_eq!(datapath.placement.siblings, SiblingPolicy::Split);
        }
    }
}
