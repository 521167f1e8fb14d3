//! Compiled rules against the rules that they come from.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod compile;
mod equivalence;
mod fast_rule;
mod matcher;
mod prop_rate;
