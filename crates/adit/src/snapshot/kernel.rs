//! `adit show kernel`: kernel twins of interfaces, and their frames by class.

use serde::Serialize;
use utoipa::ToSchema;

use super::{ControlView, whole};
use crate::admin::AnswerPage;
use crate::config::Config;
use crate::ports::kernel_twins::{TwinClassFigures, TwinFigures};
use crate::text_table::tables;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KernelDocument {
    twins: Vec<TwinRow>,
    classes: Vec<TwinClassRow>,
}

tables!(KernelDocument {
    twins: TwinRow [interface, device, netns, carrier, from_kernel, from_kernel_refused, device_refused],
    classes: TwinClassRow [interface, class, to_kernel, ring_full, rate_limited],
});

/// The kernel twin of an interface.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TwinRow {
    interface: String,
    /// The TAP device.
    device: String,
    /// Its named network namespace; null: that of adit.
    netns: Option<String>,
    /// The port has a link, and this adit is active.
    carrier: bool,
    /// Frames of the kernel that a worker took to send.
    from_kernel: u64,
    /// Frames of the kernel that are longer than the MTU, tagged, or without a header.
    from_kernel_refused: u64,
    /// Frames that the device did not take from adit.
    device_refused: u64,
}

/// Frames of one class to the kernel twin of an interface.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TwinClassRow {
    interface: String,
    /// "n4", "routing", "neighbor" or "other".
    class: &'static str,
    /// Frames that went to the twin, with copies of ARP and neighbor discovery.
    to_kernel: u64,
    /// Frames dropped because the ring of the class was full.
    ring_full: u64,
    /// Frames dropped beyond the rate of the class.
    rate_limited: u64,
}

pub(super) fn page(control: &ControlView<'_>) -> AnswerPage {
    let config = &control.parts.config;
    let figures = control.parts.twins.figures();
    let document = KernelDocument {
        twins: figures.iter().filter_map(|twin| TwinRow::of(config, twin)).collect(),
        classes: figures.iter().flat_map(|twin| TwinClassRow::of(config, twin)).collect(),
    };
    whole(document, |document| document)
}

impl TwinRow {
    fn of(config: &Config, figures: &TwinFigures) -> Option<Self> {
        let interface = config.interfaces.get(usize::from(figures.interface.0))?;
        let twin = interface.twin.as_ref()?;
        Some(Self {
            interface: interface.name.clone(),
            device: twin.name.clone(),
            netns: twin.netns.clone(),
            carrier: figures.has_carrier,
            from_kernel: figures.from_pkts,
            from_kernel_refused: figures.from_refused,
            device_refused: figures.refused_pkts,
        })
    }
}

impl TwinClassRow {
    fn of(config: &Config, figures: &TwinFigures) -> Vec<Self> {
        let interface = config.interfaces.get(usize::from(figures.interface.0));
        let name = interface.map(|interface| interface.name.clone()).unwrap_or_default();
        let row = |of: &TwinClassFigures| Self {
            interface: name.clone(),
            class: of.class.name(),
            to_kernel: of.pkts,
            ring_full: of.ring_full,
            rate_limited: of.rate_limited,
        };
        figures.classes.iter().map(row).collect()
    }
}
