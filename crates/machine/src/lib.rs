//! The machine that packets are processed on: its cores and which threads run there, the settings
//! of Linux, and what takes a core away from its thread.
#![deny(unsafe_code)]

pub mod noise;
pub mod placement;
pub mod tuning;
