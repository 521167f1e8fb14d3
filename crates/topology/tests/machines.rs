//! Machines kept as test data: the result of reading them, and the plans for them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::fs;
use std::path::{Path, PathBuf};

use adit_machine::placement::{
    CpuSet, HostDeviceKind, MachineTopology, PlacedPort, PlacedRole, PlacementPlan, PlacementRule,
    PlanModel, PlanRefusal, PlanRequest, SiblingPolicy, plan,
};
use adit_topology::{TopologyError, read_live, read_synthetic, read_xml};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines").join(name)
}

fn machine(name: &str) -> MachineTopology {
    let root = file(&format!("{name}.root"));
    read_xml(&file(&format!("{name}.xml")), root.exists().then_some(&*root)).unwrap()
}

fn request(machine: &MachineTopology, ports: &[&str]) -> PlanRequest {
    let port = |name: &&str| PlacedPort {
        name: (*name).to_owned(),
        node: machine.device(name).unwrap_or_else(|| panic!("no device {name}")).node,
    };
    PlanRequest {
        model: PlanModel::RunToCompletion,
        workers: None,
        threads_max: 64,
        ports: ports.iter().map(port).collect(),
        siblings: SiblingPolicy::Split,
        ignores_nodes: false,
        is_per_node: false,
    }
}

fn workers(plan: &PlacementPlan, group: usize) -> CpuSet {
    plan.placement.groups[group].cpus(PlacedRole::Worker).collect()
}

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn broken(plan: &PlacementPlan) -> Vec<PlacementRule> {
    plan.breaks.iter().map(|found| found.rule).collect()
}

#[test]
fn laptop_has_siblings_and_gets_a_worker_per_core_beside_control() {
    let laptop = machine("laptop");
    assert_eq!((laptop.packages.len(), laptop.nodes.len(), laptop.cores.len()), (1, 1, 4));
    assert!(laptop.has_siblings());
    let l3 = laptop.caches.iter().find(|cache| cache.level == 3).unwrap();
    assert_eq!((l3.size_bytes, l3.cpus.to_string().as_str()), (12 << 20, "0-7"));
    assert_eq!(laptop.nodes[0].memory_bytes, 16 << 30);
    let wireless = laptop.device("wlp0s20f3").unwrap();
    assert_eq!(wireless.pci_address.as_deref(), Some("0000:01:00.0"));
    assert_eq!((wireless.kind, wireless.node), (HostDeviceKind::Network, Some(0)));
    let plan = plan(&laptop, &request(&laptop, &["wlp0s20f3"])).unwrap();
    assert_eq!(plan.placement.groups[0].control_cpu, 0);
    assert_eq!(workers(&plan, 0), set("2,4,6"));
    assert_eq!(broken(&plan), []);
}

#[test]
fn isolated_cores_of_a_server_are_used_and_no_others() {
    let server = machine("one-node-server");
    assert_eq!(server.limits.isolated, set("4-15,20-31"));
    assert_eq!(server.limits.tickless, set("4-15,20-31"));
    assert_eq!(server.limits.quota_millicpus, None);
    let pages = server.nodes[0].huge_pages[0];
    assert_eq!((pages.page_bytes, pages.total_count, pages.free_count), (1 << 30, 32, Some(30)));
    let of_card = server.interrupts.iter().find(|interrupt| interrupt.number == 130).unwrap();
    assert_eq!((of_card.name.as_str(), of_card.count), ("ice-ens1f0-TxRx-0", 8813));
    assert_eq!(of_card.cpus, set("0-3"));
    assert_eq!(server.interrupts.len(), 2);
    let split = plan(&server, &request(&server, &["ens1f0", "0000:3b:00.1"])).unwrap();
    assert_eq!(workers(&split, 0), set("4-15"));
    assert_eq!(broken(&split), []);
    let mut shared = request(&server, &["ens1f0"]);
    shared.siblings = SiblingPolicy::Shared;
    shared.model = PlanModel::Pipeline { receivers: Some(4) };
    let shared = plan(&server, &shared).unwrap();
    assert_eq!(broken(&shared), []);
    let group = &shared.placement.groups[0];
    for receiver in group.cpus(PlacedRole::Receiver) {
        let siblings = &server.core_of(receiver).unwrap().cpus;
        assert!(group.cpus(PlacedRole::Worker).any(|worker| siblings.contains(worker)));
    }
    assert_eq!(group.threads.len(), 24);
}

#[test]
fn workers_are_on_the_node_of_the_ports_and_each_node_gets_a_process() {
    let server = machine("two-node-server");
    assert_eq!(server.device("ens2f0").unwrap().node, Some(1));
    assert_eq!(server.nodes[1].huge_pages[0].total_count, 4096);
    let on_second = plan(&server, &request(&server, &["ens2f0", "ens2f1"])).unwrap();
    assert_eq!(on_second.placement.groups[0].control_cpu, 12);
    assert_eq!(workers(&on_second, 0), set("13-23"));
    assert_eq!(broken(&on_second), []);

    let both = ["ens1f0", "ens2f0"];
    let one_process = plan(&server, &request(&server, &both)).unwrap();
    assert_eq!(broken(&one_process), [PlacementRule::PortNode]);
    assert!(one_process.breaks[0].what.contains("ens2f0 is on node 1"), "{one_process:?}");

    let mut per_node = request(&server, &both);
    per_node.is_per_node = true;
    per_node.model = PlanModel::Pipeline { receivers: None };
    let per_node = plan(&server, &per_node).unwrap();
    assert_eq!(broken(&per_node), []);
    for (node, group) in (0..).zip(&per_node.placement.groups) {
        assert!(group.threads.iter().all(|thread| server.node_of(thread.cpu) == Some(node)));
        assert_eq!(server.node_of(group.control_cpu), Some(node));
        assert_eq!(group.cpus(PlacedRole::Receiver).count(), 2);
        assert_eq!(group.cpus(PlacedRole::Worker).count(), 9);
    }

    let mut uma = request(&server, &both);
    uma.ignores_nodes = true;
    let uma = plan(&server, &uma).unwrap();
    assert_eq!(workers(&uma, 0), set("1-23"));
    assert_eq!(broken(&uma), []);
    assert!(uma.describe(&server).contains("ignored port-node"));
}

#[test]
fn clusters_of_a_package_are_nodes_of_their_own() {
    let server = machine("sub-numa-clusters");
    assert_eq!((server.packages.len(), server.nodes.len()), (2, 4));
    let mut request = request(&server, &["ens1f0", "ens1f1", "ens2f0"]);
    let most_ports = plan(&server, &request).unwrap();
    assert_eq!(workers(&most_ports, 0), set("9-15"));
    request.is_per_node = true;
    let per_node = plan(&server, &request).unwrap();
    assert_eq!(workers(&per_node, 0), set("9-15"));
    assert_eq!(workers(&per_node, 1), set("17-23"));
    assert_eq!(broken(&per_node), []);
}

#[test]
fn guest_without_caches_or_packages_is_planned() {
    let guest = machine("guest-without-caches");
    assert!(guest.caches.is_empty() && guest.packages.is_empty() && !guest.has_siblings());
    assert_eq!(guest.cores.len(), 4);
    let plan = plan(&guest, &request(&guest, &["eth0", "eth1"])).unwrap();
    assert_eq!(plan.placement.groups[0].control_cpu, 0);
    assert_eq!(workers(&plan, 0), set("1-3"));
    assert_eq!(broken(&plan), []);
}

#[test]
fn container_keeps_to_its_cpuset_and_its_quota() {
    let container = machine("container-with-cpuset");
    assert_eq!(container.limits.usable(), set("12-15,36-39"));
    assert_eq!(container.limits.quota_millicpus, Some(3000));
    // Without the copies of /proc and /sys the file has the cpuset, and no quota.
    let from_file = read_xml(&file("container-with-cpuset.xml"), None).unwrap();
    assert_eq!(from_file.limits.usable(), set("12-15,36-39"));
    let own = plan(&container, &request(&container, &["ens2f0"])).unwrap();
    assert_eq!(own.placement.groups[0].control_cpu, 12);
    assert_eq!(workers(&own, 0), set("13-15"));
    assert_eq!(broken(&own), []);
    let mut too_many = request(&container, &["ens2f0"]);
    too_many.workers = Some(4);
    let four = plan(&container, &too_many).unwrap();
    assert!(broken(&four).contains(&PlacementRule::Quota), "{four:?}");
    let remote = plan(&container, &request(&container, &["ens1f0"]));
    assert_eq!(remote, Err(PlanRefusal::NodeWithoutCpus { port: "ens1f0".to_owned(), node: 0 }));
    too_many.workers = Some(9);
    assert_eq!(plan(&container, &too_many), Err(PlanRefusal::TooFewCpus { needed: 9, usable: 8 }));
}

#[test]
fn every_machine_is_drawn_and_survives_json() {
    for entry in fs::read_dir(file("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".xml") else { continue };
        let machine = machine(name);
        let json = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<MachineTopology>(&json).unwrap(), machine);
        let tree = machine.to_string();
        for core in &machine.cores {
            assert!(tree.contains(&core.cpus.to_string()), "{name}: {tree}");
        }
        for device in &machine.devices {
            assert!(tree.contains(&device.name), "{name}: {tree}");
        }
    }
}

#[test]
fn live_machine_has_the_cpus_of_this_process() {
    let live = read_live().unwrap();
    let usable = live.limits.usable();
    assert!(!usable.is_empty());
    assert!(usable.iter().all(|cpu| live.core_of(cpu).is_some()));
    let request = PlanRequest { ports: Vec::new(), ..request(&live, &[]) };
    plan(&live, &request).unwrap();
}

#[test]
fn wrong_input_is_refused_with_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    assert!(matches!(read_xml(&path, None), Err(TopologyError::Unreadable { .. })));
    for text in ["", "<html><body/></html>", "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">"]
    {
        fs::write(&path, text).unwrap();
        let error = read_xml(&path, None).unwrap_err();
        assert!(matches!(error, TopologyError::NotXml { .. }), "{text}: {error}");
        assert!(!error.to_string().contains('\n'));
    }
    assert!(matches!(read_xml(folder.path(), None), Err(TopologyError::NotXml { .. })));
    for text in ["core", "pack:2 core:0", "pack:2\0", "pack:2 numa:x"] {
        let refused = read_synthetic(text).map(|_| ());
        assert!(matches!(refused, Err(TopologyError::NotSynthetic { .. })), "{text}: {refused:?}");
    }
    for text in ["core:4096 pu:64", "pack:99999999999 pu:99999999999"] {
        assert!(matches!(read_synthetic(text), Err(TopologyError::TooLarge { .. })), "{text}");
    }
    assert!(matches!(
        read_synthetic("pack:1 core:1 pu:2(indexes=0,9000)"),
        Err(TopologyError::TooManyCpus { .. })
    ));
}

#[test]
fn made_up_machine_is_read() {
    let made_up = read_synthetic("pack:4 [numa] core:14 pu:2").unwrap();
    assert_eq!((made_up.nodes.len(), made_up.cores.len()), (4, 56));
    assert_eq!(made_up.limits.usable().len(), 112);
}
