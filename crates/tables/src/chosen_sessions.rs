//! Chosen sessions: those that have, or are to get, entries of an offload with room for few.
//!
//! A chosen session gets its entries in steps, because its worker may divide the volume before a
//! limit at any time ([`FastRuleTable::allow_unchecked`]):
//!
//! 1. A *reserve* is set: the worker leaves it out when it next divides the volume.
//! 2. When every worker has observed the reserve, the session's next packet is made to pass the
//!    worker's checks, after which the worker divides the volume again.
//! 3. When the volume left to the limit, less the volume that the cells may count, is at least the
//!    reserve, the entries are put.
//!
//! Thus cells and entries together never hold more volume than is left, as long as the counters of
//! the entries are read in time. The entries are removed before less volume is left than they
//! forward between two readings. The reserve ends when their last counts are read.

use std::collections::{BTreeMap, VecDeque};

use adit_rules::{OffloadBatch, OffloadChoice, PublishedRules};
use adit_types::limits::own_usage_slot;
use adit_types::{Nanos, SessionIndex};

use crate::fast_rule::FastRuleTable;
use crate::hot_sessions::HotSessions;
use crate::publish::{Epoch, SlotWriter};
use crate::routes::Routes;

/// `RESERVE`: the reserve, and the least volume with which entries are put. `KEPT_UNITS_MIN`: the
/// least volume with which they stay. Unit: the volume that entries forward between two readings.
const RESERVE: u64 = 4;
const KEPT_UNITS_MIN: u64 = 2;
/// A session with less volume left to a limit is not chosen. Unit: as for `RESERVE`.
const CHOSEN_UNITS_MIN: u64 = 8;

/// More than the distance to any limit. Unit: octets.
const UNLIMITED: u64 = 1 << 62;

/// Most sessions in one portion.
const PORTION_MAX: u64 = 2048;

/// The publisher's state that a turn needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChoiceContext<'a> {
    pub(crate) now: Nanos,
    pub(crate) fast_rules: &'a FastRuleTable,
    pub(crate) rules: &'a SlotWriter<PublishedRules>,
    pub(crate) routes: &'a Routes,
    pub(crate) has_shared_rates: bool,
}

impl ChoiceContext<'_> {
    /// Returns the octets left to the limits of the session's own URR: zero if the session has no
    /// rules, at least `UNLIMITED` if it has no limit.
    fn left(&self, session: SessionIndex) -> u64 {
        let Some(rules) = self.rules.get(session.0 as usize) else { return 0 };
        if !rules.has_own_urr {
            return u64::MAX;
        }
        let own = own_usage_slot(self.fast_rules.len(), session);
        let Some(urr) = rules.urrs.iter().find(|urr| urr.slot == own) else { return 0 };
        let (counted, _) = self.fast_rules.counted(session);
        let distance =
            |limits: &adit_rules::UsageLimits| limits.distance(counted.ul_bytes, counted.dl_bytes);
        distance(&urr.report).min(distance(&urr.quota()))
    }

    /// Returns how many octets the entries of a session may forward from now on.
    fn allowance(&self, session: SessionIndex) -> u64 {
        let left = self.left(session);
        let cells = self.fast_rules.unchecked_bytes(session);
        match (cells, left) {
            // The worker has to process the next packet before entries may count volume.
            (0, _) => 0,
            (_, UNLIMITED..) => u64::MAX,
            _ => left.saturating_sub(cells),
        }
    }

    /// Returns how many packets a session has forwarded.
    fn pkts(&self, session: SessionIndex) -> u64 {
        let (counted, _) = self.fast_rules.counted(session);
        counted.ul_pkts.wrapping_add(counted.dl_pkts)
    }
}

/// How far a chosen session is on its way to entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChosenState {
    /// Its rules are being changed.
    Changing,
    /// Its reserve is set. All workers have observed it once this epoch has passed.
    Reserved(Epoch),
    /// The session has entries.
    Put,
}

/// The next step for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChosenStep {
    /// Put its entries, and call [`ChosenSessions::note_put`].
    Put(SessionIndex),
    /// Remove its entries, and call [`ChosenSessions::note_leaving`].
    Remove(SessionIndex),
    /// Put an entry of the session that the offload refused before.
    Retry(SessionIndex),
    /// The session was not chosen because it is close to a limit.
    TooClose,
}

/// Divides a periodic task into portions.
#[derive(Debug, Default)]
struct Portions {
    unused: u64,
}

impl Portions {
    /// Returns how much of `all` is due after `elapsed`, if all is due once in `interval`.
    fn due(&mut self, all: u64, elapsed: Nanos, interval: Nanos) -> u64 {
        let interval = interval.0.max(1);
        self.unused = self.unused.saturating_add(elapsed.0).min(interval);
        let due = u128::from(self.unused) * u128::from(all) / u128::from(interval);
        let due = u64::try_from(due).unwrap_or(all).min(all).min(PORTION_MAX);
        if all > 0 {
            let used = u128::from(due) * u128::from(interval) / u128::from(all);
            self.unused = self.unused.saturating_sub(u64::try_from(used).unwrap_or(u64::MAX));
        }
        due
    }
}

/// The chosen sessions, and the search for sessions to choose.
#[derive(Debug)]
pub(crate) struct ChosenSessions {
    choice: OffloadChoice,
    hot: HotSessions,
    states: BTreeMap<SessionIndex, ChosenState>,
    /// Sessions whose entries a batch removed, with that batch; their last counts are not read yet.
    leaving: VecDeque<(OffloadBatch, SessionIndex)>,
    scan: Portions,
    watch: Portions,
    last_scanned: u32,
    last_watched: SessionIndex,
    /// Sessions below this index may have rules.
    used: u32,
    last_turn: Option<Nanos>,
    has_new_reserves: bool,
}

impl ChosenSessions {
    pub(crate) fn new(choice: OffloadChoice, sessions: usize) -> Self {
        Self {
            choice,
            hot: HotSessions::new(choice, sessions),
            states: BTreeMap::new(),
            leaving: VecDeque::new(),
            scan: Portions::default(),
            watch: Portions::default(),
            last_scanned: 0,
            last_watched: SessionIndex(0),
            used: 0,
            last_turn: None,
            has_new_reserves: false,
        }
    }

    /// Returns the number of chosen sessions, with entries or without.
    pub(crate) fn len(&self) -> usize {
        self.hot.len()
    }

    /// True once after reserves were set: the caller ends the epoch, so that workers observe them.
    pub(crate) fn take_new_reserves(&mut self) -> bool {
        core::mem::take(&mut self.has_new_reserves)
    }

    /// Notes that the rules of a session are being changed and its entries removed.
    pub(crate) fn note_change(&mut self, session: SessionIndex) {
        self.used = self.used.max(session.0.saturating_add(1));
        if let Some(state) = self.states.get_mut(&session) {
            *state = ChosenState::Changing;
        }
    }

    /// Notes that workers run the changed rules, and that the last counts of its entries are read.
    pub(crate) fn note_changed(&mut self, session: SessionIndex, context: &ChoiceContext<'_>) {
        if context.rules.get(session.0 as usize).is_none() {
            self.states.remove(&session);
            self.hot.forget(session);
            context.fast_rules.reserve(session, 0);
        } else if self.states.contains_key(&session) {
            self.set_reserve(session, context);
        }
    }

    fn set_reserve(&mut self, session: SessionIndex, context: &ChoiceContext<'_>) {
        let is_limited = context.left(session) < UNLIMITED;
        let reserve = if is_limited { RESERVE * self.choice.watch_bytes } else { 0 };
        context.fast_rules.reserve(session, reserve);
        self.states.insert(session, ChosenState::Reserved(context.rules.next_epoch()));
        self.has_new_reserves = true;
    }

    /// Notes that the entries of a session were put, even if the offload refused them all.
    pub(crate) fn note_put(&mut self, session: SessionIndex) {
        self.states.insert(session, ChosenState::Put);
    }

    /// Notes that the entries of a session were removed in `batch`.
    pub(crate) fn note_leaving(&mut self, session: SessionIndex, batch: OffloadBatch) {
        self.states.remove(&session);
        self.hot.remove(session);
        self.leaving.push_back((batch, session));
    }

    /// Ends the reserves of sessions whose last counts are read: batches up to `passed` have
    /// passed.
    fn end_reserves(&mut self, passed: OffloadBatch, context: &ChoiceContext<'_>) {
        while let Some((_, session)) = self.leaving.pop_front_if(|(batch, _)| *batch <= passed) {
            if !self.states.contains_key(&session) {
                context.fast_rules.reserve(session, 0);
            }
        }
    }

    /// Checks a portion of the sessions, and appends the next steps to `steps`.
    pub(crate) fn turn(
        &mut self,
        passed: OffloadBatch,
        context: &ChoiceContext<'_>,
        steps: &mut Vec<ChosenStep>,
    ) {
        let elapsed = context.now.since(self.last_turn.unwrap_or(context.now));
        self.last_turn = Some(context.now);
        self.end_reserves(passed, context);
        let due = self.watch.due(self.hot.len() as u64, elapsed, self.choice.watch);
        for _ in 0..due {
            let Some(session) = self.hot.next_after(self.last_watched) else { break };
            self.last_watched = session;
            steps.extend(self.watch_one(session, context));
        }
        let due = self.scan.due(self.used.into(), elapsed, self.choice.scan);
        for _ in 0..due {
            self.last_scanned = (self.last_scanned + 1) % self.used.max(1);
            let session = SessionIndex(self.last_scanned);
            if context.rules.get(session.0 as usize).is_none() {
                continue;
            }
            if !self.hot.contains(session) {
                self.scan_one(session, context, steps);
            } else if self.states.get(&session) == Some(&ChosenState::Put) {
                steps.push(ChosenStep::Retry(session));
            }
        }
    }

    fn watch_one(
        &mut self,
        session: SessionIndex,
        context: &ChoiceContext<'_>,
    ) -> Option<ChosenStep> {
        use crate::hot_sessions::HotChange;
        let state = *self.states.get(&session)?;
        let unit = self.choice.watch_bytes;
        match state {
            ChosenState::Changing => None,
            ChosenState::Reserved(epoch) if epoch > context.rules.passed() => None,
            ChosenState::Reserved(_) if context.allowance(session) >= RESERVE * unit => {
                Some(ChosenStep::Put(session))
            }
            ChosenState::Reserved(_) if context.left(session) < RESERVE * unit => {
                Some(ChosenStep::Remove(session))
            }
            ChosenState::Put if context.allowance(session) < KEPT_UNITS_MIN * unit => {
                Some(ChosenStep::Remove(session))
            }
            ChosenState::Reserved(_) | ChosenState::Put => {
                if state != ChosenState::Put {
                    context.fast_rules.check_next(session);
                }
                let change = self.hot.measure(session, context.pkts(session), context.now);
                (change == HotChange::Left).then_some(ChosenStep::Remove(session))
            }
        }
    }

    fn scan_one(
        &mut self,
        session: SessionIndex,
        context: &ChoiceContext<'_>,
        steps: &mut Vec<ChosenStep>,
    ) {
        use crate::hot_sessions::HotChange;
        let change = self.hot.measure(session, context.pkts(session), context.now);
        let HotChange::Entered { instead_of } = change else { return };
        steps.extend(instead_of.map(ChosenStep::Remove));
        if self.leaving.iter().any(|(_, leaving)| *leaving == session) {
            return self.hot.remove(session);
        }
        if context.left(session) < CHOSEN_UNITS_MIN * self.choice.watch_bytes {
            self.hot.remove(session);
            return steps.push(ChosenStep::TooClose);
        }
        self.set_reserve(session, context);
    }
}
