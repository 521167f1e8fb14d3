//! SDF Filter and Flow Information.

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// Identifier of an SDF filter in a PFCP session. Spec: TS 29.244 §8.2.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SdfFilterId(pub u32);

/// A service data flow filter. If it has only a [`Self::filter_id`], it refers to the filter with
/// this identifier in another PDI of the session. INTEROP: some control planes whose rule has no
/// text send a filter without any field.
///
/// ```text
/// octet 5: spare(8-6) BID(5) FL(4) SPI(3) TTC(2) FD(1); octet 6 spare; then the fields in order
/// ```
/// Spec: TS 29.244 §8.2.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SdfFilter<'a> {
    /// FD: an IPFilterRule as text, as received.
    pub flow_description: Option<&'a [u8]>,
    /// TTC: ToS or Traffic Class in the first octet, mask in the second.
    pub tos_traffic_class: Option<[u8; 2]>,
    /// SPI: IPsec Security Parameter Index.
    pub security_parameter_index: Option<u32>,
    /// FL: IPv6 flow label, 20 bits.
    pub flow_label: Option<u32>,
    /// BID: identifier by which other PDIs refer to a bidirectional filter.
    pub filter_id: Option<SdfFilterId>,
}

impl<'a> SdfFilter<'a> {
    /// Creates a filter with a flow description only.
    #[must_use]
    pub fn from_flow_description(text: &'a str) -> Self {
        Self { flow_description: Some(text.as_bytes()), ..Self::default() }
    }
}

impl<'a> Ie<'a> for SdfFilter<'a> {
    const TYPE: IeType = IeType::SDF_FILTER;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let [flags, _spare] = r.array()?;
        // A condition of a later release must not be ignored: the filter would match more than its
        // sender meant.
        if flags & 0xe0 != 0 && flags & 0x1f == 0 {
            return Err(IeError::Value);
        }
        Ok(Self {
            flow_description: r.when(flags & 1 != 0, IeReader::bytes_len16)?,
            tos_traffic_class: r.when(flags & 2 != 0, IeReader::array)?,
            security_parameter_index: r.when(flags & 4 != 0, IeReader::u32)?,
            flow_label: r.when(flags & 8 != 0, |r| Ok(r.u24()? & 0x000f_ffff))?,
            filter_id: r.when(flags & 16 != 0, |r| r.u32().map(SdfFilterId))?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(u8::from(self.flow_description.is_some())
            | u8::from(self.tos_traffic_class.is_some()) << 1
            | u8::from(self.security_parameter_index.is_some()) << 2
            | u8::from(self.flow_label.is_some()) << 3
            | u8::from(self.filter_id.is_some()) << 4)?;
        w.u8(0)?;
        self.flow_description.map_or(Ok(()), |text| w.bytes_len16(text))?;
        self.tos_traffic_class.map_or(Ok(()), |ttc| w.bytes(&ttc))?;
        self.security_parameter_index.map_or(Ok(()), |spi| w.u32(spi))?;
        self.flow_label.map_or(Ok(()), |label| w.u24(label & 0x000f_ffff))?;
        self.filter_id.map_or(Ok(()), |id| w.u32(id.0))
    }
}

/// Direction of a detected flow. Spec: TS 29.244 §8.2.61.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowDirection {
    /// Not specified.
    Unspecified,
    /// Towards the UE.
    Downlink,
    /// From the UE.
    Uplink,
    /// Both.
    Bidirectional,
    /// A code point that has no name in Release 17.
    Unknown(u8),
}

/// A detected flow. Spec: TS 29.244 §8.2.61.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowInformation<'a> {
    /// Its direction.
    pub direction: FlowDirection,
    /// An IPFilterRule as text, as received.
    pub flow_description: &'a [u8],
}

impl<'a> Ie<'a> for FlowInformation<'a> {
    const TYPE: IeType = IeType::FLOW_INFORMATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let direction = match r.u8()? & 0x07 {
            0 => FlowDirection::Unspecified,
            1 => FlowDirection::Downlink,
            2 => FlowDirection::Uplink,
            3 => FlowDirection::Bidirectional,
            other => FlowDirection::Unknown(other),
        };
        Ok(Self { direction, flow_description: r.bytes_len16()? })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(match self.direction {
            FlowDirection::Unspecified => 0,
            FlowDirection::Downlink => 1,
            FlowDirection::Uplink => 2,
            FlowDirection::Bidirectional => 3,
            FlowDirection::Unknown(other) => other & 0x07,
        })?;
        w.bytes_len16(self.flow_description)
    }
}
