//! The traffic engine: acts as gNBs and data network of any number of sessions, on packet ports.
//!
//! One thread sends open-loop by a schedule, and receives. Each packet carries a stamp with its
//! stream, session, sequence number and intended send time, so that the engine measures loss,
//! duplication, reordering and latency without the target's help. The engine uses no UPF, socket or
//! wall clock: ports are [`adit_pktio::PacketIo`], time is a [`TickClock`](clock::TickClock).
//! [`memif`] is the tester's end of a memif.
#![deny(unsafe_code)]

pub mod clock;
pub mod fault;
pub mod frame;
pub mod histogram;
pub mod inspect;
pub mod memif;
pub mod neighbor;
pub mod pacer;
pub mod plan;
pub mod stamp;
pub mod stream;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod traffic_io;
pub mod trial;
pub mod windows;
