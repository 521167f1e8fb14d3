//! The Debian packages, the image and the disk of virtual machines: what they have, and how they
//! are installed, updated and removed in a clean root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../running/associated_smf.rs"]
mod associated_smf;
mod clean_root;
mod contents;
mod image;
mod install;
#[path = "../running/load.rs"]
#[allow(dead_code, reason = "the tests of reloads use the rest")]
mod load;
mod package;
mod service;
#[path = "../../../n4/tests/n4/smf.rs"]
mod smf;
mod update;
mod vm_image;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test after the other: they share the root of which the others have copies, and measure time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
