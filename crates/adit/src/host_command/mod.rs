//! `adit host`: the machine, where threads should run on it, and its settings.

mod configured;
mod plan;
mod tuning;

use std::time::Duration;

use adit_machine::placement::MachineTopology;
use adit_topology::{read_synthetic, read_xml};

use crate::cli::{HostCommand, MachineSource, NoiseArguments};
use crate::this_machine::this_machine;

pub(crate) use configured::{PlacementNotice, placement_notice};

/// # Errors
/// The error that stops the command, as a sentence.
pub(crate) fn run(command: HostCommand) -> anyhow::Result<()> {
    match command {
        HostCommand::Show { source, json } => {
            let machine = read(&source)?;
            match json {
                true => println!("{}", serde_json::to_string_pretty(&machine)?),
                false => print!("{machine}"),
            }
            Ok(())
        }
        HostCommand::Plan(arguments) => plan::run(&arguments),
        HostCommand::Check(arguments) => tuning::check_profile(&arguments),
        HostCommand::Apply { arguments, hold_latency_us } => {
            tuning::apply_profile(&arguments, hold_latency_us)
        }
        HostCommand::Revert(place) => tuning::revert_profile(&place),
        HostCommand::Noise(arguments) => sample_noise(&arguments),
    }
}

fn sample_noise(arguments: &NoiseArguments) -> anyhow::Result<()> {
    let duration = Duration::from_secs(arguments.duration);
    let threshold = Duration::from_nanos(arguments.threshold_ns);
    let report = adit_machine::noise::run(arguments.core, duration, threshold)?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => println!("{report}"),
    }
    Ok(())
}

/// Reads the machine that a command is about.
fn read(source: &MachineSource) -> anyhow::Result<MachineTopology> {
    let machine = match (&source.xml, &source.synthetic) {
        (Some(path), _) => read_xml(path, source.xml_root.as_deref())?,
        (None, Some(text)) => read_synthetic(text)?,
        (None, None) => this_machine()?.clone(),
    };
    Ok(machine)
}
