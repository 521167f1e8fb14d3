//! Replication between an active adit and a standby in memory.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where its premise fails"
)]

mod failures;
mod protocol;
mod world;
