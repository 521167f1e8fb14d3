//! Makes plans that break one rule, to measure the effect of the rule on a machine.

use crate::placement::{
    CpuCore, CpuSet, MachineTopology, PlacedRole, PlacedThread, PlacementGroup, PlacementPlan,
    PlacementRule, PlanModel, PlanRefusal, PlanRequest, SiblingPolicy, check, cost_of, plan,
};

/// Proposes CPUs for `request` as [`plan()`] does, and then moves threads of the first group so
/// that they break `rule`.
///
/// To break [`PlacementRule::OwnCpu`], the control thread and the threads that distribute packets
/// share the CPUs of the workers: such a plan needs only as many CPUs as workers.
///
/// # Errors
/// The errors of [`plan()`], and [`PlanRefusal::CannotBreak`] if neither the machine nor the
/// request allows to break the rule.
pub fn plan_breaking(
    machine: &MachineTopology,
    request: &PlanRequest,
    rule: PlacementRule,
) -> Result<PlacementPlan, PlanRefusal> {
    let refused = |why| PlanRefusal::CannotBreak { rule, why };
    if request.ignores_nodes && rule.is_about_nodes() {
        return Err(refused("nodes are ignored"));
    }
    let mut planned = match rule {
        PlacementRule::OwnCpu => plan_shared_cpus(machine, request)?,
        PlacementRule::PortNode => {
            let other = with_ports_on_another_node(machine, request).map_err(refused)?;
            plan(machine, &other)?
        }
        _ => plan(machine, request)?,
    };
    let placement = &mut planned.placement;
    let busy = placement.groups.iter().map(|group| group.control_cpu);
    let busy = busy.chain(placement.packet_cpus()).collect();
    let free = machine.limits.usable().difference(&busy);
    let ignores_nodes = request.ignores_nodes;
    for group in placement.groups.iter_mut().take(1) {
        let breaker =
            RuleBreaker { machine, siblings: request.siblings, ignores_nodes, free: &free };
        breaker.break_rule(rule, group).map_err(refused)?;
        if rule == PlacementRule::PortNode {
            group.ports.clone_from(&request.ports);
        }
    }
    let mut breaks = check(machine, placement, request.siblings);
    breaks.retain(|found| !ignores_nodes || !found.rule.is_about_nodes());
    if breaks.iter().all(|found| found.rule != rule) {
        return Err(refused("no other CPUs of this machine break it"));
    }
    planned.cost = cost_of(placement, &breaks, placement.workers());
    planned.breaks = breaks;
    Ok(planned)
}

/// Plans workers with a CPU each, and puts all other threads on the workers' CPUs.
fn plan_shared_cpus(
    machine: &MachineTopology,
    request: &PlanRequest,
) -> Result<PlacementPlan, PlanRefusal> {
    let (others, has_scheduler) = match request.model {
        PlanModel::RunToCompletion => (None, false),
        PlanModel::Pipeline { receivers } => (Some((PlacedRole::Receiver, receivers)), false),
        PlanModel::EventDriven { rx_tx, has_scheduler } => {
            (Some((PlacedRole::RxTx, rx_tx)), has_scheduler)
        }
    };
    let alone = PlanRequest { model: PlanModel::RunToCompletion, ..request.clone() };
    let mut planned = plan(machine, &alone)?;
    for group in &mut planned.placement.groups {
        let workers: Vec<u32> = group.cpus(PlacedRole::Worker).collect();
        group.control_cpu = workers.first().copied().unwrap_or(group.control_cpu);
        let Some((role, count)) = others else { continue };
        let scheduler = std::iter::repeat_n(PlacedRole::Scheduler, usize::from(has_scheduler));
        let roles = std::iter::repeat_n(role, count.unwrap_or(1)).chain(scheduler);
        let shared = roles.zip(workers.iter().cycle());
        group.threads.extend(shared.map(|(role, cpu)| PlacedThread { role, cpu: *cpu }));
        group.threads.sort_by_key(|thread| thread.role);
        let (needed, most) = (group.threads.len(), request.threads_max);
        if needed > most {
            return Err(PlanRefusal::TooManyThreads { needed, most });
        }
    }
    Ok(planned)
}

/// Copies the request with its ports moved to a node that none of them is on.
fn with_ports_on_another_node(
    machine: &MachineTopology,
    request: &PlanRequest,
) -> Result<PlanRequest, &'static str> {
    let has_port = |node: u32| request.ports.iter().any(|port| port.node == Some(node));
    if request.ports.iter().all(|port| port.node.is_none()) {
        return Err("no port is a device with a known node");
    }
    let usable = machine.limits.usable();
    let other = machine
        .nodes
        .iter()
        .find(|node| !has_port(node.index) && !node.cpus.intersection(&usable).is_empty());
    let other = other.ok_or(NO_OTHER_NODE)?.index;
    let mut moved = request.clone();
    moved.ports.iter_mut().for_each(|port| port.node = port.node.map(|_| other));
    Ok(moved)
}

const NO_OTHER_NODE: &str = "no other node has CPUs that this process may use";
const NO_SIBLINGS: &str = "no core of the packet path has a free sibling";

struct RuleBreaker<'a> {
    machine: &'a MachineTopology,
    siblings: SiblingPolicy,
    ignores_nodes: bool,
    /// CPUs that have no thread.
    free: &'a CpuSet,
}

impl RuleBreaker<'_> {
    fn break_rule(
        &self,
        rule: PlacementRule,
        group: &mut PlacementGroup,
    ) -> Result<(), &'static str> {
        match rule {
            // The plan breaks these rules already.
            PlacementRule::OwnCpu | PlacementRule::PortNode => Ok(()),
            PlacementRule::UsableCpu => Err("its threads could not start"),
            PlacementRule::Quota => Err("it is about numbers: plan for more workers"),
            PlacementRule::WorkersFirst => Err("it is about numbers: plan for fewer workers"),
            PlacementRule::OwnNode => self.workers_to_another_node(group),
            PlacementRule::ControlNode => {
                let node = self.machine.node_of(group.control_cpu);
                let cpus = self.cpus_of_another_node(node);
                // Takes a CPU that is not isolated, if there is one: control does not need
                // isolation.
                let isolated = &self.machine.limits.isolated;
                let cpu = cpus.iter().min_by_key(|cpu| isolated.contains(**cpu));
                group.control_cpu = *cpu.ok_or(NO_OTHER_NODE)?;
                Ok(())
            }
            PlacementRule::ControlSibling => {
                let mut cpus = group.threads.iter().map(|thread| thread.cpu);
                group.control_cpu =
                    cpus.find_map(|cpu| self.free_sibling(cpu)).ok_or(NO_SIBLINGS)?;
                Ok(())
            }
            PlacementRule::SiblingPolicy => self.siblings(group),
            PlacementRule::IsolatedFirst => self.leave_isolated(group),
            PlacementRule::Cpu0Last => self.use_cpu0(group),
        }
    }

    /// Returns free CPUs of another node than `node`: of the one that has most. CPUs on unused
    /// cores come first.
    fn cpus_of_another_node(&self, node: Option<u32>) -> Vec<u32> {
        let of_node = |index: u32| -> Vec<u32> {
            let is_there = |cpu: &u32| self.machine.node_of(*cpu) == Some(index);
            self.free.iter().filter(is_there).collect()
        };
        let others = self.machine.nodes.iter().map(|other| other.index);
        let others = others.filter(|index| Some(*index) != node).map(of_node);
        let most = others.reduce(|most, other| if other.len() > most.len() { other } else { most });
        let mut cpus = most.unwrap_or_default();
        cpus.sort_by_key(|cpu| (self.position_on_core(*cpu), *cpu));
        cpus
    }

    /// Returns how many CPUs of its core come before `cpu`.
    fn position_on_core(&self, cpu: u32) -> usize {
        let before = |core: &CpuCore| core.cpus.iter().filter(|other| *other < cpu).count();
        self.machine.core_of(cpu).map_or(0, before)
    }

    fn free_sibling(&self, cpu: u32) -> Option<u32> {
        let siblings = self.machine.core_of(cpu)?.cpus.intersection(self.free);
        siblings.iter().find(|sibling| *sibling != cpu)
    }

    fn workers_to_another_node(&self, group: &mut PlacementGroup) -> Result<(), &'static str> {
        let distributor = group.threads.iter().find(|thread| thread.role.distributes());
        let Some(distributor) = distributor else {
            return Err("nobody distributes packets; plan for model pipeline");
        };
        let cpus = self.cpus_of_another_node(self.machine.node_of(distributor.cpu));
        if cpus.is_empty() {
            return Err(NO_OTHER_NODE);
        }
        let workers = group.threads.iter_mut().filter(|thread| thread.role == PlacedRole::Worker);
        let mut cpus = cpus.into_iter();
        for worker in workers {
            worker.cpu =
                cpus.next().ok_or("the other node has fewer CPUs than there are workers")?;
        }
        Ok(())
    }

    fn siblings(&self, group: &mut PlacementGroup) -> Result<(), &'static str> {
        match self.siblings {
            SiblingPolicy::Split => {
                let mut threads = group.threads.iter_mut();
                let (Some(first), Some(second)) = (threads.next(), threads.next()) else {
                    return Err("there is one thread of the packet path; plan for more workers");
                };
                second.cpu = self.free_sibling(first.cpu).ok_or(NO_SIBLINGS)?;
                Ok(())
            }
            SiblingPolicy::Shared => self.separate_pair(group),
        }
    }

    /// Moves the workers that share the core of the first receiver to cores of other workers.
    fn separate_pair(&self, group: &mut PlacementGroup) -> Result<(), &'static str> {
        let pair =
            "no receiver shares a core with a worker while another worker has a free sibling";
        let core_of = |cpu: u32| self.machine.core_of(cpu);
        let receiver = group.threads.iter().find(|thread| thread.role.distributes());
        let own = receiver.and_then(|receiver| core_of(receiver.cpu)).ok_or(pair)?;
        let is_own = |thread: &&mut PlacedThread| own.cpus.contains(thread.cpu);
        let others = group.threads.iter().filter(|thread| thread.role == PlacedRole::Worker);
        let others = others.filter(|thread| !own.cpus.contains(thread.cpu));
        let mut places: CpuSet =
            others.filter_map(|thread| self.free_sibling(thread.cpu)).collect();
        let workers = group.threads.iter_mut().filter(|thread| thread.role == PlacedRole::Worker);
        for worker in workers.filter(is_own) {
            let place = places.first().ok_or(pair)?;
            places = places.difference(&CpuSet::from_iter([place]));
            worker.cpu = place;
        }
        Ok(())
    }

    fn leave_isolated(&self, group: &mut PlacementGroup) -> Result<(), &'static str> {
        let isolated = &self.machine.limits.isolated;
        let thread = group.threads.iter_mut().find(|thread| isolated.contains(thread.cpu));
        let thread = thread.ok_or("no thread is on an isolated CPU")?;
        let cpu =
            self.free.difference(isolated).iter().find(|cpu| self.is_as_good(*cpu, thread.cpu));
        thread.cpu = cpu.ok_or("no other CPU of the node is free")?;
        Ok(())
    }

    fn use_cpu0(&self, group: &mut PlacementGroup) -> Result<(), &'static str> {
        let Some(first) = group.threads.first_mut() else { return Err("there is no thread") };
        if !self.machine.limits.usable().contains(0) {
            return Err("this process may not use CPU 0");
        }
        let is_local = self.machine.node_of(0) == self.machine.node_of(first.cpu);
        if !self.ignores_nodes && !is_local {
            return Err("CPU 0 is on another node than the packet path");
        }
        if group.control_cpu == 0 {
            group.control_cpu = first.cpu;
        }
        first.cpu = 0;
        Ok(())
    }

    /// True if `cpu` is on the node of `other`, and its core is unused and does not contain CPU 0.
    fn is_as_good(&self, cpu: u32, other: u32) -> bool {
        let is_local = self.machine.node_of(cpu) == self.machine.node_of(other);
        let is_unused = self.machine.core_of(cpu).is_some_and(|core| {
            let usable = self.machine.limits.usable().intersection(&core.cpus);
            usable.difference(self.free).is_empty() && !core.cpus.contains(0)
        });
        is_unused && (is_local || self.ignores_nodes)
    }
}
