//! Makes a port of `pktio` a device of smoltcp.

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_types::PortId;
use adit_types::limits::BURST_MAX;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Length of an Ethernet header. Unit: octets.
const ETHERNET_BYTES: usize = 14;

/// The port, with the frames that wait on their way to and from the stack.
pub(super) struct StackDevice<Io: PacketIo> {
    io: Io,
    port: PortId,
    /// Received frames, the latest first.
    rx: Burst<Io::Buf>,
    /// Frames to be sent. Those that the port does not accept stay.
    tx: Burst<Io::Buf>,
    /// The buffer for the next frame to be sent.
    spare: Option<Io::Buf>,
    frame_bytes_max: usize,
}

impl<Io: PacketIo> StackDevice<Io> {
    pub(super) fn new(io: Io, port: PortId) -> Self {
        let frame_bytes_max = usize::from(io.port_info(port).mtu_bytes) + ETHERNET_BYTES;
        let (rx, tx) = (Burst::new(), Burst::new());
        Self { io, port, rx, tx, spare: None, frame_bytes_max }
    }

    /// Receives a burst if no received frame is waiting. True if a frame is waiting then.
    pub(super) fn receive_burst(&mut self) -> bool {
        if self.rx.is_empty() {
            self.io.rx_burst(self.port, BURST_MAX, &mut self.rx);
            self.rx.reverse();
        }
        !self.rx.is_empty()
    }

    /// Sends the frames that the stack has written.
    pub(super) fn flush(&mut self) {
        if !self.tx.is_empty() {
            self.io.tx_burst(self.port, &mut self.tx);
        }
    }

    /// True if frames wait to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.tx.is_empty()
    }

    /// Allocates a buffer for the next frame; false if the pool is empty, or if too many frames
    /// wait.
    fn prepare(&mut self) -> bool {
        if self.tx.is_full() {
            self.flush();
        }
        if self.spare.is_none() {
            self.spare = self.io.alloc();
        }
        self.spare.is_some() && !self.tx.is_full()
    }
}

impl<Io: PacketIo> Device for StackDevice<Io> {
    type RxToken<'a>
        = ReceivedFrame<Io::Buf>
    where
        Self: 'a;
    type TxToken<'a>
        = FreeFrame<'a, Io>
    where
        Self: 'a;

    fn receive(&mut self, _now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        if self.rx.is_empty() || !self.prepare() {
            return None;
        }
        Some((ReceivedFrame(self.rx.pop()?), FreeFrame(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self::TxToken<'_>> {
        self.prepare().then_some(FreeFrame(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.frame_bytes_max;
        capabilities.max_burst_size = Some(BURST_MAX);
        capabilities
    }
}

/// A received frame.
pub(super) struct ReceivedFrame<B>(B);

impl<B: PacketBuf> RxToken for ReceivedFrame<B> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        // A frame in several segments is truncated here, so its checksum fails.
        f(self.0.data())
    }
}

/// The right to write a frame, for which [`StackDevice::prepare`] has a buffer.
pub(super) struct FreeFrame<'a, Io: PacketIo>(&'a mut StackDevice<Io>);

impl<Io: PacketIo> TxToken for FreeFrame<'_, Io> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        if let Some(mut frame) = self.0.spare.take()
            && let Some(octets) = frame.append(len)
        {
            let result = f(octets);
            let _ = self.0.tx.try_push(frame);
            return result;
        }
        // Unreachable in practice: the stack respects the MTU, so a buffer always has room. The
        // frame is lost.
        f(&mut vec![0; len])
    }
}
