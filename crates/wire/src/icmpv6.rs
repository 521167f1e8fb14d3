//! ICMPv6: echo, time exceeded, unreachable, packet too big. `neighbor` has neighbor discovery. The
//! caller decides whether an error may be sent; see [`is_error`]. Spec: RFC 4443; RFC 8200 §8.1
//! (pseudo header).

use core::net::Ipv6Addr;

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{Sum, pseudo_ipv6, update};
use crate::view::{fixed_header, split};
use crate::{Malformed, protocol};

/// Type: destination unreachable.
pub const DST_UNREACHABLE: u8 = 1;
/// Type: packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 129;

/// Code of destination unreachable: no route.
pub const CODE_NO_ROUTE: u8 = 0;
/// Code of destination unreachable: forbidden by a rule.
pub const CODE_ADMIN_PROHIBITED: u8 = 1;
/// Code of destination unreachable: the address does not answer.
pub const CODE_ADDR_UNREACHABLE: u8 = 3;
/// Code of destination unreachable: no process listens on the port.
pub const CODE_PORT_UNREACHABLE: u8 = 4;

/// Most octets of an error message: its packet has the minimum MTU, 1280.
pub const ERROR_LEN_MAX: usize = 1280 - 40;

/// ICMPv6 header with the word that depends on the type.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1        Type
/// 2        Code
/// 3-4      Checksum, with pseudo header
/// 5-8      Identifier and sequence number (echo), MTU (packet too big), flags (NA), else unused
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Icmpv6Header {
    kind: u8,
    code: u8,
    checksum: U16,
    word: U32,
}

fixed_header!(Icmpv6Header, 8);

/// Source and destination of the packet that carries a message; its checksum includes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PseudoHeader {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl PseudoHeader {
    fn sum(&self, message_len: usize) -> Sum {
        let len = u32::try_from(message_len).unwrap_or(u32::MAX);
        pseudo_ipv6(self.src, self.dst, protocol::ICMPV6, len)
    }
}

impl Icmpv6Header {
    /// Creates a header with this type, code and word, and without a checksum.
    #[must_use]
    pub fn new(kind: u8, code: u8, word: u32) -> Self {
        Self { kind, code, checksum: U16::ZERO, word: U32::new(word) }
    }

    /// Returns the header at the front of `message`, a whole ICMPv6 message, and the rest.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 8 octets; `BadChecksum`.
    pub fn parse<'a>(
        pseudo: &PseudoHeader,
        message: &'a [u8],
    ) -> Result<(&'a Self, &'a [u8]), Malformed> {
        let (header, rest) = split(message)?;
        if pseudo.sum(message.len()).bytes(message).checksum() != 0 {
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

    /// The word that depends on the type; the MTU (octets) of "packet too big".
    #[must_use]
    pub fn word(&self) -> u32 {
        self.word.get()
    }

    /// Identifier of an echo.
    #[must_use]
    pub fn identifier(&self) -> u16 {
        let [high, low, _, _] = self.word.to_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Sequence number of an echo.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        let [_, _, high, low] = self.word.to_bytes();
        u16::from_be_bytes([high, low])
    }
}

/// True for types about which no error may be sent: error messages and redirects. Spec: RFC 4443
/// §2.1, §2.4 (e).
#[must_use]
pub const fn is_error(kind: u8) -> bool {
    const REDIRECT: u8 = 137;
    kind < 128 || kind == REDIRECT
}

/// Turns the echo request `message` into its reply in place. The caller swaps the addresses of the
/// packet, which does not change the checksum; a wrong checksum stays wrong.
///
/// # Errors
/// `Truncated` if there are fewer than 8 octets; `BadField` unless it is an echo request of code 0.
pub fn echo_reply_in_place(message: &mut [u8]) -> Result<(), Malformed> {
    let have = message.len();
    let (header, _) = Icmpv6Header::mut_from_prefix(message)
        .map_err(|_| Malformed::truncated(Icmpv6Header::LEN, have))?;
    if (header.kind, header.code) != (ECHO_REQUEST, 0) {
        return Err(Malformed::BadField(header.kind));
    }
    let (old, new) = (u16::from(ECHO_REQUEST) << 8, u16::from(ECHO_REPLY) << 8);
    header.kind = ECHO_REPLY;
    header.checksum.set(update(header.checksum.get(), old, new));
    Ok(())
}

/// Writes "hop limit exceeded in transit" about the IPv6 packet `original`. Quotes as much of the
/// packet as [`ERROR_LEN_MAX`] allows. Returns the number of octets written.
///
/// # Errors
/// `Truncated` if `out` is too short.
pub fn emit_time_exceeded(
    out: &mut [u8],
    pseudo: &PseudoHeader,
    original: &[u8],
) -> Result<usize, Malformed> {
    emit(out, pseudo, &Icmpv6Header::new(TIME_EXCEEDED, 0, 0), quote(original))
}

/// Writes "packet too big" with the MTU of the next hop (octets), like [`emit_time_exceeded`].
///
/// # Errors
/// `Truncated` if `out` is too short.
pub fn emit_packet_too_big(
    out: &mut [u8],
    pseudo: &PseudoHeader,
    mtu: u32,
    original: &[u8],
) -> Result<usize, Malformed> {
    emit(out, pseudo, &Icmpv6Header::new(PACKET_TOO_BIG, 0, mtu), quote(original))
}

/// Writes "destination unreachable" with this code, like [`emit_time_exceeded`].
///
/// # Errors
/// `Truncated` if `out` is too short.
pub fn emit_unreachable(
    out: &mut [u8],
    pseudo: &PseudoHeader,
    code: u8,
    original: &[u8],
) -> Result<usize, Malformed> {
    emit(out, pseudo, &Icmpv6Header::new(DST_UNREACHABLE, code, 0), quote(original))
}

fn quote(original: &[u8]) -> &[u8] {
    original.get(..ERROR_LEN_MAX - Icmpv6Header::LEN).unwrap_or(original)
}

/// Writes header and data with their checksum.
pub(crate) fn emit(
    out: &mut [u8],
    pseudo: &PseudoHeader,
    header: &Icmpv6Header,
    data: &[u8],
) -> Result<usize, Malformed> {
    let (len, have) = (Icmpv6Header::LEN + data.len(), out.len());
    let message = out.get_mut(..len).ok_or_else(|| Malformed::truncated(len, have))?;
    let sum = pseudo.sum(len).bytes(header.as_bytes()).bytes(data);
    Icmpv6Header { checksum: U16::new(sum.checksum()), ..*header }.emit(message)?;
    message.get_mut(Icmpv6Header::LEN..).unwrap_or_default().copy_from_slice(data);
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Pseudo header of ::1 to ::2 with 10 octets: 1 + 2 + 000a + 003a = 0047.
    const PSEUDO: PseudoHeader =
        PseudoHeader { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 2) };
    // 0047 + 8000 + 1234 + 0001 + 4869 = dae5, so that the checksum is 251a.
    const ECHO: [u8; 10] = [128, 0, 0x25, 0x1a, 0x12, 0x34, 0, 1, 0x48, 0x69];

    fn echo(out: &mut [u8], kind: u8, identifier: u16) -> Result<usize, Malformed> {
        emit(out, &PSEUDO, &Icmpv6Header::new(kind, 0, u32::from(identifier) << 16 | 1), b"Hi")
    }

    #[test]
    fn icmpv6_echo_known_octets_parse_and_emit() {
        let mut out = [0xa5; 10];
        assert_eq!(echo(&mut out, ECHO_REQUEST, 0x1234), Ok(10));
        assert_eq!(out, ECHO);
        let (header, data) = Icmpv6Header::parse(&PSEUDO, &ECHO).unwrap();
        assert_eq!((header.kind(), header.code(), data), (128, 0, &b"Hi"[..]));
        assert_eq!((header.identifier(), header.sequence()), (0x1234, 1));
        for len in 0..ECHO.len() {
            assert!(Icmpv6Header::parse(&PSEUDO, &ECHO[..len]).is_err());
        }
        let other = PseudoHeader { dst: Ipv6Addr::LOCALHOST, ..PSEUDO };
        assert_eq!(Icmpv6Header::parse(&other, &ECHO), Err(Malformed::BadChecksum));
    }

    #[test]
    fn icmpv6_echo_reply_in_place_equals_the_emitted_one() {
        for identifier in 0..=u16::MAX {
            let (mut request, mut reply) = ([0xa5; 10], [0xa5; 10]);
            echo(&mut request, ECHO_REQUEST, identifier).unwrap();
            echo(&mut reply, ECHO_REPLY, identifier).unwrap();
            assert_eq!(echo_reply_in_place(&mut request), Ok(()));
            assert_eq!(request, reply);
        }
        assert_eq!(echo_reply_in_place(&mut [129; 8]), Err(Malformed::BadField(129)));
    }

    #[test]
    fn icmpv6_errors_quote_what_fits_and_carry_the_mtu() {
        let original = [0x60; 1500];
        let mut out = [0xa5; ERROR_LEN_MAX];
        assert_eq!(emit_packet_too_big(&mut out, &PSEUDO, 1400, &original), Ok(1240));
        let (header, quoted) = Icmpv6Header::parse(&PSEUDO, &out).unwrap();
        assert_eq!((header.kind(), header.word(), quoted), (2, 1400, &original[..1232]));
        let len = emit_time_exceeded(&mut out, &PSEUDO, &original[..40]).unwrap();
        assert_eq!(Icmpv6Header::parse(&PSEUDO, &out[..len]).unwrap().0.kind(), TIME_EXCEEDED);
        let len = emit_unreachable(&mut out, &PSEUDO, CODE_NO_ROUTE, &original[..40]).unwrap();
        assert_eq!(Icmpv6Header::parse(&PSEUDO, &out[..len]).unwrap().0.code(), 0);
        assert!(is_error(PACKET_TOO_BIG) && !is_error(ECHO_REQUEST));
    }
}
