//! Views of complete values.

use crate::error::RespError;
use crate::limits::RespLimits;
use crate::scan::ValueScanner;
use crate::unit::{Unit, UnitKind};

/// A value. Attributes in front of it are left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RespValue<'a> {
    /// A simple string, such as `OK`.
    Simple(&'a [u8]),
    /// An error: code and text, such as `ERR unknown command`.
    Error(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// A floating-point number (RESP3).
    Double(f64),
    /// A boolean (RESP3).
    Boolean(bool),
    /// Decimal digits of an integer of any size (RESP3).
    BigNumber(&'a [u8]),
    /// No value: null of RESP3, or the null bulk string or null array of RESP2.
    Null,
    /// A string of octets, or the text of a verbatim string.
    Bulk(&'a [u8]),
    /// Elements in order.
    Array(RespElements<'a>),
    /// Keys and values in turn (RESP3).
    Map(RespElements<'a>),
    /// Elements without order (RESP3).
    Set(RespElements<'a>),
    /// A message that answers no command (RESP3).
    Push(RespElements<'a>),
}

impl<'a> RespValue<'a> {
    /// The value that `octets` start with, and the octets behind it; `None` if it is incomplete.
    ///
    /// # Errors
    /// The octets are no RESP.
    pub fn read(octets: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, RespError> {
        let mut octets = octets;
        loop {
            let Ok(unit) = Unit::read(octets)? else { return Ok(None) };
            let behind = octets.get(unit.len..).unwrap_or_default();
            let mut elements = RespElements { octets: behind, left: unit.children };
            let value = match unit.kind {
                UnitKind::Attribute => {
                    elements.left -= 1;
                    let Some(described) = elements.behind()? else { return Ok(None) };
                    octets = described;
                    continue;
                }
                UnitKind::Simple => Self::Simple(unit.payload),
                UnitKind::Error => Self::Error(unit.payload),
                UnitKind::Integer(value) => Self::Integer(value),
                UnitKind::Double(value) => Self::Double(value),
                UnitKind::Boolean(value) => Self::Boolean(value),
                UnitKind::BigNumber => Self::BigNumber(unit.payload),
                UnitKind::Null => Self::Null,
                UnitKind::Bulk => Self::Bulk(unit.payload),
                UnitKind::Verbatim => Self::Bulk(unit.payload.get(4..).unwrap_or_default()),
                UnitKind::Array => Self::Array(elements),
                UnitKind::Map => Self::Map(elements),
                UnitKind::Set => Self::Set(elements),
                UnitKind::Push => Self::Push(elements),
            };
            return Ok(elements.behind()?.map(|behind| (value, behind)));
        }
    }
}

/// The elements of a complete value; those of a map are keys and values in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RespElements<'a> {
    octets: &'a [u8],
    left: u32,
}

impl<'a> RespElements<'a> {
    /// Elements that are left.
    #[must_use]
    pub fn count_left(&self) -> u32 {
        self.left
    }

    /// The elements that are left, as they arrived.
    pub(crate) fn octets(&self) -> &'a [u8] {
        let behind = self.behind().ok().flatten().map_or(0, <[u8]>::len);
        self.octets.get(..self.octets.len() - behind).unwrap_or_default()
    }

    /// The octets behind the last element; `None` if elements are incomplete.
    fn behind(self) -> Result<Option<&'a [u8]>, RespError> {
        let mut octets = self.octets;
        for _ in 0..self.left {
            let Some(len) = len(octets)? else { return Ok(None) };
            octets = octets.get(len..).unwrap_or_default();
        }
        Ok(Some(octets))
    }
}

impl<'a> Iterator for RespElements<'a> {
    type Item = RespValue<'a>;

    fn next(&mut self) -> Option<RespValue<'a>> {
        self.left = self.left.checked_sub(1)?;
        // A value hands out elements only after all of them were read, so none is incomplete or invalid.
        let (value, behind) = RespValue::read(self.octets).ok().flatten()?;
        self.octets = behind;
        Some(value)
    }
}

/// Octets of the value that `octets` start with, with its attributes.
fn len(octets: &[u8]) -> Result<Option<usize>, RespError> {
    let unlimited = RespLimits { value_bytes_max: usize::MAX, elements_max: u32::MAX };
    ValueScanner::default().scan(octets, &unlimited)
}
