//! Acts of the operator, which the control thread carries out.

use std::net::IpAddr;

use adit_n4::Association;
use adit_types::{Nanos, Seid};

use super::ControlThread;
use crate::admin::{AdminAct, AdminAnswer, AnswerSink, SessionFilter, SessionFilterText};
use crate::log::log_filter;

/// How long a CP function may take to release its association.
const RELEASE_PERIOD: Nanos = Nanos::from_secs(60);

impl ControlThread {
    /// Carries out an act. The answer may leave in a later iteration.
    pub(super) fn act(&mut self, now: Nanos, act: AdminAct, answer: AnswerSink) {
        let answered = match act {
            AdminAct::Reload => return self.begin_reload(now, answer),
            AdminAct::DrainWorker(of) => return self.begin_owner_change(now, &of, true, answer),
            AdminAct::ResumeWorker(of) => return self.begin_owner_change(now, &of, false, answer),
            AdminAct::TakeOver => self.request_takeover(),
            AdminAct::EndSession(seid) => self.end_session(&seid),
            AdminAct::DiscardSession(of) => self.discard(now, &of),
            AdminAct::EndTap(tap) => self.end_tap(&tap),
            AdminAct::ReleaseAssociation(node_id) => self.release_association(now, &node_id),
            AdminAct::EndAssociation(node_id) => self.end_association(now, &node_id),
            AdminAct::Drain(on) => self.drain(on),
            AdminAct::SetLog(wanted) => match log_filter::set(&wanted) {
                Ok(()) => AdminAnswer::done("the log has the new filter"),
                Err(what) => AdminAnswer::Refused(what),
            },
        };
        answer(answered);
    }

    /// Returns the refusal of acts while this adit is a standby or restores sessions; else `None`.
    pub(super) fn refusal_while_passive(&self) -> Option<AdminAnswer> {
        let why = match (self.is_active(), self.parts.node.is_restoring()) {
            (false, _) => "this adit is a standby: the active adit has the sessions",
            (true, true) => {
                "sessions are being restored; try again when `adit show health` says ready"
            }
            (true, false) => return None,
        };
        Some(AdminAnswer::Refused(why.to_owned()))
    }

    fn end_session(&mut self, text: &str) -> AdminAnswer {
        if let Some(refused) = self.refusal_while_passive() {
            return refused;
        }
        let seid = match seid_of(text) {
            Ok(seid) => seid,
            Err(what) => return AdminAnswer::Refused(what),
        };
        match self.parts.node.end_session(seid) {
            true => AdminAnswer::done("the session is ended"),
            false => AdminAnswer::Unknown(format!("no session has the UP SEID {seid}")),
        }
    }

    /// Removes the records of sessions that are set aside. `text`: a UP SEID, or `all`.
    fn discard(&mut self, now: Nanos, text: &str) -> AdminAnswer {
        if let Some(refused) = self.refusal_while_passive() {
            return refused;
        }
        let node = &mut self.parts.node;
        if text == "all" {
            let all: Vec<Seid> = node.set_aside_sessions(None).map(|(seid, _)| seid).collect();
            let discarded = all.iter().filter(|seid| node.discard_set_aside(now, **seid)).count();
            return AdminAnswer::done(&format!("the records of {discarded} sessions are removed"));
        }
        match seid_of(text).map(|seid| (seid, node.discard_set_aside(now, seid))) {
            Ok((_, true)) => AdminAnswer::done("the records of the session are removed"),
            Ok((seid, false)) => AdminAnswer::Unknown(format!(
                "no session with the UP SEID {seid} is set aside; `adit show store` lists those that are"
            )),
            Err(what) => AdminAnswer::Refused(what),
        }
    }

    fn end_tap(&mut self, text: &str) -> AdminAnswer {
        match text.parse().is_ok_and(|number| self.parts.taps.end(number)) {
            true => AdminAnswer::done("the trace or capture is ended"),
            false => AdminAnswer::Unknown(format!(
                "no trace or capture has the number \"{text}\"; `adit show taps` lists those that run"
            )),
        }
    }

    fn release_association(&mut self, now: Nanos, node_id: &str) -> AdminAnswer {
        if let Some(refused) = self.refusal_while_passive() {
            return refused;
        }
        let Some(address) = self.association_named(node_id) else {
            return no_association(node_id);
        };
        self.parts.node.request_release(now, address, RELEASE_PERIOD);
        AdminAnswer::done(&format!(
            "the SMF is asked to release its association within {} s; the log says if it does not, and --force ends the \
             association without it",
            RELEASE_PERIOD.to_duration().as_secs()
        ))
    }

    fn end_association(&mut self, now: Nanos, node_id: &str) -> AdminAnswer {
        if let Some(refused) = self.refusal_while_passive() {
            return refused;
        }
        let found = self.association_named(node_id);
        let node = &mut self.parts.node;
        let ended = found.and_then(|address| node.end_association_by_operator(now, address));
        match ended {
            Some(sessions) => AdminAnswer::done(&format!(
                "the association is ended without the SMF, and so are its {sessions} sessions: their usage since the last \
                 reports is lost, and the SMF learns of it by Cause 72 at its next request"
            )),
            None => no_association(node_id),
        }
    }

    /// Returns the address of the association with this Node ID or address.
    fn association_named(&self, node_id: &str) -> Option<IpAddr> {
        let is_it = |known: &&Association| {
            let name = known.node_id.to_string();
            name.eq_ignore_ascii_case(node_id) || known.address.to_string() == node_id
        };
        self.parts.node.associations().find(is_it).map(|known| known.address)
    }

    fn drain(&mut self, on: bool) -> AdminAnswer {
        self.parts.node.set_draining(on);
        AdminAnswer::done(match on {
            true => "new sessions are refused with Cause 74, and full load is reported",
            false => "new sessions are accepted",
        })
    }
}

/// Parses a UP SEID.
///
/// # Errors
/// The text is no SEID.
fn seid_of(text: &str) -> Result<Seid, String> {
    let filter = SessionFilterText { seid: Some(text.to_owned()), ..Default::default() };
    SessionFilter::parse(&filter).map(|filter| filter.seid.unwrap_or(Seid(0)))
}

fn no_association(node_id: &str) -> AdminAnswer {
    AdminAnswer::Unknown(format!("no association has the Node ID \"{node_id}\""))
}
