//! The compiler of rules: its fast rules process packets like the rules.

#[allow(missing_docs, reason = "shared with the tests of adit-rules, where it is private")]
#[path = "../../../rules/tests/rules/equivalence/mod.rs"]
mod equivalence;

/// The octets choose the rules of a session, and packets.
pub(super) fn equivalence(data: &[u8]) {
    equivalence::run(data);
}
