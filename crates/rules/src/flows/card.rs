//! The interface of a card: the calls of `rte_flow`.

use core::fmt;

use crate::flows::flow::Flow;

/// The number that a card gave to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowNumber(pub u64);

/// The counts of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCounts {
    /// Frames.
    pub pkts: u64,
    /// Their octets as received, without the frame check sequence.
    pub bytes: u64,
}

/// Why a card refuses something, in the words of its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowCardError(pub String);

impl fmt::Display for FlowCardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FlowCardError {}

/// A card that takes flows. The counter of a flow outlives it, so that its last value can be read.
pub trait FlowCard: fmt::Debug + Send {
    /// Installs a flow.
    ///
    /// # Errors
    /// The card does not take it.
    fn create(&mut self, flow: &Flow) -> Result<FlowNumber, FlowCardError>;

    /// Removes a flow. Frames that arrive from now on do not match it. Keeps its counter.
    ///
    /// # Errors
    /// The flow is still there.
    fn destroy(&mut self, flow: FlowNumber) -> Result<(), FlowCardError>;

    /// Reads the counter of a flow.
    ///
    /// # Errors
    /// The card does not say.
    fn query(&mut self, flow: FlowNumber) -> Result<FlowCounts, FlowCardError>;

    /// Frees the counter of a flow that was removed.
    fn release(&mut self, flow: FlowNumber);
}
