//! The writer: IEs, groups and messages into a caller's buffer, lengths patched afterwards.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use adit_types::Seid;

use crate::header::Header;
use crate::ie::{Ie, IeType, RawIe};
use crate::message::{MessageBody, MessageType};

/// The buffer, or a 16-bit length field, is too small for what was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room left in the message buffer")
    }
}

impl core::error::Error for NoRoom {}

/// Encodes one message with its header and returns its length in octets.
///
/// # Errors
/// [`NoRoom`] when `buf` is too small; its contents are then unspecified.
pub fn encode<'a, M: MessageBody<'a>>(
    buf: &mut [u8],
    seid: Option<Seid>,
    sequence: u32,
    body: &M,
) -> Result<usize, NoRoom> {
    PfcpWriter::new(buf).message(M::TYPE, seid, sequence, |w| body.encode_body(w))
}

/// Appends to a buffer. After [`NoRoom`] the contents are unspecified.
#[derive(Debug)]
pub struct PfcpWriter<'b> {
    buf: &'b mut [u8],
    at: usize,
}

impl<'b> PfcpWriter<'b> {
    /// A writer at the start of `buf`.
    #[must_use]
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, at: 0 }
    }

    /// Octets written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// True before the first octet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Appends octets.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer is full; so for every method of this type.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let end = self.at.checked_add(bytes.len()).ok_or(NoRoom)?;
        self.buf.get_mut(self.at..end).ok_or(NoRoom)?.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Appends one octet. Errors as [`Self::bytes`].
    #[inline]
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn u8(&mut self, value: u8) -> Result<(), NoRoom> {
        self.bytes(&[value])
    }

    /// Appends two octets, most significant first. Errors as [`Self::bytes`].
    #[inline]
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn u16(&mut self, value: u16) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends the low three octets. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn u24(&mut self, value: u32) -> Result<(), NoRoom> {
        let [_, rest @ ..] = value.to_be_bytes();
        self.bytes(&rest)
    }

    /// Appends four octets, most significant first. Errors as [`Self::bytes`].
    #[inline]
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn u32(&mut self, value: u32) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends the low five octets. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn u40(&mut self, value: u64) -> Result<(), NoRoom> {
        let [_, _, _, rest @ ..] = value.to_be_bytes();
        self.bytes(&rest)
    }

    /// Appends eight octets, most significant first. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn u64(&mut self, value: u64) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends an address if there is one. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn ipv4(&mut self, addr: Option<Ipv4Addr>) -> Result<(), NoRoom> {
        addr.map_or(Ok(()), |a| self.bytes(&a.octets()))
    }

    /// Appends an address if there is one. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn ipv6(&mut self, addr: Option<Ipv6Addr>) -> Result<(), NoRoom> {
        addr.map_or(Ok(()), |a| self.bytes(&a.octets()))
    }

    /// Appends octets behind a two-octet length.
    ///
    /// # Errors
    /// [`NoRoom`], also when `bytes` is longer than the length field can say.
    pub fn bytes_len16(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.u16(u16::try_from(bytes.len()).map_err(|_| NoRoom)?)?;
        self.bytes(bytes)
    }

    /// Appends octets behind a one-octet length.
    ///
    /// # Errors
    /// [`NoRoom`], also when `bytes` is longer than the length field can say.
    pub fn bytes_len8(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.u8(u8::try_from(bytes.len()).map_err(|_| NoRoom)?)?;
        self.bytes(bytes)
    }

    /// Appends one IE under its own type. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn put<'a, T: Ie<'a>>(&mut self, ie: &T) -> Result<(), NoRoom> {
        self.put_as(T::TYPE, ie)
    }

    /// Appends one IE under another type with the same contents, such as the three Usage Report
    /// IEs. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn put_as<'a, T: Ie<'a>>(&mut self, ie_type: IeType, ie: &T) -> Result<(), NoRoom> {
        self.group(ie_type, |w| ie.encode(w))
    }

    /// Appends an IE whose value `fill` writes, usually member IEs of a group.
    /// Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn group(
        &mut self,
        ie_type: IeType,
        fill: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<(), NoRoom> {
        self.u16(ie_type.0)?;
        self.length_prefixed(fill)
    }

    /// Appends an IE of uninterpreted contents, as received. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn raw(&mut self, ie: &RawIe<'_>) -> Result<(), NoRoom> {
        self.group(ie.ie_type, |w| {
            if let Some(enterprise_id) = ie.enterprise_id {
                w.u16(enterprise_id)?;
            }
            w.bytes(ie.value)
        })
    }

    /// Appends a message, header first, and returns its length in octets.
    /// Errors as [`Self::bytes`].
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

    /// Appends a message with a given header (Message Priority, Follow On) and returns its length
    /// in octets. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn message_with(
        &mut self,
        header: &Header,
        fill: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<usize, NoRoom> {
        let start = self.at;
        self.u8(header.flags())?;
        self.u8(header.message_type.0)?;
        self.length_prefixed(|w| {
            header.encode_tail(w)?;
            fill(w)
        })?;
        Ok(self.at - start)
    }

    /// Writes a two-octet length and then what it counts.
    fn length_prefixed(
        &mut self,
        fill: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<(), NoRoom> {
        let at = self.at;
        self.u16(0)?;
        let start = self.at;
        fill(self)?;
        let len = u16::try_from(self.at - start).map_err(|_| NoRoom)?;
        self.buf.get_mut(at..start).ok_or(NoRoom)?.copy_from_slice(&len.to_be_bytes());
        Ok(())
    }
}
