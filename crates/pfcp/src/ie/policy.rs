//! Redirect Information, Forwarding Policy and Header Enrichment.

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

crate::ie::code_points! {
    /// The type of a redirect address. Spec: TS 29.244 §8.2.20.
    RedirectAddressType, REDIRECT_INFORMATION, mask 0x0f {
        0 Ipv4 "IPv4 address",
        1 Ipv6 "IPv6 address",
        2 Url "URL",
        3 SipUri "SIP URI",
        4 Ipv4AndIpv6 "IPv4 and IPv6 addresses",
        5 Port "Port",
        6 Ipv4AndPort "IPv4 address and Port",
        7 Ipv6AndPort "IPv6 address and Port",
        8 Ipv4AndIpv6AndPort "IPv4 and IPv6 addresses and Port",
    }
}

impl RedirectAddressType {
    const fn has_two_addresses(self) -> bool {
        matches!(self, Self::Ipv4AndIpv6 | Self::Ipv4AndIpv6AndPort)
    }

    const fn has_port(self) -> bool {
        matches!(
            self,
            Self::Port | Self::Ipv4AndPort | Self::Ipv6AndPort | Self::Ipv4AndIpv6AndPort
        )
    }
}

/// The destination of redirected uplink traffic. Addresses are text. Spec: TS 29.244 §8.2.20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RedirectInformation<'a> {
    /// Type of the address.
    pub address_type: RedirectAddressType,
    /// The address; empty for type Port.
    pub address: &'a [u8],
    /// The IPv6 address, for types with two addresses; else empty.
    pub other_address: &'a [u8],
    /// The port, for types with a port.
    pub port: Option<u16>,
}

impl<'a> Ie<'a> for RedirectInformation<'a> {
    const TYPE: IeType = IeType::REDIRECT_INFORMATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let address_type = RedirectAddressType::from_code(r.u8()? & 0x0f);
        let address = r.bytes_len16()?;
        let other_address =
            r.when(address_type.has_two_addresses(), IeReader::bytes_len16)?.unwrap_or(&[]);
        let port = r.when(address_type.has_port(), IeReader::u16)?;
        Ok(Self { address_type, address, other_address, port })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(self.address_type.code() & 0x0f)?;
        w.bytes_len16(self.address)?;
        if self.address_type.has_two_addresses() {
            w.bytes_len16(self.other_address)?;
        }
        if self.address_type.has_port() {
            w.u16(self.port.unwrap_or(0))?;
        }
        Ok(())
    }
}

/// Identifier of a policy that is configured in the UP function. Spec: TS 29.244 §8.2.23.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ForwardingPolicy<'a>(pub &'a [u8]);

impl<'a> Ie<'a> for ForwardingPolicy<'a> {
    const TYPE: IeType = IeType::FORWARDING_POLICY;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        IeReader::new(value).bytes_len8().map(Self)
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.bytes_len8(self.0)
    }
}

/// A header field to add to uplink requests, such as HTTP requests. Spec: TS 29.244 §8.2.67.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeaderEnrichment<'a> {
    /// Header type: 0 is HTTP.
    pub header_type: u8,
    /// Name of the field.
    pub name: &'a [u8],
    /// Value of the field.
    pub value: &'a [u8],
}

impl<'a> Ie<'a> for HeaderEnrichment<'a> {
    const TYPE: IeType = IeType::HEADER_ENRICHMENT;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let header_type = r.u8()? & 0x1f;
        Ok(Self { header_type, name: r.bytes_len8()?, value: r.bytes_len8()? })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(self.header_type & 0x1f)?;
        w.bytes_len8(self.name)?;
        w.bytes_len8(self.value)
    }
}
