//! Reads all records of a kind, and compares them with their checksums.

use std::collections::HashSet;
use std::time::Duration;

use adit_store::{RecordKey, RecordKind};
use adit_transport::Transport;
use adit_transport::resp::RespValue;

use crate::checksum::{RecordDamage, checksum};
use crate::connection::LinkError;
use crate::keys::read_field;
use crate::pipeline::unreadable_answer;
use crate::scan_findings::ScanFindings;
use crate::scripts::{Script, ScriptAnswer, number, octets};
use crate::shared_store::SharedStore;

/// About how many records a server returns at once.
const SCAN_COUNT: &[u8] = b"256";
/// Maximum of parts of a scan: enough for 16 million records in a nearly empty hash table.
const SCAN_PARTS_MAX: usize = 1 << 20;

/// A record as a server returns it.
struct ScannedRecord<'a> {
    key: RecordKey<'a>,
    /// The octet of the record's kind, and its field in the hash.
    name: Vec<u8>,
    value: &'a [u8],
    /// The checksum of the name and the value as they were returned.
    checksum: [u8; 4],
    /// True if the server has another checksum for the record, or none although all records have
    /// one. Records that release 0.1.0 has written have none; then checksums are not compared.
    is_damaged: bool,
}

/// The position of a scan.
#[derive(Debug, Default)]
struct ScanCursor {
    at: u64,
    seen: HashSet<u64>,
}

impl ScanCursor {
    /// Continues at `next`. False if the scan is complete.
    fn advance(&mut self, next: Option<u64>) -> Result<bool, LinkError> {
        self.at = next.ok_or_else(unreadable_answer)?;
        if self.at == 0 {
            return Ok(false);
        }
        match self.seen.insert(self.at) && self.seen.len() <= SCAN_PARTS_MAX {
            true => Ok(true),
            false => Err(LinkError::Lost("it never stops returning records".to_owned())),
        }
    }
}

impl<T: Transport> SharedStore<T> {
    /// Reads all records of a kind. A server may return a record more than once; the visitor gets
    /// each once, and no damaged ones.
    pub(crate) fn scan(
        &mut self,
        kind: RecordKind,
        findings: &mut ScanFindings,
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), LinkError> {
        let (mut seen, mut cursor) = (HashSet::new(), ScanCursor::default());
        loop {
            let next = self.scan_part(kind, cursor.at, &mut |record| {
                if seen.contains(&record.name) {
                    return;
                }
                match record.is_damaged {
                    true => findings.damage.note(&record.name, "is damaged"),
                    false => visitor(record.key, record.value),
                }
                seen.insert(record.name);
            })?;
            if let Some(gathered) = &mut findings.gathered {
                self.gather_groups(gathered)?;
            }
            if !cursor.advance(next)? {
                return Ok(());
            }
        }
    }

    /// Adds checksums to all records, after an adit of release 0.1.0 has written some without.
    pub(crate) fn add_checksums(&mut self) -> Result<(), LinkError> {
        for kind in RecordKind::ALL {
            let mut cursor = ScanCursor::default();
            loop {
                let mut added = Vec::new();
                let next = self.scan_part(kind, cursor.at, &mut |record| {
                    added.push((record.name, record.checksum));
                })?;
                if !added.is_empty() {
                    self.send_checksums(&added)?;
                }
                if !cursor.advance(next)? {
                    break;
                }
            }
        }
        self.send_checksums(&[])
    }

    fn send_checksums(&mut self, added: &[(Vec<u8>, [u8; 4])]) -> Result<(), LinkError> {
        let epoch = self.epoch.unwrap_or(0).to_string();
        let mut command = self.scripts.command(Script::AddChecksums, &self.keys);
        command.extend([epoch.as_bytes(), self.holder.as_bytes()]);
        command.extend(added.iter().flat_map(|(name, checksum)| [name.as_slice(), checksum]));
        match self.link.run_script(command)? {
            Some(ScriptAnswer::Written { .. }) => Ok(()),
            Some(ScriptAnswer::Fenced { holder }) => Err(LinkError::Final(self.fence(holder))),
            _ => Err(unreadable_answer()),
        }
    }

    /// Searches for records that are missing: those that have a checksum only.
    pub(crate) fn missing_records(&mut self) -> Result<RecordDamage, LinkError> {
        let (mut missing, mut cursor) = (RecordDamage::default(), ScanCursor::default());
        loop {
            let text = cursor.at.to_string();
            let mut command = self.scripts.command(Script::Missing, &self.keys);
            command.extend([text.as_bytes(), SCAN_COUNT]);
            let mut next = None;
            self.link.call_server(&[command], Duration::ZERO, &mut |_, value| {
                let RespValue::Array(words) = value else { return };
                let mut words = words.filter_map(octets);
                let count = words.next().and_then(number);
                next = words.next().and_then(number);
                words.for_each(|name| missing.note(name, "is missing"));
                missing.set_missing(count.unwrap_or(0));
            })?;
            if !cursor.advance(next)? {
                return Ok(missing);
            }
        }
    }

    /// Calls `each` for the next part of the records of a kind, and returns where the following
    /// part begins.
    fn scan_part(
        &mut self,
        kind: RecordKind,
        at: u64,
        each: &mut dyn FnMut(ScannedRecord<'_>),
    ) -> Result<Option<u64>, LinkError> {
        // Keeps the lease alive during a long read.
        self.drive().map_err(LinkError::Final)?;
        let (digit, at) = ([b'0' + kind as u8], at.to_string());
        let mut command = self.scripts.command(Script::Scan, &self.keys);
        command.extend([&digit, at.as_bytes(), SCAN_COUNT]);
        let mut next = None;
        self.link.call_server(&[command], Duration::ZERO, &mut |_, value| {
            next = read_part(kind, value, each);
        })?;
        Ok(next)
    }
}

/// Parses a part of a scan, and calls `each` for its records. Returns where the next part begins.
fn read_part(
    kind: RecordKind,
    value: RespValue<'_>,
    each: &mut dyn FnMut(ScannedRecord<'_>),
) -> Option<u64> {
    let RespValue::Array(mut parts) = value else { return None };
    let cursor = number(octets(parts.next()?)?)?;
    let RespValue::Array(mut fields) = parts.next()? else { return None };
    let RespValue::Array(mut checksums) = parts.next()? else { return None };
    let are_known = checksums.count_left() > 0;
    while let Some(field) = fields.next() {
        let (field, value) = (octets(field)?, octets(fields.next()?)?);
        let found = if are_known { Some(octets(checksums.next()?)) } else { None };
        // A malformed field was written by another program: ignored.
        let Some(id) = read_field(field) else { continue };
        let name = [&[b'0' + kind as u8], field].concat();
        let checksum = checksum(&[&name, b"=", value]);
        let is_damaged = found.is_some_and(|found| found != Some(&checksum));
        let key = RecordKey { kind, id };
        each(ScannedRecord { key, name, value, checksum, is_damaged });
    }
    Some(cursor)
}
