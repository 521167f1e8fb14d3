//! Streams of all transports, and RESP.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod kernel;
mod resp;
mod tls;
mod user;
