//! The flow offload: flow rules for sessions on the cards of ports with `flow_offload`.

use adit_dpdk::{EthdevFlows, Port};
use adit_rules::flows::{FlowConfig, FlowDirections, FlowOffload};
use adit_rules::{Offload, OffloadChoice, OffloadInterface};
use adit_tables::TablesConfig;
use adit_types::{Nanos, PortId};
use tracing::info;

use crate::config::{Config, FlowOffloadSettings};
use crate::ports::open_ports::OpenPort;

/// How long after the removal of a flow rule frames may still be counted for it: those in the
/// card's pipeline, and those that its counters do not show yet.
const SETTLE_TIME: Nanos = Nanos::from_millis(2);

/// Assumed speed of a link whose speed is unknown.
const LINK_MBPS_DEFAULT: u32 = 100_000;

/// Interval at which the rates of all sessions are measured, in intervals of counter readings.
const SCAN_INTERVALS: u64 = 100;
/// How long a chosen session may be slow before it loses its place, in intervals of readings.
const CALM_INTERVALS: u64 = 50;

/// Starts the flow offload of the ports that have `flow_offload` set. `None` if no port has it.
pub(crate) fn start(
    config: &Config,
    tables: &TablesConfig,
    ports: &[OpenPort],
) -> Option<Box<dyn Offload>> {
    let mut cards: Vec<(PortId, &Port)> = Vec::new();
    for ((id, settings), open) in (0..).map(PortId).zip(&config.ports).zip(ports) {
        cards.extend(open.dpdk().filter(|_| settings.flow_offload).map(|port| (id, port)));
    }
    if cards.is_empty() {
        return None;
    }
    let speed = |port: &Port| port.details().ok()?.link_speed_mbps;
    let fastest = cards.iter().map(|(_, port)| speed(port).unwrap_or(LINK_MBPS_DEFAULT)).max();
    let has_flows = |id: PortId| cards.iter().any(|(known, _)| *known == id);
    let interfaces = tables.interfaces.iter().filter(|of| has_flows(of.port));
    let flows = FlowConfig {
        sessions_max: tables.sessions_max,
        interfaces: interfaces.map(OffloadInterface::from).collect(),
        directions: match config.flow_offload.downlink {
            true => FlowDirections::Both,
            false => FlowDirections::Uplink,
        },
        choice: choice(&config.flow_offload, fastest.unwrap_or(LINK_MBPS_DEFAULT)),
    };
    let names = config.ports.iter().filter(|port| port.flow_offload);
    let names: Vec<_> = names.map(|port| port.name.as_str()).collect();
    info!(ports = names.join(", "), "hot sessions get flow rules of the cards");
    Some(Box::new(FlowOffload::new(EthdevFlows::new(cards), flows, SETTLE_TIME)))
}

fn choice(settings: &FlowOffloadSettings, mbps: u32) -> OffloadChoice {
    let watch = settings.read_interval;
    // Two intervals: a counter is read once in an interval, and the reading is used up to one
    // later.
    let octets = u128::from(mbps) * 125_000 * u128::from(watch.0) * 2 / 1_000_000_000;
    OffloadChoice {
        sessions_max: settings.sessions_max,
        enter_pps: settings.from_pps,
        leave_pps: settings.from_pps / 2,
        calm: Nanos(watch.0 * CALM_INTERVALS),
        scan: Nanos(watch.0 * SCAN_INTERVALS),
        watch,
        watch_bytes: u64::try_from(octets).unwrap_or(u64::MAX),
    }
}
