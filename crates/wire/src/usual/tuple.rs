//! Reads fields of a usual packet.

use core::mem::offset_of;
use core::net::{IpAddr, Ipv4Addr};

use zerocopy::FromBytes;

use super::layout::FRAGMENT;
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::protocol;
use crate::tcp::TcpHeader;

/// The fields of a usual packet that SDF filters compare. An IPv4 address is in the first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualTuple {
    /// Source address in words of 32 bits, in host order.
    pub src: [u32; 4],
    /// Destination address in words of 32 bits, in host order.
    pub dst: [u32; 4],
    /// Source port; zero if the protocol has no ports.
    pub src_port: u16,
    /// Destination port; zero if the protocol has no ports.
    pub dst_port: u16,
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Type of service or traffic class octet.
    pub tos: u8,
}

/// Reads addresses, protocol and ports of a usual packet, whose family is known. `None` for
/// fragments, because only the first one has ports.
#[inline(always)]
#[must_use]
pub fn usual_tuple(packet: &[u8], is_v6: bool) -> Option<UsualTuple> {
    let (src, dst, protocol, tos, upper) = match is_v6 {
        false => {
            let (ip, upper) = Ipv4Header::ref_from_prefix(packet).ok()?;
            if ip.flags_offset.get() & FRAGMENT != 0 {
                return None;
            }
            let words = |addr: Ipv4Addr| [addr.to_bits(), 0, 0, 0];
            (words(ip.src()), words(ip.dst()), ip.protocol(), ip.tos(), upper)
        }
        true => {
            let (ip, upper) = Ipv6Header::ref_from_prefix(packet).ok()?;
            let words = |addr: &[u8; 16]| {
                let (words, _) = addr.as_chunks::<4>();
                core::array::from_fn(|at| u32::from_be_bytes(words[at]))
            };
            (words(&ip.src), words(&ip.dst), ip.next_header(), ip.traffic_class(), upper)
        }
    };
    let (src_port, dst_port) = match upper {
        &[a, b, c, d, ..] if protocol::has_ports(protocol) => {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        _ => (0, 0),
    };
    Some(UsualTuple { src, dst, src_port, dst_port, protocol, tos })
}

/// The fields of a usual packet that most SDF filters compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualFiveTuple {
    /// First 32 bits of the source.
    pub src: u32,
    /// First 32 bits of the destination.
    pub dst: u32,
    /// Source port in the upper half, destination port in the lower half; arbitrary if the protocol
    /// has no ports.
    pub ports: u32,
    /// Upper-layer protocol.
    pub protocol: u8,
}

/// Reads the five-tuple of a usual packet of `len` octets at `offset` of a frame, whose family is
/// known. `None` for fragments, and if fewer than four octets follow the IP header.
#[inline(always)]
#[must_use]
pub fn usual_five_tuple(frame: &[u8], offset: u8, len: u16, is_v6: bool) -> Option<UsualFiveTuple> {
    const PORTS_LEN: usize = 4;
    let ip_len = if is_v6 { Ipv6Header::LEN } else { Ipv4Header::LEN };
    let (start, headers_len) = (usize::from(offset), ip_len + PORTS_LEN);
    // PERF (adit-bench datapath --sdf): one comparison with the length of the frame.
    let headers = frame.get(start..start + headers_len)?;
    if usize::from(len) < headers_len {
        return None;
    }
    let (ip, ports) = headers.split_at_checked(ip_len)?;
    let ports = u32::from_be_bytes(*ports.first_chunk()?);
    if is_v6 {
        let ip = Ipv6Header::ref_from_bytes(ip).ok()?;
        let word = |addr: &[u8; 16]| addr.first_chunk().map(|word| u32::from_be_bytes(*word));
        let (src, dst) = (word(&ip.src)?, word(&ip.dst)?);
        return Some(UsualFiveTuple { src, dst, ports, protocol: ip.next_header() });
    }
    let ip = Ipv4Header::ref_from_bytes(ip).ok()?;
    if ip.flags_offset.get() & FRAGMENT != 0 {
        return None;
    }
    let (src, dst) = (ip.src().to_bits(), ip.dst().to_bits());
    Some(UsualFiveTuple { src, dst, ports, protocol: ip.protocol() })
}

/// Returns the destination of a usual packet at `offset` of a frame, whose family is known, in the
/// form of [`UsualIp::dst`](super::UsualIp::dst).
#[inline(always)]
#[must_use]
pub fn usual_dst_key(frame: &[u8], offset: u8, is_v6: bool) -> Option<u64> {
    let packet = frame.get(usize::from(offset)..)?;
    if is_v6 {
        let (ip, _) = Ipv6Header::ref_from_prefix(packet).ok()?;
        return ip.dst.first_chunk().map(|half| u64::from_be_bytes(*half));
    }
    Some(Ipv4Header::ref_from_prefix(packet).ok()?.0.dst().to_bits().into())
}

/// Returns the type of service or traffic class octet of a usual packet at `offset` of a frame,
/// whose family is known.
#[inline]
#[must_use]
pub fn usual_tos(frame: &[u8], offset: u8, is_v6: bool) -> Option<u8> {
    let front = u16::from_be_bytes(*frame.get(usize::from(offset)..)?.first_chunk()?);
    let [_, tos] = (if is_v6 { front >> 4 } else { front }).to_be_bytes();
    Some(tos)
}

/// True if a usual packet at `offset` of a frame, whose family is known, is a SYN of TCP. Also true
/// for a later fragment whose payload looks like a SYN.
#[inline]
#[must_use]
pub fn is_usual_syn(frame: &[u8], offset: u8, is_v6: bool) -> bool {
    const PROTOCOL_V4: usize = offset_of!(Ipv4Header, protocol);
    const PROTOCOL_V6: usize = offset_of!(Ipv6Header, next_header);
    const FLAGS: usize = 13;
    let (protocol_at, ip_len) =
        if is_v6 { (PROTOCOL_V6, Ipv6Header::LEN) } else { (PROTOCOL_V4, Ipv4Header::LEN) };
    let packet = frame.get(usize::from(offset)..).unwrap_or_default();
    packet.get(protocol_at) == Some(&protocol::TCP)
        && packet.get(ip_len + FLAGS).is_some_and(|flags| flags & TcpHeader::SYN != 0)
}

/// Returns the destination of a usual packet, whose family is known.
#[inline]
#[must_use]
pub fn usual_dst(packet: &[u8], is_v6: bool) -> Option<IpAddr> {
    Some(match is_v6 {
        false => Ipv4Header::ref_from_prefix(packet).ok()?.0.dst().into(),
        true => Ipv6Header::ref_from_prefix(packet).ok()?.0.dst().into(),
    })
}
