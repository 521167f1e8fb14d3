//! Control messages of datagrams: `struct cmsghdr` of `sys/socket.h` in a buffer of fixed size.

use adit_wire::EtherType;

/// Octets of `struct cmsghdr`.
const HEADER_LEN: usize = size_of::<libc::cmsghdr>();
/// Control messages begin at multiples of this.
const ALIGNMENT: usize = size_of::<usize>();

const _: () = assert!(HEADER_LEN == 16 && ALIGNMENT == 8);

/// Size of [`ControlBuffer`]: room for four messages of four octets each, one more than is used.
/// Unit: octets.
const CAPACITY: usize = 96;

/// Control messages of one datagram.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer {
    octets: [u8; CAPACITY],
}

impl Default for ControlBuffer {
    fn default() -> Self {
        Self { octets: [0; CAPACITY] }
    }
}

/// The kernel's control messages about a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReceivedControl {
    /// Size of each datagram, if the kernel joined several of one size (`UDP_GRO`). Unit: octets.
    pub segment: Option<usize>,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Datagrams that the kernel has dropped so far, modulo 2^32 (`SO_RXQ_OVFL`).
    pub dropped: Option<u32>,
    /// The VLAN tag that the kernel has removed from a frame, as it was on the wire
    /// (`PACKET_AUXDATA`).
    pub tag: Option<[u8; 4]>,
}

impl ControlBuffer {
    /// Size of the buffer. Unit: octets.
    pub(crate) const LEN: usize = CAPACITY;

    /// Returns the start of the buffer, for the kernel to read or write.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.octets.as_mut_ptr().cast()
    }

    /// Reads the first `len` octets, which the kernel wrote.
    pub(crate) fn read(&self, len: usize) -> ReceivedControl {
        let mut found = ReceivedControl::default();
        let mut rest = self.octets.get(..len).unwrap_or_default();
        while let Some((header, _)) = rest.split_first_chunk::<HEADER_LEN>() {
            let (size, kind) = header.split_at(8);
            let size = usize::from_ne_bytes(size.try_into().unwrap_or_default());
            let (level, number) = kind.split_at(4);
            let int = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().unwrap_or_default());
            let Some(data) = rest.get(HEADER_LEN..size) else { break };
            found.note(int(level), int(number), data);
            rest = rest.get(size.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        }
        found
    }

    /// Appends a message at `at`; returns the offset of the next message. A message that does not
    /// fit is left out.
    pub(crate) fn append(&mut self, at: usize, level: i32, number: i32, data: &[u8]) -> usize {
        let size = HEADER_LEN + data.len();
        let Some(place) = self.octets.get_mut(at..at + size) else { return at };
        place[..8].copy_from_slice(&size.to_ne_bytes());
        place[8..12].copy_from_slice(&level.to_ne_bytes());
        place[12..16].copy_from_slice(&number.to_ne_bytes());
        place[16..].copy_from_slice(data);
        at + size.next_multiple_of(ALIGNMENT)
    }
}

impl ReceivedControl {
    /// Returns how many datagrams the kernel dropped since `known`, the count in an earlier
    /// message, and sets `known` to the present count.
    pub(crate) fn missed_since(&self, known: &mut u32) -> usize {
        let dropped = self.dropped.unwrap_or(*known);
        let missed = dropped.wrapping_sub(core::mem::replace(known, dropped));
        usize::try_from(missed).unwrap_or(0)
    }

    fn note(&mut self, level: i32, number: i32, data: &[u8]) {
        let word = data.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes));
        match (level, number) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let size = word.and_then(|size| usize::try_from(size).ok());
                self.segment = size.filter(|size| *size > 0);
            }
            // The kernel writes one octet over IPv4 and an int over IPv6: little-endian, so the
            // first octet has the value in both.
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                self.tos = match (data, word) {
                    ([tos], _) => *tos,
                    (_, word) => word.and_then(|word| u8::try_from(word).ok()).unwrap_or(0),
                };
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.dropped = word,
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                self.tag = removed_tag(word.unwrap_or(0), data);
            }
            _ => {}
        }
    }
}

/// Returns the VLAN tag in `struct tpacket_auxdata`, whose fields are status, two lengths, two
/// offsets, TCI and TPID. `None` if the frame had no tag.
fn removed_tag(status: u32, data: &[u8]) -> Option<[u8; 4]> {
    let half = |at: usize| Some(u16::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let (tci, tpid) = (half(16)?, half(18)?);
    let has_tpid = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if has_tpid { tpid } else { EtherType::VLAN.0 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    (status & libc::TP_STATUS_VLAN_VALID != 0).then_some([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut control = ControlBuffer::default();
        let at = control.append(0, libc::SOL_UDP, libc::UDP_GRO, &1400_i32.to_ne_bytes());
        let at = control.append(at, libc::IPPROTO_IP, libc::IP_TOS, &[0xb8]);
        let at = control.append(at, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &7_u32.to_ne_bytes());
        let read = control.read(at);
        let wanted =
            ReceivedControl { segment: Some(1400), tos: 0xb8, dropped: Some(7), tag: None };
        assert_eq!(read, wanted);
        assert_eq!(control.read(0), ReceivedControl::default());
        assert_eq!(control.read(at - 8), ReceivedControl { dropped: None, ..wanted });
    }

    #[test]
    fn tag_is_put_together_as_it_was_on_the_wire() {
        let valid = libc::TP_STATUS_VLAN_VALID;
        let both = valid | libc::TP_STATUS_VLAN_TPID_VALID;
        for (status, wanted) in [
            (0, None),
            (valid, Some([0x81, 0, 0x60, 0x64])),
            (both, Some([0x88, 0xa8, 0x60, 0x64])),
        ] {
            let mut auxdata = [0; 20];
            auxdata[..4].copy_from_slice(&status.to_ne_bytes());
            auxdata[16..18].copy_from_slice(&0x6064_u16.to_ne_bytes());
            auxdata[18..].copy_from_slice(&0x88a8_u16.to_ne_bytes());
            let mut control = ControlBuffer::default();
            let len = control.append(0, libc::SOL_PACKET, libc::PACKET_AUXDATA, &auxdata);
            assert_eq!(control.read(len).tag, wanted);
        }
    }
}
