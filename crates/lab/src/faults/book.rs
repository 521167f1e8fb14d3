//! The SMF's record of a run: each session, each request, and its answer.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use adit_types::{Seid, Teid};
use serde::Serialize;

use crate::faults::messages::RequestedSession;

/// The state of a session, as the SMF knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BookedState {
    /// The establishment request is not answered yet.
    Establishing,
    /// The session was acknowledged, and no request about it is open.
    Live,
    /// A modification request is not answered yet.
    Modifying,
    /// The deletion request is not answered yet.
    Deleting,
    /// The deletion was acknowledged, or the SMF restarted.
    Deleted,
    /// The establishment was refused.
    Refused,
    /// The establishment or deletion request was never answered: the session may exist or not.
    Unknown,
    /// The UPF replied that it has no such session.
    Lost,
}

/// A session of the SMF.
#[derive(Debug, Clone)]
pub(crate) struct BookedSession {
    pub wish: RequestedSession,
    pub state: BookedState,
    /// The SEID that the UPF chose.
    pub up_seid: Seid,
    pub uplink_teid: Teid,
    pub ue: Ipv4Addr,
    /// The gNB's TEID in the last acknowledged request. `possible_teids` are those of modification
    /// requests that were never answered.
    pub teid: Teid,
    pub possible_teids: Vec<Teid>,
    /// True if users send packets through it; it is not deleted before the end of the run.
    pub is_held: bool,
}

/// A violation that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Time of the violation. Unit: ms since the start of the run.
    pub at_ms: u64,
    pub kind: FindingKind,
    pub text: String,
}

/// Kinds of violations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FindingKind {
    /// An acknowledged session is missing, or differs from its acknowledged state.
    Lost,
    /// A session exists that no acknowledged request explains.
    Ghost,
    /// Two sessions have the same SEID, TEID or UE address.
    GivenTwice,
    /// An adit acknowledged a change after its successor had done so.
    TwoActive,
    /// A request got two different answers.
    TwoAnswers,
    /// Two adits answered for one address for too long.
    TwoAddresses,
    /// Usage was reported twice, or more was lost than is permitted.
    Usage,
    /// Packets were lost that no fault explains.
    Packets,
    /// Changes were not accepted again in time.
    Late,
    /// A process used more memory than is permitted.
    Memory,
    /// An adit ended without a fault as reason.
    Crash,
}

impl FindingKind {
    /// All kinds, in the order of the table of results.
    pub(crate) const ALL: [Self; 11] = [
        Self::Lost,
        Self::Ghost,
        Self::GivenTwice,
        Self::TwoActive,
        Self::TwoAnswers,
        Self::TwoAddresses,
        Self::Usage,
        Self::Packets,
        Self::Late,
        Self::Memory,
        Self::Crash,
    ];

    /// True if the violation is a defect in every store setting.
    pub(crate) fn counts_in_every_setting(self) -> bool {
        matches!(self, Self::Memory | Self::Crash)
    }

    /// Returns the name in a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Ghost => "ghosts",
            Self::GivenTwice => "given twice",
            Self::TwoActive => "two active",
            Self::TwoAnswers => "two answers",
            Self::TwoAddresses => "two addresses",
            Self::Usage => "usage",
            Self::Packets => "packets",
            Self::Late => "late",
            Self::Memory => "memory",
            Self::Crash => "crash",
        }
    }
}

/// A usage report of a session's URR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BookedUsage {
    /// Reported volume. Unit: octets.
    pub octets: u64,
}

/// An answer to a request of the SMF about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct CountedAnswer {
    /// Time of the answer. Unit: ms since the start of the run.
    pub at_ms: u64,
    pub is_accepted: bool,
}

/// The requests of the SMF, and the UPF's answers.
#[derive(Debug, Default)]
pub(crate) struct SmfBook {
    /// Sessions by the SMF's SEID, which is never reused.
    pub sessions: BTreeMap<u64, BookedSession>,
    /// The first answer to each request, by the request's sequence number.
    pub answers: HashMap<u32, Vec<u8>>,
    /// Answers to requests about sessions, in order.
    pub counted: Vec<CountedAnswer>,
    /// Number of requests that were never answered.
    pub unanswered: u64,
    /// Number of refusals by Cause.
    pub causes: BTreeMap<String, u64>,
    /// Usage reports by the SMF's SEID and UR-SEQN.
    pub usage: BTreeMap<(u64, u32), BookedUsage>,
    pub findings: Vec<Finding>,
    /// The UPF's Recovery Time Stamp. `recovery_moves` counts how often it changed.
    pub recovery_time_stamp: Option<u32>,
    pub recovery_moves: u64,
    /// How often the UPF lost the association.
    pub associations_lost: u64,
    /// Number of requests that are not answered yet.
    pub open_requests: usize,
}

impl SmfBook {
    /// Adds a violation.
    pub(crate) fn find(&mut self, at_ms: u64, kind: FindingKind, text: String) {
        self.findings.push(Finding { at_ms, kind, text });
    }

    /// Records an answer to a request. False if it repeats an earlier answer; a different answer is
    /// a violation.
    pub(crate) fn note_answer(&mut self, at_ms: u64, sequence: u32, octets: &[u8]) -> bool {
        match self.answers.get(&sequence) {
            None => {
                self.answers.insert(sequence, octets.to_vec());
                true
            }
            Some(first) if first == octets => false,
            Some(_) => {
                let text = format!("request {sequence} has two different answers");
                self.find(at_ms, FindingKind::TwoAnswers, text);
                false
            }
        }
    }

    /// Records an established session. It is a violation if another session has the same
    /// identifiers.
    pub(crate) fn note_established(&mut self, at_ms: u64, session: &BookedSession) {
        // Ignores sessions that are being deleted: the UPF may already have reused their
        // identifiers.
        let is_other = |other: &&BookedSession| {
            other.wish.cp_seid != session.wish.cp_seid
                && matches!(other.state, BookedState::Live | BookedState::Modifying)
        };
        let mut twice = Vec::new();
        for other in self.sessions.values().filter(is_other) {
            let both = [
                ("SEID", other.up_seid == session.up_seid, session.up_seid.to_string()),
                ("TEID", other.uplink_teid == session.uplink_teid, session.uplink_teid.to_string()),
                ("UE address", other.ue == session.ue, session.ue.to_string()),
            ];
            twice.extend(both.into_iter().filter(|(_, is_same, _)| *is_same).map(
                |(what, _, value)| {
                    let (one, two) = (other.wish.cp_seid, session.wish.cp_seid);
                    format!("{what} {value} of {one} was given to {two} as well")
                },
            ));
        }
        for text in twice {
            self.find(at_ms, FindingKind::GivenTwice, text);
        }
    }

    /// Records a usage report. The UPF may repeat it, but must not change it.
    pub(crate) fn note_usage(&mut self, at_ms: u64, cp_seid: u64, sequence: u32, octets: u64) {
        let usage = BookedUsage { octets };
        let before = self.usage.entry((cp_seid, sequence)).or_insert(usage);
        if *before != usage {
            let text = format!(
                "usage report {sequence} of session {cp_seid} has {octets} octets, and had {}",
                before.octets
            );
            self.find(at_ms, FindingKind::Usage, text);
        }
    }

    /// Returns the octets that were reported for a session.
    pub(crate) fn reported_octets(&self, cp_seid: u64) -> u64 {
        self.usage.range((cp_seid, 0)..=(cp_seid, u32::MAX)).map(|(_, usage)| usage.octets).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(cp_seid: u64, up_seid: u64) -> BookedSession {
        let ue = Ipv4Addr::from_bits(0x0a2d_0000 + u32::try_from(cp_seid).unwrap());
        BookedSession {
            wish: RequestedSession { cp_seid: Seid(cp_seid), ue: Some(ue), teid: Teid(7) },
            state: BookedState::Live,
            up_seid: Seid(up_seid),
            uplink_teid: Teid(u32::try_from(cp_seid).unwrap()),
            ue,
            teid: Teid(7),
            possible_teids: Vec::new(),
            is_held: false,
        }
    }

    #[test]
    fn second_answer_must_have_the_octets_of_the_first_one() {
        let mut book = SmfBook::default();
        assert!(book.note_answer(1, 5, b"yes"));
        assert!(!book.note_answer(2, 5, b"yes"));
        assert!(book.findings.is_empty());
        assert!(!book.note_answer(3, 5, b"no"));
        assert_eq!(book.findings[0].kind, FindingKind::TwoAnswers);
    }

    #[test]
    fn identifier_of_a_living_session_is_not_given_again() {
        let mut book = SmfBook::default();
        book.sessions.insert(1, session(1, 100));
        book.note_established(1, &session(2, 101));
        assert!(book.findings.is_empty());
        book.note_established(2, &session(3, 100));
        assert_eq!(book.findings[0].kind, FindingKind::GivenTwice);
        book.sessions.get_mut(&1).unwrap().state = BookedState::Deleted;
        book.note_established(3, &session(4, 100));
        assert_eq!(book.findings.len(), 1);
    }

    #[test]
    fn usage_report_that_comes_again_must_be_the_same() {
        let mut book = SmfBook::default();
        book.note_usage(1, 7, 0, 1000);
        book.note_usage(2, 7, 0, 1000);
        book.note_usage(3, 7, 1, 500);
        assert_eq!((book.reported_octets(7), book.findings.len()), (1500, 0));
        book.note_usage(4, 7, 1, 600);
        assert_eq!(book.findings[0].kind, FindingKind::Usage);
    }
}
