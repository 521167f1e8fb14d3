//! A running `adit` under traffic: its ports, reloads, drains, outages and floods. Its tests take
//! turns.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod associated_smf;
mod jumbo;
mod kernel_twin;
mod load;
mod n4_floods;
mod outages;
mod path_mtu;
mod ports;
mod reload;
mod replicas;
mod routing;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
mod store_loss;
mod two_nodes;
mod two_routers;
mod virtual_machine;
mod worker_drain;
mod xdp_daemon;
mod xdp_queues;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test after the other: the workers of all poll the same cores.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
