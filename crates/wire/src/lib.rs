//! Wire formats of the user plane: header views, checked parsing and emission.
//!
//! The layouts of Ethernet, VLAN, ARP, IPv4, IPv6, UDP, TCP, ICMP, ICMPv6, GTP-U, its extension
//! headers and the PDU Session Container, their checksums, parsing of a whole packet (`parse`), and
//! the hash by which NICs spread packets ([`rss`]). Decisions about packets do not live here.
//!
//! Invariant: parsing is total. Any octets result in a value or a [`Malformed`]; nothing panics,
//! allocates or loops without a bound. An emitter writes each octet of its headers.
//!
//! Spec: RFC 791, 768, 792, 826, 1071, 1624, 4443, 4861, 8200; TS 29.281; TS 38.415.
#![deny(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod ecn;
pub mod encapsulate;
mod ether_type;
pub mod ethernet;
mod flow;
mod fragment;
mod fragment_kind;
mod glance;
pub mod gtpu;
pub mod gtpu_ext;
pub mod gtpu_ie;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
mod malformed;
mod mss;
pub mod neighbor;
mod open_checksum;
pub mod parse;
pub mod protocol;
pub mod psc;
mod quoted;
pub mod rss;
pub mod tcp;
pub mod udp;
pub mod usual;
mod view;
pub mod vlan;

pub use encapsulate::{OuterIpv4, OuterIpv6, UdpChecksum, emit_gtpu_ipv4, emit_gtpu_ipv6};
pub use ether_type::EtherType;
pub use flow::flow_hash;
pub use fragment::{FragmentPosition, Ipv4Split, restore_header};
pub use fragment_kind::FragmentKind;
pub use glance::{Glance, UeAddress};
pub use malformed::Malformed;
pub use mss::{clamp_mss, is_syn, mss_headers_len};
pub use open_checksum::finish_open_checksum;
pub use parse::{
    FiveTuple, Frame, GtpuPacket, IpAddrs, IpPacket, five_tuple, parse_frame, parse_gtpu, parse_ip,
};
pub use psc::{PduSessionContainer, PduType, usual_container_marking};
pub use quoted::QuotedGpdu;
pub use usual::{
    GPduPattern, GPduV6Pattern, INNER_OFFSET_OVER_IPV6_MIN, IpPattern, OrderingKey, UsualFiveTuple,
    UsualGPdu, UsualIp, UsualLinkHeader, UsualOuter, UsualOuterV6, UsualTunnel, UsualTuple,
    decrement_usual_hops, guess_is_v6, is_usual_syn, ordering_key, ordering_key_over_v6, tag_len,
    usual_dst, usual_dst_key, usual_five_tuple, usual_g_pdu, usual_g_pdu_over_v6, usual_ip,
    usual_tos, usual_tuple, vlan_of,
};
