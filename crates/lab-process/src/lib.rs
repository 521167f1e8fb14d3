//! Code that the parts of `adit-lab` share: child processes and their folders, the `adit` under
//! test and its configuration, signals and errors.
#![deny(unsafe_code)]

pub mod adit_binary;
pub mod adit_config;
pub mod netns;
pub mod process;
pub mod scratch;
pub mod stop;
