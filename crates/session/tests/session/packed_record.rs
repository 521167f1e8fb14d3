//! The octets of packed records: they come back, their size, and which octets are no record.

use adit_rules::DestinationInterface;
use adit_session::{
    Far, Forwarding, PackedRecord, PackedRecordError, Qer, SessionChange, UrrSettings,
    UsageTriggers,
};
use adit_types::{Nanos, QerId, UrrId};

use crate::builders::{CP, OWNER, flow, given, qer, session, store, tunnel};
use crate::usage::{total, volume_urr};

/// The block that the allocator takes for a record of 129 to 160 octets.
const BLOCK_BYTES: usize = 160;

/// Thirteen days: the time of a clock that has run for a while takes as many octets as this.
const LATER: Nanos = Nanos(1 << 50);

fn packed(change: SessionChange) -> PackedRecord {
    let mut store = store(4);
    let up_seid = store.establish(OWNER, CP, change).unwrap().up_seid;
    store.session(up_seid).unwrap().packed_record().clone()
}

/// 2 PDRs, 2 FARs, 2 QERs and 1 URR, as `adit-bench memory` establishes them.
fn usual() -> SessionChange {
    let mut change = SessionChange { at: LATER, ..session(1) };
    change.create_fars[1] = Far { forwarding: Some(to_gnb()), ..change.create_fars[1].clone() };
    for pdr in &mut change.create_pdrs {
        pdr.pdi.qfis.clear();
        pdr.qers = vec![QerId(1), QerId(2)];
        pdr.urrs = vec![UrrId(1)];
    }
    change.create_qers = vec![Qer { id: QerId(1), ..Qer::default() }, qer(2)];
    let settings = UrrSettings { volume_threshold: total(1 << 50), ..UrrSettings::default() };
    change.create_urrs = vec![volume_urr(1, UsageTriggers::VOLUME_THRESHOLD, settings)];
    change
}

fn to_gnb() -> Forwarding {
    let outer_header_creation = Some(tunnel(2_900_000));
    Forwarding { outer_header_creation, ..Forwarding::new(DestinationInterface::Access) }
}

/// The usual session with an SDF filter and an inactivity timer.
fn filtered() -> SessionChange {
    let mut change = usual();
    change.create_pdrs[0].pdi.sdf = vec![flow("permit out 17 from any 53 to assigned")];
    change.inactivity_timer = Some(Nanos::from_secs(60));
    change
}

#[test]
fn records_come_back_and_the_usual_one_fits_its_block() {
    let kinds = [
        ("no rules", SessionChange::default()),
        ("2 PDR, 2 FAR, 1 QER", session(1)),
        ("2 PDR, 2 FAR, 2 QER, 1 URR", usual()),
        ("the same, an SDF filter, inactivity", filtered()),
    ];
    for (kind, change) in kinds {
        let record = packed(change);
        assert_eq!(record.octets().first(), Some(&PackedRecord::OLDEST));
        assert_eq!(PackedRecord::from_octets(record.octets().into()), Ok(record), "{kind}");
    }
    assert!(packed(usual()).octets().len() <= BLOCK_BYTES);
}

#[test]
fn record_of_another_version_is_refused_by_name() {
    let mut octets = packed(usual()).octets().to_vec();
    for version in [0, PackedRecord::OLDEST - 1, PackedRecord::VERSION + 1, u8::MAX] {
        octets[0] = version;
        let refused = PackedRecord::from_octets(octets.clone().into());
        assert_eq!(refused, Err(PackedRecordError::UnknownVersion(version)));
    }
    let text = PackedRecordError::UnknownVersion(9).to_string();
    assert_eq!(text, "session record of format version 9; this program reads versions 3 to 4");
}

#[test]
fn record_cut_short_or_too_long_is_malformed() {
    let octets = packed(usual()).octets().to_vec();
    for len in 0..octets.len() {
        let refused = PackedRecord::from_octets(octets[..len].into());
        assert_eq!(refused, Err(PackedRecordError::Malformed), "{len} octets");
    }
    let longer: Vec<u8> = octets.into_iter().chain([0]).collect();
    assert_eq!(PackedRecord::from_octets(longer.into()), Err(PackedRecordError::Malformed));
}

/// The session of `filtered`, by 40 octets. It names the first slot behind
/// `limits::usage_slots_max`.
const OCTETS: &[&str] = &[
    "036702ef050164a0110307c000020101010a2d0001010301257065726d6974206f75742031372066",
    "726f6d20616e7920353320746f2061737369676e656405110103353500010201020101e705026481",
    "010103010a2d000101020201020101020b010201010b0202040003a080b10100c000020202010181",
    "040209010f0101020201808080808080800280b09dc2df0107019782800201810201108080808080",
    "80800203018080808080808002108080808080808002808080808080800206028080808080808002",
    "810200",
];

#[test]
fn record_has_the_lowest_version_with_its_fields() {
    let mut change = usual();
    change.create_qers[0].service_class = Some((5, 0));
    let record = packed(change);
    assert_eq!(record.octets().first(), Some(&4), "version 4 brought the marking of flows");
    assert_eq!(PackedRecord::from_octets(record.octets().into()), Ok(record));
}

/// If this fails, the format has changed: raise [`PackedRecord::VERSION`], then renew the octets.
#[test]
fn octets_of_version_3_stay_as_they_are() {
    let mut change = filtered();
    // No allocator draws the TEID.
    change.create_pdrs[0].pdi.f_teid = Some(given(7));
    let octets = packed(change).octets().to_vec();
    let text: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(text, OCTETS.concat());
}
