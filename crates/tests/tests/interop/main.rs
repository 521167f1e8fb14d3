//! Programs of others beside `adit`: control planes, and tshark as the reader of what it sends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod control_planes;
mod go_pfcp;
mod pfcpsim;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
mod tshark;
mod tshark_reports;
