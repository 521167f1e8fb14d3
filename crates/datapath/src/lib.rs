//! The packet path: bursts from `pktio` ports through numbered stages and out again.
//!
//! A [`Worker`] owns the state of one core; an execution model (`model`) processes bursts with it:
//! receive → fast path or parse → look up → classify → enforce → account → apply → transmit, then
//! the slow path. Stages are functions over the columns of a burst, without state. Rules come from
//! `tables`, header layouts from `wire`; this crate uses no device, clock, thread or log directly.
//!
//! Several workers share the sessions. A packet that a worker other than its session's owner
//! received is handed off before any data of the session is read.
//!
//! Imports inside the crate go upward: a line imports only from the lines above it.
//!
//! ```text
//! context, columns, interfaces, egress, late_packets, tally, path_record, tap, books, origin, reason
//! departures                  the way out of the stages, given by the model
//! shaper                      queues of packets that wait for their rates, timing wheel
//! queues: tx_queues, tx_backlog, neighbor_queue, buffering, shaping, owner_map, sweeps, handoff, held_end_markers, fragments …
//! limits, kernel_twin, worker_queues, transmitter   what sends a frame and counts it
//! worker_state, selection, packet_fate
//! originate, command          frames of our own, commands of the control thread
//! stage, resume               the stages; buffered packets that go on
//! slow                        packets that need an answer
//! fast_path                   all stages in one for the usual packet
//! model, worker               one step; construction and ownership
//! ```
//!
//! Invariant: every packet received, taken over or added by fragmentation has exactly one outcome,
//! and received + taken over + fragments added = transmitted + Σ drops + Σ punts + buffered +
//! handed off after every step.
//!
//! Spec: TS 29.244 §5.2.1; TS 29.281; TS 38.415; RFC 791, 792, 826, 1812, 4443, 4861, 8200.
#![forbid(unsafe_code)]

// For unit tests that use the fixture of the integration tests, which names the crate.
#[cfg(test)]
extern crate self as adit_datapath;

mod aggregates;
mod books;
mod buffering;
mod carried;
mod columns;
mod command;
mod context;
mod departures;
mod egress;
mod event_queues;
mod fast_path;
mod first_fragments;
mod flows;
mod fragments;
mod handoff;
mod held_end_markers;
mod interfaces;
mod kept_hops;
mod kernel_twin;
mod late_packets;
mod limits;
mod local_switching;
mod model;
mod neighbor_queue;
mod origin;
mod originate;
mod owned_packet;
mod owner_map;
mod packet_fate;
mod path_record;
mod reason;
mod reassembly;
mod resume;
mod selection;
pub mod shaper;
mod shaping;
mod slow;
mod slow_queue;
mod stage;
mod sweeps;
mod tally;
mod tap;
mod transmitter;
mod tx_backlog;
mod tx_queues;
mod worker_queues;
mod worker_state;

pub use event_queues::{EventQueues, PacketQueue, QueuesError, STAGES};
pub use flows::SharedFlows;
pub use handoff::{Handoff, RingPair, WorkerSet, connect};
pub use kernel_twin::{
    FromKernel, KERNEL_FRAME_BYTES_MAX, KernelClass, KernelClassCounts, KernelCounts,
    KernelInterfaceCounts, KernelLinks, KernelProtocol, KernelTwin, KernelTwins, ToKernel,
    connect_kernel,
};
pub use model::PathThread;
pub use model::eventdev::EventWorker;
pub use model::pipeline::{Receiver, ReceiverConfig, Spread};
pub use model::run_to_completion::StepReport;
pub use model::rx_tx::{RxTx, RxTxConfig};
pub use model::worker::{Worker, WorkerConfig};
pub use owner_map::{GroupOwners, OwnerChanges, WaitingCapacity, first_owners};
pub use tap::TapPort;
