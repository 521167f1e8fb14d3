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
mod n4_socket;
mod poll;
mod recovery_time;
mod run;
mod saturation;
mod show;
mod snapshot;
mod steering;
mod wiring;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use adit_baseline as _;
use clap::Parser;
use signal_hook::consts::SIGPIPE;

use cli::{Bench, Cli, Command};

/// Sessions are many small allocations of a few sizes, made and freed between short-lived ones:
/// an allocator that keeps sizes apart does not leave holes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Run { .. }) {
        end_at_closed_pipe();
    }
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("adit: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whoever reads our output may have seen enough: we end as other tools do, without a word.
fn end_at_closed_pipe() {
    let always = Arc::new(AtomicBool::new(true));
    let status = 128 + SIGPIPE;
    // Refused, the end is a sentence instead.
    let _ = signal_hook::flag::register_conditional_shutdown(SIGPIPE, status, always);
}

fn dispatch(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Run { config } => run::run(&config),
        Command::Check { config, json } => check::check(&config, json),
        Command::Show { what, session, json, socket } => {
            let question = admin::Question { topic: what, session };
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            show::show(&socket, &question, json, &mut out)
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
