//! From what is wrong with octets to why a packet was dropped: the one place that knows both.

use adit_rules::DropReason;
use adit_types::{is_forwardable_v4, is_forwardable_v6};
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
#[inline]
pub(crate) fn is_forwardable(addrs: &IpAddrs) -> bool {
    match addrs {
        IpAddrs::V4 { src, dst } => is_forwardable_v4(*src) && is_forwardable_v4(*dst),
        IpAddrs::V6 { src, dst } => is_forwardable_v6(*src) && is_forwardable_v6(*dst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
