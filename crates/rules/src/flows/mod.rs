//! Forwarding by flow rules of a network card (`rte_flow`): flows that replace a fast rule, and the
//! [`Offload`](crate::Offload) that installs them.
//!
//! [`make`] turns a fast rule into [`Flow`]s: headers that a frame must have, and the card's
//! actions on it. It depends on no card. [`FlowOffload`] installs them on a [`FlowCard`], reads
//! their counters, and removes them. A [`FlowCard`] is a driver, or, in tests, [`SoftwareCard`],
//! which runs flows on frames in memory.
//!
//! docs/internals/offload.md lists the assumptions about a card.

mod card;
mod flow;
pub mod make;
mod offload;
mod routes;
mod software_card;
mod usage;

pub use card::{FlowCard, FlowCardError, FlowCounts, FlowHandle};
pub use flow::{Flow, FlowAction, FlowHeader, FlowItem, FlowPriority};
pub use make::{FlowConfig, FlowDirections};
pub use offload::FlowOffload;
pub use software_card::{FlowRefuser, SoftwareCard, SoftwareCardVerdict};
