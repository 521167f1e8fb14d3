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

/// Octets before the IP packet in an AF_PACKET slot: aligned header and address of TPACKET_V2,
/// Ethernet header, and a VLAN tag that the driver reinserts.
const PACKET_SLOT_OVERHEAD_BYTES: u16 = 66 + 14 + 4;

/// Octets that the driver subtracts from a slot of `net_af_packet` before it compares it with a
/// packet buffer.
const PACKET_SLOT_HEADER_BYTES: u32 = 32;

/// Slot of `net_af_packet` without `framesz=`.
const SLOT_BYTES_DEFAULT: u16 = 2048;

/// Slots in a block. With slots of whole KiB a block has whole pages, and its slots no gaps.
const SLOTS_PER_BLOCK: u32 = 4;

/// Largest packet buffer of `net_af_xdp`, headroom excluded. With its own headers (192) and its
/// headroom a buffer has to fit a page. DPDK makes one of 64 cache lines longer, so that buffers
/// begin on different channels of the memory.
const AF_XDP_MBUF_BYTES_MAX: u16 = 63 * 64 - 192 - 128;

/// `net_tap` sends no frame beyond the MTU that DPDK has of it, see [`nominal_mtu`].
const TAP_MTU_MAX: u16 = 1500;

impl Device {
    /// Size of the smallest packet buffer for packets of `mtu_bytes`, headroom excluded. Unit:
    /// bytes.
    #[must_use]
    pub fn mbuf_bytes(&self, mtu_bytes: u16) -> u32 {
        let frame = u32::from(mtu_bytes) + FRAME_OVERHEAD_BYTES;
        if self.is_driver("net_af_xdp") {
            frame + XDP_HEADROOM_BYTES
        } else if self.is_driver("net_af_packet") {
            let slot = u32::from(slot_bytes(self, mtu_bytes).unwrap_or(0));
            frame.max(slot.saturating_sub(PACKET_SLOT_HEADER_BYTES))
        } else {
            frame
        }
    }

    /// Size of the largest packet buffer, headroom excluded. Unit: bytes.
    #[must_use]
    pub fn mbuf_bytes_max(&self) -> u16 {
        if self.is_driver("net_af_xdp") { AF_XDP_MBUF_BYTES_MAX } else { u16::MAX }
    }

    /// The largest MTU, according to the driver and the device string. Unit: bytes.
    #[must_use]
    pub fn mtu_max(&self) -> u16 {
        if self.is_driver("net_af_packet") {
            match slot_bytes(self, u16::MAX) {
                Some(slot) => slot.saturating_sub(PACKET_SLOT_OVERHEAD_BYTES),
                // Slots follow the MTU.
                None => u16::MAX,
            }
        } else if self.is_driver("net_af_xdp") {
            let beside = self.mbuf_bytes(0);
            u16::try_from(u32::from(AF_XDP_MBUF_BYTES_MAX) - beside).unwrap_or(u16::MAX)
        } else if self.is_driver("net_tap") {
            TAP_MTU_MAX
        } else {
            u16::MAX
        }
    }
}

/// The slot of a `net_af_packet` device: that of its arguments, the driver's default, or a larger
/// one that `mtu_bytes` needs. `None` for an argument that is no number.
fn slot_bytes(device: &Device, mtu_bytes: u16) -> Option<u16> {
    let needed = mtu_bytes.saturating_add(PACKET_SLOT_OVERHEAD_BYTES);
    match device.argument("framesz") {
        Some(text) => text.parse().ok(),
        None if needed <= SLOT_BYTES_DEFAULT || device.argument("blocksz").is_some() => {
            Some(SLOT_BYTES_DEFAULT)
        }
        None => needed.checked_next_multiple_of(1024),
    }
}

/// The device's arguments, with the slots of `net_af_packet` that packets of `mtu_bytes` need.
pub(super) fn arguments(device: &Device, mtu_bytes: u16) -> String {
    let arguments = device.arguments();
    match slot_bytes(device, mtu_bytes) {
        Some(slot)
            if device.is_driver("net_af_packet")
                && device.argument("framesz").is_none()
                && slot != SLOT_BYTES_DEFAULT =>
        {
            let block = u32::from(slot) * SLOTS_PER_BLOCK;
            format!("{arguments},framesz={slot},blocksz={block}")
        }
        _ => arguments.to_owned(),
    }
}

/// Size of the smallest buffer that holds a received frame in one segment. Unit: bytes, headroom
/// included.
pub(super) fn data_room(device: &Device, mtu_bytes: u16) -> u32 {
    device.mbuf_bytes(mtu_bytes) + sys::RTE_PKTMBUF_HEADROOM
}

/// The MTU to configure in DPDK.
///
/// `net_af_packet`, `net_memif` and `net_tap` declare a maximum frame of 1518 bytes. DPDK checks
/// only the configured MTU against it; longer frames pass the first two.
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

    fn device(text: &str) -> Device {
        text.parse().unwrap()
    }

    #[test]
    fn slots_of_af_packet_follow_the_mtu_unless_the_device_string_has_their_size() {
        let of = |text: &str, mtu_bytes| {
            let device = device(text);
            (arguments(&device, mtu_bytes), device.mtu_max())
        };
        let own = |text: &str, max| (text.split_once(',').unwrap().1.to_owned(), max);
        let text = "net_af_packet0,iface=v";
        assert_eq!(of(text, 1500), own(text, u16::MAX));
        let text = "net_af_packet0,iface=v,blocksz=8192";
        assert_eq!(of(text, 9000), own(text, 1964));
        assert_eq!(
            of("net_af_packet0,iface=v", 9000),
            ("iface=v,framesz=9216,blocksz=36864".to_owned(), u16::MAX)
        );
        let text = "net_af_packet0,iface=v,framesz=4096";
        assert_eq!(of(text, 9000), own(text, 4012));
        let text = "net_memif0,role=client";
        assert_eq!(of(text, 9000), own(text, u16::MAX));
    }

    #[test]
    fn mtu_of_drivers_with_frames_of_their_own_size_is_limited() {
        assert_eq!(device("net_af_xdp0,iface=v").mtu_max(), 3430);
        assert_eq!(device("net_tap0").mtu_max(), 1500);
        assert_eq!(device("0000:3b:00.0").mtu_max(), u16::MAX);
    }

    #[test]
    fn packet_buffer_holds_what_the_driver_writes_and_keeps() {
        let of = |text: &str, mtu_bytes| device(text).mbuf_bytes(mtu_bytes);
        assert_eq!(of("net_memif0,role=client", 1500), 1526);
        assert_eq!(of("net_af_xdp0,iface=v", 1500), 1526 + 256);
        assert_eq!(of("net_af_packet0,iface=v", 1500), 2016);
        assert_eq!(of("net_af_packet0,iface=v", 9000), 9184);
        assert_eq!(of("net_af_packet0,iface=v,framesz=4096", 1500), 4064);
    }
}
