//! Packets that wait for their rates: queues by flow, and the wheel that wakes them.
//!
//! After Carousel (SIGCOMM 2017), with flows in the wheel instead of packets. A flow is in the wheel
//! once, at the time when its first packet may leave. When that time has come, as many packets leave
//! as the flow's rates admit by then. So a slot that many flows share never lets a flow exceed its
//! rate, a change of a rate affects packets that wait already, and the horizon of the wheel is no
//! limit: a flow beyond it is checked again at its end.
//!
//! Rates that flows share are the second level. The flows that wait for a shared rate take turns by
//! deficit round robin (SIGCOMM 1995), and the wheel wakes the rate instead of its flows.
//!
//! The crate knows neither clock, rules nor rates: `now` is an argument, and the caller decides which
//! packet may leave ([`FlowServer`]). It allocates at construction only.
#![forbid(unsafe_code)]

mod flow;
mod queues;
mod server;
mod wheel;

pub use flow::{
    Eligibility, QueueFull, QueueKey, QueuedPacket, RateSet, ReviewOutcome, TurnContext,
};
pub use queues::{FlowIndex, FlowQueue, Queues, QueuesConfig};
pub use server::FlowServer;
pub use wheel::{SLOT, Wheel};
