//! PFD Management over N4: accepted PFDs act in sessions, refused ones change nothing.

use std::net::Ipv4Addr;

use adit_pfcp::grouped::{ApplicationIdsPfds, CreateUrr, PfdContext};
use adit_pfcp::ie::{
    self, ApplicationId, MeasurementMethod, OffendingIe, PfdContents, ReportingTriggers,
    UpFunctionFeatures, UsageReportTrigger,
};
use adit_pfcp::message::{PfdManagementRequest, PfdManagementResponse};
use adit_pfcp::{Cause, IeType, Message, MessageType};
use adit_rules::{PacketFilter, SessionRules, WorkerEvent};
use adit_session::parse_flow_description;
use adit_types::{PdrId, UrrId};

use crate::smf::*;

const WEB: &str = "permit out 6 from 203.0.113.0/24 443 to assigned";
const DNS: &str = "permit out 17 from any 53 to assigned";
const ACCEPTED: (Cause, Option<IeType>) = (Cause::RequestAccepted, None);

fn flow(text: &'static str) -> PfdContents<'static> {
    PfdContents { flow_description: Some(text.as_bytes()), ..PfdContents::default() }
}

/// An application with one context per contents; without any it is withdrawn.
fn application(
    id: &'static [u8],
    contents: &[PfdContents<'static>],
) -> ApplicationIdsPfds<'static> {
    let contexts = contents.iter().map(|contents| PfdContext::new(list([*contents]).into()));
    let mut group = ApplicationIdsPfds::new(ApplicationId(id));
    group.pfd_contexts = Vec::leak(contexts.collect::<Vec<_>>())[..].into();
    group
}

fn request(sequence: u32, applications: &[ApplicationIdsPfds<'static>]) -> Vec<u8> {
    let mut body = PfdManagementRequest::new();
    body.application_ids_pfds = applications.into();
    encode(None, sequence, &body)
}

fn response(bytes: &[u8]) -> (Cause, Option<IeType>) {
    let Message::PfdManagementResponse(body) = decode(bytes) else { panic!() };
    let PfdManagementResponse { cause, offending_ie, .. } = body;
    (cause, offending_ie.map(|OffendingIe(ie)| IeType(ie)))
}

fn establish_naming(sequence: u32, script: &SessionScript, id: &'static [u8]) -> Vec<u8> {
    establish_with(sequence, script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.application_id = Some(ApplicationId(id));
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

fn filters(texts: &[&str]) -> Vec<PacketFilter> {
    texts.iter().map(|text| parse_flow_description(text).unwrap()).collect()
}

/// The rules that are published next, once they run.
fn published(bench: &mut Bench) -> Option<SessionRules> {
    let (id, delta) = bench.node.poll_delta()?;
    bench.node.handle_published(bench.now, id);
    delta.rules.map(|rules| *rules)
}

#[test]
fn association_setup_announces_pfd_management() {
    let mut bench = Bench::new();
    let bytes = bench.answer(smf(10), &setup(1, Ipv4Addr::new(192, 0, 2, 10), SMF_STARTED));
    let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
    let wanted = UpFunctionFeatures::PFDM | UpFunctionFeatures::PFDE;
    assert!(body.up_function_features.unwrap().contains(wanted));
}

/// Spec: TS 29.244 §6.2.5: PFDs hold for new sessions and those that exist.
#[test]
fn pfds_act_in_sessions_before_the_answer_leaves() {
    let mut bench = Bench::associated();
    let given = [application(b"web", &[flow(WEB)])];
    assert_eq!(response(&bench.answer(smf(10), &request(2, &given))), ACCEPTED);
    let script = SessionScript::new(0xc1, 1);
    bench.node.handle_datagram(bench.now, smf(10), &establish_naming(3, &script, b"web"));
    assert_eq!(published(&mut bench).unwrap().downlink[0].sdf, filters(&[WEB]));
    bench.sent();

    let mut several = flow(WEB);
    let afd = format!("\0{}{DNS}", char::from(u8::try_from(DNS.len()).unwrap()));
    several.additional_flow_descriptions = Some(String::leak(afd).as_bytes());
    let bytes = request(4, &[application(b"web", &[several])]);
    bench.node.handle_datagram(bench.now, smf(10), &bytes);
    assert!(bench.sent().is_empty(), "answered before the workers run the rules");
    assert_eq!(published(&mut bench).unwrap().downlink[0].sdf, filters(&[WEB, DNS]));
    let sent = bench.sent();
    assert_eq!(response(&sent[0].bytes), ACCEPTED);
    bench.node.handle_datagram(bench.now, smf(10), &bytes);
    assert_eq!(bench.sent()[0].bytes, sent[0].bytes, "a retransmission");
    assert_eq!(published(&mut bench), None);

    bench.node.handle_datagram(bench.now, smf(10), &request(5, &[application(b"web", &[])]));
    assert_eq!(published(&mut bench).unwrap().downlink, [], "an application without PFDs");
    bench.sent();
    bench.answer(smf(10), &request(6, &given));
    bench.node.handle_datagram(bench.now, smf(10), &request(7, &[]));
    assert_eq!(published(&mut bench).unwrap().downlink, [], "all PFDs withdrawn");
    assert_eq!(bench.node.counters().received(MessageType::PFD_MANAGEMENT_REQUEST), 6);
    assert_eq!(bench.node.counters().scalars.pfd_requests_accepted, 5);
}

#[test]
fn pfds_without_an_association_are_cause_72() {
    let mut bench = Bench::associated();
    let given = [application(b"web", &[flow(WEB)])];
    let unknown = (Cause::NoEstablishedAssociation, None);
    assert_eq!(response(&bench.answer(smf(11), &request(1, &given))), unknown);
    let mut body = PfdManagementRequest::new();
    body.node_id = Some(ie::NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 99)));
    assert_eq!(response(&bench.answer(smf(10), &encode(None, 2, &body))), unknown);
    assert_eq!(bench.node.store().provided_applications().count(), 0);
    assert_eq!(bench.node.counters().refused(Cause::NoEstablishedAssociation), 2);
}

/// go-pfcp users delete so. Spec: TS 29.244 §6.2.5, §7.4.3.1, §8.2.39.
#[test]
fn empty_pfd_contents_delete_the_pfds_of_their_application_and_no_other() {
    let mut bench = Bench::associated();
    let given = [application(b"web", &[flow(WEB)]), application(b"dns", &[flow(DNS)])];
    assert_eq!(response(&bench.answer(smf(10), &request(2, &given))), ACCEPTED);
    let script = SessionScript::new(0xc1, 1);
    bench.node.handle_datagram(bench.now, smf(10), &establish_naming(3, &script, b"web"));
    assert_eq!(published(&mut bench).unwrap().downlink.len(), 1);
    bench.sent();
    let emptied = request(4, &[application(b"web", &[PfdContents::default()])]);
    bench.node.handle_datagram(bench.now, smf(10), &emptied);
    assert_eq!(published(&mut bench).unwrap().downlink, [], "an application without PFDs");
    assert_eq!(response(&bench.sent()[0].bytes), ACCEPTED);
    let left: Vec<_> = bench.node.store().provided_applications().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let mixed = [application(b"web", &[PfdContents::default(), flow(DNS)])];
    bench.node.handle_datagram(bench.now, smf(10), &request(5, &mixed));
    assert_eq!(published(&mut bench).unwrap().downlink[0].sdf, filters(&[DNS]));
}

/// Each with an application before it that would be fine.
#[test]
fn pfds_that_cannot_act_are_refused_precisely_and_wholly() {
    let contents = PfdContents::default;
    let unsupported = (Cause::ServiceNotSupported, Some(IeType::PFD_CONTENTS));
    let incorrect = (Cause::MandatoryIeIncorrect, Some(IeType::PFD_CONTENTS));
    let bad_id = (Cause::MandatoryIeIncorrect, Some(IeType::APPLICATION_ID));
    let cases = [
        (&b"x"[..], PfdContents { url: Some(b"^http://example.org"), ..flow(WEB) }, unsupported),
        (b"x", PfdContents { domain_name: Some(b"example.org"), ..contents() }, unsupported),
        (b"x", PfdContents { domain_name_protocol: Some(b"1"), ..contents() }, unsupported),
        (b"x", PfdContents { custom: Some(b"1"), ..contents() }, unsupported),
        (b"x", PfdContents { additional_urls: Some(b""), ..flow(WEB) }, unsupported),
        (b"x", PfdContents { additional_domain_names: Some(b""), ..flow(WEB) }, unsupported),
        (b"x", flow("permit"), incorrect),
        (b"x", PfdContents { flow_description: Some(b"\xff"), ..contents() }, incorrect),
        (b"x", PfdContents { additional_flow_descriptions: Some(b""), ..contents() }, incorrect),
        (b"x", PfdContents { additional_flow_descriptions: Some(b"\0"), ..flow(WEB) }, incorrect),
        (
            b"x",
            PfdContents { additional_flow_descriptions: Some(b"\0\x02."), ..flow(WEB) },
            incorrect,
        ),
        (b"", flow(WEB), bad_id),
        (b"\xff", flow(WEB), bad_id),
        (b"dns", flow(WEB), bad_id),
    ];
    let mut bench = Bench::associated();
    bench.answer(smf(10), &request(2, &[application(b"web", &[flow(WEB)])]));
    let before = bench.node.store().clone();
    for (sequence, (id, contents, expected)) in (3..).zip(cases) {
        let given = [application(b"dns", &[flow(DNS)]), application(id, &[contents])];
        let answer = bench.answer(smf(10), &request(sequence, &given));
        assert_eq!(response(&answer), expected, "{contents:?}");
        assert!(*bench.node.store() == before, "{contents:?} changed something");
    }
}

#[test]
fn pfd_request_whose_ies_lie_is_refused_and_changes_nothing() {
    let mut bench = Bench::associated();
    let good = request(2, &[application(b"web", &[flow(WEB)])]);
    let before = bench.node.store().clone();
    for at in 8..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x80;
        bytes[6] = u8::try_from(at).unwrap();
        let answer = bench.answer(smf(10), &bytes);
        if !response(&answer).0.is_accepted() {
            assert!(*bench.node.store() == before);
        }
        bench.answer(smf(10), &request(1000 + u32::try_from(at).unwrap(), &[]));
    }
}

#[test]
fn pfds_beyond_the_limits_are_cause_75() {
    let mut bench = Bench::associated();
    let many = vec![flow(DNS); adit_types::limits::FLOW_DESCRIPTIONS_PER_APPLICATION_MAX + 1];
    let full = (Cause::NoResourcesAvailable, None);
    assert_eq!(response(&bench.answer(smf(10), &request(2, &[application(b"x", &many)]))), full);
}

#[test]
fn pfds_are_refused_while_too_many_changes_wait_for_the_workers() {
    let mut bench = Bench::associated();
    for number in 0..200 {
        let script = SessionScript::new(1 + u64::from(number), number);
        let sequence = 2000 + u32::from(number);
        let application = [application(b"web", &[flow(WEB)])];
        bench.answer(smf(10), &request(1000 + sequence, &application));
        bench.answer(smf(10), &establish_naming(sequence, &script, b"web"));
    }
    let mut sequence = 5000;
    let mut ask = |bench: &mut Bench| {
        sequence += 1;
        let text = if sequence % 2 == 0 { WEB } else { DNS };
        let bytes = request(sequence, &[application(b"web", &[flow(text)])]);
        bench.node.handle_datagram(bench.now, smf(10), &bytes);
        bench.sent().first().map(|sent| response(&sent.bytes))
    };
    let refused = (0..100).find_map(|_| ask(&mut bench));
    assert_eq!(refused, Some((Cause::NoResourcesAvailable, None)));
    assert_eq!(bench.node.counters().scalars.refused_pending_full, 1);
    assert!(bench.node.pending_len() <= adit_types::limits::PENDING_MAX + 200);
    bench.settle();
    bench.sent();
    assert_eq!(ask(&mut bench), Some(ACCEPTED), "what holds already");
    assert_eq!(ask(&mut bench), None, "accepted, and waits for its publication");
}

/// Sessions of other control planes also use them.
#[test]
fn pfds_go_with_the_association_that_provided_them() {
    let mut bench = Bench::associated();
    bench.associate(11);
    bench.answer(smf(10), &request(2, &[application(b"web", &[flow(WEB)])]));
    let script = SessionScript::new(0xc1, 1);
    bench.answer(smf(11), &establish_naming(2, &script, b"web"));
    let node = Ipv4Addr::new(192, 0, 2, 10);
    bench.node.handle_datagram(bench.now, smf(10), &release(3, node));
    assert!(bench.sent().is_empty(), "released when no worker uses its PFDs any more");
    assert_eq!(published(&mut bench).unwrap().downlink, []);
    assert_eq!(bench.sent().len(), 1);
    assert_eq!(bench.node.store().provided_applications().count(), 0);
}

#[test]
fn pfd_management_that_faults_is_cause_77() {
    let mut bench = Bench::associated();
    bench.node.inject_fault(adit_n4::FaultPoint::Start);
    let failure = (Cause::SystemFailure, None);
    assert_eq!(response(&bench.answer(smf(10), &request(2, &[]))), failure);
    assert_eq!(response(&bench.answer(smf(10), &request(3, &[]))), ACCEPTED);
}

/// Spec: TS 29.244 §7.5.8.3: application detection information with START and STOP.
#[test]
fn start_of_an_applications_traffic_is_reported_with_its_id() {
    let mut bench = Bench::associated();
    bench.answer(smf(10), &request(2, &[application(b"web", &[flow(WEB)])]));
    let script = SessionScript::new(0xc1, 1);
    let bytes = establish_with(3, &script, |body| {
        let mut pdrs: Vec<_> = body.create_pdrs.iter().collect();
        pdrs[1].pdi.application_id = Some(ApplicationId(b"web"));
        pdrs[1].urr_ids = list([UrrId(1)]).into();
        body.create_pdrs = Vec::leak(pdrs)[..].into();
        let triggers = ReportingTriggers::START | ReportingTriggers::STOPT;
        body.create_urrs =
            list([CreateUrr::new(UrrId(1), MeasurementMethod::VOLUM, triggers)]).into();
    });
    bench.node.handle_datagram(bench.now, smf(10), &bytes);
    let rules = published(&mut bench).unwrap();
    bench.sent();
    let started = WorkerEvent::TrafficStarted {
        session: rules.up_seid,
        slot: rules.urrs[0].slot,
        generation: rules.urrs[0].generation,
        at: bench.now,
        pdr: PdrId(2),
    };
    bench.node.handle_event(bench.now, started);
    let sent = bench.sent();
    let Message::SessionReportRequest(body) = decode(&sent[0].bytes) else { panic!() };
    let report = body.usage_reports.first().unwrap();
    assert_eq!(report.usage_report_trigger, UsageReportTrigger::START);
    let detected = report.application_detection_information.unwrap();
    assert_eq!(detected.application_id, ApplicationId(b"web"));
}
