//! Packets that a FAR held: they stay with the rules that they matched.

use adit_rules::{ApplyAction, DropReason, HeaderRemoval};
use adit_session::{Far, PdrSpec};
use adit_types::{FarId, PdrId, Seid};

use super::first_fragment::OracleFirstFragment;
use super::judge::{OracleOutcome, OracleVerdict, VerdictNotes};
use super::predefined::{self, OraclePredefinedRule};
use super::{Oracle, OracleSession, side};

/// The rules that hold a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OracleBufferedBy {
    /// The session.
    pub seid: Seid,
    /// The packet is the UE's.
    pub from_ue: bool,
    /// The PDR that matched.
    pub pdr: PdrId,
    /// Which of its readings, counted from zero.
    pub reading: usize,
    /// The FAR that holds the packet.
    pub far: FarId,
    /// What was taken off the packet.
    pub removal: Option<HeaderRemoval>,
    /// What the first part of the packet told, if it is a later one.
    pub first: Option<OracleFirstFragment>,
}

/// The rules of a packet.
pub(super) struct OracleMatch {
    /// Position of the session.
    pub owner: usize,
    pub from_ue: bool,
    pub pdr: PdrSpec,
    pub reading: usize,
    pub rule: Option<&'static OraclePredefinedRule>,
    pub far: Far,
    /// What is taken off the packet, or was when it came.
    pub removal: Option<HeaderRemoval>,
}

/// All that a session's PDRs stand for, the first to match first.
pub(super) fn readings(
    session: &OracleSession,
) -> Vec<(PdrSpec, Option<&'static OraclePredefinedRule>)> {
    let mut all: Vec<_> = session.pdrs.iter().flat_map(predefined::readings).collect();
    all.sort_by_key(|(pdr, _)| (pdr.precedence, pdr.id));
    all
}

/// The FAR of a reading.
pub(super) fn far_of(
    session: &OracleSession,
    pdr: &PdrSpec,
    rule: Option<&OraclePredefinedRule>,
) -> Far {
    let own = || session.fars.iter().find(|far| Some(far.id) == pdr.far).unwrap().clone();
    rule.and_then(OraclePredefinedRule::far).unwrap_or_else(own)
}

impl Oracle {
    /// Says what becomes of `frame`, which rules held, now that rules changed; with `is_copied`,
    /// copies were made before.
    #[must_use]
    pub fn judge_buffered(
        &self,
        (by, is_copied): (&OracleBufferedBy, bool),
        port: u16,
        frame: &[u8],
    ) -> OracleVerdict {
        let mut notes = VerdictNotes::of_buffered(is_copied);
        let outcome = self.frame(port, frame, Some(by), &mut notes);
        let outcome = outcome.unwrap_or_else(|reason| {
            // What rules stop; what lies on the way out has its own names.
            OracleOutcome::Drop(match reason {
                DropReason::TtlExceeded
                | DropReason::RedirectUnmatched
                | DropReason::RouteUnknown
                | DropReason::UeToOwnAddress
                | DropReason::IpAddressInvalid
                | DropReason::PacketTooBig => reason,
                _ => DropReason::BufferDiscarded,
            })
        });
        notes.verdict(outcome)
    }

    /// The packet's own PDR as it is now, with the FAR that held it. Where that one still buffers,
    /// or is no more, the FAR that the PDR has now counts. Spec: TS 29.244 §5.2.4.2.
    pub(super) fn match_buffered(&self, by: &OracleBufferedBy) -> Result<OracleMatch, DropReason> {
        let owner = self.sessions.iter().position(|(seid, _)| *seid == by.seid);
        let owner = owner.ok_or(DropReason::BufferDiscarded)?;
        let session = &self.sessions[owner].1;
        let mut own = readings(session);
        // What travels the other way by now is another PDR's, though its identifier is the same.
        let is_same_way = |pdr: &PdrSpec| side::is_from_ue(session, pdr) == by.from_ue;
        own.retain(|(pdr, _)| pdr.id == by.pdr && is_same_way(pdr));
        let reading = if by.reading < own.len() { by.reading } else { 0 };
        let (pdr, rule) = own.get(reading).cloned().ok_or(DropReason::BufferDiscarded)?;
        let held_by = session.fars.iter().find(|far| far.id == by.far);
        let far = match held_by {
            Some(far) if !far.action.contains(ApplyAction::BUFF) => far.clone(),
            _ => far_of(session, &pdr, rule),
        };
        let OracleBufferedBy { from_ue, removal, .. } = *by;
        Ok(OracleMatch { owner, from_ue, pdr, reading, rule, far, removal })
    }
}
