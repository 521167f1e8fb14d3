//! Kernel services of the daemon other than ports: the N4 socket, the sleep of idle workers, the pages of its
//! tables, and the folder of its journal with
//! the thread that writes it.
#![deny(unsafe_code)]

pub mod idle;
pub mod journal_folder;
pub mod large_pages;
pub mod n4_socket;
pub mod store_thread;
