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
mod recovery_time;
mod run;
mod saturation;
mod show;
mod snapshot;
mod steering;
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
        Command::Show { what, session, json, socket } => {
            let question = admin::Question { topic: what, session };
            let document = admin::request(&socket, &question)?;
            if json {
                println!("{}", serde_json::to_string_pretty(&document)?);
            } else {
                println!("{}", show::render(what, &document));
            }
            Ok(())
        }
        Command::Bench { bench } => measure(bench),
    }
}

fn measure(bench: Bench) -> anyhow::Result<()> {
    match bench {
        Bench::Datapath {
            sessions,
            active,
            packets,
            burst,
            given_keys,
            sdf,
            mixed,
            rates,
            output,
        } => {
            let usual = bench::sessions::Profile::USUAL;
            let wish = bench::datapath::Wish {
                counts: sessions,
                active: active.unwrap_or(usize::MAX),
                packets,
                bursts: burst,
                profile: bench::sessions::Profile {
                    given_keys,
                    filtered: sdf,
                    dual: mixed,
                    rates,
                    ..usual
                },
            };
            bench::datapath::run(&wish, &output)
        }
        Bench::Kinds(size) => {
            bench::kinds::run(size.sessions, size.packets, size.burst, &size.output)
        }
        Bench::Publication(size) => {
            bench::publication::run(size.sessions, size.packets, size.burst, &size.output)
        }
        Bench::Scrape(size) => {
            bench::scrape::run(size.sessions, size.packets, size.burst, &size.output)
        }
        Bench::Churn { resident, modifications, seconds, output } => {
            let plan = bench::churn::Plan { resident, modifications_per_s: modifications, seconds };
            bench::churn::run(&plan, &output)
        }
        Bench::Memory { sessions, output } => bench::memory::run(sessions, &output),
        Bench::Poll { core, packets, output } => bench::poll::run(core, packets, &output),
        Bench::N4 { resident, sessions, output } => bench::n4::run(resident, sessions, &output),
    }
}
