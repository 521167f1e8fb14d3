//! The one door to shared-memory primitives: the standard ones, or loom's while a model runs.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// What the control thread makes once; readers find it by one load, and never wait.
pub(crate) use std::sync::OnceLock as MadeOnce;
