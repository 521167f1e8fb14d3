//! The folder of the journal, and the threads of stores.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod journal_folder;
mod replicated;
mod store_thread;
