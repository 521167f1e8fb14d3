//! PFD contents: the fields of a packet flow description.

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// A packet flow description. The additional fields are lists with a two-octet length before each
/// entry, and are kept as octets. Spec: TS 29.244 §8.2.39.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PfdContents<'a> {
    /// FD: an IPFilterRule as text.
    pub flow_description: Option<&'a [u8]>,
    /// URL: a regular expression or a URL.
    pub url: Option<&'a [u8]>,
    /// DN: a domain name.
    pub domain_name: Option<&'a [u8]>,
    /// CP: custom contents.
    pub custom: Option<&'a [u8]>,
    /// DNP: protocol of the domain name.
    pub domain_name_protocol: Option<&'a [u8]>,
    /// AFD: additional flow descriptions.
    pub additional_flow_descriptions: Option<&'a [u8]>,
    /// AURL: additional URLs.
    pub additional_urls: Option<&'a [u8]>,
    /// ADNP: additional domain names and protocols.
    pub additional_domain_names: Option<&'a [u8]>,
}

impl<'a> Ie<'a> for PfdContents<'a> {
    const TYPE: IeType = IeType::PFD_CONTENTS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let [flags, _spare] = r.array()?;
        let mut field = |bit: u8| r.when(flags >> bit & 1 == 1, IeReader::bytes_len16);
        Ok(Self {
            flow_description: field(0)?,
            url: field(1)?,
            domain_name: field(2)?,
            custom: field(3)?,
            domain_name_protocol: field(4)?,
            additional_flow_descriptions: field(5)?,
            additional_urls: field(6)?,
            additional_domain_names: field(7)?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let all = [
            self.flow_description,
            self.url,
            self.domain_name,
            self.custom,
            self.domain_name_protocol,
            self.additional_flow_descriptions,
            self.additional_urls,
            self.additional_domain_names,
        ];
        w.u8(all.iter().rev().fold(0, |set, field| set << 1 | u8::from(field.is_some())))?;
        w.u8(0)?;
        all.into_iter().flatten().try_for_each(|field| w.bytes_len16(field))
    }
}
