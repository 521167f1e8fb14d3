//! Procedures over many sessions against a small UPF that loses requests.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

use adit_lab_engine::frame::Endpoints;
use adit_lab_process::stop::Stop;
use adit_pfcp::ie::{ApplyAction, DestinationInterface, FSeid, NetworkInstance, NodeId, Nullable};
use adit_pfcp::message::{
    AssociationSetupResponse, SessionDeletionResponse, SessionEstablishmentResponse,
    SessionModificationResponse,
};

use adit_pfcp::{Cause, Message, PfcpDatagram, RawMessage, encode};
use adit_types::{Qfi, Seid};

use crate::answer::recovery_time_stamp;
use crate::bulk::{SessionsConfig, TeidAllocation, UpfSessionIds};
use crate::churn::{Churn, ChurnPattern, ChurnPlan};
use crate::exchange::ProcedureReport;
use crate::identity::SmfIdentity;
use crate::instance::InstanceEncoding;
use crate::profile::{Kbps, SessionProfile};
use crate::smf::MESSAGE_BYTES;
use crate::{LabSmf, SmfOptions};

const UPF: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn config(count: u32, profile: SessionProfile) -> SessionsConfig {
    SessionsConfig {
        count,
        endpoints: Endpoints {
            ue_v4: Ipv4Addr::new(10, 0, 0, 1),
            ue_v6: std::net::Ipv6Addr::UNSPECIFIED,
            server_v4: Ipv4Addr::new(198, 51, 100, 1),
            server_v6: std::net::Ipv6Addr::UNSPECIFIED,
        },
        ipv6: false,
        gnbs: vec![Ipv4Addr::new(10, 0, 3, 1).into(), Ipv4Addr::new(10, 0, 3, 2).into()],
        gnb_teid: 0x100,
        upf: UPF.into(),
        teids: TeidAllocation::Given(0x5000),
        profile,
        profiles: Vec::new(),
        network_instances: [None, Some(b"internet".to_vec())],
    }
}

fn plain_sessions(count: u32) -> SessionsConfig {
    config(count, SessionProfile { qfi: Some(9), urrs: 1, ..SessionProfile::default() })
}

/// The UPF's state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MockUpfSession {
    rules: [usize; 3],
    action: ApplyAction,
    modifications: u32,
    gnb: Option<Ipv4Addr>,
}

#[derive(Debug, Default)]
struct MockUpf {
    node_id: String,
    refused: Option<u64>,
    sessions: HashMap<u64, MockUpfSession>,
    deletions: u32,
}

impl MockUpf {
    fn answer(&mut self, raw: &RawMessage<'_>, out: &mut [u8]) -> usize {
        let (sequence, node_id) = (raw.header.sequence, NodeId::Ipv4(UPF));
        let seid = raw.header.seid.map_or(0, |seid| seid.0.saturating_sub(1000));
        match Message::decode(raw).unwrap() {
            Message::AssociationSetupRequest(request) => {
                self.node_id = request.node_id.to_string();
                let cause = Cause::RequestAccepted;
                let body = AssociationSetupResponse::new(node_id, cause, recovery_time_stamp());
                encode(out, None, sequence, &body).unwrap()
            }
            Message::SessionEstablishmentRequest(request) => {
                let seid = request.cp_f_seid.seid.0;
                let rules = [
                    request.create_pdrs.len(),
                    request.create_qers.len(),
                    request.create_urrs.len(),
                ];
                let action = ApplyAction::FORW;
                let known = MockUpfSession { rules, action, modifications: 0, gnb: None };
                let cause = if self.refused == Some(seid) {
                    Cause::NoResourcesAvailable
                } else {
                    assert_eq!(self.sessions.insert(seid, known), None);
                    Cause::RequestAccepted
                };
                let body = SessionEstablishmentResponse {
                    up_f_seid: Some(FSeid::new(Seid(seid + 1000), UPF.into())),
                    ..SessionEstablishmentResponse::new(node_id, cause)
                };
                encode(out, Some(Seid(seid)), sequence, &body).unwrap()
            }
            Message::SessionModificationRequest(request) => {
                let known = self.sessions.get_mut(&seid).unwrap();
                known.modifications += 1;
                for far in request.update_fars.iter() {
                    known.action = far.apply_action.unwrap_or(known.action);
                    let parameters = far.update_forwarding_parameters.as_ref();
                    let creation = parameters.and_then(|new| new.outer_header_creation);
                    if let Some(Nullable::Value(creation)) = creation {
                        known.gnb = creation.v4;
                    }
                }
                let body = SessionModificationResponse::new(Cause::RequestAccepted);
                encode(out, Some(Seid(seid)), sequence, &body).unwrap()
            }
            Message::SessionDeletionRequest(_) => {
                assert!(self.sessions.remove(&seid).is_some(), "{seid}");
                self.deletions += 1;
                let body = SessionDeletionResponse::new(Cause::RequestAccepted);
                encode(out, Some(Seid(seid)), sequence, &body).unwrap()
            }
            other => panic!("{}", other.message_type()),
        }
    }

    /// Serves until `stop`. Loses every 41st request, and answers retransmissions from a cache.
    fn serve(mut self, socket: &UdpSocket, stop: &Stop) -> Self {
        let mut buffer = vec![0; MESSAGE_BYTES];
        let mut count = 0u32;
        while !stop.is_raised() {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            count += 1;
            if count.is_multiple_of(41) {
                continue;
            }
            let raw = PfcpDatagram::new(&buffer[..len]).next().unwrap().unwrap();
            let mut out = [0; 2048];
            let len = self.answer(&raw, &mut out);
            socket.send_to(&out[..len], from).unwrap();
        }
        self
    }
}

fn with_upf<T>(
    refused: Option<u64>,
    node_id: Option<&str>,
    rate: Option<u64>,
    work: impl FnOnce(&mut LabSmf) -> T,
) -> (T, MockUpf) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let peer = socket.local_addr().unwrap();
    let stop = Stop::default();
    let ends = stop.clone();
    let upf = MockUpf { refused, ..MockUpf::default() };
    let server = thread::spawn(move || upf.serve(&socket, &ends));
    let local = "127.0.0.1:0".parse().unwrap();
    let options = SmfOptions { window: 16, rate, keeps_reports: false };
    let mut smf = LabSmf::bind(local, peer, node_id, options).unwrap();
    smf.associate(Duration::from_secs(10), || Ok(())).unwrap();
    let result = work(&mut smf);
    stop.raise();
    (result, server.join().unwrap())
}

#[test]
fn sessions_are_established_and_deleted_though_requests_are_lost() {
    let ((sessions, established, deleted), upf) = with_upf(None, None, None, |smf| {
        let (sessions, established) = smf.establish_all(&plain_sessions(100), || Ok(())).unwrap();
        smf.answer_in_background().unwrap();
        (sessions, established, smf.delete_all(|| Ok(())).unwrap())
    });
    assert_eq!((sessions.uplink_teids[99], sessions.up_seids[99]), (0x5000 + 99, 1100));
    assert_eq!((established.count, deleted.count, upf.sessions.len()), (100, 100, 0));
    assert!(established.retransmissions > 0);
}

#[test]
fn refusal_ends_the_procedure_and_names_session_and_cause_unless_it_is_counted() {
    let (error, _) =
        with_upf(Some(41), None, None, |smf| smf.establish_all(&plain_sessions(100), || Ok(())));
    let text = format!("{:#}", error.unwrap_err());
    assert!(text.starts_with("session 40: the UPF refused a PFCP Session Est"), "{text}");
    let (report, upf) = with_upf(Some(41), None, None, |smf| {
        let mut sessions = UpfSessionIds::default();
        smf.establish_range(&plain_sessions(60), 0..60, &mut sessions, || Ok(())).unwrap()
    });
    assert_eq!((report.count, report.failed, upf.sessions.len()), (60, 1, 59));
    assert!(report.first_failure.unwrap().starts_with("session 40: "));
}

#[test]
fn node_id_is_the_address_or_the_given_one() {
    for (wanted, seen) in [
        (None, "127.0.0.1"),
        (Some("2001:db8::7"), "2001:db8::7"),
        (Some("smf1.example.org"), "smf1.example.org"),
    ] {
        let ((), upf) = with_upf(None, wanted, None, |_| ());
        assert_eq!(upf.node_id, seen);
    }
    let error = SmfIdentity::new(UPF.into(), Some("a..b")).unwrap_err().to_string();
    assert_eq!(error, "--node-id a..b: neither an address nor a domain name");
}

#[test]
fn rate_of_requests_is_kept() {
    let (report, _) = with_upf(None, None, Some(500), |smf| {
        smf.establish_all(&plain_sessions(30), || Ok(())).unwrap().1
    });
    // The first request is due at once.
    assert!(report.duration_ns >= 29 * 2_000_000, "{report:?}");
}

#[test]
fn profile_gives_each_session_its_rules() {
    let profile = SessionProfile {
        qfi: Some(9),
        flows: 5,
        match_flow: true,
        rate_qers: 2,
        mbr_kbps: Some(Kbps::Both(1000)),
        urrs: 3,
        ..SessionProfile::default()
    };
    let (_, upf) = with_upf(None, None, None, |smf| {
        smf.establish_all(&config(3, profile), || Ok(())).unwrap()
    });
    assert!(upf.sessions.values().all(|known| known.rules == [12, 3, 3]), "{upf:?}");
}

#[test]
fn sessions_have_the_rules_of_their_place() {
    let rates = |rate_qers| SessionProfile { rate_qers, ..SessionProfile::default() };
    let profiles = vec![(2, rates(3)), (1, rates(1))];
    let config = SessionsConfig { profiles, ..plain_sessions(4) };
    let (sessions, upf) =
        with_upf(None, None, None, |smf| smf.establish_all(&config, || Ok(())).unwrap().0);
    let qers = sessions.up_seids.iter().map(|up| upf.sessions[&(up - 1000)].rules[1]);
    assert_eq!(qers.collect::<Vec<_>>(), [3, 3, 1, 1]);
}

#[test]
fn rates_of_a_profile_stand_in_the_request() {
    let profile = SessionProfile {
        qfi: Some(9),
        flow_mbr_kbps: Some(Kbps::Each([3000, 5000])),
        flow_gbr_kbps: Some(Kbps::Both(1000)),
        averaging_window_ms: Some(500),
        rate_qers: 2,
        mbr_kbps: Some(Kbps::Both(8)),
        correlation_id: Some(70),
        ..SessionProfile::default()
    };
    let identity = SmfIdentity::new(UPF.into(), None).unwrap();
    let mut out = [0; 2048];
    let len = config(1, profile).establishment(&identity, 0, 1, &mut out).unwrap();
    let raw = PfcpDatagram::new(&out[..len]).next().unwrap().unwrap();
    let Message::SessionEstablishmentRequest(request) = Message::decode(&raw).unwrap() else {
        panic!("another message")
    };
    let qers: Vec<_> = request.create_qers.iter().collect();
    let bps = |rates: adit_pfcp::ie::RateLimits| [rates.uplink, rates.downlink].map(|r| r.as_bps());
    assert_eq!(qers[0].mbr.map(|mbr| bps(mbr.0)), Some([3_000_000, 5_000_000]));
    assert_eq!(qers[0].gbr.map(|gbr| bps(gbr.0)), Some([1_000_000; 2]));
    assert_eq!(qers[0].averaging_window.map(|window| window.0), Some(500));
    assert_eq!(qers[0].qer_correlation_id, None);
    for (qer, correlation) in qers[1..].iter().zip([70, 71]) {
        assert_eq!(qer.mbr.map(|mbr| bps(mbr.0)), Some([8000; 2]));
        assert_eq!(qer.qer_correlation_id.map(|id| id.0), Some(correlation));
    }
    assert_eq!(qers.len(), 3);
}

/// Passes the Session Establishment Request of session 0 to `work`.
fn with_establishment<T>(
    config: &SessionsConfig,
    work: impl FnOnce(&adit_pfcp::message::SessionEstablishmentRequest<'_>) -> T,
) -> T {
    let identity = SmfIdentity::new(UPF.into(), None).unwrap();
    let mut out = [0; 2048];
    let len = config.establishment(&identity, 0, 1, &mut out).unwrap();
    let raw = PfcpDatagram::new(&out[..len]).next().unwrap().unwrap();
    match Message::decode(&raw).unwrap() {
        Message::SessionEstablishmentRequest(request) => work(&request),
        other => panic!("{}", other.message_type()),
    }
}

#[test]
fn network_instances_stand_in_pdrs_and_fars_as_encoded() {
    let octets = |name| InstanceEncoding::Dns.octets(name).ok();
    let network_instances = [octets("access"), octets("sgi.example")];
    with_establishment(&SessionsConfig { network_instances, ..plain_sessions(1) }, |request| {
        let access = Some(NetworkInstance(b"\x06access"));
        let core = Some(NetworkInstance(b"\x03sgi\x07example"));
        let pdis = request.create_pdrs.iter().map(|pdr| pdr.pdi.network_instance);
        assert_eq!(pdis.collect::<Vec<_>>(), [access, core]);
        let to = |far: adit_pfcp::grouped::CreateFar<'_>| {
            let parameters = far.forwarding_parameters.unwrap();
            (
                parameters.destination_interface,
                parameters.network_instance.map(|name| name.0.to_vec()),
            )
        };
        let fars: Vec<_> = request.create_fars.iter().map(to).collect();
        let bytes = |name: Option<NetworkInstance<'_>>| name.map(|name| name.0.to_vec());
        let (to_core, to_access) = (DestinationInterface::Core, DestinationInterface::Access);
        assert_eq!(fars, [(to_core, bytes(core)), (to_access, bytes(access))]);
    });
}

#[test]
fn real_profile_has_the_rules_of_control_planes() {
    let usage = SessionProfile { qfi: Some(5), urrs: 1, ..SessionProfile::default() };
    with_establishment(&config(1, usage.with_ambr().with_any_filter()), |request| {
        let qers: Vec<_> = request.create_qers.iter().collect();
        let bps = qers.iter().map(|qer| {
            let rate = |rates: adit_pfcp::ie::RateLimits| [rates.uplink, rates.downlink];
            (qer.qfi, qer.mbr.map(|mbr| rate(mbr.0).map(|r| r.as_bps())))
        });
        let ambr = Some([100_000_000_000; 2]);
        assert_eq!(bps.collect::<Vec<_>>(), [(Qfi::new(5), None), (None, ambr)]);
        let [urr] = &request.create_urrs.iter().collect::<Vec<_>>()[..] else { panic!("one URR") };
        assert!(urr.measurement_method.contains(adit_pfcp::ie::MeasurementMethod::VOLUM));
        let pdrs: Vec<_> = request.create_pdrs.iter().collect();
        assert_eq!(pdrs.len(), 2);
        for pdr in pdrs {
            let flows: Vec<_> = pdr.pdi.sdf_filters.iter().collect();
            let text = b"permit out ip from any to assigned";
            assert_eq!(flows.len(), 1);
            assert_eq!(flows[0].flow_description, Some(&text[..]));
            assert_eq!((pdr.qer_ids.iter().count(), pdr.urr_ids.iter().count()), (2, 1));
        }
    });
}

/// Runs a pattern with the last 40 of 60 sessions until 300 requests are answered.
fn churn(pattern: ChurnPattern) -> (ProcedureReport, MockUpf) {
    with_upf(None, None, None, |smf| {
        let config = plain_sessions(60);
        let (sessions, _) = smf.establish_all(&config, || Ok(())).unwrap();
        smf.wait_for_answers().unwrap();
        let idle = Duration::from_millis(1);
        let mut churn =
            Churn::new(ChurnPlan { pattern, rate: 20_000, idle }, config, smf, sessions, 20..60);
        while churn.report().count < 300 {
            churn.step(smf).unwrap();
        }
        churn.finish(smf, || Ok(())).unwrap().0
    })
}

#[test]
fn handovers_move_the_tunnels_of_the_chosen_sessions() {
    let (report, upf) = churn(ChurnPattern::Handover);
    assert_eq!(report.failed, 0);
    let moved = |seid: &u64| upf.sessions[seid].modifications;
    assert!((1..=20).all(|seid| moved(&seid) == 0) && (21..=60).all(|seid| moved(&seid) >= 1));
    assert!(upf.sessions.values().any(|known| known.gnb == Some(Ipv4Addr::new(10, 0, 3, 2))));
}

#[test]
fn idle_sessions_are_active_again_at_the_end() {
    let (report, upf) = churn(ChurnPattern::Idle);
    assert_eq!(report.failed, 0);
    assert!(upf.sessions.values().all(|known| known.action == ApplyAction::FORW), "{upf:?}");
    let changed = upf.sessions.values().filter(|known| known.modifications > 0);
    assert_eq!(changed.count(), 40);
    assert!(upf.sessions.values().all(|known| known.modifications.is_multiple_of(2)));
}

#[test]
fn recreated_sessions_are_there_again_at_the_end() {
    let (report, upf) = churn(ChurnPattern::Recreate);
    assert_eq!((report.failed, upf.sessions.len()), (0, 60), "{report:?}");
    assert!(upf.deletions >= 100, "{}", upf.deletions);
}
