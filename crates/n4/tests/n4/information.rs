//! Information in addition to rules: pools of UE addresses by us, circumstances of sessions by the
//! SMF.

use adit_n4::NodeConfig;
use adit_pfcp::grouped::{CreatePdr, Pdi, UpdatePdr};
use adit_pfcp::ie::{
    ApnDnn, CpFunctionFeatures, FTeid, FTeidAddress, IpVersion, Metric, NfInstanceId, NodeId,
    NumberOfUeIpAddresses, OffendingIe, PfcpSeReqFlags, RatType, RecoveryTimeStamp, SNssai,
    SourceInterface, UeIpAddress, UserId,
};
use adit_pfcp::message::{
    AssociationSetupRequest, AssociationUpdateResponse, SessionEstablishmentResponse,
};
use adit_pfcp::{Cause, IeType, Message};
use adit_rules::sdf::AddrMatch;
use adit_session::{Provisioning, StoreConfig, UePool};
use adit_types::{Nanos, PdrId, Teid};

use crate::smf::*;

fn pool(identity: Option<&str>, prefix: AddrMatch) -> UePool {
    UePool {
        network_instance: Some("internet".into()),
        identity: identity.map(Box::from),
        s_nssai: Some(adit_session::SliceIdentity { sst: 1, sd: None }),
        prefix,
    }
}

fn with_pools() -> Bench {
    let ue_pools = vec![
        pool(None, AddrMatch::V4("10.59.0.0/24".parse().unwrap())),
        pool(Some("p4"), AddrMatch::V4("10.60.0.0/29".parse().unwrap())),
        pool(Some("p6"), AddrMatch::V6("2001:db8:60::/62".parse().unwrap())),
    ];
    let provisioning = Provisioning { ue_pools, ..config().store.provisioning };
    let store = StoreConfig { provisioning, ..config().store };
    Bench::with(NodeConfig { store, ..config() })
}

fn setup_of(features: CpFunctionFeatures, nf_instance_id: Option<NfInstanceId>) -> Vec<u8> {
    let node_id = NodeId::Ipv4([192, 0, 2, 10].into());
    let mut body = AssociationSetupRequest::new(node_id, RecoveryTimeStamp(SMF_STARTED));
    body.cp_function_features = Some(features);
    body.nf_instance_id = nf_instance_id;
    encode(None, 1, &body)
}

/// An establishment that leaves the UE's IPv4 address to pool `p4`.
fn choosing(sequence: u32) -> Vec<u8> {
    establish_with(sequence, &SessionScript::new(u64::from(sequence), 1), |body| {
        let mut pdrs: Vec<CreatePdr<'static>> = body.create_pdrs.iter().collect();
        let pools = list([adit_pfcp::ie::UeIpAddressPoolIdentity(b"p4")]);
        for (pdr, destination) in pdrs.iter_mut().zip([false, true]) {
            let ue = UeIpAddress { choose_v4: true, destination, ..UeIpAddress::default() };
            pdr.pdi.ue_ip_addresses = list([ue]).into();
            pdr.ue_ip_address_pool_ids = pools.into();
        }
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    })
}

fn established(bytes: &[u8]) -> SessionEstablishmentResponse<'_> {
    let Message::SessionEstablishmentResponse(body) = decode(bytes) else { panic!() };
    body
}

/// Answers the one Association Update Request among `sent`; returns the metrics and counts that it
/// reported.
fn told(
    bench: &mut Bench,
    sent: &[adit_n4::Transmit],
) -> Option<Vec<(Metric, NumberOfUeIpAddresses)>> {
    let mut told = None;
    for transmit in sent {
        let Message::AssociationUpdateRequest(body) = decode(&transmit.bytes) else { continue };
        assert!(told.is_none(), "one report at a time");
        let groups = body.ue_ip_address_usages.iter();
        told = Some(groups.map(|group| (group.metric, group.number_of_ue_ip_addresses)).collect());
        let node_id = NodeId::Ipv4([192, 0, 2, 10].into());
        let answer = AssociationUpdateResponse::new(node_id, Cause::RequestAccepted);
        let sequence = raw(&transmit.bytes).header.sequence;
        bench.ask(smf(10), &encode(None, sequence, &answer));
    }
    told
}

/// TS 29.244 §7.4.4.1: pools that have an identity are announced.
#[test]
fn pools_with_identity_are_announced_in_the_association_setup() {
    let mut bench = with_pools();
    let bytes = bench.answer(smf(10), &setup_of(CpFunctionFeatures::empty(), None));
    let Message::AssociationSetupResponse(body) = decode(&bytes) else { panic!() };
    let pools: Vec<_> = body.ue_ip_address_pools.iter().collect();
    let identities: Vec<_> =
        pools.iter().map(|group| group.pool_identities.first().unwrap().0).collect();
    assert_eq!(identities, [b"p4", b"p6"]);
    assert_eq!(pools[0].network_instance.unwrap().0, b"internet");
    assert_eq!(pools[0].s_nssais.first(), Some(SNssai { sst: 1, sd: SNssai::NO_SD }));
    assert_eq!(
        [pools[0].ip_version, pools[1].ip_version],
        [Some(IpVersion::V4), Some(IpVersion::V6)]
    );
}

/// TS 29.244 §5.21.3, §7.4.4.3.1: usage is reported when it moved, and once per interval.
#[test]
fn pool_usage_is_reported_when_it_moved_and_once_per_interval() {
    let mut bench = with_pools();
    bench.answer(smf(10), &setup_of(CpFunctionFeatures::UIAUR, None));
    let v4 = NumberOfUeIpAddresses { v4: Some(6), v6: None };
    let v6 = NumberOfUeIpAddresses { v4: None, v6: Some(4) };
    let sent = bench.run_until(Nanos::from_secs(1));
    assert_eq!(told(&mut bench, &sent), Some(vec![(Metric(0), v4), (Metric(0), v6)]));
    for sequence in 10..13 {
        assert!(established(&bench.answer(smf(10), &choosing(sequence))).cause.is_accepted());
    }
    let sent = bench.run_until(Nanos::from_secs(9));
    assert_eq!(told(&mut bench, &sent), None, "not within the interval");
    let sent = bench.run_until(Nanos::from_secs(11));
    assert_eq!(told(&mut bench, &sent), Some(vec![(Metric(50), v4), (Metric(0), v6)]));
    let sent = bench.run_until(Nanos::from_secs(32));
    assert_eq!(told(&mut bench, &sent), None, "nothing moved");
    assert_eq!(bench.node.counters().scalars.pool_usage_reports, 2);
}

#[test]
fn pool_usage_is_reported_to_no_peer_without_the_feature() {
    let mut bench = with_pools();
    bench.answer(smf(10), &setup_of(CpFunctionFeatures::LOAD, None));
    let sent = bench.run_until(Nanos::from_secs(9));
    assert_eq!(told(&mut bench, &sent), None);
    assert_eq!(bench.node.poll_timeout(), Some(HEARTBEAT_INTERVAL), "nor looked at");
}

/// TS 29.244 §7.5.2.1: information that decides nothing is kept for the operator, identities
/// masked.
#[test]
fn information_of_a_session_is_kept_masked_until_the_session_ends() {
    let mut bench = Bench::associated();
    let request = establish_with(2, &SessionScript::new(0xc1, 1), |body| {
        body.apn_dnn = Some(ApnDnn(b"\x08internet"));
        body.s_nssai = Some(SNssai { sst: 1, sd: 0xa1 });
        body.user_id = Some(UserId { supi: Some(b"imsi-001010123456789"), ..UserId::default() });
    });
    let bytes = bench.answer(smf(10), &request);
    let up_seid = established(&bytes).up_f_seid.unwrap().seid;
    bench.answer(smf(10), &modify_with(3, up_seid, |body| body.rat_type = Some(RatType::Nr)));
    let known = bench.node.session_information(up_seid).unwrap();
    assert_eq!((known.dnn.as_deref(), known.rat_type), (Some("internet"), Some(RatType::Nr)));
    assert_eq!(known.s_nssai, Some(SNssai { sst: 1, sd: 0xa1 }));
    assert_eq!(*known.user, [("supi", Box::from("****************6789"))]);
    bench.answer(smf(10), &delete(4, up_seid));
    assert_eq!(bench.node.session_information(up_seid), None);
}

/// TS 23.003 §9.1: a data network name has 100 octets at most.
#[test]
fn data_network_name_longer_than_one_can_be_is_cause_68() {
    let mut bench = Bench::associated();
    let script = SessionScript::new(0xc1, 1);
    let request = establish_with(2, &script, |body| body.apn_dnn = Some(ApnDnn(&[b'a'; 101])));
    let bytes = bench.answer(smf(10), &request);
    let body = established(&bytes);
    assert_eq!(body.cause, Cause::InvalidLength);
    assert_eq!(body.offending_ie, Some(OffendingIe::from(IeType::APN_DNN)));
    assert_eq!(bench.node.store().len(), 0);
}

#[test]
fn nf_instance_of_a_peer_is_kept_with_its_association() {
    let mut bench = with_pools();
    let id = [7; 16];
    bench.answer(smf(10), &setup_of(CpFunctionFeatures::empty(), Some(NfInstanceId(id))));
    assert_eq!(bench.node.nf_instance_id(smf(10).ip()), Some(id));
    bench.answer(smf(10), &release(2, [192, 0, 2, 10].into()));
    assert_eq!(bench.node.nf_instance_id(smf(10).ip()), None);
}

/// TS 29.244 §8.2.125 (RESTI): after our restart the SMF gives the F-TEIDs that we once chose.
#[test]
fn restored_session_keeps_the_f_teid_and_address_that_we_chose_before_our_restart() {
    let associated = || {
        let mut bench = with_pools();
        bench.answer(smf(10), &setup_of(CpFunctionFeatures::empty(), None));
        bench
    };
    let bytes = associated().answer(smf(10), &choosing(2));
    let created: Vec<_> = established(&bytes).created_pdrs.iter().collect();
    let chosen = created[0].local_f_teids.first();
    let Some(FTeid::Given { teid, .. }) = chosen else { panic!() };
    let ue = created[0].ue_ip_addresses.first().unwrap().v4;
    let request = establish_with(2, &SessionScript::new(0xc1, 1), |body| {
        body.pfcp_se_req_flags = Some(PfcpSeReqFlags::RESTI);
        let mut pdrs: Vec<CreatePdr<'static>> = body.create_pdrs.iter().collect();
        for (pdr, destination) in pdrs.iter_mut().zip([false, true]) {
            let ue = UeIpAddress { v4: ue, destination, ..UeIpAddress::default() };
            pdr.pdi.ue_ip_addresses = list([ue]).into();
        }
        pdrs[0].pdi.local_f_teid = chosen;
        body.create_pdrs = Vec::leak(pdrs)[..].into();
    });
    let mut bench = associated();
    let bytes = bench.answer(smf(10), &request);
    let body = established(&bytes);
    assert!(body.cause.is_accepted() && body.created_pdrs.is_empty(), "{body:?}");
    let session = bench.node.store().session(body.up_f_seid.unwrap().seid).unwrap();
    assert_eq!(session.pdrs()[0].pdi.f_teid.unwrap().teid, teid);
    let bytes = bench.answer(smf(10), &choosing(3));
    let other: Vec<_> = established(&bytes).created_pdrs.iter().collect();
    assert_ne!(other[0].local_f_teids.first(), chosen, "it is not chosen again");
    assert_ne!(other[0].ue_ip_addresses.first().unwrap().v4, ue);
}

/// TS 29.244 §7.5.5.1: the F-TEID chosen for a PDR that is updated is in Updated PDR.
#[test]
fn f_teid_chosen_for_an_updated_pdr_is_answered_as_updated() {
    let mut bench = Bench::associated();
    let script = SessionScript::new(0xc1, 1);
    let up_seid = bench.session(smf(10), 2, &script);
    let request = modify_with(3, up_seid, |body| {
        let mut pdi = Pdi::new(SourceInterface::Access);
        pdi.local_f_teid = Some(FTeid::Choose { v4: true, v6: false, choose_id: None });
        let mut update = UpdatePdr::new(PdrId(1));
        update.pdi = Some(pdi);
        body.update_pdrs = list([update]).into();
        let mut pdr = CreatePdr::new(PdrId(3), adit_types::Precedence(5), pdi);
        pdr.far_id = Some(adit_types::FarId(1));
        body.create_pdrs = list([pdr]).into();
    });
    let bytes = bench.answer(smf(10), &request);
    let Message::SessionModificationResponse(body) = decode(&bytes) else { panic!() };
    assert!(body.cause.is_accepted(), "{body:?}");
    let created: Vec<PdrId> = body.created_pdrs.iter().map(|group| group.pdr_id).collect();
    let updated: Vec<_> = body.updated_pdrs.iter().collect();
    assert_eq!((created, updated[0].pdr_id), (vec![PdrId(3)], PdrId(1)));
    let Some(FTeid::Given { teid, addr }) = updated[0].local_f_teids.first() else { panic!() };
    assert!(teid != Teid(0) && addr == FTeidAddress::V4(N3));
}
