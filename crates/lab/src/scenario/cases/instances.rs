//! Network instances as routing domains: two data networks with the same addresses.
//! Spec: TS 29.244 §8.2.4; RFC 4364 §3.

use std::net::{SocketAddrV4, UdpSocket};
use std::time::Duration;

use adit_pfcp::ie::{NetworkInstance, OuterHeaderCreation};
use adit_types::Teid;
use anyhow::{Context, Result, ensure};

use super::PORT;
use crate::scenario::endpoint::Endpoint;
use crate::scenario::expect::{all, both, none};
use crate::scenario::probe::{DATAGRAMS, ProbeSockets, receive, send};
use crate::scenario::session::{ScenarioContext, ScenarioRules};
use crate::topology::{ADIT_N3, DN, LabUe, PEER_UPF};

const INTERNET: NetworkInstance<'static> = NetworkInstance(b"internet");
/// The instance of the second data network, which `BringUpOptions::corp` adds.
const CORP: NetworkInstance<'static> = NetworkInstance(b"corp");
/// TEID of the corp UE at the other gNB's address.
const CORP_TEID: Teid = Teid(0xc0);
/// The UE in `corp`. The UEs of scenarios have smaller numbers and SEIDs.
const CORP_UE: LabUe = LabUe(200);

/// Gives two UEs in two network instances the same address, and their servers too, and checks that
/// each UE reaches its own server.
pub(super) fn network_instance(context: &ScenarioContext<'_>) -> Result<String> {
    let corp = context.network.topology.corp.as_ref().context("a second data network")?;
    let (ue, server) = (SocketAddrV4::new(context.ue.ipv4(), PORT), SocketAddrV4::new(DN, PORT));
    let corp_server = corp.enter(|| {
        let socket = UdpSocket::bind(server).with_context(|| format!("bind {server}"))?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).context("receive timeout")?;
        Ok(socket)
    })?;
    let gnb = Endpoint::open(context, PEER_UPF, ADIT_N3)?;
    let session = context.establish_with(&ScenarioRules {
        network_instance: Some(INTERNET),
        ..ScenarioRules::USUAL
    })?;
    let rules = ScenarioRules {
        network_instance: Some(CORP),
        ue: Some(context.ue.ipv4()),
        to_access: Some(OuterHeaderCreation::gtpu_ipv4(CORP_TEID, PEER_UPF)),
        ..ScenarioRules::USUAL
    };
    let corp_context = ScenarioContext { ue: CORP_UE, ..*context };
    let corp_session = corp_context.establish_with(&rules)?;
    let probe = ProbeSockets::open(context, PORT)?;

    both("internet", &probe)?;
    none("of internet, in corp", &receive(&corp_server, 0, context.stop)?)?;
    gnb.send(corp_session.established().uplink_teid, [ue, server], 0..DATAGRAMS)?;
    all("corp, uplink", &receive(&corp_server, DATAGRAMS, context.stop)?)?;
    none("of corp, in internet", &probe.receive_uplink(0)?)?;
    send(&corp_server, ue.into(), 0..DATAGRAMS)?;
    let arrived = gnb.receive(context, usize::try_from(DATAGRAMS)?)?;
    ensure!(
        arrived.iter().copied().eq((0..DATAGRAMS).map(|number| (CORP_TEID, number))),
        "corp, downlink: {arrived:?} arrived"
    );
    none("of corp, at the UE of internet", &probe.receive_downlink(0)?)?;

    session.end()?;
    probe.send_downlink(0..DATAGRAMS)?;
    let arrived = gnb.receive(context, 0)?;
    ensure!(arrived.is_empty(), "after the end in internet, {arrived:?} arrived at the UE of corp");
    corp_session.end()?;
    Ok(format!("{} was a UE in each of two data networks with the same subnet", ue.ip()))
}
