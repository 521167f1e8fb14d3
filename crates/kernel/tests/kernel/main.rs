//! Ports of the kernel and its addresses, on real devices.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod devices;
mod host_addresses;
mod host_network;
mod kernel_routes;
mod packet;
