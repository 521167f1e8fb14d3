//! Packets that wait for their rates: a queue for each flow, and a timing wheel that wakes flows.
//!
//! A *flow* is one queue: the packets of one direction of a session that pass the same buckets
//! ([`QueueKey`]). It is neither a 5-tuple nor a QoS flow.
//!
//! The design follows Carousel (SIGCOMM 2017), but with flows in the wheel instead of packets. A
//! flow is in the wheel once, at the time when its first packet may leave. When that time has come,
//! as many packets leave as the flow's rates admit by then. So
//!
//! - no flow exceeds its rate, however many flows share a slot;
//! - a change of a rate applies to packets that already wait;
//! - a flow may wait beyond the horizon of the wheel: it is checked again in the last slot.
//!
//! A *shared rate* is one that several flows have to pass; in the data plane these are the
//! aggregates of slices and of all sessions. The flows that wait for a shared rate form its *ring*:
//! they take turns by deficit round robin (SIGCOMM 1995), and the wheel wakes the rate instead of
//! its flows.
//!
//! The module uses neither clock, rules nor rates: `now` is a parameter, and the caller decides
//! which packet may leave ([`FlowServer`]). It allocates memory at construction only.

mod flow;
mod flow_queue;
mod queues;
mod server;
mod wheel;

pub use flow::{
    Eligibility, QueueFull, QueueKey, QueuedPacket, RateSet, ReviewOutcome, RingWait, TurnContext,
};
pub use flow_queue::{FlowQueue, FreePlace, NextPacket};
pub use queues::{FlowIndex, Queues, QueuesConfig};
pub use server::{AloneResult, FlowServer};
pub use wheel::{SLOT_WIDTH, Wheel};
