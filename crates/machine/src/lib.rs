//! The machine on which packets are processed: its cores and the threads that run on them, its
//! Linux settings, and the interruptions of its threads.
#![deny(unsafe_code)]

pub mod noise;
pub mod placement;
pub mod tuning;
