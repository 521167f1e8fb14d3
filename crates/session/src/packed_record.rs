//! The packed record of a session, and the version of its format.

use core::fmt;

use crate::pack::Pack;
use crate::record::{Qer, Records};
use crate::usage::SessionUsage;

/// Capacity that suffices to pack most records without growing. Unit: octets.
const RECORD_CAPACITY: usize = 512;

/// All that the store keeps of a session except its identifiers and owners: rules, measurements and
/// the epoch of buffered packets, packed (`pack`).
///
/// The first octet is [`PackedRecord::VERSION`]. For a usual session (2 PDRs, 2 FARs, 2 QERs, 1
/// URR) it costs no memory: the record takes 134 to 147 octets, and the allocator has blocks of 128
/// and of 160.
///
/// A store outside of this process keeps the record as a part of a
/// [`KeptSession`](crate::KeptSession). The format has no checksum. Times are readings of the clock
/// of the node that packed them, and counters are those of its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedRecord(Box<[u8]>);

/// The parts of a record, unpacked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RecordParts {
    pub records: Records,
    pub usage: SessionUsage,
    pub buffer_epoch: u32,
}

/// The octets of a record's version and rules, without its measurements.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PackedRules(Box<[u8]>);

/// Why octets are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackedRecordError {
    /// The format has a version that this program does not read.
    UnknownVersion(u8),
    /// There is no version, or the octets do not fit the version.
    Malformed,
}

impl fmt::Display for PackedRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVersion(version) => write!(
                f,
                "session record of format version {version}; this program reads versions {} to {}",
                PackedRecord::OLDEST,
                PackedRecord::VERSION
            ),
            Self::Malformed => f.write_str("malformed session record"),
        }
    }
}

impl core::error::Error for PackedRecordError {}

impl PackedRecord {
    /// The newest version that this program packs and unpacks. Every change of the octets raises
    /// it, even an appended field: older programs would misread the octets that follow. A record
    /// has the lowest version that has all of its fields.
    pub const VERSION: u8 = 4;

    /// The oldest version that this program unpacks; later versions added fields.
    pub const OLDEST: u8 = 3;

    pub(crate) fn pack(records: &Records, usage: &SessionUsage, buffer_epoch: u32) -> Self {
        let mut octets = Vec::with_capacity(RECORD_CAPACITY);
        octets.push(records.version());
        records.pack(&mut octets);
        usage.pack(&mut octets);
        buffer_epoch.pack(&mut octets);
        Self(Box::from(&*octets))
    }

    /// Packs new measurements with rules that are packed already.
    pub(crate) fn repack(rules: &PackedRules, usage: &SessionUsage, buffer_epoch: u32) -> Self {
        let mut octets = Vec::with_capacity(RECORD_CAPACITY);
        octets.extend_from_slice(&rules.0);
        usage.pack(&mut octets);
        buffer_epoch.pack(&mut octets);
        Self(Box::from(&*octets))
    }

    /// Checks the octets of a record. A record that this returns can be unpacked, and has a
    /// measurement of each of its URRs.
    ///
    /// # Errors
    /// [`PackedRecordError`]; the session to which the octets belong cannot be restored then.
    pub fn from_octets(octets: Box<[u8]>) -> Result<Self, PackedRecordError> {
        RecordParts::from_octets(&octets).map(|_| Self(octets))
    }

    /// Returns the octets, the version first.
    #[must_use]
    pub const fn octets(&self) -> &[u8] {
        &self.0
    }

    /// Unpacks all parts.
    pub(crate) fn parts(&self) -> RecordParts {
        unpacked(unpack(&self.0))
    }

    /// Unpacks only the rules, which is cheaper than [`Self::parts`].
    pub(crate) fn records(&self) -> Records {
        unpacked(self.0.split_first().and_then(|(_, mut packed)| Pack::unpack(&mut packed)))
    }
}

impl RecordParts {
    /// Unpacks and checks the octets of a record; also returns the octets of its rules. See
    /// [`PackedRecord::from_octets`].
    ///
    /// # Errors
    /// [`PackedRecordError`] if the octets are not a record.
    pub(crate) fn from_octets(octets: &[u8]) -> Result<(Self, PackedRules), PackedRecordError> {
        let mut packed = after_version(octets)?;
        let records = Records::unpack(&mut packed).ok_or(PackedRecordError::Malformed)?;
        let (rules, _) = octets.split_at(octets.len() - packed.len());
        let rest = unpack_usage(&mut packed).filter(|_| packed.is_empty());
        let (usage, buffer_epoch) = rest.ok_or(PackedRecordError::Malformed)?;
        let is_measured = records.urrs.len() == usage.measures.len()
            && records.urrs.iter().all(|urr| usage.measure(urr.id).is_some());
        let parts = Self { records, usage, buffer_epoch };
        if is_measured {
            Ok((parts, PackedRules(rules.into())))
        } else {
            Err(PackedRecordError::Malformed)
        }
    }
}

/// Returns the parts of a [`PackedRecord`], which can always be unpacked.
fn unpacked<T>(parts: Option<T>) -> T {
    let Some(parts) = parts else {
        unreachable!("a record is packed here or was unpacked by from_octets")
    };
    parts
}

fn unpack(octets: &[u8]) -> Option<RecordParts> {
    let mut packed = after_version(octets).ok()?;
    let records = Records::unpack(&mut packed)?;
    let (usage, buffer_epoch) = unpack_usage(&mut packed)?;
    Some(RecordParts { records, usage, buffer_epoch })
}

/// Returns the octets after the version. An error if this program does not read this version.
pub(crate) fn after_version(octets: &[u8]) -> Result<&[u8], PackedRecordError> {
    let (&version, packed) = octets.split_first().ok_or(PackedRecordError::Malformed)?;
    match (PackedRecord::OLDEST..=PackedRecord::VERSION).contains(&version) {
        true => Ok(packed),
        false => Err(PackedRecordError::UnknownVersion(version)),
    }
}

impl Records {
    /// Returns the lowest version of the format that has all fields of these rules.
    fn version(&self) -> u8 {
        let marks_flow = |qer: &Qer| qer.flow_tos.is_some() || qer.service_class.is_some();
        if self.qers.iter().any(marks_flow) { 4 } else { PackedRecord::OLDEST }
    }
}

fn unpack_usage(packed: &mut &[u8]) -> Option<(SessionUsage, u32)> {
    Some((Pack::unpack(packed)?, Pack::unpack(packed)?))
}
