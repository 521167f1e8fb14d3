//! Guaranteed frames that wait for room in the transmit queues of their ports.
//!
//! A frame within a guaranteed bit rate that its port does not accept waits here, and is sent at
//! the beginning of the next step. While frames wait for a port, the port gets no others: further
//! guaranteed frames join the queue and all others are dropped, so no frame overtakes another. If
//! the port is the bottleneck, guaranteed packets get their rate and the others share the rest.

use std::collections::VecDeque;

use adit_pktio::{Burst, PacketBuf};
use adit_rules::DropReason;
use adit_types::limits::{BURST_MAX, TX_WAITING_PKTS_MAX};
use adit_types::{Direction, InterfaceId, Nanos, PortId};

use crate::columns::BurstColumn;
use crate::departures::Departures;
use crate::interfaces::TxTarget;
use crate::origin::Origin;
use crate::tally::StepTally;

/// A port that accepts no frame for this long is down: the frames that wait for it are dropped. The
/// time is far longer than a port is busy with one frame, and within the packet delay budgets of
/// most GBR flows. Spec: TS 23.501 table 5.7.4-1.
const REFUSING_TIME_MAX: Nanos = Nanos::from_millis(100);

struct BacklogFrame<B> {
    buf: B,
    interface: InterfaceId,
    direction: Direction,
}

struct PortBacklog<B> {
    /// First in, first out.
    frames: VecDeque<BacklogFrame<B>>,
    /// Since when the port has refused all frames; `None` if it accepted one since.
    refusing_since: Option<Nanos>,
}

/// The guaranteed frames of one worker that wait for room in transmit queues, by port.
pub(crate) struct TxBacklog<B> {
    ports: Vec<PortBacklog<B>>,
    /// How many frames wait, for all ports together.
    len: usize,
}

impl<B: PacketBuf> TxBacklog<B> {
    /// Allocates all memory that will be used, for `count` ports.
    pub(crate) fn new(count: usize) -> Self {
        let queue = || PortBacklog {
            frames: VecDeque::with_capacity(TX_WAITING_PKTS_MAX),
            refusing_since: None,
        };
        Self { ports: core::iter::repeat_with(queue).take(count).collect(), len: 0 }
    }

    /// Returns how many frames wait.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// True while frames wait for `port`, which then gets no other frames.
    #[inline]
    pub(crate) fn blocks(&self, port: PortId) -> bool {
        self.len != 0
            && self.ports.get(usize::from(port.0)).is_some_and(|queue| !queue.frames.is_empty())
    }

    /// Queues a guaranteed frame that its port did not accept, while there is room; drops others.
    #[cold]
    pub(crate) fn queue_or_drop(
        &mut self,
        TxTarget { port, interface }: TxTarget,
        buf: B,
        origin: Origin,
        tally: &mut StepTally,
    ) {
        let queue = self.ports.get_mut(usize::from(port.0));
        let queue = queue.filter(|queue| queue.frames.len() < TX_WAITING_PKTS_MAX);
        match (origin, queue) {
            (Origin::Guaranteed(direction), Some(queue)) => {
                queue.frames.push_back(BacklogFrame { buf, interface, direction });
                self.len += 1;
                tally.count_wait_for_port();
            }
            _ => origin.count_lost(buf.data(), tally),
        }
    }

    /// Sends as many of the waiting frames as the ports accept. To be called once per step, before
    /// other frames are sent.
    #[cold]
    pub(crate) fn send<Io: Departures<Buf = B>>(
        &mut self,
        io: &mut Io,
        now: Nanos,
        tally: &mut StepTally,
    ) {
        for (port, queue) in (0u16..).zip(&mut self.ports) {
            let before = queue.frames.len();
            queue.send(io, PortId(port), tally);
            let after = queue.frames.len();
            self.len -= before - after;
            if after == 0 || after < before {
                queue.refusing_since = None;
            } else if now.since(*queue.refusing_since.get_or_insert(now)) >= REFUSING_TIME_MAX {
                self.len -= queue.drop_all(tally);
            }
        }
    }

    /// Drops all frames that wait.
    pub(crate) fn drain(&mut self, tally: &mut StepTally) {
        for queue in &mut self.ports {
            self.len -= queue.drop_all(tally);
        }
    }
}

impl<B: PacketBuf> PortBacklog<B> {
    /// Sends frames until the port refuses one; puts the refused ones back in front.
    fn send<Io: Departures<Buf = B>>(&mut self, io: &mut Io, port: PortId, tally: &mut StepTally) {
        while !self.frames.is_empty() {
            let (mut burst, mut notes) = (Burst::new(), BurstColumn::new());
            let count = self.frames.len().min(BURST_MAX);
            for BacklogFrame { buf, interface, direction } in self.frames.drain(..count) {
                notes.push((interface, direction, buf.data().len()));
                burst.push(buf);
            }
            io.tx_burst(port, &mut burst);
            for (interface, direction, bytes) in notes.drain(..count - burst.len()) {
                tally.transmit_many(interface, direction, 1, bytes);
            }
            let is_full = !burst.is_empty();
            for (buf, (interface, direction, _)) in burst.into_iter().zip(notes).rev() {
                self.frames.push_front(BacklogFrame { buf, interface, direction });
            }
            if is_full {
                return;
            }
        }
    }

    /// Drops all frames. Returns how many there were.
    fn drop_all(&mut self, tally: &mut StepTally) -> usize {
        self.refusing_since = None;
        let drop = |frame: BacklogFrame<B>| {
            tally.drop_waiting(DropReason::TxQueueFull, frame.buf.data());
        };
        self.frames.drain(..).map(drop).count()
    }
}
