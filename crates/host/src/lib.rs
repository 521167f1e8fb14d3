//! Kernel services of the daemon other than ports: the N4 socket, the sleep of idle workers, the pages of its
//! tables, the folder of its
//! journal, and the threads of its store and of the tail that a standby keeps.
#![deny(unsafe_code)]

pub mod idle;
pub mod journal_folder;
pub mod large_pages;
pub mod n4_socket;
pub mod replicated;
pub mod store_thread;
pub mod tail_thread;
