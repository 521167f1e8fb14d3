//! Packet rates and their counts, by session and QER.
//!
//! Few sessions have packet rates. A QER keeps its counts while it exists, even if its rate
//! changes.
//!
//! Spec: TS 29.244 §8.2.63, §8.2.139.

use std::collections::HashMap;

use adit_rules::{PacketLimit, PacketRateMeter, PacketsLeft};
use adit_types::{Direction, Nanos, QerId, SessionIndex};

use crate::record::{PacketAllowance, PacketLimits, Qer};

/// The packet rates of a session's QERs.
pub(crate) type QerPacketRates = Vec<(QerId, PacketRateMeter)>;

/// The packet rates of all sessions.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PacketRates(HashMap<SessionIndex, QerPacketRates>);

impl PacketRates {
    /// Returns the packet rates of a session.
    pub(crate) fn of(&self, session: SessionIndex) -> &[(QerId, PacketRateMeter)] {
        self.0.get(&session).map_or(&[], Vec::as_slice)
    }

    /// Returns the packet rates of a session with `qers` from `now` on; QERs in `created` are new.
    pub(crate) fn plan(
        &self,
        now: Nanos,
        session: SessionIndex,
        qers: &[Qer],
        created: &[QerId],
    ) -> QerPacketRates {
        let kept = |id: QerId| {
            let mut known = self.of(session).iter().filter(|_| !created.contains(&id));
            known.find(|(known, _)| *known == id).map(|(_, rate)| rate)
        };
        let planned = |qer: &Qer| {
            let PacketLimits { uplink, downlink } = qer.packet_rate?;
            let rate = match kept(qer.id) {
                Some(rate) => rate.with_limits([uplink, downlink], now),
                None if created.contains(&qer.id) => {
                    with_status(qer, PacketRateMeter::new([uplink, downlink], now))
                }
                None => PacketRateMeter::new([uplink, downlink], now),
            };
            Some((qer.id, rate))
        };
        qers.iter().filter_map(planned).collect()
    }

    /// Replaces the packet rates of a session.
    pub(crate) fn set(&mut self, session: SessionIndex, rates: QerPacketRates) {
        if rates.is_empty() {
            self.0.remove(&session);
        } else {
            self.0.insert(session, rates);
        }
    }
}

/// Starts a new rate from the packet rate status that the control plane gave for the QER.
fn with_status(qer: &Qer, rate: PacketRateMeter) -> PacketRateMeter {
    let Some(status) = qer.packet_status else { return rate };
    let left = |PacketAllowance { packets, additional }| PacketsLeft {
        packets,
        additional,
        until: status.until,
    };
    resume(&rate, [status.uplink, status.downlink].map(|allowance| allowance.map(left)));
    rate
}

/// Continues a rate with the packets that it had left in uplink and downlink.
pub(crate) fn resume(rate: &PacketRateMeter, both: [Option<PacketsLeft>; 2]) {
    for (direction, left) in [Direction::Uplink, Direction::Downlink].into_iter().zip(both) {
        let Some(PacketsLeft { packets, additional, until }) = left else { continue };
        // Without an additional allowance in the status the whole allowance is left.
        rate.resume(direction, packets, additional.unwrap_or(u16::MAX), until);
    }
}

/// The packet rate of a QER, with its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QerPacketRate {
    /// The QER.
    pub qer: QerId,
    /// True to report the status at the session's end. Spec: TS 29.244 §8.2.174 (RCSR).
    pub reported_at_end: bool,
    pub(crate) rate: PacketRateMeter,
}

impl QerPacketRate {
    /// Returns the packets left at `now`, uplink and downlink; `None` without a rate.
    #[must_use]
    pub fn left(&self, now: Nanos) -> [Option<PacketsLeft>; 2] {
        [Direction::Uplink, Direction::Downlink].map(|direction| self.rate.left(direction, now))
    }

    /// Returns the rate of a direction.
    #[must_use]
    pub const fn limit(&self, direction: Direction) -> Option<PacketLimit> {
        self.rate.limit(direction)
    }

    /// Returns how many packets of a direction the rate dropped.
    #[must_use]
    pub fn dropped(&self, direction: Direction) -> u64 {
        self.rate.dropped(direction)
    }
}
