//! Carries out the rules of a packet: gates, rates and quotas, copies, and the FAR.

use adit_rules::{ApplyAction, DropReason, Gate, Redirect};
use adit_session::{Far, Forwarding, Qer, SdfSpec, Urr};

use super::arrival::OraclePacket;
use super::classify::{OracleMatch, qers_of};
use super::forward::OracleForwarding;
use super::packet::u16_at;
use super::packet_rate::{self, OracleRateWindow, OracleWindowKey};
use super::predefined::OraclePredefinedRule;
use super::records::{OracleSession, waits_for_tunnel};
use super::verdict::{OracleBufferedBy, OracleExit, OracleLane, OracleOutcome, VerdictNotes};
use super::{Oracle, rate};

impl Oracle {
    /// Carries out the rules of a packet that came in `lane`; `is_again` if they held it before.
    pub(super) fn apply_rules(
        &self,
        arrival: &OraclePacket<'_>,
        lane: OracleLane,
        found: &OracleMatch,
        is_again: bool,
        notes: &mut VerdictNotes,
    ) -> OracleExit {
        let session = &self.sessions[found.owner].1;
        let predefined = found.rule.and_then(OraclePredefinedRule::qer);
        let qers = qers_of(session, &found.pdr, predefined.as_ref());
        let urrs = session.urrs.iter().filter(|urr| found.pdr.urrs.contains(&urr.id)).collect();
        let packet =
            EnforcedPacket { oracle: self, arrival, lane, found, session, qers, urrs, is_again };
        packet.enforce(notes)
    }
}

/// A packet with all its rules.
struct EnforcedPacket<'a> {
    oracle: &'a Oracle,
    arrival: &'a OraclePacket<'a>,
    lane: OracleLane,
    found: &'a OracleMatch,
    session: &'a OracleSession,
    qers: Vec<&'a Qer>,
    urrs: Vec<&'a Urr>,
    is_again: bool,
}

impl<'a> EnforcedPacket<'a> {
    fn enforce(&self, notes: &mut VerdictNotes) -> OracleExit {
        let OracleMatch { owner, from_ue, .. } = *self.found;
        let gate = |qer: &Qer| if from_ue { qer.gates.uplink } else { qer.gates.downlink };
        if self.qers.iter().any(|qer| gate(qer) == Gate::Closed) {
            self.measure_before_qos(notes);
            return Err(DropReason::GateClosed);
        }
        let far = &self.found.far;
        if let Some(exit) = self.stopped(far, notes) {
            return exit;
        }
        let windows = self.charge(notes)?;
        let far = match self.stopping_urr() {
            None => far,
            Some(urr) => {
                let action = urr.settings.quota_far.ok_or(DropReason::QuotaExhausted)?;
                let far = self.session.fars.iter().find(|far| far.id == action).unwrap();
                if let Some(exit) = self.stopped(far, notes) {
                    return exit;
                }
                far
            }
        };
        for urr in self.urrs.iter().filter(|urr| !self.is_stopped_by(urr)) {
            notes.measured.push((owner, urr.id, from_ue, self.octets()));
        }
        notes.counted = Some((owner, from_ue, self.octets()));
        notes.windows = windows.into_iter().map(|(key, window)| (owner, key, window)).collect();
        self.copy(far, notes);
        let forwarding = far.forwarding.as_ref().unwrap();
        match forwarding.redirect {
            // Time decides how many requests are answered.
            Some(Redirect::Url(_)) if self.is_http_request() => Ok(OracleOutcome::Consumed),
            Some(Redirect::Url(_)) => Err(DropReason::RedirectUnmatched),
            _ => self.forward(forwarding, false),
        }
    }

    /// The octets that the packet counts. Unit: octets.
    fn octets(&self) -> u64 {
        self.arrival.ip.len as u64
    }

    fn is_exhausted(&self, urr: &Urr) -> bool {
        self.session.usage[&urr.id].is_exhausted()
    }

    /// URRs that measure before QoS enforcement count the packet that it stops.
    fn measure_before_qos(&self, notes: &mut VerdictNotes) {
        let OracleMatch { owner, from_ue, .. } = *self.found;
        let measures = |urr: &&&Urr| urr.information().before_qos && !self.is_exhausted(urr);
        for urr in self.urrs.iter().filter(measures) {
            notes.measured.push((owner, urr.id, from_ue, self.octets()));
        }
    }

    /// Charges bit rates, then packet rates. Returns the windows of the latter.
    fn charge(
        &self,
        notes: &mut VerdictNotes,
    ) -> Result<Vec<(OracleWindowKey, OracleRateWindow)>, DropReason> {
        let OracleMatch { owner, from_ue, .. } = *self.found;
        let (session, now) = (self.session, self.oracle.now);
        let shared = &self.oracle.shared_due;
        let (has_passed, due) =
            rate::charge(session, shared, &self.qers, from_ue, now, self.octets());
        notes.due.extend(due.into_iter().map(|(bucket, up, due)| (owner, bucket, up, due)));
        if !has_passed {
            self.measure_before_qos(notes);
            return Err(DropReason::RateExceeded);
        }
        let (windows, since) = (&session.windows, &session.packet_rates_since);
        let charged = packet_rate::charge(windows, since, &self.qers, from_ue, now);
        charged.ok_or_else(|| {
            self.measure_before_qos(notes);
            DropReason::PacketRateExceeded
        })
    }

    /// True if the quota of the URR is used up and the packet is not exempt.
    fn is_stopped_by(&self, urr: &Urr) -> bool {
        let from_ue = self.found.from_ue;
        let is_exempt = urr.settings.exempted.iter().any(|exempted| {
            let is_application = |id| self.oracle.is_of_application(id, from_ue, self.arrival);
            exempted.flows.iter().any(|spec: &SdfSpec| self.arrival.is_of_flow(spec, from_ue))
                || exempted.applications.iter().any(|id| is_application(id))
        });
        self.is_exhausted(urr) && !is_exempt
    }

    /// The URR with the lowest identifier among those that stop the packet decides.
    fn stopping_urr(&self) -> Option<&'a Urr> {
        let stopping = self.urrs.iter().copied().filter(|urr| self.is_stopped_by(urr));
        stopping.min_by_key(|urr| urr.id)
    }

    /// The fate of the packet if the FAR does not forward it. Makes its copies then.
    fn stopped(&self, far: &Far, notes: &mut VerdictNotes) -> Option<OracleExit> {
        let exit = match far.action {
            action if action.contains(ApplyAction::BUFF) => Ok(self.buffer(far)),
            action if !action.contains(ApplyAction::FORW) => Err(DropReason::FarDrop),
            _ if waits_for_tunnel(far) => Err(DropReason::TunnelUnknown),
            _ => return None,
        };
        self.copy(far, notes);
        Some(exit)
    }

    fn buffer(&self, far: &Far) -> OracleOutcome {
        let bar = self.session.bars.iter().find(|bar| Some(bar.id) == far.bar);
        let room = bar.and_then(|bar| bar.suggested_pkts).unwrap_or(64);
        let OracleMatch { owner, from_ue, reading, removal, ref pdr, .. } = *self.found;
        let by = OracleBufferedBy {
            seid: self.oracle.sessions[owner].0,
            from_ue,
            pdr: pdr.id,
            reading,
            far: far.id,
            removal,
            first: self.arrival.first,
        };
        OracleOutcome::Buffer { by, room: usize::from(room.min(1024)), lane: self.lane }
    }

    /// Makes the copies that the FAR orders, once. A packet that waited and is dropped now leaves
    /// none.
    fn copy(&self, far: &Far, notes: &mut VerdictNotes) {
        let is_discarded = self.is_again && is_end(far);
        if far.action.contains(ApplyAction::DUPL) && !notes.is_copied && !is_discarded {
            let copies = far.duplicating.iter().map(|parts| self.forward(parts, true));
            notes.copies = copies.collect();
        }
    }

    /// True for a TCP segment to port 80, which a redirection to a URL answers.
    fn is_http_request(&self) -> bool {
        let ip = &self.arrival.ip;
        let segment = &self.arrival.packet[ip.upper.min(ip.len)..ip.len];
        let offset = |segment: &[u8]| usize::from(segment[12] >> 4) * 4;
        self.found.from_ue
            && ip.protocol == 6
            && !ip.is_fragment
            && segment.len() >= 20
            && (20..=segment.len()).contains(&offset(segment))
            && u16_at(segment, 2) == 80
    }

    fn forward(&self, forwarding: &Forwarding, is_copy: bool) -> OracleExit {
        let packet = OracleForwarding {
            oracle: self.oracle,
            arrival: self.arrival,
            session: self.session,
            pdr: &self.found.pdr,
            from_ue: self.found.from_ue,
            qers: &self.qers,
            forwarding,
            is_copy,
        };
        packet.exit()
    }
}

/// True if no packet passes the FAR: it drops, or has no tunnel yet and does not buffer.
pub(super) fn is_end(far: &Far) -> bool {
    far.action.contains(ApplyAction::DROP)
        || far.action.contains(ApplyAction::FORW) && waits_for_tunnel(far)
}
