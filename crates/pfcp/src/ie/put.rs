//! Appends IEs to a message.

use crate::ie::{Ie, IeType, RawIe};
use crate::writer::{NoRoom, PfcpWriter};

impl PfcpWriter<'_> {
    /// Appends one IE with its type. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn put<'a, T: Ie<'a>>(&mut self, ie: &T) -> Result<(), NoRoom> {
        self.put_as(T::TYPE, ie)
    }

    /// Appends one IE under a different type with the same contents: there are three types of Usage
    /// Report IEs, for example. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn put_as<'a, T: Ie<'a>>(&mut self, ie_type: IeType, ie: &T) -> Result<(), NoRoom> {
        self.group(ie_type, |w| ie.encode(w))
    }

    /// Appends an IE whose value `fill` writes, usually the members of a grouped IE. Errors as
    /// [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn group(
        &mut self,
        ie_type: IeType,
        fill: impl FnOnce(&mut Self) -> Result<(), NoRoom>,
    ) -> Result<(), NoRoom> {
        self.u16(ie_type.0)?;
        self.length_prefixed(fill)
    }

    /// Appends an IE whose value is octets, as received. Errors as [`Self::bytes`].
    #[allow(clippy::missing_errors_doc, reason = "see `PfcpWriter::bytes`")]
    pub fn raw(&mut self, ie: &RawIe<'_>) -> Result<(), NoRoom> {
        self.group(ie.ie_type, |w| {
            if let Some(enterprise_id) = ie.enterprise_id {
                w.u16(enterprise_id)?;
            }
            w.bytes(ie.value)
        })
    }
}
