//! Types of links and networks: hardware addresses, VLANs, prefixes, logical interfaces.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An EUI-48 address in transmission order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// True for group addresses (multicast and broadcast).
    #[inline]
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// The IPv6 link-local address of a station: `fe80::/64` and the modified EUI-64 of its MAC
    /// address. Spec: RFC 4291 §2.5.6, appendix A.
    #[must_use]
    pub const fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        Ipv6Addr::from_octets([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// VLAN identifier, 12 bits; zero is an untagged frame here. Spec: IEEE 802.1Q.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct VlanId(u16);

impl VlanId {
    /// No tag on the frame.
    pub const UNTAGGED: Self = Self(0);

    /// A VLAN of 1..=4094, or `None`.
    #[must_use]
    pub const fn new(value: u16) -> Option<Self> {
        if value >= 1 && value <= 4094 { Some(Self(value)) } else { None }
    }

    /// The low twelve bits of a tag control field; a priority tag (0) counts as untagged.
    #[inline]
    #[must_use]
    pub const fn from_tag_control(tci: u16) -> Self {
        Self(tci & 0x0fff)
    }

    /// The value, 0 for untagged.
    #[inline]
    #[must_use]
    pub const fn value(self) -> u16 {
        self.0
    }
}

/// Dense index of a logical interface (an ethdev port with an optional VLAN) in configuration
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct InterfaceId(pub u8);

/// Dense index of a routing domain (VRF): its UE addresses, pools and routes are separate from
/// those of other domains. A network instance belongs to one domain. Spec: TS 29.244 §8.2.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct DomainId(pub u8);

/// The reference point that a logical interface serves. Spec: TS 23.501 §4.2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InterfaceRole {
    /// Towards the RAN: GTP-U.
    N3,
    /// Towards other UPFs: GTP-U.
    N9,
    /// Towards the user plane of the control plane function, N4-u: GTP-U.
    N4u,
    /// Towards a data network: IP.
    N6,
}

impl InterfaceRole {
    /// True when packets arrive and leave in GTP-U tunnels.
    #[inline]
    #[must_use]
    pub const fn is_gtpu(self) -> bool {
        !matches!(self, Self::N6)
    }

    /// The reference point's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::N3 => "N3",
            Self::N9 => "N9",
            Self::N4u => "N4-u",
            Self::N6 => "N6",
        }
    }
}

/// By first octet, whether routers forward to an IPv4 address: 0 yes, 1 no, 2 depends on the rest.
const FORWARDING_BY_FIRST_OCTET: [u8; 256] = {
    let mut octets = [0; 256];
    octets[0] = 1;
    octets[127] = 1;
    octets[169] = 2;
    let mut multicast = 0xe0;
    while multicast < 0xf0 {
        octets[multicast] = 1;
        multicast += 1;
    }
    octets[255] = 2;
    octets
};

/// True if routers forward packets from and to `addr`, so not for "this network" 0/8, loopback
/// 127/8, link-local 169.254/16, multicast 224/4 and broadcast.
///
/// Spec: RFC 1812 §5.3.7, §4.2.2.11; RFC 3927 §2.7.
#[inline]
#[must_use]
pub const fn is_forwardable_v4(addr: Ipv4Addr) -> bool {
    let [first, second, ..] = addr.octets();
    match FORWARDING_BY_FIRST_OCTET[first as usize] {
        0 => true,
        1 => false,
        _ if first == 169 => second != 254,
        _ => addr.to_bits() != u32::MAX,
    }
}

/// True if routers forward packets from and to `addr`, so not for the unspecified address,
/// loopback, link-local fe80::/10 and multicast ff00::/8.
///
/// Spec: RFC 4291 §2.5.
#[inline]
#[must_use]
pub const fn is_forwardable_v6(addr: Ipv6Addr) -> bool {
    let bits = addr.to_bits();
    bits > 1 && bits >> 118 != 0x3fa && bits >> 120 != 0xff
}

/// Checks `addr` by [`is_forwardable_v4`] or [`is_forwardable_v6`].
#[inline]
#[must_use]
pub const fn is_forwardable(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => is_forwardable_v4(addr),
        IpAddr::V6(addr) => is_forwardable_v6(addr),
    }
}

/// Why a text is not a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixError {
    /// The part before `/` is not an address of this family.
    Address,
    /// The part after `/` is missing or no number within the family's width.
    Length,
    /// Bits are set behind the prefix length.
    HostBits,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "not an IP address in front of '/'",
            Self::Length => "no valid prefix length behind '/'",
            Self::HostBits => "bits are set behind the prefix length",
        })
    }
}

impl core::error::Error for PrefixError {}

macro_rules! prefix {
    ($name:ident, $addr:ty, $bits:ty, $width:literal, $doc:literal) => {
        #[doc = $doc]
        /// Host bits are always zero. Packed, because rules of millions of sessions contain
        /// prefixes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(C, packed(4))]
        pub struct $name {
            bits: $bits,
            len: u8,
        }

        impl $name {
            /// The prefix that contains `addr`, or `None` if `len` exceeds the family's width.
            #[must_use]
            pub const fn containing(addr: $addr, len: u8) -> Option<Self> {
                if len > $width {
                    return None;
                }
                Some(Self { bits: addr.to_bits() & Self::mask(len), len })
            }

            const fn mask(len: u8) -> $bits {
                if len == 0 { 0 } else { <$bits>::MAX << ($width - len as u32) }
            }

            /// The first address.
            #[must_use]
            pub const fn addr(self) -> $addr {
                <$addr>::from_bits(self.bits)
            }

            /// The prefix length. Unit: bits.
            #[allow(clippy::len_without_is_empty, reason = "a length of bits, not of a container")]
            #[must_use]
            pub const fn len(self) -> u8 {
                self.len
            }

            /// True when `addr` lies in this prefix.
            #[inline]
            #[must_use]
            pub const fn contains(self, addr: $addr) -> bool {
                addr.to_bits() & Self::mask(self.len) == self.bits
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.addr(), self.len)
            }
        }

        impl FromStr for $name {
            type Err = PrefixError;
            fn from_str(text: &str) -> Result<Self, PrefixError> {
                let (addr, len) = text.split_once('/').ok_or(PrefixError::Length)?;
                let addr: $addr = addr.parse().map_err(|_| PrefixError::Address)?;
                let len: u8 = len.parse().map_err(|_| PrefixError::Length)?;
                let prefix = Self::containing(addr, len).ok_or(PrefixError::Length)?;
                if prefix.addr() == addr { Ok(prefix) } else { Err(PrefixError::HostBits) }
            }
        }
    };
}

prefix!(Ipv4Prefix, Ipv4Addr, u32, 32, "An IPv4 prefix.");
prefix!(Ipv6Prefix, Ipv6Addr, u128, 128, "An IPv6 prefix.");

/// A prefix of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpPrefix {
    /// IPv4.
    V4(Ipv4Prefix),
    /// IPv6.
    V6(Ipv6Prefix),
}

impl IpPrefix {
    /// Returns the prefix that contains `addr`, or `None` if `len` exceeds the family's width.
    #[must_use]
    pub fn containing(addr: IpAddr, len: u8) -> Option<Self> {
        match addr {
            IpAddr::V4(addr) => Ipv4Prefix::containing(addr, len).map(Self::V4),
            IpAddr::V6(addr) => Ipv6Prefix::containing(addr, len).map(Self::V6),
        }
    }

    /// True when `addr` is of this family and lies in this prefix.
    #[inline]
    #[must_use]
    pub const fn contains(self, addr: IpAddr) -> bool {
        match (self, addr) {
            (Self::V4(prefix), IpAddr::V4(addr)) => prefix.contains(addr),
            (Self::V6(prefix), IpAddr::V6(addr)) => prefix.contains(addr),
            _ => false,
        }
    }

    /// The prefix length. Unit: bits.
    #[allow(clippy::len_without_is_empty, reason = "a length of bits, not of a container")]
    #[must_use]
    pub const fn len(self) -> u8 {
        match self {
            Self::V4(prefix) => prefix.len(),
            Self::V6(prefix) => prefix.len(),
        }
    }

    /// The first address.
    #[must_use]
    pub const fn addr(self) -> IpAddr {
        match self {
            Self::V4(prefix) => IpAddr::V4(prefix.addr()),
            Self::V6(prefix) => IpAddr::V6(prefix.addr()),
        }
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(prefix) => prefix.fmt(f),
            Self::V6(prefix) => prefix.fmt(f),
        }
    }
}

impl FromStr for IpPrefix {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text.contains(':') { text.parse().map(Self::V6) } else { text.parse().map(Self::V4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_that_a_router_keeps_is_not_forwardable() {
        for kept in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
        ] {
            assert!(!is_forwardable(kept.parse().unwrap()), "{kept}");
        }
        for passed in [
            "1.0.0.0",
            "10.45.0.1",
            "169.253.0.1",
            "223.255.255.255",
            "255.255.255.254",
            "2001:db8::1",
            "fec0::1",
        ] {
            assert!(is_forwardable(passed.parse().unwrap()), "{passed}");
        }
    }

    #[test]
    fn prefix_parses_contains_and_prints() {
        let prefix: Ipv4Prefix = "10.45.0.0/16".parse().unwrap();
        assert!(prefix.contains(Ipv4Addr::new(10, 45, 255, 1)));
        assert!(!prefix.contains(Ipv4Addr::new(10, 46, 0, 0)));
        assert_eq!(prefix.to_string(), "10.45.0.0/16");
        let default: Ipv6Prefix = "::/0".parse().unwrap();
        assert!(default.contains(Ipv6Addr::LOCALHOST));
    }

    #[test]
    fn prefix_with_host_bits_or_bad_length_is_refused() {
        assert_eq!("10.45.0.1/16".parse::<Ipv4Prefix>(), Err(PrefixError::HostBits));
        assert_eq!("10.45.0.0/33".parse::<Ipv4Prefix>(), Err(PrefixError::Length));
        assert_eq!("10.45.0.0".parse::<Ipv4Prefix>(), Err(PrefixError::Length));
        assert_eq!("x/8".parse::<Ipv6Prefix>(), Err(PrefixError::Address));
    }

    #[test]
    fn link_local_address_follows_from_the_link_layer_address() {
        let mac = MacAddr([0x02, 0x61, 0x64, 0x69, 0x74, 0x01]);
        assert_eq!(mac.link_local(), "fe80::61:64ff:fe69:7401".parse::<Ipv6Addr>().unwrap());
    }
}
