//! Writes a message into a caller's buffer. A length field is filled in once the octets after it
//! have been written.
//!
//! Where IEs and messages are defined, they add methods to it (`ie/put.rs`, `header.rs`).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// The buffer, or a 16-bit length field, is too small for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room left in the message buffer")
    }
}

impl core::error::Error for NoRoom {}

/// Appends to a buffer. After an error [`NoRoom`] the contents of the buffer are unspecified.
#[derive(Debug)]
pub struct PfcpWriter<'b> {
    buf: &'b mut [u8],
    at: usize,
}

impl<'b> PfcpWriter<'b> {
    /// Begins to write at the start of `buf`.
    #[must_use]
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, at: 0 }
    }

    /// Returns the number of octets written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// True before the first octet was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Appends octets.
    ///
    /// # Errors
    /// [`NoRoom`] if the buffer is full. The same applies to every method of this type.
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

    /// Appends a two-octet length, and the octets.
    ///
    /// # Errors
    /// [`NoRoom`], also if `bytes` is longer than the length field can express.
    pub fn bytes_len16(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.u16(u16::try_from(bytes.len()).map_err(|_| NoRoom)?)?;
        self.bytes(bytes)
    }

    /// Appends a one-octet length, and the octets.
    ///
    /// # Errors
    /// [`NoRoom`], also if `bytes` is longer than the length field can express.
    pub fn bytes_len8(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.u8(u8::try_from(bytes.len()).map_err(|_| NoRoom)?)?;
        self.bytes(bytes)
    }

    /// Appends a two-octet length, and the octets that `fill` appends.
    pub(crate) fn length_prefixed(
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
