//! IEs made of addresses and endpoint identifiers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_types::{Seid, Teid};

use crate::ie::{
    DestinationInterface, Ie, IeError, IeReader, IeType, NetworkInstance, SourceInterface,
};
use crate::writer::{NoRoom, PfcpWriter};

fn bit(condition: bool, mask: u8) -> u8 {
    if condition { mask } else { 0 }
}

/// A local tunnel endpoint, given or for the UP function to choose.
///
/// ```text
/// octet 5: spare(8-5) CHID(4) CH(3) V6(2) V4(1); then TEID, IPv4, IPv6 without CH,
///          or CHOOSE ID with CH and CHID
/// ```
/// Spec: TS 29.244 §8.2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FTeid {
    /// TEID and addresses are given.
    Given {
        /// The TEID.
        teid: Teid,
        /// The addresses.
        addr: FTeidAddress,
    },
    /// The UP function chooses them. INTEROP: some control planes set neither V4 nor V6.
    Choose {
        /// True if an IPv4 address is requested.
        v4: bool,
        /// True if an IPv6 address is requested.
        v6: bool,
        /// PDRs with the same identifier get the same F-TEID.
        choose_id: Option<u8>,
    },
}

/// The addresses of an F-TEID; there is at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FTeidAddress {
    /// IPv4 only.
    V4(Ipv4Addr),
    /// IPv6 only.
    V6(Ipv6Addr),
    /// Both.
    V4V6(Ipv4Addr, Ipv6Addr),
}

impl FTeidAddress {
    /// Returns the IPv4 address, if there is one.
    #[must_use]
    pub const fn v4(&self) -> Option<Ipv4Addr> {
        match self {
            Self::V4(v4) | Self::V4V6(v4, _) => Some(*v4),
            Self::V6(_) => None,
        }
    }

    /// Returns the IPv6 address, if there is one.
    #[must_use]
    pub const fn v6(&self) -> Option<Ipv6Addr> {
        match self {
            Self::V6(v6) | Self::V4V6(_, v6) => Some(*v6),
            Self::V4(_) => None,
        }
    }

    const fn new(v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> Option<Self> {
        match (v4, v6) {
            (Some(v4), Some(v6)) => Some(Self::V4V6(v4, v6)),
            (Some(v4), None) => Some(Self::V4(v4)),
            (None, Some(v6)) => Some(Self::V6(v6)),
            (None, None) => None,
        }
    }
}

impl<'a> Ie<'a> for FTeid {
    const TYPE: IeType = IeType::F_TEID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let (v4, v6) = (flags & 1 != 0, flags & 2 != 0);
        if flags & 4 != 0 {
            let choose_id = r.when(flags & 8 != 0, IeReader::u8)?;
            return Ok(Self::Choose { v4, v6, choose_id });
        }
        let teid = Teid(r.u32()?);
        let (v4, v6) = (r.ipv4_if(v4)?, r.ipv6_if(v6)?);
        let addr = FTeidAddress::new(v4, v6).ok_or(IeError::Value)?;
        Ok(Self::Given { teid, addr })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        match self {
            Self::Given { teid, addr } => {
                w.u8(bit(addr.v4().is_some(), 1) | bit(addr.v6().is_some(), 2))?;
                w.u32(teid.0)?;
                w.ipv4(addr.v4())?;
                w.ipv6(addr.v6())
            }
            Self::Choose { v4, v6, choose_id } => {
                w.u8(bit(*v4, 1) | bit(*v6, 2) | 4 | bit(choose_id.is_some(), 8))?;
                choose_id.map_or(Ok(()), |id| w.u8(id))
            }
        }
    }
}

/// A session endpoint: SEID and at least one address. Spec: TS 29.244 §8.2.37.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FSeid {
    /// The SEID.
    pub seid: Seid,
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl FSeid {
    /// Creates an endpoint with one address.
    #[must_use]
    pub fn new(seid: Seid, addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(v4) => Self { seid, v4: Some(v4), v6: None },
            IpAddr::V6(v6) => Self { seid, v4: None, v6: Some(v6) },
        }
    }
}

impl<'a> Ie<'a> for FSeid {
    const TYPE: IeType = IeType::F_SEID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let seid = Seid(r.u64()?);
        if flags & 3 == 0 {
            return Err(IeError::Value);
        }
        Ok(Self { seid, v4: r.ipv4_if(flags & 2 != 0)?, v6: r.ipv6_if(flags & 1 != 0)? })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(bit(self.v6.is_some(), 1) | bit(self.v4.is_some(), 2))?;
        w.u64(self.seid.0)?;
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)
    }
}

/// Addresses or prefixes of a UE, given, or for the UP function to choose. Spec: TS 29.244 §8.2.62.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UeIpAddress {
    /// IPv4 address (V4).
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address or prefix (V6).
    pub v6: Option<Ipv6Addr>,
    /// S/D: true matches the destination address, false the source address.
    pub destination: bool,
    /// IPv6D: how many bits of the /64 are delegated; the prefix length is 64 minus this number.
    pub v6_delegation_bits: Option<u8>,
    /// CHV4: true if the UP function chooses an IPv4 address.
    pub choose_v4: bool,
    /// CHV6: true if the UP function chooses an IPv6 prefix.
    pub choose_v6: bool,
    /// IP6PL: length of the IPv6 prefix.
    pub v6_prefix_len: Option<u8>,
}

impl<'a> Ie<'a> for UeIpAddress {
    const TYPE: IeType = IeType::UE_IP_ADDRESS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let (v6, v4, chv4, chv6) =
            (flags & 1 != 0, flags & 2 != 0, flags & 16 != 0, flags & 32 != 0);
        if !(v4 || v6 || chv4 || chv6) || v4 && chv4 || v6 && chv6 {
            return Err(IeError::Value);
        }
        let ue = Self {
            v4: r.ipv4_if(v4)?,
            v6: r.ipv6_if(v6)?,
            destination: flags & 4 != 0,
            v6_delegation_bits: r.when(flags & 8 != 0, IeReader::u8)?,
            choose_v4: chv4,
            choose_v6: chv6,
            v6_prefix_len: r.when(flags & 64 != 0, IeReader::u8)?,
        };
        if ue.v6_delegation_bits > Some(64) || ue.v6_prefix_len > Some(128) {
            return Err(IeError::Value);
        }
        Ok(ue)
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(bit(self.v6.is_some(), 1)
            | bit(self.v4.is_some(), 2)
            | bit(self.destination, 4)
            | bit(self.v6_delegation_bits.is_some(), 8)
            | bit(self.choose_v4, 16)
            | bit(self.choose_v6, 32)
            | bit(self.v6_prefix_len.is_some(), 64))?;
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)?;
        self.v6_delegation_bits.map_or(Ok(()), |bits| w.u8(bits))?;
        self.v6_prefix_len.map_or(Ok(()), |len| w.u8(len))
    }
}

/// A GTP-U peer that failed or recovered. Spec: TS 29.244 §8.2.70.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RemoteGtpuPeer<'a> {
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// Interface towards the peer.
    pub destination_interface: Option<DestinationInterface>,
    /// Network instance of the peer.
    pub network_instance: Option<NetworkInstance<'a>>,
}

impl<'a> Ie<'a> for RemoteGtpuPeer<'a> {
    const TYPE: IeType = IeType::REMOTE_GTP_U_PEER;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        Ok(Self {
            v4: r.ipv4_if(flags & 2 != 0)?,
            v6: r.ipv6_if(flags & 1 != 0)?,
            destination_interface: r
                .when(flags & 4 != 0, |r| DestinationInterface::decode(r.bytes_len16()?))?,
            network_instance: r.when(flags & 8 != 0, |r| r.bytes_len16().map(NetworkInstance))?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(bit(self.v6.is_some(), 1)
            | bit(self.v4.is_some(), 2)
            | bit(self.destination_interface.is_some(), 4)
            | bit(self.network_instance.is_some(), 8))?;
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)?;
        if let Some(interface) = self.destination_interface {
            w.bytes_len16(&[interface.code()])?;
        }
        self.network_instance.map_or(Ok(()), |ni| w.bytes_len16(ni.0))
    }
}

/// User plane addresses and TEID range of a UP function; only peers of Release 15 send it. Spec: TS
/// 29.244 §8.2.82.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UserPlaneIpResourceInformation<'a> {
    /// How many leading bits of a TEID are fixed (1..=7), and the octet that contains them.
    pub teid_range: Option<(u8, u8)>,
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// Network instance of the addresses.
    pub network_instance: Option<NetworkInstance<'a>>,
    /// Source interface of the addresses.
    pub source_interface: Option<SourceInterface>,
}

impl<'a> Ie<'a> for UserPlaneIpResourceInformation<'a> {
    const TYPE: IeType = IeType::USER_PLANE_IP_RESOURCE_INFORMATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let range_bits = (flags >> 2) & 7;
        let teid_range = r.when(range_bits != 0, |r| Ok((range_bits, r.u8()?)))?;
        let (v4, v6) = (r.ipv4_if(flags & 1 != 0)?, r.ipv6_if(flags & 2 != 0)?);
        let with_source = flags & 64 != 0;
        let network_instance = r.when(flags & 32 != 0, |r| {
            let tail = usize::from(with_source);
            let len = r.rest().len().checked_sub(tail).ok_or(IeError::Length)?;
            r.bytes(len).map(NetworkInstance)
        })?;
        let source_interface = r.when(with_source, |r| SourceInterface::decode(r.rest()))?;
        Ok(Self { teid_range, v4, v6, network_instance, source_interface })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let range_bits = self.teid_range.map_or(0, |(bits, _)| bits & 7);
        w.u8(bit(self.v4.is_some(), 1)
            | bit(self.v6.is_some(), 2)
            | range_bits << 2
            | bit(self.network_instance.is_some(), 32)
            | bit(self.source_interface.is_some(), 64))?;
        if let (1.., Some((_, range))) = (range_bits, self.teid_range) {
            w.u8(range)?;
        }
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)?;
        self.network_instance.map_or(Ok(()), |ni| w.bytes(ni.0))?;
        self.source_interface.map_or(Ok(()), |interface| w.u8(interface.code()))
    }
}

/// Another address of the SMF. Spec: TS 29.244 §8.2.129.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AlternativeSmfIpAddress {
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// PPE: true if this is the preferred PFCP entity.
    pub preferred: bool,
}

impl<'a> Ie<'a> for AlternativeSmfIpAddress {
    const TYPE: IeType = IeType::ALTERNATIVE_SMF_IP_ADDRESS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        Ok(Self {
            v4: r.ipv4_if(flags & 2 != 0)?,
            v6: r.ipv6_if(flags & 1 != 0)?,
            preferred: flags & 4 != 0,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(bit(self.v6.is_some(), 1) | bit(self.v4.is_some(), 2) | bit(self.preferred, 4))?;
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)
    }
}

/// Address of a PFCP entity of the CP function. Spec: TS 29.244 §8.2.135.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CpPfcpEntityIpAddress {
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl<'a> Ie<'a> for CpPfcpEntityIpAddress {
    const TYPE: IeType = IeType::CP_PFCP_ENTITY_IP_ADDRESS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        Ok(Self { v4: r.ipv4_if(flags & 2 != 0)?, v6: r.ipv6_if(flags & 1 != 0)? })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(bit(self.v6.is_some(), 1) | bit(self.v4.is_some(), 2))?;
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)
    }
}

/// Address of the CP function that controls a session. Spec: TS 29.244 §8.2.199.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CpIpAddress {
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl<'a> Ie<'a> for CpIpAddress {
    const TYPE: IeType = IeType::CP_IP_ADDRESS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        if flags & 3 == 0 {
            return Err(IeError::Value);
        }
        Ok(Self { v4: r.ipv4_if(flags & 2 != 0)?, v6: r.ipv6_if(flags & 1 != 0)? })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(bit(self.v6.is_some(), 1) | bit(self.v4.is_some(), 2))?;
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)
    }
}

/// Source address of a heartbeat, or of multicast traffic. Spec: TS 29.244 §8.2.138.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SourceIpAddress {
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// MPL: mask or prefix length.
    pub prefix_len: Option<u8>,
}

impl<'a> Ie<'a> for SourceIpAddress {
    const TYPE: IeType = IeType::SOURCE_IP_ADDRESS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        if flags & 3 == 0 {
            return Err(IeError::Value);
        }
        Ok(Self {
            v4: r.ipv4_if(flags & 2 != 0)?,
            v6: r.ipv6_if(flags & 1 != 0)?,
            prefix_len: r.when(flags & 4 != 0, IeReader::u8)?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(bit(self.v6.is_some(), 1)
            | bit(self.v4.is_some(), 2)
            | bit(self.prefix_len.is_some(), 4))?;
        w.ipv4(self.v4)?;
        w.ipv6(self.v6)?;
        self.prefix_len.map_or(Ok(()), |len| w.u8(len))
    }
}
