//! No allocation: in a worker's step, in ports of the kernel, while PFCP is decoded. An allocator
//! that counts is the reason why these tests have a program of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod counting;
mod decoding;
mod kernel_ports;
mod steps;
mod syscalls;
