//! The machine: plans for threads, settings, and what takes a core away.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod placement;
mod this_machine;
mod tuning;
