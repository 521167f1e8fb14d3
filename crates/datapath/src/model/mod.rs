//! Execution models: which core runs which part of the packet path, and in which order.

pub(crate) mod run_to_completion;
