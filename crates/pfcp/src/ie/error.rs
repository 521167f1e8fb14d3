//! Errors in IEs, and the errors that a decoder of messages returns.

use core::fmt;

use crate::ie::{FailedRuleId, IeType};

/// Why the value of one IE cannot be decoded. The enclosing body's decoder adds type and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IeError {
    /// The value has fewer octets than its fields need.
    Length,
    /// The value is invalid.
    Value,
    /// A defect in an IE of this grouped IE.
    Nested(DecodeError),
}

/// The class of a defect. Each class has one Cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// A mandatory IE is absent: Cause 66.
    MandatoryMissing,
    /// A length field is wrong or an IE is too short: Cause 68.
    InvalidLength,
    /// An IE has an invalid value: Cause 69.
    Incorrect,
}

/// The first defect of a message, with the fields that an error response needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// Class of the defect.
    pub kind: DecodeErrorKind,
    /// The IE at fault: the absent IE, or the IE with the defect.
    pub ie: IeType,
    /// Octets from the start of the message body to the IE at fault; for an absent IE, to the end
    /// of the message or of the grouped IE that should contain it.
    pub offset: u16,
    /// The rule that contains the defect, if its identifier could be read.
    pub rule: Option<FailedRuleId>,
}

impl DecodeError {
    /// Creates a defect of `ie` at `offset`.
    #[must_use]
    pub const fn new(kind: DecodeErrorKind, ie: IeType, offset: u16) -> Self {
        Self { kind, ie, offset, rule: None }
    }

    /// Returns the value of the Offending IE. Spec: TS 29.244 §8.2.22.
    #[must_use]
    pub const fn offending_ie(&self) -> IeType {
        self.ie
    }

    /// Turns the error of an IE at `offset` of an enclosing body into an error of this body.
    #[cold]
    pub(crate) fn from_ie(error: IeError, ie: IeType, offset: u16) -> Self {
        match error {
            IeError::Length => Self::new(DecodeErrorKind::InvalidLength, ie, offset),
            IeError::Value => Self::new(DecodeErrorKind::Incorrect, ie, offset),
            IeError::Nested(inner) => Self {
                // 4 octets: type and length of the grouped IE.
                offset: offset.saturating_add(4).saturating_add(inner.offset),
                ..inner
            },
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            DecodeErrorKind::MandatoryMissing => "mandatory IE missing",
            DecodeErrorKind::InvalidLength => "invalid length",
            DecodeErrorKind::Incorrect => "incorrect value",
        };
        write!(f, "{what}: {} at octet {}", self.ie, self.offset)?;
        match self.rule {
            Some(rule) => write!(f, " ({rule})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Converts an offset to the type of [`DecodeError::offset`]; saturates at 65,535.
pub(crate) fn offset16(offset: usize) -> u16 {
    u16::try_from(offset).unwrap_or(u16::MAX)
}
