//! The keys of a shared store, and the names of records in its hashes and groups.

use adit_store::{RecordId, RecordKey, RecordKind};

/// The version of the format of records and keys.
pub const FORMAT_VERSION: u32 = 1;

/// All keys of the records of one name: the hash of the state (`format`, `epoch`, `holder`, `last`
/// …), the lease, the request for a handover, the stream of groups, one hash per kind of records,
/// ordered by the octet of the kind, and the hash of the records' checksums. All keys have the same
/// hash tag, so that a Cluster keeps them on one server.
#[derive(Debug)]
pub(crate) struct StoreKeys {
    /// In the order in which scripts get them as `KEYS`.
    all: Vec<Vec<u8>>,
}

/// The keys that precede the hashes of records.
const FIXED_KEYS: [&str; 4] = ["state", "lease", "handover", "groups"];
/// Names of the hashes of records: index 0 is the kind with octet 1.
pub(crate) const KIND_KEYS: [&str; 8] =
    ["node", "association", "pfds", "session", "usage", "report", "answer", "standby"];
/// Name of the hash that has the checksum of each record.
const CHECKSUMS_KEY: &str = "checksums";
/// The number of keys, as the argument of a script.
pub(crate) const KEY_COUNT: &[u8] = b"13";

impl StoreKeys {
    pub(crate) fn new(name: &str) -> Self {
        let key = |part: &&str| format!("adit:{{{name}}}:{part}").into_bytes();
        Self { all: FIXED_KEYS.iter().chain(&KIND_KEYS).chain([&CHECKSUMS_KEY]).map(key).collect() }
    }

    /// Returns all keys, for a script.
    pub(crate) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(Vec::as_slice)
    }

    pub(crate) fn state(&self) -> &[u8] {
        self.at(0)
    }

    pub(crate) fn lease(&self) -> &[u8] {
        self.at(1)
    }

    pub(crate) fn handover(&self) -> &[u8] {
        self.at(2)
    }

    pub(crate) fn groups(&self) -> &[u8] {
        self.at(3)
    }

    fn at(&self, index: usize) -> &[u8] {
        self.all.get(index).map_or(&[], Vec::as_slice)
    }
}

/// Appends the name of a record: a digit for the kind, and the field in the hash of its kind, which
/// is `#` and a hexadecimal number, or `=` and octets.
pub(crate) fn write_name(out: &mut Vec<u8>, key: RecordKey<'_>) {
    out.push(b'0' + key.kind as u8);
    match key.id {
        RecordId::Number(number) => out.extend_from_slice(format!("#{number:016x}").as_bytes()),
        RecordId::Octets(octets) => {
            out.push(b'=');
            out.extend_from_slice(octets);
        }
    }
}

/// Parses the name of a record. `None` if it is malformed.
pub(crate) fn read_name(name: &[u8]) -> Option<RecordKey<'_>> {
    let (&digit, field) = name.split_first()?;
    let kind = RecordKind::ALL.into_iter().find(|kind| b'0' + *kind as u8 == digit)?;
    Some(RecordKey { kind, id: read_field(field)? })
}

/// Parses a field name of a hash of records: the identifier of the record within its kind. `None`
/// if it is malformed.
pub(crate) fn read_field(field: &[u8]) -> Option<RecordId<'_>> {
    match field.split_first()? {
        (b'#', digits) if digits.len() == 16 => {
            let number = u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
            Some(RecordId::Number(number))
        }
        (b'=', octets) if (1..=255).contains(&octets.len()) => Some(RecordId::Octets(octets)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_keeps_its_name() {
        for kind in RecordKind::ALL {
            for id in [RecordId::Number(0), RecordId::Number(u64::MAX), RecordId::Octets(b"#1\0")] {
                let mut name = Vec::new();
                write_name(&mut name, RecordKey { kind, id });
                assert_eq!(read_name(&name), Some(RecordKey { kind, id }));
            }
        }
        for name in
            [&b""[..], b"4", b"9#0000000000000001", b"4#1", b"4=", b"4x1", b"4#000000000000000g"]
        {
            assert_eq!(read_name(name), None);
        }
    }

    #[test]
    fn keys_of_a_name_share_its_hash_tag() {
        let keys = StoreKeys::new("upf-1");
        assert!(keys.all().all(|key| key.starts_with(b"adit:{upf-1}:")));
        assert_eq!(KEY_COUNT, keys.all().count().to_string().as_bytes());
        // Index 4 on: the hashes of records, ordered by the octet of the kind.
        let of_kind = |kind: RecordKind| keys.at(FIXED_KEYS.len() + usize::from(kind as u8) - 1);
        assert_eq!(of_kind(RecordKind::Node), b"adit:{upf-1}:node");
        assert_eq!(of_kind(RecordKind::Answer), b"adit:{upf-1}:answer");
        assert_eq!(keys.all().last(), Some(&b"adit:{upf-1}:checksums"[..]));
    }
}
