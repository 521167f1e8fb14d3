//! The type of service or traffic class octet of outer headers.

/// DSCP and ECN of an outer header, each fixed or copied from the inner packet; by default zero.
///
/// Stored in one octet. The upper six bits are the DSCP if it is fixed. A fixed ECN field is always
/// Not-ECT, so its two bits are free: they flag the copied fields. Spec: RFC 6040 §4.1 (fixed:
/// compatibility mode; copied: normal mode); RFC 2983 §3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OuterTos(u8);

const DSCP: u8 = 0xfc;
const ECN: u8 = 0x03;
const COPIES_ECN: u8 = 1;
const COPIES_DSCP: u8 = 2;

impl OuterTos {
    /// Copies DSCP, ECN or both, as requested; a field that is not copied is zero.
    #[must_use]
    pub const fn copying(dscp: bool, ecn: bool) -> Self {
        Self(if dscp { COPIES_DSCP } else { 0 } | if ecn { COPIES_ECN } else { 0 })
    }

    /// Sets a fixed DSCP, that of the octet `tos`; its ECN bits are ignored.
    #[must_use]
    pub const fn with_dscp(self, tos: u8) -> Self {
        Self(tos & DSCP | self.0 & COPIES_ECN)
    }

    /// Restores the value from [`OuterTos::octet`].
    #[inline]
    #[must_use]
    pub const fn from_octet(octet: u8) -> Self {
        Self(octet)
    }

    /// Returns the stored octet: the header's octet, unless [`OuterTos::is_copied`].
    #[inline]
    #[must_use]
    pub const fn octet(self) -> u8 {
        self.0
    }

    /// True if DSCP or ECN is copied from the packet.
    #[inline]
    #[must_use]
    pub const fn is_copied(self) -> bool {
        self.0 & ECN != 0
    }

    /// Returns the octet of the outer header for a packet whose own octet is `inner`; zero is right
    /// for messages that the UPF itself sends.
    #[inline]
    #[must_use]
    pub const fn around(self, inner: u8) -> u8 {
        let dscp = if self.0 & COPIES_DSCP != 0 { DSCP } else { 0 };
        let ecn = if self.0 & COPIES_ECN != 0 { ECN } else { 0 };
        self.0 & DSCP | inner & (dscp | ecn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_octet_is_fixed_or_copied_by_its_parts() {
        for (tos, inner, outer) in [
            (OuterTos::default(), 0xff, 0),
            (OuterTos::copying(false, true), 0xff, 0x03),
            (OuterTos::copying(true, false), 0xb9, 0xb8),
            (OuterTos::copying(true, true), 0xb9, 0xb9),
            (OuterTos::copying(true, true).with_dscp(0x2b), 0xb9, 0x29),
            (OuterTos::copying(true, false).with_dscp(0), 0xb9, 0),
            (OuterTos::default().with_dscp(0xff), 0x03, 0xfc),
        ] {
            assert_eq!(tos.around(inner), outer, "{tos:?} around {inner:#x}");
            assert_eq!(OuterTos::from_octet(tos.octet()), tos);
            assert!(tos.is_copied() || tos.octet() == outer, "{tos:?}");
        }
    }
}
