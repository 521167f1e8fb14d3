//! The classes of published vulnerabilities of UPFs and PFCP nodes, each with cases by hand: absent
//! IEs, wrong lengths, dangling references, exhaustion, sentinels, identity, and errors that end
//! the process.
//!
//! Every case checks the Cause or the silence, that nothing changed, and that the node still works.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;

mod absent;
mod dangling;
mod exhaustion;
mod fatal;
mod identity;
mod ie_tree;
mod lies;
mod messages;
mod process;
mod sentinels;
mod victim;
