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
mod init;
mod metrics;
#[path = "../../../nrf/tests/nrf/nf_schema.rs"]
mod nf_schema;
mod nrf;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
#[path = "../../../nrf/tests/nrf/strict_nrf.rs"]
#[allow(dead_code, reason = "this program lets no NRF misbehave")]
mod strict_nrf;
mod taps;
mod terminal;
mod top;
