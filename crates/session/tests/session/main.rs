//! Tests of the room through its public doors, one module per stage, and a comparison with a naive
//! model under random sequences of changes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod activation;
mod builders;
mod choose_f_teid;
mod cp_function;
mod end_marker;
mod endpoints;
mod forwarding;
mod framed;
mod interface_type;
mod interfaces;
mod many_rules;
mod model;
mod n9;
mod packed_record;
mod pfd;
mod predefined;
mod provisioned;
mod refusals;
mod restore;
mod s1_provide;
mod s2_resolve;
mod s3_compile;
mod s4_commit;
mod usage;
mod usage_events;
