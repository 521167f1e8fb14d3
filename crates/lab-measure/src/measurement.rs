//! The course of every measurement: it prepares a rig, measures its cases, and draws conclusions.

use anyhow::Result;

use crate::print::print;
use crate::report::{OutputArguments, Report};
use adit_lab_process::stop::Stop;

/// A rig and the cases in their order; `None` if this machine cannot run the measurement.
pub(crate) type Prepared<M> =
    Option<(<M as LabMeasurement>::Rig, Vec<<M as LabMeasurement>::Case>)>;

/// A measurement: a subcommand with its options.
pub(crate) trait LabMeasurement {
    /// The subcommand.
    const NAME: &'static str;
    /// Programs, ports and sessions that the cases have in common.
    type Rig;
    /// The part that is measured at once.
    type Case;

    /// The destination of the report.
    fn output(&self) -> &OutputArguments;

    /// Prepares the rig, and lists the cases in their order. `None` if this machine cannot run the
    /// measurement; the report then says why.
    ///
    /// # Errors
    /// Options are wrong or something is missing; there is no report.
    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>>;

    /// Measures a case.
    ///
    /// # Errors
    /// The measurement ends early; the report has what was measured until then.
    fn measure(
        &self,
        rig: &mut Self::Rig,
        case: &Self::Case,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()>;

    /// Ends the rig, and adds figures of all cases, warnings and findings. Also runs after an
    /// error.
    ///
    /// # Errors
    /// The rig cannot be left as it was found.
    fn conclude(&self, rig: Self::Rig, report: &mut Report) -> Result<()>;
}

/// Runs a measurement and delivers its report. Returns true if it found nothing wrong with the
/// target.
///
/// # Errors
/// Those of the measurement; [`Interrupted`](adit_lab_process::stop::Interrupted). Once the rig
/// stands, the report is delivered before.
pub(crate) fn run<M: LabMeasurement>(measurement: &M, stop: &Stop) -> Result<bool> {
    let mut report = Report::start(M::NAME);
    let result = match measurement.prepare(&mut report, stop)? {
        Some((mut rig, cases)) => {
            let result = cases.iter().try_for_each(|case| {
                stop.check()?;
                measurement.measure(&mut rig, case, &mut report, stop)
            });
            let concluded = measurement.conclude(rig, &mut report);
            result.and(concluded)
        }
        None => Ok(()),
    };
    report.finish(&result);
    let output = measurement.output();
    report.write(output)?;
    if !output.json {
        print(&report);
    }
    result.map(|()| report.findings.is_empty())
}
