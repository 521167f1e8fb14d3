//! Identifiers, quantities and capacities that every room of Adit shares.
//!
//! Only values: nothing here reads bytes, makes decisions, or reads the time. Integers are in host
//! byte order. Identifiers keep the names of TS 29.244 and TS 29.281.
#![forbid(unsafe_code)]

mod id;
mod interface_set;
pub mod limits;
mod net;
mod owner;
mod quantity;
mod role;
mod tcp_mss;

pub use id::{
    BarId, FarId, GtpuPeerIndex, NextHopIndex, PdrId, PortId, Precedence, QerId, Qfi, Seid,
    SessionIndex, SliceId, Teid, UrrId, UsageSlot, WorkerId,
};
pub use interface_set::InterfaceSet;
pub use net::{
    DomainId, InterfaceId, InterfaceRole, IpPrefix, Ipv4Prefix, Ipv6Prefix, MacAddr, PrefixError,
    VlanId, is_forwardable, is_forwardable_v4, is_forwardable_v6,
};
pub use owner::{OWNER_GROUP_SHIFT, OWNER_GROUPS, OWNER_STRIDE, Owners, owner_group};
pub use quantity::{BitRate, ByteCount, Nanos};
pub use role::{Role, Roles};
pub use tcp_mss::TcpMss;

/// Direction of user traffic, seen from the UE (TS 23.501).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the UE towards the data network.
    Uplink,
    /// From the data network towards the UE.
    Downlink,
}

impl Direction {
    /// Index of the direction in an array of both: uplink 0, downlink 1.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
