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
