//! The measurements of `adit-lab`, each a subcommand: what is offered to a target, what is read off,
//! and how it is told.

pub mod agreement;
pub mod base;
pub mod bench;
pub mod compare;
pub mod drive;
pub mod groups;
pub mod latency;
pub mod machine;
pub mod metrics;
pub mod pcap;
pub mod progress;
pub mod ramp;
pub mod rates;
pub mod report;
pub mod rig;
pub mod saturate;
pub mod search;
pub mod selftest;
pub mod soak;
pub mod target;
pub mod throughput;
pub mod traffic;
pub mod validity;
