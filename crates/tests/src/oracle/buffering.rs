//! Packets that a FAR held: they stay with the rules that they matched.

use adit_rules::{ApplyAction, DropReason};
use adit_session::PdrSpec;

use super::classify::{OracleMatch, far_of, readings};
use super::verdict::{OracleBufferedBy, OracleOutcome, OracleVerdict, VerdictNotes};
use super::{Oracle, side};

impl Oracle {
    /// The verdict on a buffered frame after a change of its session's rules. `is_copied`: its
    /// copies left before.
    #[must_use]
    pub fn judge_buffered(
        &self,
        by: &OracleBufferedBy,
        is_copied: bool,
        port: u16,
        frame: &[u8],
    ) -> OracleVerdict {
        let mut notes = VerdictNotes::of_buffered(is_copied);
        let outcome = self.frame(port, frame, Some(by), &mut notes);
        let outcome = outcome.unwrap_or_else(|reason| {
            // Whatever rule stops a buffered packet, it has one reason; reasons of forwarding are
            // kept.
            OracleOutcome::Drop(match reason {
                DropReason::TtlExceeded
                | DropReason::RedirectUnmatched
                | DropReason::RouteUnknown
                | DropReason::RouteBlackhole
                | DropReason::RouteUnreachable
                | DropReason::UeToOwnAddress
                | DropReason::IpAddressInvalid
                | DropReason::PacketTooBig => reason,
                _ => DropReason::BufferDiscarded,
            })
        });
        notes.verdict(outcome)
    }

    /// The packet's PDR as it is now, with the FAR that held the packet. If that FAR still buffers
    /// or is removed, the FAR that the PDR has now applies. Spec: TS 29.244 §5.2.4.2.
    pub(super) fn match_buffered(&self, by: &OracleBufferedBy) -> Result<OracleMatch, DropReason> {
        let owner = self.sessions.iter().position(|(seid, _)| *seid == by.seid);
        let owner = owner.ok_or(DropReason::BufferDiscarded)?;
        let session = &self.sessions[owner].1;
        let mut own = readings(session);
        // A PDR of the same identifier and the other direction is another PDR.
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
