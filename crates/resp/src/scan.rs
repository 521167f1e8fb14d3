//! The end of a value that arrives in parts.

use crate::error::RespError;
use crate::limits::RespLimits;
use crate::unit::{PartialUnit, Unit};

/// Finds the end of a value.
///
/// Memory: three numbers, whatever the nesting. A value ends when the units that its headers announced are
/// there, so a count of missing units replaces a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueScanner {
    /// Octets of complete units.
    scanned: usize,
    /// Units that the value still lacks.
    missing: u32,
    /// Units announced so far.
    announced: u32,
}

impl Default for ValueScanner {
    fn default() -> Self {
        Self { scanned: 0, missing: 1, announced: 1 }
    }
}

impl ValueScanner {
    /// The length of the value that `input` starts with; `None` while it is incomplete. Call it with the same
    /// octets and what has arrived behind them. After a length it is ready for the next value.
    ///
    /// Cost: complete units are read once.
    ///
    /// # Errors
    /// The octets are no RESP, or the value exceeds `limits`, which is noticed as soon as a header says so.
    pub fn scan(&mut self, input: &[u8], limits: &RespLimits) -> Result<Option<usize>, RespError> {
        let large = RespError::LargeValue(limits.value_bytes_max);
        while self.missing > 0 {
            let unit = match Unit::read(input.get(self.scanned..).unwrap_or_default())? {
                Ok(unit) => unit,
                Err(PartialUnit { len_min }) => {
                    let fits = self.scanned.saturating_add(len_min) <= limits.value_bytes_max;
                    return if fits { Ok(None) } else { Err(large) };
                }
            };
            self.scanned += unit.len;
            if self.scanned > limits.value_bytes_max {
                return Err(large);
            }
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
