//! The measurements of `adit-lab` and their reports. Each measurement is a subcommand.
//!
//! To add a measurement, write its options with `LabMeasurement`, a variant of
//! `command::MeasureCommand`, and its name in `experiment::file::MEASUREMENTS`. Text, JSON, page
//! and comparison come from the cases, figures and plots that it puts into its `Report`.
#![deny(unsafe_code)]

mod absence;
mod agreement;
mod any_engine;
mod baseband;
pub mod baseband_app;
mod cases;
pub mod command;
mod compare;
mod cycles;
mod experiment;
mod groups;
mod latency;
pub mod machine;
mod measurement;
mod metrics;
mod number;
mod page;
mod pcap;
mod plot;
pub mod ports;
mod print;
mod progress;
mod quantity;
mod ramp;
mod rates;
mod report;
mod rig;
mod run_report;
mod saturate;
mod search;
mod selftest;
mod soak;
mod store;
mod tables;
mod target;
mod testbed;
mod throughput;
pub mod traffic;
mod validity;

pub use crate::page::{STYLE, escape, put};
