//! `adit show ports`.

use std::collections::BTreeMap;

use adit_dpdk::Port;
use adit_kernel::{KernelCounters, KernelDevice, PortCounters, tun_missed_pkts};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::config::PortSettings;
use crate::control_parts::port_links::PortLink;
use crate::control_parts::{ControlPort, ControlPortDevice};
use crate::ports::steering::{PortSteering, SteeringRow};
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PortsDocument {
    ports: Vec<PortRow>,
}

tables!(PortsDocument {
    ports: PortRow [
        name, device, driver, mac, mtu_bytes, rx_queues, link, link_losses, rx_pkts, tx_pkts, rx_missed, rx_errors,
        rx_no_mbuf, tx_errors,
    ],
});

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let ports = links_of(control).map(|(port, link)| PortRow::of(port, link)).collect();
    whole(PortsDocument { ports }, |document| document)
}

/// Returns all ports with their links.
pub(super) fn links_of<'a>(
    control: &ControlView<'a>,
) -> impl Iterator<Item = (&'a ControlPort, PortLink)> {
    let links = control.links.all().iter().copied().chain(std::iter::repeat(PortLink::default()));
    control.parts.ports.iter().zip(links)
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PortRow {
    name: String,
    device: String,
    driver: Option<String>,
    mac: String,
    mtu_bytes: u16,
    link: Option<&'static str>,
    /// How often the link went down, and came up after that.
    link_losses: u64,
    link_recoveries: u64,
    link_speed_mbps: Option<u32>,
    rx_queues: u16,
    rx_queues_max: Option<u16>,
    rx_queue_pkts: Option<Vec<u64>>,
    rss: Option<Vec<&'static str>>,
    rss_reason: Option<&'static str>,
    steering: Vec<SteeringRow>,
    offloads: Option<Vec<String>>,
    rx_pkts: u64,
    rx_bytes: u64,
    rx_missed: u64,
    rx_errors: u64,
    rx_no_mbuf: u64,
    tx_pkts: u64,
    tx_bytes: u64,
    tx_errors: u64,
    losses: BTreeMap<String, u64>,
}

impl PortRow {
    fn of(row: &ControlPort, link: PortLink) -> Self {
        let PortLink { is_up, losses, recoveries, .. } = link;
        let mut shown = Self::of_device(row);
        (shown.link_losses, shown.link_recoveries) = (losses, recoveries);
        // For a device that the kernel has too, the kernel's link state is better than the
        // driver's.
        let of_kernel = is_up.map(|is_up| if is_up { "up" } else { "down" });
        shown.link = of_kernel.or(shown.link);
        shown
    }

    fn of_device(row: &ControlPort) -> Self {
        match &row.device {
            ControlPortDevice::Dpdk { port, steering } => {
                Self::of_dpdk(&row.config, port, steering)
            }
            ControlPortDevice::Kernel { parts, rx_queues, steering, mac } => Self {
                mac: mac.to_string(),
                steering: steering.iter().map(SteeringRow::of).collect(),
                ..Self::of_kernel(&row.config, parts, *rx_queues)
            },
        }
    }

    /// Returns the row of a port of the kernel, without its link, which `ip link` shows.
    fn of_kernel(config: &PortSettings, parts: &[KernelCounters], rx_queues: u16) -> Self {
        let queues: Vec<PortCounters> = parts.iter().map(KernelCounters::read).collect();
        let mut sum = PortCounters::default();
        queues.iter().for_each(|queue| sum += *queue);
        let missed = match config.device.kernel() {
            Some(KernelDevice::Tun { name }) => tun_missed_pkts(name),
            _ => sum.rx_missed_pkts,
        };
        let losses = [
            ("tx_refused", sum.tx_refused_pkts),
            ("tx_unusable", sum.tx_unusable_pkts),
            ("rx_unusable", sum.rx_unusable_pkts),
        ];
        let losses = losses.into_iter().filter(|(_, count)| *count != 0);
        Self {
            name: config.name.clone(),
            device: config.device.to_string(),
            driver: Some("kernel".to_owned()),
            mac: String::new(),
            mtu_bytes: config.mtu_bytes,
            link: None,
            link_losses: 0,
            link_recoveries: 0,
            link_speed_mbps: None,
            rx_queues,
            rx_queues_max: None,
            rx_queue_pkts: Some(queues.iter().map(|queue| queue.rx_pkts).collect()),
            rss: None,
            rss_reason: Some("the kernel distributes flows over the queues"),
            steering: Vec::new(),
            offloads: None,
            rx_pkts: sum.rx_pkts,
            rx_bytes: sum.rx_bytes,
            rx_missed: missed,
            rx_errors: sum.rx_unusable_pkts,
            rx_no_mbuf: sum.rx_no_buffer_pkts,
            tx_pkts: sum.tx_pkts,
            tx_bytes: sum.tx_bytes,
            tx_errors: sum.tx_refused_pkts + sum.tx_unusable_pkts,
            losses: losses.map(|(name, count)| (name.to_owned(), count)).collect(),
        }
    }

    fn of_dpdk(config: &PortSettings, port: &Port, steering: &[PortSteering]) -> Self {
        let details = port.details().ok();
        let details = details.as_ref();
        let stats = port.stats().unwrap_or_default();
        let driver_counters = port.xstats().unwrap_or_default();
        let why_no_rss = details.filter(|details| details.rss.is_empty()).map(|details| {
            match (port.rx_queues(), details.can_rss) {
                (1, _) => "one receive queue",
                (_, false) => "the driver has no RSS",
                (_, true) => "the driver hashes none of the headers that adit asks for",
            }
        });
        Self {
            name: config.name.clone(),
            device: config.device.to_string(),
            driver: details.map(|details| details.driver.clone()),
            mac: port.info().mac.to_string(),
            mtu_bytes: port.info().mtu_bytes,
            link: details.map(|d| if d.link_up { "up" } else { "down" }),
            link_losses: 0,
            link_recoveries: 0,
            link_speed_mbps: details.and_then(|details| details.link_speed_mbps),
            rx_queues: port.rx_queues(),
            rx_queues_max: details.map(|details| details.rx_queues_max),
            rx_queue_pkts: queue_pkts(&driver_counters, port.rx_queues()),
            rss: details.map(|details| details.rss.clone()),
            rss_reason: why_no_rss,
            steering: steering.iter().map(SteeringRow::of).collect(),
            offloads: details.map(|details| details.offloads.clone()),
            rx_pkts: stats.ipackets,
            rx_bytes: stats.ibytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            rx_no_mbuf: stats.rx_nombuf,
            tx_pkts: stats.opackets,
            tx_bytes: stats.obytes,
            tx_errors: stats.oerrors,
            losses: losses(&driver_counters),
        }
    }
}

/// Returns the packets of each receive queue, if the driver counts them.
fn queue_pkts(counters: &[(String, u64)], queues: u16) -> Option<Vec<u64>> {
    let of_queue = |queue| {
        let name = format!("rx_q{queue}_packets");
        counters.iter().find(|(counter, _)| *counter == name).map(|(_, value)| *value)
    };
    (0..queues).map(of_queue).collect()
}

/// Returns the driver's own counters of lost packets that are not zero.
fn losses(counters: &[(String, u64)]) -> BTreeMap<String, u64> {
    let counts_loss = |name: &str| {
        ["error", "miss", "drop", "discard", "alloc", "nobuf", "no_buf", "mbuf", "full"]
            .iter()
            .any(|word| name.contains(word))
    };
    let counters = counters.iter().filter(|(name, value)| *value != 0 && counts_loss(name));
    counters.cloned().collect()
}
