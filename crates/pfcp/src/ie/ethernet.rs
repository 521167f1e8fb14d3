//! IEs of Ethernet PDU sessions.

use adit_types::MacAddr;

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// A VLAN tag with presence flags, as C-TAG and S-TAG encode it.
///
/// ```text
/// octet 5: spare(8-4) VID(3) DEI(2) PCP(1)
///       6: VID bits 12-9 (8-5) DEI (4) PCP (3-1)
///       7: VID bits 8-1
/// ```
/// Spec: TS 29.244 §8.2.94, §8.2.95.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EthernetVlanTag {
    /// Priority code point, 0..=7.
    pub pcp: Option<u8>,
    /// Drop eligible indicator.
    pub dei: Option<bool>,
    /// VLAN identifier, 12 bits.
    pub vid: Option<u16>,
}

impl EthernetVlanTag {
    pub(crate) fn from_octets([flags, high, low]: [u8; 3]) -> Self {
        Self {
            pcp: (flags & 1 != 0).then_some(high & 0x07),
            dei: (flags & 2 != 0).then_some(high & 0x08 != 0),
            vid: (flags & 4 != 0).then_some(u16::from_be_bytes([high >> 4, low])),
        }
    }

    pub(crate) fn to_octets(self) -> [u8; 3] {
        let [vid_high, vid_low] = self.vid.unwrap_or(0).to_be_bytes();
        [
            u8::from(self.pcp.is_some())
                | u8::from(self.dei.is_some()) << 1
                | u8::from(self.vid.is_some()) << 2,
            (vid_high & 0x0f) << 4
                | u8::from(self.dei.unwrap_or(false)) << 3
                | self.pcp.unwrap_or(0) & 0x07,
            vid_low,
        ]
    }
}

macro_rules! tags {
    ($( $(#[$doc:meta])* $name:ident, $type:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub EthernetVlanTag);

        impl<'a> Ie<'a> for $name {
            const TYPE: IeType = IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                IeReader::new(value).array().map(EthernetVlanTag::from_octets).map(Self)
            }

            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                w.bytes(&self.0.to_octets())
            }
        }
    )* };
}

tags! {
    /// Customer VLAN tag. Spec: TS 29.244 §8.2.94.
    CTag, C_TAG;
    /// Service VLAN tag. Spec: TS 29.244 §8.2.95.
    STag, S_TAG;
}

macro_rules! integers {
    ($( $(#[$doc:meta])* $name:ident, $type:ident, $width:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub $width);

        impl<'a> Ie<'a> for $name {
            const TYPE: IeType = IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                IeReader::new(value).$width().map(Self)
            }

            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                w.$width(self.0)
            }
        }
    )* };
}

integers! {
    /// Ethertype. Spec: TS 29.244 §8.2.96.
    Ethertype, ETHERTYPE, u16;
    /// Identifier of an Ethernet packet filter. Spec: TS 29.244 §8.2.98.
    EthernetFilterId, ETHERNET_FILTER_ID, u32;
}

/// MAC addresses to match; with an upper address, a range. Spec: TS 29.244 §8.2.93.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MacAddressFields {
    /// SOUR.
    pub source: Option<MacAddr>,
    /// DEST.
    pub destination: Option<MacAddr>,
    /// USOU.
    pub upper_source: Option<MacAddr>,
    /// UDES.
    pub upper_destination: Option<MacAddr>,
}

impl<'a> Ie<'a> for MacAddressFields {
    const TYPE: IeType = IeType::MAC_ADDRESS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let mut mac = |mask: u8| r.when(flags & mask != 0, |r| r.array().map(MacAddr));
        Ok(Self {
            source: mac(1)?,
            destination: mac(2)?,
            upper_source: mac(4)?,
            upper_destination: mac(8)?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let fields = [self.source, self.destination, self.upper_source, self.upper_destination];
        let flags = fields.iter().rev().fold(0, |set, mac| set << 1 | u8::from(mac.is_some()));
        w.u8(flags)?;
        fields.iter().flatten().try_for_each(|mac| w.bytes(&mac.0))
    }
}
