//! The interfaces of operators: the command line, HTTP, metrics, traces and `adit top`, of a
//! running `adit`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../running/associated_smf.rs"]
mod associated_smf;
mod baseline;
mod cli;
mod client;
mod deploy;
mod http_api;
mod metrics;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
mod taps;
mod top;
