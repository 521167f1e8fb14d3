//! Frame sizes of ports. Drivers of virtual devices accept other sizes than they declare.

use adit_dpdk_sys as sys;

use super::PortConfig;
use crate::device::{Device, DeviceKind};

/// Octets of a frame that DPDK does not count in the MTU: Ethernet header and FCS.
const DPDK_OVERHEAD_BYTES: u32 = 14 + 4;

/// Octets of a frame beyond the MTU: Ethernet header, two VLAN tags, FCS.
const FRAME_OVERHEAD_BYTES: u32 = 14 + 2 * 4 + 4;

/// The kernel's headroom in an AF_XDP buffer (`XDP_PACKET_HEADROOM`). Unit: bytes.
const XDP_HEADROOM_BYTES: u32 = 256;

/// Octets before the IP packet in an AF_PACKET slot: aligned header and address of TPACKET_V2,
/// Ethernet header, and a VLAN tag that the driver reinserts.
const PACKET_SLOT_OVERHEAD_BYTES: u16 = 66 + 14 + 4;

/// How many octets the driver subtracts from the size of a `net_af_packet` slot before it compares
/// the slot with a packet buffer.
const PACKET_SLOT_HEADER_BYTES: u32 = 32;

/// Size of a `net_af_packet` slot without `framesz=`. Unit: bytes.
const SLOT_BYTES_DEFAULT: u16 = 2048;

/// Slots in a block. If slots are a multiple of 1 KiB, a block is a multiple of the page size, as
/// the kernel requires, and has no gaps.
const SLOTS_PER_BLOCK: u32 = 4;

/// Maximum size of a `net_af_xdp` packet buffer, headroom excluded. With headroom and DPDK's own
/// headers (192 bytes) a buffer must fit in a page. DPDK would lengthen a buffer of exactly 64
/// cache lines, to spread buffers over memory channels. Unit: bytes.
const AF_XDP_MBUF_BYTES_MAX: u16 = 63 * 64 - 192 - 128;

/// Maximum MTU of `net_tap`: it sends no frame beyond the MTU configured in DPDK, see
/// [`nominal_mtu`].
const TAP_MTU_MAX: u16 = 1500;

impl Device {
    /// Returns the minimum size of a packet buffer for packets of `mtu_bytes`, headroom excluded.
    /// Unit: bytes.
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

    /// Returns the maximum size of a packet buffer, headroom excluded. Unit: bytes.
    #[must_use]
    pub fn mbuf_bytes_max(&self) -> u16 {
        if self.is_driver("net_af_xdp") { AF_XDP_MBUF_BYTES_MAX } else { u16::MAX }
    }

    /// Returns the maximum MTU of the driver with the arguments of the device string. Unit: bytes.
    #[must_use]
    pub fn mtu_max(&self) -> u16 {
        if self.is_driver("net_af_packet") {
            match slot_bytes(self, u16::MAX) {
                Some(slot) => slot.saturating_sub(PACKET_SLOT_OVERHEAD_BYTES),
                // Without `framesz=` slots are made large enough for any MTU.
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

/// Returns the slot size of a `net_af_packet` device: the size in its arguments, or the driver's
/// default, or the larger size that `mtu_bytes` requires. `None` if the argument is no number.
/// Unit: bytes.
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

/// Returns the device's arguments, with a slot size for `net_af_packet` if packets of `mtu_bytes`
/// require one.
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

/// Returns the minimum size of a buffer that holds a received frame in one segment. Unit: bytes,
/// headroom included.
pub(super) fn data_room(device: &Device, mtu_bytes: u16) -> u32 {
    device.mbuf_bytes(mtu_bytes) + sys::RTE_PKTMBUF_HEADROOM
}

/// Returns the MTU to configure in DPDK.
///
/// `net_af_packet`, `net_memif` and `net_tap` declare a maximum frame of 1518 bytes. DPDK checks
/// only the configured MTU against it; `net_af_packet` and `net_memif` pass longer frames
/// nevertheless.
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
