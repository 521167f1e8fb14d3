use adit_types::{MacAddr, Seid, Teid};
use serde_json::json;

use super::*;
use crate::faults::book::CountedAnswer;
use crate::faults::fault::FaultKind;
use crate::faults::messages::RequestedSession;
use crate::faults::monitor::UpfStatus;

const A: MacAddr = MacAddr([2, 0, 0, 1, 1, 4]);
const B: MacAddr = MacAddr([2, 0, 0, 1, 2, 4]);

fn session(cp_seid: u64, state: BookedState) -> BookedSession {
    let ue = Ipv4Addr::new(10, 45, 0, 1);
    BookedSession {
        wish: RequestedSession { cp_seid: Seid(cp_seid), ue: Some(ue), teid: Teid(7) },
        state,
        up_seid: Seid(100 + cp_seid),
        uplink_teid: Teid(1),
        ue,
        teid: Teid(7),
        possible_teids: vec![Teid(8)],
        is_held: true,
    }
}

fn row(cp_seid: u64, teid: u32) -> Value {
    let (up, cp) = (Seid(100 + cp_seid).to_string(), Seid(cp_seid).to_string());
    json!({ "up_seid": up, "cp_seid": cp, "ue": ["10.45.0.1"],
        "fars": [{ "id": 2, "tunnel": { "teid": Teid(teid).to_string() } }] })
}

fn kinds(findings: &[Finding]) -> Vec<FindingKind> {
    findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn sessions_are_lost_or_ghosts_by_what_was_answered() {
    let mut book = SmfBook::default();
    for (cp_seid, state) in [
        (1, BookedState::Live),
        (2, BookedState::Live),
        (3, BookedState::Live),
        (4, BookedState::Deleted),
        (5, BookedState::Refused),
        (6, BookedState::Unknown),
        (7, BookedState::Unknown),
    ] {
        book.sessions.insert(cp_seid, session(cp_seid, state));
    }
    // The UPF may have made a modification that was never answered.
    let shown = json!({ "sessions": [row(1, 8), row(2, 9), row(4, 7), row(5, 7), row(6, 7)] });
    let found = sessions(0, &book, &shown);
    let [lost, ghost] = [FindingKind::Lost, FindingKind::Ghost];
    assert_eq!(kinds(&found), [lost, lost, ghost, ghost], "{found:?}");
}

fn accepted(at_ms: u64, mac: MacAddr, sequence: u32) -> PfcpFrame {
    use adit_pfcp::message::SessionModificationResponse;
    let body = SessionModificationResponse::new(adit_pfcp::Cause::RequestAccepted);
    PfcpFrame {
        at_ms,
        mac,
        octets: crate::faults::messages::datagram(Some(Seid(1)), sequence, &body),
    }
}

fn active(at_ms: u64, upf: usize, epoch: u64) -> RoleSample {
    let status = UpfStatus { role: "active".into(), state: "working".into(), epoch: Some(epoch) };
    RoleSample { at_ms, upf, status }
}

#[test]
fn former_holder_must_not_acknowledge_and_may_once_it_is_active_again() {
    let frames = [accepted(1000, A, 1), accepted(5000, B, 2), accepted(5000, A, 3)];
    let roles = [active(0, 0, 1), active(4900, 1, 2)];
    assert_eq!(kinds(&answers(&frames, &roles)), [FindingKind::TwoActive]);
    let frames = [accepted(1000, A, 1), accepted(5000, B, 2), accepted(9000, A, 3)];
    let again = [active(0, 0, 1), active(4900, 1, 2), active(9100, 0, 3)];
    assert_eq!(answers(&frames, &again), []);
}

#[test]
fn successor_may_repeat_an_answer_and_must_not_change_it() {
    let mut frames = vec![accepted(1000, A, 1), accepted(5000, B, 1)];
    let roles = [active(0, 0, 1), active(4900, 1, 2)];
    assert_eq!(answers(&frames, &roles), []);
    let mut other = accepted(5100, B, 1);
    other.octets[11] ^= 1;
    frames.push(other);
    assert_eq!(kinds(&answers(&frames, &roles)), [FindingKind::TwoAnswers]);
}

#[test]
fn span_with_two_answers_is_as_long_as_both_go_on() {
    let address = Ipv4Addr::new(10, 0, 4, 2);
    let arp = |at_ms, mac| ArpAnswer { at_ms, address, mac };
    let mut all: Vec<ArpAnswer> = (0..40).map(|turn| arp(turn * 50, A)).collect();
    all.extend((20..60).map(|turn| arp(turn * 50 + 1, B)));
    all.sort_by_key(|answer| answer.at_ms);
    let spans = two_answer_spans_of(&all);
    assert_eq!(spans.len(), 1);
    assert!((900..=1200).contains(&spans[0].length_ms), "{spans:?}");
    assert!(long_spans(&[TwoAnswerSpan { length_ms: 900, ..spans[0] }], &[]).is_empty());
    assert_eq!(long_spans(&[TwoAnswerSpan { length_ms: 1500, ..spans[0] }], &[]).len(), 1);
    // Two adits that answer one after the other are no violation.
    let after = [arp(0, A), arp(50, A), arp(500, B), arp(550, B)];
    assert_eq!(two_answer_spans_of(&after), []);
}

fn fault(start_ms: u64, end_ms: u64) -> FaultRecord {
    FaultRecord {
        kind: FaultKind::KillActive,
        text: "kill".into(),
        start_ms,
        end_ms,
        due_from_ms: end_ms,
        bound_ms: ACCEPTED_AGAIN_MAX_MS,
        accepted_ms: None,
        whole_ms: end_ms,
        is_too_slow_to_judge: false,
    }
}

#[test]
fn late_acceptance_is_found_unless_the_machine_stalled() {
    let mut book = SmfBook::default();
    book.counted.push(CountedAnswer { at_ms: 7000, is_accepted: true });
    let mut faults = [fault(1000, 2000)];
    assert_eq!(kinds(&acceptance(&mut faults, &book, &[], 9000)), [FindingKind::Late]);
    let stalls = [Stall { end_ms: 6000, length_ms: 2000 }];
    assert_eq!(acceptance(&mut faults, &book, &stalls, 9000), []);
    assert!(faults[0].is_too_slow_to_judge);
    book.counted.insert(0, CountedAnswer { at_ms: 4000, is_accepted: true });
    assert_eq!(acceptance(&mut faults, &book, &[], 9000), []);
    assert_eq!(faults[0].accepted_ms, Some(4000));
}

#[test]
fn lost_packets_belong_to_the_fault_around_them() {
    let packet = |at_ms, arrivals| SentPacket { at_ms, cp_seid: 1, arrivals };
    let log = PacketLog {
        uplink: vec![packet(100, 1), packet(5000, 0), packet(9000, 0)],
        downlink: vec![packet(20_000, 0), packet(100, 2)],
    };
    let mut one = fault(4900, 5100);
    one.accepted_ms = Some(5200);
    let stalls = [Stall { end_ms: 9100, length_ms: 50 }];
    let losses = packets(&SmfBook::default(), &log, &[one], &stalls);
    assert_eq!((losses.sent, losses.lost, losses.twice), (5, 3, 1));
    assert_eq!(losses.by_fault.values().sum::<u64>(), 1);
    assert_eq!((losses.by_stalls, losses.unexplained), (1, 1));
    assert_eq!(unexplained(&losses).map(|finding| finding.at_ms), Some(20_000));
}

#[test]
fn usage_is_neither_more_than_was_sent_nor_less_than_crashes_may_lose() {
    let mut book = SmfBook::default();
    book.sessions.insert(1, session(1, BookedState::Deleted));
    let packet = SentPacket { at_ms: 0, cp_seid: 1, arrivals: 1 };
    let log = PacketLog { uplink: vec![packet; 2000], downlink: Vec::new() };
    let passed = 2000 * PACKET_LEN;
    book.note_usage(0, 1, 0, passed);
    assert!(usage(0, &book, &log, 0, 5).1.is_empty());
    book.note_usage(0, 1, 1, 1);
    assert_eq!(kinds(&usage(0, &book, &log, 0, 5).1), [FindingKind::Usage]);
    let mut less = SmfBook::default();
    less.sessions.insert(1, session(1, BookedState::Deleted));
    assert_eq!(kinds(&usage(0, &less, &log, 0, 5).1), [FindingKind::Usage]);
    assert!(usage(0, &less, &log, 9, 5).1.is_empty());
}

#[test]
fn memory_may_grow_by_a_tenth_and_some_mebioctets() {
    let sample = |at_ms, kib| MemorySample { at_ms, upf: 0, pid: 9, is_standby: false, kib };
    let grown = |kib| memory(&[sample(0, 90_000), sample(6000, 100_000), sample(7000, kib)]);
    assert_eq!(grown(110_000).0, 10_000);
    assert!(grown(110_000).1.is_empty());
    assert_eq!(kinds(&grown(140_000).1), [FindingKind::Memory]);
}
