//! The CPUs of the started adit, as `adit host plan` proposes them for this machine without the
//! tester's CPU.

use std::convert::Infallible;
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

use super::{ExecutionModel, TargetArguments};
use crate::testbed::{TestbedArguments, allowed_cores, set_affinity};
use adit_lab_process::adit_binary::find_binary;
use adit_lab_process::stop::environment;

/// Exit status of an `adit` that does not understand its command line.
const USAGE_STATUS: i32 = 2;

/// The rules that a placement plan follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlacementChoice {
    /// All rules.
    Numa,
    /// All rules but those about NUMA nodes.
    Uma,
    /// All rules but this one, which the plan breaks.
    Breaking(String),
}

impl PlacementChoice {
    /// True if the plan is to break the rule with which `found` begins.
    #[must_use]
    pub(crate) fn breaks(&self, found: &str) -> bool {
        let rule = found.split(':').next();
        matches!(self, Self::Breaking(wanted) if rule == Some(wanted))
    }
}

impl FromStr for PlacementChoice {
    type Err = Infallible;

    /// Takes any other text as the name of a rule: `adit host plan` refuses unknown names.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "numa" => Self::Numa,
            "uma" => Self::Uma,
            rule => Self::Breaking(rule.to_owned()),
        })
    }
}

/// What siblings of a core do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SiblingChoice {
    /// All cores but one stay free.
    Split,
    /// A receiver and a worker share a core.
    Shared,
}

/// The threads of the started adit on their CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TargetPlacement {
    /// CPU of all threads but those of the packet path.
    pub control: u16,
    /// CPUs of the workers.
    pub workers: Vec<u16>,
    /// CPU of the receiver.
    pub receiver: Option<u16>,
    /// CPUs that adit may use.
    pub allowed: Vec<u16>,
    /// The rules that the plan breaks, each with the cause and with the cost that studies found.
    pub breaks: Vec<String>,
}

/// A plan, or a sentence that says why this machine has none.
pub(crate) enum PlacementOutcome {
    Placed(TargetPlacement),
    Refused(String),
}

impl TargetPlacement {
    fn of_json(text: &str, allowed: Vec<u16>) -> Result<Self> {
        let answer: Value = serde_json::from_str(text).context("read the plan of adit")?;
        let plan = answer.get("plan").context("the answer of adit has no plan")?;
        let group = plan.pointer("/placement/groups/0").context("the plan has no process")?;
        let list = |value: &Value, name: &str| -> Vec<Value> {
            value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let cpu =
            |of: &Value, name: &str| of.get(name)?.as_u64().and_then(|cpu| cpu.try_into().ok());
        let cpus = |role: &str| -> Vec<u16> {
            let threads = list(group, "threads").into_iter().filter(|of| of["role"] == role);
            threads.filter_map(|thread| cpu(&thread, "cpu")).collect()
        };
        let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        let broken = |of: &Value| Some(format!("{}: {}", text(of, "rule")?, text(of, "what")?));
        Ok(Self {
            control: cpu(group, "control_cpu").context("the plan has no CPU for control")?,
            workers: cpus("worker"),
            receiver: cpus("receiver").first().copied(),
            allowed,
            breaks: list(plan, "breaks").iter().filter_map(broken).collect(),
        })
    }

    /// Describes the threads and their CPUs.
    #[must_use]
    pub(crate) fn threads(&self) -> String {
        let list = |cpus: &[u16]| {
            let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
            cpus.join(", ")
        };
        let receiver = self.receiver.map(|cpu| format!("receiver {cpu}; "));
        format!(
            "control {}; {}workers {}",
            self.control,
            receiver.unwrap_or_default(),
            list(&self.workers)
        )
    }
}

impl TargetArguments {
    /// Chooses the CPUs by `--placement`, if it is given. If this machine has no such placement,
    /// returns the explanation of `adit host plan`.
    ///
    /// # Errors
    /// There is no adit, it does not know the placement, or the target is not started by the
    /// tester.
    pub(crate) fn choose_placement(&mut self, bench: &TestbedArguments) -> Result<Option<String>> {
        self.check_model()?;
        let Some(choice) = &self.adit.placement else { return Ok(None) };
        let mut allowed = allowed_cores();
        let cores = allowed.clone();
        let tester = bench.tester_core();
        if !self.allow_shared_core {
            allowed.retain(|core| *core != tester);
        }
        if allowed.is_empty() {
            return Ok(Some(format!(
                "the tester has CPU {tester}, and adit-lab may use no other; use --allow-shared-core"
            )));
        }
        let command = self.plan_command(choice)?;
        set_affinity(&allowed)?;
        let outcome = run_plan_command(command, allowed);
        set_affinity(&cores)?;
        match outcome? {
            PlacementOutcome::Placed(placed) => self.placed = Some(placed),
            PlacementOutcome::Refused(sentence) => return Ok(Some(sentence)),
        }
        Ok(None)
    }

    fn plan_command(&self, choice: &PlacementChoice) -> Result<Command> {
        let mut command = Command::new(find_binary(self.adit.binary.as_deref())?);
        command.args(["host", "plan", "--json", "--workers", &self.adit.workers.to_string()]);
        match self.adit.model {
            ExecutionModel::Pipeline | ExecutionModel::PipelineRss => {
                // The tester's memif has one queue for one receiver.
                command.args(["--model", "pipeline", "--receivers", "1"]);
            }
            _ => {}
        }
        match self.adit.siblings {
            Some(SiblingChoice::Shared) => drop(command.args(["--siblings", "shared"])),
            Some(SiblingChoice::Split) | None => {}
        }
        match choice {
            PlacementChoice::Numa => {}
            PlacementChoice::Uma => drop(command.arg("--uma")),
            PlacementChoice::Breaking(rule) => drop(command.args(["--breaking", rule])),
        }
        Ok(command)
    }
}

fn run_plan_command(mut command: Command, allowed: Vec<u16>) -> Result<PlacementOutcome> {
    let output = command.env("NO_COLOR", "1").stdin(Stdio::null()).output();
    let output = output.map_err(|error| environment(format!("cannot start adit: {error}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        let placed = TargetPlacement::of_json(&text(&output.stdout), allowed)?;
        return Ok(PlacementOutcome::Placed(placed));
    }
    let errors = text(&output.stderr);
    let line = |lines: Option<&str>| lines.unwrap_or("adit host plan failed").to_owned();
    if output.status.code() == Some(USAGE_STATUS) {
        let first = line(errors.lines().next());
        return Err(environment(format!("--placement: {}", first.trim_start_matches("error: "))));
    }
    if errors.is_empty() {
        bail!("adit host plan ended with {}", output.status);
    }
    let last = line(errors.lines().next_back());
    Ok(PlacementOutcome::Refused(last.trim_start_matches("adit: ").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_is_read_with_the_rules_that_it_breaks() {
        let text = r#"{"plan": {"placement": {"groups": [{"control_cpu": 0, "ports": [], "threads": [
            {"role": "receiver", "cpu": 1}, {"role": "worker", "cpu": 12}, {"role": "worker", "cpu": 13}]}]},
            "breaks": [{"rule": "own-node", "what": "CPUs 1 distribute …", "cost": {"cpu-points": 16.4}}],
            "cost": {"cpu_points": 16.4, "load_factor": 1.0}, "ignores_nodes": false}}"#;
        let placed = TargetPlacement::of_json(text, vec![0, 1, 12, 13]).unwrap();
        assert_eq!((placed.control, placed.receiver), (0, Some(1)));
        assert_eq!(placed.workers, [12, 13]);
        assert_eq!(placed.breaks, ["own-node: CPUs 1 distribute …"]);
        let choice = |text: &str| text.parse::<PlacementChoice>().unwrap();
        let is_wanted = |text| choice(text).breaks(&placed.breaks[0]);
        assert_eq!(["own-node", "own", "numa"].map(is_wanted), [true, false, false]);
        assert_eq!(placed.threads(), "control 0; receiver 1; workers 12, 13");
        assert!(TargetPlacement::of_json("{}", Vec::new()).is_err());
    }
}
