//! A simulated datagram network in virtual time: loss, duplication, delay and, because every copy
//! has its own delay, reordering. The same seed gives the same datagrams the same treatment.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use adit_types::Nanos;

/// The faults of a [`LossyLink`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkConfig {
    /// Datagrams lost, per thousand sent. 1000 loses all.
    pub loss_permille: u16,
    /// Datagrams delivered twice, per thousand that are not lost.
    pub duplicate_permille: u16,
    /// Minimum delay.
    pub delay_min: Nanos,
    /// Maximum delay. If it exceeds the minimum, datagrams may overtake each other.
    pub delay_max: Nanos,
}

impl LinkConfig {
    /// No loss, duplication or reordering; a delay of one millisecond.
    pub const PERFECT: Self = Self {
        loss_permille: 0,
        duplicate_permille: 0,
        delay_min: Nanos::from_millis(1),
        delay_max: Nanos::from_millis(1),
    };
}

/// One UDP datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkDatagram {
    /// The sender.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// Counters of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams that were delivered twice.
    pub duplicated: u64,
    /// Copies of datagrams delivered.
    pub delivered: u64,
}

/// A network that connects any number of addresses.
#[derive(Debug)]
pub struct LossyLink {
    config: LinkConfig,
    state: u64,
    serial: u64,
    on_the_way: BTreeMap<(Nanos, u64), LinkDatagram>,
    counts: LinkCounts,
}

impl LossyLink {
    /// Creates an empty network.
    #[must_use]
    pub fn new(seed: u64, config: LinkConfig) -> Self {
        Self {
            config,
            state: seed,
            serial: 0,
            on_the_way: BTreeMap::new(),
            counts: LinkCounts::default(),
        }
    }

    /// Changes the faults for datagrams that are sent from now on.
    pub fn set_config(&mut self, config: LinkConfig) {
        self.config = config;
    }

    /// Sends a datagram: loses it, or schedules its delivery, once or twice.
    pub fn send(&mut self, now: Nanos, datagram: LinkDatagram) {
        self.counts.sent += 1;
        if self.chance(self.config.loss_permille) {
            self.counts.lost += 1;
            return;
        }
        if self.chance(self.config.duplicate_permille) {
            self.counts.duplicated += 1;
            self.schedule(now, datagram.clone());
        }
        self.schedule(now, datagram);
    }

    /// Returns the next datagram that has arrived by `now`.
    pub fn poll_delivery(&mut self, now: Nanos) -> Option<LinkDatagram> {
        if self.next_delivery()? > now {
            return None;
        }
        let (_, datagram) = self.on_the_way.pop_first()?;
        self.counts.delivered += 1;
        Some(datagram)
    }

    /// Returns when the next datagram arrives.
    #[must_use]
    pub fn next_delivery(&self) -> Option<Nanos> {
        self.on_the_way.keys().next().map(|&(at, _)| at)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    fn schedule(&mut self, now: Nanos, datagram: LinkDatagram) {
        let spread = self.config.delay_max.0.saturating_sub(self.config.delay_min.0);
        let extra = if spread == 0 { 0 } else { self.draw() % (spread + 1) };
        let at = now + self.config.delay_min + Nanos(extra);
        self.serial += 1;
        self.on_the_way.insert((at, self.serial), datagram);
    }

    fn chance(&mut self, permille: u16) -> bool {
        self.draw() % 1000 < u64::from(permille)
    }

    /// Draws a number by SplitMix64: every seed, even zero, gives a sequence of full period.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(tag: u8) -> LinkDatagram {
        LinkDatagram {
            src: "192.0.2.1:8805".parse().unwrap(),
            dst: "192.0.2.2:8805".parse().unwrap(),
            bytes: vec![tag],
        }
    }

    fn run(seed: u64, config: LinkConfig) -> (Vec<u8>, LinkCounts) {
        let mut link = LossyLink::new(seed, config);
        for tag in 0..200 {
            link.send(Nanos(u64::from(tag)), datagram(tag));
        }
        let mut arrived = Vec::new();
        while let Some(at) = link.next_delivery() {
            while let Some(datagram) = link.poll_delivery(at) {
                arrived.push(datagram.bytes[0]);
            }
        }
        (arrived, link.counts())
    }

    #[test]
    fn perfect_link_delivers_everything_once_in_order_after_the_delay() {
        let mut link = LossyLink::new(1, LinkConfig::PERFECT);
        link.send(Nanos(0), datagram(7));
        assert_eq!(link.poll_delivery(Nanos(999_999)), None);
        assert_eq!(link.poll_delivery(Nanos(1_000_000)), Some(datagram(7)));
        let (arrived, counts) = run(1, LinkConfig::PERFECT);
        assert_eq!(arrived, (0..200).collect::<Vec<u8>>());
        assert_eq!((counts.sent, counts.lost, counts.delivered), (200, 0, 200));
    }

    #[test]
    fn rough_link_loses_repeats_and_reorders_reproducibly() {
        let config = LinkConfig {
            loss_permille: 200,
            duplicate_permille: 200,
            delay_min: Nanos(1),
            delay_max: Nanos(1000),
        };
        let (arrived, counts) = run(3, config);
        assert!(counts.lost > 0 && counts.duplicated > 0);
        assert_eq!(counts.delivered, counts.sent - counts.lost + counts.duplicated);
        assert!(!arrived.is_sorted());
        assert_eq!(run(3, config).0, arrived);
        assert_ne!(run(4, config).0, arrived);
    }
}
