//! Offloads in front of the workers: the XDP program, or a card in memory.

use adit_rules::flows::SoftwareCard;
use adit_rules::{DeltaId, Offload, OffloadInterface};
use adit_tables::TablesConfig;
use adit_types::Nanos;
use adit_xdp::{XdpConfig, XdpError, XdpProgram, XdpVerdict};

use super::card::{self, CardSettings, CardSide};
use super::layout::control_with;
use super::{InjectedFrame, World, WorldLayout};

/// The device in front of the workers, and its forwarded packets.
#[derive(Debug)]
pub(super) struct FrontSide {
    device: FrontDevice,
    /// Packets that it forwarded.
    forwarded: u64,
}

#[derive(Debug)]
enum FrontDevice {
    /// The program of each port.
    Xdp(Vec<XdpProgram>),
    Card(CardSide),
}

impl FrontSide {
    const fn as_card(&self) -> Option<&CardSide> {
        match &self.device {
            FrontDevice::Card(side) => Some(side),
            FrontDevice::Xdp(_) => None,
        }
    }
}

/// A frame that left, with its port.
pub(super) type SentFrame = (u16, Vec<u8>);

/// Loads the program for the ports of `config`.
pub(super) fn load(config: &TablesConfig) -> Result<(FrontSide, Box<dyn Offload>), XdpError> {
    let interfaces = config.interfaces.iter().map(OffloadInterface::from);
    let mut ports: Vec<_> = config.interfaces.iter().map(|of| of.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let config = XdpConfig {
        sessions_max: config.sessions_max,
        teid_slot_bits: config.teid_slot_bits,
        next_hops_max: config.next_hops_max,
        interfaces: interfaces.collect(),
        ue_pools_v4: config.ue_pools_v4.clone(),
        // Any device: a test run sends nothing.
        devices: ports.iter().map(|port| (*port, 1)).collect(),
    };
    let (offload, programs) = adit_xdp::load(&config, || Nanos(0))?;
    Ok((FrontSide { device: FrontDevice::Xdp(programs), forwarded: 0 }, Box::new(offload)))
}

impl World {
    /// [`World::new`] with the XDP program on all ports.
    ///
    /// # Errors
    /// Why there is no program.
    pub fn with_xdp(layout: &WorldLayout) -> Result<Self, XdpError> {
        let mut loaded = Err(XdpError(String::new()));
        let (store, publisher, readers) = control_with(layout, |config| match load(config) {
            Ok((xdp, offload)) => {
                loaded = Ok(xdp);
                Some(offload)
            }
            Err(error) => {
                loaded = Err(error);
                None
            }
        });
        Ok(Self::of(layout, store, publisher, readers, Some(loaded?)))
    }

    /// [`World::new`] with a card in memory on all ports.
    #[must_use]
    pub fn with_card(layout: &WorldLayout, settings: CardSettings) -> Self {
        let side = CardSide::new(layout, settings);
        let (store, publisher, readers) = control_with(layout, |config| {
            Some(card::offload(config, side.card.clone(), settings.choice))
        });
        let front = FrontSide { device: FrontDevice::Card(side), forwarded: 0 };
        Self::of(layout, store, publisher, readers, Some(front))
    }

    /// The card.
    #[must_use]
    pub fn card(&self) -> Option<&SoftwareCard> {
        self.front.as_ref()?.as_card().map(|side| &side.card)
    }

    /// The next change that is in effect. Waits for a program or a card.
    pub(super) fn wait_for_observed(&mut self) -> Option<DeltaId> {
        loop {
            let observed = self.publisher.poll_observed();
            self.publisher.turn(self.now);
            if observed.is_some() || self.front.is_none() || self.publisher.unobserved() == 0 {
                return observed;
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    /// Runs the program, or the card, on frames in their order. Returns for each the frame that
    /// left, with its port, or `None` if it goes to a worker.
    pub(super) fn run_front(
        &mut self,
        arrivals: &[InjectedFrame],
    ) -> Result<Vec<Option<SentFrame>>, String> {
        let left = match &mut self.front {
            None => vec![None; arrivals.len()],
            Some(FrontSide { device: FrontDevice::Card(card), forwarded }) => {
                let left: Vec<_> = arrivals.iter().map(|arrival| card.process(arrival)).collect();
                *forwarded += left.iter().flatten().count() as u64;
                left
            }
            Some(_) => {
                arrivals.iter().map(|arrival| self.run_on(arrival)).collect::<Result<_, _>>()?
            }
        };
        // Reads the counters of a card.
        self.publisher.turn(self.now);
        Ok(left)
    }

    fn run_on(&mut self, arrival: &InjectedFrame) -> Result<Option<SentFrame>, String> {
        let sent = |world: &Self| {
            let report = world.publisher.offload().unwrap_or_default();
            let sent = |of: &adit_rules::OffloadInterfaceTotals| of.ul_pkts + of.dl_pkts;
            report.totals.interfaces.iter().map(sent).collect::<Vec<u64>>()
        };
        let before = sent(self);
        let Some(FrontSide { device: FrontDevice::Xdp(programs), forwarded }) = &mut self.front
        else {
            return Ok(None);
        };
        let program = programs.iter_mut().find(|program| program.port.0 == arrival.port);
        // The kernel runs a program on Ethernet frames only.
        let (Some(program), 14..) = (program, arrival.frame.len()) else { return Ok(None) };
        let (verdict, frame) = program.test_run(&arrival.frame).map_err(|error| error.0)?;
        match verdict {
            XdpVerdict::Aborted => Err("the program aborted".into()),
            XdpVerdict::Passed if frame != arrival.frame => Err("a passed frame changed".into()),
            XdpVerdict::Passed => Ok(None),
            XdpVerdict::Forwarded => {
                *forwarded += 1;
                let after = sent(self);
                let through = before.iter().zip(&after).position(|(before, after)| before != after);
                let through = through.ok_or("a forwarded frame was not counted")?;
                Ok(Some((self.oracle.interfaces[through].port, frame)))
            }
        }
    }

    /// Packets that the program or the card forwarded.
    #[must_use]
    pub fn offloaded(&self) -> u64 {
        self.front.as_ref().map_or(0, |front| front.forwarded)
    }
}
