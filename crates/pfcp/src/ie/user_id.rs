//! User ID: identities of the subscriber, each after a one-octet length.

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// Identities of a user, in the order of their flags. Spec: TS 29.244 §8.2.101.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UserId<'a> {
    /// IMSI, TBCD digits.
    pub imsi: Option<&'a [u8]>,
    /// IMEI, TBCD digits.
    pub imei: Option<&'a [u8]>,
    /// MSISDN, TBCD digits.
    pub msisdn: Option<&'a [u8]>,
    /// NAI, text.
    pub nai: Option<&'a [u8]>,
    /// SUPI, text.
    pub supi: Option<&'a [u8]>,
    /// GPSI, text.
    pub gpsi: Option<&'a [u8]>,
    /// PEI, text.
    pub pei: Option<&'a [u8]>,
}

impl<'a> Ie<'a> for UserId<'a> {
    const TYPE: IeType = IeType::USER_ID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let mut identity = |bit: u8| r.when(flags >> bit & 1 == 1, IeReader::bytes_len8);
        Ok(Self {
            imsi: identity(0)?,
            imei: identity(1)?,
            msisdn: identity(2)?,
            nai: identity(3)?,
            supi: identity(4)?,
            gpsi: identity(5)?,
            pei: identity(6)?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let all = [self.imsi, self.imei, self.msisdn, self.nai, self.supi, self.gpsi, self.pei];
        w.u8(all.iter().rev().fold(0, |set, id| set << 1 | u8::from(id.is_some())))?;
        all.into_iter().flatten().try_for_each(|id| w.bytes_len8(id))
    }
}
