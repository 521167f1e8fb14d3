//! Compiled rules against the rules before their compilation.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod compile;
#[allow(missing_docs, clippy::cast_possible_truncation, reason = "a test")]
mod equivalence;
mod fast_rule;
mod matcher;
mod prop_rate;
