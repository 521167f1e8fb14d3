//! The product in one process, over ports in memory.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise fails")]

mod card;
mod churn;
mod differential;
mod eventdev;
mod fragments;
mod n4_to_packets;
mod owner_changes;
mod pipeline;
mod rates;
mod regressions;
mod rss;
mod several_workers;
mod shaping;
mod xdp;
