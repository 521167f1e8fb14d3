//! The IP headers that Adit writes itself, for its own packets and as outer headers: without
//! options, with DF set.

use core::net::IpAddr;

use adit_wire::Malformed;
use adit_wire::encapsulate::OUTER_TTL;
use adit_wire::ipv4::{Ipv4Fields, Ipv4Header};
use adit_wire::ipv6::{Ipv6Fields, Ipv6Header};

/// An IP header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnIpHeader {
    pub src: IpAddr,
    /// Destination, of the same IP version.
    pub dst: IpAddr,
    pub protocol: u8,
    /// Type of service or traffic class octet.
    pub tos: u8,
    /// Length of the payload. Unit: octets.
    pub payload_len: u16,
}

impl OwnIpHeader {
    /// Returns the length of the header. Unit: octets.
    pub(crate) const fn len(&self) -> usize {
        if self.dst.is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN }
    }

    /// Writes the header at the front of `packet`.
    ///
    /// # Errors
    /// `Truncated` if `packet` is too short; `BadVersion` for addresses of different IP versions.
    pub(crate) fn emit(&self, packet: &mut [u8]) -> Result<(), Malformed> {
        let Self { protocol, tos, payload_len, .. } = *self;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Header::new(&Ipv4Fields {
                tos,
                total_len: payload_len.saturating_add(20),
                identification: 0,
                dont_fragment: true,
                ttl: OUTER_TTL,
                protocol,
                src,
                dst,
            })
            .emit(packet),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Header::new(&Ipv6Fields {
                traffic_class: tos,
                flow_label: 0,
                payload_len,
                next_header: protocol,
                hop_limit: OUTER_TTL,
                src,
                dst,
            })
            .emit(packet),
            _ => Err(Malformed::BadVersion(0)),
        }
    }
}
