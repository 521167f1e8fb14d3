//! Iterates over IEs: type, length, and for enterprise types the enterprise identifier. Spec: TS
//! 29.244 §8.1.1.

use crate::ie::{DecodeError, DecodeErrorKind, IeType, offset16};

/// One IE with its value as octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawIe<'a> {
    /// The type.
    pub ie_type: IeType,
    /// Present if and only if the top bit of the type is set.
    pub enterprise_id: Option<u16>,
    /// The value, without the enterprise identifier.
    pub value: &'a [u8],
}

/// Iterates over the IEs of a message body or of a grouped IE. Ends after an error.
#[derive(Debug, Clone)]
pub struct IeIter<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> IeIter<'a> {
    /// Iterates over the IEs in `body`.
    #[must_use]
    pub const fn new(body: &'a [u8]) -> Self {
        Self { rest: body, offset: 0 }
    }

    /// Returns the number of octets from the start of the body to the next IE.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    #[cold]
    fn fail(&mut self, ie: IeType) -> DecodeError {
        self.rest = &[];
        DecodeError::new(DecodeErrorKind::InvalidLength, ie, offset16(self.offset))
    }

    #[cold]
    fn fail_in_header(&mut self) -> DecodeError {
        let ie = self.rest.first_chunk::<2>().map_or(IeType(0), |t| IeType(u16::from_be_bytes(*t)));
        self.fail(ie)
    }
}

impl<'a> Iterator for IeIter<'a> {
    type Item = Result<RawIe<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some((&[t0, t1, l0, l1], after)) = self.rest.split_first_chunk::<4>() else {
            return if self.rest.is_empty() { None } else { Some(Err(self.fail_in_header())) };
        };
        let ie_type = IeType(u16::from_be_bytes([t0, t1]));
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let Some((value, rest)) = after.split_at_checked(len) else {
            return Some(Err(self.fail(ie_type)));
        };
        let (enterprise_id, value) = if ie_type.is_enterprise() {
            let Some((id, value)) = value.split_first_chunk::<2>() else {
                return Some(Err(self.fail(ie_type)));
            };
            (Some(u16::from_be_bytes(*id)), value)
        } else {
            (None, value)
        };
        self.rest = rest;
        self.offset += 4 + len;
        Some(Ok(RawIe { ie_type, enterprise_id, value }))
    }
}
