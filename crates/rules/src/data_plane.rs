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

/// A part that runs the rules of sessions.
pub trait DataPlane {
    /// Starts to apply one change. Ids ascend, and changes take effect in this order.
    ///
    /// Returns at once, cannot fail, and needs no answer: every capacity was checked before. A
    /// packet sees the rules of its session before or after the change, never a mixture.
    fn apply(&mut self, id: DeltaId, delta: RuleDelta);

    /// The oldest change that is in effect for every packet from now on and was not returned
    /// before. Returns each change once, in the order of [`DataPlane::apply`]. Call until it
    /// returns `None`.
    fn poll_observed(&mut self) -> Option<DeltaId>;

    /// Changes that were applied and that [`DataPlane::poll_observed`] did not return yet.
    fn unobserved(&self) -> usize;

    /// Where the usage of URRs is read, by the slot and generation that their entries name.
    fn usage_source(&self) -> Arc<dyn UsageSource>;
}
