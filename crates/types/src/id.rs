//! Identifiers: one newtype per thing that has an identity.
//!
//! Identifiers that a peer assigns (`PdrId`, `FarId`, …) have meaning within one PFCP session only;
//! `SessionIndex`, `NextHopIndex`, `PortId` and `WorkerId` are dense local indices.

use core::fmt;

use crate::Direction;

macro_rules! ids {
    ($( $(#[$doc:meta])* $name:ident($inner:ty), $format:literal; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    )* };
}

ids! {
    /// Tunnel endpoint identifier of GTP-U. Zero never names a user tunnel.
    /// Spec: TS 29.281 §5.1.
    Teid(u32), "0x{:08x}";
    /// Session endpoint identifier of PFCP. Zero means "not known yet" in a header.
    /// Spec: TS 29.244 §5.6.2, §7.2.2.4.2.
    Seid(u64), "0x{:016x}";
    /// Packet Detection Rule identifier, unique within one PFCP session. Spec: TS 29.244 §8.2.36.
    PdrId(u16), "{}";
    /// Forwarding Action Rule identifier, unique within one PFCP session; the top bit distinguishes
    /// predefined (1) from dynamic (0). Spec: TS 29.244 §8.2.74.
    FarId(u32), "{}";
    /// QoS Enforcement Rule identifier, unique within one PFCP session. Spec: TS 29.244 §8.2.75.
    QerId(u32), "{}";
    /// Usage Reporting Rule identifier, unique within one PFCP session. Spec: TS 29.244 §8.2.54.
    UrrId(u32), "{}";
    /// Buffering Action Rule identifier, unique within one PFCP session. Spec: TS 29.244 §8.2.88.
    BarId(u8), "{}";
    /// Precedence of a PDR: the lowest value is matched first. Spec: TS 29.244 §8.2.11.
    Precedence(u32), "{}";
    /// Dense local index of a PFCP session, below `limits::SESSIONS_MAX`.
    SessionIndex(u32), "{}";
    /// Dense local index of usage counters: below `limits::usage_slots_max`, or a session's own
    /// (`limits::own_usage_slot`).
    UsageSlot(u32), "{}";
    /// Dense local index of a next hop, below `limits::NEXT_HOPS_MAX`.
    NextHopIndex(u32), "{}";
    /// Dense local index of a GTP-U peer, below `limits::NEXT_HOPS_MAX`.
    GtpuPeerIndex(u32), "{}";
    /// Dense local index of an ethdev port in configuration order.
    PortId(u16), "{}";
    /// Dense local index of a worker.
    WorkerId(u8), "{}";
    /// Index of a configured network slice, from 1 to `limits::SLICES_MAX`; zero means none of the
    /// configured slices.
    SliceId(u8), "{}";
}

impl SessionIndex {
    /// No session: the value in a column of lookup results before the lookup, and after a miss.
    pub const NONE: Self = Self(u32::MAX);

    /// The next index; [`Self::NONE`] stays as it is.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Index of one direction of the session in a table of both directions of all sessions.
    #[inline]
    #[must_use]
    pub const fn direction_slot(self, direction: Direction) -> usize {
        (self.0 as usize) << 1 | direction.index()
    }

    /// True when this is not [`SessionIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

impl GtpuPeerIndex {
    /// No peer known yet.
    pub const NONE: Self = Self(u32::MAX);
}

impl NextHopIndex {
    /// No next hop known yet.
    pub const NONE: Self = Self(u32::MAX);

    /// True when this is not [`NextHopIndex::NONE`].
    #[inline]
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// QoS Flow Identifier, six bits. Spec: TS 23.501 §5.7.1.1; TS 29.244 §8.2.89; TS 38.415 §5.5.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Qfi(u8);

impl Qfi {
    /// The largest value that six bits hold.
    pub const MAX: u8 = 63;

    /// A QFI of the given value, or `None` above [`Qfi::MAX`].
    #[inline]
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Self::MAX { Some(Self(value)) } else { None }
    }

    /// The value, 0..=63.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Qfi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qfi_above_six_bits_is_refused() {
        assert_eq!(Qfi::new(63).map(Qfi::value), Some(63));
        assert_eq!(Qfi::new(64), None);
    }
}
