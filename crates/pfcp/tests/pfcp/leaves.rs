//! Every typed leaf IE under one check: decoding any octets never panics, a decoded value survives
//! encoding, and values shorter than the minimum of the table are refused.

use adit_pfcp::ie::*;
use adit_pfcp::{Cause, PfcpWriter};
use adit_types::{BarId, FarId, PdrId, Precedence, QerId, Qfi, UrrId};

/// The value of an IE.
pub(super) fn encoded<'a, T: Ie<'a>>(ie: &T) -> Vec<u8> {
    let mut buf = [0xa5; 4096];
    let mut w = PfcpWriter::new(&mut buf);
    ie.encode(&mut w).unwrap();
    let len = w.len();
    buf[..len].to_vec()
}

fn check<T>(octets: &[u8])
where
    T: for<'a> Ie<'a> + PartialEq + std::fmt::Debug,
{
    check_with(octets, |value| T::decode(value).ok().map(|ie| encoded(&ie)), T::TYPE);
}

/// `again` decodes a value and encodes it. One trip normalizes, a second one changes nothing.
fn check_with(octets: &[u8], again: impl Fn(&[u8]) -> Option<Vec<u8>>, ie_type: IeType) {
    let info = ie_type.info().unwrap();
    assert_eq!(info.status, DecodedForm::Full, "{ie_type}");
    let min_len = usize::from(info.min_len);
    for len in 0..=octets.len() {
        let Some(once) = again(&octets[..len]) else { continue };
        assert!(len >= min_len, "{ie_type} decoded from {len} octets");
        assert_eq!(again(&once).as_ref(), Some(&once), "{ie_type}");
        for prefix in 0..once.len() {
            let accepted = again(&once[..prefix]).is_some();
            assert!(!accepted || prefix >= min_len, "{ie_type} accepted a prefix of {prefix}");
        }
    }
}

macro_rules! leaves {
    (owned: $($owned:ty),*; borrowed: $($borrowed:ident),*;) => {
        /// Checks every type with the same octets and returns how many types there are.
        pub(crate) fn check_all(octets: &[u8]) -> usize {
            let mut count = 0;
            $( check::<$owned>(octets); count += 1; )*
            $(
                check_with(
                    octets,
                    |value| $borrowed::decode(value).ok().map(|ie| encoded(&ie)),
                    <$borrowed<'_> as Ie<'_>>::TYPE,
                );
                count += 1;
            )*
            count
        }

        /// A valid value of the leaf IE `ie_type` from `octets`, if they decode.
        pub(crate) fn canonical(ie_type: IeType, octets: &[u8]) -> Option<Vec<u8>> {
            $( if ie_type == <$owned as Ie<'_>>::TYPE {
                return <$owned>::decode(octets).ok().map(|ie| encoded(&ie));
            } )*
            $( if ie_type == <$borrowed<'_> as Ie<'_>>::TYPE {
                return $borrowed::decode(octets).ok().map(|ie| encoded(&ie));
            } )*
            None
        }
    };
}

leaves! {
    owned:
        ActivationTime, AdditionalUsageReportsInformation, AggregatedUrrId,
        AlternativeSmfIpAddress, ApplyAction, AssociationReleaseRequest, AveragePacketDelay,
        AveragingWindow, GtpuPathInterfaceType, MaximumPacketDelay, MinimumPacketDelay, QosReportTrigger, BarId,
        CTag, Cause, CpFunctionFeatures, CpIpAddress, CpPfcpEntityIpAddress, DataStatus, DeactivationTime,
        DestinationInterface, DlBufferingDuration, DlBufferingSuggestedPacketCount,
        DlDataPacketsSize, DlFlowLevelMarking, DownlinkDataNotificationDelay,
        DownlinkDataServiceInformation, DroppedDlTrafficThreshold, DurationMeasurement, EndTime,
        EthernetFilterId, EthernetFilterProperties, EthernetInactivityTimer,
        EthernetPduSessionInformation, Ethertype, EventQuota, EventThreshold, EventTimeStamp,
        FSeid, FTeid, FailedRuleId, FarId, FramedRouting, GateStatus, Gbr, GracefulReleasePeriod,
        InactivityDetectionTime, InterfaceType, IpVersion, LinkedUrrId, MacAddressFields, MarId,
        Mbr, MeasurementInformation, MeasurementMethod, MeasurementPeriod, Metric, MonitoringTime,
        MtEdtControlInformation, Multiplier, NfInstanceId, NodeReportType, NumberOfReports, NumberOfUeIpAddresses,
        OciFlags, OffendingIe, OuterHeaderCreation, OuterHeaderRemoval, PacketRate,
        PacketRateStatus, PagingPolicyIndicator, PdnType, PdrId, PfcpAsReqFlags, PfcpAsRspFlags,
        PfcpAuReqFlags, PfcpSdRspFlags, PfcpSeReqFlags, PfcpSmReqFlags, PfcpSrReqFlags,
        PfcpSrRspFlags, PfcpTimer, Precedence, Proxying, QerControlIndications, QerCorrelationId,
        QerId, QerIndications, Qfi, QueryUrrReference, QuotaHoldingTime, QuotaValidityTime,
        RatType, RecoveryTimeStamp, ReportType, ReportingTriggers, Rqi, SNssai, STag,
        SequenceNumber, SourceInterface, SourceIpAddress, SrrId, StartTime, SubsequentEventQuota,
        SubsequentEventThreshold, SubsequentTimeQuota, SubsequentTimeThreshold,
        SubsequentVolumeQuota, SubsequentVolumeThreshold, SuggestedBufferingPacketsCount,
        TimeOfFirstPacket, TimeOfLastPacket, TimeQuota, TimeQuotaMechanism, TimeThreshold,
        TrafficEndpointId, TransportLevelMarking, UeIpAddress, UpFunctionFeatures, UrSeqn, UrrId,
        UsageInformation, UsageReportTrigger, UserPlaneInactivityTimer, ValidityTimer,
        VolumeMeasurement, VolumeQuota, VolumeThreshold;
    borrowed:
        ActivatePredefinedRules, ApnDnn, ApplicationId, ApplicationInstanceId,
        DataNetworkAccessIdentifier, DeactivatePredefinedRules, FlowInformation,
        ForwardingPolicy, FqCsid, FramedIpv6Route, FramedRoute, GroupId, HeaderEnrichment,
        NetworkInstance, NodeId, OffendingIeInformation, PfdContents, RedirectInformation, RemoteGtpuPeer, SdfFilter,
        SmfSetId, TraceInformation, UeIpAddressPoolIdentity, UserId,
        UserPlaneIpResourceInformation, VendorSpecificNodeReportType;
}
