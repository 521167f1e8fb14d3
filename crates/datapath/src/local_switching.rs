//! Packets from one UE to another that turn round inside instead of leaving to their data network.
//!
//! A packet turns when everything that the sender's rules demand is done: gates, rates, quotas, usage,
//! and the FAR's marking. It is then a frame that arrives from the data network, on the interface
//! that it would have left through, and takes the whole way there by the rules of the session of its
//! destination, in the same step. It was counted when it arrived, and has its one outcome there. What
//! came from no tunnel never turns, so that no packet turns twice.

use std::collections::VecDeque;

use adit_pktio::{Burst, PacketBuf};
use adit_rules::{DropReason, SourceInterface};
use adit_types::{Direction, PortId};

use crate::columns::{Matched, OuterHeader, PacketArrival};
use crate::context::StepContext;
use crate::egress::Egress;
use crate::tally::StepTally;

/// Packets that turned, in their order.
pub(crate) struct SwitchedQueue<B> {
    frames: VecDeque<(PortId, B)>,
    room: usize,
}

impl<B: PacketBuf> SwitchedQueue<B> {
    /// Room for `room` packets. Reserves all memory that will be used.
    pub fn new(room: usize) -> Self {
        Self { frames: VecDeque::with_capacity(room), room }
    }

    /// Packets that wait for the end of their burst.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Takes in a frame as one that arrives on `port`.
    pub fn push(&mut self, port: PortId, buf: B, tally: &mut StepTally) {
        if self.frames.len() >= self.room {
            // There is room for a burst and for everything that may be released.
            tally.drop(DropReason::TxQueueFull);
            return;
        }
        tally.switch_locally();
        self.frames.push_back((port, buf));
    }

    /// Moves the first frames, up to a burst of one port, to `burst`; returns their port.
    pub fn take(&mut self, burst: &mut Burst<B>) -> Option<PortId> {
        let port = self.frames.front()?.0;
        while burst.remaining_capacity() > 0
            && let Some((_, buf)) = self.frames.pop_front_if(|(other, _)| *other == port)
        {
            burst.push(buf);
        }
        Some(port)
    }
}

/// Where a packet turns round on its way to `dst`; `None` if it does not. The station of the way are
/// we ourselves.
///
/// Only UEs' packets from tunnels turn: not what the CP function sends, and not what a forwarding
/// policy sends to a station of its own.
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
