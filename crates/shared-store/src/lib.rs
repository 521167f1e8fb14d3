//! Records in a shared store: any server of the Redis protocol, single, replicated or a Cluster.
//!
//! One process at a time holds the *lease* of the records of a name. A process that takes it gets
//! an *epoch*, the fencing token: the server compares it with each write and refuses those of
//! previous holders with [`StoreError::Fenced`](adit_store::StoreError). [`SharedStore`] is the
//! holder's [`RecordStore`](adit_store::RecordStore), and a standby's view: [`SharedStore::follow`]
//! yields all records, and then all changes in their order.
//!
//! A change group is durable once the primary has it, and as many replicas as configured. After a
//! loss of the connection the client finds the primary again and sends the groups that the server
//! does not have. The keys, the scripts and the guarantees stand in
//! `docs/internals/shared-store.md`.
//!
//! [`replication`] sends groups of records to a standby as well.
//!
//! [`RecordStore::poll`](adit_store::RecordStore::poll) never blocks. All other calls wait for a
//! primary, for about [`SharedStoreOptions::patience`] at most, and for its replies; they belong on
//! a thread of their own.
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
