//! Records of a previous process, decoded without the node.

use adit_session::{FormerSession, SessionPreparer};
use adit_store::{OwnedRecordId, RecordKind};

use super::values::{
    CpFSeidValue, RecordError, SessionInformationValue, SessionValue, SetValue, decoded,
};

/// A record that a previous process left. It is decoded without the node, so that another thread
/// can do that, and passed to [`Node::restore_record`](crate::Node::restore_record).
#[derive(Debug, Clone, PartialEq)]
pub struct FormerRecord {
    pub(crate) kind: RecordKind,
    pub(crate) name: OwnedRecordId,
    pub(crate) value: FormerValue,
}

/// The contents of a record, decoded if it is a session's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FormerValue {
    /// The record of a session: the only kind worth decoding on another thread, as there may be
    /// millions.
    Session(FormerSessionRecord),
    /// The octets of a record of any other kind.
    Octets(Vec<u8>),
}

/// A decoded session record; its octets are kept for the case that the session is set aside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FormerSessionRecord {
    pub value: Result<Box<FormerSessionValue>, RecordError>,
    pub octets: Vec<u8>,
}

/// The contents of a [`SessionValue`], owned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FormerSessionValue {
    pub former: FormerSession,
    pub information: Option<SessionInformationValue>,
    pub sets: Vec<SetValue>,
    pub former_cp: Option<CpFSeidValue>,
}

impl FormerRecord {
    /// Decodes a record. Malformed octets are refused when the record is restored.
    #[must_use]
    pub fn read(kind: RecordKind, name: OwnedRecordId, octets: Vec<u8>) -> Self {
        let value = match kind {
            RecordKind::Session => FormerValue::Session(FormerSessionRecord::read(octets)),
            _ => FormerValue::Octets(octets),
        };
        Self { kind, name, value }
    }

    /// Does the same as [`Self::read`], and prepares a session for a node that has accepted
    /// `preparer`: see [`Node::accept_prepared`](crate::Node::accept_prepared).
    #[must_use]
    pub fn read_prepared(
        preparer: &SessionPreparer,
        kind: RecordKind,
        name: OwnedRecordId,
        octets: Vec<u8>,
    ) -> Self {
        let mut record = Self::read(kind, name, octets);
        if let FormerValue::Session(FormerSessionRecord { value: Ok(value), .. }) =
            &mut record.value
        {
            preparer.prepare(&mut value.former);
        }
        record
    }
}

impl FormerSessionRecord {
    pub(crate) fn read(octets: Vec<u8>) -> Self {
        Self { value: FormerSessionValue::from_octets(&octets).map(Box::new), octets }
    }
}

impl FormerSessionValue {
    /// Decodes the record of a session.
    ///
    /// # Errors
    /// The octets have another version, or are malformed.
    pub(crate) fn from_octets(octets: &[u8]) -> Result<Self, RecordError> {
        let SessionValue { kept, information, sets, former_cp } = decoded(octets)?;
        Ok(Self { former: FormerSession::from_octets(kept)?, information, sets, former_cp })
    }
}
