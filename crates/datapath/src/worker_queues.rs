//! Packets and frames that wait in a worker.

use adit_pktio::PacketBuf;
use adit_tables::Leases;

use crate::buffering::Buffering;
use crate::fragments::Fragments;
use crate::held_end_markers::HeldEndMarkers;
use crate::kernel_twin::KernelTwins;
use crate::neighbor_queue::NeighborQueue;
use crate::shaping::Shaping;
use crate::slow_queue::SlowQueue;
use crate::tally::StepTally;
use crate::tx_queues::TxQueues;

/// Capacities for which a worker allocates memory at start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerCapacity {
    /// One more than the highest port.
    pub ports: usize,
    /// Maximum of sessions.
    pub sessions: usize,
    /// Maximum of packets that FARs buffer.
    pub buffered_pkts: usize,
    /// Maximum of packets that wait for their rates.
    pub shaped_pkts: usize,
    /// Maximum of packets that are being switched to other UEs.
    pub switched_pkts: usize,
}

/// Packets and frames that wait in one worker, within a step or across steps.
pub(crate) struct WorkerQueues<B> {
    pub tx: TxQueues<B>,
    /// Frames that wait for a link-layer address.
    pub unresolved: NeighborQueue<B>,
    /// Packets that FARs buffer.
    pub buffering: Buffering<B>,
    /// Packets that wait for their rates.
    pub shaping: Shaping<B>,
    /// Received End Markers that wait for packets on their way from other workers.
    pub held_end_markers: HeldEndMarkers<B>,
    /// Fragments of tunnel packets, and ports of users' packets in fragments.
    pub fragments: Fragments<B>,
    /// Packets for the slow path.
    pub slow: SlowQueue<B>,
    /// Rings to and from kernel twins; `None` without twins.
    pub kernel: Option<Box<KernelTwins>>,
}

impl<B: PacketBuf> WorkerQueues<B> {
    /// Allocates all memory that will be used.
    pub(crate) fn new(capacity: WorkerCapacity, leases: Leases) -> Self {
        Self {
            tx: TxQueues::new(capacity.ports, capacity.switched_pkts),
            unresolved: NeighborQueue::new(),
            buffering: Buffering::new(capacity.buffered_pkts, capacity.sessions),
            shaping: Shaping::new(capacity.shaped_pkts, capacity.sessions, leases),
            held_end_markers: HeldEndMarkers::new(),
            fragments: Fragments::new(),
            slow: SlowQueue::new(),
            kernel: None,
        }
    }

    /// Returns how many frames wait across steps: packets, and End Markers of our own, which the
    /// packet identity leaves out.
    #[inline]
    pub(crate) fn waiting_frame_count(&self) -> usize {
        self.waiting_packet_count() + self.unresolved.end_markers()
    }

    /// Returns how many packets wait across steps. Complete only at the beginning and the end of a
    /// step, when the queues that are not counted here are empty.
    #[inline]
    pub(crate) fn waiting_packet_count(&self) -> usize {
        self.unresolved.len()
            + self.buffering.len()
            + self.shaping.len()
            + self.fragments.reassembly.len()
            + self.tx.switched.len()
            + self.tx.backlog.len()
    }

    /// True if a frame of a kernel twin waits to be sent.
    #[inline]
    pub(crate) fn has_kernel_frames(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.has_frames())
    }

    /// Drops every packet that waits across steps.
    pub(crate) fn drain(&mut self, tally: &mut StepTally) {
        self.held_end_markers.drain(tally);
        self.unresolved.drain(tally);
        self.buffering.drain(tally);
        self.fragments.reassembly.drain(tally);
        self.shaping.drain(tally);
        self.tx.backlog.drain(tally);
    }
}
