//! GTP-U header and the messages that Adit originates. Spec: TS 29.281 §5.1, §7.
//!
//! `gtpu_ext` has extension headers, `gtpu_ie` information elements; `parse::parse_gtpu` walks over
//! a received message.

use core::net::IpAddr;

use adit_types::{Qfi, Teid};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::gtpu_ext::{ExtensionType, udp_port_extension};
use crate::gtpu_ie;
pub use crate::gtpu_ie::ErrorIndication;
use crate::view::{FieldWriter, fixed_header, split};
use crate::{Malformed, PduSessionContainer};

/// Registered UDP port of GTP-U. Spec: TS 29.281 §4.4.2.
pub const UDP_PORT: u16 = 2152;

/// Version 1 and protocol type GTP: the high four bits of octet 1.
pub(crate) const VERSION_1: u8 = 0x30;

/// Flag E: an extension header follows.
pub const FLAG_E: u8 = 0x04;
/// Flag S: the sequence number is meaningful.
pub const FLAG_S: u8 = 0x02;
/// Flag PN: the N-PDU number is meaningful.
pub const FLAG_PN: u8 = 0x01;

/// Type of a GTP-U message. Spec: TS 29.281 §6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct GtpuMessageType(pub u8);

impl GtpuMessageType {
    /// Echo Request: probes a path.
    pub const ECHO_REQUEST: Self = Self(1);
    /// Echo Response.
    pub const ECHO_RESPONSE: Self = Self(2);
    /// Error Indication: the sender does not have the TEID of a G-PDU.
    pub const ERROR_INDICATION: Self = Self(26);
    /// Supported Extension Headers Notification.
    pub const SUPPORTED_EXTENSION_HEADERS_NOTIFICATION: Self = Self(31);
    /// Tunnel Status.
    pub const TUNNEL_STATUS: Self = Self(253);
    /// End Marker: no more packets follow on this path of the tunnel.
    pub const END_MARKER: Self = Self(254);
    /// G-PDU: a user packet.
    pub const G_PDU: Self = Self(255);
}

/// The mandatory part of a GTP-U header.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 1        Version=1 |PT=1| - | E | S | PN
/// 2        Message type
/// 3-4      Length: all that follows octet 8
/// 5-8      TEID
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct GtpuHeader {
    pub(crate) flags: u8,
    pub(crate) message_type: u8,
    pub(crate) len: U16,
    pub(crate) teid: U32,
}

fixed_header!(GtpuHeader, 8);

/// The optional part: present if E, S or PN is set.
///
/// ```text
/// Octets   8 7 6 5 4 3 2 1
/// 9-10     Sequence number (evaluated with S)
/// 11       N-PDU number (evaluated with PN)
/// 12       Next extension header type (evaluated with E)
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct GtpuOptional {
    pub(crate) sequence: U16,
    pub(crate) n_pdu: u8,
    pub(crate) next_extension: u8,
}

fixed_header!(GtpuOptional, 4);

impl GtpuHeader {
    /// Creates a header of version 1 with these flags (E, S, PN), type, length and TEID.
    #[inline]
    #[must_use]
    pub fn new(flags: u8, message_type: GtpuMessageType, len: u16, teid: Teid) -> Self {
        Self {
            flags: VERSION_1 | flags & (FLAG_E | FLAG_S | FLAG_PN),
            message_type: message_type.0,
            len: U16::new(len),
            teid: U32::new(teid.0),
        }
    }

    /// Returns the mandatory part at the front of `bytes`, and the octets that its length includes.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 8 octets; `BadVersion` unless version 1 with protocol
    /// type 1; `BadLength` if the length exceeds `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (header, rest) = split::<Self>(bytes)?;
        if header.flags & 0xf0 != VERSION_1 {
            return Err(Malformed::BadVersion(header.flags >> 4));
        }
        let len = usize::from(header.len.get());
        match rest.get(..len) {
            Some(body) => Ok((header, body)),
            None => Err(Malformed::bad_length(len, rest.len())),
        }
    }

    /// Returns the flags E, S and PN.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags & (FLAG_E | FLAG_S | FLAG_PN)
    }

    /// Type of the message.
    #[inline]
    #[must_use]
    pub fn message_type(&self) -> GtpuMessageType {
        GtpuMessageType(self.message_type)
    }

    /// Number of octets after this part.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a header field, not a container")]
    pub fn len(&self) -> u16 {
        self.len.get()
    }

    /// Tunnel endpoint of the receiver; zero for path messages.
    #[inline]
    #[must_use]
    pub fn teid(&self) -> Teid {
        Teid(self.teid.get())
    }
}

impl GtpuOptional {
    /// Creates an optional part with a sequence number and the type of the first extension header.
    #[inline]
    #[must_use]
    pub fn new(sequence: u16, next_extension: ExtensionType) -> Self {
        Self { sequence: U16::new(sequence), n_pdu: 0, next_extension: next_extension.0 }
    }

    /// Returns the optional part at the front of `bytes`, and the rest.
    ///
    /// # Errors
    /// `Truncated` if there are fewer than 4 octets.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        split(bytes)
    }

    /// Sequence number; meaningless without S.
    #[inline]
    #[must_use]
    pub fn sequence(&self) -> u16 {
        self.sequence.get()
    }

    /// N-PDU number; meaningless without PN.
    #[inline]
    #[must_use]
    pub fn n_pdu(&self) -> u8 {
        self.n_pdu
    }

    /// Type of the first extension header; meaningless without E.
    #[inline]
    #[must_use]
    pub fn next_extension(&self) -> ExtensionType {
        ExtensionType(self.next_extension)
    }
}

/// Most octets of an Echo Request.
pub const ECHO_REQUEST_LEN_MAX: usize = GtpuHeader::LEN + GtpuOptional::LEN + 7;

/// Most octets of an Echo Response.
pub const ECHO_RESPONSE_LEN_MAX: usize = ECHO_REQUEST_LEN_MAX + 2;

/// Writes an Echo Request with a sequence number and, if given, the time at which its sender
/// started. Returns its length: 12 or 19 octets.
///
/// Units:   `recovery` in seconds since 1900-01-01 00:00 UTC.
/// # Errors
/// `Truncated` if `out` is too short.
/// Spec: TS 29.281 §7.2.1; TS 23.007 §18A.
pub fn emit_echo_request(
    out: &mut [u8],
    sequence: u16,
    recovery: Option<u32>,
) -> Result<usize, Malformed> {
    let mut message = GtpuMessageWriter::start(out, GtpuMessageType::ECHO_REQUEST, Teid(0))?;
    message.optional(sequence, ExtensionType::NONE)?;
    message.recovery_time_stamp(recovery)?;
    message.finish(FLAG_S)
}

/// Writes the Echo Response to a request with `sequence`. Returns its length: 14 or 21 octets.
///
/// Its mandatory Recovery element is always zero and has no meaning; the Recovery Time Stamp shows
/// restarts.
///
/// Units:   `recovery` in seconds since 1900-01-01 00:00 UTC.
/// # Errors
/// `Truncated` if `out` is too short.
/// Spec: TS 29.281 §7.2.2, §8.2; TS 23.007 §18A.
pub fn emit_echo_response(
    out: &mut [u8],
    sequence: u16,
    recovery: Option<u32>,
) -> Result<usize, Malformed> {
    let mut message = GtpuMessageWriter::start(out, GtpuMessageType::ECHO_RESPONSE, Teid(0))?;
    message.optional(sequence, ExtensionType::NONE)?;
    message.put(&[gtpu_ie::RECOVERY, 0])?;
    message.recovery_time_stamp(recovery)?;
    message.finish(FLAG_S)
}

/// Most octets that [`emit_error_indication`] writes: over IPv6 with a UDP port.
pub const ERROR_INDICATION_LEN_MAX: usize = GtpuHeader::LEN + GtpuOptional::LEN + 4 + 5 + 19;

/// Writes an Error Indication. `udp_port`, the source port of the G-PDU, goes into a UDP Port
/// extension header, by which the sender of the G-PDU distinguishes paths. Returns the number of
/// octets written.
///
/// # Errors
/// `Truncated` if `out` is shorter than the message.
/// Spec: TS 29.281 §7.3.1, §5.2.2.1.
pub fn emit_error_indication(
    out: &mut [u8],
    indication: &ErrorIndication,
    udp_port: Option<u16>,
) -> Result<usize, Malformed> {
    let mut message = GtpuMessageWriter::start(out, GtpuMessageType::ERROR_INDICATION, Teid(0))?;
    let mut flags = FLAG_S;
    match udp_port {
        Some(udp_port) => {
            flags |= FLAG_E;
            message.optional(0, ExtensionType::UDP_PORT)?;
            message.put(&udp_port_extension(udp_port))?;
        }
        None => message.optional(0, ExtensionType::NONE)?,
    }
    message.put(&[gtpu_ie::TEID_DATA_I])?;
    message.put(&indication.teid.0.to_be_bytes())?;
    match indication.peer {
        IpAddr::V4(peer) => {
            message.put(&[gtpu_ie::PEER_ADDRESS, 0, 4])?;
            message.put(&peer.octets())?;
        }
        IpAddr::V6(peer) => {
            message.put(&[gtpu_ie::PEER_ADDRESS, 0, 16])?;
            message.put(&peer.octets())?;
        }
    }
    message.finish(flags)
}

/// Most octets that [`emit_end_marker`] writes: with a QoS flow.
pub const END_MARKER_LEN_MAX: usize = GtpuHeader::LEN + GtpuOptional::LEN + 4;

/// Writes an End Marker for a tunnel, with a PDU Session Container if it concerns only one QoS
/// flow. Returns its length: 8 octets, or 16 with a QoS flow.
///
/// # Errors
/// `Truncated` if `out` is too short.
/// Spec: TS 29.281 §7.3.2, §5.2.2.7; TS 38.415 §5.5.2.1.
pub fn emit_end_marker(out: &mut [u8], teid: Teid, qfi: Option<Qfi>) -> Result<usize, Malformed> {
    let mut message = GtpuMessageWriter::start(out, GtpuMessageType::END_MARKER, teid)?;
    let Some(qfi) = qfi else { return message.finish(0) };
    message.optional(0, ExtensionType::PDU_SESSION_CONTAINER)?;
    message.put(&PduSessionContainer::downlink(qfi, false).short_extension())?;
    message.finish(FLAG_E)
}

/// Writes a Supported Extension Headers Notification with at most 255 of the types `supported`.
/// Returns its length in octets.
///
/// # Errors
/// `Truncated` if `out` is too short.
/// Spec: TS 29.281 §7.2.3, §8.5.
pub fn emit_supported_extension_headers(
    out: &mut [u8],
    supported: &[ExtensionType],
) -> Result<usize, Malformed> {
    let kind = GtpuMessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION;
    let mut message = GtpuMessageWriter::start(out, kind, Teid(0))?;
    message.optional(0, ExtensionType::NONE)?;
    let count = u8::try_from(supported.len()).unwrap_or(u8::MAX);
    message.put(&[gtpu_ie::EXTENSION_HEADER_TYPE_LIST, count])?;
    for kind in supported.iter().take(usize::from(count)) {
        message.put(&[kind.0])?;
    }
    message.finish(FLAG_S)
}

/// A message under construction. Its header is written last, because it contains the length.
struct GtpuMessageWriter<'a> {
    header: &'a mut [u8],
    body: FieldWriter<'a>,
    message_type: GtpuMessageType,
    teid: Teid,
}

impl<'a> GtpuMessageWriter<'a> {
    fn start(out: &'a mut [u8], kind: GtpuMessageType, teid: Teid) -> Result<Self, Malformed> {
        let have = out.len();
        let (header, body) = out
            .split_at_mut_checked(GtpuHeader::LEN)
            .ok_or_else(|| Malformed::truncated(GtpuHeader::LEN, have))?;
        Ok(Self { header, body: FieldWriter::new(body), message_type: kind, teid })
    }

    fn optional(&mut self, sequence: u16, next: ExtensionType) -> Result<(), Malformed> {
        self.put(GtpuOptional::new(sequence, next).as_bytes())
    }

    fn recovery_time_stamp(&mut self, value: Option<u32>) -> Result<(), Malformed> {
        let Some(value) = value else { return Ok(()) };
        self.put(&[gtpu_ie::RECOVERY_TIME_STAMP, 0, 4])?;
        self.put(&value.to_be_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.body.put(bytes)
    }

    fn finish(self, flags: u8) -> Result<usize, Malformed> {
        let body_len = self.body.len();
        let len = u16::try_from(body_len)
            .map_err(|_| Malformed::bad_length(body_len, usize::from(u16::MAX)))?;
        GtpuHeader::new(flags, self.message_type, len, self.teid).emit(self.header)?;
        Ok(GtpuHeader::LEN + body_len)
    }
}
