//! The report of runs, as JSON and as text.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::faults::book::{BookedState, Finding, FindingKind, SmfBook};
use crate::faults::checker::{PacketLosses, TwoAnswerSpan, UsageTotals};
use crate::faults::fault::FaultRecord;
use crate::faults::monitor::{MemorySample, RoleSample};
use crate::faults::setting::StoreSetting;
use crate::faults::timeline::RunEvent;
use crate::faults::users::PacketLog;

/// Width of a time bin of [`Activity`]. Unit: ms.
pub(crate) const BIN_MS: u64 = 250;

/// The number of events in each time bin of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Activity {
    /// Requests about sessions that were accepted; `refused` has those that were refused.
    pub accepted: Vec<u64>,
    pub refused: Vec<u64>,
    /// Packets, by the time at which they were sent.
    pub uplink_sent: Vec<u64>,
    pub uplink_lost: Vec<u64>,
    pub downlink_sent: Vec<u64>,
    pub downlink_lost: Vec<u64>,
}

impl Activity {
    /// Counts the events of a run in all bins.
    pub(crate) fn of(book: &SmfBook, log: &PacketLog, end_ms: u64) -> Self {
        let bins = usize::try_from(end_ms / BIN_MS + 1).unwrap_or(1);
        let count = |times: &mut dyn Iterator<Item = u64>| {
            let mut counts = vec![0; bins];
            for at_ms in times {
                let bin = usize::try_from(at_ms / BIN_MS).unwrap_or(usize::MAX);
                counts.iter_mut().skip(bin).take(1).for_each(|count| *count += 1);
            }
            counts
        };
        let answers = |is_accepted| {
            let wanted = book.counted.iter().filter(move |one| one.is_accepted == is_accepted);
            count(&mut wanted.map(|answer| answer.at_ms))
        };
        let sent =
            |all: &[crate::faults::users::SentPacket]| count(&mut all.iter().map(|one| one.at_ms));
        let lost = |all: &[crate::faults::users::SentPacket]| {
            count(&mut all.iter().filter(|one| one.arrivals == 0).map(|one| one.at_ms))
        };
        Self {
            accepted: answers(true),
            refused: answers(false),
            uplink_sent: sent(&log.uplink),
            uplink_lost: lost(&log.uplink),
            downlink_sent: sent(&log.downlink),
            downlink_lost: lost(&log.downlink),
        }
    }
}

/// Counts of sessions and requests in a run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct RunSessions {
    pub established: u64,
    pub deleted: u64,
    /// Sessions in the SMF's book at the end; `shown` is how many the active adit has.
    pub booked: u64,
    pub shown: u64,
    pub accepted: u64,
    pub refused: u64,
    pub unanswered: u64,
    pub causes: BTreeMap<String, u64>,
    pub associations_lost: u64,
    pub recovery_moves: u64,
}

impl RunSessions {
    /// Counts the sessions of the SMF's book.
    pub(crate) fn of(book: &SmfBook, shown: Option<&Value>) -> Self {
        let in_state = |is_wanted: &dyn Fn(BookedState) -> bool| {
            let all = book.sessions.values().filter(|session| is_wanted(session.state));
            u64::try_from(all.count()).unwrap_or(u64::MAX)
        };
        let answers = |is_accepted| {
            let all = book.counted.iter().filter(|answer| answer.is_accepted == is_accepted);
            u64::try_from(all.count()).unwrap_or(u64::MAX)
        };
        let shown = shown.and_then(|shown| shown.get("sessions")?.as_array().map(Vec::len));
        Self {
            established: in_state(&|state| {
                !matches!(
                    state,
                    BookedState::Refused | BookedState::Unknown | BookedState::Establishing
                )
            }),
            deleted: in_state(&|state| state == BookedState::Deleted),
            booked: in_state(&|state| matches!(state, BookedState::Live | BookedState::Modifying)),
            shown: shown.map_or(0, |len| u64::try_from(len).unwrap_or(u64::MAX)),
            accepted: answers(true),
            refused: answers(false),
            unanswered: book.unanswered,
            causes: book.causes.clone(),
            associations_lost: book.associations_lost,
            recovery_moves: book.recovery_moves,
        }
    }
}

/// The report of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunReport {
    pub setting: StoreSetting,
    pub seed: u64,
    /// Duration of fault injection. Unit: ms.
    pub duration_ms: u64,
    pub faults: Vec<FaultRecord>,
    /// Violations that were found.
    pub findings: Vec<Finding>,
    /// Faults of the run during which the setting does not keep its usual promises.
    pub unpromised: Vec<String>,
    pub sessions: RunSessions,
    pub losses: PacketLosses,
    pub usage: UsageTotals,
    pub two_answer_spans: Vec<TwoAnswerSpan>,
    /// Largest growth of a process's memory. Unit: KiB.
    pub memory_growth_kib: u64,
    /// How long the machine stalled in total. Unit: ms.
    pub stalled_ms: u64,
    pub longest_stall_ms: u64,
    pub memory: Vec<MemorySample>,
    pub roles: Vec<RoleSample>,
    pub events: Vec<RunEvent>,
    pub activity: Activity,
}

impl RunReport {
    /// Returns the findings that break a promise of the setting.
    pub(crate) fn broken_promises(&self) -> impl Iterator<Item = &Finding> {
        let is_lax = !self.unpromised.is_empty();
        self.findings
            .iter()
            .filter(move |finding| !is_lax || finding.kind.counts_in_every_setting())
    }

    /// True if all promises of the setting were kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.broken_promises().next().is_none()
    }

    /// Returns the number of findings of a kind.
    pub(crate) fn count(&self, kind: FindingKind) -> usize {
        self.findings.iter().filter(|finding| finding.kind == kind).count()
    }

    /// Returns the longest time until changes were accepted again after a fault. Unit: ms.
    pub(crate) fn longest_recovery_ms(&self) -> u64 {
        let span = |fault: &FaultRecord| Some(fault.accepted_ms?.saturating_sub(fault.due_from_ms));
        self.faults.iter().filter_map(span).max().unwrap_or(0)
    }

    /// Returns the longest time for which two adits answered for one address. Unit: ms.
    pub(crate) fn longest_two_answers_ms(&self) -> u64 {
        self.two_answer_spans.iter().map(|span| span.length_ms).max().unwrap_or(0)
    }

    /// Formats the verdict in one line.
    pub(crate) fn summary(&self) -> String {
        let found: Vec<String> = FindingKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), self.count(kind)))
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let slow = self.faults.iter().filter(|fault| fault.is_too_slow_to_judge).count();
        let verdict = match (found.is_empty(), self.is_kept()) {
            (true, _) => "nothing found".to_owned(),
            (false, true) => format!("{} (not promised)", found.join(", ")),
            (false, false) => found.join(", "),
        };
        format!(
            "{} seed {}: {verdict}; {} faults, {} changes accepted, {} refused, {} unanswered, {} sessions at the end, \
             accepted again within {} ms, two answers for {} ms, {} of {} packets lost ({} unexplained), memory +{} KiB{}",
            self.setting.name(),
            self.seed,
            self.faults.len(),
            self.sessions.accepted,
            self.sessions.refused,
            self.sessions.unanswered,
            self.sessions.shown,
            self.longest_recovery_ms(),
            self.longest_two_answers_ms(),
            self.losses.lost,
            self.losses.sent,
            self.losses.unexplained,
            self.memory_growth_kib,
            if slow > 0 { format!(", {slow} faults too slow to judge") } else { String::new() },
        )
    }
}

/// The report of all runs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FaultsReport {
    /// Name and version of the program.
    pub tool: String,
    pub adit: String,
    /// Faults that were left out, each with the reason.
    pub left_out: Vec<String>,
    pub runs: Vec<RunReport>,
}
