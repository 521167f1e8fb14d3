//! The differentiated services code point of packets that leave without an outer header.

use adit_wire::checksum;

/// Writes `dscp` into the IP packet `packet`; its ECN bits stay. Spec: RFC 2474 §3; RFC 3168 §5.
pub(super) fn mark(packet: &mut [u8], dscp: u8) {
    let Some(first) = packet.first_chunk_mut::<2>() else { return };
    let old = u16::from_be_bytes(*first);
    let is_ipv4 = old >> 12 == 4;
    let dscp = u16::from(dscp & 0x3f);
    let new = if is_ipv4 { old & 0xff03 | dscp << 2 } else { old & 0xf03f | dscp << 6 };
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
        mark(&mut v4, 46);
        assert_eq!((v4[0], v4[1]), (0x45, 0xbb));
        assert_eq!(checksum::checksum(&v4), 0);
        let mut v6 = [0x60, 0x1f, 0x12, 0x34];
        mark(&mut v6, 46);
        assert_eq!(v6, [0x6b, 0x9f, 0x12, 0x34]);
        mark(&mut [], 1);
    }
}
