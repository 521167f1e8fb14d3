//! The order of placements in study 003, tables 4.1 to 4.12, from our rules on its machines.
//!
//! | table | what it compares | test |
//! |---|---|---|
//! | 4.1 | a placement with itself | nothing to order |
//! | 4.2 | with 4.1: no node rules on four sockets, at the limit |
//! `without_node_rules_the_cards_carry_less` |
//! | 4.3 | node rules on and off in virtual machines | `nodes_do_not_matter_within_one_node`: each
//! machine has the CPUs and the memory of one node |
//! | 4.4 | two pinnings across nodes | `pinnings_of_table_4_4_have_the_order_of_the_study` |
//! | 4.5 to 4.10 | each another number of planes, or control on the other node |
//! `each_table_from_4_5_to_4_10_is_on_the_right_side_of_the_baseline` |
//! | 4.11 | no node rules on four sockets, same load |
//! `groups_of_a_node_beat_one_group_over_all_nodes` |
//! | 4.12 | all of 4.4 to 4.10 by CPU utilization |
//! `placements_of_table_4_12_have_the_order_of_the_study` |
//!
//! The columns of packets per second and of drops are not ordered: beyond 8 Gb/s the virtual switch
//! of the study lost packets (section 4.3), which is no property of a placement. So 1cp1up (15.82 %
//! fewer packets) and 2cp1up (4.39 %) are a tie by CPU utilization, in the study and here.

use crate::placement::made_up::machine;
use adit_machine::placement::{
    MachineTopology, PlacedRole, PlacedThread, Placement, PlacementGroup, PlacementRule, PlanModel,
    PlanRequest, RuleBreak, SiblingPolicy, check, cost_of, plan,
};

/// One user plane: receivers (b), workers (a) and the CPU of its control plane.
fn group(receivers: &[u32], workers: &[u32], control_cpu: u32) -> PlacementGroup {
    let thread = |role| move |cpu: &u32| PlacedThread { role, cpu: *cpu };
    let receivers = receivers.iter().map(thread(PlacedRole::Receiver));
    let threads = receivers.chain(workers.iter().map(thread(PlacedRole::Worker))).collect();
    PlacementGroup { control_cpu, threads, ports: Vec::new() }
}

fn placement(groups: Vec<PlacementGroup>) -> Placement {
    Placement { groups }
}

/// A row of table 4.12: its placement, the baseline's utilization at the same number of sessions,
/// and the gain (+) or loss (−) of the study in percentage points.
struct StudyRow {
    name: &'static str,
    placement: Placement,
    baseline_percent: f64,
    study_points: f64,
}

/// The host of the virtual gateway: two sockets with 12 cores of two siblings (section 3.4.1). CPU
/// 24 + n is the sibling of CPU n; CPUs 0 to 11 are on node 0. Figures 3.6 to 3.14.
fn rows() -> Vec<StudyRow> {
    let row = |name, baseline_percent, study_points, groups| StudyRow {
        name,
        placement: placement(groups),
        baseline_percent,
        study_points,
    };
    vec![
        row("2cp1up", 44.7, 18.7, vec![group(&[12, 13], &[36, 37, 14, 38, 15, 39, 16, 40, 17], 0)]),
        row("1cp1up", 44.7, 18.7, vec![group(&[12, 13], &[36, 37, 14, 38, 15, 39, 16, 40, 17], 1)]),
        row("baseline", 49.3, 0.0, baseline().groups),
        row("2cp2up", 33.1, -1.7, vec![group(&[12], &[36, 13], 0), group(&[15], &[39, 16], 1)]),
        row("1cp2up", 33.1, -1.9, vec![group(&[12], &[36, 13], 0), group(&[15], &[39, 16], 0)]),
        row(
            "2cp3up",
            27.0,
            -10.4,
            vec![group(&[2], &[26], 0), group(&[4], &[28], 0), group(&[14], &[38], 12)],
        ),
        row("1A&1B", 33.1, -16.4, vec![group(&[14], &[38, 3], 0), group(&[4], &[28, 15], 12)]),
        row("2A", 30.0, -18.1, vec![group(&[2], &[14, 38], 0), group(&[16], &[4, 28], 12)]),
        row("3cp2up", 25.0, -23.7, vec![group(&[2], &[26], 0), group(&[14], &[38], 12)]),
    ]
}

/// Figure 3.6: on each node a control plane, a receiver with a worker on its core, and another
/// worker.
fn baseline() -> Placement {
    placement(vec![group(&[2], &[26, 3], 0), group(&[14], &[38, 15], 12)])
}

fn breaks(machine: &MachineTopology, placement: &Placement) -> Vec<RuleBreak> {
    check(machine, placement, SiblingPolicy::Shared)
}

/// Points by our rules: the baseline's utilization less that of the placement.
fn our_points(machine: &MachineTopology, row: &StudyRow) -> f64 {
    let found = breaks(machine, &row.placement);
    let cost = cost_of(&row.placement, &found, baseline().workers());
    row.baseline_percent - cost.utilization(row.baseline_percent)
}

#[test]
fn placements_of_table_4_12_have_the_order_of_the_study() {
    let host = machine(2, 12);
    let rows = rows();
    assert!(rows.is_sorted_by(|one, other| one.study_points >= other.study_points));
    let ours: Vec<_> = rows.iter().map(|row| our_points(&host, row)).collect();
    for (index, pair) in ours.windows(2).enumerate() {
        let (one, other) = (&rows[index], &rows[index + 1]);
        let is_tie = one.study_points == other.study_points;
        assert!(
            if is_tie { pair[0] == pair[1] } else { pair[0] > pair[1] },
            "{} {:.1} (study {}), {} {:.1} (study {})",
            one.name,
            pair[0],
            one.study_points,
            other.name,
            pair[1],
            other.study_points
        );
    }
}

/// The number of workers, which is in no constant of ours, predicts these rows within 5 points.
#[test]
fn number_of_workers_predicts_the_rows_that_change_it() {
    let host = machine(2, 12);
    for row in rows().iter().filter(|row| row.placement.workers() != baseline().workers()) {
        let ours = our_points(&host, row);
        assert!(
            (ours - row.study_points).abs() < 5.0,
            "{}: {ours} for {}",
            row.name,
            row.study_points
        );
    }
}

#[test]
fn each_row_breaks_the_rule_that_the_study_varies() {
    let host = machine(2, 12);
    let rules = |name: &str| -> Vec<PlacementRule> {
        let rows = rows();
        let row = rows.iter().find(|row| row.name == name).unwrap();
        let mut rules: Vec<_> =
            breaks(&host, &row.placement).iter().map(|found| found.rule).collect();
        rules.dedup();
        rules
    };
    assert_eq!(rules("baseline"), []);
    assert_eq!(rules("1A&1B"), [PlacementRule::OwnNode]);
    assert_eq!(rules("2A"), [PlacementRule::OwnNode, PlacementRule::SiblingPolicy]);
    for name in ["2cp2up", "1cp2up", "2cp1up", "1cp1up"] {
        assert_eq!(rules(name), [PlacementRule::ControlNode], "{name}");
    }
    assert_eq!(rules("2cp3up"), []);
    assert_eq!(rules("3cp2up"), []);
}

/// Four sockets with 14 cores (section 3.3): two receivers and nine workers on each.
struct Cards {
    machine: MachineTopology,
    /// Groups of a node.
    aware: Placement,
    /// A placement in which all receivers distribute to all workers.
    unaware: Placement,
}

fn cards() -> Cards {
    let on_node = |node: u32| {
        let first = node * 14;
        let receivers = [first + 1, first + 2];
        let workers: Vec<u32> = (first + 3..first + 12).collect();
        group(&receivers, &workers, first)
    };
    let aware = placement((0..4).map(on_node).collect());
    let threads = aware.groups.iter().flat_map(|group| group.threads.clone()).collect();
    let unaware = placement(vec![PlacementGroup { control_cpu: 0, threads, ports: Vec::new() }]);
    Cards { machine: machine(4, 14), aware, unaware }
}

impl Cards {
    /// Utilization of the placement without node rules where the other one has `percent`.
    fn unaware_percent(&self, percent: f64) -> f64 {
        let found = breaks(&self.machine, &self.unaware);
        cost_of(&self.unaware, &found, self.aware.workers()).utilization(percent)
    }
}

/// Table 4.11: 87.0 % instead of 62.8 % with 1,865,100 sessions.
#[test]
fn groups_of_a_node_beat_one_group_over_all_nodes() {
    let cards = cards();
    assert_eq!(breaks(&cards.machine, &cards.aware), []);
    assert!((cards.unaware_percent(62.8) - 87.0).abs() < 0.05);
}

/// Tables 4.1 and 4.2: with node rules 2,987,700 sessions at 90 %; without them 2,382,400 were too
/// many.
#[test]
fn without_node_rules_the_cards_carry_less() {
    let cards = cards();
    assert!(cards.unaware_percent(90.0) > 100.0, "more than there is");
    // At the sessions of table 4.2 the study had 100 %, as an average of cores that lost packets.
    let aware = 90.0 * 2_382_400.0 / 2_987_700.0;
    let unaware = cards.unaware_percent(aware);
    assert!(aware < unaware && (90.0..100.0).contains(&unaware), "{unaware}");
}

/// Table 4.3: 49.3 % with node rules and 48.5 % without, since a virtual machine has the CPUs of
/// one node.
#[test]
fn nodes_do_not_matter_within_one_node() {
    let mut host = machine(2, 12);
    host.limits.allowed = "12-23,36-47".parse().unwrap();
    let request = |ignores_nodes| PlanRequest {
        model: PlanModel::Pipeline { receivers: Some(1) },
        workers: Some(2),
        threads_max: 64,
        ports: Vec::new(),
        siblings: SiblingPolicy::Shared,
        ignores_nodes,
        is_per_node: false,
    };
    let [numa, uma] = [false, true].map(|ignores| plan(&host, &request(ignores)).unwrap());
    assert_eq!(numa.placement, uma.placement);
    assert_eq!((numa.cost, numa.breaks), (uma.cost, uma.breaks));
}

fn row(name: &str) -> StudyRow {
    rows().into_iter().find(|row| row.name == name).unwrap()
}

/// Table 4.4: until half of the CPU time was used, 515,400 sessions for 1A&1B and 468,500 for 2A.
#[test]
fn pinnings_of_table_4_4_have_the_order_of_the_study() {
    let host = machine(2, 12);
    let percent = |name| utilization(&host, &row(name).placement, 30.0);
    assert!(30.0 < percent("1A&1B") && percent("1A&1B") < percent("2A"));
}

fn utilization(host: &MachineTopology, placement: &Placement, baseline_percent: f64) -> f64 {
    let found = breaks(host, placement);
    cost_of(placement, &found, baseline().workers()).utilization(baseline_percent)
}

/// Tables 4.5 to 4.10 by the average CPU utilization, compared with that of the baseline with the
/// same sessions.
#[test]
fn each_table_from_4_5_to_4_10_is_on_the_right_side_of_the_baseline() {
    let host = machine(2, 12);
    for (table, name, study_percent) in [
        ("4.5", "3cp2up", 48.7),
        ("4.6", "2cp3up", 37.4),
        ("4.7", "2cp2up", 34.8),
        ("4.8", "2cp1up", 26.0),
        ("4.9", "1cp2up", 35.0),
        ("4.10", "1cp1up", 26.0),
    ] {
        let row = row(name);
        let ours = utilization(&host, &row.placement, row.baseline_percent);
        let is_worse = |percent: f64| percent > row.baseline_percent;
        assert_eq!(is_worse(ours), is_worse(study_percent), "table {table}: {ours}");
    }
}

/// Tables 4.3, 4.4 and 4.5: the placements that stopped at the target of 50 %, by the sessions that
/// they carried. The baseline had 20.2 % with 320,000 sessions and 49.3 % with 754,600, on a
/// straight line (figure 4.3).
#[test]
fn placements_reach_the_target_of_50_percent_with_about_the_sessions_of_the_study() {
    let host = machine(2, 12);
    let sessions = |baseline_percent: f64| {
        320_000.0 + (baseline_percent - 20.2) / (49.3 - 20.2) * (754_600.0 - 320_000.0)
    };
    let mut last = f64::INFINITY;
    for (name, study) in
        [("baseline", 754_600.0), ("1A&1B", 515_400.0), ("2A", 468_500.0), ("3cp2up", 387_200.0)]
    {
        let placement = row(name).placement;
        // Utilization rises with the load: the load at 50 % is between none and that of the
        // baseline.
        let percents = (0..=1000).map(|step| f64::from(step) / 20.0);
        let mut below = percents.filter(|percent| utilization(&host, &placement, *percent) <= 50.0);
        let carried = sessions(below.next_back().unwrap());
        assert!(carried < last, "{name}: {carried}");
        assert!((carried / study - 1.0).abs() < 0.1, "{name}: {carried} for {study}");
        last = carried;
    }
}

/// Rules that no table varies, each broken alone.
#[test]
fn rules_that_a_hand_written_placement_breaks_are_reported() {
    let mut host = machine(2, 12);
    host.limits.isolated = "4-11".parse().unwrap();
    host.limits.quota_millicpus = Some(2500);
    host.limits.allowed = "0-11,24-35".parse().unwrap();
    let rules = |placement: &Placement| -> Vec<PlacementRule> {
        let found = check(&host, placement, SiblingPolicy::Split);
        found.iter().map(|found| found.rule).collect()
    };
    let workers = |cpus: &[u32], control| placement(vec![group(&[], cpus, control)]);
    assert_eq!(rules(&workers(&[4, 5], 0)), []);
    assert_eq!(rules(&workers(&[4, 4], 0)), [PlacementRule::OwnCpu]);
    assert_eq!(rules(&workers(&[4, 5, 6], 0)), [PlacementRule::Quota]);
    assert_eq!(
        rules(&workers(&[4, 28], 0)),
        [PlacementRule::SiblingPolicy, PlacementRule::IsolatedFirst]
    );
    assert_eq!(rules(&workers(&[4], 28)), [PlacementRule::ControlSibling]);
    assert_eq!(rules(&workers(&[2], 1)), [PlacementRule::IsolatedFirst]);
    assert_eq!(rules(&workers(&[0], 1)), [PlacementRule::IsolatedFirst, PlacementRule::Cpu0Last]);
    assert_eq!(rules(&workers(&[4, 99], 0)), [PlacementRule::UsableCpu]);
    assert!(rules(&workers(&[12], 0)).contains(&PlacementRule::UsableCpu));
}

#[test]
fn every_rule_has_a_name_of_its_own_a_reason_and_a_cost() {
    let mut names: Vec<_> = PlacementRule::ALL.iter().map(|rule| rule.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PlacementRule::ALL.len());
    for rule in PlacementRule::ALL {
        assert!(!rule.reason().is_empty() && !rule.cost_text().is_empty());
        let json = serde_json::to_string(&rule).unwrap();
        assert_eq!(json.trim_matches('"'), rule.name());
    }
}
