//! The publisher's side of an [`Offload`]: its entries, pending changes, and refusals.

use std::borrow::Cow;

use adit_rules::{
    FastRuleForwarding, NetworkPart, Offload, OffloadBatch, OffloadNotice, OffloadRefusal,
    OffloadRule, OffloadTotals, SessionKey,
};
use adit_types::{Direction, InterfaceId, InterfaceSet, MacAddr, NextHopIndex, SessionIndex};

use crate::chosen_sessions::{ChoiceContext, ChosenSessions, ChosenStep};
use crate::fast_rule::FastRuleTable;
use crate::routes::Routes;

/// Most distinct texts of refusals that are counted; refusals with further texts are not.
const REFUSALS_MAX: usize = 32;

/// The entries and counts of an offload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffloadReport {
    /// The kind of the offload.
    pub name: &'static str,
    /// Number of sessions with an entry.
    pub sessions: u64,
    /// Number of entries; a session has at most one per direction.
    pub entries: u64,
    /// Sessions that are chosen, with entries or still without, if the offload has room for few;
    /// otherwise `None`.
    pub chosen_sessions: Option<u64>,
    /// How many rules the offload refused, by the text of the refusal.
    pub refusals: Vec<(Cow<'static, str>, u64)>,
    /// The traffic that the offload forwarded.
    pub totals: OffloadTotals,
}

/// Most entries of chosen sessions that are put in one turn.
const PUTS_PER_TURN: usize = 16;

/// An offload, and the publisher's state about it.
#[derive(Debug)]
pub(crate) struct OffloadWriter {
    offload: Box<dyn Offload>,
    /// By session: one bit per direction that has an entry.
    entries: Vec<u8>,
    /// Sets of egress interfaces whose gateways the offload has.
    known_egress: Vec<InterfaceSet>,
    /// The last batch of changes that was closed.
    closed: OffloadBatch,
    /// True if there are changes since the last closed batch, which packets may not see yet.
    has_changes: bool,
    /// True if there are changes since the last [`OffloadWriter::take_awaited`].
    is_awaited: bool,
    sessions: u64,
    count: u64,
    refusals: Vec<(Cow<'static, str>, u64)>,
    /// The chosen sessions, if the offload has room for few.
    chosen: Option<ChosenSessions>,
    /// Set while all packets to data networks are left to the workers. Once this batch has passed,
    /// the offload gets the present routes.
    changes_networks: Option<OffloadBatch>,
    /// Next steps for chosen sessions.
    steps: Vec<ChosenStep>,
    /// Sessions that are left to the workers, once for each reason.
    withheld: Vec<SessionIndex>,
}

impl OffloadWriter {
    /// Wraps an offload without entries, for `sessions_max` sessions and `routes`.
    pub(crate) fn new(offload: Box<dyn Offload>, sessions_max: usize, routes: &Routes) -> Self {
        let choice = offload.choice();
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
            chosen: choice.map(|choice| ChosenSessions::new(choice, sessions_max)),
            changes_networks: None,
            steps: Vec::new(),
            withheld: Vec::new(),
        };
        writer.set_all_networks(|part| routes.gateway_of(part));
        // Without entries no packet depends on these changes.
        (writer.has_changes, writer.is_awaited) = (false, false);
        writer
    }

    /// True if the offload has room for all sessions, so that none is chosen.
    pub(crate) const fn takes_all(&self) -> bool {
        self.chosen.is_none()
    }

    /// Leaves a session to the workers until [`OffloadWriter::release`] is called.
    pub(crate) fn withhold(&mut self, session: SessionIndex) {
        self.withheld.push(session);
        if self.entries.get(session.0 as usize).is_some_and(|entries| *entries != 0) {
            match self.takes_all() {
                true => self.remove(session),
                false => self.leave(session),
            }
        }
    }

    /// Undoes one [`OffloadWriter::withhold`]. Returns true if the caller should publish the rules
    /// of the session again to give it entries.
    pub(crate) fn release(&mut self, session: SessionIndex) -> bool {
        if let Some(at) = self.withheld.iter().position(|of| *of == session) {
            self.withheld.swap_remove(at);
        }
        self.takes_all() && !self.withheld.contains(&session)
    }

    /// Removes the entries of a session whose rules change.
    pub(crate) fn note_change(&mut self, session: SessionIndex) {
        if let Some(chosen) = &mut self.chosen {
            chosen.note_change(session);
        }
        self.remove(session);
    }

    /// Notes that workers run the changed rules of a session.
    pub(crate) fn note_changed(&mut self, session: SessionIndex, context: &ChoiceContext<'_>) {
        if let Some(chosen) = &mut self.chosen {
            chosen.note_changed(session, context);
        }
    }

    /// Continues the choice of sessions. Returns true if the caller has to end the epoch.
    pub(crate) fn turn(&mut self, context: &ChoiceContext<'_>) -> bool {
        self.offload.turn(context.now);
        while let Some(notice) = self.offload.take_notice() {
            match notice {
                OffloadNotice::Refused(OffloadRefusal(words)) => self.refuse(words),
                OffloadNotice::Lost(session, direction) => self.note_lost(session, direction),
            }
        }
        let Some(chosen) = &mut self.chosen else { return false };
        if self.changes_networks.is_some() {
            // Without the gateways of data networks, entries cannot be put.
            return false;
        }
        let mut steps = core::mem::take(&mut self.steps);
        chosen.turn(self.offload.passed(), context, &mut steps);
        let mut puts = 0;
        steps.retain(|step| match step {
            ChosenStep::Put(_) | ChosenStep::Retry(_) if puts >= PUTS_PER_TURN => false,
            ChosenStep::Put(session) => {
                puts += 1;
                self.put_chosen(*session, context);
                false
            }
            ChosenStep::Retry(session) => {
                puts += self.retry(*session, context);
                false
            }
            ChosenStep::Remove(session) => {
                self.leave(*session);
                false
            }
            ChosenStep::TooClose => {
                self.refuse("the session is close to a volume limit".into());
                false
            }
        });
        self.steps = steps;
        self.chosen.as_mut().is_some_and(ChosenSessions::take_new_reserves)
    }

    fn put_chosen(&mut self, session: SessionIndex, context: &ChoiceContext<'_>) {
        for direction in [Direction::Uplink, Direction::Downlink] {
            if let Some(rule) = written_rule(context.fast_rules, session, direction) {
                let has_shared_rates = context.has_shared_rates;
                let rule = OffloadRule { rule: &rule, is_limited: false, has_shared_rates };
                self.put(session, direction, &rule, context.routes);
            }
        }
        match self.entries.get(session.0 as usize) {
            Some(1..) => self.chosen.as_mut().into_iter().for_each(|of| of.note_put(session)),
            // One of the entries may have been put in part.
            _ => self.leave(session),
        }
    }

    /// Puts the entry of a chosen session that the offload refused, if there is one: its device may
    /// have room now. Returns the number of attempts. Does not count a further refusal.
    fn retry(&mut self, session: SessionIndex, context: &ChoiceContext<'_>) -> usize {
        let held = self.entries.get(session.0 as usize).copied().unwrap_or_default();
        if held == 0 {
            // The session was removed from the chosen ones in this turn.
            return 0;
        }
        let missing = |direction: &Direction| held & bit(*direction) == 0;
        let mut attempts = 0;
        for direction in [Direction::Uplink, Direction::Downlink].into_iter().filter(missing) {
            if let Some(rule) = written_rule(context.fast_rules, session, direction) {
                let has_shared_rates = context.has_shared_rates;
                let rule = OffloadRule { rule: &rule, is_limited: false, has_shared_rates };
                // Even a refused put may have changed the entry for a moment.
                self.note_change_of_entries();
                if self.offload.put(session, direction, &rule).is_ok() {
                    self.note_entry(session, direction);
                }
                attempts += 1;
            }
        }
        attempts
    }

    /// Notes that the offload has one more entry.
    fn note_entry(&mut self, session: SessionIndex, direction: Direction) {
        let Some(entries) = self.entries.get_mut(session.0 as usize) else { return };
        self.sessions += u64::from(*entries == 0);
        self.count += 1;
        *entries |= bit(direction);
    }

    /// Removes the entries of a session, which is no longer chosen.
    fn leave(&mut self, session: SessionIndex) {
        self.remove(session);
        self.note_change_of_entries();
        let batch = OffloadBatch(self.closed.0 + 1);
        if let Some(chosen) = &mut self.chosen {
            chosen.note_leaving(session, batch);
        }
    }

    /// Handles an entry that the offload lost: removes both until the session is chosen again.
    fn note_lost(&mut self, session: SessionIndex, direction: Direction) {
        let Some(entries) = self.entries.get_mut(session.0 as usize) else { return };
        if *entries & bit(direction) != 0 {
            *entries &= !bit(direction);
            self.count -= 1;
            self.sessions -= u64::from(*entries == 0);
            self.leave(session);
        }
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
        self.note_change_of_entries();
    }

    const fn note_change_of_entries(&mut self) {
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
        if self.entries.len() <= session.0 as usize || self.withheld.contains(&session) {
            return;
        }
        if let FastRuleForwarding::Uplink { egress, .. } = rule.rule.forwarding
            && !self.known_egress.contains(&egress)
        {
            self.known_egress.push(egress);
            self.set_gateways(egress, routes);
        }
        match self.offload.put(session, direction, rule) {
            Ok(()) => self.note_entry(session, direction),
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

    pub(crate) fn limit_tunnels(&mut self, mtu_bytes: u16) {
        self.offload.limit_tunnels(mtu_bytes);
    }

    pub(crate) fn set_next_hop(
        &mut self,
        index: NextHopIndex,
        hop: Option<(InterfaceId, MacAddr)>,
    ) {
        self.offload.set_next_hop(index, hop);
    }

    /// Sets all gateways of the offload for packets that leave through `egress`.
    fn set_gateways(&mut self, egress: InterfaceSet, routes: &Routes) {
        for gateway in 1..=u8::MAX {
            let next_hop = routes.block_gateway(egress, gateway);
            self.offload.set_gateway(egress, gateway, next_hop);
        }
    }

    /// Sets the gateways of all numbers, unless all are about to be set.
    pub(crate) fn set_all_gateways(&mut self, routes: &Routes) {
        if self.changes_networks.is_none() {
            for egress in self.known_egress.clone() {
                self.set_gateways(egress, routes);
            }
            self.note_change_of_entries();
        }
    }

    /// Sets the present gateway of a part of the data networks, unless all are about to be set.
    pub(crate) fn set_networks(&mut self, part: NetworkPart, routes: &Routes) {
        if self.changes_networks.is_none() {
            self.offload.set_networks(part, routes.gateway_of(part));
            self.note_change_of_entries();
        }
    }

    fn set_all_networks(&mut self, gateway_of: impl Fn(NetworkPart) -> u8) {
        for at in 0..=u16::MAX {
            for part in [NetworkPart::V4(at), NetworkPart::V6(at)] {
                self.offload.set_networks(part, gateway_of(part));
            }
        }
        self.note_change_of_entries();
    }

    /// Leaves all packets to data networks to the workers until
    /// [`OffloadWriter::restore_networks`], because the routes have changed.
    pub(crate) fn leave_networks(&mut self) {
        self.set_all_networks(|_| 0);
        self.changes_networks = Some(OffloadBatch(self.closed.0 + 1));
    }

    /// Sets the present routes if `passed` shows that no packet sees previous ones any more.
    /// Returns whether it did.
    pub(crate) fn restore_networks(&mut self, passed: OffloadBatch, routes: &Routes) -> bool {
        let has_passed = self.changes_networks.take_if(|batch| *batch <= passed).is_some();
        if has_passed {
            self.set_all_gateways(routes);
            self.set_all_networks(|part| routes.gateway_of(part));
        }
        has_passed
    }

    /// Returns the batch that has all changes since the last call; `None` if there are none.
    /// Packets on their way may not see these changes until the batch has passed.
    pub(crate) fn take_awaited(&mut self) -> Option<OffloadBatch> {
        let is_awaited = core::mem::take(&mut self.is_awaited);
        is_awaited.then_some(match self.has_changes {
            true => OffloadBatch(self.closed.0 + 1),
            false => self.closed,
        })
    }

    /// Closes the batch if there are changes, and returns the last batch that has passed.
    pub(crate) fn advance(&mut self) -> OffloadBatch {
        if self.has_changes {
            self.closed = self.offload.close();
            self.has_changes = false;
        }
        self.offload.passed()
    }

    /// Returns the traffic that the offload forwarded.
    pub(crate) fn totals(&self) -> OffloadTotals {
        self.offload.totals()
    }

    pub(crate) fn report(&self) -> OffloadReport {
        OffloadReport {
            name: self.offload.name(),
            sessions: self.sessions,
            entries: self.count,
            chosen_sessions: self.chosen.as_ref().map(|chosen| chosen.len() as u64),
            refusals: self.refusals.clone(),
            totals: self.offload.totals(),
        }
    }
}

/// Returns the fast rule in the cell, in its form for IPv4 packets; `None` if there is none.
fn written_rule(
    fast_rules: &FastRuleTable,
    session: SessionIndex,
    direction: Direction,
) -> Option<adit_rules::FastRule> {
    fast_rules.cell_ref(session, direction)?.read()?.to_ipv4_rule(direction)
}

const fn bit(direction: Direction) -> u8 {
    match direction {
        Direction::Uplink => 1,
        Direction::Downlink => 2,
    }
}
