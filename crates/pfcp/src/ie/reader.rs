//! Reads the fields of a leaf IE in order. If the octets run out, the error is an invalid length.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::ie::IeError;

#[derive(Debug, Clone, Copy)]
pub(crate) struct IeReader<'a> {
    rest: &'a [u8],
}

impl<'a> IeReader<'a> {
    pub(crate) const fn new(value: &'a [u8]) -> Self {
        Self { rest: value }
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], IeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(IeError::Length)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], IeError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(IeError::Length)?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, IeError> {
        self.array().map(|[b]| b)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, IeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&mut self) -> Result<u32, IeError> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, IeError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u40(&mut self) -> Result<u64, IeError> {
        self.array().map(|[a, b, c, d, e]| u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, IeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a two-octet length, and as many octets.
    pub(crate) fn bytes_len16(&mut self) -> Result<&'a [u8], IeError> {
        let len = self.u16()?;
        self.bytes(usize::from(len))
    }

    /// Reads a one-octet length, and as many octets.
    pub(crate) fn bytes_len8(&mut self) -> Result<&'a [u8], IeError> {
        let len = self.u8()?;
        self.bytes(usize::from(len))
    }

    pub(crate) fn ipv4_if(&mut self, present: bool) -> Result<Option<Ipv4Addr>, IeError> {
        if present { Ok(Some(Ipv4Addr::from(self.array::<4>()?))) } else { Ok(None) }
    }

    pub(crate) fn ipv6_if(&mut self, present: bool) -> Result<Option<Ipv6Addr>, IeError> {
        if present { Ok(Some(Ipv6Addr::from(self.array::<16>()?))) } else { Ok(None) }
    }

    /// Reads a value with `read` if it is present, else returns `None`.
    pub(crate) fn when<T>(
        &mut self,
        present: bool,
        read: impl FnOnce(&mut Self) -> Result<T, IeError>,
    ) -> Result<Option<T>, IeError> {
        if present { read(self).map(Some) } else { Ok(None) }
    }
}
