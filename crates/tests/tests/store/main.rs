//! Records that outlive an `adit`: the journal, shared stores and a standby, under kills, cuts and
//! damage.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod changes;
mod checksums;
mod full_disk;
mod killed;
mod lease;
#[path = "../../../nrf/tests/nrf/nf_schema.rs"]
mod nf_schema;
mod refill;
mod shared_store;
mod silent_servers;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
mod standby;
#[path = "../../../nrf/tests/nrf/strict_nrf.rs"]
#[allow(dead_code, reason = "this program lets no NRF misbehave")]
mod strict_nrf;
