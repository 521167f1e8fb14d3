//! Indices over all sessions, so that nothing searches for one.

mod deadlines;
mod guaranteed_rates;
mod packet_rates;
mod shared_rates;
mod tunnel_index;
mod ue_claims;

pub(crate) use deadlines::Deadlines;
pub(crate) use guaranteed_rates::GuaranteedRates;
pub use packet_rates::QerPacketRate;
pub(crate) use packet_rates::{PacketRates, QerPacketRates};
pub(crate) use shared_rates::{SharedRates, shared_rate, shared_rates};
pub use tunnel_index::PeerSides;
pub(crate) use tunnel_index::TunnelIndex;
pub(crate) use ue_claims::UeClaims;
