//! Class 4: more than the node can hold.

use std::net::{Ipv4Addr, SocketAddr};

use adit_pfcp::grouped::{CreateFar, CreateQer};
use adit_pfcp::ie::{ApplyAction, GateStatus, IeType};
use adit_pfcp::{Cause, Message};
use adit_types::limits::{PENDING_PER_PEER_MAX, RESPONSE_CACHE_PER_PEER_MAX};
use adit_types::{FarId, Nanos, QerId, Seid, UrrId};

use crate::messages;
use crate::smf::*;
use crate::victim::{NodeAnswer, Victim, config_with_pool};

const FULL: NodeAnswer = NodeAnswer::Refused(Cause::NoResourcesAvailable, None, None);

#[test]
fn session_beyond_the_limit_is_refused_until_there_is_room() {
    let mut config = config();
    config.store.sessions_max = 5;
    let mut victim = Victim::with(config);
    for number in 1..=3 {
        victim.bench.session(smf(10), number.into(), &SessionScript::new(1, number));
    }
    for number in 4..50 {
        let script = SessionScript::new(1, number);
        assert_eq!(victim.send(smf(11), &establish(number.into(), &script)), FULL);
    }
    victim.assert_sessions_usable_when_full();
}

#[test]
fn rules_beyond_the_limit_are_refused_whole() {
    let mut victim = Victim::new();
    let fars: Vec<_> = (10..300).map(|id| CreateFar::new(FarId(id), ApplyAction::DROP)).collect();
    let fars: &'static [_] = Vec::leak(fars);
    let request = modify_with(1, victim.session, |body| body.create_fars = fars.into());
    assert!(matches!(
        victim.refuses(&request),
        NodeAnswer::Refused(Cause::NoResourcesAvailable, ..)
    ));
    let qers: Vec<_> = (10..300).map(|id| CreateQer::new(QerId(id), GateStatus::OPEN)).collect();
    let qers: &'static [_] = Vec::leak(qers);
    let request = modify_with(2, victim.session, |body| body.create_qers = qers.into());
    assert!(matches!(
        victim.refuses(&request),
        NodeAnswer::Refused(Cause::NoResourcesAvailable, ..)
    ));
    let pdrs: Vec<_> = (10..300).map(|id| messages::pdr(id, 1, 0)).collect();
    let pdrs: &'static [_] = Vec::leak(pdrs);
    let request = modify_with(3, victim.session, |body| body.create_pdrs = pdrs.into());
    assert!(matches!(
        victim.refuses(&request),
        NodeAnswer::Refused(Cause::NoResourcesAvailable, ..)
    ));
    victim.assert_sessions_usable();
}

#[test]
fn newer_rules_beyond_the_limit_are_refused_whole() {
    let mut victim = Victim::new();
    let full = |said| matches!(said, NodeAnswer::Refused(Cause::NoResourcesAvailable, ..));
    let urrs: Vec<_> = (10..300).map(messages::urr).collect();
    let urrs: &'static [_] = Vec::leak(urrs);
    let request = modify_with(1, victim.session, |body| body.create_urrs = urrs.into());
    assert!(full(victim.refuses(&request)));
    let bars: Vec<_> = (10..=90).map(messages::bar).collect();
    let bars: &'static [_] = Vec::leak(bars);
    let request = modify_with(2, victim.session, |body| body.create_bars = bars.into());
    assert!(full(victim.refuses(&request)));
    let endpoints: Vec<_> = (10..=90).map(messages::endpoint).collect();
    let endpoints: &'static [_] = Vec::leak(endpoints);
    let request =
        modify_with(3, victim.session, |body| body.create_traffic_endpoints = endpoints.into());
    assert!(full(victim.refuses(&request)));
    let urrs: Vec<_> = (10..10 + 9).map(UrrId).collect();
    let urrs: &'static [_] = Vec::leak(urrs);
    let request = modify_with(4, victim.session, |body| {
        let created: Vec<_> = urrs.iter().map(|urr| messages::urr(urr.0)).collect();
        body.create_urrs = Vec::leak(created)[..].into();
        let mut pdr = messages::pdr(50, 1, 50);
        pdr.urr_ids = urrs.into();
        body.create_pdrs = list([pdr]).into();
    });
    // More URRs than a PDR may have.
    let said = victim.refuses(&request);
    assert!(matches!(said, NodeAnswer::Refused(_, Some(IeType::URR_ID), Some(_))), "{said:?}");
    victim.assert_sessions_usable();
}

#[test]
fn empty_pool_of_ue_addresses_is_cause_79_until_one_is_free() {
    let mut victim = Victim::with(config_with_pool("10.60.0.0/30"));
    let rich = |sequence: u32, number: u16| {
        messages::rich_establishment(sequence, &SessionScript::new(number.into(), number))
    };
    let mut sessions = Vec::new();
    for number in 1..=2u16 {
        let bytes = victim.bench.answer(smf(10), &rich(number.into(), number));
        let Message::SessionEstablishmentResponse(body) = decode(&bytes) else { panic!() };
        sessions.push(body.up_f_seid.unwrap().seid);
        victim.bench.publish_all();
    }
    for number in 3..50 {
        let said = victim.refuses(&rich(number.into(), number));
        assert!(
            matches!(said, NodeAnswer::Refused(Cause::AllDynamicAddressesOccupied, ..)),
            "{said:?}"
        );
    }
    assert_eq!(victim.send(smf(10), &delete(60, sessions[0])), NodeAnswer::Accepted);
    assert_eq!(victim.send(smf(10), &rich(61, 61)), NodeAnswer::Accepted);
    victim.assert_alive_with(4);
}

#[test]
fn requests_that_wait_for_the_workers_are_bounded_per_peer() {
    let mut bench = Bench::associated();
    let most = u16::try_from(PENDING_PER_PEER_MAX).unwrap();
    for number in 0..most + 500 {
        let (sequence, script) = (u32::from(number) + 10, SessionScript::new(1, number + 1));
        bench.node.handle_datagram(bench.now, smf(10), &establish(sequence, &script));
    }
    // The store of 1000 sessions is full before the limit of requests; both limits hold.
    assert!(bench.node.pending_len() <= PENDING_PER_PEER_MAX);
    assert!(bench.node.store().len() <= 1000);
    bench.publish_all();
    assert_eq!(bench.node.pending_len(), 0);
    bench.sent();
    bench.answer(smf(10), &heartbeat(1, SMF_STARTED));
}

#[test]
fn strangers_leave_no_state() {
    let mut victim = Victim::new();
    for number in 0..5000u16 {
        let [hi, lo] = number.to_be_bytes();
        let from = SocketAddr::from((Ipv4Addr::new(203, 1, hi, lo), 1024 + number));
        let script = SessionScript::new(1, number);
        for message in [establish(1, &script), delete(2, Seid(number.into())), heartbeat(3, 1)] {
            victim.bench.ask(from, &message);
        }
    }
    assert_eq!(victim.bench.node.associations().count(), 2);
    victim.bench.run_until(Nanos(victim.bench.now.0 + 1));
    assert!(victim.bench.node.response_cache_len() < 10, "only answers to the two peers");
    victim.assert_sessions_usable();
}

#[test]
fn remembered_answers_are_bounded() {
    let mut victim = Victim::new();
    let most = u32::try_from(RESPONSE_CACHE_PER_PEER_MAX).unwrap();
    for sequence in 0..most + 5000 {
        let request = delete(sequence & 0x00ff_ffff, Seid(sequence.into()));
        victim.bench.ask(smf(10), &request);
    }
    assert!(victim.bench.node.response_cache_len() <= RESPONSE_CACHE_PER_PEER_MAX + 10);
    victim.assert_sessions_usable();
}

#[test]
fn datagram_full_of_messages_is_worked_off_once() {
    let mut victim = Victim::new();
    let mut bundle = Vec::new();
    let mut sequence = 0;
    while bundle.len() < 60_000 {
        sequence += 1;
        let mut message = heartbeat(sequence, SMF_STARTED);
        message[0] |= 4; // FO: another one follows.
        bundle.extend(message);
    }
    let sent = victim.bench.ask(smf(10), &bundle);
    assert_eq!(sent.len(), usize::try_from(sequence).unwrap());
    assert!(sent.iter().map(|sent| sent.bytes.len()).sum::<usize>() <= bundle.len());
    victim.assert_sessions_usable();
}

#[test]
fn deep_nesting_is_not_followed() {
    let mut victim = Victim::new();
    let mut nested = vec![0, 20, 0, 1, 0];
    while nested.len() < 60_000 {
        let len = u16::try_from(nested.len()).unwrap();
        let mut outer = vec![0, 2];
        outer.extend(len.to_be_bytes());
        outer.append(&mut nested);
        nested = outer;
    }
    let mut message = vec![0x21, 50];
    message.extend(u16::try_from(nested.len() + 12).unwrap().to_be_bytes());
    message.extend([0; 8]);
    message.extend([0, 0, 1, 0]);
    message.extend(nested);
    assert!(matches!(victim.refuses(&message), NodeAnswer::Refused(..)));
    victim.assert_sessions_usable();
}
