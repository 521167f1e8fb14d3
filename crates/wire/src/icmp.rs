//! ICMP for IPv4: echo, time exceeded, destination unreachable. The caller decides whether an error
//! may be sent (rate, fragments, errors about errors; see [`is_error`]). Spec: RFC 792; RFC 1191
//! (next-hop MTU); RFC 1812 §4.3.2.

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::view::{fixed_header, split};
use crate::{Malformed, checksum};

/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const DST_UNREACHABLE: u8 = 3;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Code of destination unreachable: no route to the network.
pub const CODE_NET_UNREACHABLE: u8 = 0;
/// Code of destination unreachable: the host does not answer.
pub const CODE_HOST_UNREACHABLE: u8 = 1;
/// Code of destination unreachable: no process listens on the port.
pub const CODE_PORT_UNREACHABLE: u8 = 3;
/// Code of destination unreachable: the packet exceeds the next hop's MTU and must not be
/// fragmented.
pub const CODE_FRAGMENTATION_NEEDED: u8 = 4;
/// Code of destination unreachable: forbidden by a rule.
pub const CODE_ADMIN_PROHIBITED: u8 = 13;

/// Most octets of an error message: with an IPv4 header its packet has 576.
pub const ERROR_LEN_MAX: usize = 576 - 20;

/// ICMP header with the two words that depend on the type.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1        Type
/// 2        Code
/// 3-4      Checksum
/// 5-6      Identifier (echo), else unused
/// 7-8      Sequence number (echo), next-hop MTU (fragmentation needed), else unused
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IcmpHeader {
    kind: u8,
    code: u8,
    checksum: U16,
    word1: U16,
    word2: U16,
}

fixed_header!(IcmpHeader, 8);

impl IcmpHeader {
    /// Creates a header with this type, code and two words, and without a checksum.
    #[must_use]
    pub fn new(kind: u8, code: u8, word1: u16, word2: u16) -> Self {
        let (word1, word2) = (U16::new(word1), U16::new(word2));
        Self { kind, code, checksum: U16::ZERO, word1, word2 }
    }

    /// Returns the header at the front of `message`, a whole ICMP message, and the rest.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 8 octets; `BadChecksum`.
    pub fn parse(message: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (header, rest) = split(message)?;
        if checksum::checksum(message) != 0 {
            return Err(Malformed::BadChecksum);
        }
        Ok((header, rest))
    }

    /// Type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Code, whose meaning depends on the type.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Identifier of an echo.
    #[must_use]
    pub fn identifier(&self) -> u16 {
        self.word1.get()
    }

    /// Sequence number of an echo.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        self.word2.get()
    }

    /// Next-hop MTU of "fragmentation needed"; zero from routers older than RFC 1191. Unit: octets.
    #[must_use]
    pub fn next_hop_mtu(&self) -> u16 {
        self.word2.get()
    }
}

/// True for types that report an error, about which no error may be sent. Spec: RFC 1812 §4.3.2.7.
#[must_use]
pub const fn is_error(kind: u8) -> bool {
    // Source quench (4) and redirect (5), which Adit never sends, are errors as well.
    matches!(kind, DST_UNREACHABLE | 4 | 5 | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Turns the echo request `message` into its reply in place. Updates the checksum, so a wrong one
/// stays wrong.
///
/// # Errors
/// `Truncated` if there are fewer than 8 octets; `BadField` unless it is an echo request of code 0.
pub fn echo_reply_in_place(message: &mut [u8]) -> Result<(), Malformed> {
    let have = message.len();
    let (header, _) = IcmpHeader::mut_from_prefix(message)
        .map_err(|_| Malformed::truncated(IcmpHeader::LEN, have))?;
    if (header.kind, header.code) != (ECHO_REQUEST, 0) {
        return Err(Malformed::BadField(header.kind));
    }
    let (old, new) = (u16::from(ECHO_REQUEST) << 8, u16::from(ECHO_REPLY) << 8);
    header.kind = ECHO_REPLY;
    header.checksum.set(checksum::update(header.checksum.get(), old, new));
    Ok(())
}

/// Writes "time to live exceeded in transit" about the IPv4 packet `original`. Quotes as much of
/// the packet as [`ERROR_LEN_MAX`] allows. Returns the number of octets written.
///
/// # Errors
/// `Truncated` if `out` is too short.
pub fn emit_time_exceeded(out: &mut [u8], original: &[u8]) -> Result<usize, Malformed> {
    emit(out, &IcmpHeader::new(TIME_EXCEEDED, 0, 0, 0), quote(original))
}

/// Writes "destination unreachable" with this code about `original`, like [`emit_time_exceeded`].
///
/// # Errors
/// `Truncated` if `out` is too short.
pub fn emit_unreachable(out: &mut [u8], code: u8, original: &[u8]) -> Result<usize, Malformed> {
    emit(out, &IcmpHeader::new(DST_UNREACHABLE, code, 0, 0), quote(original))
}

/// Writes "fragmentation needed" with the MTU of the next hop (octets) about `original`, like
/// [`emit_time_exceeded`].
///
/// # Errors
/// `Truncated` if `out` is too short.
pub fn emit_fragmentation_needed(
    out: &mut [u8],
    next_hop_mtu: u16,
    original: &[u8],
) -> Result<usize, Malformed> {
    let header = IcmpHeader::new(DST_UNREACHABLE, CODE_FRAGMENTATION_NEEDED, 0, next_hop_mtu);
    emit(out, &header, quote(original))
}

fn quote(original: &[u8]) -> &[u8] {
    original.get(..ERROR_LEN_MAX - IcmpHeader::LEN).unwrap_or(original)
}

fn emit(out: &mut [u8], header: &IcmpHeader, data: &[u8]) -> Result<usize, Malformed> {
    let (len, have) = (IcmpHeader::LEN + data.len(), out.len());
    let message = out.get_mut(..len).ok_or_else(|| Malformed::truncated(len, have))?;
    let sum = checksum::Sum::new().bytes(header.as_bytes()).bytes(data);
    IcmpHeader { checksum: U16::new(sum.checksum()), ..*header }.emit(message)?;
    message.get_mut(IcmpHeader::LEN..).unwrap_or_default().copy_from_slice(data);
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    // 0800 + 1234 + 0001 + 6162 + 6300 = de97, so that the checksum is 2168.
    const ECHO: [u8; 11] = [8, 0, 0x21, 0x68, 0x12, 0x34, 0, 1, 0x61, 0x62, 0x63];

    fn echo(out: &mut [u8], kind: u8, identifier: u16) -> Result<usize, Malformed> {
        emit(out, &IcmpHeader::new(kind, 0, identifier, 1), b"abc")
    }

    #[test]
    fn icmp_echo_known_octets_parse_and_emit() {
        let mut out = [0xa5; 11];
        assert_eq!(echo(&mut out, ECHO_REQUEST, 0x1234), Ok(11));
        assert_eq!(out, ECHO);
        let (header, data) = IcmpHeader::parse(&ECHO).unwrap();
        assert_eq!((header.kind(), header.code()), (ECHO_REQUEST, 0));
        assert_eq!((header.identifier(), header.sequence(), data), (0x1234, 1, &b"abc"[..]));
        for len in 0..ECHO.len() {
            assert!(IcmpHeader::parse(&ECHO[..len]).is_err());
            assert!(echo(&mut out[..len], ECHO_REQUEST, 0).is_err());
        }
    }

    #[test]
    fn icmp_echo_reply_in_place_equals_the_emitted_one() {
        for identifier in 0..=u16::MAX {
            let (mut request, mut reply) = ([0xa5; 11], [0xa5; 11]);
            echo(&mut request, ECHO_REQUEST, identifier).unwrap();
            echo(&mut reply, ECHO_REPLY, identifier).unwrap();
            assert_eq!(echo_reply_in_place(&mut request), Ok(()));
            assert_eq!(request, reply);
        }
        let mut reply = [0; 8];
        assert_eq!(echo_reply_in_place(&mut reply), Err(Malformed::BadField(0)));
        assert!(echo_reply_in_place(&mut reply[..7]).is_err());
    }

    #[test]
    fn icmp_errors_quote_what_fits_and_carry_the_mtu() {
        let original = [0x45; 1500];
        let mut out = [0xa5; ERROR_LEN_MAX];
        assert_eq!(emit_time_exceeded(&mut out, &original), Ok(ERROR_LEN_MAX));
        let (header, quoted) = IcmpHeader::parse(&out).unwrap();
        assert_eq!((header.kind(), quoted), (TIME_EXCEEDED, &original[..548]));
        let len = emit_fragmentation_needed(&mut out, 1400, &original[..28]).unwrap();
        let (header, quoted) = IcmpHeader::parse(&out[..len]).unwrap();
        assert_eq!((header.kind(), header.code(), header.next_hop_mtu()), (3, 4, 1400));
        assert_eq!(quoted.len(), 28);
        let len = emit_unreachable(&mut out, CODE_HOST_UNREACHABLE, &original[..28]).unwrap();
        assert_eq!(out[..2], [3, 1]);
        assert!(IcmpHeader::parse(&out[..len]).is_ok());
        assert!(is_error(out[0]) && !is_error(ECHO_REQUEST));
    }
}
