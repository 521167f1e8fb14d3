//! The drivers of the fuzz targets, so that tests can replay findings.
//!
//! Each function takes any octets and panics if an invariant does not hold. The targets in `fuzz/`
//! and the replay in `tests/in_memory/regressions.rs` both call them through [`TARGETS`].

mod compile;
mod frames;
mod input;
mod journal;
mod n4_sequence;
mod pfcp;
mod records;
mod replication;
mod resp;
mod text;

#[allow(
    dead_code,
    missing_docs,
    reason = "shared with the tests of adit-pfcp, where it is private"
)]
#[path = "../../../pfcp/tests/pfcp/leaves.rs"]
mod leaves;

#[path = "../../../store/tests/store/model.rs"]
mod model;

/// A target: its name, which is also that of its folder of inputs, and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets but `config`, which needs the daemon.
pub const TARGETS: &[FuzzTarget] = &[
    ("pfcp_message", pfcp::message),
    ("pfcp_leaf_ies", pfcp::leaf_ies),
    ("pfd_contents", pfcp::pfd_contents),
    ("sdf_text", text::flow_description),
    ("n4_sequence", n4_sequence::run),
    ("gtpu_parse", frames::gtpu),
    ("datapath_frames", frames::datapath),
    ("compile", compile::equivalence),
    ("journal", journal::run),
    ("records", records::run),
    ("resp", resp::run),
    ("replication", replication::run),
];

/// Runs the target `name`.
///
/// # Panics
/// When there is no such target, and when the target finds something.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    target(data);
}
