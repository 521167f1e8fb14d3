//! The interface to a network card that forwards by flow rules, modeled on the calls of `rte_flow`.

use core::fmt;

use crate::flows::flow::Flow;

/// The identifier that a card gave to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowHandle(pub u64);

/// The value of a flow's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCounts {
    /// Frames that matched the flow.
    pub pkts: u64,
    /// Octets of the frames as received, without the frame check sequence.
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

/// A card that flows are installed on. Counters outlive flows, so that last values can be read.
pub trait FlowCard: fmt::Debug + Send {
    /// Installs a flow.
    ///
    /// # Errors
    /// The card refuses the flow.
    fn create(&mut self, flow: &Flow) -> Result<FlowHandle, FlowCardError>;

    /// Removes a flow. Frames that arrive from now on do not match it. Keeps its counter.
    ///
    /// # Errors
    /// The card still has the flow.
    fn destroy(&mut self, flow: FlowHandle) -> Result<(), FlowCardError>;

    /// Reads the counter of a flow.
    ///
    /// # Errors
    /// The card cannot read the counter.
    fn query(&mut self, flow: FlowHandle) -> Result<FlowCounts, FlowCardError>;

    /// Frees the counter of a flow that [`FlowCard::destroy`] removed.
    fn release(&mut self, flow: FlowHandle);
}
