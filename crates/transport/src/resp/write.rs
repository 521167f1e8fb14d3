//! Writes commands and replies.

use crate::resp::value::{RespElements, RespValue};

/// Appends a command: an array of bulk strings.
///
/// Cost: no allocation if `out` has room.
pub fn write_command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    write_number(out, b'*', arguments.len());
    for argument in arguments {
        write_bulk(out, argument);
    }
}

/// Returns an upper bound of the length of a command, to check for room before it is written.
pub(crate) fn command_bytes_max(arguments: &[&[u8]]) -> usize {
    // Each length takes its type, at most 20 digits, and two line ends.
    let octets = arguments.iter().map(|argument| argument.len().saturating_add(25));
    octets.fold(23, usize::saturating_add)
}

/// Appends a reply. Null is written as in RESP2, which clients of RESP3 accept too. The text of a
/// simple string or an error is cut at the first CR or LF.
pub fn write_reply(out: &mut Vec<u8>, reply: &RespValue<'_>) {
    match reply {
        RespValue::Simple(text) => write_line(out, b'+', text),
        RespValue::Error(text) => write_line(out, b'-', text),
        RespValue::Integer(value) => write_line(out, b':', value.to_string().as_bytes()),
        RespValue::Double(value) => write_line(out, b',', value.to_string().as_bytes()),
        RespValue::Boolean(value) => write_line(out, b'#', if *value { b"t" } else { b"f" }),
        RespValue::BigNumber(digits) => write_line(out, b'(', digits),
        RespValue::Null => out.extend_from_slice(b"$-1\r\n"),
        RespValue::Bulk(octets) => write_bulk(out, octets),
        RespValue::Array(elements) => write_elements(out, b'*', elements, 1),
        RespValue::Map(elements) => write_elements(out, b'%', elements, 2),
        RespValue::Set(elements) => write_elements(out, b'~', elements, 1),
        RespValue::Push(elements) => write_elements(out, b'>', elements, 1),
    }
}

/// Appends a header, and the elements as they arrived: writing nested elements one by one would
/// need a stack.
fn write_elements(out: &mut Vec<u8>, kind: u8, elements: &RespElements<'_>, per_entry: u32) {
    let count = usize::try_from(elements.count_left() / per_entry).unwrap_or(usize::MAX);
    write_number(out, kind, count);
    out.extend_from_slice(elements.octets_left());
}

fn write_bulk(out: &mut Vec<u8>, octets: &[u8]) {
    write_number(out, b'$', octets.len());
    out.extend_from_slice(octets);
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend(text.iter().take_while(|octet| !matches!(octet, b'\r' | b'\n')));
    out.extend_from_slice(b"\r\n");
}

/// Appends a line with a number. Avoids the formatting machinery, which is slower.
fn write_number(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    for power in (0..=number.checked_ilog10().unwrap_or(0)).rev() {
        // The quotient modulo 10 fits in an octet.
        out.push(b'0' + u8::try_from(number / 10_usize.pow(power) % 10).unwrap_or(0));
    }
    out.extend_from_slice(b"\r\n");
}
