//! Leaf IEs: decoding any octets never panics, and a decoded value survives encoding.

use crate::leaves::{check_all, encoded};
use adit_pfcp::ie::*;
use adit_types::BitRate;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn leaf_of_any_octets_never_panics_and_round_trips(
        octets in prop::collection::vec(any::<u8>(), 0..48),
    ) {
        check_all(&octets);
    }

    /// Small octets make flags, lengths and types that are often consistent.
    #[test]
    fn leaf_of_small_octets_never_panics_and_round_trips(
        octets in prop::collection::vec(0_u8..10, 0..48),
    ) {
        check_all(&octets);
    }
}

#[test]
fn every_full_leaf_of_the_table_is_checked_here() {
    let full =
        IE_TABLE.iter().filter(|i| i.status == DecodedForm::Full && i.shape == IeShape::Leaf);
    assert_eq!(check_all(&[1; 48]), full.count());
}

#[test]
fn f_teid_without_any_address_is_incorrect() {
    assert_eq!(FTeid::decode(&[0, 0, 0, 0, 1]), Err(adit_pfcp::IeError::Value));
    assert_eq!(FTeid::decode(&[1, 0, 0, 0, 1, 192]), Err(adit_pfcp::IeError::Length));
}

#[test]
fn sdf_filter_with_only_an_identifier_is_accepted() {
    let filter = SdfFilter::decode(&[0x10, 0, 0, 0, 0, 9]).unwrap();
    assert_eq!(filter, SdfFilter { filter_id: Some(SdfFilterId(9)), ..SdfFilter::default() });
}

#[test]
fn sdf_filter_whose_text_length_lies_is_an_invalid_length() {
    assert_eq!(SdfFilter::decode(&[1, 0, 0, 9, b'p']), Err(adit_pfcp::IeError::Length));
}

#[test]
fn fqdn_is_encoded_as_labels_and_compares_without_case() {
    let name = Fqdn::from_text("Smf.lan").unwrap();
    assert_eq!(encoded(&NodeId::Fqdn(name)), *b"\x02\x03Smf\x03lan");
    assert_eq!(NodeId::decode(b"\x02\x03smf\x03LAN\x00"), Ok(NodeId::Fqdn(name)));
    assert_eq!(name.to_string(), "Smf.lan");
    for refused in ["", ".", "a..b", &"x".repeat(64), &"long.".repeat(60)] {
        assert_eq!(Fqdn::from_text(refused), None, "{refused}");
    }
}

#[test]
fn network_instance_matches_text_and_labels() {
    assert!(NetworkInstance(b"internet.mnc001").is_name("internet.MNC001"));
    assert!(NetworkInstance(b"\x08internet\x06mnc001").is_name("internet.mnc001"));
    assert!(!NetworkInstance(b"\x08internet").is_name("internet.mnc001"));
    assert!(!NetworkInstance(b"\x09internet").is_name("internet"));
}

#[test]
fn mbr_counts_kilobits_of_a_thousand_bits_in_five_octets() {
    let mbr = Mbr::new(BitRate::from_bps(1_001), BitRate::from_kbps(0x01_0203_0405));
    assert_eq!(encoded(&mbr), [0, 0, 0, 0, 2, 1, 2, 3, 4, 5]);
}

#[test]
fn flag_sets_keep_the_octet_order_of_the_standard() {
    assert_eq!(encoded(&UpFunctionFeatures::FTUP), [0x10, 0]);
    assert_eq!(encoded(&UpFunctionFeatures::UEIP), [0, 0, 4]);
    assert_eq!(encoded(&ApplyAction::DDPN), [0, 4]);
    assert_eq!(encoded(&ReportingTriggers::QUVTI), [0, 0x80, 0]);
    assert_eq!(ReportingTriggers::decode(&[2, 0]), Ok(ReportingTriggers::VOLTH));
}

#[test]
fn outer_header_creation_has_its_description_in_octet_five() {
    let creation = OuterHeaderCreation::gtpu_ipv4(adit_types::Teid(7), [192, 0, 2, 1].into());
    assert_eq!(encoded(&creation), [1, 0, 0, 0, 0, 7, 192, 0, 2, 1]);
}

#[test]
fn timer_rounds_up_to_its_unit() {
    assert_eq!(Timer::from_secs(61).as_secs(), Some(62));
    assert_eq!(Timer::from_secs(63).as_secs(), Some(120));
    assert_eq!(Timer::from_secs(u32::MAX), Timer::INFINITE);
    assert_eq!(Timer::INFINITE.as_secs(), None);
}

#[test]
fn packet_rate_status_has_the_additional_number_behind_each_direction() {
    let remaining = |packets, additional| RemainingPackets { packets, additional };
    let status = PacketRateStatus {
        uplink: Some(remaining(1, Some(2))),
        downlink: Some(remaining(3, Some(4))),
        validity_time: 5,
    };
    assert_eq!(encoded(&status), [7, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5]);
}
