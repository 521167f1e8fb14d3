//! `adit-bench`: measures parts of adit in this process.
#![deny(unsafe_code)]

mod c_floor;
mod churn;
mod command;
mod control_plane;
mod datapath;
mod handoff;
mod io;
mod kinds;
mod measure;
mod memory;
mod models;
mod n4;
mod n4_standby;
mod n4_store;
mod network;
mod offload;
mod packet;
mod perf;
mod poll;
mod publication;
mod report;
mod routes;
mod scrape;
mod sessions;
mod size;
mod smf;

use std::process::ExitCode;

use adit_baseline as _;
use clap::Parser;

/// The allocator of `adit`, since parts of `adit` are measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match command::BenchCli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("adit-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
