//! The ECN field: the two lowest bits of a type of service or traffic class octet.

/// The bits of the ECN field in the octet.
pub const MASK: u8 = 0x03;
/// The sender does not support congestion marks (not ECN-capable).
pub const NOT_ECT: u8 = 0;
/// The sender supports congestion marks, and set ECT(1).
pub const ECT_1: u8 = 1;
/// The sender supports congestion marks, and set ECT(0).
pub const ECT_0: u8 = 2;
/// Congestion mark: a router on the path was congested.
pub const CE: u8 = 3;

/// Returns the ECN field of a packet when its outer header is removed: `inner` and `outer` are the
/// octets of both headers. `None` to drop the packet, because its sender would ignore the mark.
///
/// Spec: RFC 6040 §4.2.
#[inline]
#[must_use]
pub const fn decapsulated(inner: u8, outer: u8) -> Option<u8> {
    match (inner & MASK, outer & MASK) {
        (NOT_ECT, CE) => None,
        (ECT_0, ECT_1) => Some(ECT_1),
        (ECT_0 | ECT_1, CE) => Some(CE),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_field_of_a_decapsulated_packet_is_that_of_the_table() {
        // Rows: the inner field. Columns: the outer field. Spec: RFC 6040, figure 4.
        let outers = [NOT_ECT, ECT_0, ECT_1, CE];
        for (inner, row) in [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT_0, [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)]),
            (ECT_1, [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)]),
            (CE, [Some(CE); 4]),
        ] {
            assert_eq!(outers.map(|outer| decapsulated(0xb8 | inner, 0x28 | outer)), row);
        }
    }
}
