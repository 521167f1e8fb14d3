//! Writes DSCP and ECN of users' packets: the code point that they leave with, and the congestion
//! marks of outer headers that are removed.

use adit_pktio::PacketBuf;
use adit_rules::DropReason;
use adit_wire::{IpPacket, checksum, ecn};

use crate::columns::{BurstLane, LaneKind, PacketArrival, PacketVerdict};

/// Writes `dscp` into the IP packet `packet`; leaves its ECN field. Spec: RFC 2474 §3; RFC 3168 §5.
pub(super) fn write_dscp(packet: &mut [u8], dscp: u8) {
    write_tos(packet, dscp << 2, !ecn::MASK);
}

/// Moves the congestion marks of outer headers into the users' packets; drops packets that are not
/// ECN-capable although their outer header has a mark.
///
/// Not part of `s3_classify`, because another worker may parse the packet again: then it needs the
/// unchanged octets that the checksum of the outer header covers. Spec: RFC 6040 §4.2; RFC 9601 §3.
#[inline]
pub(crate) fn decapsulate_marks<B: PacketBuf, K: LaneKind>(lane: &mut BurstLane<'_, B, K>) {
    let BurstLane { bufs, arrivals, ips, verdicts, .. } = lane;
    for (((buf, arrival), ip), verdict) in bufs.iter_mut().zip(&*arrivals).zip(ips).zip(verdicts) {
        if matches!(verdict, PacketVerdict::Pass(_))
            && let Err(reason) = decapsulate_ecn(buf, arrival, ip)
        {
            *verdict = PacketVerdict::Drop(reason);
        }
    }
}

/// Does the work of [`decapsulate_marks`] for one packet.
///
/// # Errors
/// `InnerNotEct` if the outer header has a mark and the packet is not ECN-capable.
#[inline]
fn decapsulate_ecn<B: PacketBuf>(
    buf: &mut B,
    arrival: &PacketArrival,
    ip: &mut IpPacket,
) -> Result<(), DropReason> {
    let field = ecn::decapsulated(ip.tos, arrival.outer_tos).ok_or(DropReason::InnerNotEct)?;
    if field != ip.tos & ecn::MASK {
        let packet = buf.data_mut().get_mut(usize::from(arrival.ip_offset)..);
        write_tos(packet.unwrap_or_default(), field, ecn::MASK);
        ip.tos = ip.tos & !ecn::MASK | field;
    }
    Ok(())
}

/// Writes the bits `mask` of `tos` into the type of service or traffic class octet of an IP packet.
fn write_tos(packet: &mut [u8], tos: u8, mask: u8) {
    let Some(first) = packet.first_chunk_mut::<2>() else { return };
    let old = u16::from_be_bytes(*first);
    let is_ipv4 = old >> 12 == 4;
    let [tos, mask] = [tos, mask].map(|octet| u16::from(octet) << if is_ipv4 { 0 } else { 4 });
    let new = old & !mask | tos & mask;
    *first = new.to_be_bytes();
    if is_ipv4 && let Some(sum) = packet.get_mut(10..12).and_then(|sum| sum.first_chunk_mut()) {
        *sum = checksum::update(u16::from_be_bytes(*sum), old, new).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_changes_the_code_point_and_nothing_else() {
        let mut v4 = [
            0x45, 0x03, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        let sum = checksum::checksum(&v4);
        v4[10..12].copy_from_slice(&sum.to_be_bytes());
        write_dscp(&mut v4, 46);
        assert_eq!((v4[0], v4[1]), (0x45, 0xbb));
        assert_eq!(checksum::checksum(&v4), 0);
        let mut v6 = [0x60, 0x1f, 0x12, 0x34];
        write_dscp(&mut v6, 46);
        assert_eq!(v6, [0x6b, 0x9f, 0x12, 0x34]);
        write_dscp(&mut [], 1);
    }

    #[test]
    fn congestion_mark_changes_only_the_ecn_field() {
        let (mut v4, mut v6) = ([0x45, 0xba, 0, 20], [0x6b, 0xaf, 0x12, 0x34]);
        for packet in [&mut v4, &mut v6] {
            write_tos(packet, ecn::CE, ecn::MASK);
        }
        assert_eq!((v4, v6), ([0x45, 0xbb, 0, 20], [0x6b, 0xbf, 0x12, 0x34]));
    }
}
