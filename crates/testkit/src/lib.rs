//! What tests share: a virtual clock and a simulated datagram link.
//!
//! Nothing here is part of the product; nothing here reads a real clock or opens a socket.
#![forbid(unsafe_code)]

pub mod clock;
pub mod link;
pub mod packet;
mod skip;

pub use skip::{skip, skip_on_this_machine};
