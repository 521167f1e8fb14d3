//! `adit-lab scenario`: checks with real packets that adit applies each kind of rule.
//!
//! All scenarios share one network. Each has its own UE and PFCP session.

mod cases;
mod endpoint;
mod expect;
mod probe;
mod session;
mod sniffer;

use std::time::Instant;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use self::cases::CASES;
use self::session::ScenarioContext;
use crate::demo::bring_up::{BringUpOptions, Network};
use crate::demo::live::{DemoOutput, DemoView};
use crate::topology::LabUe;
use crate::{DatapathChoice, DemoArguments, ScenarioArguments};
use adit_lab_process::stop::{Interrupted, Stop};

/// Additions to adit's configuration for the scenarios.
const SECTIONS: &str = r#"
[gtpu]
echo_interval_ms = 1000
t3_ms = 500
n3_requests = 2

[[ue_pool]]
prefix = "10.45.200.0/24"

[[predefined_rule]]
name = "blocked"
flow_descriptions = ["permit out 17 from any 5002 to assigned"]
precedence = 50
action = "drop"

[[forwarding_policy]]
id = "outside"
local_switching = false
"#;

/// Further configuration for all ports except the kernel's: a policy with a next hop.
const LINK_SECTIONS: &str = r#"
[[forwarding_policy]]
id = "firewall"
next_hop_v4 = "10.0.6.9"
dscp = 18
"#;

/// Command line argument that selects all scenarios.
const ALL: &str = "all";

/// The result of one scenario.
#[derive(Debug, Serialize)]
struct ScenarioResult {
    name: &'static str,
    ok: bool,
    /// The observations of the scenario, or its error.
    result: String,
    seconds: f64,
}

/// Returns the possible arguments on the command line.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(CASES.iter().map(|case| case.name).chain([ALL]))
}

/// Runs one scenario or all. True if all that ran passed.
///
/// # Errors
/// The network cannot be created, or a signal interrupts.
pub(crate) fn run(arguments: &ScenarioArguments, stop: &Stop) -> Result<bool> {
    let output = if arguments.json { DemoOutput::Stderr } else { DemoOutput::Stdout };
    let live = DemoView::new(output);
    let has_links = arguments.datapath != DatapathChoice::Kernel;
    let sections = [SECTIONS, if has_links { LINK_SECTIONS } else { "" }].concat();
    let plan = BringUpOptions {
        sections: &sections,
        corp: has_links,
        has_captures: true,
        mtu_bytes: arguments.mtu,
    };
    let network = Network::bring_up(&demo_arguments(arguments)?, plan, &live, stop)?;
    let mut outcomes = Vec::new();
    for (ue, case) in (1..).map(LabUe).zip(CASES) {
        if arguments.name != ALL && arguments.name != case.name {
            continue;
        }
        live.phase(case.name);
        let start = Instant::now();
        let result = match case.needs_links {
            Some(why) if !has_links => Ok(format!("skipped: {why}")),
            _ => (case.run)(&ScenarioContext { network: &network, stop, ue }),
        };
        let (ok, result) = match result {
            Ok(seen) => (true, seen),
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => (false, format!("{error:#}")),
        };
        let verdict = if ok { "ok  " } else { "FAIL" };
        live.print_line(&format!("{verdict} {}: {result}", case.name));
        let seconds = start.elapsed().as_secs_f64();
        outcomes.push(ScenarioResult { name: case.name, ok, result, seconds });
    }
    let ok = outcomes.iter().all(|outcome| outcome.ok);
    if !ok {
        eprintln!("adit-lab: the last lines of adit's log:\n{}", network.adit.log_tail());
    }
    if arguments.json {
        let report = serde_json::json!({ "ok": ok, "scenarios": outcomes });
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(ok)
}

/// Makes the arguments of a demo network with one UE per scenario.
fn demo_arguments(arguments: &ScenarioArguments) -> Result<DemoArguments> {
    Ok(DemoArguments {
        mbr: Vec::new(),
        excess: None,
        ues: u8::try_from(CASES.len())?,
        duration: 1,
        datapath: arguments.datapath,
        model: arguments.model,
        restart: false,
        keep: false,
        json: arguments.json,
        adit: arguments.adit.clone(),
    })
}
