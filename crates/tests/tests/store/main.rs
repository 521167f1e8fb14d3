//! Records that outlive an `adit`: the journal, shared stores and a standby, under kills, cuts and
//! damage.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod changes;
mod checksums;
mod full_disk;
mod killed;
mod lease;
mod refill;
mod shared_store;
mod silent_servers;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
mod standby;
