//! FQ-CSID: identifiers of sets of sessions that fail together.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// Most connection set identifiers in one IE: their count has four bits.
const CSIDS_MAX: usize = 15;

/// The node that assigned the connection set identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FqCsidNode {
    /// A node with a global IPv4 address.
    Ipv4(Ipv4Addr),
    /// A node with a global IPv6 address.
    Ipv6(Ipv6Addr),
    /// A node of a mobile network: MCC times 1000 plus MNC in the upper 20 bits, an identifier that
    /// the operator chose in the lower 12.
    Number(u32),
}

/// Fully qualified PDN connection set identifiers of one node. Spec: TS 29.244 §8.2.43.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FqCsid<'a> {
    /// The node that assigned the identifiers.
    pub node: FqCsidNode,
    csids: &'a [u8],
    /// Kind of the node: 0 MME, 1 SGW-C, 2 PGW-C or SMF, 3 ePDG, 4 TWAN, 5 a UP function.
    pub node_type: Option<u8>,
}

impl<'a> FqCsid<'a> {
    /// Creates an FQ-CSID. `csids` are at most 15 identifiers of two octets each, most significant
    /// octet first. `None` if there are more, or if their octets are odd in number.
    #[must_use]
    pub const fn new(node: FqCsidNode, csids: &'a [u8], node_type: Option<u8>) -> Option<Self> {
        if csids.len() > 2 * CSIDS_MAX || !csids.len().is_multiple_of(2) {
            return None;
        }
        Some(Self { node, csids, node_type })
    }

    /// Returns the connection set identifiers.
    pub fn csids(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.csids.as_chunks::<2>().0.iter().map(|csid| u16::from_be_bytes(*csid))
    }

    /// True if both have a connection set in common.
    #[must_use]
    pub fn overlaps(&self, other: &FqCsid<'_>) -> bool {
        self.node == other.node && self.csids().any(|csid| other.csids().any(|o| o == csid))
    }
}

impl<'a> Ie<'a> for FqCsid<'a> {
    const TYPE: IeType = IeType::FQ_CSID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let first = r.u8()?;
        let node = match first >> 4 {
            0 => FqCsidNode::Ipv4(Ipv4Addr::from(r.array::<4>()?)),
            1 => FqCsidNode::Ipv6(Ipv6Addr::from(r.array::<16>()?)),
            2 => FqCsidNode::Number(r.u32()?),
            _ => return Err(IeError::Value),
        };
        let csids = r.bytes(2 * usize::from(first & 0x0f))?;
        let node_type = r.rest().first().map(|octet| octet & 0x0f);
        Ok(Self { node, csids, node_type })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let count = u8::try_from(self.csids.len() / 2).map_err(|_| NoRoom)?;
        match self.node {
            FqCsidNode::Ipv4(addr) => {
                w.u8(count)?;
                w.ipv4(Some(addr))?;
            }
            FqCsidNode::Ipv6(addr) => {
                w.u8(0x10 | count)?;
                w.ipv6(Some(addr))?;
            }
            FqCsidNode::Number(number) => {
                w.u8(0x20 | count)?;
                w.u32(number)?;
            }
        }
        w.bytes(self.csids)?;
        self.node_type.map_or(Ok(()), |node_type| w.u8(node_type & 0x0f))
    }
}
