//! Code that tests share: a virtual clock, a simulated datagram link, an event scheduler in memory,
//! a data plane that records, a folder of files that loses data as in a crash, and scripts of
//! virtual machines.
//!
//! Nothing here is part of the product, reads a real clock, or opens a socket.
#![forbid(unsafe_code)]

pub mod clock;
pub mod data_plane;
pub mod link;
pub mod mem_events;
pub mod memory_folder;
pub mod packet;
mod skip;
pub mod vm;

pub use skip::{skip, skip_on_this_machine};
