//! Information elements: the table of types, an iterator, and a Rust type for every leaf IE.
//!
//! Regular IEs (one integer, one set of flags, one code point, one string of octets) are rows of
//! macros in `scalar.rs`, `flags.rs`, `code.rs` and `octets.rs`; irregular IEs have own files.
//! Decoding ignores spare bits, and octets after the known fields, which later releases may add.

mod address;
mod cause;
mod code;
mod error;
mod ethernet;
mod flags;
mod flow;
mod fq_csid;
mod header_creation;
mod iter;
mod node_id;
mod octets;
mod pfd;
mod policy;
mod put;
mod rate;
mod reader;
mod rule_id;
mod scalar;
mod table;
mod trace;
mod user_id;
mod volume;

use crate::writer::{NoRoom, PfcpWriter};

pub use address::{
    AlternativeSmfIpAddress, CpIpAddress, CpPfcpEntityIpAddress, FSeid, FTeid, FTeidAddress,
    RemoteGtpuPeer, SourceIpAddress, UeIpAddress, UserPlaneIpResourceInformation,
};
pub use cause::Cause;
pub(crate) use code::code_points;
pub use code::{
    DestinationInterface, FramedRouting, InterfaceType, PdnType, RatType, SourceInterface,
};
pub(crate) use error::offset16;
pub use error::{DecodeError, DecodeErrorKind, IeError};
pub use ethernet::{CTag, EthernetFilterId, EthernetVlanTag, Ethertype, MacAddressFields, STag};
pub use flags::{
    ApplyAction, AssociationReleaseRequest, CpFunctionFeatures, DataStatus,
    EthernetFilterProperties, EthernetPduSessionInformation, GtpuPathInterfaceType, IpVersion,
    MeasurementInformation, MeasurementMethod, MtEdtControlInformation, NodeReportType, OciFlags,
    PfcpAsReqFlags, PfcpAsRspFlags, PfcpAuReqFlags, PfcpSdRspFlags, PfcpSeReqFlags, PfcpSmReqFlags,
    PfcpSrReqFlags, PfcpSrRspFlags, Proxying, QerControlIndications, QerIndications,
    QosReportTrigger, ReportType, ReportingTriggers, Rqi, UpFunctionFeatures, UsageInformation,
    UsageReportTrigger,
};
pub use flow::{FlowDirection, FlowInformation, SdfFilter, SdfFilterId};
pub use fq_csid::{FqCsid, FqCsidNode};
pub use header_creation::{
    OuterHeaderCreation, OuterHeaderDescription, OuterHeaderRemoval, OuterHeaderRemovalDescription,
};
pub use iter::{IeIter, RawIe};
pub use node_id::{Fqdn, NodeId};
pub use octets::{
    ActivatePredefinedRules, ApnDnn, ApplicationId, ApplicationInstanceId,
    DataNetworkAccessIdentifier, DeactivatePredefinedRules, FramedIpv6Route, FramedRoute, GroupId,
    NetworkInstance, NfInstanceId, SmfSetId, UeIpAddressPoolIdentity, VendorSpecificNodeReportType,
};
pub use pfd::PfdContents;
pub use policy::{ForwardingPolicy, HeaderEnrichment, RedirectAddressType, RedirectInformation};
pub use rate::{
    DlFlowLevelMarking, GateState, GateStatus, Gbr, Mbr, PacketRate, PacketRateLimit,
    PacketRateStatus, RateLimits, RemainingPackets,
};
pub(crate) use reader::IeReader;
pub use rule_id::{FailedRuleId, MarId, SrrId};
pub use scalar::{
    ActivationTime, AdditionalUsageReportsInformation, AggregatedUrrId, AveragePacketDelay,
    AveragingWindow, DeactivationTime, DlBufferingDuration, DlBufferingSuggestedPacketCount,
    DlDataPacketsSize, DownlinkDataNotificationDelay, DownlinkDataServiceInformation,
    DurationMeasurement, EndTime, EthernetInactivityTimer, EventQuota, EventThreshold,
    EventTimeStamp, GracefulReleasePeriod, InactivityDetectionTime, LinkedUrrId,
    MaximumPacketDelay, MeasurementPeriod, Metric, MinimumPacketDelay, MonitoringTime, Multiplier,
    NumberOfReports, NumberOfUeIpAddresses, OffendingIe, OffendingIeInformation,
    PagingPolicyIndicator, PfcpTimer, QerCorrelationId, QueryUrrReference, QuotaHoldingTime,
    QuotaValidityTime, RecoveryTimeStamp, SNssai, SequenceNumber, StartTime, SubsequentEventQuota,
    SubsequentEventThreshold, SubsequentTimeQuota, SubsequentTimeThreshold,
    SuggestedBufferingPacketsCount, TimeOfFirstPacket, TimeOfLastPacket, TimeQuota,
    TimeQuotaMechanism, TimeThreshold, Timer, TrafficEndpointId, TransportLevelMarking, UrSeqn,
    UserPlaneInactivityTimer, ValidityTimer,
};
pub use table::{DecodedForm, IE_TABLE, IeInfo, IeShape, IeType};
pub use trace::TraceInformation;
pub use user_id::UserId;
pub use volume::{
    DroppedDlTrafficThreshold, SubsequentVolumeQuota, SubsequentVolumeThreshold, VolumeMeasurement,
    VolumeQuota, VolumeThreshold,
};

/// A typed IE, leaf or grouped.
pub trait Ie<'a>: Sized {
    /// The type of the IE; [`PfcpWriter::put_as`] writes the same contents under another type.
    const TYPE: IeType;

    /// Decodes a value: the octets after type and length.
    ///
    /// # Errors
    /// [`IeError`] with the class of the first defect.
    fn decode(value: &'a [u8]) -> Result<Self, IeError>;

    /// Appends the value, without type and length.
    ///
    /// # Errors
    /// [`NoRoom`] if the buffer is full.
    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom>;
}

/// An IE that may have length zero, which withdraws the value of an earlier message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nullable<T> {
    /// Length zero.
    Null,
    /// A value.
    Value(T),
}

impl<T> Nullable<T> {
    /// Returns the value, or `None` for length zero.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<'a, T: Ie<'a>> Ie<'a> for Nullable<T> {
    const TYPE: IeType = T::TYPE;

    fn decode(value: &'a [u8]) -> Result<Self, IeError> {
        if value.is_empty() { Ok(Self::Null) } else { T::decode(value).map(Self::Value) }
    }

    fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
        match self {
            Self::Null => Ok(()),
            Self::Value(value) => value.encode(w),
        }
    }
}
