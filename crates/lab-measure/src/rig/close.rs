//! Records a rig in a report, and ends it.

use anyhow::Result;

use super::Rig;
use crate::agreement::CountAgreement;
use crate::report::Report;
use crate::target::TargetArguments;
use adit_lab_process::stop::Stop;

/// Records the target.
pub(super) fn record_target(arguments: &TargetArguments, report: &mut Report) {
    report.condition("target", arguments.target.name());
    report.condition("sessions", arguments.sessions);
    if let Some(placed) = &arguments.placed {
        report.condition("CPUs", placed.threads());
        report.condition("broken rules of placement", placed.breaks.join("; "));
    }
}

impl Rig {
    /// Ends the measurement: reads the target's counters and compares them with the tester's.
    ///
    /// # Errors
    /// The sessions of a target that keeps running cannot be deleted.
    pub(crate) fn close(mut self, report: &mut Report) -> Result<()> {
        self.warn_of_shared_core(report);
        report.target_counters = self.finish(&Stop::default())?;
        report.agreement =
            report.target_counters.as_ref().and_then(|of| CountAgreement::of(self.totals, of));
        if let Some(warning) = report.agreement.as_ref().and_then(CountAgreement::warning) {
            report.warn(warning);
        }
        Ok(())
    }
}
