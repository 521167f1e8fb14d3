//! Messages of four open-source control planes, octet for octet, and the required reaction of a
//! UPF: one test for each thing that at least one of them needs. `docs/n4-tolerance.md` has the
//! rest.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside the test functions"
)]

#[path = "../smf/mod.rs"]
mod smf;

mod nodes;
mod octets;
mod planes;
mod rules;
mod sessions;
