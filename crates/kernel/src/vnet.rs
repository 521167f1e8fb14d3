//! The header in front of packets of a TUN device with `IFF_VNET_HDR`, and of packet sockets.
//!
//! Spec: virtio 1.2 §5.1.6, `struct virtio_net_hdr` of `linux/virtio_net.h`, in native byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Flag: the checksum at `csum_offset` covers the octets from `csum_start` on; its field holds only
/// the sum of the pseudo header.
pub(crate) const NEEDS_CSUM: u8 = 1;

/// Type: no segmentation.
pub(crate) const GSO_NONE: u8 = 0;
/// TCP over IPv4.
pub(crate) const GSO_TCPV4: u8 = 1;
/// TCP over IPv6.
pub(crate) const GSO_TCPV6: u8 = 4;
/// Type: UDP datagrams of one size.
pub(crate) const GSO_UDP_L4: u8 = 5;
/// Flag of the type: CWR is set, and belongs to the first segment only.
pub(crate) const GSO_ECN: u8 = 0x80;

/// `struct virtio_net_hdr`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub(crate) struct VnetHeader {
    pub flags: u8,
    pub gso_type: u8,
    /// Length of all headers; only a hint. Unit: octets.
    pub hdr_len: u16,
    /// Payload of each segment. Unit: octets.
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Length of the header. Unit: octets.
    pub(crate) const LEN: usize = size_of::<Self>();
}

const _: () = assert!(VnetHeader::LEN == 10);
