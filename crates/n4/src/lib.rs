//! Placeholder until the room opens.
