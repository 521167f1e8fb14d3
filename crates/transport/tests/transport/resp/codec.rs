//! Values written by the tests' own encoder, cut anywhere, read back; and octets that are no RESP.

use adit_transport::resp::{
    RespError, RespLimits, RespValue, ValueScanner, write_command, write_reply,
};
use proptest::prelude::*;

/// A value that owns its parts.
#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Double(f64),
    Boolean(bool),
    BigNumber(Vec<u8>),
    Null,
    Bulk(Vec<u8>),
    Array(Vec<Owned>),
    Map(Vec<Owned>),
    Set(Vec<Owned>),
    Push(Vec<Owned>),
}

impl Owned {
    fn of(value: RespValue<'_>) -> Self {
        let all =
            |elements: adit_transport::resp::RespElements<'_>| elements.map(Self::of).collect();
        match value {
            RespValue::Simple(text) => Self::Simple(text.to_vec()),
            RespValue::Error(text) => Self::Error(text.to_vec()),
            RespValue::Integer(number) => Self::Integer(number),
            RespValue::Double(number) => Self::Double(number),
            RespValue::Boolean(truth) => Self::Boolean(truth),
            RespValue::BigNumber(digits) => Self::BigNumber(digits.to_vec()),
            RespValue::Null => Self::Null,
            RespValue::Bulk(octets) => Self::Bulk(octets.to_vec()),
            RespValue::Array(elements) => Self::Array(all(elements)),
            RespValue::Map(elements) => Self::Map(all(elements)),
            RespValue::Set(elements) => Self::Set(all(elements)),
            RespValue::Push(elements) => Self::Push(all(elements)),
        }
    }

    /// Appends the value; `form` chooses among its forms on the wire.
    fn encode(&self, form: &mut u32, out: &mut Vec<u8>) {
        *form = form.rotate_left(1);
        let first = *form & 1 == 0;
        let mut line = |kind: &str, text: &[u8]| {
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        };
        let mut bulk = |kind: &str, octets: &[u8]| {
            line(kind, octets.len().to_string().as_bytes());
            line("", octets);
        };
        match self {
            Self::Simple(text) => line("+", text),
            Self::Error(text) if first => line("-", text),
            Self::Error(text) => bulk("!", text),
            Self::Integer(number) => line(":", number.to_string().as_bytes()),
            Self::Double(number) => line(",", number.to_string().as_bytes()),
            Self::Boolean(truth) => line("#", if *truth { b"t" } else { b"f" }),
            Self::BigNumber(digits) => line("(", digits),
            Self::Null => out.extend_from_slice(if first { b"_\r\n" } else { b"*-1\r\n" }),
            Self::Bulk(octets) if first => bulk("$", octets),
            Self::Bulk(octets) => bulk("=", &[b"txt:", &octets[..]].concat()),
            Self::Array(all) | Self::Map(all) | Self::Set(all) | Self::Push(all) => {
                if !first {
                    line("|", b"1");
                    line("+", b"ttl");
                    line(":", b"7");
                }
                let (kind, count) = match self {
                    Self::Array(_) => ("*", all.len()),
                    Self::Map(_) => ("%", all.len() / 2),
                    Self::Set(_) => ("~", all.len()),
                    _ => (">", all.len()),
                };
                line(kind, count.to_string().as_bytes());
                all.iter().for_each(|one| one.encode(form, out));
            }
        }
    }
}

fn values() -> impl Strategy<Value = Owned> {
    let text = || prop::collection::vec(32..127u8, 0..20);
    let leaf = prop_oneof![
        text().prop_map(Owned::Simple),
        text().prop_map(Owned::Error),
        any::<i64>().prop_map(Owned::Integer),
        (-1e9..1e9f64).prop_map(Owned::Double),
        any::<bool>().prop_map(Owned::Boolean),
        prop::collection::vec(b'0'..=b'9', 1..40).prop_map(Owned::BigNumber),
        Just(Owned::Null),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Owned::Bulk),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let many = || prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            many().prop_map(Owned::Array),
            many().prop_map(|all| Owned::Map(
                all.iter().flat_map(|one| [one.clone(), Owned::Null]).collect()
            )),
            many().prop_map(Owned::Set),
            many().prop_map(Owned::Push),
        ]
    })
}

proptest! {
    #[test]
    fn value_cut_anywhere_is_read_once_it_is_complete(
        value in values(), form in any::<u32>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut wire = Vec::new();
        value.encode(&mut form.clone(), &mut wire);
        let len = wire.len();
        wire.extend_from_slice(b"+NEXT\r\n");
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(len)).collect();
        ends.sort_unstable();
        let (mut scanner, limits) = (ValueScanner::default(), RespLimits::default());
        for end in ends {
            prop_assert_eq!(scanner.scan(&wire[..end], &limits), Ok(None));
            prop_assert_eq!(RespValue::read(&wire[..end]), Ok(None));
        }
        prop_assert_eq!(scanner.scan(&wire, &limits), Ok(Some(len)));
        let (read, behind) = RespValue::read(&wire).unwrap().unwrap();
        prop_assert_eq!(behind, b"+NEXT\r\n");
        prop_assert_eq!(Owned::of(read), value);
    }

    #[test]
    fn value_that_is_written_reads_back(value in values(), form in any::<u32>()) {
        let (mut wire, mut again) = (Vec::new(), Vec::new());
        value.encode(&mut form.clone(), &mut wire);
        let (read, _) = RespValue::read(&wire).unwrap().unwrap();
        write_reply(&mut again, &read);
        let (read, behind) = RespValue::read(&again).unwrap().unwrap();
        prop_assert!(behind.is_empty());
        prop_assert_eq!(Owned::of(read), value);
    }

    #[test]
    fn any_octets_have_a_result(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        let limits = RespLimits { value_bytes_max: 150, elements_max: 20 };
        let scanned = ValueScanner::default().scan(&octets, &limits);
        if let Ok(Some(len)) = scanned {
            let (_, behind) = RespValue::read(&octets).unwrap().unwrap();
            prop_assert_eq!(behind.len(), octets.len() - len);
            prop_assert!(len <= 150);
        }
    }
}

#[test]
fn command_is_an_array_of_bulk_strings() {
    let mut out = Vec::new();
    write_command(&mut out, &[b"SET", b"key", b""]);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
}

#[test]
fn octets_that_are_no_resp_are_refused_by_reason() {
    let limits = RespLimits { value_bytes_max: 8192, elements_max: 16 };
    let long_line = [&b"+"[..], &[b'x'; 5000]].concat();
    let cases: [(&[u8], RespError); 22] = [
        (b"x", RespError::UnknownType(b'x')),
        (b"\r\n", RespError::UnknownType(b'\r')),
        (b"+a\rb", RespError::LineEnd),
        (b"+a\nb", RespError::LineEnd),
        (&long_line, RespError::LongLine),
        (b":\r\n", RespError::Number),
        (b":1x\r\n", RespError::Number),
        (b":9223372036854775808\r\n", RespError::Number),
        (b",1.2.3\r\n", RespError::Number),
        (b"#x\r\n", RespError::Number),
        (b"(12a\r\n", RespError::Number),
        (b"_x\r\n", RespError::Number),
        (b"$-2\r\n", RespError::Number),
        (b"$+1\r\n", RespError::Number),
        (b"$?\r\n", RespError::Number),
        (b"$99999999999999999999\r\n", RespError::Number),
        (b"$3\r\nabcd\r\n", RespError::LineEnd),
        (b"=3\r\nabc\r\n", RespError::Verbatim),
        // Known from the header alone, before the octets arrive.
        (b"$8192\r\n", RespError::LargeValue(8192)),
        (b"*17\r\n", RespError::ManyElements(16)),
        (b"%8\r\n", RespError::ManyElements(16)),
        (b"%4294967295\r\n", RespError::Number),
    ];
    for (octets, error) in cases {
        let shown = String::from_utf8_lossy(&octets[..octets.len().min(30)]).into_owned();
        assert_eq!(ValueScanner::default().scan(octets, &limits), Err(error), "{shown:?}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn deep_nesting_costs_no_stack() {
    let deep = [&b"*1\r\n".repeat(200_000)[..], b":1\r\n"].concat();
    let limits = RespLimits { value_bytes_max: deep.len(), elements_max: 200_001 };
    assert_eq!(ValueScanner::default().scan(&deep, &limits), Ok(Some(deep.len())));
    let (value, _) = RespValue::read(&deep).unwrap().unwrap();
    let mut again = Vec::new();
    write_reply(&mut again, &value);
    assert_eq!(again, deep);
    let limits = RespLimits { elements_max: 200_000, ..limits };
    let refused = ValueScanner::default().scan(&deep, &limits);
    assert_eq!(refused, Err(RespError::ManyElements(200_000)));
}
