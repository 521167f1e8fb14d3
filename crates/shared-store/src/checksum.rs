//! Checksums of records, and reports of records whose checksums do not match.

use adit_store::{RecordId, RecordKey, StoreError};

use crate::keys::{KIND_KEYS, read_name};
use crate::printable::printable;

/// How many damaged records a report names at most; it counts all.
const DAMAGED_NAMED_MAX: usize = 16;

/// Returns the CRC-32C of `parts` one after the other: a record's name, then its value in a group,
/// which begins with `=`; a removal has no value.
pub(crate) fn checksum(parts: &[&[u8]]) -> [u8; 4] {
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)).to_be_bytes()
}

/// Records that a server has lost or returns with other content.
#[derive(Debug, Default)]
pub(crate) struct RecordDamage {
    named: Vec<String>,
    count: u64,
}

impl RecordDamage {
    /// Notes that `count` records are missing, the named ones included.
    pub(crate) fn set_missing(&mut self, count: u64) {
        self.count = self.count.max(count);
    }

    /// Counts the record of this name, with the fault `is_what`: "is missing" or "is damaged".
    pub(crate) fn note(&mut self, name: &[u8], is_what: &str) {
        self.count += 1;
        if self.named.len() < DAMAGED_NAMED_MAX {
            self.named.push(format!("{} {is_what}", record_text(name)));
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns one sentence for each named record, and one for the others.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut all = self.named.clone();
        let rest = self.count.saturating_sub(u64::try_from(all.len()).unwrap_or(u64::MAX));
        match (rest, all.is_empty()) {
            (0, _) => {}
            (1, true) => all.push("1 record is missing".to_owned()),
            (rest, true) => all.push(format!("{rest} records are missing")),
            (rest, false) => all.push(format!("and {rest} more")),
        }
        all
    }

    pub(crate) fn error(&self) -> StoreError {
        StoreError::DamagedRecords(self.sentences())
    }
}

/// Returns the name of a record for operators: SEIDs in hexadecimal.
fn record_text(name: &[u8]) -> String {
    let Some(RecordKey { kind, id }) = read_name(name) else {
        return format!("the record \"{}\"", printable(name));
    };
    let word = KIND_KEYS.get(usize::from(kind as u8) - 1).copied().unwrap_or_default();
    match id {
        RecordId::Number(number) => format!("the record of {word} {number:#x}"),
        RecordId::Octets(octets) => format!("the record of {word} \"{}\"", printable(octets)),
    }
}
