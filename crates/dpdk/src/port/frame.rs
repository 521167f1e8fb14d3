//! Frame sizes: what the drivers of virtual devices really carry, which is not what they declare.

use adit_dpdk_sys as sys;

use super::PortConfig;
use crate::device::{Device, DeviceKind};

/// Octets of a frame around an IP packet of MTU size as DPDK counts: Ethernet header and FCS.
const DPDK_OVERHEAD_BYTES: u32 = 14 + 4;

/// Octets of a frame around an IP packet of MTU size: Ethernet header, two VLAN tags, FCS.
const FRAME_OVERHEAD_BYTES: u32 = 14 + 2 * 4 + 4;

/// What the kernel keeps in front of a frame in a buffer of AF_XDP (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM_BYTES: u32 = 256;

/// Octets in front of the IP packet in a frame slot of AF_PACKET: header and address of TPACKET_V2,
/// aligned, Ethernet header, and a VLAN tag that the driver puts back.
const PACKET_SLOT_OVERHEAD_BYTES: u16 = 66 + 14 + 4;

/// Slot of `net_af_packet` without `framesz=`, and buffer of `net_memif` without `bsize=`.
const SLOT_BYTES_DEFAULT: u16 = 2048;

/// The largest MTU whose frames the driver carries, as far as the device string decides it.
pub(super) fn mtu_max(device: &Device) -> u16 {
    let slot = |key| device.argument(key).map_or(Some(SLOT_BYTES_DEFAULT), |v| v.parse().ok());
    if device.is_driver("net_af_packet") {
        slot("framesz").map_or(u16::MAX, |slot| slot.saturating_sub(PACKET_SLOT_OVERHEAD_BYTES))
    } else if device.is_driver("net_memif") {
        slot("bsize").map_or(u16::MAX, |slot| slot.saturating_sub(14 + 2 * 4))
    } else {
        u16::MAX
    }
}

/// Smallest buffer that holds a received frame in one piece. Unit: bytes, headroom included.
pub(super) fn data_room(device: &Device, mtu_bytes: u16) -> u32 {
    let hidden = if device.is_driver("net_af_xdp") { XDP_HEADROOM_BYTES } else { 0 };
    u32::from(mtu_bytes) + FRAME_OVERHEAD_BYTES + sys::RTE_PKTMBUF_HEADROOM + hidden
}

/// The MTU that DPDK is told.
///
/// `net_af_packet`, `net_memif` and `net_tap` declare frames of 1518 bytes at most, which DPDK
/// enforces on this number and nothing else; longer frames pass.
pub(super) fn nominal_mtu(config: &PortConfig<'_>, offer: &sys::rte_eth_dev_info) -> u32 {
    let wanted = u32::from(config.mtu_bytes);
    match config.device.kind() {
        DeviceKind::Pci => wanted,
        DeviceKind::Virtual => wanted.min(offer.max_rx_pktlen.saturating_sub(DPDK_OVERHEAD_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> u16 {
        mtu_max(&text.parse().unwrap())
    }

    #[test]
    fn mtu_limit_follows_the_slot_size_in_the_device_string() {
        assert_eq!(limit("net_af_packet0,iface=v"), 1964);
        assert_eq!(limit("net_af_packet0,iface=v,framesz=4096"), 4012);
        assert_eq!(limit("net_memif0,role=client"), 2026);
        assert_eq!(limit("net_null0"), u16::MAX);
    }

    #[test]
    fn data_room_counts_what_af_xdp_keeps() {
        let room = |text: &str| data_room(&text.parse().unwrap(), 1500);
        assert_eq!(room("net_af_xdp0,iface=v") - room("net_null0"), 256);
    }
}
