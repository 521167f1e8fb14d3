//! A card in memory in front of the workers.

use adit_rules::flows::{
    Flow, FlowConfig, FlowDirections, FlowOffload, FlowPriority, SoftwareCard, SoftwareCardVerdict,
};
use adit_rules::{Offload, OffloadChoice, OffloadInterface};
use adit_tables::TablesConfig;
use adit_types::{Nanos, PortId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{InjectedFrame, WorldLayout};

/// Octets of frames that Ethernet does not pad.
const FRAME_LEN_MIN: usize = 60;

/// The card, and the largest IP packet that each port receives.
#[derive(Debug)]
pub(super) struct CardSide {
    pub(super) card: SoftwareCard,
    mtu_bytes: Vec<(u16, usize)>,
}

/// How a world uses its card.
#[derive(Debug, Clone, Copy)]
pub struct CardSettings {
    /// Flows for which it has room.
    pub flows: usize,
    /// The card refuses one of so many flows at random; zero is none.
    pub refuses_one_in: u32,
    /// Which sessions get flows.
    pub choice: OffloadChoice,
}

impl CardSettings {
    /// Sessions get flows within milliseconds, and the card refuses some.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let choice = OffloadChoice {
            sessions_max: rng.random_range(2..=10),
            enter_pps: 50,
            leave_pps: 25,
            calm: Nanos::from_millis(20),
            scan: Nanos::from_millis(5),
            watch: Nanos::from_millis(1),
            watch_bytes: 12_000,
        };
        let flows = if rng.random_bool(0.3) { rng.random_range(150..220) } else { 10_000 };
        Self { flows, refuses_one_in: [0, 8][rng.random_range(0..2)], choice }
    }
}

impl CardSide {
    /// A card for the ports of a layout.
    pub(super) fn new(layout: &WorldLayout, settings: CardSettings) -> Self {
        let mut rng = StdRng::seed_from_u64(layout.seed);
        let one_in = settings.refuses_one_in;
        let refuses = move |flow: &Flow| {
            let is_refused =
                one_in > 0 && flow.priority == FlowPriority::Session && rng.random_ratio(1, one_in);
            is_refused.then_some("Invalid argument: unsupported action")
        };
        let card = SoftwareCard::new(settings.flows, Some(Box::new(refuses)));
        let mtu = layout.interfaces.iter().map(|of| (of.port, of.mtu_bytes));
        Self { card, mtu_bytes: mtu.collect() }
    }
}

/// Flows of both directions on all ports.
pub(super) fn offload(
    config: &TablesConfig,
    card: SoftwareCard,
    choice: OffloadChoice,
) -> Box<dyn Offload> {
    let config = FlowConfig {
        sessions_max: config.sessions_max,
        interfaces: config.interfaces.iter().map(OffloadInterface::from).collect(),
        directions: FlowDirections::Both,
        choice,
    };
    Box::new(FlowOffload::new(card, config, Nanos(0)))
}

impl CardSide {
    /// The frame that leaves, or `None` if it goes to a worker.
    pub(super) fn process(&self, arrival: &InjectedFrame) -> Option<(u16, Vec<u8>)> {
        let mtu = self.mtu_bytes.iter().filter(|(port, _)| *port == arrival.port).map(|of| of.1);
        let is_received = mtu.min().is_some_and(|mtu| arrival.frame.len() <= mtu + 14);
        if !is_received || !is_sound(&arrival.frame) {
            return None;
        }
        match self.card.process(PortId(arrival.port), &arrival.frame) {
            SoftwareCardVerdict::Worker => None,
            SoftwareCardVerdict::Sent(PortId(port), frame) => Some((port, frame)),
        }
    }
}

/// True if the lengths in a frame agree, which cards do not compare: see docs/internals/offload.md.
/// Only the padding of short frames may follow its packet.
fn is_sound(frame: &[u8]) -> bool {
    let at = if frame.get(12..14) == Some(&[0x81, 0x00]) { 18 } else { 14 };
    let half =
        |at: usize| frame.get(at..at + 2).map(|of| usize::from(of[0]) << 8 | usize::from(of[1]));
    let Some(len) = half(at + 2) else { return true };
    if frame.len() != at + len && frame.len() > FRAME_LEN_MIN {
        return false;
    }
    if frame.get(at + 9) != Some(&17) || half(at + 22) != Some(2152) {
        return true;
    }
    // For G-PDUs, also checks the packet inside.
    let inner = at + if frame.get(at + 28).is_some_and(|flags| flags & 7 != 0) { 44 } else { 36 };
    half(at + 24).is_some_and(|udp| udp + 20 == len)
        && half(at + 30).is_some_and(|gtpu| gtpu + 36 == len)
        && half(inner + 2).is_some_and(|packet| inner + packet == at + len)
}
