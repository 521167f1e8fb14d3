//! Usual packets: the fast path recognizes them by their fixed layout.
//!
//! A usual packet is Ethernet, with the VLAN tag of the link or none, and IPv4 without options that
//! is no fragment. A G-PDU continues with UDP, GTP-U with or without a sequence number and with at
//! most one short PDU Session Container, and inner IP: IPv4 without options, or IPv6 whose next
//! header is the upper layer. The ECN field of its outer header is neither CE nor ECT(1). One
//! comparison with a pattern of the link checks all constant fields. For any other packet the
//! functions return `None`, and [`crate::parse`] has to classify it. G-PDUs over IPv6 have patterns
//! and functions of their own (`over_v6`).
//!
//! The parameter `TAG_LEN` is the length of the link's VLAN tag: 4 octets or none. The octets after
//! the tag are read as if there were no tag.
//!
//! PERF (wire/usual): all functions are inlined, because a call would pass the fields through
//! memory. Spec: RFC 791; RFC 8200; IEEE 802.1Q §9.6; TS 29.281 §4.4, §5; TS 38.415 §5.5.2.

mod layout;
mod outer;
mod outer_v6;
mod over_v6;
mod pattern;
mod recognize;
mod rewrite;
mod tuple;

pub use outer::{UsualOuter, UsualTunnel};
pub use outer_v6::UsualOuterV6;
pub use over_v6::{
    GPduV6Pattern, INNER_OFFSET_OVER_IPV6_MIN, ordering_key_over_v6, usual_g_pdu_over_v6,
};
pub use pattern::{GPduPattern, IpPattern, tag_len, vlan_of};
pub use recognize::{
    OrderingKey, UsualGPdu, UsualIp, guess_is_v6, ordering_key, usual_g_pdu, usual_ip,
};
pub use rewrite::{UsualLinkHeader, decrement_usual_hops};
pub use tuple::{
    UsualFiveTuple, UsualTuple, is_usual_syn, usual_dst, usual_dst_key, usual_five_tuple,
    usual_tos, usual_tuple,
};
