//! UE addresses from adit's pool, and networks behind a UE. Spec: TS 29.244 §5.16, §5.21.

use std::net::Ipv4Addr;

use adit_pfcp::ie::FramedRoute;
use anyhow::{Context, Result, ensure};

use super::PORT;
use crate::scenario::expect::{both, none};
use crate::scenario::probe::ProbeSockets;
use crate::scenario::session::{ScenarioContext, ScenarioRules};

/// The first octets of all addresses in the configured pool.
const POOL: [u8; 3] = [10, 45, 200];

/// Lets adit allocate the UE's address: traffic with that address passes, with another address not.
pub(super) fn ue_pool(context: &ScenarioContext<'_>) -> Result<String> {
    let session =
        context.establish_with(&ScenarioRules { ue_from_pool: true, ..ScenarioRules::USUAL })?;
    let addr = session.established().ue_ipv4.context("adit allocated no address")?;
    let [a, b, c, host] = addr.octets();
    ensure!([a, b, c] == POOL, "{addr} is not in the pool");
    let topology = &context.network.topology;
    topology.give_address(context.ue, addr)?;
    both("the address of the pool", &ProbeSockets::open_from(context, addr, PORT)?)?;
    let spoofed = Ipv4Addr::from([a, b, c, host.wrapping_add(1)]);
    topology.give_address(context.ue, spoofed)?;
    none("another address", &ProbeSockets::open_from(context, spoofed, PORT)?.uplink()?)?;
    session.end()?;
    Ok(format!("adit allocated {addr}, which works; another address does not"))
}

/// Adds a network behind the UE: it can receive and send, and another network cannot.
pub(super) fn framed_route(context: &ScenarioContext<'_>) -> Result<String> {
    const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 45, 210, 7);
    const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(10, 45, 211, 7);
    let framed_routes = [FramedRoute(b"10.45.210.0/24 0.0.0.0 1")];
    let session = context
        .establish_with(&ScenarioRules { framed_routes: &framed_routes, ..ScenarioRules::USUAL })?;
    let topology = &context.network.topology;
    topology.give_address(context.ue, BEHIND)?;
    topology.give_address(context.ue, ELSEWHERE)?;
    both("the UE itself", &ProbeSockets::open(context, PORT)?)?;
    both("the network behind it", &ProbeSockets::open_from(context, BEHIND, PORT)?)?;
    let elsewhere = ProbeSockets::open_from(context, ELSEWHERE, PORT)?;
    none("another network, uplink", &elsewhere.uplink()?)?;
    none("another network, downlink", &elsewhere.downlink()?)?;
    session.end()?;
    Ok("the network behind the UE receives and sends, another one does not".to_owned())
}
