//! The subcommands of `adit-lab` that measure, compare and report.

use adit_lab_process::stop::Stop;
use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::measurement;
use crate::ports::PortsMeasurement;

/// A measurement, or work on the reports of measurements.
#[derive(Debug, Subcommand)]
pub enum MeasureCommand {
    /// Measure the tester itself: highest rate, time stamp error, own loss.
    Selftest(crate::selftest::SelftestArguments),
    /// Find the highest rate of a target without loss, with 0.5 % loss, and the maximum rate.
    Throughput(Box<crate::throughput::ThroughputArguments>),
    /// Overload adit and dpdk-testpmd in turns over memif, and compare their rates.
    Saturate(Box<crate::saturate::SaturateArguments>),
    /// Measure the latency distribution of a target at given rates.
    Latency(Box<crate::latency::LatencyArguments>),
    /// Add sessions with traffic until the target reaches a limit.
    Ramp(Box<crate::ramp::RampArguments>),
    /// Hold a load while sessions change, and detect leaks and drift.
    Soak(Box<crate::soak::SoakArguments>),
    /// Offer changing rates to groups of sessions, and compare what passes with their QERs.
    Rates(Box<crate::rates::RatesArguments>),
    /// Measure what a packet costs each thread of adit's execution models, without a wire
    /// (`adit-bench models`).
    Cycles(crate::cycles::CyclesArguments),
    /// Measure the latency of a RESP store over several transports, in turns. Needs root without
    /// --server.
    Store(Box<crate::store::StoreArguments>),
    /// Measure what adit forwards through each kind of port of this host, per second of CPU time.
    /// Needs root.
    Ports(Box<crate::ports::PortsArguments>),
    /// Measure the response times of a baseband application's threads, and the throughput of a
    /// program that runs at the same time.
    Baseband(Box<crate::baseband::BasebandArguments>),
    /// Run experiments from files and write one report.
    Run(crate::experiment::RunArguments),
    /// Make an HTML page from JSON reports.
    Report(crate::experiment::ReportArguments),
    /// Print the properties of this machine that figures depend on, as JSON.
    Machine,
    /// Compare the figures of two reports.
    Compare(crate::compare::CompareArguments),
}

impl MeasureCommand {
    /// Runs the subcommand. False if it found something wrong with the target. `ports` measures for
    /// `adit-lab ports`, since the room `lab` has the network for it.
    ///
    /// # Errors
    /// The measurement failed or was interrupted.
    pub fn run(&self, ports: PortsMeasurement, stop: &Stop) -> Result<bool> {
        match self {
            Self::Selftest(arguments) => measurement::run(arguments, stop),
            Self::Throughput(arguments) => measurement::run(&**arguments, stop),
            Self::Saturate(arguments) => measurement::run(&**arguments, stop),
            Self::Latency(arguments) => measurement::run(&**arguments, stop),
            Self::Ramp(arguments) => measurement::run(&**arguments, stop),
            Self::Soak(arguments) => measurement::run(&**arguments, stop),
            Self::Rates(arguments) => measurement::run(&**arguments, stop),
            Self::Cycles(arguments) => measurement::run(arguments, stop),
            Self::Store(arguments) => measurement::run(&**arguments, stop),
            Self::Ports(arguments) => ports(arguments, stop),
            Self::Baseband(arguments) => measurement::run(&**arguments, stop),
            Self::Run(arguments) => crate::experiment::run(arguments, check_options, stop),
            Self::Report(arguments) => crate::experiment::render(arguments),
            Self::Machine => crate::machine::run(),
            Self::Compare(arguments) => crate::compare::run(arguments, check_options, stop),
        }
    }
}

/// The part of the command line with the measurements, for experiment files and tests.
#[derive(Debug, Parser)]
#[command(name = "adit-lab")]
pub(crate) struct MeasureCli {
    #[command(subcommand)]
    pub(crate) command: MeasureCommand,
}

/// Checks a subcommand and its options; the first word is the program's name.
pub(crate) fn check_options(words: &[String]) -> Result<(), clap::Error> {
    MeasureCli::try_parse_from(words).map(|_| ())
}
