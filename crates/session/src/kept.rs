//! The state of a session as a store outside of this process keeps it.

use core::net::Ipv4Addr;

use adit_rules::{
    PacketRateMeter, PacketWindow, PacketsLeft, SessionKey, SessionRules, UsageCounts,
};
use adit_types::{Direction, DomainId, Nanos, QerId, Seid, Teid, UrrId};

use crate::cp_function::{CpFSeid, OwnerId};
use crate::index::resume;
use crate::keys::SessionKeys;
use crate::pack::{Pack, packed};
use crate::packed_record::{
    PackedRecord, PackedRecordError, PackedRules, RecordParts, after_version,
};
use crate::usage::UsageReport;

/// All of a session that must survive the process, stored as [`KeptSession::octets`]. A later
/// process makes a [`FormerSession`] from them.
///
/// Times are readings of the node's clock, which runs on across processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSession {
    pub(crate) names: KeptIdentity,
    pub(crate) usage: KeptUsage,
    pub(crate) record: PackedRecord,
}

/// A session that a previous process kept. [`SessionStore::restore`](crate::SessionStore::restore)
/// makes the same session from it, even in a store with another configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct FormerSession {
    pub(crate) names: KeptIdentity,
    pub(crate) usage: KeptUsage,
    pub(crate) parts: RecordParts,
    pub(crate) rules: PackedRules,
    /// Result of the reader thread's checks; used only if the store's configuration still matches.
    pub(crate) prepared: Option<Box<PreparedSession>>,
}

/// The keys and rules of a session that passed the checks which concern no other session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PreparedSession {
    pub keys: SessionKeys,
    /// The rules, without the usage slots and limits of URRs.
    pub rules: Box<SessionRules>,
}

/// The identifiers of a session, its owners, and the TEIDs and UE addresses that we chose for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeptIdentity {
    pub up_seid: Seid,
    pub owner: OwnerId,
    pub origin: OwnerId,
    pub cp: CpFSeid,
    /// The session's TEIDs that we chose.
    pub teids: Vec<Teid>,
    /// The session's UE addresses that we chose.
    pub addresses: Vec<KeptAddress>,
}

/// A UE address as a lookup key: exactly one family is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeptAddress {
    domain: DomainId,
    v4: Option<Ipv4Addr>,
    v6: Option<u64>,
}

/// The usage of a session so far. It replaces the usage in a [`KeptSession`] that was kept earlier,
/// if the session did not change in between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptUsage {
    /// The counts of each URR.
    pub(crate) counts: Vec<(UrrId, UsageCounts)>,
    /// When the last packet of a session with a user plane inactivity timer arrived.
    pub(crate) last: Option<Nanos>,
    pub(crate) packet_rates: Vec<KeptPacketRate>,
}

/// A part of the packet rate of a QER, which takes several entries. The first entry has the packets
/// left, and is the only one that release 0.1.0 reads. See [`KeptPacketRate::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KeptPacketRate {
    pub qer: QerId,
    pub uplink: Option<PacketsLeft>,
    pub downlink: Option<PacketsLeft>,
}

packed!(KeptIdentity { up_seid, owner, origin, cp, teids, addresses });
packed!(CpFSeid { seid, v4, v6 });
packed!(KeptAddress { domain, v4, v6 });
packed!(KeptUsage { counts, last, packet_rates });
packed!(KeptPacketRate { qer, uplink, downlink });
packed!(PacketsLeft { packets, additional, until });

impl KeptSession {
    /// Returns the octets to keep. The first octet is [`PackedRecord::OLDEST`], the version of all
    /// parts but the record, which has its own version.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = vec![PackedRecord::OLDEST];
        self.names.pack(&mut octets);
        self.usage.pack(&mut octets);
        octets.extend_from_slice(self.record.octets());
        octets
    }
}

impl FormerSession {
    /// Parses the octets of a [`KeptSession`].
    ///
    /// # Errors
    /// [`PackedRecordError`] if the octets have another version or are not a session.
    pub fn from_octets(octets: &[u8]) -> Result<Self, PackedRecordError> {
        let mut rest = after_version(octets)?;
        let mut parts = || Some((Pack::unpack(&mut rest)?, Pack::unpack(&mut rest)?));
        let (names, usage) = parts().ok_or(PackedRecordError::Malformed)?;
        let (parts, rules) = RecordParts::from_octets(rest)?;
        Ok(Self { names, usage, parts, rules, prepared: None })
    }

    /// Returns our SEID of the session, which contains the index.
    #[must_use]
    pub const fn up_seid(&self) -> Seid {
        self.names.up_seid
    }

    /// Returns the owner, who controls the session.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.names.owner
    }

    /// Replaces the usage by `later`, which was kept after it.
    pub fn set_usage(&mut self, later: KeptUsage) {
        self.usage = later;
    }
}

impl KeptUsage {
    /// True if there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_absent()
    }

    /// Returns the octets to keep; see [`KeptSession::octets`].
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = vec![PackedRecord::OLDEST];
        self.pack(&mut octets);
        octets
    }

    /// Parses the octets of a usage.
    ///
    /// # Errors
    /// [`PackedRecordError`] if the octets have another version or are not a usage.
    pub fn from_octets(octets: &[u8]) -> Result<Self, PackedRecordError> {
        unpack_versioned(octets)
    }

    /// Continues the packet rates of a restored session from their kept state.
    pub(crate) fn resume_packet_rates(&self, rates: &[(QerId, PacketRateMeter)]) {
        for (id, rate) in rates {
            let entries = self.packet_rates.iter().filter(|kept| kept.qer == *id);
            let entries: Vec<KeptPacketRate> = entries.copied().collect();
            match entries.as_slice() {
                [] => {}
                [_, windows @ ..] if windows.len() == KeptPacketRate::WINDOW_ENTRY_COUNT => {
                    let uplink = KeptPacketRate::windows(windows, |kept| kept.uplink);
                    let downlink = KeptPacketRate::windows(windows, |kept| kept.downlink);
                    rate.set_windows(Direction::Uplink, uplink);
                    rate.set_windows(Direction::Downlink, downlink);
                }
                [left, ..] => resume(rate, [left.uplink, left.downlink]),
            }
        }
    }
}

impl KeptPacketRate {
    /// How many entries follow the first one: for the plain rate, one with packets and end of the
    /// window, one with its length in place of the end; then the same of the additional rate.
    const WINDOW_ENTRY_COUNT: usize = 4;

    /// Makes the entries of a QER's rate at `now`.
    pub(crate) fn of(qer: QerId, rate: &PacketRateMeter, now: Nanos) -> [Self; 5] {
        let both = [Direction::Uplink, Direction::Downlink];
        let [uplink, downlink] = both.map(|of| rate.left(of, now));
        let windows = both.map(|of| rate.windows(of, now));
        let entry = |part: fn([PacketWindow; 2]) -> (u16, Nanos)| {
            let [uplink, downlink] = windows.map(|windows| {
                let (packets, until) = part(windows);
                let allowance = PacketsLeft { packets, additional: None, until };
                (allowance != PacketsLeft::default()).then_some(allowance)
            });
            Self { qer, uplink, downlink }
        };
        [
            Self { qer, uplink, downlink },
            entry(|[plain, _]| (plain.passed, plain.until)),
            entry(|[plain, _]| (0, plain.unit)),
            entry(|[_, additional]| (additional.passed, additional.until)),
            entry(|[_, additional]| (0, additional.unit)),
        ]
    }

    /// Returns the windows of a direction, from the entries that follow the first one.
    fn windows(entries: &[Self], of: fn(&Self) -> Option<PacketsLeft>) -> [PacketWindow; 2] {
        let at = |position: usize| entries.get(position).and_then(of).unwrap_or_default();
        [0, 2].map(|position| {
            let PacketsLeft { packets: passed, until, .. } = at(position);
            PacketWindow { until, passed, unit: at(position + 1).until }
        })
    }
}

impl UsageReport {
    /// Returns the octets to keep; see [`KeptSession::octets`].
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = vec![PackedRecord::OLDEST];
        self.pack(&mut octets);
        octets
    }

    /// Parses the octets of a report.
    ///
    /// # Errors
    /// [`PackedRecordError`] if the octets have another version or are not a report.
    pub fn from_octets(octets: &[u8]) -> Result<Self, PackedRecordError> {
        unpack_versioned(octets)
    }
}

/// Parses a version and a value that takes all octets after it.
fn unpack_versioned<T: Pack>(octets: &[u8]) -> Result<T, PackedRecordError> {
    let mut rest = after_version(octets)?;
    let value = T::unpack(&mut rest).filter(|_| rest.is_empty());
    value.ok_or(PackedRecordError::Malformed)
}

impl KeptAddress {
    /// Returns `None` for a key that is not a UE address.
    pub(crate) fn of(key: SessionKey) -> Option<Self> {
        match key {
            SessionKey::UeIpv4(domain, addr) => Some(Self { domain, v4: Some(addr), v6: None }),
            SessionKey::UeIpv6(domain, upper) => Some(Self { domain, v4: None, v6: Some(upper) }),
            SessionKey::Teid(_) | SessionKey::Framed(..) => None,
        }
    }

    pub(crate) fn key(&self) -> Option<SessionKey> {
        let v4 = self.v4.map(|addr| SessionKey::UeIpv4(self.domain, addr));
        v4.or_else(|| self.v6.map(|upper| SessionKey::UeIpv6(self.domain, upper)))
    }
}
