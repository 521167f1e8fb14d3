//! Packets that wait for their rates: queues by flow, and the wheel that wakes them.
//!
//! After Carousel (SIGCOMM 2017), with flows in the wheel instead of packets: a flow stands in it
//! once, at the time when its first packet may leave, and when that has come as many leave as the
//! rates let through by then. So a slot that many flows share never lets one of them exceed its
//! rate, a change of a rate counts for what waits already, and the wheel needs no horizon beyond the
//! one after which it looks again.
//!
//! Rates that flows share are the second level: whose turn it is there is told by rounds of the flows
//! that wait for one (deficit round robin, SIGCOMM 1995), and the wheel wakes the rate, not its flows.
//!
//! Knows neither clock, rules nor rates: `now` is an argument, and whoever drives it says which
//! packet may leave. Allocates when it is made, and never again.
#![forbid(unsafe_code)]

mod queues;
mod server;
mod wheel;

pub use queues::{
    Eligibility, FlowIndex, FlowQueue, QueueFull, QueueKey, QueuedPacket, Queues, QueuesConfig,
    RateSet, ReviewOutcome, TurnContext,
};
pub use server::FlowServer;
pub use wheel::{SLOT, Wheel};
