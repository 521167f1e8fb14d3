//! The parts that the reports of all measurements of a target have in common.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agreement::Agreement;
use super::report::{Figure, Recorder, ReportHeader, TrialReport};
use super::rig::Rig;
use super::target::TargetArguments;
use super::target::placement::TargetPlacement;
use adit_lab_process::stop::{Interrupted, Stop};
use adit_lab_smf::exchange::ProcedureReport;

/// The fields that all reports share.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ReportBase {
    /// Machine, time, warnings.
    #[serde(flatten)]
    pub header: ReportHeader,
    /// The kind of target.
    pub target: String,
    /// Sessions.
    pub sessions: u32,
    /// The CPUs of the target by a plan, if it has such.
    #[serde(default)]
    pub placement: Option<TargetPlacement>,
    /// Why this machine cannot run the measurement, which then has no result.
    #[serde(default)]
    pub left_out: Option<String>,
    /// Duration and failures of their establishment.
    pub established: Option<ProcedureReport>,
    /// The tester's own ceiling.
    pub ceiling: Option<TrialReport>,
    /// The figures to compare.
    pub figures: Vec<Figure>,
    /// Comparison of the tester's and the target's counts.
    #[serde(default)]
    pub agreement: Option<Agreement>,
    /// The target's own counters, in its format.
    pub target_counters: Option<Value>,
}

impl ReportBase {
    /// Fills in the fields that depend on the rig, once it is built.
    #[must_use]
    pub(crate) fn of(arguments: &TargetArguments, rig: &Rig) -> Self {
        Self {
            target: arguments.target.name().to_owned(),
            sessions: arguments.sessions,
            placement: arguments.placed.clone(),
            established: rig.established.clone(),
            ceiling: rig.ceiling.clone(),
            ..Self::default()
        }
    }

    /// The report of a measurement that this machine cannot run.
    #[must_use]
    pub(crate) fn left_out(measurement: &str, arguments: &TargetArguments, why: String) -> Self {
        let mut recorder = Recorder::without_ports(measurement);
        recorder.warn(format!("left out on this machine: {why}"));
        Self {
            header: recorder.finish(true),
            target: arguments.target.name().to_owned(),
            sessions: arguments.sessions,
            left_out: Some(why),
            ..Self::default()
        }
    }

    /// Ends the measurement: reads the target's counters, compares them with the tester's, and
    /// notes why it ended early, if it did.
    ///
    /// # Errors
    /// The sessions of a target that keeps running cannot be deleted.
    pub(crate) fn close(
        &mut self,
        mut rig: Rig,
        mut recorder: Recorder,
        result: &Result<()>,
    ) -> Result<()> {
        rig.judge_cores(&mut recorder);
        let totals = rig.totals;
        self.target_counters = rig.finish(&Stop::default())?;
        self.agreement =
            self.target_counters.as_ref().and_then(|counters| Agreement::of(totals, counters));
        if let Some(warning) = self.agreement.as_ref().and_then(Agreement::warning) {
            recorder.warn(warning);
        }
        match result {
            Err(error) if error.is::<Interrupted>() => recorder.warn("interrupted: incomplete"),
            Err(error) => recorder.warn(format!("the measurement ended early: {error:#}")),
            Ok(()) => {}
        }
        self.header = recorder.finish(result.is_ok());
        Ok(())
    }

    /// Prints ceiling, comparison of counts and warnings, after the table of the measurement.
    pub(crate) fn print(&self) {
        if let Some(ceiling) = &self.ceiling {
            println!("tester's own ceiling: {}", super::progress::mpps(ceiling.received_pps));
        }
        if let Some(agreement) = &self.agreement {
            println!("{agreement}");
        }
        for warning in &self.header.warnings {
            println!("warning: {warning}");
        }
        if !self.header.complete {
            println!("INCOMPLETE: these are the results until the measurement ended early");
        }
    }
}
