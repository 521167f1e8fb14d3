//! Maps malformed headers and addresses to drop reasons, in one place.

use adit_rules::DropReason;
use adit_types::{is_forwardable_v4, is_forwardable_v6};
use adit_wire::udp::{self, UdpHeader};
use adit_wire::{IpAddrs, IpPacket, Malformed};

/// The layer at which parsing stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderLayer {
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

/// Returns the drop reason for `malformed` at `layer`.
#[cold]
pub(crate) fn drop_reason(layer: HeaderLayer, malformed: Malformed) -> DropReason {
    match (layer, malformed) {
        (HeaderLayer::Frame, _) => DropReason::FrameMalformed,
        (HeaderLayer::Ip | HeaderLayer::Inner, Malformed::BadChecksum) => {
            DropReason::IpChecksumWrong
        }
        (HeaderLayer::Ip, _) => DropReason::IpMalformed,
        (HeaderLayer::Udp, Malformed::BadChecksum) => DropReason::UdpChecksumWrong,
        (HeaderLayer::Udp, _) => DropReason::UdpMalformed,
        (HeaderLayer::Gtpu, Malformed::BadExtension(_) | Malformed::TooManyExtensions) => {
            DropReason::GtpuExtensionMalformed
        }
        (HeaderLayer::Gtpu, _) => DropReason::GtpuMalformed,
        (HeaderLayer::Inner, _) => DropReason::InnerMalformed,
    }
}

/// True if a router may forward a packet with these addresses.
#[inline]
pub(crate) fn is_forwardable(addrs: &IpAddrs) -> bool {
    match addrs {
        IpAddrs::V4 { src, dst } => is_forwardable_v4(*src) && is_forwardable_v4(*dst),
        IpAddrs::V6 { src, dst } => is_forwardable_v6(*src) && is_forwardable_v6(*dst),
    }
}

/// True if a packet with these addresses may pass between hosts of one link. In addition to
/// addresses that [`is_forwardable`] allows, the source may be link-local or, if the host has no
/// address yet, unspecified; the destination may be link-local, a group or the broadcast address.
/// Spec: RFC 4291 §2.5.2, §2.5.6, §2.7; RFC 1122 §3.2.1.3; RFC 3927 §2.6.
#[cold]
pub(crate) fn is_usable_on_link(addrs: &IpAddrs) -> bool {
    match *addrs {
        IpAddrs::V4 { src, dst } => {
            let is_source = is_forwardable_v4(src) || src.is_link_local() || src.is_unspecified();
            let is_destination = is_forwardable_v4(dst)
                || dst.is_link_local()
                || dst.is_multicast()
                || dst.is_broadcast();
            is_source && is_destination
        }
        IpAddrs::V6 { src, dst } => {
            let is_source =
                is_forwardable_v6(src) || src.is_unicast_link_local() || src.is_unspecified();
            let is_destination =
                is_forwardable_v6(dst) || dst.is_unicast_link_local() || dst.is_multicast();
            is_source && is_destination
        }
    }
}

/// Verifies the UDP checksum of `payload`, the payload of `ip`, unless the checksum is zero.
///
/// Cost: reads the whole datagram if it has a checksum.
/// # Errors
/// `UdpChecksumWrong`, or `UdpMalformed` if the UDP header is malformed.
pub(crate) fn verify_udp(ip: &IpPacket, payload: &[u8]) -> Result<(), DropReason> {
    let (header, _) =
        UdpHeader::parse(payload).map_err(|bad| drop_reason(HeaderLayer::Udp, bad))?;
    let datagram = payload.get(..usize::from(header.len())).unwrap_or_default();
    let verified = match ip.addrs {
        IpAddrs::V4 { src, dst } => udp::verify_ipv4(src, dst, datagram),
        IpAddrs::V6 { src, dst } => udp::verify_ipv6(src, dst, datagram),
    };
    verified.map_err(|bad| drop_reason(HeaderLayer::Udp, bad))
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    #[test]
    fn addresses_of_one_link_are_distinguished_from_those_that_no_packet_has() {
        let usable = |src: &str, dst: &str| {
            let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
            is_usable_on_link(&match (src, dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => IpAddrs::V4 { src, dst },
                (IpAddr::V6(src), IpAddr::V6(dst)) => IpAddrs::V6 { src, dst },
                _ => unreachable!(),
            })
        };
        for (src, dst) in [
            ("fe80::1", "ff02::2"),
            ("::", "ff02::1:ff00:1"),
            ("2001:db8::1", "fe80::1"),
            ("0.0.0.0", "255.255.255.255"),
            ("10.45.0.2", "224.0.0.251"),
            ("169.254.1.1", "10.0.0.1"),
        ] {
            assert!(usable(src, dst), "{src} to {dst}");
        }
        for (src, dst) in [
            ("::1", "ff02::2"),
            ("ff02::1", "fe80::1"),
            ("fe80::1", "::"),
            ("127.0.0.1", "224.0.0.1"),
            ("224.0.0.1", "10.0.0.1"),
            ("10.45.0.2", "0.0.0.0"),
            ("10.45.0.2", "127.0.0.1"),
            ("255.255.255.255", "10.0.0.1"),
        ] {
            assert!(!usable(src, dst), "{src} to {dst}");
        }
    }

    #[test]
    fn malformed_octets_map_to_the_layer_they_are_in() {
        let reason = |layer| drop_reason(layer, Malformed::BadVersion(3));
        assert_eq!(reason(HeaderLayer::Frame), DropReason::FrameMalformed);
        assert_eq!(reason(HeaderLayer::Ip), DropReason::IpMalformed);
        assert_eq!(reason(HeaderLayer::Udp), DropReason::UdpMalformed);
        assert_eq!(reason(HeaderLayer::Gtpu), DropReason::GtpuMalformed);
        assert_eq!(reason(HeaderLayer::Inner), DropReason::InnerMalformed);
        assert_eq!(
            drop_reason(HeaderLayer::Inner, Malformed::BadChecksum),
            DropReason::IpChecksumWrong
        );
        assert_eq!(
            drop_reason(HeaderLayer::Gtpu, Malformed::TooManyExtensions),
            DropReason::GtpuExtensionMalformed
        );
    }
}
