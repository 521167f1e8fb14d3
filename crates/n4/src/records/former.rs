//! Records of a previous process, read apart from the node.

use adit_session::{FormerSession, SessionPreparer};
use adit_store::{RecordKind, RecordName};

use super::values::{CpFSeidValue, InformationValue, RecordError, SessionValue, SetValue, decoded};

/// A record that a previous process left. It is read without the node, so another thread can do
/// that; [`Node::restore_record`](crate::Node::restore_record) takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct FormerRecord {
    pub(crate) kind: RecordKind,
    pub(crate) name: RecordName,
    pub(crate) value: FormerValue,
}

/// The contents of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FormerValue {
    /// The record of a session, the only kind of which there are many.
    Session(FormerSessionRecord),
    /// The octets of a record of another kind.
    Octets(Vec<u8>),
}

/// The record of a session, with its octets for the case that it is refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FormerSessionRecord {
    pub value: Result<Box<FormerSessionValue>, RecordError>,
    pub octets: Vec<u8>,
}

/// [`SessionValue`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FormerSessionValue {
    pub former: FormerSession,
    pub information: Option<InformationValue>,
    pub sets: Vec<SetValue>,
    pub former_cp: Option<CpFSeidValue>,
}

impl FormerRecord {
    /// The record of this kind and name with these octets. Octets that are none of its kind are
    /// refused when the record is to be restored.
    #[must_use]
    pub fn read(kind: RecordKind, name: RecordName, octets: Vec<u8>) -> Self {
        let value = match kind {
            RecordKind::Session => FormerValue::Session(FormerSessionRecord::read(octets)),
            _ => FormerValue::Octets(octets),
        };
        Self { kind, name, value }
    }

    /// As [`Self::read`], and prepares sessions for a node that accepts sessions of `preparer`:
    /// [`Node::accept_prepared`](crate::Node::accept_prepared).
    #[must_use]
    pub fn read_prepared(
        preparer: &SessionPreparer,
        kind: RecordKind,
        name: RecordName,
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
    /// The session that the octets of its record are.
    ///
    /// # Errors
    /// Another version, or octets that are no session.
    pub(crate) fn from_octets(octets: &[u8]) -> Result<Self, RecordError> {
        let SessionValue { kept, information, sets, former_cp } = decoded(octets)?;
        Ok(Self { former: FormerSession::from_octets(kept)?, information, sets, former_cp })
    }
}
