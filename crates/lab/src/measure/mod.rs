//! The measurements of `adit-lab`, each a subcommand: what is offered to a target, what is read off,
//! and how it is told.

pub mod bench;
pub mod machine;
pub mod progress;
pub mod report;
pub mod selftest;
