//! Tables that a control thread publishes and workers read.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod fast_rule_selector;
mod offload_choice;
mod prop_tables;
mod publication;
mod resolution;
mod route_tables;
mod support;
mod threads;
