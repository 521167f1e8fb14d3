//! The journal against a model of its records, in a folder that can fail.
#![allow(
    clippy::cast_possible_truncation,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where its premise fails"
)]

mod crash;
mod damage;
mod faults;
mod journal;
mod model;
