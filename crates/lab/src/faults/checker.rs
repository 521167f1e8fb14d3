//! Finds violations in the records of a run after its end.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use adit_pfcp::{Message, PfcpDatagram};
use serde_json::Value;

use crate::faults::addresses::{UPFS, upf_of_mac};
use crate::faults::book::{BookedSession, BookedState, Finding, FindingKind, SmfBook};
use crate::faults::fault::{FaultKind, FaultRecord};
use crate::faults::messages::DOWNLINK_FAR;
use crate::faults::monitor::{MemorySample, RoleSample};
use crate::faults::switch::{ArpAnswer, PROBE_INTERVAL, PfcpFrame};
use crate::faults::timeline::{Stall, stalled_ms};
use crate::faults::upf::{LEASE_MS, USAGE_INTERVAL_MS};
use crate::faults::users::{PACKET_LEN, PacketLog, SentPacket};

/// Maximum time after a fault until changes are accepted again. Unit: ms.
pub(crate) const ACCEPTED_AGAIN_MAX_MS: u64 = 2 * LEASE_MS + 1000;
/// Interval at which the SMF repeats a request: it may learn this much later that changes are
/// accepted. Unit: ms.
const REQUEST_REPEAT_MS: u64 = 500;
/// Maximum time for which two adits may answer for one address. Unit: ms.
const TWO_ANSWERS_MAX_MS: u64 = 1000;
/// Packets that are lost within this time before or after a fault count as lost by it. Unit: ms.
const FAULT_MARGIN_MS: u64 = 500;
/// Interval at which a host repeats a request for the link-layer address of a neighbor that did not
/// answer. Spec: RFC 4861 §10 (RETRANS_TIMER).
const NEIGHBOR_RETRY_MS: u64 = 1000;
/// Permitted growth of memory: a share of it, plus an amount. Units: percent, KiB.
const MEMORY_GROWTH_PERCENT: u64 = 10;
const MEMORY_GROWTH_KIB: u64 = 16 * 1024;
/// Time after which a process uses its usual amount of memory. Unit: ms.
const WARM_UP_MS: u64 = 5000;
/// Maximum share of stalls in a span for which a verdict about time is possible. Unit: percent.
const STALLED_PERCENT_MAX: u64 = 15;

/// Compares the SMF's sessions with the sessions that the active adit shows.
pub(crate) fn sessions(at_ms: u64, book: &SmfBook, shown: &Value) -> Vec<Finding> {
    let rows = shown.get("sessions").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |row: &Value, key: &str| {
        row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let by_seid: HashMap<String, &Value> =
        rows.iter().map(|row| (text(row, "cp_seid"), row)).collect();
    let mut findings = Vec::new();
    let mut find = |kind, text| findings.push(Finding { at_ms, kind, text });
    for session in book.sessions.values() {
        let row = by_seid.get(&session.wish.cp_seid.to_string());
        match (session.state, row) {
            (BookedState::Live | BookedState::Modifying, None) => {
                find(FindingKind::Lost, format!("session {} is gone", session.wish.cp_seid));
            }
            (BookedState::Live | BookedState::Modifying, Some(row)) => {
                if let Some(difference) = difference(session, row) {
                    find(FindingKind::Lost, difference);
                }
            }
            (BookedState::Deleted | BookedState::Refused | BookedState::Lost, Some(_)) => {
                let state = format!("{:?}", session.state).to_lowercase();
                let text = format!("session {} was {state}, and exists", session.wish.cp_seid);
                find(FindingKind::Ghost, text);
            }
            _ => {}
        }
    }
    if by_seid.len() != rows.len() {
        let text = format!("{} sessions have {} SEIDs of the SMF", rows.len(), by_seid.len());
        find(FindingKind::Ghost, text);
    }
    findings
}

/// Describes how a session differs from its acknowledged state; `None` if it does not.
fn difference(session: &BookedSession, row: &Value) -> Option<String> {
    let seid = session.wish.cp_seid;
    if row.get("up_seid").and_then(Value::as_str) != Some(&session.up_seid.to_string()) {
        return Some(format!("session {seid} has another SEID than {}", session.up_seid));
    }
    let ue = session.ue.to_string();
    let has_ue = row.get("ue").and_then(Value::as_array).is_some_and(|all| {
        all.iter().any(|one| one.as_str().is_some_and(|text| text.split('/').next() == Some(&ue)))
    });
    if !has_ue {
        return Some(format!("session {seid} has another UE address than {ue}"));
    }
    let far = row.get("fars").and_then(Value::as_array).and_then(|fars| {
        fars.iter().find(|far| far.get("id").and_then(Value::as_u64) == Some(DOWNLINK_FAR.into()))
    });
    let teid = far.and_then(|far| far.get("tunnel")?.get("teid")).map(unquoted);
    let is_possible = |one: &adit_types::Teid| teid.as_deref() == Some(&one.to_string());
    if !is_possible(&session.teid) && !session.possible_teids.iter().any(is_possible) {
        let teid = teid.unwrap_or_default();
        return Some(format!("session {seid} sends to {teid}, acknowledged was {}", session.teid));
    }
    None
}

fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// An answer to a request about a session, as the switch recorded it.
struct SeenAnswer {
    at_ms: u64,
    upf: usize,
    sequence: u32,
    is_accepted: bool,
    octets: Vec<u8>,
}

fn seen_answers(frames: &[PfcpFrame]) -> Vec<SeenAnswer> {
    let mut all = Vec::new();
    for frame in frames {
        let Some(upf) = upf_of_mac(frame.mac) else { continue };
        for raw in PfcpDatagram::new(&frame.octets).flatten() {
            let cause = match Message::decode(&raw) {
                Ok(Message::SessionEstablishmentResponse(body)) => body.cause,
                Ok(Message::SessionModificationResponse(body)) => body.cause,
                Ok(Message::SessionDeletionResponse(body)) => body.cause,
                _ => continue,
            };
            all.push(SeenAnswer {
                at_ms: frame.at_ms,
                upf,
                sequence: raw.header.sequence,
                is_accepted: cause.is_accepted(),
                octets: frame.octets.clone(),
            });
        }
    }
    all
}

/// Finds requests that got different answers, and changes that an adit acknowledged after its
/// successor had acknowledged one.
pub(crate) fn answers(frames: &[PfcpFrame], roles: &[RoleSample]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first = HashMap::<u32, SeenAnswer>::new();
    let mut holder: Option<usize> = None;
    let mut taken_ms = 0;
    let name = |upf: usize| UPFS.get(upf).copied().unwrap_or_default();
    for answer in seen_answers(frames) {
        let (at_ms, sequence, upf) = (answer.at_ms, answer.sequence, answer.upf);
        if answer.is_accepted && holder != Some(upf) {
            if holder.is_some() && !became_active(roles, upf, taken_ms, at_ms) {
                let kind = FindingKind::TwoActive;
                let text =
                    format!("{} acknowledges request {sequence} after its successor", name(upf));
                findings.push(Finding { at_ms, kind, text });
            } else {
                (holder, taken_ms) = (Some(upf), at_ms);
            }
        }
        let Some(before) = first.get(&sequence) else {
            first.insert(sequence, answer);
            continue;
        };
        if before.octets != answer.octets {
            let (one, two) = (name(before.upf), name(upf));
            let words = |is_accepted| if is_accepted { "accepted" } else { "refused" };
            let text = format!(
                "request {sequence} was {} by {one} at {} ms, and {} by {two}",
                words(before.is_accepted),
                before.at_ms,
                words(answer.is_accepted),
            );
            findings.push(Finding { at_ms, kind: FindingKind::TwoAnswers, text });
        }
    }
    findings
}

/// True if adit `upf` took the lease after the other adit had acknowledged a change: it is then
/// active with a new epoch. An adit that was stopped and resumed still has its former epoch.
fn became_active(roles: &[RoleSample], upf: usize, after_ms: u64, at_ms: u64) -> bool {
    // The monitor is late by its interval and by the time that an adit takes to answer.
    let until_ms = at_ms + 2000;
    let mut before = None;
    for sample in roles.iter().filter(|sample| sample.upf == upf) {
        if sample.status.role != "active" {
            continue;
        }
        let is_new = sample.status.epoch != before;
        before = sample.status.epoch;
        if is_new && (after_ms..=until_ms).contains(&sample.at_ms) {
            return true;
        }
    }
    false
}

/// A span in which two adits answered for one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct TwoAnswerSpan {
    pub address: Ipv4Addr,
    /// Start of the span. Unit: ms since the start of the run.
    pub from_ms: u64,
    pub length_ms: u64,
}

/// Returns the spans in which two adits answered for one address.
pub(crate) fn two_answer_spans_of(answers: &[ArpAnswer]) -> Vec<TwoAnswerSpan> {
    // Answers to a probe and the next ones belong to one span.
    let window_ms = u64::try_from(PROBE_INTERVAL.as_millis()).unwrap_or(50) * 3;
    let mut spans: Vec<TwoAnswerSpan> = Vec::new();
    let mut last = HashMap::<(Ipv4Addr, usize), u64>::new();
    for answer in answers {
        let Some(upf) = upf_of_mac(answer.mac) else { continue };
        last.insert((answer.address, upf), answer.at_ms);
        let other = last.get(&(answer.address, 1 - upf.min(1))).copied();
        let Some(other_ms) = other.filter(|other_ms| other_ms + window_ms >= answer.at_ms) else {
            continue;
        };
        let open = spans.iter_mut().rev().find(|span| span.address == answer.address);
        match open.filter(|span| span.from_ms + span.length_ms + 2 * window_ms >= answer.at_ms) {
            Some(span) => span.length_ms = answer.at_ms - span.from_ms,
            None => spans.push(TwoAnswerSpan {
                address: answer.address,
                from_ms: other_ms,
                length_ms: answer.at_ms - other_ms,
            }),
        }
    }
    spans
}

/// Returns a finding for each span of [`two_answer_spans_of`] that is too long.
pub(crate) fn long_spans(spans: &[TwoAnswerSpan], stalls: &[Stall]) -> Vec<Finding> {
    let is_long = |span: &&TwoAnswerSpan| {
        let stalled = stalled_ms(stalls, span.from_ms, span.from_ms + span.length_ms);
        span.length_ms > TWO_ANSWERS_MAX_MS + stalled
    };
    let finding = |span: &TwoAnswerSpan| Finding {
        at_ms: span.from_ms,
        kind: FindingKind::TwoAddresses,
        text: format!("{} had two answers for {} ms", span.address, span.length_ms),
    };
    spans.iter().filter(is_long).map(finding).collect()
}

/// Records when changes were accepted again after each fault, and finds those that came too late.
pub(crate) fn acceptance(
    faults: &mut [FaultRecord],
    book: &SmfBook,
    stalls: &[Stall],
    run_end_ms: u64,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for fault in faults {
        let from_ms = fault.due_from_ms;
        let accepted =
            book.counted.iter().find(|answer| answer.is_accepted && answer.at_ms >= from_ms);
        fault.accepted_ms = accepted.map(|answer| answer.at_ms);
        let seen_ms = fault.accepted_ms.unwrap_or(run_end_ms);
        let stalled = stalled_ms(stalls, from_ms, seen_ms);
        let span = seen_ms.saturating_sub(from_ms);
        fault.is_too_slow_to_judge = span > 0 && stalled * 100 / span > STALLED_PERCENT_MAX;
        let is_late = span > fault.bound_ms + REQUEST_REPEAT_MS + 2 * stalled;
        if is_late && !fault.is_too_slow_to_judge {
            let words = match fault.accepted_ms {
                Some(_) => format!("a change is accepted after {span} ms"),
                None => format!("no change is accepted for {span} ms"),
            };
            let text = format!("{}: {words}, {} at most", fault.text, fault.bound_ms);
            findings.push(Finding { at_ms: from_ms, kind: FindingKind::Late, text });
        }
    }
    findings
}

/// Lost packets by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct PacketLosses {
    pub sent: u64,
    pub lost: u64,
    pub twice: u64,
    /// Lost packets by the kind of fault that explains them.
    pub by_fault: BTreeMap<String, u64>,
    /// Packets lost because the UPF had lost their session.
    pub by_lost_sessions: u64,
    /// Packets lost while the machine stalled.
    pub by_stalls: u64,
    pub unexplained: u64,
    /// When the first packet with an unexplained loss was sent. Unit: ms since the start of the
    /// run.
    pub unexplained_ms: Option<u64>,
}

/// Attributes lost packets to sessions, faults and stalls.
pub(crate) fn packets(
    book: &SmfBook,
    log: &PacketLog,
    faults: &[FaultRecord],
    stalls: &[Stall],
) -> PacketLosses {
    let is_lost_session = |cp_seid: u64| {
        book.sessions.get(&cp_seid).is_some_and(|session| session.state == BookedState::Lost)
    };
    let mut losses = PacketLosses::default();
    let explains = |fault: &&FaultRecord, packet: &SentPacket| {
        let from_ms = fault.start_ms.saturating_sub(FAULT_MARGIN_MS);
        let again_ms = fault.accepted_ms.unwrap_or(u64::MAX - FAULT_MARGIN_MS);
        let is_silent = matches!(fault.kind, FaultKind::Silent | FaultKind::SilentOneWay);
        let asked_ms = fault.end_ms + if is_silent { NEIGHBOR_RETRY_MS } else { 0 };
        let to_ms = fault.whole_ms.max(asked_ms).max(again_ms) + FAULT_MARGIN_MS;
        (from_ms..=to_ms).contains(&packet.at_ms)
    };
    for packet in log.uplink.iter().chain(&log.downlink) {
        losses.sent += 1;
        losses.twice += u64::from(packet.arrivals > 1);
        if packet.arrivals > 0 {
            continue;
        }
        losses.lost += 1;
        let around = [packet.at_ms.saturating_sub(FAULT_MARGIN_MS), packet.at_ms + FAULT_MARGIN_MS];
        if let Some(fault) = faults.iter().find(|fault| explains(fault, packet)) {
            *losses.by_fault.entry(fault.kind.name()).or_default() += 1;
        } else if is_lost_session(packet.cp_seid) {
            losses.by_lost_sessions += 1;
        } else if stalled_ms(stalls, around[0], around[1]) > 0 {
            losses.by_stalls += 1;
        } else {
            losses.unexplained += 1;
            losses.unexplained_ms.get_or_insert(packet.at_ms);
        }
    }
    losses
}

/// Returns a finding if losses are unexplained.
pub(crate) fn unexplained(losses: &PacketLosses) -> Option<Finding> {
    let at_ms = losses.unexplained_ms?;
    let text = format!("{} packets were lost without a fault", losses.unexplained);
    Some(Finding { at_ms, kind: FindingKind::Packets, text })
}

/// Usage of all held sessions. Unit: octets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct UsageTotals {
    pub sent: u64,
    pub arrived: u64,
    pub reported: u64,
    /// The volume that may be unreported because of crashes.
    pub may_be_lost: u64,
}

/// Compares reported usage with packets, for each session. `crashes` is how often a process or a
/// lease ended in the run.
pub(crate) fn usage(
    at_ms: u64,
    book: &SmfBook,
    log: &PacketLog,
    crashes: u64,
    packet_interval_ms: u64,
) -> (UsageTotals, Vec<Finding>) {
    let mut totals = UsageTotals::default();
    let mut findings = Vec::new();
    // A crash may lose the usage since the last record, and until requests are answered again, in
    // both directions. The held sessions share the packets equally.
    let per_crash_ms = USAGE_INTERVAL_MS + ACCEPTED_AGAIN_MAX_MS;
    let held = u64::try_from(crate::faults::smf::HELD_SESSIONS).unwrap_or(1);
    let per_crash = 2 * per_crash_ms / packet_interval_ms / held * PACKET_LEN;
    for (cp_seid, [sent, arrived]) in log.by_session() {
        let is_over = book
            .sessions
            .get(&cp_seid)
            .is_some_and(|session| session.is_held && session.state == BookedState::Deleted);
        let reported = book.reported_octets(cp_seid);
        let may_be_lost = (crashes + 1) * per_crash;
        totals.sent += sent * PACKET_LEN;
        totals.arrived += arrived * PACKET_LEN;
        totals.reported += reported;
        totals.may_be_lost += may_be_lost;
        if reported > sent * PACKET_LEN {
            let text = format!(
                "session {cp_seid}: {reported} octets were reported, {} were sent",
                sent * PACKET_LEN
            );
            findings.push(Finding { at_ms, kind: FindingKind::Usage, text });
        } else if is_over && reported + may_be_lost < arrived * PACKET_LEN {
            let text = format!(
                "session {cp_seid}: {reported} octets were reported, {} arrived, crashes may lose {may_be_lost}",
                arrived * PACKET_LEN
            );
            findings.push(Finding { at_ms, kind: FindingKind::Usage, text });
        }
    }
    (totals, findings)
}

/// Finds processes whose memory grew too much. Also returns the largest growth. Unit: KiB.
pub(crate) fn memory(samples: &[MemorySample]) -> (u64, Vec<Finding>) {
    let mut by_process = BTreeMap::<(usize, u32, bool), Vec<MemorySample>>::new();
    for sample in samples {
        let process = (sample.upf, sample.pid, sample.is_standby);
        by_process.entry(process).or_default().push(*sample);
    }
    let (mut largest, mut findings) = (0, Vec::new());
    for ((upf, ..), samples) in by_process {
        let Some(start) = samples.first() else { continue };
        let mut warm = samples.iter().filter(|one| one.at_ms >= start.at_ms + WARM_UP_MS);
        let Some(first) = warm.next() else { continue };
        let growth = warm.map(|one| one.kib).max().unwrap_or(0).saturating_sub(first.kib);
        largest = largest.max(growth);
        if growth > first.kib * MEMORY_GROWTH_PERCENT / 100 + MEMORY_GROWTH_KIB {
            let name = UPFS.get(upf).copied().unwrap_or_default();
            let text = format!("{name} grew by {growth} KiB from {}", first.kib);
            findings.push(Finding { at_ms: first.at_ms, kind: FindingKind::Memory, text });
        }
    }
    (largest, findings)
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
