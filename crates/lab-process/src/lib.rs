//! What every part of `adit-lab` starts from: child processes and their folders, the `adit` under
//! test with its configuration, and how the lab ends.
#![deny(unsafe_code)]

pub mod adit_binary;
pub mod adit_config;
pub mod process;
pub mod scratch;
pub mod stop;
