//! The state machine in virtual time, with every answer that an NRF can give.

use serde_json::{Value, json};

use super::*;
use crate::profile::{AtsssCapability, Snssai, SnssaiUpfInfoItem, UpfInfo};

const ID: &str = "4947a69a-f61b-4bc1-b9da-47c9c5d14b64";
const FIRST: &str = "http://10.0.0.10:7777";
const SECOND: &str = "http://10.0.0.11:7777";

/// A machine, its clock and what is announced.
struct Trial {
    machine: Registration,
    now: Nanos,
    announced: Announcement,
}

fn profile(priority: u16) -> Arc<NfProfile> {
    let snssai = Snssai { sst: 1, sd: None };
    let item = SnssaiUpfInfoItem { snssai: snssai.clone(), dnns: Vec::new() };
    Arc::new(NfProfile {
        fqdn: None,
        ipv4_addresses: vec!["10.0.4.1".parse().unwrap()],
        ipv6_addresses: Vec::new(),
        snssais: vec![snssai],
        priority: Some(priority),
        capacity: None,
        upf_info: UpfInfo {
            snssais: vec![item],
            smf_serving_area: Vec::new(),
            interfaces: Vec::new(),
            pdu_session_types: Vec::new(),
            ue_ip_addr_ind: false,
            atsss_capability: AtsssCapability::default(),
        },
    })
}

fn bench(servers: &[&str], uses_tokens: bool) -> Trial {
    let servers = servers.iter().map(|uri| uri.parse().unwrap()).collect();
    let settings =
        NrfClientConfig { servers, instance: ID.parse().unwrap(), uses_tokens, heartbeat: None };
    let announced = Announcement { profile: Some(profile(1)), ..Announcement::default() };
    Trial { machine: Registration::new(settings), now: Nanos::from_secs(100), announced }
}

fn answer(status: u16) -> NrfAnswer {
    NrfAnswer { status, ..NrfAnswer::default() }
}

fn created(heartbeat_s: u64) -> NrfAnswer {
    let body = format!(r#"{{"heartBeatTimer":{heartbeat_s}}}"#).into_bytes();
    NrfAnswer { body, ..answer(201) }
}

fn to(status: u16, location: &str) -> NrfAnswer {
    NrfAnswer { location: Some(location.to_owned()), ..answer(status) }
}

fn later(status: u16, retry_after_s: u64) -> NrfAnswer {
    NrfAnswer { retry_after_s: Some(retry_after_s), ..answer(status) }
}

fn resource(root: &str) -> String {
    format!("{root}/nnrf-nfm/v1/nf-instances/{ID}")
}

impl Trial {
    /// Returns method and URI of the next request, which must be due now.
    fn next(&mut self) -> String {
        let request = self.machine.poll(self.now, &self.announced);
        let request = request.expect("a request is due");
        format!("{} {}", request.method, request.uri)
    }

    /// Returns the body of the next request as JSON.
    fn body(&mut self) -> Value {
        let request = self.machine.poll(self.now, &self.announced).expect("a request is due");
        serde_json::from_slice(&request.body).unwrap()
    }

    fn give(&mut self, answer: NrfAnswer) {
        self.machine.handle(self.now, Ok(answer));
    }

    fn give_fault(&mut self) {
        self.machine.handle(self.now, Err(NrfFault::TooSlow));
    }

    /// Asserts that nothing is due, moves to the next timer, and returns how far that is.
    fn wait(&mut self) -> Nanos {
        assert!(self.machine.poll(self.now, &self.announced).is_none(), "something is due");
        let next = self.machine.next_time(&self.announced);
        assert!(next > self.now && next < Nanos::NEVER, "no timer");
        let span = next.since(self.now);
        self.now = next;
        span
    }

    fn register(&mut self) {
        assert_eq!(self.next(), format!("PUT {}", resource(FIRST)));
        self.give(created(10));
    }

    fn state(&self) -> NrfState {
        self.machine.state(&self.announced)
    }
}

#[test]
fn registration_is_followed_by_heartbeats_in_the_time_of_the_nrf() {
    let mut bench = bench(&[FIRST], false);
    let body = bench.body();
    let expected = json!({
        "nfInstanceId": ID, "nfType": "UPF", "nfStatus": "REGISTERED", "load": 0, "priority": 1,
        "ipv4Addresses": ["10.0.4.1"], "sNssais": [{"sst": 1}],
        "upfInfo": {
            "sNssaiUpfInfoList": [{"sNssai": {"sst": 1}, "dnnUpfInfoList": []}],
            "ueIpAddrInd": false, "atsssCapability": {"atsssLL": false, "mptcp": false},
        },
    });
    assert_eq!(body, expected);
    bench.give(created(20));
    assert_eq!(bench.state().phase, NrfPhase::Registered);
    assert_eq!(bench.wait(), Nanos::from_secs(18));
    bench.announced.load = 40;
    let heartbeat = json!([
        {"op": "replace", "path": "/nfStatus", "value": "REGISTERED"},
        {"op": "add", "path": "/load", "value": 40},
    ]);
    assert_eq!(bench.body(), heartbeat);
    bench.give(answer(204));
    assert_eq!(bench.wait(), Nanos::from_secs(18));
    assert_eq!(bench.next(), format!("PATCH {}", resource(FIRST)));
    bench.give(NrfAnswer { status: 200, ..created(30) });
    assert_eq!(bench.wait(), Nanos::from_secs(27), "an answer changes the timer");
    let counters = bench.state().counters;
    assert_eq!((counters.registrations, counters.updates, counters.failures), (1, 2, 0));
}

#[test]
fn nothing_is_sent_before_a_profile_is_announced() {
    let mut bench = bench(&[FIRST], false);
    let profile = bench.announced.profile.take();
    assert!(bench.machine.poll(bench.now, &bench.announced).is_none());
    assert_eq!(bench.machine.next_time(&bench.announced), Nanos::NEVER);
    assert_eq!(bench.state().phase, NrfPhase::Waiting);
    bench.announced.profile = profile;
    assert_eq!(bench.state().phase, NrfPhase::Registering);
    bench.register();
}

#[test]
fn profile_that_is_withdrawn_silences_the_client_until_it_is_back() {
    let mut bench = bench(&[FIRST], false);
    bench.register();
    let profile = bench.announced.profile.take();
    bench.now += Nanos::from_secs(100);
    assert!(bench.machine.poll(bench.now, &bench.announced).is_none());
    assert_eq!(bench.machine.next_time(&bench.announced), Nanos::NEVER);
    assert_eq!(bench.state().phase, NrfPhase::Waiting);
    bench.announced.profile = profile;
    assert_eq!(bench.next(), format!("PATCH {}", resource(FIRST)));
    bench.give(answer(204));
    bench.wait();
}

#[test]
fn heartbeat_timer_that_is_missing_or_absurd_is_replaced() {
    let second = |timer: &str| {
        let mut bench = bench(&[FIRST], false);
        bench.next();
        bench.give(NrfAnswer { body: timer.as_bytes().to_vec(), ..answer(201) });
        bench.wait()
    };
    assert_eq!(second("<html>"), Nanos::from_secs(9));
    assert_eq!(second(r#"{"heartBeatTimer":"x"}"#), Nanos::from_secs(9));
    assert_eq!(second(r#"{"heartBeatTimer":18446744073709551615}"#), Nanos::from_secs(3240));
    assert_eq!(second(r#"{"heartBeatTimer":1}"#), Nanos::from_millis(900));
}

#[test]
fn drain_and_reload_are_sent_at_once_and_load_is_not() {
    let mut bench = bench(&[FIRST], false);
    bench.register();
    bench.announced.load = 80;
    assert!(bench.machine.poll(bench.now, &bench.announced).is_none());
    bench.announced.is_draining = true;
    assert_eq!(bench.body()[0]["value"], "UNDISCOVERABLE");
    bench.give(answer(204));
    assert_eq!(bench.state().status, Some(NfStatus::Undiscoverable));
    assert_eq!(bench.state().load, Some(80));
    bench.announced.is_draining = false;
    let mut changed = (*profile(7)).clone();
    changed.capacity = Some(100);
    changed.ipv4_addresses.clear();
    bench.announced.profile = Some(Arc::new(changed));
    let body = bench.body();
    let mut items: Vec<String> =
        body.as_array().unwrap()[2..].iter().map(|item| item.to_string()).collect();
    items.sort();
    assert_eq!(
        items,
        [
            r#"{"op":"add","path":"/capacity","value":100}"#,
            r#"{"op":"add","path":"/priority","value":7}"#,
            r#"{"op":"remove","path":"/ipv4Addresses"}"#,
        ]
    );
    bench.give(answer(204));
    bench.announced.profile = bench.announced.profile.as_deref().map(|same| Arc::new(same.clone()));
    assert!(bench.machine.poll(bench.now, &bench.announced).is_none(), "an equal profile");
}

#[test]
fn patch_that_is_refused_becomes_a_registration() {
    for status in [400, 403, 405, 409, 415] {
        let mut bench = bench(&[FIRST], false);
        bench.register();
        bench.announced.is_draining = true;
        assert!(bench.next().starts_with("PATCH "));
        bench.give(answer(status));
        bench.wait();
        assert_eq!(bench.body()["nfStatus"], "UNDISCOVERABLE", "{status}");
        bench.give(created(10));
        assert_eq!(bench.state().servers[0].problem, None);
    }
}

#[test]
fn registration_that_the_nrf_has_lost_is_made_anew_at_once() {
    let mut bench = bench(&[FIRST], false);
    bench.register();
    bench.wait();
    assert!(bench.next().starts_with("PATCH "));
    bench.give(answer(404));
    bench.register();
    assert_eq!(bench.state().counters.forgotten, 1);
    let mut events = Vec::new();
    while let Some(event) = bench.machine.poll_event() {
        events.push(event);
    }
    assert_eq!(events[1], NrfEvent::Forgotten { server: FIRST.to_owned() });
}

#[test]
fn nrf_that_accepts_heartbeats_of_a_upf_that_it_has_lost_gets_it_again() {
    let mut bench = bench(&[FIRST], false);
    bench.register();
    for number in 1..=90 {
        bench.wait();
        let is_whole = number % 30 == 0;
        let method = if is_whole { "PUT" } else { "PATCH" };
        assert_eq!(bench.next(), format!("{method} {}", resource(FIRST)), "{number}");
        assert_eq!(bench.body().is_object(), is_whole);
        // It was lost before the last of them.
        bench.give(answer(if number == 90 { 201 } else { 204 }));
    }
    let counters = bench.state().counters;
    assert_eq!((counters.registrations, counters.updates, counters.forgotten), (2, 89, 1));
    assert_eq!(bench.state().phase, NrfPhase::Registered);
    // A refused one is sent as a registration, as a refused patch is.
    for _ in 1..30 {
        bench.wait();
        bench.next();
        bench.give(answer(204));
    }
    bench.wait();
    assert_eq!(bench.next(), format!("PUT {}", resource(FIRST)));
    bench.give(answer(400));
    assert_eq!(bench.state().phase, NrfPhase::Registering);
}

#[test]
fn every_refusal_of_a_registration_pauses_and_says_why() {
    for status in
        [300, 304, 400, 401, 403, 404, 405, 408, 409, 411, 413, 415, 429, 500, 501, 503, 504]
    {
        let mut bench = bench(&[FIRST], false);
        let mut last = Nanos(0);
        for _ in 0..12 {
            bench.next();
            bench.give(answer(status));
            let state = bench.state();
            let problem = state.servers[0].problem.clone().unwrap();
            assert!(problem.starts_with(&format!("answers the registration with {status}: ")));
            assert_eq!(state.phase, NrfPhase::Registering);
            let pause = bench.wait();
            assert!(pause >= PAUSE_MIN && pause <= Nanos(PAUSE_MAX.0 * 5 / 4), "{pause:?}");
            assert!(pause >= Nanos(last.0 * 3 / 4), "{status}: {last:?}, {pause:?}");
            last = pause;
        }
        assert!(last >= PAUSE_MAX);
        bench.next();
        bench.give(created(10));
        assert_eq!(
            (bench.state().phase, bench.state().servers[0].failures),
            (NrfPhase::Registered, 0)
        );
    }
}

#[test]
fn problem_is_logged_once_until_it_changes() {
    let mut bench = bench(&[FIRST], false);
    for status in [503, 503, 503, 403] {
        bench.next();
        bench.give(answer(status));
        bench.wait();
    }
    let events: Vec<_> = std::iter::from_fn(|| bench.machine.poll_event()).collect();
    assert_eq!(events.len(), 2, "{events:?}");
}

#[test]
fn retry_after_is_honored_within_bounds() {
    for (asked, pause) in [(0, 1), (7, 7), (300, 300), (86_400, 300), (u64::MAX, 300)] {
        for status in [413, 429, 503] {
            let mut bench = bench(&[FIRST], false);
            bench.next();
            bench.give(later(status, asked));
            assert_eq!(bench.wait(), Nanos::from_secs(pause), "{status}, {asked}");
        }
    }
}

#[test]
fn heartbeat_that_fails_is_repeated_then_the_next_nrf_registers() {
    let mut bench = bench(&[FIRST, SECOND], false);
    bench.register();
    bench.wait();
    bench.next();
    bench.give_fault();
    assert_eq!(bench.state().phase, NrfPhase::Registered);
    assert!(bench.wait() < Nanos::from_secs(2));
    assert_eq!(bench.next(), format!("PATCH {}", resource(FIRST)));
    bench.give_fault();
    assert_eq!(bench.next(), format!("PUT {}", resource(SECOND)));
    bench.give(created(10));
    assert_eq!(bench.state().server, Some(1));
    bench.wait();
    assert_eq!(bench.next(), format!("PATCH {}", resource(SECOND)), "it stays where it is");
    bench.give(answer(204));
    let failed = bench.state().servers[0].clone();
    assert_eq!(failed.problem.as_deref(), Some("does not answer in time"));
}

#[test]
fn pause_beyond_the_heartbeat_moves_the_registration() {
    let mut bench = bench(&[FIRST, SECOND], false);
    bench.register();
    bench.wait();
    bench.next();
    bench.give(later(503, 60));
    assert_eq!(bench.next(), format!("PUT {}", resource(SECOND)));
}

#[test]
fn change_that_is_withdrawn_while_it_waits_leaves_no_timer_behind() {
    let mut bench = bench(&[FIRST], false);
    bench.register();
    bench.announced.is_draining = true;
    bench.next();
    bench.give_fault();
    bench.announced.is_draining = false;
    bench.wait();
    assert!(bench.next().starts_with("PATCH "));
    bench.give(answer(204));
    bench.wait();
}

#[test]
fn nrfs_that_all_fail_are_tried_by_priority_with_pauses() {
    let mut bench = bench(&[FIRST, SECOND], false);
    let mut requests = 0;
    let end = bench.now + Nanos::from_secs(600);
    while bench.now < end {
        while bench.machine.poll(bench.now, &bench.announced).is_some() {
            requests += 1;
            bench.give_fault();
        }
        bench.wait();
    }
    assert!((20..=40).contains(&requests), "{requests} requests in ten minutes");
}

#[test]
fn redirection_is_followed_and_a_permanent_one_stays() {
    let mut bench = bench(&[FIRST], false);
    bench.next();
    bench.give(to(307, &resource(SECOND)));
    assert_eq!(bench.next(), format!("PUT {}", resource(SECOND)));
    bench.give(NrfAnswer { location: Some(format!("{SECOND}/own/{ID}")), ..created(10) });
    let own = format!("{SECOND}/own/{ID}");
    assert_eq!(bench.state().resource.as_deref(), Some(own.as_str()));
    bench.wait();
    assert_eq!(bench.next(), format!("PATCH {own}"));
    bench.give(to(307, "/once"));
    assert_eq!(bench.next(), format!("PATCH {SECOND}/once"));
    bench.give(answer(204));
    bench.wait();
    assert_eq!(bench.next(), format!("PATCH {own}"));
    bench.give(to(308, "/always"));
    assert_eq!(bench.next(), format!("PATCH {SECOND}/always"));
    bench.give(answer(204));
    bench.wait();
    assert_eq!(bench.next(), format!("PATCH {SECOND}/always"));
}

#[test]
fn redirection_without_end_or_to_nowhere_is_refused() {
    let mut bench = bench(&[FIRST], false);
    for _ in 0..=REDIRECTS_MAX {
        bench.next();
        bench.give(to(308, &resource(FIRST)));
    }
    bench.wait();
    let problem = bench.state().servers[0].problem.clone().unwrap();
    assert!(problem.contains("308: check that nrf.servers names the NRF itself"), "{problem}");
    for wrong in [answer(307), to(307, "ftp://x/y"), to(307, "x y"), to(308, "")] {
        bench.next();
        bench.give(wrong);
        bench.wait();
    }
}

#[test]
fn token_is_requested_before_and_renewed_after_401_and_when_it_expires() {
    let mut bench = bench(&[FIRST], true);
    let granted = |lifetime: u64| NrfAnswer {
        body: format!(
            r#"{{"access_token":"t{lifetime}","token_type":"Bearer","expires_in":{lifetime}}}"#
        )
        .into_bytes(),
        ..answer(200)
    };
    let request = bench.machine.poll(bench.now, &bench.announced).unwrap();
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        format!(
            "grant_type=client_credentials&nfInstanceId={ID}&nfType=UPF&targetNfType=NRF&scope=nnrf-nfm"
        )
    );
    assert_eq!(request.uri, format!("{FIRST}/oauth2/token"));
    bench.give(granted(60));
    let request = bench.machine.poll(bench.now, &bench.announced).unwrap();
    assert_eq!((request.method, request.token.as_deref()), ("PUT", Some("t60")));
    bench.give(answer(401));
    assert!(bench.next().starts_with("POST "));
    bench.give(granted(30));
    let request = bench.machine.poll(bench.now, &bench.announced).unwrap();
    assert_eq!(request.token.as_deref(), Some("t30"));
    bench.give(created(40));
    bench.wait();
    assert!(bench.next().starts_with("POST "), "it has expired after 25 s");
    bench.give(granted(600));
    assert!(bench.next().starts_with("PATCH "));
    bench.give(answer(401));
    bench.next();
    bench.give(granted(600));
    bench.next();
    bench.give(answer(401));
    bench.wait();
    let problem = bench.state().servers[0].problem.clone().unwrap();
    assert!(problem.ends_with("let the NRF grant this UPF tokens for nnrf-nfm"), "{problem}");
    assert_eq!(bench.state().counters.tokens, 4);
}

#[test]
fn token_that_is_refused_or_unusable_is_a_problem_of_the_nrf() {
    for wrong in [200, 201, 400, 307, 404, 429, 503] {
        let mut bench = bench(&[FIRST], true);
        assert!(bench.next().starts_with("POST "));
        bench.give(answer(wrong));
        if matches!(wrong, 400 | 404) {
            assert!(bench.next().starts_with("PUT "), "registered functions may get one");
            bench.give(answer(401));
        }
        bench.wait();
        let problem = bench.state().servers[0].problem.clone().unwrap();
        assert!(problem.starts_with("answers the token request with "), "{problem}");
        assert!(bench.next().starts_with("POST "), "the next try begins anew");
    }
}

#[test]
fn token_that_only_registered_functions_get_is_requested_after_the_registration() {
    let mut bench = bench(&[FIRST], true);
    assert!(bench.next().starts_with("POST "));
    bench.give(answer(400));
    let request = bench.machine.poll(bench.now, &bench.announced).unwrap();
    assert_eq!((request.method, request.token), ("PUT", None));
    bench.give(created(10));
    assert_eq!(bench.state().servers[0].problem, None);
    bench.wait();
    assert!(bench.next().starts_with("POST "));
    bench.give(answer(400));
    bench.wait();
    let problem = bench.state().servers[0].problem.clone().unwrap();
    assert!(problem.starts_with("answers the token request with 400: let the NRF grant"));
}

#[test]
fn end_deregisters_what_is_registered_or_may_be() {
    let mut bench = bench(&[FIRST], false);
    bench.register();
    bench.announced.end = Some(ClientEnd::Deregister);
    assert!(!bench.machine.has_ended(&bench.announced));
    assert_eq!(bench.next(), format!("DELETE {}", resource(FIRST)));
    bench.give(answer(204));
    assert!(bench.machine.has_ended(&bench.announced));
    assert!(bench.machine.poll(bench.now, &bench.announced).is_none());

    let mut open = self::bench(&[FIRST], false);
    open.next();
    open.announced.end = Some(ClientEnd::Deregister);
    open.machine.abandon();
    assert_eq!(open.next(), format!("DELETE {}", resource(FIRST)));
    open.give(answer(404));
    assert!(open.machine.has_ended(&open.announced));
}

#[test]
fn end_waits_for_nothing_else() {
    let mut bench = bench(&[FIRST], false);
    bench.next();
    bench.give(answer(503));
    bench.announced.end = Some(ClientEnd::Deregister);
    assert!(bench.machine.has_ended(&bench.announced), "nothing is registered");

    let mut failing = self::bench(&[FIRST], false);
    failing.register();
    failing.announced.end = Some(ClientEnd::Deregister);
    failing.next();
    failing.give_fault();
    assert!(failing.machine.has_ended(&failing.announced), "one try");

    let mut kept = self::bench(&[FIRST], false);
    kept.register();
    kept.announced.end = Some(ClientEnd::Keep);
    assert!(kept.machine.has_ended(&kept.announced));
    assert!(kept.machine.poll(kept.now, &kept.announced).is_none());
}
