//! The reasons why the store cannot do something, in the operator's words.

use core::fmt;
use std::io;

/// The reason why a store refused to append a group of changes. The refusal has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// A record's identifier is empty or longer than 255 octets, or its value is longer than
    /// [`STORE_VALUE_BYTES_MAX`](adit_types::limits::STORE_VALUE_BYTES_MAX).
    #[error("the record is too large for the store")]
    Record,
    /// The group exceeds the maximum of octets, or of changes.
    #[error("the group is too large for the store")]
    Group,
    /// Groups that are not durable yet take up all the memory that they may take.
    #[error("too much waits to become durable")]
    Backlog,
    /// The file system has no room for another segment, and the remaining space is reserved for
    /// compaction, which makes room.
    #[error("the file system of the journal is full")]
    NoSpace,
}

/// Damage of the journal: acknowledged records were lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The damaged or missing file.
    pub file: String,
    /// The fault, such as "is missing"; completes a sentence that begins with the file's name.
    pub what: String,
    /// Groups with greater numbers than this one may be lost …
    pub after: u64,
    /// … up to those before this group, the first whole one behind the damage; `None` if there is
    /// none.
    pub before: Option<u64>,
}

impl Damage {
    /// Describes the fault of a file whose sectors from `first` on, and before `end`, cannot be
    /// read.
    pub(crate) fn describe_sectors(first: u32, end: u32) -> String {
        format!("is damaged from sector {first} to {}", end.saturating_sub(1))
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.file, self.what)?;
        match self.before {
            Some(before) if before <= self.after + 1 => {
                write!(f, "; copies of records from before change {before} may be lost")
            }
            Some(before) => write!(f, "; changes {} to {} may be lost", self.after + 1, before - 1),
            None => write!(f, "; changes from {} on may be lost", self.after + 1),
        }
    }
}

/// The reason why a call of a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the lock of the folder.
    #[error("another process uses the folder of the journal")]
    InUse,
    /// The records were written by a newer program.
    #[error(
        "{file} has format version {version}, this program reads versions up to {newest}: start the newer program or use another \
         place"
    )]
    Newer {
        /// The file of the journal, or the records of a shared store.
        file: String,
        /// The version of its format.
        version: u32,
        /// The newest version that this program reads.
        newest: u32,
    },
    /// A file is named like a segment but does not belong to this journal.
    #[error("{file} does not belong to this journal: remove it")]
    Foreign {
        /// The file.
        file: String,
    },
    /// Acknowledged records were lost.
    #[error("the journal is damaged: {}", join_damage_texts(.0))]
    Damaged(Vec<Damage>),
    /// The configured size of segments is too small to hold a group, or too large.
    #[error("segments of the journal are too small or too large")]
    SegmentSize,
    /// A group cannot be appended.
    #[error("{0}")]
    Full(AppendError),
    /// The number of a group is not the one that follows the last group.
    #[error("group {0} is not the next one: the store must not go on")]
    Order(u64),
    /// A shared store cannot be used now. The text gives the reason for each server that was tried.
    #[error("the shared store cannot be used: {0}")]
    Unavailable(String),
    /// This process does not hold the lease of the records: none of its further changes becomes
    /// durable.
    #[error(
        "the lease of the records belongs to {holder}: this process lost it and must not go on"
    )]
    Fenced {
        /// The process that holds the lease, or held it last.
        holder: String,
    },
    /// The store lost records, and the adit process that was writing them again ended before it had
    /// written all.
    #[error(
        "the shared store lacks records: its servers lost them, and the adit that wrote them again ended before it was done"
    )]
    Incomplete,
    /// Records of a shared store are missing, or differ from those that were written. One sentence
    /// for each finding.
    #[error("the shared store is damaged: {}", .0.join("; "))]
    DamagedRecords(Vec<String>),
    /// The store lacks changes that a standby had acknowledged, and the standby does not deliver
    /// them. The text gives the reason.
    #[error("the shared store may lack acknowledged changes that only a standby had: {0}")]
    TailLost(String),
    /// The folder was removed or replaced, or the file was to which commits are written.
    #[error(
        "the folder of the journal was removed or replaced while adit uses it. In 2 seconds adit makes it again and writes \
         everything into it, unless other files have its place: remove them, or put the folder back. Until then nothing is kept"
    )]
    Removed,
    /// A file operation in the folder failed.
    #[error("cannot {action} {}: {error}", if file.is_empty() { "the folder of the journal" } else { file.as_str() })]
    Io {
        /// The failed operation, as a verb.
        action: &'static str,
        /// The name of the file; empty if the operation concerned the folder itself.
        file: String,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { action, file: file.to_owned(), error }
    }

    /// True if the file system has no room.
    pub(crate) fn is_no_space(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { error, .. } if full.contains(&error.kind()))
    }
}

fn join_damage_texts(found: &[Damage]) -> String {
    found.iter().map(Damage::to_string).collect::<Vec<_>>().join("; ")
}
