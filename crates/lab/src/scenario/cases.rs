//! All scenarios. This module has those of PDRs, QERs and simple FARs.

mod addresses;
mod applications;
mod buffering;
mod fragments;
mod instances;
mod large_packets;
mod local_switching;
mod policy;
mod rates;
mod redirect;
mod tunnels;
mod usage;

use adit_pfcp::grouped::{UpdatePdr, UpdateQer};
use adit_pfcp::ie::{ApplyAction, GateState, GateStatus, OuterHeaderCreation};
use adit_pfcp::message::SessionModificationRequest;
use adit_types::{PdrId, Precedence, Qfi};
use anyhow::{Context, Result, ensure};

use super::expect::{all, both, none};
use super::probe::{DATAGRAMS, ProbeSockets};
use super::session::{
    ALL_UPLINK, NOWHERE, QER, ScenarioContext, ScenarioRules, TO_ACCESS, TO_CORE, UPLINK,
};
use crate::gnb::{Leg, teid};
use crate::topology::GNB;
use adit_lab_smf::rules::FlowPdr;

/// UDP ports of the server.
const PORT: u16 = 5001;
const OTHER_PORT: u16 = 5002;
/// Matches packets to `PORT`. A flow description is written for the downlink direction.
const TO_PORT: &str = "permit out 17 from any 5001 to assigned";
const QFI: u8 = ScenarioRules::QFI;

/// One scenario.
#[derive(Debug)]
pub(super) struct ScenarioCase {
    /// Name of the scenario on the command line.
    pub name: &'static str,
    /// Runs the scenario and returns a summary of its observations.
    pub run: fn(&ScenarioContext<'_>) -> Result<String>,
    /// The reason why ports of the kernel cannot run the scenario; `None` if they can.
    pub needs_links: Option<&'static str>,
}

impl ScenarioCase {
    const fn new(name: &'static str, run: fn(&ScenarioContext<'_>) -> Result<String>) -> Self {
        Self { name, run, needs_links: None }
    }

    /// Marks a scenario that ports of the kernel cannot run, because the kernel does the work
    /// itself; `why` states the reason.
    const fn requiring_links(self, why: &'static str) -> Self {
        Self { needs_links: Some(why), ..self }
    }
}

/// All scenarios.
pub(super) const CASES: &[ScenarioCase] = &[
    ScenarioCase::new("gate", gate),
    ScenarioCase::new("packet-rate", rates::packet_rate),
    ScenarioCase::new("far", far),
    ScenarioCase::new("qfi", qfi),
    ScenarioCase::new("sdf", sdf),
    ScenarioCase::new("precedence", precedence),
    ScenarioCase::new("path-switch", path_switch),
    ScenarioCase::new("end-marker", tunnels::end_marker),
    ScenarioCase::new("dscp", tunnels::dscp),
    ScenarioCase::new("n9", tunnels::n9),
    ScenarioCase::new("ipv6-n3", tunnels::ipv6_n3),
    ScenarioCase::new("error-indication", tunnels::error_indication),
    ScenarioCase::new("unknown-teid", tunnels::unknown_teid),
    ScenarioCase::new("echo-path", tunnels::echo_path),
    ScenarioCase::new("buffer", buffering::buffer),
    ScenarioCase::new("buffer-discard", buffering::discard),
    ScenarioCase::new("threshold", usage::threshold),
    ScenarioCase::new("quota", usage::quota),
    ScenarioCase::new("start-of-traffic", usage::start_of_traffic),
    ScenarioCase::new("inactivity", usage::inactivity),
    ScenarioCase::new("ue-pool", addresses::ue_pool),
    ScenarioCase::new("framed-route", addresses::framed_route),
    ScenarioCase::new("pfd", applications::pfd),
    ScenarioCase::new("predefined", applications::predefined),
    ScenarioCase::new("duplicate", tunnels::duplicate),
    ScenarioCase::new("redirect", redirect::redirect),
    ScenarioCase::new("forwarding-policy", policy::forwarding_policy)
        .requiring_links("the kernel chooses next hops"),
    ScenarioCase::new("fragmentation", fragments::fragmentation)
        .requiring_links("the kernel fragments packets and refuses them by ICMP"),
    ScenarioCase::new("reassembly", fragments::reassembly)
        .requiring_links("the kernel reassembles tunnel packets"),
    ScenarioCase::new("large-packets", large_packets::large_packets),
    ScenarioCase::new("network-instance", instances::network_instance)
        .requiring_links("the kernel has one data network"),
    ScenarioCase::new("local-switching", local_switching::local_switching),
];

/// Opens and closes the gates of a QER. Spec: TS 29.244 §5.4.3.
fn gate(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish(&[ALL_UPLINK], QFI)?;
    let probe = ProbeSockets::open(context, PORT)?;
    both("gates open", &probe)?;
    let set = |uplink, downlink| {
        let gate_status = Some(GateStatus { uplink, downlink });
        session.enforce(UpdateQer { gate_status, ..UpdateQer::new(QER) })
    };
    set(GateState::Closed, GateState::Open)?;
    none("uplink gate closed, uplink", &probe.uplink()?)?;
    all("uplink gate closed, downlink", &probe.downlink()?)?;
    set(GateState::Open, GateState::Closed)?;
    all("downlink gate closed, uplink", &probe.uplink()?)?;
    none("downlink gate closed, downlink", &probe.downlink()?)?;
    set(GateState::Open, GateState::Open)?;
    both("gates open again", &probe)?;
    session.end()?;
    Ok("the gate of each direction stops and passes its packets".to_owned())
}

/// Changes the Apply Action between FORW and DROP. Spec: TS 29.244 §5.2.1.
fn far(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish(&[ALL_UPLINK], QFI)?;
    let probe = ProbeSockets::open(context, PORT)?;
    both("FORW", &probe)?;
    session.apply(TO_CORE, ApplyAction::DROP)?;
    none("uplink DROP", &probe.uplink()?)?;
    all("uplink DROP, downlink", &probe.downlink()?)?;
    session.apply(TO_ACCESS, ApplyAction::DROP)?;
    none("downlink DROP", &probe.downlink()?)?;
    session.apply(TO_CORE, ApplyAction::FORW)?;
    session.apply(TO_ACCESS, ApplyAction::FORW)?;
    both("FORW again", &probe)?;
    session.end()?;
    none("after deletion, uplink", &probe.uplink()?)?;
    none("after deletion, downlink", &probe.downlink()?)?;
    Ok("FORW passes, DROP drops, no packet passes after deletion".to_owned())
}

/// Changes the QFI of a QER, and checks it in the downlink PDU Session Container. Spec: TS 38.415
/// §5.5.2.1.
fn qfi(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish(&[ALL_UPLINK], QFI)?;
    let probe = ProbeSockets::open(context, PORT)?;
    let count = |qfi| Qfi::new(qfi).map(|qfi| context.network.gnb.qfi_pkts(qfi));
    for (qfi, change) in [(QFI, false), (5, true), (63, true)] {
        if change {
            let value = Some(Qfi::new(qfi).context("a QFI has six bits")?);
            session.enforce(UpdateQer { qfi: value, ..UpdateQer::new(QER) })?;
        }
        let before = count(qfi);
        all("downlink", &probe.downlink()?)?;
        let seen = count(qfi).zip(before).map(|(after, before)| after - before);
        ensure!(seen == Some(DATAGRAMS.into()), "the gNB received {seen:?} packets with QFI {qfi}");
    }
    session.end()?;
    Ok("the gNB received QFI 9, 5 and 63, each right after its change".to_owned())
}

/// Checks that an SDF filter passes only one flow. Spec: TS 29.244 §5.2.1A.2, §8.2.5.
fn sdf(context: &ScenarioContext<'_>) -> Result<String> {
    let only = FlowPdr { sdf: Some(TO_PORT), ..ALL_UPLINK };
    let session = context.establish(&[only], QFI)?;
    let (probe, other) =
        (ProbeSockets::open(context, PORT)?, ProbeSockets::open(context, OTHER_PORT)?);
    all("the filter's port", &probe.uplink()?)?;
    none("another port", &other.uplink()?)?;
    session.end()?;
    Ok(format!("port {PORT} passes, port {OTHER_PORT} does not"))
}

/// Checks that of two matching PDRs, the one with the lower precedence value applies. Spec: TS
/// 29.244 §8.2.11.
fn precedence(context: &ScenarioContext<'_>) -> Result<String> {
    let special = PdrId(2);
    let drop =
        FlowPdr { id: special, precedence: 50, far: NOWHERE, sdf: Some(TO_PORT), ..ALL_UPLINK };
    let session = context.establish(&[ALL_UPLINK, drop], QFI)?;
    let (probe, other) =
        (ProbeSockets::open(context, PORT)?, ProbeSockets::open(context, OTHER_PORT)?);
    none("special PDR first", &probe.uplink()?)?;
    all("special PDR first, other port", &other.uplink()?)?;
    let pdrs = [UpdatePdr { precedence: Some(Precedence(200)), ..UpdatePdr::new(special) }];
    let request = SessionModificationRequest::new();
    session.modify(&SessionModificationRequest { update_pdrs: (&pdrs).into(), ..request })?;
    all("general PDR first", &probe.uplink()?)?;
    let pdrs = [UpdatePdr { precedence: Some(Precedence(300)), ..UpdatePdr::new(UPLINK) }];
    let request = SessionModificationRequest::new();
    session.modify(&SessionModificationRequest { update_pdrs: (&pdrs).into(), ..request })?;
    none("special PDR first again", &probe.uplink()?)?;
    session.end()?;
    Ok("the PDR with the lower precedence value applied, also after each change".to_owned())
}

/// Switches the downlink FAR to another gNB tunnel. Spec: TS 23.502 §4.9.1.2.
fn path_switch(context: &ScenarioContext<'_>) -> Result<String> {
    let session = context.establish(&[ALL_UPLINK], QFI)?;
    let probe = ProbeSockets::open(context, PORT)?;
    let legs = || context.network.gnb.leg_pkts(usize::from(context.index()));
    all("first tunnel", &probe.downlink()?)?;
    ensure!(legs() == (DATAGRAMS.into(), 0), "packets by tunnel: {:?}", legs());
    let new = teid(context.index(), Leg::Second);
    let tunnel = OuterHeaderCreation::gtpu_ipv4(new, GNB);
    context.network.smf.switch_path(session.established(), tunnel, || context.stop.check())?;
    all("second tunnel", &probe.downlink()?)?;
    ensure!(legs() == (DATAGRAMS.into(), DATAGRAMS.into()), "packets by tunnel: {:?}", legs());
    session.end()?;
    Ok("after the answer all packets used the new tunnel".to_owned())
}
