//! What the daemon takes of the kernel besides its ports: the N4 socket, and the sleep of workers
//! without packets.
#![deny(unsafe_code)]

pub mod idle;
pub mod n4_socket;
