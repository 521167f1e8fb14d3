//! Execution models: which thread runs which part of the packet path, and in which order.

pub(crate) mod event_inbox;
pub(crate) mod event_io;
pub(crate) mod event_stages;
pub(crate) mod eventdev;
mod owner_change;
pub(crate) mod pipeline;
mod processing;
pub(crate) mod run_to_completion;
pub(crate) mod rx_tx;
mod stages;
mod sweep;
pub(crate) mod worker;

use adit_pktio::{EventPort, PacketIo};
use adit_types::Nanos;

use self::eventdev::EventWorker;
use self::pipeline::Receiver;
use self::run_to_completion::StepReport;
use self::rx_tx::RxTx;
use self::worker::Worker;

/// One thread of the packet path, of any role.
pub trait PathThread<Io: PacketIo> {
    /// Runs one step at time `now`.
    fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport;

    /// Declares the thread offline until its next step, so that publication does not wait for it.
    fn rest(&mut self);

    /// Ends the thread: drops and counts every packet that waits. To be called after the last step
    /// of all threads.
    fn drain(&mut self, io: &mut Io);

    /// Returns the largest share of a ring of packets to this thread that was in use since the last
    /// call. Unit: thousandths.
    fn take_fullest_ring(&mut self) -> u16;
}

impl<Io: PacketIo> PathThread<Io> for Worker<Io> {
    #[inline]
    fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        Self::step(self, now, io)
    }

    fn rest(&mut self) {
        Self::rest(self);
    }

    fn drain(&mut self, io: &mut Io) {
        Self::drain(self, io);
    }

    fn take_fullest_ring(&mut self) -> u16 {
        Self::take_fullest_ring(self)
    }
}

impl<Io: PacketIo> PathThread<Io> for Receiver<Io> {
    #[inline]
    fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        Self::step(self, now, io)
    }

    fn rest(&mut self) {
        Self::rest(self);
    }

    /// Only declares the thread offline: no packet waits in a receiver.
    fn drain(&mut self, _: &mut Io) {
        Self::rest(self);
    }

    fn take_fullest_ring(&mut self) -> u16 {
        0
    }
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> PathThread<Io> for EventWorker<P, Io> {
    #[inline]
    fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        Self::step(self, now, io)
    }

    fn rest(&mut self) {
        Self::rest(self);
    }

    fn drain(&mut self, io: &mut Io) {
        Self::drain(self, io);
    }

    fn take_fullest_ring(&mut self) -> u16 {
        Self::take_fullest_ring(self)
    }
}

impl<P: EventPort, Io: PacketIo<Buf = P::Buf>> PathThread<Io> for RxTx<P, Io> {
    #[inline]
    fn step(&mut self, now: Nanos, io: &mut Io) -> StepReport {
        Self::step(self, now, io)
    }

    fn rest(&mut self) {
        Self::rest(self);
    }

    fn drain(&mut self, _: &mut Io) {
        Self::drain(self);
    }

    fn take_fullest_ring(&mut self) -> u16 {
        0
    }
}
