//! Lengths of packets in a capture file (pcap).

use std::collections::BTreeMap;
use std::path::Path;

use adit_types::MacAddr;

/// Octets of the file header and of that of each packet.
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
/// Ethernet header without VLAN.
const LINK: usize = 2 * size_of::<MacAddr>() + 2;
/// Link types. Spec: draft-ietf-opsawg-pcaplinktype.
const ETHERNET: u32 = 1;
const RAW: u32 = 101;

/// How many packets have which length. Unit of the keys: octets of IP.
///
/// # Errors
/// A sentence when the file cannot be read, or is no pcap of Ethernet or IP packets.
pub fn lengths(path: &Path) -> Result<BTreeMap<usize, u32>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&bytes).ok_or_else(|| {
        format!("{} is no pcap file of Ethernet or IP packets (pcapng: convert it)", path.display())
    })
}

fn parse(bytes: &[u8]) -> Option<BTreeMap<usize, u32>> {
    let is_little = match bytes.first_chunk::<4>()? {
        // With microseconds and nanoseconds.
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => true,
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => false,
        _ => return None,
    };
    let number = |bytes: &[u8], at: usize| {
        let field = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if is_little { u32::from_le_bytes(field) } else { u32::from_be_bytes(field) })
    };
    let link = match number(bytes, 20)? & 0x0fff_ffff {
        ETHERNET => LINK,
        RAW => 0,
        _ => return None,
    };
    let mut lengths = BTreeMap::new();
    let mut rest = bytes.get(FILE_HEADER..)?;
    while let (Some(captured), Some(original)) = (number(rest, 8), number(rest, 12)) {
        let original = usize::try_from(original).ok()?;
        *lengths.entry(original.checked_sub(link)?).or_insert(0) += 1;
        // A capture that was cut off ends here.
        let next = PACKET_HEADER + usize::try_from(captured).ok()?;
        rest = rest.get(next..).unwrap_or_default();
    }
    (!lengths.is_empty()).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_in_both_byte_orders_and_garbage_is_none() {
        for little in [true, false] {
            let word = |value: u32| if little { value.to_le_bytes() } else { value.to_be_bytes() };
            let mut file = word(0xa1b2_c3d4).to_vec();
            file.extend([0; 16]);
            file.extend(word(1));
            for len in [114u32, 1514, 114] {
                file.extend([0; 8]);
                file.extend([word(4), word(len)].concat());
                file.extend([0; 4]);
            }
            assert_eq!(parse(&file).unwrap(), BTreeMap::from([(100, 2), (1500, 1)]));
            for len in 0..file.len() {
                assert!(parse(&file[..len]).is_none_or(|lengths| lengths.contains_key(&100)));
            }
        }
        assert_eq!(parse(b"garbage of some length, and more"), None);
    }
}
