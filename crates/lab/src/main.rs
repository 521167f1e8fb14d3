//! `adit-lab`: the witness. It emulates SMF, gNB, UEs and data network around a real `adit`, and
//! checks what it sees. It shares no code with the planes of adit but the codecs.
#![deny(unsafe_code)]

mod adit_config;
mod adit_process;
mod answer;
mod control;
mod demo;
mod engine;
mod experiment;
mod gnb;
mod inbox;
mod measure;
mod memif;
mod netns;
mod page;
mod process;
mod router;
mod scenario;
mod scratch;
mod smf;
mod stop;
mod tun;

use std::path::PathBuf;
use std::process::ExitCode;

use adit_baseline as _;
use clap::{Parser, Subcommand, ValueEnum};

use crate::demo::topology::UES_MAX;
use crate::stop::{EnvironmentError, Interrupted, Stop};

/// Emulates everything around a User Plane Function, and checks it.
#[derive(Debug, Parser)]
#[command(name = "adit-lab", version, about, max_term_width = 100)]
struct LabCli {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run real traffic from emulated UEs through adit to a data network, and check it. Needs root.
    Demo(DemoArguments),
    /// Run traffic against one kind of rule, and check that it obeys. Needs root.
    Scenario(ScenarioArguments),
    /// Measure the tester itself: its ceiling, its time stamps, its own loss.
    Selftest(measure::selftest::SelftestArguments),
    /// Find the highest loss-free rate, the 0.5 %-loss rate and the maximum rate of a target.
    Throughput(Box<measure::throughput::ThroughputArguments>),
    /// Offer adit and dpdk-testpmd in turns more than they can forward over memif, and compare.
    Saturate(Box<measure::saturate::SaturateArguments>),
    /// Measure the distribution of the latency of a target at given rates.
    Latency(Box<measure::latency::LatencyArguments>),
    /// Establish more and more sessions with traffic until the target gives way.
    Ramp(Box<measure::ramp::RampArguments>),
    /// Keep a load for a time beside changing sessions, and look for leaks and drifts.
    Soak(Box<measure::soak::SoakArguments>),
    /// Offer groups of sessions rates that change in turns, and see what their QERs let through.
    Rates(Box<measure::rates::RatesArguments>),
    /// Run experiments from files, and write one report of them.
    Run(experiment::RunArguments),
    /// Make a page of reports in JSON.
    Report(experiment::ReportArguments),
    /// Print what figures of this machine depend on, as JSON.
    Machine,
    /// Compare the figures of two reports.
    Compare(measure::compare::CompareArguments),
}

/// Options of `adit-lab scenario`.
#[derive(Debug, clap::Args)]
struct ScenarioArguments {
    /// A scenario, or `all`.
    #[arg(value_parser = scenario::names())]
    name: String,
    /// How adit gets its packets.
    #[arg(long, value_enum, default_value_t = DatapathChoice::AfPacket)]
    datapath: DatapathChoice,
    /// Print one JSON document at the end; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// The adit to run instead of the one beside this program.
    #[arg(long, value_name = "PATH")]
    adit: Option<PathBuf>,
}

/// Options of `adit-lab demo`.
#[derive(Debug, clap::Args)]
struct DemoArguments {
    /// UEs to attach.
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(UES_MAX)))]
    ues: u8,
    /// Length of each iperf3 run, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    duration: u32,
    /// How adit gets its packets.
    #[arg(long, value_enum, default_value_t = DatapathChoice::Auto)]
    datapath: DatapathChoice,
    /// Run TCP also through these maximum bit rates of the first UE, such as 20M,500M.
    #[arg(long, value_name = "RATE,…", value_delimiter = ',',
        value_parser = measure::traffic::bit_rate)]
    mbr: Vec<u64>,
    /// What adit does with packets beyond a maximum bit rate; by default what it does without
    /// configuration.
    #[arg(long, value_enum)]
    excess: Option<adit_config::ExcessAction>,
    /// Stay up after the checks until Ctrl-C, so that the UEs can be used by hand.
    #[arg(long)]
    keep: bool,
    /// Print one JSON document at the end; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// The adit to run instead of the one beside this program.
    #[arg(long, value_name = "PATH")]
    adit: Option<PathBuf>,
}

/// Choice of the datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DatapathChoice {
    /// AF_XDP where it works, else AF_PACKET.
    Auto,
    /// AF_XDP sockets.
    AfXdp,
    /// AF_PACKET sockets.
    AfPacket,
}

fn main() -> ExitCode {
    let command = LabCli::parse().command;
    let result = Stop::on_signals().and_then(|stop| match &command {
        LabCommand::Demo(arguments) => demo::run(arguments, &stop),
        LabCommand::Scenario(arguments) => scenario::run(arguments, &stop),
        LabCommand::Selftest(arguments) => measure::selftest::run(arguments, &stop),
        LabCommand::Throughput(arguments) => measure::throughput::run(arguments, &stop),
        LabCommand::Saturate(arguments) => measure::saturate::run(arguments, &stop),
        LabCommand::Latency(arguments) => measure::latency::run(arguments, &stop),
        LabCommand::Ramp(arguments) => measure::ramp::run(arguments, &stop),
        LabCommand::Soak(arguments) => measure::soak::run(arguments, &stop),
        LabCommand::Rates(arguments) => measure::rates::run(arguments, &stop),
        LabCommand::Run(arguments) => experiment::run(arguments, &stop),
        LabCommand::Report(arguments) => experiment::render(arguments),
        LabCommand::Machine => measure::machine::run(),
        LabCommand::Compare(arguments) => measure::compare::run(arguments, &stop),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("adit-lab: {error:#}");
            exit_code(&error)
        }
    }
}

/// 2 when the machine or the command line is at fault, 130 after Ctrl-C (as a shell says it), else 1.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<EnvironmentError>() {
        ExitCode::from(2)
    } else if error.is::<Interrupted>() {
        ExitCode::from(130)
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_refuses_what_the_address_plan_cannot_hold() {
        let parse = |arguments: &[&str]| LabCli::try_parse_from(arguments);
        assert!(parse(&["adit-lab", "demo", "--ues", "250", "--datapath", "af-packet"]).is_ok());
        assert!(parse(&["adit-lab", "demo", "--ues", "251"]).is_err());
        assert!(parse(&["adit-lab", "demo", "--ues", "0"]).is_err());
        assert!(parse(&["adit-lab", "demo", "--duration", "0"]).is_err());
        assert!(parse(&["adit-lab", "demo", "--mbr", "20M,500M"]).is_ok());
        assert!(parse(&["adit-lab", "demo", "--mbr", "20Mb"]).is_err());
    }

    #[test]
    fn exit_status_follows_the_kind_of_error() {
        let code = |error| format!("{:?}", exit_code(&error));
        assert_eq!(code(stop::environment("no root")), format!("{:?}", ExitCode::from(2)));
        assert_eq!(code(Interrupted.into()), format!("{:?}", ExitCode::from(130)));
        assert_eq!(code(anyhow::anyhow!("x")), format!("{:?}", ExitCode::from(1)));
    }
}
