//! Profiles on made-up machines: their settings, there and back, and every way that fails.

use std::fs;
use std::path::Path;

use adit_machine::placement::CpuSet;
use adit_machine::tuning::{
    CpuLatencyHold, HugePagesWanted, JOURNAL_PATH, RootedFiles, SettingForm, SettingKind,
    SettingState, TuningError, TuningProfile, TuningReport, TuningRequest, apply, check,
    kernel_parameters, revert,
};

use crate::tuning::made_up::{CPU, MadeUpHost, Meddling};

fn request(profile: TuningProfile) -> TuningRequest {
    let has_cores = profile.has_cores();
    TuningRequest {
        profile,
        cores: if has_cores { "2-3".parse().unwrap() } else { CpuSet::default() },
        huge_pages: vec![HugePagesWanted { node: 0, page_kib: 2048, count: 512 }],
        partition: has_cores.then(|| "adit".to_owned()),
        is_cpu_only: false,
    }
}

/// Profiles with all kinds of settings.
const FULL: TuningProfile = TuningProfile::FfNoIdleRt;

fn of_kind(report: &TuningReport, kind: SettingKind) -> Vec<(&str, &SettingState)> {
    let of_kind = report.settings.iter().filter(|checked| checked.setting.kind == kind);
    of_kind.map(|checked| (checked.setting.path.as_str(), &checked.state)).collect()
}

fn idle(host: &MadeUpHost, cpu: u32, state: u32) -> &str {
    host.value(&format!("{CPU}/cpu{cpu}/cpuidle/state{state}/disable"))
}

#[test]
fn every_profile_is_applied_and_taken_back_byte_for_byte() {
    for profile in TuningProfile::ALL {
        let before = MadeUpHost::new();
        let mut host = before.clone();
        let applied = apply(&mut host, &request(profile)).unwrap();
        assert_eq!(applied.refused, Vec::<String>::new());
        assert!(host.files.contains_key(JOURNAL_PATH), "{profile}");
        let report = check(&host, &request(profile));
        if profile != TuningProfile::Rt {
            let report = report.unwrap();
            let fits = report.settings.iter().all(|one| one.state == SettingState::Fits);
            assert!(fits, "{profile}: {report:?}");
        }
        let reverted = revert(&mut host).unwrap();
        assert_eq!(reverted.left, Vec::<String>::new());
        assert_eq!(host.files, before.files, "{profile}");
        assert!(matches!(revert(&mut host), Err(TuningError::NotApplied { .. })));
    }
}

#[test]
fn profiles_are_those_of_table_1() {
    let applied = |profile| {
        let mut host = MadeUpHost::new();
        apply(&mut host, &request(profile)).unwrap();
        host
    };
    let frequency = |host: &MadeUpHost| {
        let policy = format!("{CPU}/cpufreq/policy2");
        ["scaling_governor", "scaling_min_freq", "scaling_max_freq"]
            .map(|name| host.value(&format!("{policy}/{name}")).to_owned())
    };
    let fixed = ["performance", "2400000", "2400000"];
    let turbo = |host: &MadeUpHost| host.value(&format!("{CPU}/intel_pstate/no_turbo")).to_owned();
    let siblings = |host: &MadeUpHost| host.value(&format!("{CPU}/smt/control")).to_owned();

    let ff = applied(TuningProfile::Ff);
    assert_eq!(frequency(&ff), fixed);
    assert_eq!((turbo(&ff).as_str(), siblings(&ff).as_str()), ("1", "on"));
    assert_eq!((idle(&ff, 2, 1), idle(&ff, 2, 2)), ("0", "0"));
    // Settings outside the table are for profiles with CPUs of their own.
    assert_eq!(ff.value("proc/sys/kernel/numa_balancing"), "1");

    let no_idle = applied(TuningProfile::FfNoIdle);
    assert_eq!((idle(&no_idle, 0, 2), idle(&no_idle, 2, 1)), ("1", "1"));
    assert_eq!(idle(&no_idle, 2, 0), "0", "polling is no idle state");

    for profile in [TuningProfile::FfNoIdleRt, TuningProfile::Core] {
        let of_cores = applied(profile);
        assert_eq!(frequency(&of_cores), fixed);
        assert_eq!((idle(&of_cores, 2, 1), idle(&of_cores, 3, 2)), ("1", "1"));
        assert_eq!((idle(&of_cores, 0, 1), idle(&of_cores, 6, 2)), ("0", "0"));
        assert_eq!(siblings(&of_cores), "on");
        assert_eq!(of_cores.value("proc/sys/kernel/watchdog_cpumask"), "0-1,4-7");
        assert_eq!(of_cores.value("proc/irq/30/smp_affinity_list"), "0-1,4-7");
        assert_eq!(of_cores.value("proc/irq/31/smp_affinity_list"), "0-1,4-7");
        assert_eq!(of_cores.value("proc/irq/32/smp_affinity_list"), "0-1");
        assert_eq!(of_cores.value("proc/irq/default_smp_affinity"), "f3");
        assert_eq!(of_cores.value("sys/fs/cgroup/adit/cpuset.cpus.partition"), "isolated");
        let thp = of_cores.value("sys/kernel/mm/transparent_hugepage/enabled");
        assert_eq!(thp, "always [madvise] never");
    }
    let rt = applied(TuningProfile::Rt);
    assert_eq!((siblings(&rt).as_str(), turbo(&rt).as_str(), idle(&rt, 0, 1)), ("off", "1", "1"));
    // Later siblings go offline, so they get no interrupts either.
    assert_eq!(rt.value("proc/irq/30/smp_affinity_list"), "0-1");
}

#[test]
fn default_profile_takes_a_foreign_tuning_away() {
    let mut host = MadeUpHost::new();
    apply(&mut host, &request(TuningProfile::FfNoIdle)).unwrap();
    host.files.remove(JOURNAL_PATH);
    apply(&mut host, &request(TuningProfile::Default)).unwrap();
    assert_eq!(idle(&host, 0, 2), "0");
    assert_eq!(host.value(&format!("{CPU}/cpufreq/policy0/scaling_max_freq")), "3600000");
    assert_eq!(host.value(&format!("{CPU}/cpufreq/policy0/scaling_governor")), "powersave");
    assert_eq!(host.value(&format!("{CPU}/intel_pstate/no_turbo")), "0");
}

#[test]
fn settings_of_the_table_only_leave_the_kernel_alone() {
    let mut host = MadeUpHost::new();
    let cpu_only = TuningRequest { is_cpu_only: true, partition: None, ..request(FULL) };
    apply(&mut host, &cpu_only).unwrap();
    assert_eq!(idle(&host, 2, 1), "1");
    assert_eq!(host.value("proc/irq/30/smp_affinity_list"), "0-7");
    assert_eq!(host.value("proc/sys/kernel/sched_rt_runtime_us"), "950000");
}

/// How many values the journal has.
fn whole_writes(host: &MadeUpHost) -> usize {
    host.files[JOURNAL_PATH].lines().filter(|line| line.starts_with("file\t")).count()
}

/// The process dies after any operation of `apply`, then after any of `revert`: a later `revert`
/// brings everything back.
#[test]
fn revert_after_a_crash_at_any_step_leaves_the_machine_byte_for_byte() {
    for profile in TuningProfile::ALL {
        let before = MadeUpHost::new();
        let mut whole = before.clone();
        apply(&mut whole, &request(profile)).unwrap();
        let mut half_way = 0;
        for died_after in 0..whole.operations.get() {
            let mut host = before.clone().dying_after(died_after);
            // Without a readable file there is nothing to apply, which is no error.
            let _ = apply(&mut host, &request(profile));
            let mut host = host.revived();
            match revert(&mut host) {
                Ok(reverted) => {
                    assert_eq!(reverted.left, Vec::<String>::new());
                    half_way += usize::from(!reverted.restored.is_empty());
                }
                Err(error) => assert!(matches!(error, TuningError::NotApplied { .. }), "{error}"),
            }
            assert_eq!(host.files, before.files, "{profile}, died after {died_after} operations");
        }
        // Every value that was written, but the first, was once the last one before the end.
        assert!(half_way >= whole_writes(&whole) - 1, "{profile}: {half_way}");
        whole.operations.set(0);
        let mut reverted = whole.clone();
        revert(&mut reverted).unwrap();
        for died_after in 0..reverted.operations.get() {
            let mut host = whole.clone().dying_after(died_after);
            revert(&mut host).unwrap_err();
            let mut host = host.revived();
            revert(&mut host).unwrap();
            assert_eq!(host.files, before.files, "{profile}, died after {died_after} operations");
        }
    }
}

/// The kernel refuses any one of the values: `apply` takes the others back by itself.
#[test]
fn refused_value_undoes_the_others() {
    for profile in TuningProfile::ALL {
        let before = MadeUpHost::new();
        let mut whole = before.clone();
        let applied = apply(&mut whole, &request(profile)).unwrap();
        let old_files =
            applied.written.iter().filter(|setting| before.files.contains_key(&setting.path));
        for setting in old_files {
            let mut host = before.clone();
            host.refusing.insert(setting.path.clone());
            match apply(&mut host, &request(profile)) {
                Err(TuningError::Undone { why }) => assert!(why.contains(&setting.path), "{why}"),
                Ok(applied) if setting.may_be_refused => {
                    assert!(applied.refused[0].contains(&setting.path));
                    revert(&mut host).unwrap();
                }
                other => panic!("{}: {other:?}", setting.path),
            }
            assert_eq!(host.files, before.files, "{}", setting.path);
        }
    }
}

#[test]
fn knob_that_is_absent_is_named_and_the_others_are_applied() {
    let all = SettingKind::ALL;
    let prefix = |kind| match kind {
        SettingKind::Governor | SettingKind::FrequencyLimits => format!("{CPU}/cpufreq/"),
        SettingKind::Turbo => format!("{CPU}/intel_pstate/"),
        SettingKind::IdleStates => format!("{CPU}/cpu"),
        SettingKind::Siblings => format!("{CPU}/smt/"),
        SettingKind::Interrupts => "proc/irq/".to_owned(),
        SettingKind::Partition => "sys/fs/cgroup/".to_owned(),
        SettingKind::NumaBalancing => "proc/sys/kernel/numa_balancing".to_owned(),
        SettingKind::TransparentHugePages => "sys/kernel/mm/".to_owned(),
        SettingKind::TimerMigration => "proc/sys/kernel/timer_migration".to_owned(),
        SettingKind::Watchdog => "proc/sys/kernel/watchdog_cpumask".to_owned(),
        SettingKind::RealTimeThrottling => "proc/sys/kernel/sched_rt_runtime_us".to_owned(),
        SettingKind::HugePages => "sys/devices/system/node/".to_owned(),
    };
    for kind in all {
        let mut before = MadeUpHost::new();
        before.remove(&prefix(kind));
        let report = check(&before, &request(FULL)).unwrap();
        assert_eq!(of_kind(&report, kind), [], "{}", kind.name());
        let missing = report.missing.iter().find(|missing| missing.kind == kind).unwrap();
        assert!(!missing.why.is_empty());
        let mut host = before.clone();
        let applied = apply(&mut host, &request(FULL)).unwrap();
        assert!(!applied.written.is_empty());
        revert(&mut host).unwrap();
        assert_eq!(host.files, before.files, "{}", kind.name());
    }
}

/// Each kind that the full profile changes on the made-up machine, with one of its files.
fn changed_files() -> Vec<(SettingKind, String)> {
    let report = check(&MadeUpHost::new(), &request(FULL)).unwrap();
    let changes = report.settings.iter().filter(|one| one.state == SettingState::Differs);
    let mut files: Vec<(SettingKind, String)> = Vec::new();
    for one in changes {
        if files.iter().all(|(kind, _)| *kind != one.setting.kind) {
            files.push((one.setting.kind, one.setting.path.clone()));
        }
    }
    assert_eq!(files.len(), SettingKind::ALL.len() - 1, "siblings are on already: {files:?}");
    files.push((SettingKind::Siblings, format!("{CPU}/smt/control")));
    files
}

fn request_for(kind: SettingKind) -> TuningRequest {
    request(if kind == SettingKind::Siblings { TuningProfile::Rt } else { FULL })
}

#[test]
fn knob_that_is_read_only_is_reported_and_left_alone() {
    for (kind, path) in changed_files() {
        let mut before = MadeUpHost::new();
        before.read_only.insert(path.clone());
        let request = request_for(kind);
        let report = check(&before, &request).unwrap();
        let fixed = of_kind(&report, kind).into_iter().find(|(of, _)| *of == path).unwrap();
        assert!(matches!(fixed.1, SettingState::Fixed(why) if why.contains("read-only")), "{path}");
        let mut host = before.clone();
        apply(&mut host, &request).unwrap();
        assert_eq!(host.files[&path], before.files[&path]);
        revert(&mut host).unwrap();
        assert_eq!(host.files, before.files, "{path}");
    }
}

/// A value that neither we nor the machine had.
fn foreign_value(kind: SettingKind) -> &'static str {
    match kind {
        SettingKind::TransparentHugePages => "always madvise [never]\n",
        SettingKind::Partition => "cpu\n",
        SettingKind::Interrupts => "1\n",
        SettingKind::Watchdog => "5\n",
        _ => "7\n",
    }
}

#[test]
fn knob_that_somebody_changes_before_its_turn_stops_apply() {
    for (kind, path) in changed_files() {
        // A controller is on or off: somebody else switched it on as well.
        let text = match kind {
            SettingKind::Partition => "cpu cpuset memory\n",
            other => foreign_value(other),
        };
        let mut host = MadeUpHost::new();
        let mut expected = host.files.clone();
        expected.insert(path.clone(), text.to_owned());
        host.meddling = Some(Meddling { path: path.clone(), text: text.to_owned() });
        match apply(&mut host, &request_for(kind)) {
            Err(TuningError::Undone { why }) => assert!(why.contains("meanwhile"), "{why}"),
            other => panic!("{path}: {other:?}"),
        }
        assert_eq!(host.files, expected, "{path}");
    }
}

#[test]
fn knob_that_somebody_changes_afterwards_keeps_that_value() {
    for (kind, path) in changed_files() {
        if kind == SettingKind::Partition {
            continue;
        }
        let before = MadeUpHost::new();
        let mut host = before.clone();
        apply(&mut host, &request_for(kind)).unwrap();
        let mut expected = before.files.clone();
        if kind == SettingKind::Siblings {
            host.files.insert(path.clone(), "forceoff\n".to_owned());
            let reverted = revert(&mut host).unwrap();
            assert!(reverted.left.iter().any(|left| left.contains("forceoff")), "{reverted:?}");
            continue;
        }
        host.files.insert(path.clone(), foreign_value(kind).to_owned());
        expected.insert(path.clone(), foreign_value(kind).to_owned());
        let reverted = revert(&mut host).unwrap();
        assert_eq!(reverted.left.len(), 1, "{reverted:?}");
        assert!(reverted.left[0].contains(&path), "{reverted:?}");
        assert_eq!(host.files, expected, "{path}");
    }
}

#[test]
fn cgroup_with_processes_keeps_the_journal() {
    let before = MadeUpHost::new();
    let mut host = before.clone();
    apply(&mut host, &request(FULL)).unwrap();
    let processes = "sys/fs/cgroup/adit/cgroup.procs";
    host.files.insert(processes.to_owned(), "4711\n".to_owned());
    let error = revert(&mut host).unwrap_err();
    assert!(matches!(error, TuningError::HalfReverted { .. }), "{error}");
    assert!(error.to_string().contains("end the processes in it"));
    host.files.insert(processes.to_owned(), "\n".to_owned());
    revert(&mut host).unwrap();
    assert_eq!(host.files, before.files);
}

#[test]
fn second_apply_is_refused_until_the_first_is_taken_back() {
    let mut host = MadeUpHost::new();
    apply(&mut host, &request(TuningProfile::Ff)).unwrap();
    let after = host.files.clone();
    let error = apply(&mut host, &request(TuningProfile::FfNoIdle)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "profile ff is applied; take it back first with `adit host revert`"
    );
    assert_eq!(host.files, after);
    host.files.insert(JOURNAL_PATH.to_owned(), "torn".to_owned());
    assert!(matches!(revert(&mut host), Err(TuningError::DamagedJournal { line: 1, .. })));
}

#[test]
fn request_that_does_not_fit_is_refused_with_one_sentence() {
    let host = MadeUpHost::new();
    let refused = |request: TuningRequest| {
        let error = check(&host, &request).unwrap_err().to_string();
        assert!(!error.contains('\n'));
        error
    };
    let with_cores =
        |profile, cores: &str| TuningRequest { cores: cores.parse().unwrap(), ..request(profile) };
    assert!(refused(with_cores(FULL, "")).contains("--cores"));
    assert_eq!(refused(with_cores(FULL, "2,9-10")), "CPU 9-10 is not online; online are 0-7");
    assert!(refused(with_cores(FULL, "0-7")).contains("at least one other"));
    assert!(refused(with_cores(TuningProfile::Rt, "6")).contains("name CPU 2"));
    assert!(refused(with_cores(TuningProfile::Ff, "2")).contains("treats all CPUs alike"));
    for name in ["", "..", "a/b"] {
        let partition = Some(name.to_owned());
        assert!(refused(TuningRequest { partition, ..request(FULL) }).contains("cgroup"));
    }
    assert!("fast".parse::<TuningProfile>().unwrap_err().contains("ff-noidle-rt"));
}

#[test]
fn process_without_permission_gets_one_sentence() {
    let before = MadeUpHost::new();
    let mut host = before.clone();
    host.read_only = host.files.keys().cloned().collect();
    let mut request = request(FULL);
    request.partition = None;
    let error = apply(&mut host, &request).unwrap_err().to_string();
    assert!(error.contains("changes need root") && !error.contains('\n'), "{error}");
    assert_eq!(host.files, before.files);
    host.read_only.remove("proc/sys/kernel/timer_migration");
    let applied = apply(&mut host, &request).unwrap();
    assert_eq!(applied.written.len(), 1);
    assert!(applied.fixed_count > 1);
}

#[test]
fn kernel_parameters_are_proposed_and_those_present_are_marked() {
    let host = MadeUpHost::new();
    let parameters = kernel_parameters(&host, &request(TuningProfile::Rt)).unwrap();
    let shown: Vec<_> = parameters.iter().map(|one| (one.text.as_str(), one.is_present)).collect();
    assert_eq!(
        shown,
        [
            ("isolcpus=managed_irq,domain,2-3", false),
            ("nohz_full=2-3", true),
            ("rcu_nocbs=2-3", false),
            ("irqaffinity=0-1", false),
            ("nosmt", false),
        ]
    );
    assert_eq!(kernel_parameters(&host, &request(TuningProfile::Ff)).unwrap(), []);
}

/// The same in folders, with all files of the made-up machine whose text is their value.
#[test]
fn tree_of_files_is_the_same_after_apply_and_revert() {
    let folder = tempfile::tempdir().unwrap();
    let made_up = MadeUpHost::new();
    for (path, text) in &made_up.files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let read_all = || -> Vec<(String, String)> {
        let paths = made_up.files.keys();
        paths
            .map(|path| (path.clone(), fs::read_to_string(folder.path().join(path)).unwrap()))
            .collect()
    };
    let before = read_all();
    let mut files = RootedFiles::new(folder.path());
    apply(&mut files, &request(TuningProfile::FfNoIdle)).unwrap();
    assert_ne!(read_all(), before);
    assert!(folder.path().join(JOURNAL_PATH).exists());
    let reverted = revert(&mut files).unwrap();
    assert_eq!(reverted.left, Vec::<String>::new());
    assert_eq!(read_all(), before);
    assert!(!folder.path().join(JOURNAL_PATH).exists());
}

#[test]
fn this_machine_is_checked_without_a_change() {
    let files = RootedFiles::new(Path::new("/"));
    let report =
        check(&files, &TuningRequest { huge_pages: Vec::new(), ..request(TuningProfile::Ff) });
    let report = report.unwrap();
    assert!(!report.settings.is_empty() || !report.missing.is_empty());
}

#[test]
fn latency_limit_is_four_octets_and_a_missing_device_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(CpuLatencyHold::acquire(folder.path(), 0).is_err());
    fs::create_dir(folder.path().join("dev")).unwrap();
    fs::write(folder.path().join("dev/cpu_dma_latency"), "").unwrap();
    let hold = CpuLatencyHold::acquire(folder.path(), 20).unwrap();
    let written = fs::read(folder.path().join("dev/cpu_dma_latency")).unwrap();
    assert_eq!(written, 20u32.to_ne_bytes());
    drop(hold);
}

#[test]
fn form_of_a_value_that_is_none_stays_as_it_is() {
    assert_eq!(SettingForm::CpuList.value("all\n"), "all");
    assert_eq!(SettingForm::CpuMask.value("all\n"), "all");
}
