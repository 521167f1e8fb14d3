//! `adit host check`, `apply` and `revert`.

use std::collections::BTreeMap;

use adit_machine::tuning::{
    AppliedTuning, CheckedSetting, CpuLatencyHold, KernelParameter, RootedFiles, SettingKind,
    SettingState, TuningError, TuningProfile, TuningReport, TuningRequest, TuningSetting, apply,
    check, core_scheduling, kernel_parameters, revert, revert_frequencies,
};
use anyhow::Context;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::{TuningArguments, TuningPlace};

fn request(arguments: &TuningArguments) -> TuningRequest {
    TuningRequest {
        profile: arguments.profile,
        cores: arguments.cores.clone(),
        huge_pages: arguments.hugepages.clone(),
        partition: arguments.partition.clone(),
        is_cpu_only: arguments.cpu_only,
    }
}

/// # Errors
/// The profile does not fit the machine.
pub(super) fn check_profile(arguments: &TuningArguments) -> anyhow::Result<()> {
    let files = RootedFiles::new(&arguments.place.root);
    let request = request(arguments);
    let report = check(&files, &request)?;
    let parameters = kernel_parameters(&files, &request)?;
    match arguments.place.json {
        true => {
            let document = report_document(&report, &parameters);
            println!("{}", serde_json::to_string_pretty(&document)?);
        }
        false => print_report(&report, &parameters),
    }
    Ok(())
}

/// # Errors
/// Some or all settings could not be changed.
pub(super) fn apply_profile(
    arguments: &TuningArguments,
    hold_latency_us: Option<u32>,
) -> anyhow::Result<()> {
    let mut files = RootedFiles::new(&arguments.place.root);
    let hold = |limit| {
        CpuLatencyHold::acquire(&arguments.place.root, limit)
            .context("/dev/cpu_dma_latency cannot be held; nothing was changed")
    };
    // Registered before any change: a signal then waits until all changes can be reverted.
    let signals = hold_latency_us.map(|_| Signals::new([SIGINT, SIGTERM])).transpose()?;
    let _hold = hold_latency_us.map(hold).transpose()?;
    let applied = apply(&mut files, &request(arguments))?;
    print_applied(arguments, &applied)?;
    let Some(mut signals) = signals else { return Ok(()) };
    eprintln!("the latency limit and the settings stay until SIGTERM or Ctrl-C");
    signals.forever().next();
    if !applied.written.is_empty() {
        revert_and_print(&mut files, arguments.place.json)?;
    }
    Ok(())
}

fn print_applied(arguments: &TuningArguments, applied: &AppliedTuning) -> anyhow::Result<()> {
    let AppliedTuning { written, refused, fixed_count } = applied;
    if arguments.place.json {
        let change = |setting: &TuningSetting| {
            let path = format!("/{}", setting.path);
            json!({ "path": path, "value": setting.wanted })
        };
        let written: Vec<_> = written.iter().map(change).collect();
        let document =
            json!({ "written": written, "refused": refused, "fixed_count": fixed_count });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    match written.len() {
        0 => println!("nothing to change"),
        1 => println!("1 setting changed; `adit host revert` takes it back"),
        count => println!("{count} settings changed; `adit host revert` takes them back"),
    }
    for why in refused {
        println!("  not changed: {why}");
    }
    if *fixed_count > 0 {
        println!("  others that cannot be changed: {fixed_count}; `adit host check` names them");
    }
    Ok(())
}

/// # Errors
/// No profile is applied, or some settings could not be reverted.
pub(super) fn revert_profile(place: &TuningPlace) -> anyhow::Result<()> {
    revert_and_print(&mut RootedFiles::new(&place.root), place.json)
}

/// Reverts what `apply` wrote, and frequency limits that a crashed adit left low.
fn revert_and_print(files: &mut RootedFiles, is_json: bool) -> anyhow::Result<()> {
    let mut reverted = revert_frequencies(files, std::process::id())?;
    match revert(files) {
        Ok(mut of_apply) => {
            reverted.restored.append(&mut of_apply.restored);
            reverted.left.append(&mut of_apply.left);
        }
        Err(TuningError::NotApplied { .. }) if !reverted.restored.is_empty() => {}
        Err(error) => return Err(error.into()),
    }
    if is_json {
        let document = json!({ "restored": reverted.restored, "left": reverted.left });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    match reverted.restored.len() {
        1 => println!("1 setting taken back"),
        count => println!("{count} settings taken back"),
    }
    for left in &reverted.left {
        println!("  left: {left}");
    }
    Ok(())
}

fn report_document(report: &TuningReport, parameters: &[KernelParameter]) -> Value {
    let setting = |checked: &CheckedSetting| {
        let (state, why) = match &checked.state {
            SettingState::Fits => ("fits", None),
            SettingState::Differs => ("differs", None),
            SettingState::Fixed(why) => ("fixed", Some(why)),
        };
        json!({
            "kind": checked.setting.kind.name(),
            "path": format!("/{}", checked.setting.path),
            "current": checked.current,
            "wanted": checked.setting.wanted,
            "state": state,
            "why": why,
        })
    };
    let missing = report.missing.iter();
    let missing = missing.map(|one| json!({ "kind": one.kind.name(), "why": one.why }));
    let parameter = |one: &KernelParameter| json!({ "text": one.text, "why": one.why, "is_present": one.is_present });
    json!({
        "profile": report.profile.name(),
        "settings": report.settings.iter().map(setting).collect::<Vec<_>>(),
        "missing": missing.collect::<Vec<_>>(),
        "kernel_parameters": parameters.iter().map(parameter).collect::<Vec<_>>(),
        "core_scheduling": core_scheduling().describe(),
    })
}

/// Settings that print as the same line, and the path of one of them.
#[derive(Default)]
struct SettingGroup<'a> {
    count: usize,
    path: &'a str,
}

fn print_report(report: &TuningReport, parameters: &[KernelParameter]) {
    println!("profile {}", report.profile);
    for kind in SettingKind::ALL {
        let mut groups: BTreeMap<String, SettingGroup<'_>> = BTreeMap::new();
        for checked in report.settings.iter().filter(|checked| checked.setting.kind == kind) {
            let current = checked.current.as_deref().unwrap_or("nothing");
            let wanted = &checked.setting.wanted;
            let line = match &checked.state {
                SettingState::Fits => format!("fits: {current}"),
                SettingState::Differs => format!("differs: {current}, wanted {wanted}"),
                SettingState::Fixed(why) => {
                    format!("cannot be changed: {current}, wanted {wanted}; {why}")
                }
            };
            let group = groups
                .entry(line)
                .or_insert(SettingGroup { count: 0, path: &checked.setting.path });
            group.count += 1;
        }
        let missing: Vec<_> = report.missing.iter().filter(|one| one.kind == kind).collect();
        if groups.is_empty() && missing.is_empty() {
            continue;
        }
        println!("{}: {}", kind.name(), kind.neighbor_cost());
        for (line, SettingGroup { count, path }) in groups {
            match count {
                1 => println!("  {line} (/{path})"),
                _ => println!("  {line} ({count} files like /{path})"),
            }
        }
        for one in missing {
            println!("  not here: {}", one.why);
        }
    }
    if report.profile == TuningProfile::Core {
        println!(
            "core-scheduling: 80 to 98 % of the throughput is left to others (study 004, table 2)"
        );
        println!("  {}", core_scheduling().describe());
    }
    if !parameters.is_empty() {
        println!("kernel parameters, for the boot loader; adit never writes them");
    }
    for KernelParameter { text, why, is_present } in parameters {
        let state = if *is_present { "present" } else { "missing" };
        println!("  {state} {text}: {why}");
    }
}
