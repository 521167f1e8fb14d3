//! Forwarding in the driver of the network card: an XDP program, the maps that it reads, and the
//! [`Offload`] that writes the maps.
//!
//! The program ([`bpf/forward.bpf.c`](../src/bpf/forward.bpf.c)) forwards the packets of fast rules
//! in both directions and counts them. All other packets go to the AF_XDP socket of their queue,
//! and so to a worker.
//!
//! For each session and direction, one entry of 64 octets holds rule, budget and counters. The
//! control thread and workers write entries through shared memory, without a system call.
//! [`Batches`] reports when no run of the program sees the earlier entries.
//!
//! The program forwards by fast rules that have no rates and whose packets are counted by at most
//! the session's own URR: packets over IPv4, between a GTP-U interface and a data network, on links
//! without VLAN. Routes that require a search also stay with the workers.
//!
//! [`Offload`]: adit_rules::Offload
//! [`Batches`]: batches::Batches
#![deny(unsafe_code)]

mod account;
pub mod batches;
mod config;
mod entry;
mod layout;
mod load;
#[allow(unsafe_code, reason = "memory that is shared with the kernel")]
mod mapped;
mod offload;
mod program;
mod usage;

/// The atomics that `account` uses, which loom replaces.
mod sync {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
}

pub use config::{XdpConfig, XdpError};
pub use load::load;
pub use offload::XdpOffload;
pub use program::{XdpProgram, XdpVerdict};
