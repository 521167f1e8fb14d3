//! Registration over real connections: a strict NRF, and NRFs and networks that misbehave.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
mod nf_schema;
mod strict_nrf;
mod tls;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adit_nrf::{
    Announcement, ClientEnd, DnnUpfInfoItem, InterfaceUpfInfoItem, Ipv4AddressRange,
    Ipv6PrefixRange, NfInstanceUuid, NfProfile, NrfClient, NrfClientConfig, NrfPhase, NrfState,
    PduSessionType, Snssai, SnssaiUpfInfoItem, UpInterfaceType, UpfInfo,
};
use adit_transport::TlsSettings;
use adit_types::Nanos;
use strict_nrf::{Misbehavior, NrfManner, NrfOptions, StrictNrf};

/// A profile with every attribute.
fn profile() -> NfProfile {
    let snssai = Snssai { sst: 1, sd: Some("0000ab".to_owned()) };
    let dnn = DnnUpfInfoItem {
        dnn: "internet".to_owned(),
        pdu_session_types: vec![PduSessionType::Ipv4, PduSessionType::Ipv4v6],
        ipv4_address_ranges: vec![Ipv4AddressRange {
            start: Ipv4Addr::new(10, 60, 0, 0),
            end: Ipv4Addr::new(10, 60, 255, 255),
        }],
        ipv6_prefix_ranges: vec![Ipv6PrefixRange {
            start: "2001:db8::".parse().unwrap(),
            end: "2001:db8:0:ff::".parse().unwrap(),
            prefix_len: 64,
        }],
        network_instance: Some("internet".to_owned()),
    };
    let interface = |interface_type, address: &str| InterfaceUpfInfoItem {
        interface_type,
        ipv4_endpoint_addresses: match address.parse() {
            Ok(IpAddr::V4(address)) => vec![address],
            _ => Vec::new(),
        },
        ipv6_endpoint_addresses: match address.parse() {
            Ok(IpAddr::V6(address)) => vec![address],
            _ => Vec::new(),
        },
        network_instance: Some("access".to_owned()),
    };
    NfProfile {
        fqdn: Some("upf-1.5gc.example".to_owned()),
        ipv4_addresses: vec![Ipv4Addr::new(10, 0, 4, 2)],
        ipv6_addresses: vec!["2001:db8:4::2".parse().unwrap()],
        snssais: vec![snssai.clone()],
        priority: Some(1),
        capacity: Some(100),
        upf_info: UpfInfo {
            snssais: vec![SnssaiUpfInfoItem { snssai, dnns: vec![dnn] }],
            smf_serving_area: vec!["east".to_owned()],
            interfaces: vec![
                interface(UpInterfaceType::N3, "10.0.3.2"),
                interface(UpInterfaceType::N6, "10.0.6.2"),
                interface(UpInterfaceType::N9, "2001:db8:9::2"),
            ],
            pdu_session_types: vec![PduSessionType::Ipv4, PduSessionType::Ipv4v6],
            ue_ip_addr_ind: true,
            atsss_capability: Default::default(),
        },
    }
}

fn config(servers: &[String]) -> NrfClientConfig {
    NrfClientConfig {
        servers: servers.iter().map(|uri| uri.parse().unwrap()).collect(),
        instance: NfInstanceUuid::of_node("upf-1"),
        uses_tokens: false,
        heartbeat: None,
    }
}

fn announcement() -> Announcement {
    Announcement { profile: Some(Arc::new(profile())), load: 10, ..Announcement::default() }
}

/// Starts a client with an announcement.
fn started(config: NrfClientConfig) -> NrfClient {
    started_with(config, None)
}

fn started_with(config: NrfClientConfig, tls: Option<TlsSettings>) -> NrfClient {
    let client = NrfClient::start(config, tls).unwrap();
    client.announce(announcement());
    client
}

fn client_of(servers: &[&StrictNrf]) -> NrfClient {
    let uris: Vec<String> = servers.iter().map(|server| server.uri()).collect();
    started(config(&uris))
}

fn strict(heartbeat_s: u64) -> StrictNrf {
    StrictNrf::start(NrfOptions { heartbeat_s, ..NrfOptions::default() })
}

/// Waits until `is_done` is true of the state.
fn wait(client: &NrfClient, what: &str, is_done: impl Fn(&NrfState) -> bool) -> NrfState {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let state = client.state();
        if is_done(&state) {
            return state;
        }
        assert!(Instant::now() < end, "{what}: {state:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_registered(state: &NrfState) -> bool {
    state.phase == NrfPhase::Registered
}

#[test]
fn life_of_a_upf_satisfies_a_strict_nrf() {
    let nrf = strict(1);
    let client = NrfClient::start(config(&[nrf.uri()]), None).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(nrf.seen().is_empty(), "before the announcement");
    client.announce(announcement());
    let state = wait(&client, "registered", is_registered);
    assert_eq!(state.heartbeat.map(|span| span.to_duration()), Some(Duration::from_secs(1)));
    client.announce(Announcement { load: 55, ..announcement() });
    nrf.wait("two heartbeats", |nrf| nrf.count("PATCH") >= 2);
    assert_eq!(nrf.profiles()[0]["load"], 55);
    client.announce(Announcement { is_draining: true, ..announcement() });
    nrf.wait("drained", |nrf| nrf.profiles()[0]["nfStatus"] == "UNDISCOVERABLE");
    let mut changed = profile();
    changed.upf_info.snssais[0].dnns[0].dnn = "ims".to_owned();
    changed.capacity = None;
    client.announce(Announcement { profile: Some(Arc::new(changed)), ..announcement() });
    nrf.wait("changed", |nrf| {
        let profile = &nrf.profiles()[0];
        let dnns = &profile["upfInfo"]["sNssaiUpfInfoList"][0]["dnnUpfInfoList"];
        dnns[0]["dnn"] == "ims" && !profile.contains_key("capacity")
    });
    client.end(ClientEnd::Deregister);
    assert_eq!((nrf.profiles().len(), nrf.count("PUT"), nrf.count("DELETE")), (0, 1, 1));
    nrf.assert_content();
}

#[test]
fn end_that_keeps_the_registration_sends_nothing() {
    let nrf = strict(10);
    let client = client_of(&[&nrf]);
    wait(&client, "registered", is_registered);
    client.end(ClientEnd::Keep);
    assert_eq!((nrf.profiles().len(), nrf.seen().len()), (1, 1));
}

#[test]
fn successor_registers_as_the_same_instance() {
    let nrf = strict(10);
    let first = client_of(&[&nrf]);
    wait(&first, "registered", is_registered);
    let second = client_of(&[&nrf]);
    wait(&second, "registered", is_registered);
    first.end(ClientEnd::Keep);
    assert_eq!((nrf.profiles().len(), nrf.count("PUT")), (1, 2));
    assert_eq!(nrf.seen()[1].status, 200);
    second.end(ClientEnd::Deregister);
    nrf.assert_content();
}

#[test]
fn nrf_that_forgets_gets_the_registration_again() {
    let nrf = strict(1);
    let client = client_of(&[&nrf]);
    wait(&client, "registered", is_registered);
    nrf.forget_all();
    nrf.wait("again", |nrf| nrf.count("PUT") == 2);
    wait(&client, "counted", |state| is_registered(state) && state.counters.forgotten == 1);
    client.end(ClientEnd::Deregister);
    nrf.assert_content();
}

#[test]
fn nrf_that_dies_is_replaced_by_the_next_one() {
    let (first, second) = (strict(1), strict(1));
    let client = client_of(&[&first, &second]);
    wait(&client, "registered", is_registered);
    assert!(second.seen().is_empty());
    drop(first);
    second.wait("taken over", |nrf| nrf.count("PUT") == 1);
    let state = wait(&client, "known", |state| state.server == Some(1));
    let problem = state.servers[0].problem.clone().unwrap();
    assert!(problem.contains("connection refused"), "{problem}");
    second.wait("alive", |nrf| nrf.count("PATCH") >= 1);
    client.end(ClientEnd::Deregister);
    assert!(second.profiles().is_empty());
    second.assert_content();
}

#[test]
fn nrf_that_starts_late_or_again_gets_the_registration() {
    let nrf = strict(1);
    let address = nrf.address;
    drop(nrf);
    let client = started(config(&[format!("http://{address}")]));
    wait(&client, "refused", |state| state.servers[0].failures > 0);
    let options = || NrfOptions { address: Some(address), heartbeat_s: 1, ..NrfOptions::default() };
    let late = StrictNrf::start(options());
    late.wait("registered", |nrf| nrf.count("PUT") == 1);
    drop(late);
    let again = StrictNrf::start(options());
    again.wait("again", |nrf| nrf.profiles().len() == 1);
    client.end(ClientEnd::Deregister);
    again.assert_content();
}

#[test]
fn tokens_are_requested_when_the_nrf_wants_them() {
    let options = || NrfOptions { heartbeat_s: 1, wants_tokens: true, ..NrfOptions::default() };
    let nrf = StrictNrf::start(options());
    let client = started(NrfClientConfig { uses_tokens: true, ..config(&[nrf.uri()]) });
    nrf.wait("a heartbeat", |nrf| nrf.count("PATCH") >= 1);
    assert_eq!(client.state().counters.tokens, 1);
    client.end(ClientEnd::Deregister);
    nrf.assert_content();

    let nrf = StrictNrf::start(options());
    let client = client_of(&[&nrf]);
    let state = wait(&client, "refused", |state| state.servers[0].problem.is_some());
    let expected =
        "answers the registration with 401 (REFUSED): it wants a token: set nrf.oauth2 = true";
    assert_eq!(state.servers[0].problem.as_deref(), Some(expected));
    client.end(ClientEnd::Deregister);
}

/// The profile's numbers are 0, and this NRF does not store such numbers.
#[test]
fn life_of_an_idle_upf_satisfies_an_nrf_in_the_manner_of_free5gc() {
    let manner = NrfManner::Free5gc;
    let nrf = StrictNrf::start(NrfOptions { wants_tokens: true, manner, ..NrfOptions::default() });
    let heartbeat = Some(Nanos::from_secs(1));
    let settings = NrfClientConfig { uses_tokens: true, heartbeat, ..config(&[nrf.uri()]) };
    let idle = |priority| Announcement {
        profile: Some(Arc::new(NfProfile { priority: Some(priority), ..profile() })),
        ..Announcement::default()
    };
    let client = NrfClient::start(settings, None).unwrap();
    client.announce(idle(0));
    nrf.wait("two heartbeats", |nrf| nrf.count("PATCH") >= 2);
    assert!(!nrf.profiles()[0].contains_key("priority"));
    client.announce(idle(3));
    nrf.wait("changed", |nrf| nrf.profiles()[0].get("priority") == Some(&3.into()));
    client.end(ClientEnd::Deregister);
    assert_eq!((nrf.profiles().len(), nrf.count("PUT"), nrf.count("DELETE")), (0, 1, 1));
    nrf.assert_content();
    let refused: Vec<_> = nrf.seen().into_iter().filter(|seen| seen.status >= 400).collect();
    assert_eq!((refused.len(), refused[0].method.as_str()), (1, "POST"));
}

#[test]
fn redirections_lead_to_another_nrf_and_end() {
    let (first, second) = (strict(1), strict(1));
    let path = format!("/nnrf-nfm/v1/nf-instances/{}", NfInstanceUuid::of_node("upf-1"));
    let to = |root: String| Misbehavior::Answer {
        status: 308,
        fields: vec![("location", format!("{root}{path}"))],
        body: Vec::new().into(),
    };
    first.misbehave([to(second.uri())]);
    let client = client_of(&[&first]);
    second.wait("a heartbeat", |nrf| nrf.count("PATCH") >= 1);
    assert_eq!(first.seen().len(), 1);
    client.end(ClientEnd::Deregister);
    assert!(second.profiles().is_empty());

    first.misbehave(vec![to(first.uri()); 1000]);
    let client = client_of(&[&first]);
    let state = wait(&client, "refused", |state| state.counters.failures == 1);
    assert_eq!(state.counters.redirects, 3);
    client.end(ClientEnd::Deregister);
}
