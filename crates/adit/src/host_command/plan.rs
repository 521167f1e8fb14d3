//! `adit host plan`.

use std::path::Path;

use adit_machine::placement::{
    MachineTopology, PlacedPort, PlacementPlan, PlacementRule, PlanModel, PlanRequest,
    SiblingPolicy, cost_of, plan, plan_breaking,
};
use anyhow::bail;
use serde_json::{Value, json};

use super::configured;
use super::read;
use crate::cli::{PlanArguments, PlannedModel, PlannedSiblings};
use crate::config::{Config, PlacementSettings};

/// # Errors
/// The error that stops the command, as a sentence.
pub(super) fn run(arguments: &PlanArguments) -> anyhow::Result<()> {
    let machine = read(&arguments.source)?;
    let load = |path: &Path| Config::load_for(path, &|| Ok(machine.clone()));
    let config = arguments.config.as_deref().map(load).transpose()?;
    let settings = settings(arguments, config.as_ref());
    let request = request(arguments, &machine, config.as_ref(), settings)?;
    let plan = match arguments.breaking {
        Some(rule) => plan_breaking(&machine, &request, rule)?,
        None => plan(&machine, &request)?,
    };
    let configured = config.map(|config| {
        let placement = configured::placement(&config, &machine);
        let breaks = configured::broken(settings, &machine, &placement);
        let cost = cost_of(&placement, &breaks, plan.placement.workers());
        json!({ "placement": placement, "breaks": breaks, "cost": cost })
    });
    if arguments.json {
        let document = document(&machine, &plan, configured);
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    print!("{}", plan.describe(&machine));
    for group in 0..plan.placement.groups.len() {
        println!("configuration of process {group}");
        for line in plan.configuration(group).unwrap_or_default().lines() {
            println!("  {line}");
        }
    }
    if let Some(configured) = configured {
        print_configured(&configured);
    }
    Ok(())
}

fn request(
    arguments: &PlanArguments,
    machine: &MachineTopology,
    config: Option<&Config>,
    settings: PlacementSettings,
) -> anyhow::Result<PlanRequest> {
    let (model, workers, ports) = match config {
        Some(config) => (
            config.datapath.model.to_plan(),
            Some(config.datapath.workers.len()),
            configured::ports(config, machine),
        ),
        None => (model(arguments), arguments.workers, ports(arguments, machine)?),
    };
    let is_per_node = arguments.per_node;
    Ok(PlanRequest { is_per_node, ..settings.request(model, workers, ports) })
}

/// Returns the settings of the configuration, overridden by those of the arguments.
fn settings(arguments: &PlanArguments, config: Option<&Config>) -> PlacementSettings {
    let mut settings =
        config.map_or_else(PlacementSettings::default, |config| config.datapath.placement);
    match arguments.siblings {
        Some(PlannedSiblings::Split) => settings.siblings = SiblingPolicy::Split,
        Some(PlannedSiblings::Shared) => settings.siblings = SiblingPolicy::Shared,
        None => {}
    }
    settings.ignores_nodes |= arguments.uma;
    settings
}

fn model(arguments: &PlanArguments) -> PlanModel {
    match arguments.model {
        PlannedModel::RunToCompletion => PlanModel::RunToCompletion,
        PlannedModel::Pipeline => PlanModel::Pipeline { receivers: arguments.receivers },
        PlannedModel::Eventdev => {
            PlanModel::EventDriven { rx_tx: arguments.receivers, has_scheduler: false }
        }
        PlannedModel::EventdevCentral => {
            PlanModel::EventDriven { rx_tx: arguments.receivers, has_scheduler: true }
        }
    }
}

fn ports(arguments: &PlanArguments, machine: &MachineTopology) -> anyhow::Result<Vec<PlacedPort>> {
    let mut ports = Vec::new();
    for name in &arguments.port {
        let Some(device) = machine.device(name) else {
            let known: Vec<_> = machine.devices.iter().map(|device| device.name.as_str()).collect();
            bail!("{} has no device {name}; it has {}", machine.source, known.join(", "));
        };
        ports.push(PlacedPort { name: name.clone(), node: device.node });
    }
    Ok(ports)
}

fn document(machine: &MachineTopology, plan: &PlacementPlan, configured: Option<Value>) -> Value {
    let rule = |rule: PlacementRule| json!({ "name": rule.name(), "reason": rule.reason(), "cost": rule.cost_text() });
    let groups = 0..plan.placement.groups.len();
    json!({
        "machine": machine.source,
        "plan": plan,
        "rules": PlacementRule::ALL.map(rule),
        "configuration": groups.map(|group| plan.configuration(group)).collect::<Vec<_>>(),
        "configured": configured,
    })
}

/// Prints the rules that a hand-written placement breaks.
fn print_configured(configured: &Value) {
    let breaks = configured["breaks"].as_array().map(Vec::as_slice).unwrap_or_default();
    match breaks.is_empty() {
        true => println!("the CPUs of the configuration keep all rules"),
        false => println!("the CPUs of the configuration break rules"),
    }
    for found in breaks {
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        println!("  {}: {}", text("rule"), text("what"));
    }
}
