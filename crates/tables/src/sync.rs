//! All primitives for shared memory of this crate: the standard ones, or loom's in its models.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// A value that the control thread creates once. A reader finds it by one load, and never waits.
pub(crate) use std::sync::OnceLock as MadeOnce;
