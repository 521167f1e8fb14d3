//! Which threads of a user plane run on which CPUs: the machine as plain data, the roles of
//! threads, and the named rules.
//!
//! [`MachineTopology`] describes the machine; the crate `topology` reads it. [`plan()`] proposes a
//! [`Placement`], and [`check()`] returns the rules that a placement breaks. [`plan_breaking()`]
//! proposes a placement that breaks one rule, to measure the rule's effect. Rules, reasons and
//! costs come from two studies, which [`PlacementRule`] names. This module neither reads nor
//! changes the machine.

mod breaking;
mod check;
mod cpu_set;
mod estimate;
mod machine;
mod plan;
mod request;
mod role;
mod rule;
mod tree;

pub use breaking::plan_breaking;
pub use check::{RuleBreak, check};
pub use cpu_set::{CPUS_MAX, CpuSet, CpuSetError};
pub use estimate::{CostSum, cost_of};
pub use machine::{
    CpuCache, CpuCore, CpuLimits, CpuPackage, HostDevice, HostDeviceKind, HostInterrupt, HugePages,
    MachineTopology, NumaNode,
};
pub use plan::{PlacementPlan, PlanRefusal, plan};
pub use request::{PlanModel, PlanRequest, SiblingPolicy};
pub use role::{PlacedPort, PlacedRole, PlacedThread, Placement, PlacementGroup};
pub use rule::{PlacementRule, RuleCost, UnknownRule};
