//! The sampler on the machine of the test: which fields it reports, not their values.

use std::time::Duration;

use adit_machine::noise::{NoiseError, run};

/// A core that this process may use.
fn core() -> u16 {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..rustix::thread::CpuSet::MAX_CPU).find(|core| set.is_set(*core)).unwrap();
    u16::try_from(core).unwrap()
}

#[test]
fn sampler_turns_and_counts_gaps_within_the_duration() {
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    let report = run(core(), Duration::from_millis(200), Duration::from_micros(1)).unwrap();
    assert!(report.turns > 1000 && report.turn_min_ns < 1_000_000, "{report}");
    let counted: u64 = report
        .histogram
        .iter()
        .map(|bucket| bucket.other_threads + bucket.interrupts_or_hypervisor)
        .sum();
    assert_eq!(counted, report.gaps());
    assert!(report.duration_ns >= 200_000_000 && report.taken_ppm() <= 1_000_000, "{report}");
    assert!(report.involuntary_switches >= report.other_threads.count.min(1), "{report}");
    assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
}

#[test]
fn thread_on_the_same_core_is_found_as_a_cause() {
    let core = core();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut set = rustix::thread::CpuSet::new();
            set.set(core.into());
            rustix::thread::sched_setaffinity(None, &set).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let report = run(core, Duration::from_millis(500), Duration::from_micros(10));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        report.unwrap()
    });
    assert!(report.other_threads.count > 0 && report.taken_ppm() > 100_000, "{report}");
}

#[test]
fn wrong_arguments_get_a_sentence() {
    let second = Duration::from_secs(1);
    let error = run(9999, second, Duration::from_micros(1)).unwrap_err();
    assert!(error.to_string().starts_with("core 9999: this process cannot run there"), "{error}");
    let error = run(core(), second, Duration::from_nanos(1)).unwrap_err();
    assert!(matches!(error, NoiseError::Threshold(_)), "{error}");
    let error = run(core(), Duration::ZERO, Duration::from_micros(1)).unwrap_err();
    assert_eq!(error.to_string(), "a duration of zero samples nothing");
}
