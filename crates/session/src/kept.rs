//! The state of a session that a store outside of this process keeps.

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
    PackedRecord, PackedRecordError, PackedRules, RecordParts, behind_version,
};
use crate::usage::UsageReport;

/// All of a session that must outlive its process, as [`KeptSession::octets`]. A later process
/// makes a [`FormerSession`] of them.
///
/// Times are readings of the clock of the node. A process that restores sessions goes on with that
/// clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSession {
    pub(crate) names: KeptNames,
    pub(crate) usage: KeptUsage,
    pub(crate) record: PackedRecord,
}

/// A session that a previous process kept: [`SessionStore::restore`](crate::SessionStore::restore)
/// makes the same session of it, in a store with the same configuration or another one.
#[derive(Debug, Clone, PartialEq)]
pub struct FormerSession {
    pub(crate) names: KeptNames,
    pub(crate) usage: KeptUsage,
    pub(crate) parts: RecordParts,
    pub(crate) rules: PackedRules,
    /// Result of the reader thread's checks; used only if the store's configuration still matches.
    pub(crate) prepared: Option<Box<PreparedSession>>,
}

/// The prepared parts of a session, whose records are linked and accepted by themselves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PreparedSession {
    pub keys: SessionKeys,
    /// Without the counters of URRs.
    pub rules: Box<SessionRules>,
}

/// The names of a session, its owners, and the keys that were chosen for it here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeptNames {
    pub up_seid: Seid,
    pub owner: OwnerId,
    pub origin: OwnerId,
    pub cp: CpFSeid,
    /// Its TEIDs that were chosen here.
    pub teids: Vec<Teid>,
    /// Its UE addresses that were chosen here.
    pub addresses: Vec<KeptAddress>,
}

/// A lookup key of a UE address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeptAddress {
    domain: DomainId,
    v4: Option<Ipv4Addr>,
    v6: Option<u64>,
}

/// The usage of a session so far. A later one takes the place of that of a [`KeptSession`] if the
/// session did not change in between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptUsage {
    /// The counts of each URR.
    pub(crate) counts: Vec<(UrrId, UsageCounts)>,
    /// The last packet of a session with a user plane inactivity timer.
    pub(crate) last: Option<Nanos>,
    pub(crate) packet_rates: Vec<KeptPacketRate>,
}

/// The packet rate of a QER: the first of several entries has the rest of the allowance, and is all
/// that release 0.1.0 reads. See [`KeptPacketRate::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct KeptPacketRate {
    pub qer: QerId,
    pub uplink: Option<PacketsLeft>,
    pub downlink: Option<PacketsLeft>,
}

packed!(KeptNames { up_seid, owner, origin, cp, teids, addresses });
packed!(CpFSeid { seid, v4, v6 });
packed!(KeptAddress { domain, v4, v6 });
packed!(KeptUsage { counts, last, packet_rates });
packed!(KeptPacketRate { qer, uplink, downlink });
packed!(PacketsLeft { packets, additional, until });

impl KeptSession {
    /// The octets to keep. The first one is [`PackedRecord::OLDEST`], the version of all but the
    /// record, which has its own.
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
    /// The session that these octets of a [`KeptSession`] are.
    ///
    /// # Errors
    /// Octets of another version, or of no session.
    pub fn from_octets(octets: &[u8]) -> Result<Self, PackedRecordError> {
        let mut rest = behind_version(octets)?;
        let mut parts = || Some((Pack::unpack(&mut rest)?, Pack::unpack(&mut rest)?));
        let (names, usage) = parts().ok_or(PackedRecordError::Malformed)?;
        let (parts, rules) = RecordParts::from_octets(rest)?;
        Ok(Self { names, usage, parts, rules, prepared: None })
    }

    /// Our identifier of the session. It contains the index.
    #[must_use]
    pub const fn up_seid(&self) -> Seid {
        self.names.up_seid
    }

    /// Who controls the session.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.names.owner
    }

    /// Replaces the usage by a later account of it.
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

    /// The octets to keep; see [`KeptSession::octets`].
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = vec![PackedRecord::OLDEST];
        self.pack(&mut octets);
        octets
    }

    /// The usage that these octets are.
    ///
    /// # Errors
    /// Octets of another version, or of no usage.
    pub fn from_octets(octets: &[u8]) -> Result<Self, PackedRecordError> {
        versioned(octets)
    }

    /// Lets the packet rates of a restored session go on where they were.
    pub(crate) fn resume_packet_rates(&self, rates: &[(QerId, PacketRateMeter)]) {
        for (id, rate) in rates {
            let entries = self.packet_rates.iter().filter(|kept| kept.qer == *id);
            let entries: Vec<KeptPacketRate> = entries.copied().collect();
            match entries.as_slice() {
                [] => {}
                [_, windows @ ..] if windows.len() == KeptPacketRate::WINDOW_ENTRIES => {
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
    /// Entries behind the first one: packets and end of the window of the plain rate, and its
    /// length in the place of the end; the same of the additional rate.
    const WINDOW_ENTRIES: usize = 4;

    /// The entries of a QER's rate at `now`.
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

    /// The windows of a direction, from the entries behind the first one.
    fn windows(entries: &[Self], of: fn(&Self) -> Option<PacketsLeft>) -> [PacketWindow; 2] {
        let at = |position: usize| entries.get(position).and_then(of).unwrap_or_default();
        [0, 2].map(|position| {
            let PacketsLeft { packets: passed, until, .. } = at(position);
            PacketWindow { until, passed, unit: at(position + 1).until }
        })
    }
}

impl UsageReport {
    /// The octets to keep; see [`KeptSession::octets`].
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = vec![PackedRecord::OLDEST];
        self.pack(&mut octets);
        octets
    }

    /// The report that these octets are.
    ///
    /// # Errors
    /// Octets of another version, or of no report.
    pub fn from_octets(octets: &[u8]) -> Result<Self, PackedRecordError> {
        versioned(octets)
    }
}

/// The value that is all of the octets behind the version.
fn versioned<T: Pack>(octets: &[u8]) -> Result<T, PackedRecordError> {
    let mut rest = behind_version(octets)?;
    let value = T::unpack(&mut rest).filter(|_| rest.is_empty());
    value.ok_or(PackedRecordError::Malformed)
}

impl KeptAddress {
    /// `None` for a key that is no UE address.
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
