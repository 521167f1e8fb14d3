//! The book of the SMF: each session, each request, and its answer.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use adit_types::{Seid, Teid};
use serde::Serialize;

use crate::faults::messages::SessionWish;

/// The state of a session in the SMF's book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BookedState {
    /// The establishment is under way.
    Establishing,
    /// The session was acknowledged, and nothing is under way.
    Live,
    /// A modification is under way.
    Modifying,
    /// The deletion is under way.
    Deleting,
    /// The deletion was acknowledged, or the SMF restarted.
    Deleted,
    /// The establishment was refused.
    Refused,
    /// The establishment or the deletion was never answered: either outcome is right.
    Unknown,
    /// The UPF says that it has no such session.
    Lost,
}

/// A session.
#[derive(Debug, Clone)]
pub(crate) struct BookedSession {
    pub wish: SessionWish,
    pub state: BookedState,
    /// The identifiers that the UPF chose.
    pub up_seid: Seid,
    pub uplink_teid: Teid,
    pub ue: Ipv4Addr,
    /// The gNB's TEID that was acknowledged last, and those of modifications that were never
    /// answered.
    pub teid: Teid,
    pub possible_teids: Vec<Teid>,
    /// Packets of it flow, and it is never deleted.
    pub is_held: bool,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Unit: ms since the start of the run.
    pub at_ms: u64,
    pub kind: FindingKind,
    pub text: String,
}

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FindingKind {
    /// An acknowledged session is gone, or not as it was acknowledged.
    Lost,
    /// A session that no acknowledged request explains.
    Ghost,
    /// A SEID, TEID or UE address that two sessions have.
    GivenTwice,
    /// An adit acknowledged a change after its successor did.
    TwoActive,
    /// A request with two different answers.
    TwoAnswers,
    /// An address that two adits answered for too long.
    TwoAddresses,
    /// Usage that was reported twice, or lost beyond the bound.
    Usage,
    /// Packets that no fault explains.
    Packets,
    /// Changes were not accepted again in time.
    Late,
    /// Memory grew beyond the bound.
    Memory,
    /// An adit ended without a reason.
    Crash,
}

impl FindingKind {
    /// All kinds, as the table of results lists them.
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

    /// True if no store excuses it.
    pub(crate) fn is_of_process(self) -> bool {
        matches!(self, Self::Memory | Self::Crash)
    }

    /// Its name in a table.
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

/// A usage report of a session's URR, known by session and UR-SEQN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BookedUsage {
    /// Unit: octets.
    pub octets: u64,
}

/// An answer to a request of the SMF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct CountedAnswer {
    /// Unit: ms since the start of the run.
    pub at_ms: u64,
    pub is_accepted: bool,
}

/// The requests of the SMF, and the answers of adit.
#[derive(Debug, Default)]
pub(crate) struct SmfBook {
    /// By the SMF's SEID, which is never used again.
    pub sessions: BTreeMap<u64, BookedSession>,
    /// The first answer to each request, by sequence number.
    pub answers: HashMap<u32, Vec<u8>>,
    /// Answers to requests about sessions.
    pub counted: Vec<CountedAnswer>,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Refusals by Cause.
    pub causes: BTreeMap<String, u64>,
    /// Reports by the SMF's SEID and UR-SEQN.
    pub usage: BTreeMap<(u64, u32), BookedUsage>,
    pub findings: Vec<Finding>,
    /// The UPF's Recovery Time Stamp, and how often it moved.
    pub recovery_time_stamp: Option<u32>,
    pub recovery_moves: u64,
    /// The UPF forgot the association so often.
    pub associations_lost: u64,
    /// Requests under way.
    pub open_requests: usize,
}

impl SmfBook {
    /// Adds a finding.
    pub(crate) fn find(&mut self, at_ms: u64, kind: FindingKind, text: String) {
        self.findings.push(Finding { at_ms, kind, text });
    }

    /// Notes an answer to a request, octet for octet. False if there was one before.
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

    /// Notes an established session, and whether another one has its identifiers.
    pub(crate) fn note_established(&mut self, at_ms: u64, session: &BookedSession) {
        // Another session that is being deleted may be gone, and its identifiers free.
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

    /// Notes a usage report; the same report may come again.
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

    /// Octets that were reported of a session.
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
            wish: SessionWish { cp_seid: Seid(cp_seid), ue: Some(ue), teid: Teid(7) },
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
