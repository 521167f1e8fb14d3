//! Frame sizes. Drivers of virtual devices accept other sizes than they declare.

use adit_dpdk_sys as sys;

use super::PortConfig;
use crate::device::{Device, DeviceKind};

/// Overhead of a frame over the MTU as DPDK counts it: Ethernet header and FCS.
const DPDK_OVERHEAD_BYTES: u32 = 14 + 4;

/// Overhead of a frame over the MTU: Ethernet header, two VLAN tags, FCS.
const FRAME_OVERHEAD_BYTES: u32 = 14 + 2 * 4 + 4;

/// The kernel's headroom in an AF_XDP buffer (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM_BYTES: u32 = 256;

/// Octets before the IP packet in an AF_PACKET slot: aligned header and address of TPACKET_V2, Ethernet
/// header, and a VLAN tag that the driver reinserts.
const PACKET_SLOT_OVERHEAD_BYTES: u16 = 66 + 14 + 4;

/// Slot of `net_af_packet` without `framesz=`, and buffer of `net_memif` without `bsize=`.
const SLOT_BYTES_DEFAULT: u16 = 2048;

/// The largest MTU that the driver supports, according to the device string.
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

/// Size of the smallest buffer that holds a received frame in one segment. Unit: bytes, headroom included.
pub(super) fn data_room(device: &Device, mtu_bytes: u16) -> u32 {
    let hidden = if device.is_driver("net_af_xdp") { XDP_HEADROOM_BYTES } else { 0 };
    u32::from(mtu_bytes) + FRAME_OVERHEAD_BYTES + sys::RTE_PKTMBUF_HEADROOM + hidden
}

/// The MTU to configure in DPDK.
///
/// `net_af_packet`, `net_memif` and `net_tap` declare a maximum frame of 1518 bytes. DPDK checks only
/// the configured MTU against it; longer frames pass.
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
