//! Other stations that use this adit's addresses. Spec: RFC 5227 §2.4.

use std::collections::BTreeMap;
use std::net::IpAddr;

use adit_types::{InterfaceId, MacAddr, Nanos};

/// Minimum time between two defenses of an address. Spec: RFC 5227 §1.1 (DEFEND_INTERVAL).
const DEFEND_INTERVAL: Nanos = Nanos::from_secs(10);

/// Minimum time between two log lines about an address, and how long operators see a conflict.
const LOG_INTERVAL: Nanos = Nanos::from_secs(60);

/// Another station's use of an own address.
#[derive(Debug, Clone, Copy)]
struct AddressConflictRecord {
    mac: MacAddr,
    count: u64,
    seen: Nanos,
    logged: Option<Nanos>,
    defended: Option<Nanos>,
}

/// The response to a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConflictResponse {
    pub is_logged: bool,
    pub is_defended: bool,
}

/// The conflicts so far: at most one record for each own address.
#[derive(Debug, Default)]
pub(crate) struct AddressConflicts {
    records: BTreeMap<(InterfaceId, IpAddr), AddressConflictRecord>,
}

impl AddressConflicts {
    /// Notes that a station with the link-layer address `mac` uses an address of `interface`.
    /// Returns the response that is due.
    pub(crate) fn note(
        &mut self,
        now: Nanos,
        interface: InterfaceId,
        addr: IpAddr,
        mac: MacAddr,
    ) -> ConflictResponse {
        let record = self.records.entry((interface, addr)).or_insert(AddressConflictRecord {
            mac,
            count: 0,
            seen: now,
            logged: None,
            defended: None,
        });
        (record.mac, record.seen) = (mac, now);
        record.count += 1;
        let is_due = |last: &mut Option<Nanos>, interval: Nanos| {
            let is_due = last.is_none_or(|last| now.since(last) >= interval);
            if is_due {
                *last = Some(now);
            }
            is_due
        };
        ConflictResponse {
            is_logged: is_due(&mut record.logged, LOG_INTERVAL),
            is_defended: is_due(&mut record.defended, DEFEND_INTERVAL),
        }
    }

    /// Describes the conflicts of the last minute, for operators.
    pub(crate) fn warnings(&self, now: Nanos) -> Vec<String> {
        let recent =
            self.records.iter().filter(|(_, record)| now.since(record.seen) < LOG_INTERVAL);
        let warning = |((_, addr), record): (&(InterfaceId, IpAddr), &AddressConflictRecord)| {
            let AddressConflictRecord { mac, count, seen, .. } = record;
            let ago_s = now.since(*seen).0 / 1_000_000_000;
            format!("the station {mac} uses {addr} of this adit: {count} times, last {ago_s} s ago")
        };
        recent.map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_defended_every_ten_seconds_and_logged_once_a_minute() {
        let mut conflicts = AddressConflicts::default();
        let addr = "192.0.2.1".parse().unwrap();
        let (mut logged, mut defended) = (0, 0);
        for second in 0..120 {
            for part in 0..20 {
                let now = Nanos::from_millis(second * 1000 + part * 50);
                let response = conflicts.note(now, InterfaceId(0), addr, MacAddr([2; 6]));
                logged += u32::from(response.is_logged);
                defended += u32::from(response.is_defended);
            }
        }
        assert_eq!((logged, defended), (2, 12));
        let warnings = conflicts.warnings(Nanos::from_secs(121));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("2400 times"), "{warnings:?}");
        assert!(conflicts.warnings(Nanos::from_secs(181)).is_empty());
    }
}
