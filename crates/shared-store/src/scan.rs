//! Reading all records of a kind.

use std::collections::HashSet;
use std::time::Duration;

use adit_resp::RespValue;
use adit_store::{RecordKey, RecordKind};
use adit_transport::Transport;

use crate::connection::LinkError;
use crate::keys::read_field;
use crate::pipeline::unreadable;
use crate::scripts::{number, octets};
use crate::shared_store::SharedStore;

/// Records that a server is to return at once.
const SCAN_COUNT: &[u8] = b"256";
/// Parts of a scan at most: enough for 16 million records in a table that is nearly empty.
const PARTS_MAX: usize = 1 << 20;

impl<T: Transport> SharedStore<T> {
    /// Reads all records of a kind. Servers may return a record more than once; the visitor gets it once.
    pub(crate) fn scan(
        &mut self,
        kind: RecordKind,
        visitor: &mut dyn FnMut(RecordKey<'_>, &[u8]),
    ) -> Result<(), LinkError> {
        let (mut seen, mut cursors) = (HashSet::<Box<[u8]>>::new(), HashSet::new());
        let mut cursor = 0;
        loop {
            // The lease goes on during a long read.
            self.drive().map_err(LinkError::Final)?;
            let (mut next, text) = (None, cursor.to_string());
            let key = self.keys.records(kind);
            let command = vec![&b"HSCAN"[..], key, text.as_bytes(), b"COUNT", SCAN_COUNT];
            self.link.exchange(&[command], Duration::ZERO, &mut |_, value| {
                next = read_scan(value, &mut |field, value| {
                    // What is no field of ours was put there by somebody else.
                    let Some(id) = read_field(field) else { return };
                    if seen.insert(field.into()) {
                        visitor(RecordKey { kind, id }, value);
                    }
                });
            })?;
            cursor = match next {
                Some(0) => return Ok(()),
                Some(next) => next,
                None => return Err(unreadable()),
            };
            if !cursors.insert(cursor) || cursors.len() > PARTS_MAX {
                return Err(LinkError::Lost("it never stops returning records".to_owned()));
            }
        }
    }
}

/// Hands over the records of a part of a scan. Returns where the next part begins.
fn read_scan(value: RespValue<'_>, each: &mut dyn FnMut(&[u8], &[u8])) -> Option<u64> {
    let RespValue::Array(mut parts) = value else { return None };
    let cursor = number(octets(parts.next()?)?)?;
    let RespValue::Array(mut fields) = parts.next()? else { return None };
    while let Some(field) = fields.next() {
        let (field, value) = (octets(field)?, octets(fields.next()?)?);
        each(field, value);
    }
    Some(cursor)
}
