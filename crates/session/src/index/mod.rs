//! Indices over all sessions, so that no lookup has to search.

mod correlated_rates;
mod deadlines;
mod guaranteed_rates;
mod packet_rates;
mod tunnel_index;
mod ue_claims;

pub(crate) use correlated_rates::{CorrelatedRates, correlated_rate, correlated_rates};
pub(crate) use deadlines::Deadlines;
pub(crate) use guaranteed_rates::GuaranteedRates;
pub use packet_rates::QerPacketRate;
pub(crate) use packet_rates::{PacketRates, QerPacketRates, resume};
pub use tunnel_index::PeerSides;
pub(crate) use tunnel_index::TunnelIndex;
pub(crate) use ue_claims::UeClaims;
