//! Units: a value without elements, or the header of a value with elements.

use crate::error::RespError;
use crate::limits::RespLimits;

/// A unit at the start of some octets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit<'a> {
    /// What it is.
    pub kind: UnitKind,
    /// Its octets, with everything up to the next unit.
    pub len: usize,
    /// Text of a line, or the octets of a bulk string; without its number for an aggregate.
    pub payload: &'a [u8],
    /// Units that belong to the same value and follow it.
    pub children: u32,
}

/// The type of a unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum UnitKind {
    Simple,
    Error,
    Integer(i64),
    Double(f64),
    Boolean(bool),
    BigNumber,
    Null,
    Bulk,
    Verbatim,
    Array,
    Map,
    Set,
    Push,
    /// Pairs in front of the value that they describe.
    Attribute,
}

/// Octets that cannot be a unit yet, but may be the start of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartialUnit {
    /// The least number of octets that it will have.
    pub len_min: usize,
}

impl<'a> Unit<'a> {
    /// The unit that `input` starts with.
    ///
    /// # Errors
    /// The octets are no RESP.
    pub(crate) fn read(input: &'a [u8]) -> Result<Result<Self, PartialUnit>, RespError> {
        let Some((&first, rest)) = input.split_first() else {
            return Ok(Err(PartialUnit { len_min: 1 }));
        };
        if !b"+-:,#_($!=*%~>|".contains(&first) {
            return Err(RespError::UnknownType(first));
        }
        let Some(line) = line(rest)? else {
            return Ok(Err(PartialUnit { len_min: input.len() + 1 }));
        };
        let line_len = 1 + line.len() + 2;
        let unit = |kind| Ok(Ok(Self { kind, len: line_len, payload: line, children: 0 }));
        match first {
            b'+' => unit(UnitKind::Simple),
            b'-' => unit(UnitKind::Error),
            b':' => unit(UnitKind::Integer(integer(line)?)),
            b',' => unit(UnitKind::Double(double(line)?)),
            b'#' => unit(UnitKind::Boolean(boolean(line)?)),
            b'(' => big_number(line).and_then(|()| unit(UnitKind::BigNumber)),
            b'_' if line.is_empty() => unit(UnitKind::Null),
            b'_' => Err(RespError::Number),
            b'$' | b'!' | b'=' => Self::bulk(first, input, line_len, line),
            _ => Self::aggregate(first, line_len, line),
        }
    }

    fn bulk(
        first: u8,
        input: &'a [u8],
        start: usize,
        line: &[u8],
    ) -> Result<Result<Self, PartialUnit>, RespError> {
        if first == b'$' && line == b"-1" {
            return Ok(Ok(Self { kind: UnitKind::Null, len: start, payload: &[], children: 0 }));
        }
        let payload_len = usize::try_from(length(line)?).map_err(|_| RespError::Number)?;
        let len = start
            .checked_add(payload_len)
            .and_then(|end| end.checked_add(2))
            .ok_or(RespError::Number)?;
        let Some(octets) = input.get(start..len) else {
            return Ok(Err(PartialUnit { len_min: len }));
        };
        let Some(payload) = octets.strip_suffix(b"\r\n") else { return Err(RespError::LineEnd) };
        let kind = match first {
            b'$' => UnitKind::Bulk,
            b'!' => UnitKind::Error,
            _ if payload.get(3) == Some(&b':') => UnitKind::Verbatim,
            _ => return Err(RespError::Verbatim),
        };
        Ok(Ok(Self { kind, len, payload, children: 0 }))
    }

    fn aggregate(
        first: u8,
        len: usize,
        line: &[u8],
    ) -> Result<Result<Self, PartialUnit>, RespError> {
        let unit = |kind, children| Ok(Ok(Self { kind, len, payload: &[], children }));
        if first == b'*' && line == b"-1" {
            return unit(UnitKind::Null, 0);
        }
        let count = length(line)?;
        let in_pairs = count.checked_mul(2).ok_or(RespError::Number);
        match first {
            b'*' => unit(UnitKind::Array, count),
            b'~' => unit(UnitKind::Set, count),
            b'>' => unit(UnitKind::Push, count),
            b'%' => unit(UnitKind::Map, in_pairs?),
            // The value that it describes follows as one more unit.
            _ => unit(UnitKind::Attribute, in_pairs?.checked_add(1).ok_or(RespError::Number)?),
        }
    }
}

/// The octets before CR LF; `None` while the line is incomplete.
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

/// A length in decimal digits.
fn length(line: &[u8]) -> Result<u32, RespError> {
    if line.is_empty() || !line.iter().all(u8::is_ascii_digit) {
        return Err(RespError::Number);
    }
    text(line)?.parse().map_err(|_| RespError::Number)
}

fn integer(line: &[u8]) -> Result<i64, RespError> {
    text(line)?.parse().map_err(|_| RespError::Number)
}

fn double(line: &[u8]) -> Result<f64, RespError> {
    text(line)?.parse().map_err(|_| RespError::Number)
}

fn boolean(line: &[u8]) -> Result<bool, RespError> {
    match line {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(RespError::Number),
    }
}

fn big_number(line: &[u8]) -> Result<(), RespError> {
    let digits = line.strip_prefix(b"-").or_else(|| line.strip_prefix(b"+")).unwrap_or(line);
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if valid { Ok(()) } else { Err(RespError::Number) }
}

fn text(line: &[u8]) -> Result<&str, RespError> {
    core::str::from_utf8(line).map_err(|_| RespError::Number)
}
