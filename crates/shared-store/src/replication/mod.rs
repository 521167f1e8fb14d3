//! Replication between an adit and its standby: change groups of records go to the standby as well
//! as to the shared store.
//!
//! The active adit is a client of its standby ([`ReplicationClient`], RESP over any
//! [`adit_transport::Transport`]), which sends the groups of the store's queue
//! ([`adit_store::GroupQueue`]). The standby ([`ReplicationServer`]) keeps the *tail*: the groups
//! that it has not found in the shared store yet, without a gap ([`ReplicationTail`]).
//! [`ReplicatedStore`] joins the client and the shared store into one [`adit_store::RecordStore`],
//! and decides whose word makes a group durable.
//!
//! Each adit has an *epoch*, a number that the shared store gives to each new holder of the
//! records. The standby accepts commands of the newest epoch that the shared store has shown it,
//! and of no other: an adit whose records were taken over cannot acknowledge anything by it, and no
//! sender can end an epoch. Only the shared store ends an adit.
//!
//! An adit that acknowledges by its standby alone has the shared store name that standby first
//! ([`adit_store::RecordStore::set_standby`]). As long as it does, nobody else takes the records
//! over. The protocol and the reasons stand in `docs/internals/store-transport.md`.
//!
//! The room reads no clock and starts no thread.

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
pub use tail::{Executed, ReplicationTail};
