//! Where packets of a route in a route table go, as 24 bits.

use adit_types::{InterfaceId, NextHopIndex};

/// Bits of an index: one below `limits::NEXT_HOPS_MAX` or `limits::HOP_GROUPS_MAX`.
const INDEX_BITS: u32 = 16;

/// Bits of an interface.
const INTERFACE_BITS: u32 = 5;

const _: () = assert!(adit_types::limits::NEXT_HOPS_MAX <= 1 << INDEX_BITS);
const _: () = assert!(adit_types::limits::HOP_GROUPS_MAX <= 1 << INDEX_BITS);
const _: () = assert!(adit_types::limits::INTERFACES_MAX <= 1 << INTERFACE_BITS);

const GATEWAY: u32 = 1;
const ON_LINK: u32 = 2;
const GROUP: u32 = 3;
const BLACKHOLE: u32 = 4;
const UNREACHABLE: u32 = 5;

/// Where packets of a route go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteValue {
    /// To a gateway.
    Gateway(InterfaceId, NextHopIndex),
    /// To the destination itself.
    OnLink(InterfaceId),
    /// To one of several next hops.
    Group(u16),
    /// Nowhere, without an answer.
    Blackhole,
    /// Nowhere: there is no way.
    Unreachable,
}

impl RouteValue {
    /// Its bits, which are not zero.
    pub(crate) const fn to_bits(self) -> u32 {
        let (kind, interface, index) = match self {
            Self::Gateway(interface, index) => (GATEWAY, interface.0 as u32, index.0),
            Self::OnLink(interface) => (ON_LINK, interface.0 as u32, 0),
            Self::Group(group) => (GROUP, 0, group as u32),
            Self::Blackhole => (BLACKHOLE, 0, 0),
            Self::Unreachable => (UNREACHABLE, 0, 0),
        };
        kind << (INDEX_BITS + INTERFACE_BITS) | interface << INDEX_BITS | index
    }

    /// Returns the value of some bits; `Unreachable` for those of no value.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "masked")]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        let interface = InterfaceId((bits >> INDEX_BITS & ((1 << INTERFACE_BITS) - 1)) as u8);
        let index = bits & ((1 << INDEX_BITS) - 1);
        match bits >> (INDEX_BITS + INTERFACE_BITS) {
            GATEWAY => Self::Gateway(interface, NextHopIndex(index)),
            ON_LINK => Self::OnLink(interface),
            GROUP => Self::Group(index as u16),
            BLACKHOLE => Self::Blackhole,
            _ => Self::Unreachable,
        }
    }

    /// Returns the interface of a single next hop.
    #[inline]
    pub(crate) const fn interface(self) -> Option<InterfaceId> {
        match self {
            Self::Gateway(interface, _) | Self::OnLink(interface) => Some(interface),
            Self::Group(_) | Self::Blackhole | Self::Unreachable => None,
        }
    }
}
