//! The octets of records, as releases wrote them: each later node restores them, and writes the
//! same until it says another version.

use adit_n4::RECORD_VERSION;
use adit_pfcp::grouped::GtpuPathQosControlInformation;
use adit_pfcp::ie::{
    AlternativeSmfIpAddress, ApnDnn, CpFunctionFeatures, Fqdn, GroupId, GtpuPathInterfaceType,
    MeasurementPeriod, NfInstanceId, NodeId, Nullable, QosReportTrigger, RatType,
    RecoveryTimeStamp, SNssai, SmfSetId, UserId,
};
use adit_pfcp::message::AssociationSetupRequest;
use adit_session::PackedRecord;

use super::octets::full;
use super::*;

/// Records of version 1 with packed sessions of version 3, as release 0.1.0 wrote them: kind, name
/// and octets in hexadecimal, a line each.
const RELEASE_0_1_0: &str = include_str!("../data/records_0.1.0.txt");

const SET: SmfSetId<'static> = SmfSetId(b"\0\x04set1\x03smf");

/// A node whose records have a value in each of their fields, as far as one moment allows.
fn every_field() -> Bench {
    let mut bench = full();
    let mut control = GtpuPathQosControlInformation::new(QosReportTrigger::PER);
    control.interface_type = Some(GtpuPathInterfaceType::N3);
    control.measurement_period = Some(MeasurementPeriod(3));
    let node_id = NodeId::Fqdn(Fqdn::from_text("smf2.example").unwrap());
    let mut body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(CpFunctionFeatures::SSET);
    body.smf_set_id = Some(SET);
    body.nf_instance_id = Some(NfInstanceId([7; 16]));
    let alternative = AlternativeSmfIpAddress { v4: Some(ip(20)), v6: None, preferred: true };
    body.alternative_smf_ip_addresses = list([alternative]).into();
    body.gtpu_path_qos_controls = list([Nullable::Value(control)]).into();
    assert_eq!(cause(&bench.answer(smf(11), &encode(None, 1, &body))), Cause::RequestAccepted);
    let request = establish_with(2, &SessionScript::new(8, 8), |body| {
        body.apn_dnn = Some(ApnDnn(b"\x08internet"));
        body.s_nssai = Some(SNssai { sst: 1, sd: 0xa1 });
        body.rat_type = Some(RatType::Nr);
        body.user_id = Some(UserId { supi: Some(b"imsi-001010123456789"), ..UserId::default() });
        body.group_id = Some(GroupId(b"group"));
    });
    assert_eq!(cause(&bench.answer(smf(11), &request)), Cause::RequestAccepted);
    bench.store_all();
    bench
}

/// The records of a node as lines.
fn lines(bench: &Bench) -> Vec<String> {
    let line = |(kind, name, octets): &(RecordKind, OwnedRecordId, Vec<u8>)| {
        let name = match name {
            OwnedRecordId::Number(number) => format!("#{number:016x}"),
            OwnedRecordId::Octets(octets) => format!("={}", hex(octets)),
        };
        format!("{} {name} {}", *kind as u8, hex(octets))
    };
    records_of(bench).iter().map(line).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let octet = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(octet).collect()
}

/// A bench with the records that lines are.
fn bench_of(lines: &str) -> Bench {
    let mut bench = Bench::with(kept_config());
    for line in lines.lines() {
        let [kind, name, octets] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let kind = RecordKind::ALL.into_iter().find(|known| (*known as u8).to_string() == kind);
        let name = match name.split_at(1) {
            ("#", number) => OwnedRecordId::Number(u64::from_str_radix(number, 16).unwrap()),
            (_, octets) => OwnedRecordId::Octets(unhex(octets)),
        };
        bench.records.insert((kind.unwrap(), name), unhex(octets));
    }
    bench
}

/// If this fails, the octets of records have changed, and a release may not read the records of
/// this program. Read docs/internals/store.md "How records change": put new parts into a record of
/// its own, or raise the version and keep a reader of the previous one. `PINNED=1` prints the
/// present octets.
#[test]
fn octets_of_version_1_with_packed_sessions_of_version_3_stay_as_they_are() {
    assert_eq!(
        (RECORD_VERSION, PackedRecord::VERSION),
        (1, 4),
        "pin the octets of the new version"
    );
    let mut bench = every_field();
    // Release 0.1.0 ignores it.
    assert!(bench.records.extract_if(.., |key, _| is_clock_mark(key)).next().is_some());
    let present = lines(&bench);
    if std::env::var("PINNED").is_ok() {
        present.iter().for_each(|line| println!("{line}"));
    }
    assert_eq!(present, RELEASE_0_1_0.lines().collect::<Vec<_>>());
}

#[test]
fn records_of_release_0_1_0_are_restored_whole() {
    let written = bench_of(RELEASE_0_1_0);
    let mut later = begin_restoration(&written, kept_config());
    for (kind, name, octets) in records_of(&written) {
        let mut record = FormerRecord::read(kind, name.clone(), octets);
        let restored = later.node.restore_record(later.now, &mut record);
        assert_eq!(restored, Ok(()), "{kind:?} {name:?}");
    }
    later.publish_all();
    later.node.end_restoration(later.now);
    let before = every_field();
    assert_eq!(later.node.store().len(), count_of(&written, RecordKind::Session));
    for session in before.node.store().sessions() {
        let up_seid = session.up_seid();
        let after = later.node.store().session(up_seid).unwrap();
        assert_eq!((after.pdrs(), after.owner()), (session.pdrs(), session.owner()));
        let usage = |bench: &Bench| bench.node.store().kept_usage(bench.now, up_seid);
        assert_eq!(usage(&later), usage(&before));
        let information = later.node.session_information(up_seid);
        assert_eq!(information, before.node.session_information(up_seid));
    }
    for association in before.node.associations() {
        let address = association.address;
        let after = later.node.association(address).unwrap();
        assert_eq!((&after.node_id, after.owner), (&association.node_id, association.owner));
        assert_eq!(later.node.nf_instance_id(address), before.node.nf_instance_id(address));
    }
    assert_eq!(later.node.sessions_in_sets(), before.node.sessions_in_sets());
}
