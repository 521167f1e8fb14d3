//! Changes of sessions beside traffic: handovers, idle and active UEs, sessions that come and go.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use adit_pfcp::Message;
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::bulk::requests::{FarModification, deleted, deletion, modification, modified};
use crate::bulk::{SessionsConfig, UpfSessionIds};
use crate::exchange::{Exchange, Procedure, ProcedureReport};
use crate::identity::SmfIdentity;
use crate::smf::LabSmf;

/// What changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChurnPattern {
    /// The downlink tunnel goes to the next gNB.
    Handover,
    /// Downlink packets are buffered, and forwarded again after a time.
    Idle,
    /// UpfSessionIds without traffic are deleted and established again.
    Recreate,
}

/// UpfSessionIds that change one after the other, at a rate. Each has one request in flight at most.
#[derive(Debug)]
pub struct Churn {
    exchange: Exchange,
    work: ChurnJob,
}

/// One change of one session.
#[derive(Debug, Clone, Copy)]
struct SessionUpdateStep {
    session: u32,
    /// It undoes the first.
    is_second: bool,
}

#[derive(Debug)]
struct ChurnJob {
    pattern: ChurnPattern,
    config: SessionsConfig,
    identity: SmfIdentity,
    sessions: UpfSessionIds,
    /// First session that changes.
    first: u32,
    /// Which of those that change are away from their first state, or lost.
    away: Vec<bool>,
    away_count: u32,
    cursor: usize,
    /// Changed once, and when the second change is due.
    waiting: VecDeque<(Instant, u32)>,
    idle: Duration,
    /// Requests that are not answered, by index.
    open: HashMap<u32, SessionUpdateStep>,
    /// How often each session was changed; gNBs are taken in turn.
    moves: Vec<u32>,
    /// No further first change.
    closing: bool,
}

impl Churn {
    /// `rate` requests per second over the sessions of `range`; an idle UE becomes
    /// active after `idle`.
    #[must_use]
    pub fn new(
        pattern: ChurnPattern,
        config: SessionsConfig,
        smf: &LabSmf,
        sessions: UpfSessionIds,
        range: Range<u32>,
        rate: u64,
        idle: Duration,
    ) -> Self {
        let count = range.len().max(1);
        let work = ChurnJob {
            pattern,
            config,
            identity: smf.identity().clone(),
            sessions,
            first: range.start,
            away: vec![false; count],
            away_count: 0,
            cursor: 0,
            waiting: VecDeque::new(),
            idle,
            open: HashMap::new(),
            moves: vec![0; count],
            closing: false,
        };
        Self { exchange: Exchange::new(0..u32::MAX, Some(rate), true), work }
    }

    /// Does what is due; never waits when the socket does not.
    ///
    /// # Errors
    /// A request stayed unanswered.
    pub fn step(&mut self, smf: &mut LabSmf) -> Result<()> {
        smf.step(&mut self.exchange, &mut self.work)
    }

    /// What happened until now.
    #[cfg(test)]
    #[must_use]
    pub fn report(&self) -> ProcedureReport {
        self.exchange.report()
    }

    /// Brings every session back to its first state, and returns the report of all changes.
    ///
    /// # Errors
    /// Those of `watch`; a request stayed unanswered.
    pub fn finish(
        mut self,
        smf: &mut LabSmf,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<(ProcedureReport, UpfSessionIds)> {
        let report = self.exchange.report();
        self.work.closing = true;
        while self.work.away_count > 0 {
            watch()?;
            smf.step(&mut self.exchange, &mut self.work)?;
        }
        let whole = self.exchange.report();
        let report = ProcedureReport {
            failed: whole.failed,
            first_failure: whole.first_failure,
            retransmissions: whole.retransmissions,
            ..report
        };
        Ok((report, self.work.sessions))
    }
}

impl ChurnJob {
    /// What to do next, if anything.
    fn choose(&mut self) -> Option<SessionUpdateStep> {
        let due = |(due, _): &(Instant, u32)| self.closing || *due <= Instant::now();
        if self.waiting.front().is_some_and(due) {
            let (_, session) = self.waiting.pop_front()?;
            return Some(SessionUpdateStep { session, is_second: true });
        }
        if self.closing {
            return None;
        }
        for _ in 0..self.away.len() {
            let at = self.cursor;
            self.cursor = (at + 1) % self.away.len();
            if let Some(away) = self.away.get_mut(at).filter(|away| !**away) {
                *away = true;
                self.away_count += 1;
                let session = self.first + u32::try_from(at).unwrap_or(u32::MAX);
                return Some(SessionUpdateStep { session, is_second: false });
            }
        }
        None
    }

    fn place(&self, session: u32) -> usize {
        usize::try_from(session - self.first).unwrap_or(usize::MAX)
    }

    fn write(&mut self, step: SessionUpdateStep, sequence: u32, out: &mut [u8]) -> Result<usize> {
        let SessionUpdateStep { session, is_second } = step;
        let at = usize::try_from(session).unwrap_or(usize::MAX);
        let seid = self.sessions.up_seids.get(at).copied().unwrap_or(0);
        let change = match (self.pattern, is_second) {
            (ChurnPattern::Handover, _) => {
                let place = self.place(session);
                let moves = self.moves.get_mut(place).map_or(0, |moves| {
                    *moves = moves.wrapping_add(1);
                    *moves
                });
                FarModification::Move(moves)
            }
            (ChurnPattern::Idle, false) => FarModification::Idle,
            (ChurnPattern::Idle, true) => FarModification::Active,
            (ChurnPattern::Recreate, false) => return deletion(seid, sequence, out),
            (ChurnPattern::Recreate, true) => {
                return self.config.establishment(&self.identity, session, sequence, out);
            }
        };
        modification(&self.config, seid, session, change, sequence, out)
    }

    fn look(&mut self, step: SessionUpdateStep, message: &Message<'_>) -> Result<()> {
        match (self.pattern, step.is_second) {
            (ChurnPattern::Recreate, false) => deleted(step.session, message),
            (ChurnPattern::Recreate, true) => {
                self.config.established(step.session, message, &mut self.sessions)
            }
            _ => modified(step.session, message),
        }
    }
}

impl Procedure for ChurnJob {
    fn encode(&mut self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize> {
        let Some(step) = self.choose() else { return Ok(0) };
        self.open.insert(index, step);
        self.write(step, sequence, out)
    }

    fn answered(&mut self, index: u32, message: &Message<'_>) -> Result<()> {
        let Some(step) = self.open.remove(&index) else { return Ok(()) };
        let result = self.look(step, message);
        let has_second = self.pattern != ChurnPattern::Handover && !step.is_second;
        if has_second && result.is_ok() {
            self.waiting.push_back((Instant::now() + self.idle, step.session));
            return result;
        }
        // A session that was not established again stays away, and is not waited for.
        let is_lost = self.pattern == ChurnPattern::Recreate && step.is_second && result.is_err();
        let place = self.place(step.session);
        if let Some(away) = self.away.get_mut(place) {
            *away = is_lost;
        }
        self.away_count -= 1;
        result
    }
}
