//! `adit-lab` with the real binaries: the demo, scenarios, faults and measurements of ports and
//! stores.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod demo;
mod faults;
mod ports;
mod scenarios;
mod store;
