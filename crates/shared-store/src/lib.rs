//! Records in a shared store: any server of the Redis protocol, single, replicated or a Cluster.
//!
//! One process at a time holds the *lease* of the records of a name. A process that takes the lease
//! gets an *epoch*, its fencing token: the server compares it with each write and refuses writes of
//! previous holders with [`StoreError::Fenced`](adit_store::StoreError). [`SharedStore`] is the
//! [`RecordStore`](adit_store::RecordStore) of the holder. A standby reads it with
//! [`SharedStore::follow`], which returns all records, and then all changes in order.
//!
//! A group of changes is durable once the primary has it, and as many replicas as configured. When
//! the connection is lost, the client searches for the primary again and sends the groups that the
//! server does not have. The keys, the scripts and the guarantees are described in
//! `docs/internals/shared-store.md`.
//!
//! [`replication`] sends groups of changes to a standby as well.
//!
//! [`RecordStore::poll`](adit_store::RecordStore::poll) never blocks. All other calls wait for a
//! primary, for about [`SharedStoreOptions::patience`] at most, and for its replies; so they belong
//! on a thread of their own.
#![forbid(unsafe_code)]

mod checksum;
mod connection;
mod figures;
mod follow;
mod greeting;
pub mod journal_folder;
mod keys;
mod lease;
mod lease_clock;
mod link;
mod options;
mod pipeline;
mod printable;
mod refill;
mod refill_progress;
pub mod replicated;
pub mod replication;
mod scan;
mod scan_findings;
mod scripts;
mod server_info;
mod shared_store;
mod standby_name;
pub mod store_thread;
mod tail;
pub mod tail_thread;

pub use figures::SharedStoreFigures;
pub use follow::{FollowProgress, FollowedChange, KnownGroups};
pub use keys::FORMAT_VERSION;
pub use lease::{LeaseAnswer, LeaseView};
pub use options::{SharedStoreOptions, StoreLogin};
pub use shared_store::SharedStore;
