//! System tests: the oracle that judges the pipeline, and what the tests share.
//!
//! The tests are in `tests/`. Here live the slow, obvious UPF ([`oracle`]), random sessions and
//! packets ([`scenario`]), the pipeline in a box ([`world`]), captures for tshark ([`capture`]) and
//! the binaries as processes ([`process`]).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "support of tests: a broken assumption fails the test that made it"
)]

pub mod capture;
pub mod control_planes;
pub mod daemon;
pub mod fuzzing;
pub mod go;
pub mod guest;
pub mod leftovers;
pub mod link;
pub mod oracle;
pub mod process;
pub mod redis;
pub mod release;
pub mod scenario;
pub mod threads;
pub mod traffic;
pub mod world;
