//! Durable records: the state of a node that outlives its process, and the journal that keeps it.
//!
//! A *record* is a value under a key. A *change* puts or removes one, and the latest change of a
//! key is valid. Changes that are appended together form a *group*: after a crash the store has all
//! them or none. Groups have ascending numbers, and [`RecordStore::durable`] returns the number of
//! the last durable group.
//!
//! [`Journal`] is a log in files of fixed size, the *segments*. It keeps an index of the live
//! records in memory and copies them out of the oldest segment, which bounds its size. The layout
//! of its files, and what each fault does, stand in `docs/internals/store.md`.
//!
//! The room reads no clock and opens no file: the caller decides when to commit, when to try again
//! after a fault, and provides the folder ([`Files`]).
#![forbid(unsafe_code)]

mod error;
mod files;
mod format;
mod groups;
mod index;
mod journal;
mod record;
mod record_store;
mod scan;

pub use error::{AppendError, Damage, StoreError};
pub use files::Files;
pub use format::{BadChange, FORMAT_VERSION, decode_changes, encode_change};
pub use groups::{GroupPosition, GroupQueue, QueuedGroup};
pub use journal::{Journal, JournalFigures, JournalOptions, OpenReport};
pub use record::{
    GroupNumber, Incarnation, OwnedRecordId, RecordChange, RecordGroup, RecordId, RecordKey,
    RecordKind, StoreChange, StoreState, Upkeep,
};
pub use record_store::RecordStore;
