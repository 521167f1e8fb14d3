//! Packets from one UE to another that are switched locally instead of leaving to their data
//! network.
//!
//! A packet is switched after the sender's rules were applied: gates, rates, quotas, usage, and the
//! FAR's marking. Then it is processed in the same step as a frame that arrives from the data
//! network, on the interface that it would have left through, by the rules of the destination's
//! session. It was counted when it arrived, and has its one outcome there. Packets without a tunnel
//! are never switched, so no packet is switched twice.

use std::collections::VecDeque;

use adit_pktio::{Burst, PacketBuf};
use adit_rules::{DropReason, SourceInterface};
use adit_types::{Direction, PortId};

use crate::columns::{Matched, OuterHeader, PacketArrival};
use crate::context::StepContext;
use crate::egress::Egress;
use crate::tally::StepTally;

/// Packets that are switched, in order.
pub(crate) struct SwitchedQueue<B> {
    frames: VecDeque<(PortId, B)>,
    room: usize,
}

impl<B: PacketBuf> SwitchedQueue<B> {
    /// Room for `room` packets. Reserves all memory that will be used.
    pub(crate) fn new(room: usize) -> Self {
        Self { frames: VecDeque::with_capacity(room), room }
    }

    /// Packets that wait for the end of the burst.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Appends a frame that arrives on `port`.
    pub(crate) fn push(&mut self, port: PortId, buf: B, tally: &mut StepTally) {
        if self.frames.len() >= self.room {
            // There is room for a burst and for all packets that may be released.
            tally.drop_waiting(DropReason::TxQueueFull, buf.data());
            return;
        }
        tally.switch_locally();
        self.frames.push_back((port, buf));
    }

    /// Moves the first frames, up to a burst of one port, to `burst`; returns their port.
    pub(crate) fn take(&mut self, burst: &mut Burst<B>) -> Option<PortId> {
        let port = self.frames.front()?.0;
        while burst.remaining_capacity() > 0
            && let Some((_, buf)) = self.frames.pop_front_if(|(other, _)| *other == port)
        {
            burst.push(buf);
        }
        Some(port)
    }
}

/// Where a packet to `dst` is switched; `None` if it is not. The next hop of the egress is Adit
/// itself.
///
/// Only packets that UEs send in tunnels are switched: not those of the CP function, and not those
/// that a forwarding policy sends to another next hop.
#[inline]
pub(crate) fn local_egress<'v>(
    ctx: &StepContext<'v>,
    arrival: &PacketArrival,
    matched: &Matched<'_>,
    dst: core::net::IpAddr,
) -> Option<Egress<'v>> {
    let far = matched.far;
    let is_candidate = !far.local_switching.is_empty()
        && arrival.outer != OuterHeader::None
        && matched.direction == Direction::Uplink
        && matched.pdr.source != SourceInterface::CpFunction
        && far.steering.as_ref().is_none_or(|steering| steering.towards(dst) == dst);
    if !is_candidate {
        return None;
    }
    let id = ctx.view.local_switching_interface(far.interfaces, dst)?;
    let interface = ctx.interfaces.get(id).filter(|_| far.local_switching.contains(id))?;
    Some(Egress::loopback(interface, dst))
}
