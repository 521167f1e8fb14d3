//! The cost of broken rules together.

use serde::{Deserialize, Serialize};

use crate::placement::check::ratio;
use crate::placement::{Placement, PlacementRule, RuleBreak, RuleCost};

/// The sum of costs: CPU utilization becomes `load_factor` times as much, plus `cpu_points`.
///
/// Points are those of the studies' machines. They order placements; they do not predict
/// utilization elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostSum {
    /// Percentage points of CPU utilization.
    pub cpu_points: f64,
    /// Factor of the load of a worker.
    pub load_factor: f64,
}

impl CostSum {
    /// CPU utilization in percent where the placement without these costs has `percent`.
    #[must_use]
    pub fn utilization(self, percent: f64) -> f64 {
        percent * self.load_factor + self.cpu_points
    }
}

/// Adds up `breaks` of `placement`. `workers`: how many workers the placement has that it is
/// compared with; the load divides over workers.
///
/// The highest of several breaks of one rule counts, since the studies measured the whole machine.
#[must_use]
pub fn cost_of(placement: &Placement, breaks: &[RuleBreak], workers: usize) -> CostSum {
    let mut cpu_points = 0.0;
    let mut load_factor = ratio(workers, placement.workers().max(1));
    for rule in PlacementRule::ALL {
        // Fewer workers are in the ratio already.
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
