//! Lengths of packets in a capture file (pcap or pcapng).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use adit_types::MacAddr;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

/// Initial size of the read buffer, enough for most blocks. Unit: octets.
const BUFFER_BYTES: usize = 1 << 20;
/// Maximum length of a block. Unit: octets.
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Length of an Ethernet header without VLAN. Unit: octets.
const ETHERNET_HEADER: usize = 2 * size_of::<MacAddr>() + 2;

/// Counts packets by length. Unit of the keys: octets of the IP packet.
///
/// # Errors
/// The file cannot be read, or is not a capture of Ethernet or IP packets.
pub(crate) fn lengths(path: &Path) -> Result<BTreeMap<usize, u32>, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    read(file).ok_or_else(|| {
        format!("{} is not a pcap or pcapng file of Ethernet or IP packets", path.display())
    })
}

fn read(input: impl Read + Send) -> Option<BTreeMap<usize, u32>> {
    let mut reader = create_reader(BUFFER_BYTES, input).ok()?;
    let mut capacity = BUFFER_BYTES;
    let mut counts = LengthCounts::default();
    loop {
        let is_exhausted = reader.reader_exhausted();
        match reader.next() {
            Ok((offset, block)) => {
                counts.add(&block)?;
                reader.consume(offset);
            }
            Err(PcapError::Incomplete(_)) if !is_exhausted => reader.refill().ok()?,
            Err(PcapError::BufferTooSmall) if capacity < BLOCK_BYTES_MAX => {
                capacity *= 2;
                if !reader.grow(capacity) {
                    return None;
                }
                reader.refill().ok()?;
            }
            // A truncated capture ends here.
            Err(PcapError::Eof | PcapError::UnexpectedEof | PcapError::Incomplete(_)) => break,
            Err(_) => return None,
        }
    }
    (!counts.lengths.is_empty()).then_some(counts.lengths)
}

#[derive(Debug, Default)]
struct LengthCounts {
    /// Octets in front of IP on each interface of the current section.
    link_headers: Vec<usize>,
    lengths: BTreeMap<usize, u32>,
}

impl LengthCounts {
    /// Counts the packet of a block, if any. `None` for a link type other than Ethernet and IP.
    fn add(&mut self, block: &PcapBlockOwned<'_>) -> Option<()> {
        let (interface, len) = match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.link_headers = vec![link_header(header.network)?];
                return Some(());
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.link_headers.clear();
                return Some(());
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.link_headers.push(link_header(interface.linktype)?);
                return Some(());
            }
            PcapBlockOwned::Legacy(packet) => (0, packet.origlen),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => (packet.if_id, packet.origlen),
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => (0, packet.origlen),
            PcapBlockOwned::NG(_) => return Some(()),
        };
        let header = *self.link_headers.get(usize::try_from(interface).ok()?)?;
        let len = usize::try_from(len).ok()?.checked_sub(header)?;
        *self.lengths.entry(len).or_insert(0) += 1;
        Some(())
    }
}

/// Returns the length of the link-layer header; `None` for an unknown link type.
fn link_header(link: Linktype) -> Option<usize> {
    match link {
        Linktype::ETHERNET => Some(ETHERNET_HEADER),
        Linktype::RAW => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths_of(file: &[u8]) -> Option<BTreeMap<usize, u32>> {
        read(file)
    }

    #[test]
    fn lengths_are_counted_in_both_byte_orders_and_garbage_is_none() {
        for little in [true, false] {
            let word = |value: u32| if little { value.to_le_bytes() } else { value.to_be_bytes() };
            let version = if little { [2, 0, 4, 0] } else { [0, 2, 0, 4] };
            let mut file = [word(0xa1b2_c3d4), version].concat();
            file.extend([0; 8]);
            file.extend([word(65_535), word(1)].concat());
            for len in [114u32, 1514, 114] {
                file.extend([0; 8]);
                file.extend([word(4), word(len)].concat());
                file.extend([0; 4]);
            }
            assert_eq!(lengths_of(&file).unwrap(), BTreeMap::from([(100, 2), (1500, 1)]));
            for len in 0..file.len() {
                let lengths = lengths_of(&file[..len]);
                assert!(lengths.is_none_or(|lengths| lengths.contains_key(&100)));
            }
        }
        assert_eq!(lengths_of(b"garbage of some length, and more"), None);
    }

    #[test]
    fn lengths_of_pcapng_are_counted_by_interface() {
        let block = |kind: u32, body: &[u8]| {
            let len = u32::try_from(body.len() + 12).unwrap().to_le_bytes();
            [&kind.to_le_bytes()[..], &len, body, &len].concat()
        };
        let section = block(
            0x0a0d_0d0a,
            &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat(),
        );
        let interface = |link: u16| {
            block(1, &[&link.to_le_bytes()[..], &[0, 0], &65_535_u32.to_le_bytes()].concat())
        };
        let packet = |interface: u32, len: u32| {
            let words = [interface, 0, 0, 4, len, 0];
            block(6, &words.map(u32::to_le_bytes).concat())
        };
        let ethernet_and_ip = [section.clone(), interface(1), interface(101)].concat();
        let file = [ethernet_and_ip, packet(0, 114), packet(1, 100), packet(1, 60)].concat();
        assert_eq!(lengths_of(&file).unwrap(), BTreeMap::from([(60, 1), (100, 2)]));
        let bluetooth = [section, interface(187), packet(0, 114)].concat();
        assert_eq!(lengths_of(&bluetooth), None);
    }
}
