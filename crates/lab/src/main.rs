//! Placeholder until the room opens.
fn main() {}
