//! Replication between an adit and its standby: groups of changes go to the standby as well as to
//! the shared store.
//!
//! The active adit is a client of its standby: [`ReplicationClient`] speaks RESP over any
//! [`adit_transport::Transport`], and sends the groups of the store's queue
//! ([`adit_store::GroupQueue`]). The standby ([`ReplicationServer`]) keeps the *tail*
//! ([`ReplicationTail`]): the consecutive groups that it has not found in the shared store yet.
//! [`ReplicatedStore`] joins the client and the shared store into one [`adit_store::RecordStore`],
//! and decides whose acknowledgment makes a group durable.
//!
//! Each adit has an *epoch*, a number that the shared store assigns to each new holder of the
//! lease. The standby accepts only commands of the newest epoch that the shared store has shown. So
//! an adit whose records were taken over cannot make anything durable through the standby, and no
//! sender can end the epoch of another: only the shared store can.
//!
//! Before the acknowledgment of the standby alone makes groups durable, the shared store has to
//! name this standby ([`adit_store::RecordStore::set_standby`]). While it is named, nobody else
//! takes the records over. The protocol and the reasons are described in
//! `docs/internals/store-transport.md`.
//!
//! This module reads no clock and starts no thread.

mod client;
mod command;
mod connection;
mod error;
mod replicated;
mod server;
mod tail;

pub use client::{ReplicationClient, ReplicationConfig, StandbyProgress};
pub use command::{PROTOCOL_VERSION, ReplicationCommand, ReplicationRefusal};
pub use error::{ReplicationError, TailError};
pub use replicated::{ReplicatedStore, ReplicatedStoreOptions, write_tail};
pub use server::{ReplicationServer, ReplicationServerCounters};
pub use tail::{CommandOutcome, ReplicationTail};
