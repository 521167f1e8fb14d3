//! The message header, and an iterator over the messages bundled in one datagram.
//!
//! ```text
//!            8 7 6 5 4 3 2 1
//! octet 1    version|spare|FO|MP|S      version = 1
//!       2    message type
//!       3-4  length: octets that follow octet 4
//!       5-12 SEID, only with S
//!       next three octets: sequence number
//!       last octet: message priority (bits 8-5) with MP, else spare
//! ```
//! Spec: TS 29.244 §7.2.2.

use core::fmt;

use adit_types::Seid;

use crate::message_type::MessageType;
use crate::writer::{NoRoom, PfcpWriter};

const FLAG_S: u8 = 0x01;
const FLAG_MP: u8 = 0x02;
const FLAG_FO: u8 = 0x04;
const VERSION: u8 = 1;

/// The largest sequence number: three octets.
pub const SEQUENCE_MAX: u32 = 0x00ff_ffff;

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Type of the message.
    pub message_type: MessageType,
    /// The receiver's SEID; present if and only if S = 1. Zero if the sender does not know it.
    pub seid: Option<Seid>,
    /// Sequence number, 0..=[`SEQUENCE_MAX`].
    pub sequence: u32,
    /// Message priority, 0..=15; present if and only if MP = 1.
    pub priority: Option<u8>,
    /// True if another message follows in the same datagram (FO = 1).
    pub follow_on: bool,
}

impl Header {
    /// Creates a header without message priority, for the last message of its datagram. `sequence`
    /// is taken modulo 2^24.
    #[must_use]
    pub const fn new(message_type: MessageType, seid: Option<Seid>, sequence: u32) -> Self {
        Self {
            message_type,
            seid,
            sequence: sequence & SEQUENCE_MAX,
            priority: None,
            follow_on: false,
        }
    }

    fn flags(&self) -> u8 {
        (VERSION << 5)
            | if self.seid.is_some() { FLAG_S } else { 0 }
            | if self.priority.is_some() { FLAG_MP } else { 0 }
            | if self.follow_on { FLAG_FO } else { 0 }
    }

    fn encode_tail(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        if let Some(seid) = self.seid {
            w.u64(seid.0)?;
        }
        w.u24(self.sequence)?;
        w.u8((self.priority.unwrap_or(0) & 0x0f) << 4)
    }
}

impl PfcpWriter<'_> {
    /// Appends a message with its header, and with the IEs that `fill` appends. Returns its length
    /// in octets. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn message(
        &mut self,
        message_type: MessageType,
        seid: Option<Seid>,
        sequence: u32,
        fill: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<usize, NoRoom> {
        self.message_with(&Header::new(message_type, seid, sequence), fill)
    }

    /// Does [`Self::message`] with a given header (Message Priority, Follow On). Errors as
    /// [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn message_with(
        &mut self,
        header: &Header,
        fill: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<usize, NoRoom> {
        let start = self.len();
        self.u8(header.flags())?;
        self.u8(header.message_type.0)?;
        self.length_prefixed(|w| {
            header.encode_tail(w)?;
            fill(w)
        })?;
        Ok(self.len() - start)
    }
}

/// Why a datagram or a part of it is not a PFCP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer octets than the header needs. The message is discarded silently.
    /// Spec: TS 29.244 §7.6.3.
    Truncated,
    /// The length field reaches beyond the datagram. If the message is a request, it is answered
    /// with Cause 68. Spec: TS 29.244 §7.6.3.
    LengthBeyondDatagram {
        /// The header. The octets after it are the part of the body that arrived.
        header: Header,
    },
    /// The length field is smaller than the rest of the header. The message is discarded silently.
    LengthTooShort,
    /// A session related message without SEID in its header (S = 0). It is discarded silently.
    SeidAbsent {
        /// Type of the message.
        message_type: MessageType,
        /// Sequence number of the message.
        sequence: u32,
    },
    /// The version is not 1. The message is answered with a Version Not Supported Response. Spec:
    /// TS 29.244 §7.6.2.
    VersionNotSupported {
        /// The version that the peer sent.
        version: u8,
        /// The sequence number, read as in version 1; the response repeats it.
        sequence: u32,
    },
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("shorter than a PFCP header"),
            Self::LengthBeyondDatagram { .. } => f.write_str("length field beyond the datagram"),
            Self::LengthTooShort => f.write_str("length field shorter than the header"),
            Self::SeidAbsent { message_type, .. } => write!(f, "{message_type} without SEID"),
            Self::VersionNotSupported { version, .. } => write!(f, "PFCP version {version}"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// A message with decoded header; its body is delimited, but not decoded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawMessage<'a> {
    /// The header.
    pub header: Header,
    /// The IEs of the message.
    pub body: &'a [u8],
}

/// Iterates over the messages of one UDP payload: one message, or several with Follow On.
///
/// Ends after an error, unless the message has a valid length. Ignores octets after the last
/// message; [`PfcpDatagram::remaining`] returns their number.
#[derive(Debug, Clone)]
pub struct PfcpDatagram<'a> {
    rest: &'a [u8],
    more: bool,
}

impl<'a> PfcpDatagram<'a> {
    /// Iterates over the messages of `payload`; an empty one yields one [`HeaderError::Truncated`].
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload, more: true }
    }

    /// Returns how many octets were not consumed yet.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn step(&mut self) -> Result<RawMessage<'a>, HeaderError> {
        let (&[flags, message_type, len_hi, len_lo], after) =
            self.rest.split_first_chunk::<4>().ok_or(HeaderError::Truncated)?;
        let header_len = if flags & FLAG_S == 0 { 4 } else { 12 };
        let (seid, tail) = match after.split_first_chunk::<8>() {
            Some((seid, tail)) if header_len == 12 => (Some(Seid(u64::from_be_bytes(*seid))), tail),
            _ => (None, after),
        };
        let &[s0, s1, s2, priority] = tail.first_chunk::<4>().ok_or(HeaderError::Truncated)?;
        if header_len > after.len() {
            return Err(HeaderError::Truncated);
        }
        let sequence = u32::from_be_bytes([0, s0, s1, s2]);
        let version = flags >> 5;
        if version != VERSION {
            return Err(HeaderError::VersionNotSupported { version, sequence });
        }
        let len = usize::from(u16::from_be_bytes([len_hi, len_lo]));
        let message_type = MessageType(message_type);
        let header = Header {
            message_type,
            seid,
            sequence,
            priority: (flags & FLAG_MP != 0).then_some(priority >> 4),
            follow_on: flags & FLAG_FO != 0,
        };
        let message = after.get(..len).ok_or(HeaderError::LengthBeyondDatagram { header })?;
        let body = message.get(header_len..).ok_or(HeaderError::LengthTooShort)?;
        self.rest = after.get(len..).unwrap_or_default();
        self.more = header.follow_on;
        if seid.is_none() && message_type.is_session_related() {
            return Err(HeaderError::SeidAbsent { message_type, sequence });
        }
        Ok(RawMessage { header, body })
    }
}

impl<'a> Iterator for PfcpDatagram<'a> {
    type Item = Result<RawMessage<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.more {
            return None;
        }
        let step = self.step();
        if !matches!(step, Ok(_) | Err(HeaderError::SeidAbsent { .. })) {
            self.more = false;
        }
        Some(step)
    }
}
