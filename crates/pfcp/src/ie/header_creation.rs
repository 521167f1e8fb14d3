//! Outer Header Creation and Outer Header Removal.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_types::Teid;

use crate::ie::{EthernetVlanTag, Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

bitflags::bitflags! {
    /// The headers to create. The high octet is octet 5, the low octet is octet 6. Spec: TS 29.244
    /// §8.2.56.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OuterHeaderDescription: u16 {
        /// GTP-U/UDP/IPv4.
        const GTPU_UDP_IPV4 = 0x0100;
        /// GTP-U/UDP/IPv6.
        const GTPU_UDP_IPV6 = 0x0200;
        /// UDP/IPv4.
        const UDP_IPV4 = 0x0400;
        /// UDP/IPv6.
        const UDP_IPV6 = 0x0800;
        /// IPv4.
        const IPV4 = 0x1000;
        /// IPv6.
        const IPV6 = 0x2000;
        /// C-TAG.
        const C_TAG = 0x4000;
        /// S-TAG.
        const S_TAG = 0x8000;
        /// Towards N19.
        const N19 = 0x0001;
        /// Towards N6.
        const N6 = 0x0002;
        /// Lower layer SSM and C-TEID.
        const LOWER_LAYER_SSM = 0x0004;
        /// The bits without a name, which later releases may name.
        const _ = !0;
    }
}

impl OuterHeaderDescription {
    const GTPU: Self = Self::GTPU_UDP_IPV4.union(Self::GTPU_UDP_IPV6);
    const UDP: Self = Self::UDP_IPV4.union(Self::UDP_IPV6);
    const V4: Self = Self::GTPU_UDP_IPV4.union(Self::UDP_IPV4).union(Self::IPV4);
    const V6: Self = Self::GTPU_UDP_IPV6.union(Self::UDP_IPV6).union(Self::IPV6);
}

/// Headers to add in front of a packet. The description determines which fields are present. The
/// encoder writes zeros for a field that the description requires but that is absent. Spec: TS
/// 29.244 §8.2.56.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OuterHeaderCreation {
    /// The headers to create.
    pub description: OuterHeaderDescription,
    /// TEID, if GTP-U is created.
    pub teid: Option<Teid>,
    /// Destination address, if IPv4 is created.
    pub v4: Option<Ipv4Addr>,
    /// Destination address, if IPv6 is created.
    pub v6: Option<Ipv6Addr>,
    /// Destination port, if UDP is created without GTP-U.
    pub port: Option<u16>,
    /// Customer tag.
    pub c_tag: Option<EthernetVlanTag>,
    /// Service tag.
    pub s_tag: Option<EthernetVlanTag>,
}

impl OuterHeaderCreation {
    /// Describes GTP-U over IPv4.
    #[must_use]
    pub fn gtpu_ipv4(teid: Teid, addr: Ipv4Addr) -> Self {
        Self {
            description: OuterHeaderDescription::GTPU_UDP_IPV4,
            teid: Some(teid),
            v4: Some(addr),
            ..Self::default()
        }
    }

    /// Describes GTP-U over IPv6.
    #[must_use]
    pub fn gtpu_ipv6(teid: Teid, addr: Ipv6Addr) -> Self {
        Self {
            description: OuterHeaderDescription::GTPU_UDP_IPV6,
            teid: Some(teid),
            v6: Some(addr),
            ..Self::default()
        }
    }
}

impl<'a> Ie<'a> for OuterHeaderCreation {
    const TYPE: IeType = IeType::OUTER_HEADER_CREATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        use OuterHeaderDescription as D;
        let mut r = IeReader::new(value);
        let description = D::from_bits_retain(r.u16()?);
        let has = |set: D| description.intersects(set);
        if description.is_empty() {
            return Err(IeError::Value);
        }
        Ok(Self {
            description,
            teid: r.when(has(D::GTPU), |r| r.u32().map(Teid))?,
            v4: r.ipv4_if(has(D::V4))?,
            v6: r.ipv6_if(has(D::V6))?,
            port: r.when(has(D::UDP), IeReader::u16)?,
            c_tag: r.when(has(D::C_TAG), |r| r.array().map(EthernetVlanTag::from_octets))?,
            s_tag: r.when(has(D::S_TAG), |r| r.array().map(EthernetVlanTag::from_octets))?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        use OuterHeaderDescription as D;
        let has = |set: D| self.description.intersects(set);
        w.u16(self.description.bits())?;
        if has(D::GTPU) {
            w.u32(self.teid.unwrap_or_default().0)?;
        }
        if has(D::V4) {
            w.ipv4(Some(self.v4.unwrap_or(Ipv4Addr::UNSPECIFIED)))?;
        }
        if has(D::V6) {
            w.ipv6(Some(self.v6.unwrap_or(Ipv6Addr::UNSPECIFIED)))?;
        }
        if has(D::UDP) {
            w.u16(self.port.unwrap_or_default())?;
        }
        if has(D::C_TAG) {
            w.bytes(&self.c_tag.unwrap_or_default().to_octets())?;
        }
        if has(D::S_TAG) {
            w.bytes(&self.s_tag.unwrap_or_default().to_octets())?;
        }
        Ok(())
    }
}

crate::ie::code_points! {
    /// The outer headers to remove. Spec: TS 29.244 §8.2.64.
    OuterHeaderRemovalDescription, OUTER_HEADER_REMOVAL, mask 0xff {
        0 GtpuUdpIpv4 "GTP-U/UDP/IPv4",
        1 GtpuUdpIpv6 "GTP-U/UDP/IPv6",
        2 UdpIpv4 "UDP/IPv4",
        3 UdpIpv6 "UDP/IPv6",
        4 Ipv4 "IPv4",
        5 Ipv6 "IPv6",
        6 GtpuUdpIp "GTP-U/UDP/IP",
        7 VlanTag "VLAN S-TAG",
        8 VlanTags "S-TAG and C-TAG",
    }
}

/// Headers to remove. Spec: TS 29.244 §8.2.64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OuterHeaderRemoval {
    /// The outer headers to remove.
    pub description: OuterHeaderRemovalDescription,
    /// GTP-U extension headers to remove; bit 1 is the PDU Session Container.
    pub extension_header_deletion: Option<u8>,
}

impl From<OuterHeaderRemovalDescription> for OuterHeaderRemoval {
    fn from(description: OuterHeaderRemovalDescription) -> Self {
        Self { description, extension_header_deletion: None }
    }
}

impl<'a> Ie<'a> for OuterHeaderRemoval {
    const TYPE: IeType = IeType::OUTER_HEADER_REMOVAL;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(Self {
            description: OuterHeaderRemovalDescription::from_code(r.u8()?),
            extension_header_deletion: r.u8().ok(),
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(self.description.code())?;
        self.extension_header_deletion.map_or(Ok(()), |bits| w.u8(bits))
    }
}
