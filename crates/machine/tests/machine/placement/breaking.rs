//! Plans that break one rule.

use crate::placement::made_up::machine;
use adit_machine::placement::{
    MachineTopology, PlacedPort, PlacedRole, PlacementGroup, PlacementPlan, PlacementRule,
    PlanModel, PlanRefusal, PlanRequest, SiblingPolicy, plan, plan_breaking,
};

fn pipeline(workers: usize) -> PlanRequest {
    PlanRequest {
        model: PlanModel::Pipeline { receivers: Some(1) },
        workers: Some(workers),
        threads_max: 63,
        ports: vec![PlacedPort { name: "n3".to_owned(), node: Some(0) }],
        siblings: SiblingPolicy::Split,
        ignores_nodes: false,
        is_per_node: false,
    }
}

fn broken(planned: &PlacementPlan) -> Vec<PlacementRule> {
    let mut rules: Vec<_> = planned.breaks.iter().map(|found| found.rule).collect();
    rules.dedup();
    rules
}

fn why(machine: &MachineTopology, request: &PlanRequest, rule: PlacementRule) -> String {
    plan_breaking(machine, request, rule).unwrap_err().to_string()
}

fn cpus(group: &PlacementGroup, role: PlacedRole) -> Vec<u32> {
    group.cpus(role).collect()
}

#[test]
fn plan_breaks_the_rule_that_is_named_and_no_other() {
    let mut host = machine(2, 12);
    host.limits.isolated = "4-6,28-30".parse().unwrap();
    let request = pipeline(2);
    assert_eq!(broken(&plan(&host, &request).unwrap()), []);
    for rule in [
        PlacementRule::OwnCpu,
        PlacementRule::PortNode,
        PlacementRule::OwnNode,
        PlacementRule::ControlNode,
        PlacementRule::ControlSibling,
        PlacementRule::SiblingPolicy,
    ] {
        let rules = broken(&plan_breaking(&host, &request, rule).unwrap());
        // Isolated CPUs are on node 0, and shared CPUs leave one of them free.
        let others = rules.iter().filter(|other| **other != rule);
        let mut others = others.filter(|other| **other != PlacementRule::IsolatedFirst);
        assert!(rules.contains(&rule) && others.next().is_none(), "{}: {rules:?}", rule.name());
    }
    let leaves = plan_breaking(&host, &request, PlacementRule::IsolatedFirst).unwrap();
    assert_eq!(broken(&leaves), [PlacementRule::IsolatedFirst]);
    host.limits.isolated = "".parse().unwrap();
    let first = plan_breaking(&host, &request, PlacementRule::Cpu0Last).unwrap();
    assert_eq!(broken(&first), [PlacementRule::Cpu0Last]);
}

#[test]
fn threads_move_as_the_pinnings_of_the_study() {
    let host = machine(2, 12);
    let request = pipeline(2);
    let of = |rule| plan_breaking(&host, &request, rule).unwrap().placement.groups.remove(0);
    let remote = of(PlacementRule::OwnNode);
    assert_eq!((remote.control_cpu, cpus(&remote, PlacedRole::Receiver)), (0, vec![1]));
    assert_eq!(cpus(&remote, PlacedRole::Worker), [12, 13]);
    let control = of(PlacementRule::ControlNode);
    assert_eq!((control.control_cpu, cpus(&control, PlacedRole::Worker)), (12, vec![2, 3]));
    let sibling = of(PlacementRule::ControlSibling);
    assert_eq!(sibling.control_cpu, 25);
    let away = of(PlacementRule::PortNode);
    assert_eq!((away.control_cpu, cpus(&away, PlacedRole::Receiver)), (12, vec![13]));
    assert_eq!(away.ports, request.ports);
    let shared = of(PlacementRule::OwnCpu);
    let receivers = cpus(&shared, PlacedRole::Receiver);
    assert_eq!(cpus(&shared, PlacedRole::Worker), [1, 2]);
    assert_eq!((shared.control_cpu, receivers), (1, vec![1]));
    // A receiver alone on its core, and its two workers together: table 4.12, 2A.
    let pairs = PlanRequest { siblings: SiblingPolicy::Shared, ..request.clone() };
    let parted = plan_breaking(&host, &pairs, PlacementRule::SiblingPolicy).unwrap();
    assert_eq!(broken(&parted), [PlacementRule::SiblingPolicy]);
    let parted = &parted.placement.groups[0];
    assert_eq!(cpus(parted, PlacedRole::Receiver), [1]);
    assert_eq!(cpus(parted, PlacedRole::Worker), [26, 2]);
}

#[test]
fn machine_without_a_way_to_break_a_rule_says_so_in_a_sentence() {
    let mut small = machine(1, 2);
    small
        .cores
        .iter_mut()
        .for_each(|core| core.cpus = core.cpus.intersection(&"0-1".parse().unwrap()));
    small.limits.online = "0-1".parse().unwrap();
    small.limits.allowed = "1".parse().unwrap();
    let mut request = pipeline(1);
    assert!(matches!(
        plan(&small, &request),
        Err(PlanRefusal::TooFewCpus { needed: 2, usable: 1 })
    ));
    assert!(why(&small, &request, PlacementRule::ControlNode).contains("need 2 CPUs"));
    let shared = plan_breaking(&small, &request, PlacementRule::OwnCpu).unwrap();
    assert_eq!(shared.placement.packet_cpus(), [1, 1]);
    request.model = PlanModel::RunToCompletion;
    for (rule, part) in [
        (PlacementRule::UsableCpu, "could not start"),
        (PlacementRule::Quota, "more workers"),
        (PlacementRule::WorkersFirst, "fewer workers"),
        (PlacementRule::PortNode, "no other node has CPUs"),
        (PlacementRule::OwnNode, "nobody distributes packets"),
        (PlacementRule::ControlNode, "no other node has CPUs"),
        (PlacementRule::ControlSibling, "no core of the packet path has a free sibling"),
        (PlacementRule::SiblingPolicy, "one thread of the packet path"),
        (PlacementRule::IsolatedFirst, "no thread is on an isolated CPU"),
        (PlacementRule::Cpu0Last, "may not use CPU 0"),
    ] {
        let text = why(&small, &request, rule);
        let start = format!("no plan for this machine breaks {}: ", rule.name());
        assert!(text.starts_with(&start) && text.contains(part), "{text}");
    }
    request.ports.clear();
    assert!(why(&small, &request, PlacementRule::PortNode).contains("with a known node"));
    request.ignores_nodes = true;
    assert!(why(&small, &request, PlacementRule::OwnNode).contains("nodes are ignored"));
}

#[test]
fn rule_is_known_by_its_name() {
    for rule in PlacementRule::ALL {
        assert_eq!(rule.name().parse(), Ok(rule));
    }
    let unknown = "own-core".parse::<PlacementRule>().unwrap_err().to_string();
    assert!(
        unknown.contains("\"own-core\" is not a rule") && unknown.contains("own-cpu"),
        "{unknown}"
    );
}
