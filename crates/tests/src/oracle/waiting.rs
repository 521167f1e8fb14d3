//! Packets that a FAR held: they stay with the rules that they matched.

use adit_rules::{ApplyAction, DropReason, OuterHeaderRemoval};
use adit_session::{Far, PdrSpec};
use adit_types::{FarId, PdrId, Seid};

use super::first_part::FirstPart;
use super::judge::{Notes, Outcome, Verdict};
use super::predefined::{self, Rule};
use super::{Oracle, Session, side};

/// The rules that hold a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBy {
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
    pub removal: Option<OuterHeaderRemoval>,
    /// What the first part of the packet told, if it is a later one.
    pub first: Option<FirstPart>,
}

/// The rules of a packet.
pub(super) struct Found {
    /// Position of the session.
    pub owner: usize,
    pub from_ue: bool,
    pub pdr: PdrSpec,
    pub reading: usize,
    pub rule: Option<&'static Rule>,
    pub far: Far,
    /// What is taken off the packet, or was when it came.
    pub removal: Option<OuterHeaderRemoval>,
}

/// All that a session's PDRs stand for, the first to match first.
pub(super) fn readings(session: &Session) -> Vec<(PdrSpec, Option<&'static Rule>)> {
    let mut all: Vec<_> = session.pdrs.iter().flat_map(predefined::readings).collect();
    all.sort_by_key(|(pdr, _)| (pdr.precedence, pdr.id));
    all
}

/// The FAR of a reading.
pub(super) fn far_of(session: &Session, pdr: &PdrSpec, rule: Option<&Rule>) -> Far {
    let own = || session.fars.iter().find(|far| Some(far.id) == pdr.far).unwrap().clone();
    rule.and_then(Rule::far).unwrap_or_else(own)
}

impl Oracle {
    /// Says what becomes of `frame`, which rules held, now that rules changed; with `is_copied`,
    /// copies were made before.
    #[must_use]
    pub fn judge_again(
        &self,
        (by, is_copied): (&HeldBy, bool),
        port: u16,
        frame: &[u8],
    ) -> Verdict {
        let mut notes = Notes::again(is_copied);
        let outcome = self.frame(port, frame, Some(by), &mut notes);
        let outcome = outcome.unwrap_or_else(|reason| {
            // What rules stop; what lies on the way out has its own names.
            Outcome::Drop(match reason {
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
    pub(super) fn found_again(&self, by: &HeldBy) -> Result<Found, DropReason> {
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
        let HeldBy { from_ue, removal, .. } = *by;
        Ok(Found { owner, from_ue, pdr, reading, rule, far, removal })
    }
}
