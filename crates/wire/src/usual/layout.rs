//! The layout of usual frames: headers, and offsets of fields in a frame without a VLAN tag.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ether_type::EtherType;
use crate::ethernet::EthernetHeader;
use crate::gtpu::{FLAG_PN, FLAG_S, GtpuHeader, GtpuMessageType, GtpuOptional};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::protocol;
use crate::udp::UdpHeader;

/// Mask of the flag "more fragments" and the fragment offset in an IPv4 header.
pub(super) const FRAGMENT: u16 = 0x3fff;

pub(super) const IPV4: u16 = EtherType::IPV4.0;
pub(super) const IPV6: u16 = EtherType::IPV6.0;
pub(super) const UDP: u8 = protocol::UDP;
pub(super) const G_PDU_TYPE: u8 = GtpuMessageType::G_PDU.0;

/// PDU types of containers, as the values of their octet.
pub(super) const DOWNLINK: u8 = 0;
pub(super) const UPLINK: u8 = 1 << 4;

/// First octet of an IPv4 header without options.
pub(super) const VERSION_IHL: u8 = 0x45;

/// The GTP-U flags that announce a sequence number and an N-PDU number.
pub(super) const NUMBER_FLAGS: u8 = FLAG_S | FLAG_PN;

/// Length of an Ethernet header without a tag. Unit: octets.
pub(super) const ETHERNET_LEN: usize = EthernetHeader::LEN;

/// The headers of a frame that carries IPv4.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FrameIpv4 {
    pub(super) link: EthernetHeader,
    pub(super) ip: Ipv4Header,
}

/// The headers of a frame that carries a G-PDU without extension headers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FrameGPdu {
    pub(super) link: EthernetHeader,
    pub(super) ip: Ipv4Header,
    pub(super) udp: UdpHeader,
    pub(super) gtpu: GtpuHeader,
}

/// The headers of a frame that carries a G-PDU with optional fields and without extension headers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FrameNumbered {
    pub(super) plain: FrameGPdu,
    pub(super) optional: GtpuOptional,
}

/// A PDU Session Container of four octets that ends the chain of extension headers.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Container {
    /// Length of the container in units of four octets.
    pub(super) len: u8,
    /// PDU type in the high half.
    pub(super) pdu_type: u8,
    /// QFI in the low six bits; above them flags that depend on the PDU type.
    pub(super) qfi: u8,
    pub(super) next_extension: u8,
}

/// The headers of a frame that carries a G-PDU with one container.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct FrameExtended {
    pub(super) plain: FrameGPdu,
    pub(super) optional: GtpuOptional,
    pub(super) container: Container,
}

/// Length of the headers before the inner packet. Unit: octets.
pub(super) const G_PDU_LEN: usize = size_of::<FrameGPdu>();

/// Length of the headers before the inner packet, with GTP-U's optional fields. Unit: octets.
pub(super) const NUMBERED_LEN: usize = size_of::<FrameNumbered>();

/// Length of the headers before the inner packet, with one extension header. Unit: octets.
pub(super) const EXTENDED_LEN: usize = size_of::<FrameExtended>();

/// Converts a length of headers to the type of a length field.
#[allow(clippy::cast_possible_truncation, reason = "below 100")]
pub(super) const fn header_len(len: usize) -> u16 {
    len as u16
}

/// Length of the headers from IPv4 on, which GTP-U's length field does not include.
pub(super) const IP_HEADERS_LEN: u16 = header_len(G_PDU_LEN - ETHERNET_LEN);

/// Length of an IPv4 header, which UDP's length field does not include.
pub(super) const IPV4_LEN: u16 = header_len(Ipv4Header::LEN);
pub(super) const IPV6_LEN: u16 = header_len(Ipv6Header::LEN);

/// Length of the optional fields of GTP-U together with one container.
pub(super) const CONTAINER_LEN: u16 = header_len(EXTENDED_LEN - G_PDU_LEN);

/// Offsets of fields in a frame.
pub(super) mod at {
    use core::mem::offset_of;

    use super::{EthernetHeader, FrameExtended, FrameGPdu, FrameIpv4, Ipv4Header};

    pub(in super::super) const DST_MAC: usize = offset_of!(FrameIpv4, link.dst);
    pub(in super::super) const SRC_MAC: usize = offset_of!(FrameIpv4, link.src);
    pub(in super::super) const ETHER_TYPE: usize = offset_of!(FrameIpv4, link.ether_type);
    pub(in super::super) const IP: usize = EthernetHeader::LEN;
    pub(in super::super) const TOS: usize = offset_of!(FrameIpv4, ip.tos);
    pub(in super::super) const TOTAL_LEN: usize = offset_of!(FrameIpv4, ip.total_len);
    pub(in super::super) const FLAGS_OFFSET: usize = offset_of!(FrameIpv4, ip.flags_offset);
    pub(in super::super) const PROTOCOL: usize = offset_of!(FrameIpv4, ip.protocol);
    pub(in super::super) const CHECKSUM: usize = offset_of!(FrameIpv4, ip.checksum);
    pub(in super::super) const DST: usize = offset_of!(FrameIpv4, ip.dst);
    pub(in super::super) const DST_PORT: usize = offset_of!(FrameGPdu, udp.dst_port);
    pub(in super::super) const UDP_LEN: usize = offset_of!(FrameGPdu, udp.len);
    pub(in super::super) const FLAGS: usize = offset_of!(FrameGPdu, gtpu.flags);
    pub(in super::super) const GTPU_LEN: usize = offset_of!(FrameGPdu, gtpu.len);
    pub(in super::super) const TEID: usize = offset_of!(FrameGPdu, gtpu.teid);
    pub(in super::super) const NEXT_EXTENSION: usize =
        offset_of!(FrameExtended, optional.next_extension);
    pub(in super::super) const PDU_TYPE: usize = offset_of!(FrameExtended, container.pdu_type);
    pub(in super::super) const QFI: usize = offset_of!(FrameExtended, container.qfi);
    pub(in super::super) const LAST_EXTENSION: usize =
        offset_of!(FrameExtended, container.next_extension);
    /// Offsets in an IPv4 header, not in a frame.
    pub(in super::super) const TTL: usize = offset_of!(Ipv4Header, ttl);
    pub(in super::super) const HEADER_CHECKSUM: usize = offset_of!(Ipv4Header, checksum);
}
