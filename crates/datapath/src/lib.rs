//! The packet path: bursts from `pktio` ports through numbered stages and out again.
//!
//! A [`Worker`] owns one turn: receive → parse → look up → classify → enforce → account → apply →
//! transmit, then the slow path. Stages are functions over the columns of a burst; they hold no
//! state. Rules come from `tables`, header layouts from `wire`; no device, clock, thread or log is
//! known here.
//!
//! Several workers share the sessions: packets that a port gave to another worker than their
//! session's owner are handed off before anything of the session is looked at.
//!
//! Invariant: every packet received, taken over or added by fragmentation has exactly one outcome, and
//! received + taken over + fragments added = transmitted + Σ drops + Σ punts + buffered + handed off
//! after every step.
//!
//! Spec: TS 29.244 §5.2.1; TS 29.281; TS 38.415; RFC 791, 792, 826, 1812, 4443, 4861, 8200.
#![forbid(unsafe_code)]

mod aggregates;
mod buffering;
mod columns;
mod command;
mod context;
mod egress;
mod events;
mod fast_path;
mod first_fragments;
mod fragments;
mod handoff;
mod interfaces;
mod local_switching;
mod model;
mod neighbor_queue;
mod origin;
mod originate;
mod owned_packet;
mod reason;
mod reassembly;
mod resume;
mod shaping;
mod slow;
mod slow_queue;
mod stage;
mod tally;
mod tx_backlog;
mod tx_queues;
mod worker;
mod worker_state;

pub use handoff::{Handoff, WorkerSet, connect};
pub use model::run_to_completion::StepReport;
pub use worker::{Worker, WorkerConfig};
