//! Frequencies that follow the load, on a made-up machine: each CPU goes from 800 to 3600 MHz.

use std::time::Duration;

use crate::tuning::made_up::{CPU, MadeUpHost};
use adit_machine::placement::CpuSet;
use adit_machine::tuning::{
    CpuLoad, FrequencyChange, FrequencyScaling, TuningError, frequency_survey, revert_frequencies,
};

const OWNER: u32 = 4711;

fn limit_path(cpu: u32) -> String {
    format!("{CPU}/cpufreq/policy{cpu}/scaling_max_freq")
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn begin(host: &mut MadeUpHost, list: &str) -> FrequencyScaling {
    let survey = frequency_survey(host, &cpus(list));
    FrequencyScaling::begin(host, OWNER, &survey).unwrap()
}

/// A thread on CPU 2.
fn load(recent_permille: u16, second_permille: u16) -> [CpuLoad; 1] {
    [CpuLoad { cpu: 2, recent_permille, second_permille }]
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn frequency_falls_after_calm_seconds_and_rises_at_once() {
    let mut host = MadeUpHost::new();
    let mut scaling = begin(&mut host, "2");
    let mut turn = |at, loads: [CpuLoad; 1]| {
        let changes = scaling.turn(&mut host, seconds(at), &loads);
        assert!(changes.len() < 2);
        (changes.into_iter().next(), host.value(&limit_path(2)).to_owned())
    };
    // 8.8 % at 3600 MHz are 39.6 % at 800 MHz.
    for at in [10, 11, 12] {
        assert_eq!(turn(at, load(88, 88)), (None, "3600000".to_owned()), "{at}");
    }
    let (change, limit) = turn(13, load(88, 88));
    assert!(matches!(change, Some(FrequencyChange::Lowered(range)) if range.cpus == cpus("2")));
    assert_eq!(limit, "800000");
    // The load for which it was lowered keeps it low, and more than that as well.
    for permille in [396, 699] {
        assert_eq!(turn(20, load(permille, permille)), (None, "800000".to_owned()));
    }
    let (change, limit) = turn(21, load(700, 396));
    assert!(matches!(change, Some(FrequencyChange::Raised(_))));
    assert_eq!(limit, "3600000");
    // Calm begins anew, and ends with one busy second.
    assert_eq!(turn(22, load(0, 0)).1, "3600000");
    assert_eq!(turn(24, load(0, 90)).1, "3600000");
    assert_eq!(turn(25, load(0, 0)).1, "3600000");
    assert_eq!(turn(27, load(0, 0)).1, "3600000");
    assert_eq!(turn(28, load(0, 0)).1, "800000");
}

#[test]
fn limits_are_taken_back_at_the_end_and_nothing_else_changes() {
    let before = MadeUpHost::new();
    let mut host = before.clone();
    let mut scaling = begin(&mut host, "2-3");
    for at in [0, 3] {
        scaling.turn(&mut host, seconds(at), &load(0, 0));
    }
    assert_eq!(host.value(&limit_path(3)), "800000", "without a thread there is no load");
    let reverted = scaling.end(&mut host).unwrap();
    assert_eq!((reverted.restored.len(), reverted.left.len()), (2, 0));
    assert_eq!(host.files, before.files);
}

#[test]
fn turn_without_a_change_touches_no_file() {
    let mut host = MadeUpHost::new();
    let mut scaling = begin(&mut host, "2");
    let before = host.operations.get();
    for at in 0..3 {
        assert_eq!(scaling.turn(&mut host, seconds(at), &load(900, 900)), []);
    }
    assert_eq!(host.operations.get(), before);
}

#[test]
fn crash_at_any_point_is_made_good_by_the_next_process() {
    let before = MadeUpHost::new();
    let run = |host: &mut MadeUpHost| -> Result<(), TuningError> {
        let survey = frequency_survey(host, &cpus("1-2"));
        let mut scaling = FrequencyScaling::begin(host, OWNER, &survey)?;
        for (at, permille) in [(0, 0), (3, 0), (4, 900), (5, 0), (8, 0)] {
            let loads = [1, 2].map(|cpu| CpuLoad {
                cpu,
                recent_permille: permille,
                second_permille: permille,
            });
            scaling.turn(host, seconds(at), &loads);
        }
        scaling.end(host).map(drop)
    };
    let mut whole = before.clone();
    run(&mut whole).unwrap();
    let operations = whole.operations.get();
    assert!(operations > 30, "{operations}");
    for life in 0..operations {
        let mut host = before.clone().dying_after(life);
        let _ = run(&mut host);
        let mut host = host.revived();
        // Its number belongs to another program now.
        host.files.insert(format!("proc/{OWNER}/comm"), "bash\n".to_owned());
        revert_frequencies(&mut host, 1).unwrap();
        host.files.remove(&format!("proc/{OWNER}/comm"));
        assert_eq!(host.files, before.files, "after {life} operations");
    }
}

#[test]
fn running_adit_keeps_its_frequencies() {
    let mut host = MadeUpHost::new();
    let mut scaling = begin(&mut host, "2");
    for at in [0, 3] {
        scaling.turn(&mut host, seconds(at), &load(0, 0));
    }
    host.files.insert(format!("proc/{OWNER}/comm"), "adit\n".to_owned());
    let reverted = revert_frequencies(&mut host, 1).unwrap();
    assert_eq!((reverted.restored.len(), reverted.left.len()), (0, 1));
    assert!(reverted.left[0].contains("running adit (process 4711)"));
    assert_eq!(host.value(&limit_path(2)), "800000");
    // A journal with the own number is that of a previous process.
    assert_eq!(revert_frequencies(&mut host, OWNER).unwrap().restored, [limit_path(2)]);
}

#[test]
fn limit_that_somebody_else_changes_is_left_alone() {
    let mut host = MadeUpHost::new();
    let mut scaling = begin(&mut host, "2");
    host.files.insert(limit_path(2), "2400000\n".to_owned());
    scaling.turn(&mut host, seconds(0), &load(0, 0));
    let changes = scaling.turn(&mut host, seconds(3), &load(0, 0));
    let [FrequencyChange::GivenUp(why)] = &changes[..] else { panic!("{changes:?}") };
    assert!(why.contains("changed from \"3600000\" to \"2400000\" meanwhile"), "{why}");
    assert_eq!(scaling.turn(&mut host, seconds(9), &load(0, 0)), []);
    assert!(scaling.end(&mut host).unwrap().left[0].contains("somebody else wrote"));
    assert_eq!(host.value(&limit_path(2)), "2400000");
}

#[test]
fn frequencies_that_are_not_ours_to_change_are_reported() {
    let mut host = MadeUpHost::new();
    host.files.insert(format!("{CPU}/cpufreq/policy2/affected_cpus"), "2 3\n".to_owned());
    host.files.insert(format!("{CPU}/cpufreq/policy4/scaling_max_freq"), "800000\n".to_owned());
    host.read_only.insert(limit_path(5));
    host.files.remove(&format!("{CPU}/cpufreq/policy6/scaling_min_freq"));
    let of = |list: &str| {
        let survey = frequency_survey(&host, &cpus(list));
        assert!(survey.ranges.is_empty());
        survey.left.join("; ")
    };
    assert!(of("2").contains("CPUs 2 have one frequency with CPUs 3, which do other work"));
    assert!(of("4").contains("is fixed at 800 MHz"));
    assert!(of("5").contains("it needs root"));
    assert!(of("6").contains("scaling_min_freq cannot be read"));
    assert!(of("9").contains("does not control the frequency of CPUs 9"));
    let both = frequency_survey(&host, &cpus("1-3,9"));
    // Policy 3 is listed as well; a kernel has one of them.
    assert_eq!(both.ranges[0].cpus, cpus("1"));
    assert_eq!(both.ranges[1].cpus, cpus("2-3"));
    assert_eq!(both.left.len(), 1);
}
