//! TCP header: ports, flags and sequence numbers of received segments, and headers of segments that
//! Adit originates. Adit keeps no connection state. Spec: RFC 9293 §3.1.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Malformed;
use crate::checksum::Sum;
use crate::view::{fixed_header, split};

/// The fixed part of a TCP header.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1-2      Source port
/// 3-4      Destination port
/// 5-8      Sequence number
/// 9-12     Acknowledgment number
/// 13       Data offset | Reserved
/// 14       CWR ECE URG ACK PSH RST SYN FIN
/// 15-16    Window
/// 17-18    Checksum
/// 19-20    Urgent pointer
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct TcpHeader {
    src_port: U16,
    dst_port: U16,
    sequence: U32,
    acknowledgment: U32,
    data_offset: u8,
    flags: u8,
    window: U16,
    pub(crate) checksum: U16,
    urgent: U16,
}

fixed_header!(TcpHeader, 20);

impl TcpHeader {
    /// Flag FIN.
    pub const FIN: u8 = 0x01;
    /// Flag SYN.
    pub const SYN: u8 = 0x02;
    /// Flag RST.
    pub const RST: u8 = 0x04;
    /// Flag PSH.
    pub const PSH: u8 = 0x08;
    /// Flag ACK.
    pub const ACK: u8 = 0x10;

    /// Creates a header without options, with window and checksum zero.
    #[must_use]
    pub fn new(src_port: u16, dst_port: u16, sequence: u32, flags: u8) -> Self {
        Self {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            sequence: U32::new(sequence),
            acknowledgment: U32::ZERO,
            data_offset: 5 << 4,
            flags,
            window: U16::ZERO,
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        }
    }

    /// Returns the fixed part at the front of `bytes`, and the data after the options.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 20 octets; `BadLength` if the data offset is below 5
    /// words or beyond `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (header, _) = split::<Self>(bytes)?;
        let header_len = header.header_len();
        match bytes.get(header_len..) {
            Some(data) if header_len >= Self::LEN => Ok((header, data)),
            _ => Err(Malformed::bad_length(header_len, bytes.len())),
        }
    }

    /// Length of the header with options, by the data offset; invalid below 20. Unit: octets.
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.data_offset >> 4) * 4
    }

    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        self.src_port.get()
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        self.dst_port.get()
    }

    /// Sequence number.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// Acknowledgment number, valid with [`Self::ACK`].
    #[must_use]
    pub fn acknowledgment(&self) -> u32 {
        self.acknowledgment.get()
    }

    /// The eight flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }
}

/// The header fields of a segment that Adit originates. Spec: RFC 9293 §3.1, §3.7.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFields {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// The eight flags.
    pub flags: u8,
    /// Window. Unit: octets.
    pub window: u16,
    /// Maximum segment size to announce, or `None`. Unit: octets.
    pub mss: Option<u16>,
}

impl TcpFields {
    /// Returns the length of the header with its MSS option. Unit: octets.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        if self.mss.is_some() { TcpHeader::LEN + 4 } else { TcpHeader::LEN }
    }

    /// Writes the header at the front of `segment`, which contains the data after it. `pseudo` is
    /// the sum of the pseudo header of the whole segment.
    ///
    /// # Errors
    /// `Truncated` if `segment` is shorter than the header.
    pub fn emit(&self, segment: &mut [u8], pseudo: Sum) -> Result<(), Malformed> {
        let mut header = TcpHeader::new(self.src_port, self.dst_port, self.sequence, self.flags);
        header.acknowledgment = U32::new(self.acknowledgment);
        header.window = U16::new(self.window);
        if let Some(mss) = self.mss {
            header.data_offset = 6 << 4;
            let [high, low] = mss.to_be_bytes();
            let have = segment.len();
            let option = segment.get_mut(TcpHeader::LEN..).and_then(|rest| rest.first_chunk_mut());
            *option.ok_or(Malformed::truncated(TcpHeader::LEN + 4, have))? = [2, 4, high, low];
        }
        header.emit(segment)?;
        header.checksum = U16::new(pseudo.bytes(segment).checksum());
        header.emit(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_header_known_octets_parse_and_emit() {
        let wire =
            [0x01, 0xbb, 0x30, 0x39, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0, 0xff];
        let header = TcpHeader::new(443, 12345, 9, TcpHeader::SYN | TcpHeader::ACK);
        let mut out = [0xa5; 20];
        header.emit(&mut out).unwrap();
        assert_eq!(out, wire[..20]);
        let (parsed, data) = TcpHeader::parse(&wire).unwrap();
        assert_eq!((*parsed, data), (header, &[0xff][..]));
        assert_eq!((parsed.src_port(), parsed.dst_port(), parsed.sequence()), (443, 12345, 9));
        for len in 0..20 {
            assert!(TcpHeader::parse(&wire[..len]).is_err());
        }
    }

    #[test]
    fn tcp_header_with_impossible_data_offset_is_refused() {
        let mut wire = [0; 24];
        for (words, good) in [(0, false), (4, false), (5, true), (6, true), (7, false)] {
            wire[12] = words << 4;
            assert_eq!(TcpHeader::parse(&wire).is_ok(), good, "{words} words");
        }
    }
}
