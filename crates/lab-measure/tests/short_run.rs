//! The workload with real threads, for a moment. Times depend on the machine; the structure does
//! not.
#![allow(clippy::unwrap_used, reason = "a test")]

use adit_lab_measure::baseband_app::{
    Calibration, ResponseTimes, SchedulingPolicy, StageTimes, TimeDistribution, Workload,
    WorkloadOutcome, run,
};
use adit_lab_process::stop::Stop;

fn workload() -> Workload {
    Workload {
        cells: 2,
        tti_ns: 2_000_000,
        ttis: 100,
        times: StageTimes { uplink_ns: 100_000, scheduler_ns: 50_000, downlink_ns: 80_000 },
        distribution: TimeDistribution::Fixed,
        policy: SchedulingPolicy::Other,
        priority: 1,
        cores: Vec::new(),
        io_core: None,
        core_scheduling: false,
        seed: 1,
    }
}

fn count(outcome: &WorkloadOutcome, stage: &str) -> u64 {
    outcome.stages.iter().find(|one| one.stage == stage).unwrap().count
}

#[test]
fn each_tti_has_an_outcome_and_each_response_all_stages() {
    let workload = workload();
    let calibration = workload.calibrate().unwrap();
    let run_once = || run(&workload, calibration, &Stop::default(), &mut |_| {}).unwrap();
    let has_response = |outcome: &WorkloadOutcome| {
        assert!(outcome.complete);
        assert_eq!(outcome.ttis.len(), 100);
        outcome.ttis.iter().any(|tti| tti.response_ns.is_some())
    };
    // A busy machine may keep the threads from their cores for a whole run.
    let mut outcomes = std::iter::repeat_with(run_once).take(20);
    let outcome = outcomes.find(has_response).unwrap();
    let responses = outcome.ttis.iter().filter_map(|tti| tti.response_ns).count();
    let responses = u64::try_from(responses).unwrap();
    assert!(count(&outcome, "downlink") >= 2 * responses);
    assert!(count(&outcome, "scheduler") >= responses);
    let complete = outcome.ttis.iter().filter(|tti| !tti.timed_out && tti.response_ns.is_some());
    assert!(count(&outcome, "uplink") >= 2 * u64::try_from(complete.count()).unwrap());
    // Busy work cannot be much faster than calibrated.
    let fastest = ResponseTimes::of(&outcome.ttis).min_ns().unwrap();
    assert!(fastest > workload.times.path_ns() / 2, "{fastest}");
}

#[test]
fn overloaded_pipeline_misses_ttis_and_ends() {
    let mut workload = workload();
    workload.times.uplink_ns = 3 * workload.tti_ns;
    let outcome =
        run(&workload, workload.calibrate().unwrap(), &Stop::default(), &mut |_| {}).unwrap();
    assert_eq!(outcome.ttis.len(), 100);
    assert!(outcome.ttis.iter().all(|tti| tti.is_missed(workload.tti_ns)), "{outcome:?}");
    assert!(outcome.ttis.iter().any(|tti| tti.timed_out));
    // Skipped TTIs were not executed.
    assert!(count(&outcome, "uplink") < 150, "{:?}", outcome.stages);
}

#[test]
fn stop_ends_the_run_with_the_ttis_until_then() {
    let workload = Workload { ttis: 100_000, ..workload() };
    let stop = Stop::default();
    let raiser = stop.clone();
    let raise = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        raiser.raise();
    });
    let outcome = run(&workload, Calibration::given(100_000), &stop, &mut |_| {}).unwrap();
    raise.join().unwrap();
    assert!(!outcome.complete);
    assert!((1..10_000).contains(&outcome.ttis.len()), "{}", outcome.ttis.len());
}

#[test]
fn thread_that_cannot_be_scheduled_ends_all_with_a_sentence() {
    // A runtime below the kernel's minimum of 1024 ns is refused for everybody; others lack the
    // privilege.
    let mut workload = Workload { policy: SchedulingPolicy::Deadline, ..workload() };
    workload.times.scheduler_ns = 500;
    let error = run(&workload, Calibration::given(100_000), &Stop::default(), &mut |_| {});
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("SCHED_DEADLINE: "), "{error}");
}
