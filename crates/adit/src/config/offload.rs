//! `xdp` and `flow_offload` of ports, and `[flow_offload]`.

use adit_dpdk::Device;
use adit_types::{Nanos, PortId};

use super::section::ConfigSection;
use super::{FlowOffloadSettings, InterfaceSettings, PortSettings, XdpMode};

/// Reads the offload that forwards packets of a port before workers receive them. `others`: the
/// ports before it.
pub(super) fn read_port(
    section: &mut ConfigSection<'_, '_>,
    device: Option<&Device>,
    others: &[PortSettings],
) -> (XdpMode, bool) {
    let modes = [("off", XdpMode::Off), ("auto", XdpMode::Auto), ("on", XdpMode::On)];
    let xdp = section.choice("xdp", &modes, Some(XdpMode::Off)).unwrap_or(XdpMode::Off);
    let has_xdp = xdp != XdpMode::Off;
    if has_xdp && !device.is_some_and(|of| of.is_driver("net_af_xdp")) {
        section.problem("xdp", "takes \"off\": only net_af_xdp devices have an XDP program");
    }
    let has_flows = section.boolean_optional("flow_offload").unwrap_or(false);
    if has_flows && device.is_none() {
        section.problem("flow_offload", "takes false: ports of the kernel take no flow rules");
    }
    let other_has_xdp = others.iter().any(|port| port.xdp != XdpMode::Off);
    let other_has_flows = others.iter().any(|port| port.flow_offload);
    if has_flows && (has_xdp || other_has_xdp) || has_xdp && other_has_flows {
        section.problem("flow_offload", "and xdp exclude each other, on all ports together");
    }
    (xdp, has_flows)
}

/// Reads `[flow_offload]`.
pub(super) fn read_flows(
    root: &mut ConfigSection<'_, '_>,
    ports: &[PortSettings],
) -> FlowOffloadSettings {
    if root.has("flow_offload") && !ports.iter().any(|port| port.flow_offload) {
        root.problem("flow_offload", "is for ports with flow_offload = true, and no port has it");
    }
    let mut section = root.table("flow_offload");
    let read_ms = section.integer("read_interval_ms", 1..=1000_u64, Some(100));
    let settings = FlowOffloadSettings {
        downlink: section.boolean_optional("downlink").unwrap_or(false),
        sessions_max: section.integer("sessions_max", 1..=1_000_000_usize, Some(10_000)),
        from_pps: section.integer("from_pps", 1..=1_000_000_000_u64, Some(1000)),
        read_interval: Nanos::from_millis(read_ms),
    };
    section.finish();
    settings
}

/// Checks that an offload on some ports has an interface with GTP-U and one with plain IP on them:
/// only packets between the two can be forwarded there.
pub(super) fn check_interfaces(
    root: &ConfigSection<'_, '_>,
    ports: &[PortSettings],
    interfaces: &[InterfaceSettings],
) {
    let ids = |is_on: fn(&PortSettings) -> bool| -> Vec<PortId> {
        let on = (0..).map(PortId).zip(ports).filter(|(_, port)| is_on(port));
        on.map(|(id, _)| id).collect()
    };
    let with_xdp = ids(|port| port.xdp != XdpMode::Off);
    let with_flows = ids(|port| port.flow_offload);
    for (key, on) in [("xdp", with_xdp), ("flow_offload", with_flows)] {
        let has = |is_gtpu: bool| {
            let mut there = interfaces.iter().filter(|known| on.contains(&known.port));
            there.any(|known| known.role.is_gtpu() == is_gtpu)
        };
        for (is_gtpu, missing) in [(true, "an n3 interface"), (false, "an n6 interface")] {
            if !on.is_empty() && !has(is_gtpu) {
                let what = format!(
                    "ports with {key} forward only among themselves, and none of them has {missing}; set {key} on \
                     its port, too"
                );
                root.problem("port", what);
            }
        }
    }
}
