//! Queues against naive ones.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod prop_queues;
mod prop_shared;
