//! The scripts that servers run, and how replies are read.

use adit_store::{GroupPosition, Incarnation};
use adit_transport::resp::RespValue;

use crate::connection::PipelineTag;
use crate::keys::{KEY_COUNT, StoreKeys};
use crate::lease_clock::LeaseSight;
use crate::printable::printable;

/// A script, known to a server by its digest once it was loaded.
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

/// Their texts, in the order of [`Script`].
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

/// The digests by which a server identifies the scripts.
#[derive(Debug, Default)]
pub(crate) struct ScriptDigests([Vec<u8>; SCRIPT_TEXTS.len()]);

impl ScriptDigests {
    pub(crate) fn set(&mut self, index: usize, digest: &[u8]) {
        if let Some(known) = self.0.get_mut(index) {
            *known = digest.to_vec();
        }
    }

    /// The start of a command that runs a script on the keys of a name.
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
    /// The lease is the caller's.
    Taken {
        epoch: u64,
        last: GroupPosition,
        /// The epoch before, and its holder.
        before: (u64, String),
        /// All records there have checksums.
        are_checked: bool,
        /// The standby that the server names.
        standby: Option<Incarnation>,
    },
    /// The lease is free, and not the caller's: the server names this standby, which may have
    /// groups that it lacks.
    Named(Incarnation),
    /// Another holder has the lease.
    Held(LeaseSight),
    /// The records have a newer format.
    Newer {
        format: u32,
    },
    /// The server has the groups up to this one, and the lease goes on.
    Written {
        last: GroupPosition,
        handover: bool,
        /// Records are missing or damaged.
        is_damaged: bool,
    },
    /// The group does not follow the last one that the server has.
    Gap {
        last: GroupPosition,
    },
    /// The caller's token is not the newest.
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
            [b"HELD", holder, lease_ms, epoch, beat, former_left] => Self::Held(LeaseSight {
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

/// A reply to a command of the pipeline.
#[derive(Debug)]
pub(crate) enum PipelineReply {
    /// The answer of a script; `None` if it cannot be read.
    Script(Option<ScriptAnswer>),
    /// Replicas of the server; `None` if it is no primary.
    Role(Option<u32>),
    /// Replicas that have everything written so far.
    Waited(i64),
    /// The server's own figures, as text.
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

/// The replicas of a primary; `None` if the server is no primary. The reply to `ROLE`.
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

/// The octets of a string.
pub(crate) fn octets(value: RespValue<'_>) -> Option<&[u8]> {
    match value {
        RespValue::Bulk(octets) | RespValue::Simple(octets) => Some(octets),
        _ => None,
    }
}

/// The standby that a server names, if any. Invalid octets yield an incarnation that does not
/// exist, so that the standby's absence is noticed.
fn incarnation(octets: &[u8]) -> Option<Incarnation> {
    let number = octets.try_into().map_or(0, u64::from_be_bytes);
    (!octets.is_empty()).then_some(Incarnation(number))
}

/// A number in decimal digits.
pub(crate) fn number(octets: &[u8]) -> Option<u64> {
    core::str::from_utf8(octets).ok()?.parse().ok()
}
