//! Octets that are no records: each is refused or restored, and the node serves afterwards.

use adit_n4::RecordError;
use adit_pfcp::ie::{CpFunctionFeatures, FqCsid, FqCsidNode, RecoveryTimeStamp, ReportingTriggers};
use adit_pfcp::message::AssociationSetupRequest;
use adit_types::Teid;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::usage_scene::{threshold, urr, with_urrs};

/// A node with records of every kind.
pub(super) fn full() -> Bench {
    let mut bench = begun(kept_config());
    let node_id = adit_pfcp::ie::NodeId::Ipv4(ip(10));
    let mut body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(CpFunctionFeatures::EPFAR);
    bench.answer(smf(10), &encode(None, 1, &body));
    bench.answer(smf(10), &under_way_pfds());
    let csid = FqCsid::new(FqCsidNode::Ipv4(ip(10)), &[0, 5], None).unwrap();
    bench.answer(
        smf(10),
        &establish_with(5, &SessionScript::new(5, 5), |body| body.fq_csids = list([csid]).into()),
    );
    let mut urr = urr(1, ReportingTriggers::VOLTH);
    urr.volume_threshold = threshold(1000);
    let mut scene = Scene::on(bench, |body| with_urrs(body, list([urr])));
    scene.count(0, 1000, 0);
    scene.limit(0);
    scene.count(0, 10, 0);
    scene.bench.node.record_all_usage(scene.bench.now);
    scene.bench.store_all();
    // Nodes do not use records of standbys.
    for kind in RecordKind::ALL.into_iter().filter(|kind| *kind != RecordKind::Standby) {
        assert!(count_of(&scene.bench, kind) > 0, "{kind:?}");
    }
    scene.bench
}

fn under_way_pfds() -> Vec<u8> {
    use adit_pfcp::grouped::{ApplicationIdsPfds, PfdContext};
    use adit_pfcp::ie::{ApplicationId, PfdContents};
    let text = b"permit out 17 from any 53 to assigned";
    let contents = PfdContents { flow_description: Some(text), ..PfdContents::default() };
    let mut application = ApplicationIdsPfds::new(ApplicationId(b"web"));
    application.pfd_contexts = list([PfdContext::new(list([contents]).into())]).into();
    let mut body = adit_pfcp::message::PfdManagementRequest::new();
    body.application_ids_pfds = list([application]).into();
    encode(None, 2, &body)
}

/// How many random choices are made; `SEEDS` makes it more.
fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(2)
}

/// Restores the records with `octets` in place of those of `number`; the node serves afterwards.
fn restore_with(bench: &Bench, number: usize, octets: &[u8]) -> Result<(), RecordError> {
    let records = records_of(bench);
    let mut later = begin_restoration(bench, bench.node.config().clone());
    let mut result = Ok(());
    for (at, (kind, name, known)) in records.iter().enumerate() {
        if at != number {
            let mut record = FormerRecord::read(*kind, name.clone(), known.clone());
            let _follows = later.node.restore_record(later.now, &mut record);
            continue;
        }
        if *kind == RecordKind::Node {
            match NodeRecord::from_octets(octets) {
                Ok(node) => later.node.begin_restoration(&node),
                Err(error) => result = Err(error),
            }
            continue;
        }
        let mut record = FormerRecord::read(*kind, name.clone(), octets.to_vec());
        result = later.node.restore_record(later.now, &mut record);
    }
    later.publish_all();
    later.node.end_restoration(later.now);
    later.publish_all();
    serve(&mut later);
    result
}

/// Whatever was restored, requests are answered and no part of the node faults.
fn serve(later: &mut Bench) {
    later.store_all();
    later.sent();
    // The octets may say that one of them has an association elsewhere.
    let host = [11, 12].into_iter().find(|&host| {
        let sent = later.ask(smf(host), &setup(1, ip(host), SMF_STARTED));
        sent.iter().any(|sent| match decode(&sent.bytes) {
            Message::AssociationSetupResponse(body) => body.cause.is_accepted(),
            _ => false,
        })
    });
    let host = host.unwrap();
    later.sent();
    let up_seid = later.session(smf(host), 2, &SessionScript::new(9, 900));
    let seids: Vec<Seid> = later.node.store().sessions().map(|s| s.up_seid()).collect();
    for (sequence, seid) in (3..).zip(seids) {
        later.ask(smf(10), &move_to(sequence, seid, Teid(77)));
        later.ask(smf(10), &delete(1000 + sequence, seid));
    }
    later.node.record_all_usage(later.now);
    later.answer_of_deletion(smf(host), up_seid);
    for _ in 0..4 {
        later.now += Nanos::from_secs(1);
        later.node.handle_timeout(later.now);
        later.publish_all();
        later.store_all();
    }
    let events = later.events();
    assert_eq!(later.node.counters().scalars.faults, 0, "{events:?}");
}

impl Bench {
    fn answer_of_deletion(&mut self, from: std::net::SocketAddr, up_seid: Seid) {
        let sent = self.ask(from, &delete(99, up_seid));
        let is_accepted = sent.iter().any(|sent| match decode(&sent.bytes) {
            Message::SessionDeletionResponse(body) => body.cause.is_accepted(),
            _ => false,
        });
        assert!(is_accepted);
    }
}

#[test]
fn records_as_they_are_come_back() {
    let bench = full();
    for (number, (kind, _, octets)) in records_of(&bench).iter().enumerate() {
        assert_eq!(restore_with(&bench, number, octets), Ok(()), "{kind:?}");
    }
}

#[test]
fn octets_of_another_version_are_refused() {
    let bench = full();
    for (number, (kind, _, octets)) in records_of(&bench).iter().enumerate() {
        let mut octets = octets.clone();
        octets[0] = 77;
        let error = restore_with(&bench, number, &octets).unwrap_err();
        assert!(error.to_string().contains("version 77"), "{kind:?}: {error}");
    }
}

#[test]
fn truncated_and_lengthened_octets_are_refused() {
    let bench = full();
    for (number, (kind, _, octets)) in records_of(&bench).iter().enumerate() {
        for len in 0..octets.len() {
            let error = restore_with(&bench, number, &octets[..len]);
            assert!(error.is_err(), "{kind:?} of {len} octets");
        }
        let longer = [&octets[..], &[0]].concat();
        assert!(restore_with(&bench, number, &longer).is_err(), "{kind:?}");
    }
}

#[test]
fn records_under_a_name_of_another_kind_are_refused() {
    let bench = full();
    for (kind, name, octets) in records_of(&bench) {
        if matches!(kind, RecordKind::Node) {
            continue;
        }
        let mut later = begin_restoration(&bench, bench.node.config().clone());
        let other = match name {
            OwnedRecordId::Number(_) => OwnedRecordId::Octets(b"77".to_vec()),
            OwnedRecordId::Octets(_) => OwnedRecordId::Number(77),
        };
        let mut record = FormerRecord::read(kind, other, octets.clone());
        let result = later.node.restore_record(later.now, &mut record);
        assert_eq!(result, Err(RecordError::Malformed), "{kind:?}");
        let no_address = OwnedRecordId::Octets(b"\xff".to_vec());
        let mut record = FormerRecord::read(kind, no_address, octets);
        let result = later.node.restore_record(later.now, &mut record);
        assert_eq!(result, Err(RecordError::Malformed), "{kind:?}");
    }
}

#[test]
fn flipped_octets_of_every_kind_never_panic() {
    let bench = full();
    let records = records_of(&bench);
    for seed in 0..seeds() {
        let mut rng = SmallRng::seed_from_u64(seed);
        for (number, (_, _, octets)) in records.iter().enumerate() {
            for _ in 0..40 {
                let mut octets = octets.clone();
                for _ in 0..rng.random_range(1..4) {
                    let at = rng.random_range(1..octets.len());
                    octets[at] = if rng.random() { rng.random() } else { octets[at] ^ 1 };
                }
                let _either = restore_with(&bench, number, &octets);
            }
        }
    }
}

#[test]
fn random_octets_of_every_kind_never_panic() {
    let bench = full();
    let records = records_of(&bench);
    for seed in 0..seeds() {
        let mut rng = SmallRng::seed_from_u64(seed);
        for (number, (_, _, known)) in records.iter().enumerate() {
            for _ in 0..40 {
                let mut octets: Vec<u8> =
                    (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
                if let Some(version) = octets.first_mut() {
                    *version = known[0];
                }
                let _either = restore_with(&bench, number, &octets);
            }
        }
    }
}

/// The greatest numbers that octets can say.
#[test]
fn greatest_numbers_of_answers_and_associations_do_not_stop_the_node() {
    let bench = full();
    let records = records_of(&bench);
    for (number, (_, _, octets)) in records.iter().enumerate() {
        for at in 1..octets.len().min(40) {
            // Seven bits in each octet.
            let mut octets = octets.clone();
            let greatest = [0xff; 9].into_iter().chain([1]);
            octets.splice(at..=at, greatest);
            let _either = restore_with(&bench, number, &octets);
            let mut octets = records[number].2.clone();
            octets.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0x0f]);
            let _either = restore_with(&bench, number, &octets);
        }
    }
}
