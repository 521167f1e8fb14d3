//! A PFCP message as a tree of IEs whose octets can be removed and whose lengths can lie.

/// Grouped IEs that the messages of these tests contain.
const GROUPED: [u16; 22] =
    [1, 2, 3, 4, 6, 7, 9, 10, 11, 13, 14, 15, 16, 17, 18, 77, 85, 86, 87, 127, 129, 130];

/// One IE of a message.
#[derive(Debug, Clone)]
pub(crate) struct IeSpan {
    pub ie_type: u16,
    /// Type of the group that contains it; zero at the top.
    pub group: u16,
    start: usize,
    end: usize,
    /// Where the IEs around it start, the outermost first.
    parents: Vec<usize>,
}

impl IeSpan {
    pub(crate) fn len(&self) -> usize {
        self.end - self.start - 4
    }

    /// True when its first octet is the message's octet `at`.
    pub(crate) fn starts_at(&self, at: usize) -> bool {
        self.start == at
    }
}

/// Octets of the header of a message.
fn header_len(message: &[u8]) -> usize {
    if message[0] & 1 == 1 { 16 } else { 8 }
}

fn u16_at(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

fn put_u16(message: &mut [u8], at: usize, value: u16) {
    message[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// All IEs of a valid message, groups before their members.
pub(crate) fn ies(message: &[u8]) -> Vec<IeSpan> {
    let mut found = Vec::new();
    walk(message, header_len(message), message.len(), 0, &[], &mut found);
    found
}

fn walk(
    message: &[u8],
    mut at: usize,
    end: usize,
    group: u16,
    up: &[usize],
    found: &mut Vec<IeSpan>,
) {
    while at < end {
        let ie_type = u16_at(message, at);
        let next = at + 4 + usize::from(u16_at(message, at + 2));
        found.push(IeSpan { ie_type, group, start: at, end: next, parents: up.to_vec() });
        if GROUPED.contains(&ie_type) {
            walk(message, at + 4, next, ie_type, &[up, &[at]].concat(), found);
        }
        at = next;
    }
    assert_eq!(at, end, "the message is in order");
}

/// The message without the IE and its siblings of the same type; with correct lengths around it.
pub(crate) fn without(message: &[u8], ie: &IeSpan) -> Vec<u8> {
    let gone = |other: &&IeSpan| other.ie_type == ie.ie_type && other.parents == ie.parents;
    let all = ies(message);
    let mut rest = message.to_vec();
    for other in all.iter().filter(gone).rev() {
        let len = u16::try_from(other.end - other.start).unwrap();
        rest.drain(other.start..other.end);
        for length_at in other.parents.iter().map(|start| start + 2).chain([2]) {
            let shorter = u16_at(&rest, length_at) - len;
            put_u16(&mut rest, length_at, shorter);
        }
    }
    rest
}

/// The message with another value in the IE's length field and nothing else changed.
pub(crate) fn with_length(message: &[u8], ie: &IeSpan, len: u16) -> Vec<u8> {
    let mut lie = message.to_vec();
    put_u16(&mut lie, ie.start + 2, len);
    lie
}

/// The message with the IE's value replaced by `value`; with correct lengths around it.
pub(crate) fn with_value(message: &[u8], ie: &IeSpan, value: &[u8]) -> Vec<u8> {
    let mut other = message.to_vec();
    other.splice(ie.start + 4..ie.end, value.iter().copied());
    put_u16(&mut other, ie.start + 2, u16::try_from(value.len()).unwrap());
    for length_at in ie.parents.iter().map(|start| start + 2).chain([2]) {
        let len = usize::from(u16_at(&other, length_at)) + value.len() - ie.len();
        put_u16(&mut other, length_at, u16::try_from(len).unwrap());
    }
    other
}

/// The message with octets behind its last IE, within its length.
pub(crate) fn with_tail(message: &[u8], tail: &[u8]) -> Vec<u8> {
    let mut longer = [message, tail].concat();
    let len = u16_at(message, 2) + u16::try_from(tail.len()).unwrap();
    put_u16(&mut longer, 2, len);
    longer
}

/// The message with another value in its header's length field.
pub(crate) fn with_message_length(message: &[u8], len: u16) -> Vec<u8> {
    let mut lie = message.to_vec();
    put_u16(&mut lie, 2, len);
    lie
}
