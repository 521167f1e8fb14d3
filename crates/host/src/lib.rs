//! Kernel services of the daemon other than ports: the N4 socket, and the sleep of idle workers.
#![deny(unsafe_code)]

pub mod idle;
pub mod n4_socket;
