//! `adit-lab`: emulates SMF, gNB, UEs and data network around a real `adit` and checks the result.
//! It shares codecs and drivers with adit but no logic, so that its verdict is independent.
#![deny(unsafe_code)]

mod adit_process;
mod demo;
mod faults;
mod gnb;
mod ports;
mod router;
mod scenario;
mod topology;
mod tun;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_baseline as _;
use adit_lab_measure::command::MeasureCommand;
use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::topology::UES_MAX;
use adit_lab_process::adit_config::{ExcessAction, ExecutionModel};
use adit_lab_process::stop::{EnvironmentError, Interrupted, Stop};

/// Emulates the network around a User Plane Function, tests it and measures it.
#[derive(Debug, Parser)]
#[command(name = "adit-lab", version, about, max_term_width = 100)]
struct LabCli {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Send real traffic of emulated UEs through adit and check it. Needs root.
    Demo(DemoArguments),
    /// Check with real traffic that adit applies one kind of rule. Needs root.
    Scenario(ScenarioArguments),
    /// Break processes, networks, servers and disks around adits, and check that nothing
    /// acknowledged is lost. Needs root.
    Faults(crate::faults::FaultsArguments),
    /// Write the manual pages of all commands into a folder.
    #[command(hide = true)]
    Man {
        /// The folder.
        #[arg(long, value_name = "FOLDER")]
        folder: PathBuf,
    },
    #[command(flatten)]
    Measure(MeasureCommand),
}

/// Options of `adit-lab scenario`.
#[derive(Debug, clap::Args)]
struct ScenarioArguments {
    /// Name of a scenario, or `all`.
    #[arg(value_parser = scenario::names())]
    name: String,
    /// Packet I/O of adit.
    #[arg(long, alias = "io", value_enum, default_value_t = DatapathChoice::AfPacket)]
    datapath: DatapathChoice,
    /// Execution model of adit.
    #[arg(long, value_enum, default_value_t)]
    model: ExecutionModel,
    /// MTU of adit's links, for `large-packets`; other scenarios expect the default, 1500.
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(1500..=9600))]
    mtu: Option<u16>,
    /// Print one JSON document at the end; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// The adit binary to run; default: the one in the directory of adit-lab.
    #[arg(long, value_name = "PATH")]
    adit: Option<PathBuf>,
}

/// Options of `adit-lab demo`.
#[derive(Debug, clap::Args)]
struct DemoArguments {
    /// Number of UEs.
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(UES_MAX)))]
    ues: u8,
    /// Duration of each iperf3 run, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=3600))]
    duration: u32,
    /// Packet I/O of adit. `--io` is the same.
    #[arg(long, alias = "io", value_enum, default_value_t = DatapathChoice::Auto)]
    datapath: DatapathChoice,
    /// Execution model of adit.
    #[arg(long, value_enum, default_value_t)]
    model: ExecutionModel,
    /// Also run TCP with these maximum bit rates of the first UE, such as 20M,500M.
    #[arg(long, value_name = "RATE,…", value_delimiter = ',',
        value_parser = adit_lab_measure::traffic::bit_rate)]
    mbr: Vec<u64>,
    /// The action of adit for packets beyond a maximum bit rate; default: that of adit.
    #[arg(long, value_enum)]
    excess: Option<ExcessAction>,
    /// Only kill adit in the middle of traffic and start it again, without the other programs.
    #[arg(long)]
    restart: bool,
    /// Keep the network up after the checks until Ctrl-C, for manual tests.
    #[arg(long)]
    keep: bool,
    /// Print one JSON document at the end; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// The adit binary to run; default: the one in the directory of adit-lab.
    #[arg(long, value_name = "PATH")]
    adit: Option<PathBuf>,
}

/// Choice of the datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DatapathChoice {
    /// AF_XDP if it works here, else AF_PACKET.
    Auto,
    /// AF_XDP sockets.
    AfXdp,
    /// AF_XDP sockets behind adit's XDP program, which forwards most packets in the driver.
    Xdp,
    /// AF_PACKET sockets.
    AfPacket,
    /// Devices of the kernel: UDP sockets and a TUN device.
    Kernel,
}

fn main() -> ExitCode {
    let command = LabCli::parse().command;
    let result = Stop::on_signals().and_then(|stop| match &command {
        LabCommand::Demo(arguments) => demo::run(arguments, &stop),
        LabCommand::Scenario(arguments) => scenario::run(arguments, &stop),
        LabCommand::Faults(arguments) => crate::faults::run(arguments, &stop),
        LabCommand::Man { folder } => write_manual(folder),
        LabCommand::Measure(command) => command.run(ports::run, &stop),
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

/// Writes the manual pages of all commands into `folder`.
fn write_manual(folder: &Path) -> anyhow::Result<bool> {
    let cannot = || format!("cannot write manual pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    let command = LabCli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).with_context(cannot)?;
    Ok(true)
}

/// Returns exit status 2 if the machine or the command line causes the error, 130 after Ctrl-C (as
/// a shell does), otherwise 1.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<EnvironmentError>() {
        ExitCode::from(EnvironmentError::EXIT_STATUS)
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
        assert!(parse(&["adit-lab", "demo", "--io", "kernel"]).is_ok());
        assert!(parse(&["adit-lab", "demo", "--ues", "251"]).is_err());
        assert!(parse(&["adit-lab", "demo", "--ues", "0"]).is_err());
        assert!(parse(&["adit-lab", "demo", "--duration", "0"]).is_err());
        assert!(parse(&["adit-lab", "demo", "--mbr", "20M,500M"]).is_ok());
        assert!(parse(&["adit-lab", "demo", "--mbr", "20Mb"]).is_err());
    }

    #[test]
    fn exit_status_follows_the_kind_of_error() {
        let code = |error| format!("{:?}", exit_code(&error));
        assert_eq!(
            code(adit_lab_process::stop::environment("no root")),
            format!("{:?}", ExitCode::from(2))
        );
        assert_eq!(code(Interrupted.into()), format!("{:?}", ExitCode::from(130)));
        assert_eq!(code(anyhow::anyhow!("x")), format!("{:?}", ExitCode::from(1)));
    }
}
