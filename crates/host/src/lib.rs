//! Kernel services of the daemon other than ports: the N4 socket, the sleep of idle workers, and the pages
//! of its tables.
#![deny(unsafe_code)]

pub mod idle;
pub mod large_pages;
pub mod n4_socket;
