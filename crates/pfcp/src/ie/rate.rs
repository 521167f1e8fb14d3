//! Gates and rates of a QER.

use adit_types::BitRate;

use crate::ie::{Ie, IeError, IeReader, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// State of one gate. Spec: TS 29.244 §8.2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateState {
    /// Packets pass.
    Open,
    /// Packets are dropped; reserved code points count as closed.
    Closed,
}

/// Gates of both directions: bits 4 and 3 uplink, bits 2 and 1 downlink. Spec: TS 29.244 §8.2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GateStatus {
    /// Uplink gate.
    pub uplink: GateState,
    /// Downlink gate.
    pub downlink: GateState,
}

impl GateStatus {
    /// Both gates open.
    pub const OPEN: Self = Self { uplink: GateState::Open, downlink: GateState::Open };
}

impl<'a> Ie<'a> for GateStatus {
    const TYPE: IeType = IeType::GATE_STATUS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let octet = IeReader::new(value).u8()?;
        let gate = |bits: u8| if bits & 3 == 0 { GateState::Open } else { GateState::Closed };
        Ok(Self { uplink: gate(octet >> 2), downlink: gate(octet) })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let bits = |gate: GateState| u8::from(gate == GateState::Closed);
        w.u8(bits(self.uplink) << 2 | bits(self.downlink))
    }
}

/// Bit rates of both directions, on the wire five octets of kilobits per second each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RateLimits {
    /// Uplink rate.
    pub uplink: BitRate,
    /// Downlink rate.
    pub downlink: BitRate,
}

/// The largest rate that fits five octets. Unit: kilobits per second.
const KBPS_MAX: u64 = (1 << 40) - 1;

impl RateLimits {
    fn decode(value: &[u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(Self { uplink: BitRate::from_kbps(r.u40()?), downlink: BitRate::from_kbps(r.u40()?) })
    }

    /// Rounds up to whole kilobits per second, so that no limit becomes smaller on the wire.
    fn encode(self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u40(self.uplink.as_bps().div_ceil(1000).min(KBPS_MAX))?;
        w.u40(self.downlink.as_bps().div_ceil(1000).min(KBPS_MAX))
    }
}

macro_rules! rates {
    ($( $(#[$doc:meta])* $name:ident, $type:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub RateLimits);

        impl $name {
            /// Creates rates for both directions.
            #[must_use]
            pub const fn new(uplink: BitRate, downlink: BitRate) -> Self {
                Self(RateLimits { uplink, downlink })
            }
        }

        impl<'a> Ie<'a> for $name {
            const TYPE: IeType = IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                RateLimits::decode(value).map(Self)
            }

            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                self.0.encode(w)
            }
        }
    )* };
}

rates! {
    /// Maximum bit rate. Spec: TS 29.244 §8.2.8.
    Mbr, MBR;
    /// Guaranteed bit rate. Spec: TS 29.244 §8.2.9.
    Gbr, GBR;
}

/// How many packets may pass in a unit of time. Spec: TS 29.244 §8.2.63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketRateLimit {
    /// Time unit: 0 minute, 1 six minutes, 2 hour, 3 day, 4 week.
    pub time_unit: u8,
    /// Most packets in one time unit.
    pub packets_max: u16,
}

impl PacketRateLimit {
    fn decode(r: &mut IeReader<'_>) -> Result<Self, IeError> {
        Ok(Self { time_unit: r.u8()? & 0x07, packets_max: r.u16()? })
    }

    fn encode(limit: Option<Self>, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let Some(limit) = limit else { return Ok(()) };
        w.u8(limit.time_unit & 0x07)?;
        w.u16(limit.packets_max)
    }
}

/// Packet rates of both directions. If additional rates are present, there is one for each
/// direction that has a plain rate. Spec: TS 29.244 §8.2.63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketRate {
    /// Uplink (ULPR).
    pub uplink: Option<PacketRateLimit>,
    /// Downlink (DLPR).
    pub downlink: Option<PacketRateLimit>,
    /// Additional uplink rate for exception reports (APRC).
    pub additional_uplink: Option<PacketRateLimit>,
    /// Additional downlink rate for exception reports (APRC).
    pub additional_downlink: Option<PacketRateLimit>,
}

impl<'a> Ie<'a> for PacketRate {
    const TYPE: IeType = IeType::PACKET_RATE;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let (ul, dl, additional) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        Ok(Self {
            uplink: r.when(ul, PacketRateLimit::decode)?,
            downlink: r.when(dl, PacketRateLimit::decode)?,
            additional_uplink: r.when(ul && additional, PacketRateLimit::decode)?,
            additional_downlink: r.when(dl && additional, PacketRateLimit::decode)?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let additional = self.additional_uplink.is_some() || self.additional_downlink.is_some();
        w.u8(u8::from(self.uplink.is_some())
            | u8::from(self.downlink.is_some()) << 1
            | u8::from(additional) << 2)?;
        PacketRateLimit::encode(self.uplink, w)?;
        PacketRateLimit::encode(self.downlink, w)?;
        if additional {
            PacketRateLimit::encode(self.uplink.and(self.additional_uplink.or(self.uplink)), w)?;
            PacketRateLimit::encode(
                self.downlink.and(self.additional_downlink.or(self.downlink)),
                w,
            )?;
        }
        Ok(())
    }
}

/// How many packets a rate control still allows in one direction. Spec: TS 29.244 §8.2.139.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemainingPackets {
    /// Number of packets that remain.
    pub packets: u16,
    /// Exception reports that remain in addition; present for both directions or for none.
    pub additional: Option<u16>,
}

impl RemainingPackets {
    fn decode(r: &mut IeReader<'_>, additional: bool) -> Result<Self, IeError> {
        Ok(Self { packets: r.u16()?, additional: r.when(additional, IeReader::u16)? })
    }

    fn encode(self, additional: bool, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u16(self.packets)?;
        if additional { w.u16(self.additional.unwrap_or(0)) } else { Ok(()) }
    }
}

/// How many packets a rate control still allows in both directions. Spec: TS 29.244 §8.2.139.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PacketRateStatus {
    /// Uplink (UL).
    pub uplink: Option<RemainingPackets>,
    /// Downlink (DL).
    pub downlink: Option<RemainingPackets>,
    /// Rate control status validity time: an NTP time stamp of 64 bits.
    pub validity_time: u64,
}

impl<'a> Ie<'a> for PacketRateStatus {
    const TYPE: IeType = IeType::PACKET_RATE_STATUS;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let additional = flags & 4 != 0;
        Ok(Self {
            uplink: r.when(flags & 1 != 0, |r| RemainingPackets::decode(r, additional))?,
            downlink: r.when(flags & 2 != 0, |r| RemainingPackets::decode(r, additional))?,
            validity_time: r.u64()?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        let directions = [self.uplink, self.downlink];
        let additional = directions.iter().flatten().any(|d| d.additional.is_some());
        w.u8(u8::from(self.uplink.is_some())
            | u8::from(self.downlink.is_some()) << 1
            | u8::from(additional) << 2)?;
        directions.into_iter().flatten().try_for_each(|d| d.encode(additional, w))?;
        w.u64(self.validity_time)
    }
}

/// Marking of downlink packets towards the access network. Spec: TS 29.244 §8.2.66.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DlFlowLevelMarking {
    /// TTC: ToS or Traffic Class and its mask.
    pub tos_traffic_class: Option<[u8; 2]>,
    /// SCI: Service Class Indicator.
    pub service_class_indicator: Option<[u8; 2]>,
}

impl<'a> Ie<'a> for DlFlowLevelMarking {
    const TYPE: IeType = IeType::DL_FLOW_LEVEL_MARKING;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        Ok(Self {
            tos_traffic_class: r.when(flags & 1 != 0, IeReader::array)?,
            service_class_indicator: r.when(flags & 2 != 0, IeReader::array)?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(u8::from(self.tos_traffic_class.is_some())
            | u8::from(self.service_class_indicator.is_some()) << 1)?;
        self.tos_traffic_class.map_or(Ok(()), |ttc| w.bytes(&ttc))?;
        self.service_class_indicator.map_or(Ok(()), |sci| w.bytes(&sci))
    }
}
