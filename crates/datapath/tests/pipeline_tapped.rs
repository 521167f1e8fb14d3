//! The tests of `pipeline` with a tap that reports every packet that is dropped: nothing else changes, and each step
//! checks that every drop is reported by its reason.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

#[path = "pipeline/main.rs"]
mod pipeline;

use pipeline::{fixture, local_switching};
