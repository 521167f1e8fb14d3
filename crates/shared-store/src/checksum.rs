//! Checksums of records, and reports of those that do not match.

use adit_store::{RecordId, RecordKey, StoreError};

use crate::keys::{KINDS, read_name};
use crate::printable::printable;

/// Damaged records that are named; all are counted.
const NAMED_MAX: usize = 16;

/// CRC-32C of the parts of a name and of its value in a group, which begins with `=`; a removal has
/// none.
pub(crate) fn checksum(parts: &[&[u8]]) -> [u8; 4] {
    parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)).to_be_bytes()
}

/// Records that a server has lost, or gives back differently.
#[derive(Debug, Default)]
pub(crate) struct RecordDamage {
    named: Vec<String>,
    count: u64,
}

impl RecordDamage {
    /// So many records are missing, named ones among them.
    pub(crate) fn set_missing(&mut self, count: u64) {
        self.count = self.count.max(count);
    }

    /// The record of this name `is_what`: missing, or different from what was written.
    pub(crate) fn note(&mut self, name: &[u8], is_what: &str) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("{} {is_what}", shown(name)));
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// In one sentence each.
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

/// The name of a record in an operator's words: SEIDs in hexadecimal.
fn shown(name: &[u8]) -> String {
    let Some(RecordKey { kind, id }) = read_name(name) else {
        return format!("the record \"{}\"", printable(name));
    };
    let word = KINDS.get(usize::from(kind as u8) - 1).copied().unwrap_or_default();
    match id {
        RecordId::Number(number) => format!("the record of {word} {number:#x}"),
        RecordId::Octets(octets) => format!("the record of {word} \"{}\"", printable(octets)),
    }
}
