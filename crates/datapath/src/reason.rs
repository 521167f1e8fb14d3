//! From what is wrong with octets to why a packet was dropped: the one place that knows both.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_rules::DropReason;
use adit_wire::{IpAddrs, Malformed};

/// The layer at which parsing stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Ethernet and VLAN.
    Frame,
    /// The outer or only IP header.
    Ip,
    /// UDP.
    Udp,
    /// GTP-U header and extension headers.
    Gtpu,
    /// The IP header inside the tunnel.
    Inner,
}

/// The reason that stands for `malformed` at `layer`.
#[cold]
pub(crate) fn drop_reason(layer: Layer, malformed: Malformed) -> DropReason {
    match (layer, malformed) {
        (Layer::Frame, _) => DropReason::FrameMalformed,
        (Layer::Ip | Layer::Inner, Malformed::BadChecksum) => DropReason::IpChecksumWrong,
        (Layer::Ip, _) => DropReason::IpMalformed,
        (Layer::Udp, Malformed::BadChecksum) => DropReason::UdpChecksumWrong,
        (Layer::Udp, _) => DropReason::UdpMalformed,
        (Layer::Gtpu, Malformed::BadExtension(_) | Malformed::TooManyExtensions) => {
            DropReason::GtpuExtensionMalformed
        }
        (Layer::Gtpu, _) => DropReason::GtpuMalformed,
        (Layer::Inner, _) => DropReason::InnerMalformed,
    }
}

/// True when neither address keeps a router from forwarding the packet.
///
/// Spec: RFC 1812 §5.3.7, §4.2.2.11; RFC 3927 §2.7; RFC 4291 §2.5.
#[inline]
pub(crate) fn is_forwardable(addrs: &IpAddrs) -> bool {
    match addrs {
        IpAddrs::V4 { src, dst } => is_forwardable_v4(*src) && is_forwardable_v4(*dst),
        IpAddrs::V6 { src, dst } => is_global_v6(*src) && is_global_v6(*dst),
    }
}

/// The same for one address.
pub(crate) fn is_forwardable_addr(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => is_forwardable_v4(addr),
        IpAddr::V6(addr) => is_global_v6(addr),
    }
}

/// Not "this network" 0/8, loopback 127/8, link-local 169.254/16, multicast 224/4, broadcast.
#[inline]
pub(crate) fn is_forwardable_v4(addr: Ipv4Addr) -> bool {
    let [first, second, ..] = addr.octets();
    !(first == 0
        || first == 127
        || (first == 169 && second == 254)
        || first & 0xf0 == 0xe0
        || addr == Ipv4Addr::BROADCAST)
}

/// Not unspecified, loopback, link-local fe80::/10, multicast ff00::/8.
#[inline]
fn is_global_v6(addr: Ipv6Addr) -> bool {
    let bits = addr.to_bits();
    bits > 1 && bits >> 118 != 0x3fa && bits >> 120 != 0xff
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
            assert!(!is_forwardable_addr(kept.parse().unwrap()), "{kept}");
        }
        for passed in
            ["1.0.0.0", "10.45.0.1", "169.253.0.1", "223.255.255.255", "2001:db8::1", "fec0::1"]
        {
            assert!(is_forwardable_addr(passed.parse().unwrap()), "{passed}");
        }
    }

    #[test]
    fn malformed_octets_map_to_the_layer_they_are_in() {
        let reason = |layer| drop_reason(layer, Malformed::BadVersion(3));
        assert_eq!(reason(Layer::Frame), DropReason::FrameMalformed);
        assert_eq!(reason(Layer::Ip), DropReason::IpMalformed);
        assert_eq!(reason(Layer::Udp), DropReason::UdpMalformed);
        assert_eq!(reason(Layer::Gtpu), DropReason::GtpuMalformed);
        assert_eq!(reason(Layer::Inner), DropReason::InnerMalformed);
        assert_eq!(drop_reason(Layer::Inner, Malformed::BadChecksum), DropReason::IpChecksumWrong);
        assert_eq!(
            drop_reason(Layer::Gtpu, Malformed::TooManyExtensions),
            DropReason::GtpuExtensionMalformed
        );
    }
}
