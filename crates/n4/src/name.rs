//! Names in IEs that are octets on the wire and text in the configuration.

use adit_pfcp::ie::NetworkInstance;

/// Returns a network instance as text; on the wire it may be text or labels of a domain name.
///
/// INTEROP: SMFs use either form for a DNN-like name. Invalid octets become replacement characters,
/// so they match no configured name. Spec: TS 29.244 §8.2.4; RFC 1035 §3.1.
pub(crate) fn network_instance(ie: NetworkInstance<'_>) -> Box<str> {
    match labels(ie.0) {
        Some(name) => name.into(),
        None => text(ie.0),
    }
}

/// Converts octets to text; invalid UTF-8 becomes replacement characters.
pub(crate) fn text(octets: &[u8]) -> Box<str> {
    String::from_utf8_lossy(octets).into()
}

/// Joins labels with dots. `None` unless the octets are exactly a sequence of labels of printable
/// characters, with or without the empty label at the end.
pub(crate) fn labels(mut octets: &[u8]) -> Option<String> {
    let mut name = String::new();
    while let Some((&len, rest)) = octets.split_first() {
        if len == 0 {
            return (rest.is_empty() && !name.is_empty()).then_some(name);
        }
        let (label, rest) = rest.split_at_checked(len.into())?;
        if len > 63 || !label.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(core::str::from_utf8(label).ok()?);
        octets = rest;
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_instance_is_read_as_text_and_as_labels() {
        let read = |octets: &[u8]| network_instance(NetworkInstance(octets)).to_string();
        assert_eq!(read(b"internet"), "internet");
        assert_eq!(read(b"\x08internet"), "internet");
        assert_eq!(read(b"\x08internet\x03foo\x00"), "internet.foo");
        assert_eq!(read(b""), "");
        assert_eq!(read(b"\x09internet"), "\tinternet", "a length that does not fit is text");
        assert_eq!(read(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }
}
