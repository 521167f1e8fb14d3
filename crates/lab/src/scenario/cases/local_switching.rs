//! Packets from one UE to another: adit switches them locally, or sends them to the data network.

use std::net::{Ipv4Addr, SocketAddrV4};

use adit_pfcp::grouped::UpdateForwardingParameters;
use adit_pfcp::ie::{ForwardingPolicy, Nullable, OuterHeaderCreation};
use adit_types::Teid;
use adit_wire::ipv4::Ipv4Header;
use anyhow::{Result, ensure};

use super::PORT;
use crate::adit_process::PacketDevice;
use crate::demo::report::AditCounters;
use crate::gnb::{Leg, teid};
use crate::scenario::endpoint::Endpoint;
use crate::scenario::probe::DATAGRAMS;
use crate::scenario::session::{ScenarioContext, ScenarioRules, ScenarioSession, TO_CORE};
use crate::scenario::sniffer::Ipv4Capture;
use crate::topology::{ADIT_N3, LabUe, PEER_UPF};

/// The other UE, which no other scenario uses.
const OTHER: LabUe = LabUe(240);
/// Name of a policy without local switching; `scenario::SECTIONS` configures it.
const OUTSIDE: ForwardingPolicy<'static> = ForwardingPolicy(b"outside");

/// Sends packets between two UEs. Without a policy they do not pass N6. With the policy all of them
/// take N6, and the data network, which does not route, returns none.
pub(super) fn local_switching(context: &ScenarioContext<'_>) -> Result<String> {
    let other = ScenarioContext { network: context.network, stop: context.stop, ue: OTHER };
    let gnb = Endpoint::open(context, PEER_UPF, ADIT_N3)?;
    let wire = Ipv4Capture::open(&context.network.topology.dn)?;
    let (here, there) = (establish(context)?, establish(&other)?);
    let ways = [(&here, context.ue, &other), (&there, OTHER, context)];
    let before = switched_count(context)?;
    for (session, from, to) in ways {
        let arrived = send_between_ues(&gnb, session, from, to)?;
        let tunnel = teid(to.index(), Leg::First);
        ensure!(is_all(&arrived, tunnel), "at {} arrived {arrived:?}", to.ue.ipv4());
    }
    let left = packet_count_at_network(context, &wire)?;
    ensure!(left == 0, "N6 carried {left} packets between UEs");
    let turned = switched_count(context)? - before;
    ensure!(turned == 2 * u64::from(DATAGRAMS), "adit counts {turned} packets between UEs");
    if context.network.device == PacketDevice::Kernel {
        here.end()?;
        there.end()?;
        return Ok(format!(
            "{turned} packets between two UEs, none of them on N6; with the policy, skipped: the \
             kernel routes them back"
        ));
    }
    let outside = UpdateForwardingParameters {
        forwarding_policy: Some(Nullable::Value(OUTSIDE)),
        ..UpdateForwardingParameters::new()
    };
    for (session, from, to) in ways {
        session.forward(TO_CORE, outside)?;
        let arrived = send_between_ues(&gnb, session, from, to)?;
        ensure!(arrived.is_empty(), "with the policy, {arrived:?} arrived by a tunnel");
        let left = packet_count_at_network(context, &wire)?;
        ensure!(left == DATAGRAMS, "with the policy, N6 carried {left} packets");
    }
    here.end()?;
    there.end()?;
    Ok(format!("{turned} packets between two UEs, none of them on N6; with the policy, all on N6"))
}

/// Establishes a session whose tunnel leads to the scenario's GTP-U endpoint.
fn establish<'a>(context: &'a ScenarioContext<'a>) -> Result<ScenarioSession<'a>> {
    let tunnel = OuterHeaderCreation::gtpu_ipv4(teid(context.index(), Leg::First), PEER_UPF);
    context.establish_with(&ScenarioRules { to_access: Some(tunnel), ..ScenarioRules::USUAL })
}

/// Sends datagrams from one UE to the other. Returns TEIDs and numbers of those that arrive.
fn send_between_ues(
    gnb: &Endpoint,
    session: &ScenarioSession<'_>,
    from: LabUe,
    to: &ScenarioContext<'_>,
) -> Result<Vec<(Teid, u32)>> {
    let flow = [SocketAddrV4::new(from.ipv4(), PORT), SocketAddrV4::new(to.ue.ipv4(), PORT)];
    gnb.send(session.established().uplink_teid, flow, 0..DATAGRAMS)?;
    gnb.receive(to, usize::try_from(DATAGRAMS)?)
}

fn is_all(arrived: &[(Teid, u32)], tunnel: Teid) -> bool {
    arrived.iter().copied().eq((0..DATAGRAMS).map(|number| (tunnel, number)))
}

/// Returns the number of packets between the two UEs that reach the data network.
fn packet_count_at_network(context: &ScenarioContext<'_>, wire: &Ipv4Capture) -> Result<u32> {
    let ues: [Ipv4Addr; 2] = [context.ue.ipv4(), OTHER.ipv4()];
    let seen = wire.seen(context, |packet| {
        let (ip, _) = Ipv4Header::parse(packet).ok()?;
        (ues.contains(&ip.src()) && ues.contains(&ip.dst())).then_some(())
    })?;
    Ok(u32::try_from(seen.len())?)
}

fn switched_count(context: &ScenarioContext<'_>) -> Result<u64> {
    let document = context.network.adit.admin().show("counters", context.stop)?;
    Ok(AditCounters::read(&document)?.locally_switched_pkts)
}
