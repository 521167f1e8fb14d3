//! The HTTP server that answers in place of all servers when a FAR redirects a UE to a URL.
//!
//! The server keeps no connections. Its initial sequence number is a hash of the session and of the
//! connection's addresses and ports, so any worker recognizes any segment of a handshake that was
//! answered here. Segments of other connections are reset, and the UE tries again. A request is
//! answered by a redirection and the end of the connection in one segment; each retransmission
//! gets the same answer. Answers take the UE's own downlink path.
//! Spec: TS 29.244 §8.2.20; RFC 9293 §3.5.2, §3.10; RFC 9110 §15.4.3; RFC 9112.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use std::hash::DefaultHasher;

use adit_pktio::PacketBuf;
use adit_rules::rule::ue_ipv6_key;
use adit_rules::{DropReason, PublishedFar, PuntReason, Redirect};
use adit_types::{Seid, SessionIndex};
use adit_wire::checksum::{Sum, pseudo_ipv4, pseudo_ipv6};
use adit_wire::tcp::{TcpFields, TcpHeader};
use adit_wire::{IpPacket, protocol};

use crate::columns::{DownlinkV4, DownlinkV6};
use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::Egress;
use crate::limits::RefillRate;
use crate::origin::Origin;
use crate::originate::ip::OwnIpHeader;
use crate::originate::resize;
use crate::slow::icmp_error::deliver;
use crate::slow_queue::RedirectedSegment;
use crate::transmitter::Transmitter;

/// The MSS that we announce: such segments fit every IPv6 link.
const OWN_MSS: u16 = 1220;

/// The receive window that we announce; requests are consumed at once and never fill it.
const WINDOW: u16 = 16_384;

/// The HTTP response before and after the URL.
const RESPONSE_PARTS: [&[u8]; 2] = [
    b"HTTP/1.1 302 Found\r\nLocation: ",
    b"\r\nCache-Control: no-store\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
];
const _: () = assert!(
    RESPONSE_PARTS[0].len() + RESPONSE_PARTS[1].len() + adit_types::limits::REDIRECT_URL_BYTES_MAX
        <= OWN_MSS as usize
);

/// The ports of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TcpPorts {
    client: u16,
    server: u16,
}

/// The fields of a segment that the answer depends on.
#[derive(Debug, Clone, Copy)]
struct Segment {
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    data_len: u32,
}

/// Options and data that follow the TCP header of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    Mss,
    Page,
}

/// The fields of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reply {
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    content: Content,
}

/// Answers one segment in place of its destination.
///
/// # Errors
/// `RedirectLimited` if the limit is reached; `RedirectUnmatched` for a segment with a wrong
/// checksum. An answer that the session's rules do not admit is counted as lost.
pub(super) fn answer<Io: Departures>(
    ctx: &StepContext<'_>,
    tx: &mut Transmitter<'_, Io>,
    mut buf: Io::Buf,
    redirected: &RedirectedSegment,
) -> Result<PuntReason, DropReason> {
    let RedirectedSegment { session, far, ip_offset, ip } = redirected;
    if !tx.limits.redirects.take(ctx.now, RefillRate::USUAL) {
        return Err(DropReason::RedirectLimited);
    }
    // Found again: the packet was queued in this step, by the same rules.
    let rules = ctx.view.rules(*session).ok_or(DropReason::RedirectUnmatched)?;
    let far = rules.fars.get(*far).ok_or(DropReason::RedirectUnmatched)?;
    let Some(Redirect::Url(url)) = far.redirect.as_deref() else {
        return Err(DropReason::RedirectUnmatched);
    };
    let packet = buf.data().get(usize::from(*ip_offset)..).unwrap_or_default();
    let upper = ip.payload(packet);
    let (tcp, data) = TcpHeader::parse(upper).map_err(|_| DropReason::RedirectUnmatched)?;
    if pseudo_header_sum(ip.addrs.src(), ip.addrs.dst(), upper.len())?.bytes(upper).checksum() != 0
    {
        return Err(DropReason::RedirectUnmatched);
    }
    let ports = TcpPorts { client: tcp.src_port(), server: tcp.dst_port() };
    let segment = Segment {
        sequence: tcp.sequence(),
        acknowledgment: tcp.acknowledgment(),
        flags: tcp.flags(),
        data_len: u32::try_from(data.len()).unwrap_or(0),
    };
    let first = initial_sequence(rules.up_seid, ip, ports);
    if let Some(reply) = respond(segment, first, page_len(url)) {
        match write(&mut buf, ip, ports, reply, url)
            .and_then(|()| egress_of(ctx, &mut buf, far, *session, ip))
        {
            Some(egress) => tx.send(ctx, buf, &egress, Origin::Own),
            None => tx.lose_originated(),
        }
    }
    Ok(PuntReason::HttpRedirect)
}

/// Puts the answer in `buf` on the UE's downlink path. `None` also if the packet's source address
/// belongs to another session: a session without addresses of its own could flood others.
fn egress_of<'v, B: PacketBuf>(
    ctx: &StepContext<'v>,
    buf: &mut B,
    far: &PublishedFar,
    session: SessionIndex,
    ip: &IpPacket,
) -> Option<Egress<'v>> {
    let mut found = [SessionIndex::NONE];
    let ues = ctx.view.ues(ctx.view.domain_within(far.interfaces));
    match ip.addrs.src() {
        IpAddr::V4(ue) => {
            ues.lookup_v4(&[ue.to_bits()], &mut found);
            let is_own = found == [session];
            is_own.then(|| deliver::<_, DownlinkV4>(ctx, buf, far.interfaces, ue.to_bits()))?
        }
        IpAddr::V6(ue) => {
            let key = ue_ipv6_key(ue);
            ues.lookup_v6(&[key], &mut found);
            let is_own = found == [session];
            is_own.then(|| deliver::<_, DownlinkV6>(ctx, buf, far.interfaces, key))?
        }
    }
}

/// Returns our initial sequence number of a connection. Only the UE can send into the connection,
/// so a hash of the session is secret enough. Spec: RFC 6528 §3.
fn initial_sequence(session: Seid, ip: &IpPacket, ports: TcpPorts) -> u32 {
    let mut hash = DefaultHasher::new();
    (session.0, ip.addrs.src(), ip.addrs.dst(), ports).hash(&mut hash);
    let hash = hash.finish().to_be_bytes();
    hash.first_chunk().map_or(0, |chunk| u32::from_be_bytes(*chunk))
}

fn page_len(url: &str) -> u32 {
    u32::try_from(RESPONSE_PARTS[0].len() + url.len() + RESPONSE_PARTS[1].len()).unwrap_or(0)
}

/// Returns the answer of a server whose initial sequence number is `first` and whose page has
/// `page_len` octets. `None` if no answer is due.
fn respond(segment: Segment, first: u32, page_len: u32) -> Option<Reply> {
    const ACK: u8 = TcpHeader::ACK;
    let has = |flag| segment.flags & flag != 0;
    if has(TcpHeader::RST) {
        return None;
    }
    let reset = Reply {
        sequence: segment.acknowledgment,
        acknowledgment: 0,
        flags: TcpHeader::RST,
        content: Content::Nothing,
    };
    if has(TcpHeader::SYN) {
        return Some(match has(ACK) {
            true => reset,
            false => Reply {
                sequence: first,
                acknowledgment: segment.sequence.wrapping_add(1),
                flags: TcpHeader::SYN | ACK,
                content: Content::Mss,
            },
        });
    }
    if !has(ACK) {
        return None;
    }
    let is_asking = segment.data_len > 0 || has(TcpHeader::FIN);
    let end = segment.sequence.wrapping_add(segment.data_len);
    let acknowledgment = end.wrapping_add(u32::from(has(TcpHeader::FIN)));
    let known = Reply {
        sequence: segment.acknowledgment,
        acknowledgment,
        flags: ACK,
        content: Content::Nothing,
    };
    // How much of our sequence space the client acknowledges: SYN and FIN count one each.
    match segment.acknowledgment.wrapping_sub(first) {
        1 if segment.data_len > 0 => {
            let flags = ACK | TcpHeader::PSH | TcpHeader::FIN;
            Some(Reply { flags, content: Content::Page, ..known })
        }
        1 if has(TcpHeader::FIN) => Some(Reply { flags: ACK | TcpHeader::FIN, ..known }),
        seen if (1..=page_len.saturating_add(2)).contains(&seen) => is_asking.then_some(known),
        _ => Some(reset),
    }
}

/// Writes the answer to the packet with header `ip` into `buf`, over its present contents.
fn write<B: PacketBuf>(
    buf: &mut B,
    ip: &IpPacket,
    ports: TcpPorts,
    reply: Reply,
    url: &str,
) -> Option<()> {
    let fields = TcpFields {
        src_port: ports.server,
        dst_port: ports.client,
        sequence: reply.sequence,
        acknowledgment: reply.acknowledgment,
        flags: reply.flags,
        window: if reply.flags & TcpHeader::RST == 0 { WINDOW } else { 0 },
        mss: (reply.content == Content::Mss).then_some(OWN_MSS),
    };
    let page: [&[u8]; 3] = match reply.content {
        Content::Page => [RESPONSE_PARTS[0], url.as_bytes(), RESPONSE_PARTS[1]],
        Content::Nothing | Content::Mss => [&[]; 3],
    };
    let page_len: usize = page.iter().map(|part| part.len()).sum();
    let (src, dst) = (ip.addrs.dst(), ip.addrs.src());
    let segment_len = fields.header_len() + page_len;
    let payload_len = u16::try_from(segment_len).ok()?;
    let ip = OwnIpHeader { src, dst, protocol: protocol::TCP, tos: 0, payload_len };
    let packet = resize(buf, ip.len() + segment_len)?;
    let (header, segment) = packet.split_at_mut_checked(ip.len())?;
    let mut room = segment.get_mut(fields.header_len()..)?;
    for part in page {
        let (front, rest) = room.split_at_mut_checked(part.len())?;
        front.copy_from_slice(part);
        room = rest;
    }
    fields.emit(segment, pseudo_header_sum(src, dst, segment_len).ok()?).ok()?;
    ip.emit(header).ok()
}

/// Returns the sum of the pseudo header of a TCP segment.
fn pseudo_header_sum(src: IpAddr, dst: IpAddr, len: usize) -> Result<Sum, DropReason> {
    let len = u16::try_from(len).map_err(|_| DropReason::RedirectUnmatched)?;
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ok(pseudo_ipv4(src, dst, protocol::TCP, len)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            Ok(pseudo_ipv6(src, dst, protocol::TCP, u32::from(len)))
        }
        _ => Err(DropReason::RedirectUnmatched),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u32 = u32::MAX - 3;
    const LEN: u32 = 100;
    const ACK: u8 = TcpHeader::ACK;

    fn segment(flags: u8, seen: u32, data_len: u32) -> Segment {
        Segment { sequence: 5000, acknowledgment: FIRST.wrapping_add(seen), flags, data_len }
    }

    fn answered(segment: Segment) -> Option<(u32, u32, u8, Content)> {
        let reply = respond(segment, FIRST, LEN)?;
        let sent = reply.sequence.wrapping_sub(FIRST);
        Some((sent, reply.acknowledgment, reply.flags, reply.content))
    }

    #[test]
    fn handshake_request_and_close_are_answered_as_a_server_does() {
        let (syn, fin, psh) = (TcpHeader::SYN, TcpHeader::FIN, TcpHeader::PSH);
        assert_eq!(answered(segment(syn, 77, 0)), Some((0, 5001, syn | ACK, Content::Mss)));
        assert_eq!(answered(segment(ACK, 1, 0)), None, "the end of the handshake");
        let page = Some((1, 5040, ACK | psh | fin, Content::Page));
        assert_eq!(answered(segment(ACK | psh, 1, 40)), page);
        let with_fin = Some((1, 5041, ACK | psh | fin, Content::Page));
        assert_eq!(answered(segment(ACK | fin, 1, 40)), with_fin);
        assert_eq!(answered(segment(ACK, LEN + 2, 0)), None, "all was received");
        let last = Some((LEN + 2, 5001, ACK, Content::Nothing));
        assert_eq!(answered(segment(ACK | fin, LEN + 2, 0)), last);
    }

    #[test]
    fn connection_closed_without_a_request_is_closed_by_us_too() {
        let fin = TcpHeader::FIN;
        let closed = Some((1, 5001, ACK | fin, Content::Nothing));
        assert_eq!(answered(segment(ACK | fin, 1, 0)), closed);
        assert_eq!(answered(segment(ACK, 2, 0)), None);
    }

    #[test]
    fn segment_of_another_connection_is_reset() {
        for (flags, seen, data_len) in
            [(ACK, 0, 10), (ACK, LEN + 3, 0), (ACK, 1 << 31, 10), (TcpHeader::SYN | ACK, 9, 0)]
        {
            let reset = Some((seen, 0, TcpHeader::RST, Content::Nothing));
            assert_eq!(answered(segment(flags, seen, data_len)), reset);
        }
        assert_eq!(answered(segment(TcpHeader::RST, 1, 0)), None);
        assert_eq!(answered(segment(TcpHeader::RST | TcpHeader::SYN, 1, 0)), None);
        assert_eq!(answered(segment(0, 1, 10)), None);
    }
}
