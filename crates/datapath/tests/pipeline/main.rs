//! The packet path from the outside: frames into in-memory ports, frames and counters out of them.
//!
//! Every step of every test checks the packet identity. Buffers are poisoned, and frames that leave
//! are compared with expected octets, so that an octet nobody wrote shows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod buffering;
mod cp_function;
mod downlink;
mod duplicating;
mod ecn;
mod end_markers;
mod errors;
mod fixture;
mod floods;
mod fragments;
mod frames;
mod guaranteed;
mod hostile;
mod kernel_twin;
mod limits;
mod local;
mod local_switching;
mod mss;
mod neighbors;
mod network_instance;
mod path;
mod path_mtu;
mod publishing;
mod rates;
mod redirect;
mod released;
mod route_tables;
mod sdf;
mod segmented;
mod taps;
mod tunnels;
mod uplink;
