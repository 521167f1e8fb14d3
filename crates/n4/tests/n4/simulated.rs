//! The surroundings of a simulated node: workers and a disk, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use adit_rules::{DeltaId, RuleDelta, SessionRules};
use adit_store::{GroupNumber, OwnedRecordId, RecordChange, RecordGroup, RecordKind};
use adit_types::{Direction, Nanos, SessionIndex, Teid};

/// The workers: they run a change some time after it was handed over, in order.
#[derive(Default)]
pub(crate) struct Workers {
    pub queue: VecDeque<(Nanos, DeltaId, RuleDelta)>,
    pub running: BTreeMap<SessionIndex, SessionRules>,
}

impl Workers {
    pub(crate) fn take(&mut self, at: Nanos, id: DeltaId, delta: RuleDelta) {
        let at = self.queue.back().map_or(at, |&(last, ..)| last.max(at));
        self.queue.push_back((at, id, delta));
    }

    pub(crate) fn publish(&mut self, now: Nanos) -> Option<DeltaId> {
        if self.queue.front()?.0 > now {
            return None;
        }
        let (_, id, delta) = self.queue.pop_front()?;
        match delta.rules {
            Some(rules) => self.running.insert(delta.session, *rules),
            None => self.running.remove(&delta.session),
        };
        Some(id)
    }

    /// TEID of the downlink tunnel of the session whose UE is `ue`.
    pub(crate) fn downlink_teid(&self, ue: Ipv4Addr) -> Option<Teid> {
        let owns = |rules: &&SessionRules| rules.ue.iter().any(|a| a.v4 == Some(ue));
        let rules = self.running.values().find(owns)?;
        let far = &rules.fars[usize::from(rules.pdrs(Direction::Downlink)[0].far)];
        let tunnel = far.outer_header_creation?.tunnel()?;
        Some(tunnel.teid)
    }
}

/// The disk: it has a group some time after it was handed over, in order.
#[derive(Default)]
pub(crate) struct Disk {
    pub queue: VecDeque<(Nanos, RecordGroup)>,
    pub records: BTreeMap<(RecordKind, OwnedRecordId), Vec<u8>>,
}

impl Disk {
    pub(crate) fn take(&mut self, at: Nanos, group: RecordGroup) {
        let at = self.queue.back().map_or(at, |&(last, _)| last.max(at));
        self.queue.push_back((at, group));
    }

    /// Writes the next group, if it is due.
    pub(crate) fn write(&mut self, now: Nanos) -> Option<GroupNumber> {
        self.queue.front().filter(|(at, _)| *at <= now)?;
        let (_, group) = self.queue.pop_front()?;
        for RecordChange { kind, name, value } in group.changes {
            match value {
                Some(value) => self.records.insert((kind, name), value),
                None => self.records.remove(&(kind, name)),
            };
        }
        Some(group.number)
    }

    /// The records of a kind; sessions by ascending index.
    pub(crate) fn of(&self, kind: RecordKind) -> Vec<(OwnedRecordId, Vec<u8>)> {
        let all = self.records.iter().filter(|((of, _), _)| *of == kind);
        let mut all: Vec<_> = all.map(|((_, name), value)| (name.clone(), value.clone())).collect();
        all.sort_by_key(|(name, _)| match name {
            OwnedRecordId::Number(number) => number & 0xff_ffff,
            OwnedRecordId::Octets(_) => 0,
        });
        all
    }
}
