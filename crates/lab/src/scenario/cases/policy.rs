//! Forwarding policies: FARs name policies of adit's configuration. Spec: TS 29.244 §8.2.23.

use std::fs;

use adit_pfcp::grouped::UpdateForwardingParameters;
use adit_pfcp::ie::{ForwardingPolicy, Nullable};
use anyhow::{Context, Result, ensure};

use super::PORT;
use crate::scenario::expect::{all, both};
use crate::scenario::probe::{DATAGRAMS, ProbeSockets};
use crate::scenario::session::{ScenarioContext, ScenarioRules, TO_CORE};
use crate::scenario::sniffer::ServerSniffer;
use adit_lab_process::netns::NetNamespace;
use adit_lab_process::stop::EnvironmentError;

/// Name of a policy with next hop `STATION` and DSCP 18; `scenario::LINK_SECTIONS` configures it.
const POLICY: ForwardingPolicy<'static> = ForwardingPolicy(b"firewall");
/// DSCP 18 as type of service.
const MARKED: u8 = 18 << 2;

/// Checks that packets take another next hop and carry another DSCP only with the policy.
pub(super) fn forwarding_policy(context: &ScenarioContext<'_>) -> Result<String> {
    let dn = &context.network.topology.dn;
    let station = match context.network.topology.add_station() {
        Err(error) if error.is::<EnvironmentError>() => return Ok(format!("skipped: {error}")),
        station => station?,
    };
    let session =
        context.establish_with(&ScenarioRules { policy: Some(POLICY), ..ScenarioRules::USUAL })?;
    let probe = ProbeSockets::open(context, PORT)?;
    let sniffer = ServerSniffer::open(context)?;
    let by_station = |what: &str| -> Result<(u64, Vec<u8>)> {
        let before = received(dn, station)?;
        all(what, &probe.uplink()?)?;
        Ok((received(dn, station)? - before, sniffer.seen(context)?))
    };
    let (pkts, tos) = by_station("with the policy")?;
    ensure!(pkts >= DATAGRAMS.into(), "only {pkts} packets took the policy's next hop");
    ensure!(all_are(&tos, MARKED), "with the policy: type of service {tos:?}");
    let forwarding_policy = Some(Nullable::Null);
    let without =
        UpdateForwardingParameters { forwarding_policy, ..UpdateForwardingParameters::new() };
    session.forward(TO_CORE, without)?;
    let (pkts, tos) = by_station("without the policy")?;
    // The station also receives broadcasts.
    ensure!(pkts < DATAGRAMS.into(), "{pkts} packets still took the policy's next hop");
    ensure!(all_are(&tos, 0), "without the policy: type of service {tos:?}");
    both("afterwards", &probe)?;
    session.end()?;
    Ok("another next hop and DSCP 18 with the policy, neither without".to_owned())
}

fn all_are(seen: &[u8], tos: u8) -> bool {
    seen.iter().copied().eq((0..DATAGRAMS).map(|_| tos))
}

/// Returns the number of packets that a device of the namespace has received.
fn received(namespace: &NetNamespace, device: &str) -> Result<u64> {
    let table = namespace
        .enter(|| fs::read_to_string("/proc/thread-self/net/dev").context("read the devices"))?;
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(device));
    let fields = line.and_then(|line| line.strip_prefix(':')).context("no such device")?;
    // The first field counts octets, the second counts packets.
    fields.split_whitespace().nth(1).and_then(|pkts| pkts.parse().ok()).context("no such count")
}
