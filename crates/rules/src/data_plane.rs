//! The contract between the control side and whatever runs the rules.
//!
//! The control side handles sessions and messages; a data plane handles packets. Between them are
//! three things: changes, which go down; the notice that a change is in effect, which comes back;
//! and usage, which is read. DPDK workers behind `tables::Publisher` are one data plane. Another
//! one (XDP, a NIC, a recorder in tests) compiles changes with [`crate::compile`] and keeps this
//! contract.

use std::sync::Arc;

use crate::delta::RuleDelta;
use crate::delta_id::DeltaId;
use crate::usage::UsageSource;

/// A component that runs the rules of sessions.
pub trait DataPlane {
    /// Starts to apply one change. Ids ascend, and changes take effect in the order of the calls.
    ///
    /// Returns at once and cannot fail: the caller has checked every capacity. A packet sees the
    /// rules of its session before or after the change, never a mixture.
    fn apply(&mut self, id: DeltaId, delta: RuleDelta);

    /// Returns the oldest change that is in effect for every packet from now on and was not
    /// returned before. Returns changes in the order of [`DataPlane::apply`]. Call it until it
    /// returns `None`.
    fn poll_observed(&mut self) -> Option<DeltaId>;

    /// Returns how many changes were applied and not yet returned by [`DataPlane::poll_observed`].
    fn unobserved(&self) -> usize;

    /// Returns the reader of the counters of URRs, by the slot and generation in their entries.
    fn usage_source(&self) -> Arc<dyn UsageSource>;
}
