//! A node and a scripted CP function: messages in, messages and changes of rules out.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests stand outside the test functions"
)]

mod association;
mod control_planes;
mod cp_function;
mod data_plane;
mod final_usage;
mod forwarding;
mod headers;
mod information;
mod jobs;
mod node;
mod packet_rates;
mod path_qos;
mod paths;
mod pdi;
mod pfd;
mod predefined;
mod records;
mod report;
mod restoration;
mod robustness;
mod session;
mod sets;
mod simulated;
mod simulation;
mod smf;
mod updates;
mod usage;
mod usage_scene;
mod withdrawals;
