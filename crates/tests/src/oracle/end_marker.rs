//! End Markers that arrive in tunnels.

use adit_rules::{ApplyAction, DropReason, PuntReason};

use super::classify::readings;
use super::keys::local_teid;
use super::verdict::{OracleExit, OracleLane, OracleOutcome, VerdictNotes};
use super::{Oracle, frame, side};

impl Oracle {
    /// Forwards an End Marker like the packets of its tunnel, if they travel to a UE in a tunnel;
    /// else the slow path consumes it. Spec: TS 23.501 §5.8.2.9.
    pub(super) fn end_marker(&self, teid: u32, notes: &mut VerdictNotes) -> OracleExit {
        let owner = self.owner_of_teid(teid).ok_or(DropReason::TeidUnknown)?;
        let session = &self.sessions[owner].1;
        let side = side::of(session, Some(teid));
        notes.session = Some(owner);
        notes.lane = Some(OracleLane::EndMarker);
        let mut onward = readings(session).into_iter().filter(|(pdr, rule)| {
            Some(pdr.pdi.source) == side.tunnel
                && side::is_from_ue(session, pdr) == side.from_ue
                && local_teid(pdr).is_none_or(|local| local == teid)
                && rule.is_none_or(|rule| rule.far().is_none())
        });
        let next = onward.find_map(|(pdr, _)| {
            let far = session.fars.iter().find(|far| Some(far.id) == pdr.far).unwrap();
            let forwarding = far.forwarding.as_ref();
            let forwarding = forwarding.filter(|_| far.action.contains(ApplyAction::FORW))?;
            Some((forwarding, forwarding.outer_header_creation?.tunnel()?))
        });
        let Some((forwarding, next)) = next.filter(|_| !side.from_ue) else {
            return Ok(OracleOutcome::Punt(PuntReason::GtpuEndMarker));
        };
        let within = self.transport(forwarding.destination, self.name_of(forwarding));
        let (at, station) = self.route(&within, next.addr).ok_or(DropReason::RouteUnknown)?;
        let packet = frame::end_marker(&self.interfaces[at], next, self.outer_tos(forwarding, 0));
        Ok(self.send_to_station(at, station, &[packet], OracleLane::EndMarker))
    }
}
