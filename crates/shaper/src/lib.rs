//! Packets that wait for their rate: queues by flow, and the wheel that wakes them.
//!
//! After Carousel (SIGCOMM 2017), with flows in the wheel instead of packets: a flow stands in it
//! once, at the time when its first packet may leave, and when that has come as many leave as the
//! rates let through by then. So a slot that many flows share never lets one of them exceed its
//! rate, a change of a rate counts for what waits already, and the wheel needs no horizon beyond the
//! one after which it looks again.
//!
//! Knows neither clock, rules nor rates: `now` is an argument, and whoever drives it says which
//! packet may leave. Allocates when it is made, and never again.
#![forbid(unsafe_code)]

mod queues;
mod wheel;

pub use queues::{FlowKey, Full, Held, Pace, Queues, QueuesConfig, Review};
pub use wheel::{SLOT, Wheel};
