//! The course of every measurement: prepares a rig, measures the cases, and draws conclusions.

use anyhow::Result;

use crate::print::print;
use crate::report::{OutputArguments, Report};
use adit_lab_process::stop::Stop;

/// A rig and the cases in order; `None` if this machine cannot run the measurement.
pub(crate) type Prepared<M> =
    Option<(<M as LabMeasurement>::Rig, Vec<<M as LabMeasurement>::Case>)>;

/// A measurement: a subcommand with its options.
pub(crate) trait LabMeasurement {
    /// Name of the subcommand.
    const NAME: &'static str;
    /// Programs, ports and sessions that the cases have in common.
    type Rig;
    /// The part that is measured at once.
    type Case;

    /// Returns the destination of the report.
    fn output(&self) -> &OutputArguments;

    /// Prepares the rig, and lists the cases in order. `None` if this machine cannot run the
    /// measurement; the report then has the reason.
    ///
    /// # Errors
    /// Options are wrong or something is missing. No report is written.
    fn prepare(&self, report: &mut Report, stop: &Stop) -> Result<Prepared<Self>>;

    /// Measures a case.
    ///
    /// # Errors
    /// The measurement ends early; the report has the results until then.
    fn measure(
        &self,
        rig: &mut Self::Rig,
        case: &Self::Case,
        report: &mut Report,
        stop: &Stop,
    ) -> Result<()>;

    /// Ends the rig, and adds figures of all cases, warnings and findings. Runs also after an error
    /// of [`Self::measure`].
    ///
    /// # Errors
    /// The rig cannot be left as it was found, such as without sessions.
    fn conclude(&self, rig: Self::Rig, report: &mut Report) -> Result<()>;
}

/// Runs a measurement and delivers its report. False if it found something wrong with the target.
///
/// # Errors
/// A step of the measurement fails; [`Interrupted`](adit_lab_process::stop::Interrupted). If the
/// rig was prepared, the report is delivered all the same.
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
