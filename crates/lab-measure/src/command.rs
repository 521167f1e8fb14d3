//! The subcommands of `adit-lab` that measure, compare and report.

use adit_lab_process::stop::Stop;
use anyhow::Result;
use clap::Subcommand;

/// A measurement, or work on the reports of measurements.
#[derive(Debug, Subcommand)]
pub enum MeasureCommand {
    /// Measure the tester itself: its ceiling, its time stamps, its own loss.
    Selftest(crate::selftest::SelftestArguments),
    /// Find the highest loss-free rate, the 0.5 %-loss rate and the maximum rate of a target.
    Throughput(Box<crate::throughput::ThroughputArguments>),
    /// Offer adit and dpdk-testpmd in turns more than they can forward over memif, and compare.
    Saturate(Box<crate::saturate::SaturateArguments>),
    /// Measure the distribution of the latency of a target at given rates.
    Latency(Box<crate::latency::LatencyArguments>),
    /// Establish more and more sessions with traffic until the target gives way.
    Ramp(Box<crate::ramp::RampArguments>),
    /// Keep a load for a time beside changing sessions, and look for leaks and drifts.
    Soak(Box<crate::soak::SoakArguments>),
    /// Offer groups of sessions rates that change in turns, and see what their QERs let through.
    Rates(Box<crate::rates::RatesArguments>),
    /// Run experiments from files, and write one report of them.
    Run(crate::experiment::RunArguments),
    /// Make a page of reports in JSON.
    Report(crate::experiment::ReportArguments),
    /// Print what figures of this machine depend on, as JSON.
    Machine,
    /// Compare the figures of two reports.
    Compare(crate::compare::CompareArguments),
}

impl MeasureCommand {
    /// Runs the subcommand. False when it found something wrong with the target.
    ///
    /// # Errors
    /// The measurement cannot be carried out, or was interrupted.
    pub fn run(&self, stop: &Stop) -> Result<bool> {
        match self {
            Self::Selftest(arguments) => crate::selftest::run(arguments, stop),
            Self::Throughput(arguments) => crate::throughput::run(arguments, stop),
            Self::Saturate(arguments) => crate::saturate::run(arguments, stop),
            Self::Latency(arguments) => crate::latency::run(arguments, stop),
            Self::Ramp(arguments) => crate::ramp::run(arguments, stop),
            Self::Soak(arguments) => crate::soak::run(arguments, stop),
            Self::Rates(arguments) => crate::rates::run(arguments, stop),
            Self::Run(arguments) => crate::experiment::run(arguments, stop),
            Self::Report(arguments) => crate::experiment::render(arguments),
            Self::Machine => crate::machine::run(),
            Self::Compare(arguments) => crate::compare::run(arguments, stop),
        }
    }
}

/// The command line of the measurements alone, for experiment files and tests.
#[derive(Debug, clap::Parser)]
#[command(name = "adit-lab")]
pub(crate) struct MeasureCli {
    #[command(subcommand)]
    pub(crate) command: MeasureCommand,
}
