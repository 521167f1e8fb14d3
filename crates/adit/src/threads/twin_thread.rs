//! The thread of the kernel twins: moves frames between their devices and the workers' rings.
//!
//! Workers make no system call for a twin, so none of them wakes this thread: it looks at their
//! rings each time it wakes, and sleeps for a short time while frames pass and a little longer
//! without. Frames of the kernel wake it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adit_datapath::{FromKernel, KERNEL_FRAME_BYTES_MAX, KernelClass, ToKernel};
use adit_kernel::TapDevice;
use adit_kernel::idle::Doorbell;
use adit_types::InterfaceId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::warn;

use crate::ports::kernel_twins::{OpenTwin, TwinState};

/// Frames of one class and worker, or of one device, before others get their turn.
const FRAMES_PER_TURN: usize = 64;

/// Sleep between two looks at the rings: while frames pass, and otherwise. The longer one bounds
/// the delay of the first frame to the kernel.
const SLEEP_BUSY_NS: i64 = 100_000;
const SLEEP_QUIET_NS: i64 = 1_000_000;

/// Looks without a frame after which it is quiet.
const BUSY_LOOKS: u32 = 50;

/// A device that the thread serves.
struct ServedTwin {
    interface: InterfaceId,
    device: TapDevice,
    state: Arc<TwinState>,
    had_carrier: bool,
}

/// The thread's state.
pub(crate) struct TwinThread {
    twins: Vec<ServedTwin>,
    to_kernel: Vec<ToKernel>,
    from_kernel: FromKernel,
    /// The doorbell of the worker that sends the kernel's frames.
    bell: Doorbell,
    frame: Box<[u8]>,
}

impl TwinThread {
    /// A thread that serves `twins`.
    pub(crate) fn new(
        twins: Vec<OpenTwin>,
        to_kernel: Vec<ToKernel>,
        from_kernel: FromKernel,
        bell: Doorbell,
    ) -> Self {
        let served = |OpenTwin { interface, device, state, .. }| ServedTwin {
            interface,
            device,
            state,
            had_carrier: false,
        };
        let twins = twins.into_iter().map(served).collect();
        let frame = vec![0; KERNEL_FRAME_BYTES_MAX].into_boxed_slice();
        Self { twins, to_kernel, from_kernel, bell, frame }
    }

    /// Serves the twins until `stop`. Their devices end with it.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let mut looks = BUSY_LOOKS;
        while !stop.load(Ordering::Relaxed) {
            self.follow_carriers();
            let moved = self.give_to_kernel() + self.take_from_kernel();
            looks = if moved > 0 { 0 } else { looks.saturating_add(1) };
            match looks {
                0 => {}
                1..BUSY_LOOKS => self.sleep(SLEEP_BUSY_NS),
                _ => self.sleep(SLEEP_QUIET_NS),
            }
        }
    }

    fn follow_carriers(&mut self) {
        for ServedTwin { device, state, had_carrier, .. } in &mut self.twins {
            let has_carrier = state.has_carrier.load(Ordering::Relaxed);
            if has_carrier == *had_carrier {
                continue;
            }
            *had_carrier = has_carrier;
            if let Err(error) = device.set_carrier(has_carrier) {
                warn!(device = device.name(), %error, "the kernel twin keeps its carrier");
            }
        }
    }

    /// Writes frames of the workers to the devices, the first classes first. Returns how many.
    fn give_to_kernel(&mut self) -> usize {
        let Self { twins, to_kernel, frame, .. } = self;
        let mut moved = 0;
        for class in KernelClass::ALL {
            for ring in &mut *to_kernel {
                for _ in 0..FRAMES_PER_TURN {
                    let Some((interface, len)) = ring.next(class, frame) else { break };
                    moved += 1;
                    let twin = twins.iter().find(|twin| twin.interface == interface);
                    let Some((twin, frame)) = twin.zip(frame.get(..len)) else { continue };
                    if twin.device.send(frame).is_err() {
                        twin.state.refused_pkts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        moved
    }

    /// Gives frames of the devices to the worker that sends them while its ring has room; the
    /// others wait in the kernel, where its queueing applies. Returns how many.
    fn take_from_kernel(&mut self) -> usize {
        let Self { twins, from_kernel, frame, bell, .. } = self;
        let mut moved = 0;
        for twin in twins {
            for _ in 0..FRAMES_PER_TURN {
                if !from_kernel.has_room() {
                    break;
                }
                let Ok(len) = twin.device.receive(frame) else { break };
                let Some(frame) = frame.get(..len) else { break };
                from_kernel.push(twin.interface, frame);
                moved += 1;
            }
        }
        if moved > 0 {
            bell.ring();
        }
        moved
    }

    /// Sleeps until a device has a frame, at most for `limit_ns`.
    fn sleep(&self, limit_ns: i64) {
        let limit = Timespec { tv_sec: 0, tv_nsec: limit_ns };
        // A device with frames that have no room would wake it at once.
        let has_room = self.from_kernel.has_room();
        let devices = self.twins.iter().filter(|_| has_room);
        let mut devices: Vec<PollFd<'_>> = devices
            .map(|twin| PollFd::from_borrowed_fd(twin.device.as_fd(), PollFlags::IN))
            .collect();
        // Interrupted by a signal: it looks again.
        let _ = poll(&mut devices, Some(&limit));
    }
}
