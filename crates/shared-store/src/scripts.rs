//! The scripts that servers run, and the parsing of replies.

use adit_store::{GroupPosition, Incarnation};
use adit_transport::resp::RespValue;

use crate::connection::PipelineTag;
use crate::keys::{KEY_COUNT, StoreKeys};
use crate::lease_clock::LeaseReading;
use crate::printable::printable;

/// A script that a greeting loads; a command names it by its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    Acquire,
    Write,
    Release,
    Refill,
    Scan,
    Missing,
    AddChecksums,
    Name,
}

/// The texts of the scripts, in the order of [`Script`].
pub(crate) const SCRIPT_TEXTS: [&[u8]; 8] = [
    include_bytes!("scripts/acquire.lua"),
    include_bytes!("scripts/write.lua"),
    include_bytes!("scripts/release.lua"),
    include_bytes!("scripts/refill.lua"),
    include_bytes!("scripts/scan.lua"),
    include_bytes!("scripts/missing.lua"),
    include_bytes!("scripts/add_checksums.lua"),
    include_bytes!("scripts/name.lua"),
];

/// The digests by which a server identifies the scripts; indexed by [`Script`].
#[derive(Debug, Default)]
pub(crate) struct ScriptDigests([Vec<u8>; SCRIPT_TEXTS.len()]);

impl ScriptDigests {
    pub(crate) fn set(&mut self, index: usize, digest: &[u8]) {
        if let Some(known) = self.0.get_mut(index) {
            *known = digest.to_vec();
        }
    }

    /// Returns the start of a command that runs a script: `EVALSHA`, the digest and all keys.
    pub(crate) fn command<'a>(&'a self, script: Script, keys: &'a StoreKeys) -> Vec<&'a [u8]> {
        let digest = self.0.get(script as usize).map_or(&[][..], Vec::as_slice);
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", digest, KEY_COUNT];
        words.extend(keys.all());
        words
    }
}

/// An answer of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptAnswer {
    /// The caller has taken the lease.
    Taken {
        epoch: u64,
        last: GroupPosition,
        /// The previous epoch, and its holder.
        before: (u64, String),
        /// True if all records of the server have checksums.
        are_checked: bool,
        /// The standby that the server names, if any.
        standby: Option<Incarnation>,
    },
    /// The lease is free, but the caller may not take it: the server names this standby, which may
    /// have groups that the server lacks.
    Named(Incarnation),
    /// Another holder has the lease.
    Held(LeaseReading),
    /// The records have a newer format.
    Newer {
        format: u32,
    },
    /// The server has the groups up to `last`, and the lease is prolonged.
    Written {
        last: GroupPosition,
        handover: bool,
        /// True if records are missing or damaged.
        is_damaged: bool,
    },
    /// The group does not follow the last one that the server has.
    Gap {
        last: GroupPosition,
    },
    /// The caller's epoch is not the newest one.
    Fenced {
        holder: String,
    },
    Released,
}

impl ScriptAnswer {
    pub(crate) fn read(value: RespValue<'_>) -> Option<Self> {
        let RespValue::Array(words) = value else { return None };
        let words: Vec<&[u8]> = words.filter_map(octets).collect();
        Some(match *words.as_slice() {
            [b"TAKEN", epoch, last, epoch_before, holder_before, checked, standby] => Self::Taken {
                epoch: number(epoch)?,
                last: GroupPosition::parse(last)?,
                before: (number(epoch_before)?, String::from_utf8(holder_before.to_vec()).ok()?),
                are_checked: checked == b"1",
                standby: incarnation(standby),
            },
            [b"NAMED", standby] => Self::Named(incarnation(standby)?),
            [b"HELD", holder, lease_ms, epoch, beat, former_left] => Self::Held(LeaseReading {
                holder: printable(holder),
                lease_ms: number(lease_ms),
                epoch: number(epoch)?,
                beat: number(beat)?,
                former_left_ms: number(former_left),
            }),
            [b"NEWER", format] => {
                Self::Newer { format: u32::try_from(number(format)?).unwrap_or(u32::MAX) }
            }
            [b"WRITTEN", last, handover, damaged] => Self::Written {
                last: GroupPosition::parse(last)?,
                handover: handover == b"1",
                is_damaged: damaged == b"1",
            },
            [b"GAP", last] => Self::Gap { last: GroupPosition::parse(last)? },
            [b"FENCED", holder] => Self::Fenced { holder: printable(holder) },
            [b"RELEASED"] => Self::Released,
            _ => return None,
        })
    }
}

/// A reply to a command of the pipeline, parsed.
#[derive(Debug)]
pub(crate) enum PipelineReply {
    /// The answer of a script; `None` if it is malformed.
    Script(Option<ScriptAnswer>),
    /// How many replicas the server has; `None` if it is no primary.
    Role(Option<u32>),
    /// How many replicas have everything that was written so far.
    Waited(i64),
    /// The figures and settings of the server, as text.
    Info(Vec<u8>),
}

impl PipelineReply {
    pub(crate) fn read(tag: PipelineTag, value: RespValue<'_>) -> Self {
        match (tag, value) {
            (PipelineTag::Role, value) => Self::Role(replicas(value)),
            (PipelineTag::Info, value) => Self::Info(octets(value).unwrap_or_default().to_vec()),
            (PipelineTag::Wait { .. }, RespValue::Integer(replicas)) => Self::Waited(replicas),
            (_, value) => Self::Script(ScriptAnswer::read(value)),
        }
    }
}

/// Parses the reply to `ROLE`: how many replicas the primary has. `None` if the server is no
/// primary.
pub(crate) fn replicas(value: RespValue<'_>) -> Option<u32> {
    let RespValue::Array(mut parts) = value else { return None };
    if octets(parts.next()?)? != b"master" {
        return None;
    }
    match parts.nth(1)? {
        RespValue::Array(replicas) => Some(replicas.count_left()),
        _ => None,
    }
}

/// Returns the octets of a string; `None` for other types.
pub(crate) fn octets(value: RespValue<'_>) -> Option<&[u8]> {
    match value {
        RespValue::Bulk(octets) | RespValue::Simple(octets) => Some(octets),
        _ => None,
    }
}

/// Parses the entry for the standby; `None` if it is empty. Invalid octets yield an incarnation
/// that does not exist, so that the caller reports the standby as missing.
fn incarnation(octets: &[u8]) -> Option<Incarnation> {
    let number = octets.try_into().map_or(0, u64::from_be_bytes);
    (!octets.is_empty()).then_some(Incarnation(number))
}

/// Parses a number in decimal digits.
pub(crate) fn number(octets: &[u8]) -> Option<u64> {
    core::str::from_utf8(octets).ok()?.parse().ok()
}
