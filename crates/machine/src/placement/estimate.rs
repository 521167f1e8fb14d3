//! Estimates the total cost of all rules that a placement breaks.

use serde::{Deserialize, Serialize};

use crate::placement::check::ratio;
use crate::placement::{Placement, PlacementRule, RuleBreak, RuleCost};

/// The total cost of broken rules: CPU utilization is multiplied by `load_factor`, then increased
/// by `cpu_points`.
///
/// The points were measured on the machines of the studies. They serve to compare placements, and
/// do not predict the utilization of other machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostSum {
    /// Percentage points of CPU utilization.
    pub cpu_points: f64,
    /// Factor by which the load of a worker grows.
    pub load_factor: f64,
}

impl CostSum {
    /// Returns the CPU utilization in percent, if a placement that breaks no rule has `percent`.
    #[must_use]
    pub fn utilization(self, percent: f64) -> f64 {
        percent * self.load_factor + self.cpu_points
    }
}

/// Adds up the costs of `breaks` of `placement`. `workers`: the number of workers of the placement
/// to compare with; the load divides among workers.
///
/// If a rule is broken several times, only the highest cost counts, since the studies measured
/// whole machines.
#[must_use]
pub fn cost_of(placement: &Placement, breaks: &[RuleBreak], workers: usize) -> CostSum {
    let mut cpu_points = 0.0;
    let mut load_factor = ratio(workers, placement.workers().max(1));
    for rule in PlacementRule::ALL {
        // Breaks of this rule are skipped: the ratio of workers accounts for them already.
        let of_rule = breaks.iter().filter(|found| found.rule == rule);
        let of_rule = of_rule.filter(|found| found.rule != PlacementRule::WorkersFirst);
        let (mut points, mut factor) = (0.0_f64, 1.0_f64);
        for found in of_rule {
            match found.cost {
                RuleCost::CpuPoints(of_break) => points = points.max(of_break),
                RuleCost::Factor(of_break) => factor = factor.max(of_break),
                RuleCost::Unmeasured | RuleCost::CannotRun => {}
            }
        }
        cpu_points += points;
        load_factor *= factor;
    }
    CostSum { cpu_points, load_factor }
}
