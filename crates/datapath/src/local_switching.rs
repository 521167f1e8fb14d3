//! Packets from one UE to another that are switched locally instead of leaving to their data
//! network.
//!
//! A packet is switched after the sender's rules were applied: gates, rates, quotas, usage, and the
//! FAR's marking. Then it is processed in the same step by the rules of the destination's session,
//! as a frame that arrives from the data network on the interface that it would have left through.
//! It is not counted as received again, and has its one outcome at the destination's session.
//! Packets without a tunnel are never switched, so no packet is switched twice.

use std::collections::VecDeque;

use adit_pktio::{Burst, PacketBuf};
use adit_rules::{DropReason, SourceInterface};
use adit_types::{Direction, PortId};

use crate::columns::{Matched, OuterHeader, PacketArrival};
use crate::context::StepContext;
use crate::egress::Egress;
use crate::tally::StepTally;

/// Packets that are being switched, in order.
pub(crate) struct SwitchedQueue<B> {
    frames: VecDeque<(PortId, B)>,
    room: usize,
}

impl<B: PacketBuf> SwitchedQueue<B> {
    /// Allocates all memory, for `room` packets.
    pub(crate) fn new(room: usize) -> Self {
        Self { frames: VecDeque::with_capacity(room), room }
    }

    /// Returns how many packets wait for the end of the burst.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Appends a frame, which is processed as if it arrived on `port`.
    pub(crate) fn push(&mut self, port: PortId, buf: B, tally: &mut StepTally) {
        if self.frames.len() >= self.room {
            // There is room for a burst and for all packets that may be released in a step.
            tally.drop_waiting(DropReason::TxQueueFull, buf.data());
            return;
        }
        tally.count_local_switch();
        self.frames.push_back((port, buf));
    }

    /// Moves the first frames, up to a burst with one port, to `burst`; returns their port.
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

/// Returns the egress of a packet to `dst` that is switched locally; its next hop is Adit itself.
/// `None` if the packet is not switched.
///
/// Only packets that UEs send in tunnels are switched; packets of the CP function are not, nor are
/// packets that a forwarding policy sends to another next hop.
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
