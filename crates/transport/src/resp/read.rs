//! Reads values. The last value may not have arrived completely.

use crate::resp::error::RespError;
use crate::resp::limits::RespLimits;
use crate::resp::unit::Unit;
use crate::resp::value::{RespElements, RespValue};

/// Finds the end of a value that arrives in pieces.
///
/// Memory: three numbers, for any nesting. A value ends when all units that its headers announced
/// have arrived, so a count of missing units replaces a stack.
#[derive(Debug)]
pub struct ValueScanner {
    /// Length of the complete units. Unit: octets.
    scanned: usize,
    /// Number of units that the value still lacks.
    missing: u32,
    /// Number of units announced so far.
    announced: u32,
}

impl Default for ValueScanner {
    fn default() -> Self {
        Self::of(1)
    }
}

impl ValueScanner {
    /// Creates a scanner for `values` consecutive values.
    const fn of(values: u32) -> Self {
        Self { scanned: 0, missing: values, announced: values }
    }

    /// Returns the length of the value at the start of `input`; `None` while it is incomplete. Call
    /// it again with the same octets followed by those that have arrived since. After it has
    /// returned a length, it is ready for the next value.
    ///
    /// Cost: complete units are read once.
    ///
    /// # Errors
    /// The octets are no RESP, or the value exceeds `limits`. The latter is found as soon as a
    /// header announces it.
    pub fn scan(&mut self, input: &[u8], limits: &RespLimits) -> Result<Option<usize>, RespError> {
        while self.missing > 0 {
            let unit = Unit::read(input.get(self.scanned..).unwrap_or_default())?;
            let scanned = self.scanned.saturating_add(unit.len);
            if scanned > limits.value_bytes_max {
                return Err(RespError::LargeValue(limits.value_bytes_max));
            }
            if scanned > input.len() {
                return Ok(None);
            }
            self.scanned = scanned;
            let announced = self.announced.checked_add(unit.children);
            self.announced = announced
                .filter(|count| *count <= limits.elements_max)
                .ok_or(RespError::ManyElements(limits.elements_max))?;
            self.missing = self.missing - 1 + unit.children;
        }
        let len = self.scanned;
        *self = Self::default();
        Ok(Some(len))
    }
}

impl<'a> RespValue<'a> {
    /// Reads the value at the start of `octets`; returns it and the octets that follow. `None` if
    /// it is incomplete.
    ///
    /// # Errors
    /// The octets are no RESP.
    pub fn read(octets: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, RespError> {
        let mut octets = octets;
        loop {
            let unit = Unit::read(octets)?;
            let Some(rest) = octets.get(unit.len..) else { return Ok(None) };
            // The last child of attributes is the value that they describe, so it is not skipped.
            let skipped = unit.children - u32::from(unit.value.is_none());
            let Some(behind) = behind(rest, skipped)? else { return Ok(None) };
            match unit.value {
                Some(value) => return Ok(Some((value, behind))),
                None => octets = behind,
            }
        }
    }
}

impl<'a> RespElements<'a> {
    /// Returns the octets of the remaining elements, as they arrived.
    pub(crate) fn octets_left(&self) -> &'a [u8] {
        let behind = behind(self.octets, self.left).ok().flatten().map_or(0, <[u8]>::len);
        self.octets.get(..self.octets.len() - behind).unwrap_or_default()
    }
}

impl<'a> Iterator for RespElements<'a> {
    type Item = RespValue<'a>;

    fn next(&mut self) -> Option<RespValue<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Only complete and valid values have elements, so none fails here.
        let (value, behind) = RespValue::read(self.octets).ok().flatten()?;
        self.octets = behind;
        Some(value)
    }
}

/// Returns the octets that follow `values` values; `None` if the values are incomplete.
fn behind(octets: &[u8], values: u32) -> Result<Option<&[u8]>, RespError> {
    let unlimited = RespLimits { value_bytes_max: usize::MAX, elements_max: u32::MAX };
    let len = ValueScanner::of(values).scan(octets, &unlimited)?;
    Ok(len.and_then(|len| octets.get(len..)))
}
