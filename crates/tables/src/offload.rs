//! The publisher's side of an [`Offload`]: which entries it has, what it waits for, and what it refused.

use std::borrow::Cow;

use adit_rules::{
    FastRuleForwarding, NetworkPart, Offload, OffloadBatch, OffloadRefusal, OffloadRule,
    OffloadTotals, SessionKey,
};
use adit_types::{Direction, InterfaceId, InterfaceSet, MacAddr, NextHopIndex, SessionIndex};

use crate::routes::Routes;

/// Refusals that are counted by their words; the words of further ones are not kept.
const REFUSALS_MAX: usize = 32;

/// What an offload has and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffloadReport {
    /// Sessions with an entry.
    pub sessions: u64,
    /// Entries, one per session and direction.
    pub entries: u64,
    /// Rules that the offload refused, by its words.
    pub refusals: Vec<(Cow<'static, str>, u64)>,
    /// What it forwarded.
    pub totals: OffloadTotals,
}

/// An offload, and what the publisher knows of it.
#[derive(Debug)]
pub(crate) struct OffloadWriter {
    offload: Box<dyn Offload>,
    /// By session: one bit per direction that has an entry.
    entries: Vec<u8>,
    /// Sets of interfaces whose gateways the offload knows.
    known_egress: Vec<InterfaceSet>,
    /// The last batch that was closed.
    closed: OffloadBatch,
    /// Packets on their way may see something older than the last change.
    has_changes: bool,
    /// The same of changes since the last [`OffloadWriter::take_awaited`].
    is_awaited: bool,
    sessions: u64,
    count: u64,
    refusals: Vec<(Cow<'static, str>, u64)>,
}

impl OffloadWriter {
    /// An offload without entries, for `sessions_max` sessions and these routes.
    pub(crate) fn new(offload: Box<dyn Offload>, sessions_max: usize, routes: &Routes) -> Self {
        let mut writer = Self {
            offload,
            entries: vec![0; sessions_max],
            known_egress: Vec::new(),
            closed: OffloadBatch::default(),
            has_changes: false,
            is_awaited: false,
            sessions: 0,
            count: 0,
            refusals: Vec::new(),
        };
        for at in 0..=u16::MAX {
            writer.set_networks(NetworkPart::V4(at), routes);
            writer.set_networks(NetworkPart::V6(at), routes);
        }
        // Without entries no packet depends on them.
        (writer.has_changes, writer.is_awaited) = (false, false);
        writer
    }

    /// Removes the entries of a session.
    pub(crate) fn remove(&mut self, session: SessionIndex) {
        let entries = self.entries.get_mut(session.0 as usize).filter(|entries| **entries != 0);
        let Some(entries) = entries else { return };
        for direction in [Direction::Uplink, Direction::Downlink] {
            if *entries & bit(direction) != 0 {
                self.offload.remove(session, direction);
                self.count -= 1;
            }
        }
        *entries = 0;
        self.sessions -= 1;
        self.note_change();
    }

    const fn note_change(&mut self) {
        (self.has_changes, self.is_awaited) = (true, true);
    }

    /// Puts the entry of one direction of a session, unless the offload refuses it.
    pub(crate) fn put(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        rule: &OffloadRule<'_>,
        routes: &Routes,
    ) {
        let Some(entries) = self.entries.get_mut(session.0 as usize) else { return };
        if let FastRuleForwarding::Uplink { egress, .. } = rule.rule.forwarding
            && !self.known_egress.contains(&egress)
        {
            self.known_egress.push(egress);
            for gateway in 1..=u8::MAX {
                let next_hop = routes.block_gateway(egress, gateway);
                self.offload.set_gateway(egress, gateway, next_hop);
            }
        }
        match self.offload.put(session, direction, rule) {
            Ok(()) => {
                self.sessions += u64::from(*entries == 0);
                self.count += 1;
                *entries |= bit(direction);
            }
            Err(OffloadRefusal(words)) => self.refuse(words),
        }
    }

    fn refuse(&mut self, words: Cow<'static, str>) {
        let has_room = self.refusals.len() < REFUSALS_MAX;
        match self.refusals.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None if has_room => self.refusals.push((words, 1)),
            None => {}
        }
    }

    pub(crate) fn add_key(&mut self, key: SessionKey, session: SessionIndex) {
        self.offload.add_key(key, session);
    }

    pub(crate) fn remove_key(&mut self, key: SessionKey, session: SessionIndex) {
        self.offload.remove_key(key, session);
    }

    pub(crate) fn set_next_hop(
        &mut self,
        index: NextHopIndex,
        hop: Option<(InterfaceId, MacAddr)>,
    ) {
        self.offload.set_next_hop(index, hop);
    }

    /// Tells the offload the present gateway of a part of the data networks.
    pub(crate) fn set_networks(&mut self, part: NetworkPart, routes: &Routes) {
        self.offload.set_networks(part, routes.gateway_of(part));
        self.note_change();
    }

    /// The batch of the changes since the last call that packets on their way may not see.
    pub(crate) fn take_awaited(&mut self) -> Option<OffloadBatch> {
        let is_awaited = core::mem::take(&mut self.is_awaited);
        is_awaited.then_some(OffloadBatch(self.closed.0 + 1))
    }

    /// Ends the batch if there are changes, and returns the last one that has passed.
    pub(crate) fn advance(&mut self) -> OffloadBatch {
        if self.has_changes {
            self.closed = self.offload.close();
            self.has_changes = false;
        }
        self.offload.passed()
    }

    /// What it forwarded.
    pub(crate) fn totals(&self) -> OffloadTotals {
        self.offload.totals()
    }

    pub(crate) fn report(&self) -> OffloadReport {
        OffloadReport {
            sessions: self.sessions,
            entries: self.count,
            refusals: self.refusals.clone(),
            totals: self.offload.totals(),
        }
    }
}

const fn bit(direction: Direction) -> u8 {
    match direction {
        Direction::Uplink => 1,
        Direction::Downlink => 2,
    }
}
