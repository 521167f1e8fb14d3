//! `adit`: the UPF daemon and the operator's tool.
#![deny(unsafe_code)]

mod admin;
mod capabilities;
mod check;
mod cli;
mod client;
mod clock;
mod config;
mod control;
mod control_parts;
mod explain;
mod foreign_text;
mod host_checks;
mod host_command;
mod http_api;
mod init;
mod ip_net;
mod kernel_routes;
mod log;
mod nrf;
mod ports;
mod record_store;
mod request;
mod run;
mod snapshot;
mod socket_file;
mod tap;
mod text_table;
mod this_machine;
mod threads;
mod version;
mod wiring;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use adit_baseline as _;
use clap::Parser;
use signal_hook::consts::SIGPIPE;

use admin::AdminAct;
use cli::{AditCli, AditCommand, DrainSwitch, RequestedAct, manual};
use client::{act_command, takeover, tap_client, top, watch};

/// Sessions consist of many small allocations of a few sizes, interleaved with short-lived ones. An
/// allocator with separate size classes avoids fragmentation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = AditCli::parse();
    let is_daemon = matches!(cli.command, AditCommand::Run { .. });
    if is_daemon {
        capabilities::use_permitted();
    } else {
        end_at_closed_pipe();
    }
    let Err(error) = dispatch(cli) else { return ExitCode::SUCCESS };
    eprintln!("adit: {error:#}");
    match error.downcast_ref::<init::InterruptedInit>() {
        Some(interrupted) => ExitCode::from(interrupted.status()),
        None if is_daemon => run::service_manager::report_failure(&error),
        None => ExitCode::FAILURE,
    }
}

/// Makes SIGPIPE end the process silently, as in other tools, when the reader closes our output.
fn end_at_closed_pipe() {
    let always = Arc::new(AtomicBool::new(true));
    let status = 128 + SIGPIPE;
    // If this fails, a closed pipe causes an error message instead.
    let _ = signal_hook::flag::register_conditional_shutdown(SIGPIPE, status, always);
}

fn dispatch(cli: AditCli) -> anyhow::Result<()> {
    match cli.command {
        AditCommand::Run { config, accept_loss, log } => run::run(&config, accept_loss, &log),
        AditCommand::Check { config, json, print } => check::run(&config, json, print),
        AditCommand::Init(arguments) => init::run(&arguments),
        AditCommand::Show(arguments) => watch::show(&arguments),
        AditCommand::Top(arguments) => top::run(&arguments),
        AditCommand::Explain { name } => explain::explain(name.as_deref()),
        AditCommand::Completions { shell } => manual::completions(shell),
        AditCommand::Man { folder } => manual::man(folder.as_deref()),
        AditCommand::Trace(arguments) => {
            tap_client::trace::trace(&arguments, &mut std::io::stdout().lock())
        }
        AditCommand::Capture(arguments) => tap_client::capture::capture(&arguments),
        AditCommand::Takeover { socket } => takeover::take_over(socket.path()),
        AditCommand::Reload { json, socket } => act_command::reload(socket.path(), json),
        AditCommand::Host { host } => host_command::run(host),
        AditCommand::Session { session } => act_command::act(&session.into_act()),
        AditCommand::Store { store } => act_command::act(&store.into_act()),
        AditCommand::Association { association } => act_command::act(&association.into_act()),
        AditCommand::Tap { tap } => act_command::act(&tap.into_act()),
        AditCommand::Worker { worker } => act_command::act(&worker.into_act()),
        AditCommand::Drain { switch, socket } => {
            let act = AdminAct::Drain(switch == DrainSwitch::On);
            act_command::act(&RequestedAct { socket, act })
        }
        AditCommand::Log { filter, socket } => {
            act_command::act(&RequestedAct { socket, act: AdminAct::SetLog(filter) })
        }
    }
}
