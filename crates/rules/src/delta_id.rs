//! Identifiers of published changes.

/// Identifies a published change until all workers run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeltaId(pub u64);
