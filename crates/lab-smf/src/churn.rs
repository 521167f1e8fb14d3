//! Changes of sessions during traffic: handovers, idle and active UEs, deletion and establishment.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use adit_pfcp::Message;
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::bulk::requests::{
    FarModification, check_deletion_answer, check_modification_answer, deletion, modification,
};
use crate::bulk::{SessionsConfig, UpfSessionIds};
use crate::exchange::{Procedure, ProcedureReport, ProcedureRun};
use crate::identity::SmfIdentity;
use crate::smf::LabSmf;

/// Kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChurnPattern {
    /// Move the downlink tunnel to the next gNB.
    Handover,
    /// Buffer downlink packets, and forward them again after a time.
    Idle,
    /// Delete sessions without traffic, and establish them again.
    Recreate,
}

/// Kind, rate and timing of changes.
#[derive(Debug, Clone, Copy)]
pub struct ChurnPlan {
    /// Kind of change.
    pub pattern: ChurnPattern,
    /// Requests per second.
    pub rate: u64,
    /// Time after which an idle UE becomes active.
    pub idle: Duration,
}

/// Changes sessions in turn at a rate. Each session has at most one request in flight.
#[derive(Debug)]
pub struct Churn {
    exchange: ProcedureRun,
    work: ChurnJob,
}

/// One change of one session.
#[derive(Debug, Clone, Copy)]
struct SessionUpdateStep {
    session: u32,
    /// True for the second change, which undoes the first.
    is_second: bool,
}

#[derive(Debug)]
struct ChurnJob {
    pattern: ChurnPattern,
    config: SessionsConfig,
    identity: SmfIdentity,
    sessions: UpfSessionIds,
    /// Index of the first session that changes.
    first: u32,
    /// True for each session that is lost, or not in the state in which it was established.
    away: Vec<bool>,
    away_count: u32,
    cursor: usize,
    /// Sessions after their first change, with the due time of the second.
    waiting: VecDeque<(Instant, u32)>,
    idle: Duration,
    /// Changes with an unanswered request, by the index of the request.
    open: HashMap<u32, SessionUpdateStep>,
    /// Number of handovers of each session, which selects its gNB.
    moves: Vec<u32>,
    /// True once the churn ends: no session may leave its first state any more.
    closing: bool,
}

impl Churn {
    /// Prepares to change the sessions of `range` as planned.
    #[must_use]
    pub fn new(
        ChurnPlan { pattern, rate, idle }: ChurnPlan,
        config: SessionsConfig,
        smf: &LabSmf,
        sessions: UpfSessionIds,
        range: Range<u32>,
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
        Self { exchange: ProcedureRun::new(0..u32::MAX, Some(rate), true), work }
    }

    /// Sends due requests and processes answers. Waits for answers only if the socket is blocking.
    ///
    /// # Errors
    /// The UPF does not answer a request.
    pub fn step(&mut self, smf: &mut LabSmf) -> Result<()> {
        smf.step(&mut self.exchange, &mut self.work)
    }

    /// Returns the report of the changes so far.
    #[cfg(test)]
    #[must_use]
    pub fn report(&self) -> ProcedureReport {
        self.exchange.report()
    }

    /// Restores the first state of every session. Returns the report, whose rate and latency are
    /// those before the restoration, and the UPF's identifiers.
    ///
    /// # Errors
    /// `watch` fails; the UPF does not answer a request.
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
    /// Returns the next change, if one is due.
    fn next_change(&mut self) -> Option<SessionUpdateStep> {
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
        modification(seid, change.far(&self.config, session), sequence, out)
    }

    fn check_answer(&mut self, step: SessionUpdateStep, message: &Message<'_>) -> Result<()> {
        match (self.pattern, step.is_second) {
            (ChurnPattern::Recreate, false) => check_deletion_answer(step.session, message),
            (ChurnPattern::Recreate, true) => {
                self.config.record_session_ids(step.session, message, &mut self.sessions)
            }
            _ => check_modification_answer(step.session, message),
        }
    }
}

impl Procedure for ChurnJob {
    fn encode(&mut self, index: u32, sequence: u32, out: &mut [u8]) -> Result<usize> {
        let Some(step) = self.next_change() else { return Ok(0) };
        self.open.insert(index, step);
        self.write(step, sequence, out)
    }

    fn process_answer(&mut self, index: u32, message: &Message<'_>) -> Result<()> {
        let Some(step) = self.open.remove(&index) else { return Ok(()) };
        let result = self.check_answer(step, message);
        let has_second = self.pattern != ChurnPattern::Handover && !step.is_second;
        if has_second && result.is_ok() {
            self.waiting.push_back((Instant::now() + self.idle, step.session));
            return result;
        }
        // A session that could not be established again is lost; `finish` does not wait for it.
        let is_lost = self.pattern == ChurnPattern::Recreate && step.is_second && result.is_err();
        let place = self.place(step.session);
        if let Some(away) = self.away.get_mut(place) {
            *away = is_lost;
        }
        self.away_count -= 1;
        result
    }
}
