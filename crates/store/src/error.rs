//! Why the store cannot do something, in the operator's words.

use core::fmt;
use std::io;

/// Why a group is not appended. It has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// An identifier of no octets or more than 255, or a value of more octets than
    /// [`STORE_VALUE_BYTES_MAX`](adit_types::limits::STORE_VALUE_BYTES_MAX).
    Record,
    /// No changes, or more octets than a group may have.
    Group,
    /// Groups that are not durable take up all the memory that they may.
    Backlog,
    /// The file system has no room for another segment, and what is left is needed for compaction, which makes room.
    NoSpace,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "the record is too large for the store",
            Self::Group => "the group is empty or too large for the store",
            Self::Backlog => "too much waits to become durable",
            Self::NoSpace => "the file system of the journal is full",
        })
    }
}

impl core::error::Error for AppendError {}

/// What is wrong with a file of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// The file has fewer octets than it must.
    Truncated {
        /// Octets that it has.
        octets: u64,
    },
    /// Both copies of the header are damaged.
    Header,
    /// The segment is missing.
    Missing,
    /// Sectors of 512 octets are damaged.
    Sectors {
        /// The first one that cannot be read.
        first: u32,
        /// The first one behind it that can, or the number of sectors of the segment.
        end: u32,
    },
    /// Acknowledged commits that should be at the end of the segment are not there.
    Commits {
        /// The last one that is there, or 0.
        last: u64,
        /// The last one that should be.
        expected: u64,
    },
}

/// Damage of the journal: acknowledged records were lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub kind: DamageKind,
    /// Groups with greater numbers than this one may be lost …
    pub after: u64,
    /// … up to those before this one; none if nothing behind the damage has a number.
    pub before: Option<u64>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match self.kind {
            DamageKind::Truncated { octets } => {
                write!(f, "{file} is cut off after {octets} octets")?
            }
            DamageKind::Header => write!(f, "{file} has a damaged header")?,
            DamageKind::Missing => write!(f, "{file} is missing")?,
            DamageKind::Sectors { first, end } => {
                write!(f, "{file} is damaged from sector {first} to {}", end.saturating_sub(1))?;
            }
            DamageKind::Commits { last, expected } => {
                write!(f, "{file} ends with commit {last} instead of {expected}")?;
            }
        }
        match self.before {
            Some(before) if before <= self.after + 1 => {
                write!(f, "; copies of records from before change {before} may be lost")
            }
            Some(before) => write!(f, "; changes {} to {} may be lost", self.after + 1, before - 1),
            None => write!(f, "; changes from {} on may be lost", self.after + 1),
        }
    }
}

/// Why the store failed.
#[derive(Debug)]
pub enum StoreError {
    /// Another process has the folder.
    InUse,
    /// The records were written by a newer program.
    Newer {
        /// The file of the journal, or the records of a shared store.
        file: String,
        /// The version of its format.
        version: u32,
        /// The newest version that this program reads.
        newest: u32,
    },
    /// A file has the name of a segment but does not belong to this journal.
    Foreign {
        /// The file.
        file: String,
    },
    /// Acknowledged records were lost.
    Damaged(Vec<Damage>),
    /// Segments of this size hold no group.
    SegmentSize,
    /// A group cannot be appended.
    Full(AppendError),
    /// A shared store cannot be used now. The text says why, for each server that was tried.
    Unavailable(String),
    /// This process does not hold the lease of the records. Nothing that it changes becomes durable any more.
    Fenced {
        /// Who holds it, or held it last.
        holder: String,
    },
    /// The store lost records, and the adit that wrote them again ended before it was done.
    Incomplete,
    /// Records of a shared store are missing, or are not what was written. A sentence each.
    DamagedRecords(Vec<String>),
    /// The store lacks changes that a standby had acknowledged, and the standby's are not to be had. The text says why.
    TailLost(String),
    /// The folder, or the file that takes commits, was removed or replaced.
    Removed,
    /// The folder refused something.
    Io {
        /// What, as a verb.
        action: &'static str,
        /// The file, or the folder if empty.
        file: String,
        /// Why.
        error: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { action, file: file.to_owned(), error }
    }

    /// True if the file system has no room.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { error, .. } if full.contains(&error.kind()))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("another process uses the folder of the journal"),
            Self::Newer { file, version, newest } => write!(
                f,
                "{file} has format version {version}, this program reads versions up to {newest}: start the newer \
                 program or use another place"
            ),
            Self::Foreign { file } => {
                write!(f, "{file} does not belong to this journal: remove it")
            }
            Self::Damaged(found) => {
                f.write_str("the journal is damaged: ")?;
                for (index, damage) in found.iter().enumerate() {
                    write!(f, "{}{damage}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::SegmentSize => f.write_str("segments of the journal are too small or too large"),
            Self::Full(error) => error.fmt(f),
            Self::Unavailable(why) => write!(f, "the shared store cannot be used: {why}"),
            Self::Fenced { holder } => write!(
                f,
                "the lease of the records belongs to {holder}: this process lost it and must not go on"
            ),
            Self::Incomplete => f.write_str(
                "the shared store lacks records: its servers lost them, and the adit that wrote them again ended before it was done",
            ),
            Self::DamagedRecords(found) => {
                write!(f, "the shared store is damaged: {}", found.join("; "))
            }
            Self::TailLost(why) => write!(
                f,
                "the shared store may lack acknowledged changes that only a standby had: {why}"
            ),
            Self::Removed => f.write_str(
                "the folder of the journal was removed or replaced while adit uses it. In 2 seconds adit makes it again and writes \
                 everything into it, unless other files have its place: remove them, or put the folder back. Until then nothing \
                 is kept",
            ),
            Self::Io { action, file, error } if file.is_empty() => {
                write!(f, "cannot {action} the folder of the journal: {error}")
            }
            Self::Io { action, file, error } => write!(f, "cannot {action} {file}: {error}"),
        }
    }
}

impl core::error::Error for StoreError {}
