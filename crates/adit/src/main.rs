//! `adit`: the UPF daemon and the operator's tool.
#![deny(unsafe_code)]

mod admin;
mod bench;
mod check;
mod cli;
mod clock;
mod config;
mod control;
mod gate;
mod poll;
mod run;
mod saturation;
mod show;
mod snapshot;
mod wiring;

use std::process::ExitCode;

use adit_baseline as _;
use clap::Parser;

use cli::{Bench, Cli, Command};

/// Sessions are many small allocations of a few sizes, made and freed between short-lived ones:
/// an allocator that keeps sizes apart does not leave holes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("adit: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Run { config } => run::run(&config),
        Command::Check { config, json } => check::check(&config, json),
        Command::Show { what, json, socket } => {
            let document = admin::request(&socket, what)?;
            if json {
                println!("{}", serde_json::to_string_pretty(&document)?);
            } else {
                println!("{}", show::render(what, &document));
            }
            Ok(())
        }
        Command::Bench { bench: Bench::Datapath { sessions, active, packets, burst, json } } => {
            bench::datapath::run(&sessions, active.unwrap_or(usize::MAX), packets, burst, json)
        }
        Command::Bench { bench: Bench::Churn { resident, modifications, seconds, json } } => {
            let plan = bench::churn::Plan { resident, modifications_per_s: modifications, seconds };
            bench::churn::run(&plan, json)
        }
        Command::Bench { bench: Bench::Memory { sessions, json } } => {
            bench::memory::run(sessions, json)
        }
        Command::Bench { bench: Bench::Poll { core, packets, json } } => {
            bench::poll::run(core, packets, json)
        }
        Command::Bench { bench: Bench::N4 { resident, sessions, json } } => {
            bench::n4::run(resident, sessions, json)
        }
    }
}
