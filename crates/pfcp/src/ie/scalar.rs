//! IEs that are one integer, and small fixed structures.

use adit_types::{BarId, FarId, PdrId, Precedence, QerId, Qfi, UrrId};

use crate::ie::{FailedRuleId, FramedRouting, Ie, IeError, IeReader, IeType, MarId, SrrId};
use crate::writer::{NoRoom, PfcpWriter};

macro_rules! integer_ie {
    ($( $name:ty, $type:ident, $width:ident; )*) => { $(
        impl<'a> Ie<'a> for $name {
            const TYPE: IeType = IeType::$type;

            #[inline]
            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                IeReader::new(value).$width().map(Self)
            }

            #[inline]
            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                w.$width(self.0)
            }
        }
    )* };
}

macro_rules! scalars {
    ($( $(#[$doc:meta])* $name:ident, $type:ident, $width:ident; )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            #[repr(transparent)]
            pub struct $name(pub $width);
        )*
        integer_ie! { $( $name, $type, $width; )* }
    };
}

integer_ie! {
    PdrId, PDR_ID, u16;
    FarId, FAR_ID, u32;
    QerId, QER_ID, u32;
    UrrId, URR_ID, u32;
    BarId, BAR_ID, u8;
    Precedence, PRECEDENCE, u32;
    MarId, MAR_ID, u16;
    SrrId, SRR_ID, u8;
    FramedRouting, FRAMED_ROUTING, u32;
}

scalars! {
    /// Correlates QERs of several sessions. Spec: TS 29.244 §8.2.10.
    QerCorrelationId, QER_CORRELATION_ID, u32;
    /// ToS or Traffic Class in the first octet, its mask in the second. Spec: TS 29.244 §8.2.12.
    TransportLevelMarking, TRANSPORT_LEVEL_MARKING, u16;
    /// Type of the IE that caused a rejection. Spec: TS 29.244 §8.2.22.
    OffendingIe, OFFENDING_IE, u16;
    /// Delay of a downlink data notification. Unit: 50 ms. Spec: TS 29.244 §8.2.28.
    DownlinkDataNotificationDelay, DOWNLINK_DATA_NOTIFICATION_DELAY, u8;
    /// Sequence number of a load or overload report. Spec: TS 29.244 §8.2.33.
    SequenceNumber, SEQUENCE_NUMBER, u32;
    /// Load, or requested reduction in an overload. Unit: percent. Spec: TS 29.244 §8.2.34.
    Metric, METRIC, u8;
    /// Unit: seconds. Spec: TS 29.244 §8.2.42.
    MeasurementPeriod, MEASUREMENT_PERIOD, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.45.
    DurationMeasurement, DURATION_MEASUREMENT, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.14.
    TimeThreshold, TIME_THRESHOLD, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.51.
    TimeQuota, TIME_QUOTA, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.17.
    SubsequentTimeThreshold, SUBSEQUENT_TIME_THRESHOLD, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.87.
    SubsequentTimeQuota, SUBSEQUENT_TIME_QUOTA, u32;
    /// When the usage is to be measured separately from then on. Unit: seconds since 1900-01-01
    /// 00:00 UTC. Spec: TS 29.244 §8.2.15.
    MonitoringTime, MONITORING_TIME, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.18.
    InactivityDetectionTime, INACTIVITY_DETECTION_TIME, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.48.
    QuotaHoldingTime, QUOTA_HOLDING_TIME, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.132.
    QuotaValidityTime, QUOTA_VALIDITY_TIME, u32;
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.46.
    TimeOfFirstPacket, TIME_OF_FIRST_PACKET, u32;
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.47.
    TimeOfLastPacket, TIME_OF_LAST_PACKET, u32;
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.52.
    StartTime, START_TIME, u32;
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.53.
    EndTime, END_TIME, u32;
    /// When the node started. Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.65.
    RecoveryTimeStamp, RECOVERY_TIME_STAMP, u32;
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.114.
    EventTimeStamp, TIME_STAMP, u32;
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.121.
    ActivationTime, ACTIVATION_TIME, u32;
    /// Unit: seconds since 1900-01-01 00:00 UTC. Spec: TS 29.244 §8.2.122.
    DeactivationTime, DEACTIVATION_TIME, u32;
    /// The URR whose report also triggers a report of this URR. Spec: TS 29.244 §8.2.55.
    LinkedUrrId, LINKED_URR_ID, u32;
    /// A URR that shares a credit pool with others. Spec: TS 29.244 §8.2.85.
    AggregatedUrrId, AGGREGATED_URR_ID, u32;
    /// Sequence number of a usage report of its URR. Spec: TS 29.244 §8.2.71.
    UrSeqn, UR_SEQN, u32;
    /// Correlates usage reports with a query. Spec: TS 29.244 §8.2.90.
    QueryUrrReference, QUERY_URR_REFERENCE, u32;
    /// Unit: seconds; 0 stops the timer. Spec: TS 29.244 §8.2.83.
    UserPlaneInactivityTimer, USER_PLANE_INACTIVITY_TIMER, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.105.
    EthernetInactivityTimer, ETHERNET_INACTIVITY_TIMER, u32;
    /// Unit: events. Spec: TS 29.244 §8.2.112.
    EventQuota, EVENT_QUOTA, u32;
    /// Unit: events. Spec: TS 29.244 §8.2.113.
    EventThreshold, EVENT_THRESHOLD, u32;
    /// Unit: events. Spec: TS 29.244 §8.2.106.
    SubsequentEventQuota, SUBSEQUENT_EVENT_QUOTA, u32;
    /// Unit: events. Spec: TS 29.244 §8.2.107.
    SubsequentEventThreshold, SUBSEQUENT_EVENT_THRESHOLD, u32;
    /// Averaging window of a guaranteed bit rate. Unit: milliseconds. Spec: TS 29.244 §8.2.115.
    AveragingWindow, AVERAGING_WINDOW, u32;
    /// How many reports a URR may send. Spec: TS 29.244 §8.2.133.
    NumberOfReports, NUMBER_OF_REPORTS, u16;
    /// Identifier of a traffic endpoint. Spec: TS 29.244 §8.2.92.
    TrafficEndpointId, TRAFFIC_ENDPOINT_ID, u8;
    /// Unit: packets. Spec: TS 29.244 §8.2.100.
    SuggestedBufferingPacketsCount, SUGGESTED_BUFFERING_PACKETS_COUNT, u8;
    /// Unit: octets. Spec: TS 29.244 §8.2.173.
    DlDataPacketsSize, DL_DATA_PACKETS_SIZE, u16;
    /// Unit: milliseconds. Spec: TS 29.244 §8.2.162.
    AveragePacketDelay, AVERAGE_PACKET_DELAY, u32;
    /// Unit: milliseconds. Spec: TS 29.244 §8.2.163.
    MinimumPacketDelay, MINIMUM_PACKET_DELAY, u32;
    /// Unit: milliseconds. Spec: TS 29.244 §8.2.164.
    MaximumPacketDelay, MAXIMUM_PACKET_DELAY, u32;
    /// Unit: seconds. Spec: TS 29.244 §8.2.184.
    ValidityTimer, VALIDITY_TIMER, u16;
}

impl From<IeType> for OffendingIe {
    fn from(ie: IeType) -> Self {
        Self(ie.0)
    }
}

impl<'a> Ie<'a> for FailedRuleId {
    const TYPE: IeType = IeType::FAILED_RULE_ID;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(match r.u8()? & 0x1f {
            0 => Self::Pdr(PdrId(r.u16()?)),
            1 => Self::Far(FarId(r.u32()?)),
            2 => Self::Qer(QerId(r.u32()?)),
            3 => Self::Urr(UrrId(r.u32()?)),
            4 => Self::Bar(BarId(r.u8()?)),
            5 => Self::Mar(MarId(r.u16()?)),
            6 => Self::Srr(SrrId(r.u8()?)),
            _ => return Err(IeError::Value),
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(match self {
            Self::Pdr(_) => 0,
            Self::Far(_) => 1,
            Self::Qer(_) => 2,
            Self::Urr(_) => 3,
            Self::Bar(_) => 4,
            Self::Mar(_) => 5,
            Self::Srr(_) => 6,
        })?;
        match self {
            Self::Pdr(id) => w.u16(id.0),
            Self::Far(id) => w.u32(id.0),
            Self::Qer(id) => w.u32(id.0),
            Self::Urr(id) => w.u32(id.0),
            Self::Bar(id) => w.u8(id.0),
            Self::Mar(id) => w.u16(id.0),
            Self::Srr(id) => w.u8(id.0),
        }
    }
}

impl<'a> Ie<'a> for Qfi {
    const TYPE: IeType = IeType::QFI;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        // Bits 8 and 7 are spare.
        Qfi::new(IeReader::new(value).u8()? & Qfi::MAX).ok_or(IeError::Value)
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(self.value())
    }
}

/// Paging Policy Indicator, 0..=7. Spec: TS 29.244 §8.2.116.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PagingPolicyIndicator(pub u8);

impl<'a> Ie<'a> for PagingPolicyIndicator {
    const TYPE: IeType = IeType::PAGING_POLICY_INDICATOR;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        Ok(Self(IeReader::new(value).u8()? & 0x07))
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(self.0 & 0x07)
    }
}

/// A duration with three bits of unit and five bits of value, as in three IEs. Spec: TS 29.244
/// §8.2.35 (Timer), §8.2.29, §8.2.78.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timer(pub u8);

impl Timer {
    /// The timer that never ends.
    pub const INFINITE: Self = Self(0xe0);

    /// Returns the duration in seconds; `None` if infinite. Reserved units count as minutes.
    #[must_use]
    pub const fn as_secs(self) -> Option<u32> {
        let unit = match self.0 >> 5 {
            0 => 2,
            2 => 600,
            3 => 3_600,
            4 => 36_000,
            7 => return None,
            _ => 60,
        };
        Some(unit * (self.0 & 0x1f) as u32)
    }

    /// Returns the shortest timer of at least `secs` seconds, which is infinite beyond 310 hours.
    #[must_use]
    pub fn from_secs(secs: u32) -> Self {
        for (code, unit) in [(0u8, 2u32), (1, 60), (2, 600), (3, 3_600), (4, 36_000)] {
            if let Ok(value) = u8::try_from(secs.div_ceil(unit))
                && value <= 0x1f
            {
                return Self((code << 5) | value);
            }
        }
        Self::INFINITE
    }
}

macro_rules! timers {
    ($( $(#[$doc:meta])* $name:ident, $type:ident; )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub Timer);

        impl<'a> Ie<'a> for $name {
            const TYPE: IeType = IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                Ok(Self(Timer(IeReader::new(value).u8()?)))
            }

            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                w.u8(self.0.0)
            }
        }
    )* };
}

timers! {
    /// Period of validity of an overload report. Spec: TS 29.244 §8.2.35.
    PfcpTimer, TIMER;
    /// How long downlink packets are to be buffered. Spec: TS 29.244 §8.2.29.
    DlBufferingDuration, DL_BUFFERING_DURATION;
    /// Time until an association is released. Spec: TS 29.244 §8.2.78.
    GracefulReleasePeriod, GRACEFUL_RELEASE_PERIOD;
}

/// How many downlink packets to buffer; has one or two octets on the wire. Spec: TS 29.244 §8.2.30.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DlBufferingSuggestedPacketCount(pub u16);

impl<'a> Ie<'a> for DlBufferingSuggestedPacketCount {
    const TYPE: IeType = IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        match value {
            [] => Err(IeError::Length),
            [count] => Ok(Self(u16::from(*count))),
            [hi, lo, ..] => Ok(Self(u16::from_be_bytes([*hi, *lo]))),
        }
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        match u8::try_from(self.0) {
            Ok(count) => w.u8(count),
            Err(_) => w.u16(self.0),
        }
    }
}

/// Paging Policy Indication and QFI of the first downlink packet. Spec: TS 29.244 §8.2.27.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DownlinkDataServiceInformation {
    /// Paging Policy Indication: the DSCP of the packet, six bits.
    pub paging_policy_indication: Option<u8>,
    /// QFI of the packet.
    pub qfi: Option<Qfi>,
}

impl<'a> Ie<'a> for DownlinkDataServiceInformation {
    const TYPE: IeType = IeType::DOWNLINK_DATA_SERVICE_INFORMATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        let paging_policy_indication = r.when(flags & 1 != 0, |r| Ok(r.u8()? & 0x3f))?;
        let qfi = r.when(flags & 2 != 0, |r| Qfi::new(r.u8()? & Qfi::MAX).ok_or(IeError::Value))?;
        Ok(Self { paging_policy_indication, qfi })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(u8::from(self.paging_policy_indication.is_some()) | u8::from(self.qfi.is_some()) << 1)?;
        if let Some(ppi) = self.paging_policy_indication {
            w.u8(ppi & 0x3f)?;
        }
        if let Some(qfi) = self.qfi {
            w.u8(qfi.value())?;
        }
        Ok(())
    }
}

/// How time is counted against a quota. Spec: TS 29.244 §8.2.81.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeQuotaMechanism {
    /// Base Time Interval Type: 0 continuous, 1 discrete.
    pub interval_type: u8,
    /// Base Time Interval. Unit: seconds.
    pub interval_secs: u32,
}

impl<'a> Ie<'a> for TimeQuotaMechanism {
    const TYPE: IeType = IeType::TIME_QUOTA_MECHANISM;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(Self { interval_type: r.u8()? & 0x03, interval_secs: r.u32()? })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(self.interval_type & 0x03)?;
        w.u32(self.interval_secs)
    }
}

/// Factor of an aggregated URR: `digits` × 10^`exponent`. Spec: TS 29.244 §8.2.84.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Multiplier {
    /// Value digits.
    pub digits: i64,
    /// Exponent of ten.
    pub exponent: i32,
}

impl<'a> Ie<'a> for Multiplier {
    const TYPE: IeType = IeType::MULTIPLIER;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let digits = i64::from_be_bytes(r.array()?);
        Ok(Self { digits, exponent: i32::from_be_bytes(r.array()?) })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.bytes(&self.digits.to_be_bytes())?;
        w.bytes(&self.exponent.to_be_bytes())
    }
}

/// Usage reports that further messages will carry. Spec: TS 29.244 §8.2.91.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdditionalUsageReportsInformation {
    /// AURI: true if further reports follow.
    pub more: bool,
    /// Number of further reports, 0..=32767; 0 if unknown.
    pub count: u16,
}

impl<'a> Ie<'a> for AdditionalUsageReportsInformation {
    const TYPE: IeType = IeType::ADDITIONAL_USAGE_REPORTS_INFORMATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let field = IeReader::new(value).u16()?;
        Ok(Self { more: field & 0x8000 != 0, count: field & 0x7fff })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u16(u16::from(self.more) << 15 | self.count & 0x7fff)
    }
}

/// Slice identifier. Spec: TS 29.244 §8.2.176.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SNssai {
    /// Slice/Service Type.
    pub sst: u8,
    /// Slice Differentiator, 24 bits; 0xffffff is "none".
    pub sd: u32,
}

impl SNssai {
    /// The value of [`Self::sd`] that means no Slice Differentiator.
    pub const NO_SD: u32 = 0xff_ffff;
}

impl<'a> Ie<'a> for SNssai {
    const TYPE: IeType = IeType::S_NSSAI;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(Self { sst: r.u8()?, sd: r.u24()? })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(self.sst)?;
        w.u24(self.sd)
    }
}

/// The IE for which a request failed, with its contents. Spec: TS 29.244 §8.2.185.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OffendingIeInformation<'a> {
    /// The type of the IE.
    pub ie_type: IeType,
    /// The value of the IE; empty if the IE was missing.
    pub value: &'a [u8],
}

impl<'a> Ie<'a> for OffendingIeInformation<'a> {
    const TYPE: IeType = IeType::OFFENDING_IE_INFORMATION;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        Ok(Self { ie_type: IeType(r.u16()?), value: r.rest() })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u16(self.ie_type.0)?;
        w.bytes(self.value)
    }
}

/// How many UE IP addresses are in use, by version. Spec: TS 29.244 §8.2.183.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NumberOfUeIpAddresses {
    /// IPv4 addresses.
    pub v4: Option<u32>,
    /// IPv6 prefixes.
    pub v6: Option<u32>,
}

impl<'a> Ie<'a> for NumberOfUeIpAddresses {
    const TYPE: IeType = IeType::NUMBER_OF_UE_IP_ADDRESSES;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        let mut r = IeReader::new(value);
        let flags = r.u8()?;
        Ok(Self {
            v4: r.when(flags & 1 != 0, IeReader::u32)?,
            v6: r.when(flags & 2 != 0, IeReader::u32)?,
        })
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        w.u8(u8::from(self.v4.is_some()) | u8::from(self.v6.is_some()) << 1)?;
        [self.v4, self.v6].into_iter().flatten().try_for_each(|count| w.u32(count))
    }
}
