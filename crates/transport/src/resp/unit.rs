//! Units: a value without elements, or the header of a value with elements.

use std::str::FromStr;

use crate::resp::error::RespError;
use crate::resp::limits::RespLimits;
use crate::resp::value::{RespElements, RespValue};

/// The unit at the start of some octets.
pub(crate) struct Unit<'a> {
    /// The value that the unit is or begins. `None` if the unit is incomplete, and for attributes,
    /// whose last child is the value that they describe.
    pub value: Option<RespValue<'a>>,
    /// Length up to the next unit; while the unit is incomplete, the least length that it can have.
    /// Unit: octets.
    pub len: usize,
    /// Number of values that follow the unit and are its elements.
    pub children: u32,
}

impl<'a> Unit<'a> {
    /// Reads the unit at the start of `input`. It is incomplete if its length exceeds that of
    /// `input`.
    ///
    /// # Errors
    /// The octets are no RESP.
    pub(crate) fn read(input: &'a [u8]) -> Result<Self, RespError> {
        let partial = Self { value: None, len: input.len() + 1, children: 0 };
        let Some((&first, rest)) = input.split_first() else { return Ok(partial) };
        if !b"+-:,#_($!=*%~>|".contains(&first) {
            return Err(RespError::UnknownType(first));
        }
        let Some(line) = line(rest)? else { return Ok(partial) };
        let len = 1 + line.len() + 2;
        let value = match first {
            b'$' | b'*' if line == b"-1" => RespValue::Null,
            b'$' | b'!' | b'=' => return string(first, input, len, line),
            b'*' | b'%' | b'~' | b'>' | b'|' => return aggregate(first, input, len, line),
            b'+' => RespValue::Simple(line),
            b'-' => RespValue::Error(line),
            b':' => RespValue::Integer(number(line)?),
            b',' => RespValue::Double(number(line)?),
            b'#' if line == b"t" => RespValue::Boolean(true),
            b'#' if line == b"f" => RespValue::Boolean(false),
            b'(' if is_big_number(line) => RespValue::BigNumber(line),
            b'_' if line.is_empty() => RespValue::Null,
            _ => return Err(RespError::Number),
        };
        Ok(Self { value: Some(value), len, children: 0 })
    }
}

/// Reads a string of the announced length; its octets start at `start`.
fn string<'a>(
    first: u8,
    input: &'a [u8],
    start: usize,
    line: &[u8],
) -> Result<Unit<'a>, RespError> {
    let payload_len = usize::try_from(length(line)?).map_err(|_| RespError::Number)?;
    let len = start.checked_add(payload_len).and_then(|end| end.checked_add(2));
    let len = len.ok_or(RespError::Number)?;
    let Some(octets) = input.get(start..len) else {
        return Ok(Unit { value: None, len, children: 0 });
    };
    let Some(payload) = octets.strip_suffix(b"\r\n") else { return Err(RespError::LineEnd) };
    let value = match (first, payload) {
        (b'$', _) => RespValue::Bulk(payload),
        (b'!', _) => RespValue::Error(payload),
        (_, [_, _, _, b':', text @ ..]) => RespValue::Bulk(text),
        _ => return Err(RespError::Verbatim),
    };
    Ok(Unit { value: Some(value), len, children: 0 })
}

/// Reads the header of a value whose elements start at `len`.
fn aggregate<'a>(
    first: u8,
    input: &'a [u8],
    len: usize,
    line: &[u8],
) -> Result<Unit<'a>, RespError> {
    let count = length(line)?;
    let per_entry = if matches!(first, b'%' | b'|') { 2 } else { 1 };
    let left = count.checked_mul(per_entry).ok_or(RespError::Number)?;
    let elements = RespElements { octets: input.get(len..).unwrap_or_default(), left };
    let value = match first {
        b'*' => RespValue::Array(elements),
        b'%' => RespValue::Map(elements),
        b'~' => RespValue::Set(elements),
        b'>' => RespValue::Push(elements),
        _ => {
            let children = left.checked_add(1).ok_or(RespError::Number)?;
            return Ok(Unit { value: None, len, children });
        }
    };
    Ok(Unit { value: Some(value), len, children: left })
}

/// Returns the octets before CR LF; `None` while the line is incomplete.
fn line(input: &[u8]) -> Result<Option<&[u8]>, RespError> {
    let seen = input.get(..RespLimits::LINE_BYTES_MAX).unwrap_or(input);
    let Some(end) = seen.iter().position(|octet| matches!(octet, b'\r' | b'\n')) else {
        return if seen.len() < input.len() { Err(RespError::LongLine) } else { Ok(None) };
    };
    match input.get(end..) {
        Some([b'\r', b'\n', ..]) => Ok(input.get(..end)),
        Some([b'\r']) => Ok(None),
        _ => Err(RespError::LineEnd),
    }
}

/// Parses a length in decimal digits, without a sign.
fn length(line: &[u8]) -> Result<u32, RespError> {
    if !line.first().is_some_and(u8::is_ascii_digit) {
        return Err(RespError::Number);
    }
    number(line)
}

fn number<T: FromStr>(line: &[u8]) -> Result<T, RespError> {
    let text = std::str::from_utf8(line).ok();
    text.and_then(|text| text.parse().ok()).ok_or(RespError::Number)
}

fn is_big_number(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or_else(|| line.strip_prefix(b"+")).unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
