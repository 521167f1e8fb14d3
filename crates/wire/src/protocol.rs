//! IP protocol numbers, which are also IPv6 next-header values. Spec: IANA protocol numbers.

/// IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4.
pub const ICMP: u8 = 1;
/// IGMP.
pub const IGMP: u8 = 2;
/// IPv4 in IP. Spec: RFC 2003.
pub const IPV4: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP.
pub const DCCP: u8 = 33;
/// IPv6 in IP. Spec: RFC 2473.
pub const IPV6: u8 = 41;
/// IPv6 routing header.
pub const IPV6_ROUTE: u8 = 43;
/// IPv6 fragment header.
pub const IPV6_FRAGMENT: u8 = 44;
/// Encapsulating security payload.
pub const ESP: u8 = 50;
/// Authentication header.
pub const AH: u8 = 51;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
/// IPv6: nothing follows.
pub const IPV6_NO_NEXT: u8 = 59;
/// IPv6 destination options.
pub const IPV6_DST_OPTIONS: u8 = 60;
/// SCTP.
pub const SCTP: u8 = 132;
/// IPv6 mobility header.
pub const MOBILITY: u8 = 135;
/// UDP-Lite.
pub const UDP_LITE: u8 = 136;
/// Host identity protocol.
pub const HIP: u8 = 139;
/// Shim6.
pub const SHIM6: u8 = 140;

/// True for protocols whose header begins with a source and a destination port of 16 bits each.
#[inline]
#[must_use]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}
