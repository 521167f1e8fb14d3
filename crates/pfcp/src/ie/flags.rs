//! IEs that are a set of named bits. Bit 1 of octet 5 is the lowest bit of the integer, bit 1 of
//! octet 6 is bit 8 of the integer, and so on. Bits without a name are kept.

use crate::ie::{Ie, IeError, IeType};
use crate::writer::{NoRoom, PfcpWriter};

/// Defines flag sets as `Name: integer, IE_CONST, D, E`. The decoder requires at least D octets.
/// The encoder writes at least E octets, and omits trailing zero octets after these.
macro_rules! flag_sets {
    ($( $(#[$doc:meta])*
        $name:ident: $int:ident, $type:ident, $decode_min:literal, $encode_min:literal {
            $( $bit:literal $flag:ident $text:literal, )*
        }
    )*) => { $(
        bitflags::bitflags! {
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct $name: $int {
                $( #[doc = $text] const $flag = 1 << $bit; )*
                /// The bits without a name, which later releases may name.
                const _ = !0;
            }
        }

        impl<'a> Ie<'a> for $name {
            const TYPE: IeType = IeType::$type;

            fn decode(value: &'a [u8]) -> Result<Self, IeError> {
                if value.len() < $decode_min {
                    return Err(IeError::Length);
                }
                let mut octets = [0; size_of::<$int>()];
                let len = octets.len().min(value.len());
                octets[..len].copy_from_slice(&value[..len]);
                Ok(Self::from_bits_retain($int::from_le_bytes(octets)))
            }

            fn encode(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                let octets = self.bits().to_le_bytes();
                let used = octets.iter().rposition(|o| *o != 0).map_or(0, |at| at + 1);
                let len = used.max($encode_min);
                w.bytes(&octets[..len])
            }
        }
    )* };
}

flag_sets! {
    /// The actions of a FAR on packets. Spec: TS 29.244 §8.2.26.
    ApplyAction: u16, APPLY_ACTION, 1, 1 {
        0 DROP "Drop.",
        1 FORW "Forward.",
        2 BUFF "Buffer.",
        3 NOCP "Notify the CP function of the first buffered downlink packet.",
        4 DUPL "Duplicate.",
        5 IPMA "IP multicast: accept join and leave.",
        6 IPMD "IP multicast: deny join and leave.",
        7 DFRT "Duplicate for redundant transmission.",
        8 EDRT "Eliminate duplicates of redundant transmission.",
        9 BDPN "Notify of the first buffered downlink packet.",
        10 DDPN "Notify of the first discarded downlink packet.",
        11 FSSM "Forward to the lower layer SSM.",
        12 MBSU "Forward and replicate MBS data over unicast.",
    }

    /// Events that make a URR send a report. Spec: TS 29.244 §8.2.19.
    ReportingTriggers: u32, REPORTING_TRIGGERS, 2, 3 {
        0 PERIO "Periodic.",
        1 VOLTH "Volume threshold.",
        2 TIMTH "Time threshold.",
        3 QUHTI "Quota holding time.",
        4 START "Start of traffic.",
        5 STOPT "Stop of traffic.",
        6 DROTH "Dropped downlink traffic threshold.",
        7 LIUSA "Linked usage reporting.",
        8 VOLQU "Volume quota.",
        9 TIMQU "Time quota.",
        10 ENVCL "Envelope closure.",
        11 MACAR "MAC addresses.",
        12 EVETH "Event threshold.",
        13 EVEQU "Event quota.",
        14 IPMJL "IP multicast join or leave.",
        15 QUVTI "Quota validity time.",
        16 REEMR "Reception of an End Marker.",
        17 UPINT "User plane inactivity timer.",
    }

    /// Why a usage report was made. Spec: TS 29.244 §8.2.41.
    UsageReportTrigger: u32, USAGE_REPORT_TRIGGER, 2, 3 {
        0 PERIO "Periodic.",
        1 VOLTH "Volume threshold.",
        2 TIMTH "Time threshold.",
        3 QUHTI "Quota holding time.",
        4 START "Start of traffic.",
        5 STOPT "Stop of traffic.",
        6 DROTH "Dropped downlink traffic threshold.",
        7 IMMER "Immediate report on demand.",
        8 VOLQU "Volume quota.",
        9 TIMQU "Time quota.",
        10 LIUSA "Linked usage reporting.",
        11 TERMR "Termination of the session, or removal of the rule.",
        12 MONIT "Monitoring time.",
        13 ENVCL "Envelope closure.",
        14 MACAR "MAC addresses.",
        15 EVETH "Event threshold.",
        16 EVEQU "Event quota.",
        17 TEBUR "Termination by the UP function.",
        18 IPMJL "IP multicast join or leave.",
        19 QUVTI "Quota validity time.",
        20 EMRRE "Reception of an End Marker.",
        21 UPINT "User plane inactivity timer.",
    }

    /// Contents of a Session Report Request. Spec: TS 29.244 §8.2.21.
    ReportType: u8, REPORT_TYPE, 1, 1 {
        0 DLDR "Downlink Data Report.",
        1 USAR "Usage Report.",
        2 ERIR "Error Indication Report.",
        3 UPIR "User Plane Inactivity Report.",
        4 TMIR "TSC Management Information Report.",
        5 SESR "Session Report.",
        6 UISR "UP Initiated Session Request.",
    }

    /// The features of the UP function. Spec: TS 29.244 §8.2.25.
    UpFunctionFeatures: u64, UP_FUNCTION_FEATURES, 2, 2 {
        0 BUCP "Buffering in the CP function.",
        1 DDND "Downlink data notification delay.",
        2 DLBD "DL buffering duration.",
        3 TRST "Traffic steering.",
        4 FTUP "F-TEID allocation in the UP function.",
        5 PFDM "PFD management.",
        6 HEEU "Header enrichment of uplink traffic.",
        7 TREU "Traffic redirection enforcement.",
        8 EMPU "Sending of End Markers.",
        9 PDIU "PDI optimization (traffic endpoints).",
        10 UDBC "UL/DL buffering control.",
        11 QUOAC "Quota action.",
        12 TRACE "Trace.",
        13 FRRT "Framed routing.",
        14 PFDE "PFD contents with several properties.",
        15 EPFAR "Enhanced PFCP association release.",
        16 DPDRA "Deferred PDR activation or deactivation.",
        17 ADPDP "Activation and deactivation of predefined PDRs.",
        18 UEIP "Allocation of UE IP addresses.",
        19 SSET "Sessions controlled by an SMF set.",
        20 MNOP "Measurement of number of packets.",
        21 MTE "Multiple instances of traffic endpoint identifiers.",
        22 BUNDL "Bundling of messages.",
        23 GCOM "5G VN group communication.",
        24 MPAS "Multiple associations to an SMF set.",
        25 RTTL "Redundant transmission at transport layer.",
        26 VTIME "Quota validity time.",
        27 NORP "Number of reports.",
        28 IPTV "IPTV.",
        29 IP6PL "IPv6 prefixes other than /64.",
        30 TSCU "Time sensitive communication.",
        31 MPTCP "MPTCP proxy.",
        32 ATSSS_LL "ATSSS-LL steering.",
        33 QFQM "QoS monitoring per QoS flow.",
        34 GPQM "QoS monitoring per GTP-U path.",
        35 MTEDT "Size of downlink data packets.",
        36 CIOT "CIoT optimizations.",
        37 ETHAR "Ethernet anchor relocation.",
        38 DDDS "Downlink data delivery status.",
        39 RDS "Reliable data service.",
        40 RTTWP "RTT measurements with PMF.",
        41 QUASF "Exempted application or SDF of a quota action.",
        42 NSPOC "Notification of the start of a pause of charging.",
        43 L2TP "L2TP.",
        44 UPBER "Uplink packet buffering during EAS relocation.",
        45 RESPS "Restoration of sessions on a peer failure.",
        46 IPREP "Replacement of IP address and port.",
        47 DNSTS "DNS traffic steering.",
        48 DRQOS "Direct reporting of QoS monitoring.",
        49 MBSN4 "MBS over N4mb.",
        50 PSUPRM "Per slice UP resource management.",
        51 EPPI "Enhanced paging policy indication.",
        52 RATP "Redirection address types of Release 17.",
        53 UPIDP "User plane inactivity per PDR.",
    }

    /// The features of the CP function. Spec: TS 29.244 §8.2.58.
    CpFunctionFeatures: u16, CP_FUNCTION_FEATURES, 1, 1 {
        0 LOAD "Load control.",
        1 OVRL "Overload control.",
        2 EPFAR "Enhanced PFCP association release.",
        3 SSET "SMF set.",
        4 BUNDL "Bundling of messages.",
        5 MPAS "Multiple associations from an SMF set.",
        6 ARDR "Additional reports in a deletion response.",
        7 UIAUR "UE IP address usage reporting.",
        8 PSUCC "Partial success.",
        9 RPGUR "Reports of peer GTP-U entity restart.",
    }

    /// Flags of a Session Modification Request. Spec: TS 29.244 §8.2.31.
    PfcpSmReqFlags: u8, PFCPSMREQ_FLAGS, 1, 1 {
        0 DROBU "Drop buffered packets.",
        1 SNDEM "Send End Marker packets.",
        2 QAURR "Query all URRs.",
        3 SUMPC "Stop usage measurement for a pause of charging.",
        4 RUMUC "Resume usage measurement.",
        5 DETEID "Delete all PDRs with the old local F-TEID.",
    }

    /// Flags of a Session Report Response. Spec: TS 29.244 §8.2.32.
    PfcpSrRspFlags: u8, PFCPSRRSP_FLAGS, 1, 1 {
        0 DROBU "Drop buffered packets.",
    }

    /// Flags of a Session Report Request. Spec: TS 29.244 §8.2.119.
    PfcpSrReqFlags: u8, PFCPSRREQ_FLAGS, 1, 1 {
        0 PSDBU "The UP function deleted the session.",
    }

    /// Flags of a Session Establishment Request. Spec: TS 29.244 §8.2.136.
    PfcpSeReqFlags: u8, PFCPSEREQ_FLAGS, 1, 1 {
        0 RESTI "Restoration of an existing session.",
        1 SUMPC "Stop usage measurement for a pause of charging.",
    }

    /// Flags of a Session Deletion Response. Spec: TS 29.244 §8.2.215.
    PfcpSdRspFlags: u8, PFCPSDRSP_FLAGS, 1, 1 {
        0 PURU "Pending usage reports are unacknowledged.",
    }

    /// Flags of an Association Update Request. Spec: TS 29.244 §8.2.120.
    PfcpAuReqFlags: u8, PFCPAUREQ_FLAGS, 1, 1 {
        0 PARPS "Preparation of the release starts.",
    }

    /// Flags of an Association Setup Request. Spec: TS 29.244 §8.2.178.
    PfcpAsReqFlags: u8, PFCPASREQ_FLAGS, 1, 1 {
        0 UUPSI "The UPF serves as IPUPS.",
    }

    /// Flags of an Association Setup Response. Spec: TS 29.244 §8.2.134.
    PfcpAsRspFlags: u8, PFCPASRSP_FLAGS, 1, 1 {
        0 PSREI "The sessions are retained.",
        1 UUPSI "The UPF serves as IPUPS.",
    }

    /// The quantities that a URR measures. Spec: TS 29.244 §8.2.40.
    MeasurementMethod: u8, MEASUREMENT_METHOD, 1, 1 {
        0 DURAT "Duration.",
        1 VOLUM "Volume.",
        2 EVENT "Events.",
    }

    /// How a URR measures. Spec: TS 29.244 §8.2.68.
    MeasurementInformation: u16, MEASUREMENT_INFORMATION, 1, 1 {
        0 MBQE "Before QoS enforcement.",
        1 INAM "Inactive.",
        2 RADI "Reduced application detection information.",
        3 ISTM "Immediate start of time metering.",
        4 MNOP "Number of packets too.",
        5 SSPOC "Send the start of a pause of charging.",
        6 ASPOC "Applicable for the start of a pause of charging.",
        7 CIAM "Control of inactive measurement.",
    }

    /// The part of the usage that a report includes. Spec: TS 29.244 §8.2.59.
    UsageInformation: u8, USAGE_INFORMATION, 1, 1 {
        0 BEF "Before the monitoring time or the change of QoS.",
        1 AFT "After it.",
        2 UAE "After QoS enforcement.",
        3 UBE "Before QoS enforcement.",
    }

    /// Contents of a Node Report Request. Spec: TS 29.244 §8.2.69.
    NodeReportType: u8, NODE_REPORT_TYPE, 1, 1 {
        0 UPFR "User Plane Path Failure Report.",
        1 UPRR "User Plane Path Recovery Report.",
        2 CKDR "Clock Drift Report.",
        3 GPQR "GTP-U Path QoS Report.",
        4 PURR "Peer UP Restart Report.",
        5 VSR "Vendor-Specific Report.",
    }

    /// Why delays of a GTP-U path are reported. Spec: TS 29.244 §8.2.165.
    QosReportTrigger: u8, QOS_REPORT_TRIGGER, 1, 1 {
        0 PER "Periodic.",
        1 THR "A threshold was exceeded.",
        2 IRE "Immediate report.",
    }

    /// Reference points of GTP-U paths. Spec: TS 29.244 §8.2.166.
    GtpuPathInterfaceType: u8, GTP_U_PATH_INTERFACE_TYPE, 1, 1 {
        0 N9 "Between UPFs.",
        1 N3 "Towards the access network.",
    }

    /// Scope of overload information. Spec: TS 29.244 §8.2.76.
    OciFlags: u8, OCI_FLAGS, 1, 1 {
        0 AOCI "Associated with the Node ID.",
    }

    /// The UP function's request to release the association. Spec: TS 29.244 §8.2.77.
    AssociationReleaseRequest: u8, PFCP_ASSOCIATION_RELEASE_REQUEST, 1, 1 {
        0 SARR "The association shall be released.",
        1 URSS "Usage reports of the affected sessions were sent.",
    }

    /// Reflective QoS. Spec: TS 29.244 §8.2.88.
    Rqi: u8, RQI, 1, 1 {
        0 RQI "Mark downlink packets for reflective QoS.",
    }

    /// Delivery status of downlink data. Spec: TS 29.244 §8.2.179.
    DataStatus: u8, DATA_STATUS, 1, 1 {
        0 DROP "The first downlink packet was discarded.",
        1 BUFF "The first downlink packet was buffered.",
    }

    /// Rate control status reporting. Spec: TS 29.244 §8.2.174.
    QerControlIndications: u8, QER_CONTROL_INDICATIONS, 1, 1 {
        0 RCSR "Report the rate control status when the session ends.",
        1 MOED "Marking of end of data burst.",
        2 NORD "No reporting of the QoS flow.",
    }

    /// Indications of a QER for MBS. Spec: TS 29.244 §8.2.216.
    QerIndications: u8, QER_INDICATIONS, 1, 1 {
        0 IQFIS "Insert the DL MBS QFI sequence number.",
    }

    /// Size reports of downlink packets. Spec: TS 29.244 §8.2.172.
    MtEdtControlInformation: u8, MT_EDT_CONTROL_INFORMATION, 1, 1 {
        0 RDSI "Report the size of downlink data packets.",
    }

    /// Supported IP versions. Spec: TS 29.244 §8.2.177.
    IpVersion: u8, IP_VERSION, 1, 1 {
        0 V4 "IPv4.",
        1 V6 "IPv6.",
    }

    /// Answers to ARP and neighbor solicitations. Spec: TS 29.244 §8.2.97.
    Proxying: u8, PROXYING, 1, 1 {
        0 ARP "Answer ARP.",
        1 INS "Answer IPv6 neighbor solicitations.",
    }

    /// Properties of an Ethernet packet filter. Spec: TS 29.244 §8.2.99.
    EthernetFilterProperties: u8, ETHERNET_FILTER_PROPERTIES, 1, 1 {
        0 BIDE "Bidirectional.",
    }

    /// Ethernet PDU session. Spec: TS 29.244 §8.2.102.
    EthernetPduSessionInformation: u8, ETHERNET_PDU_SESSION_INFORMATION, 1, 1 {
        0 ETHI "All packets of the Ethernet PDU session.",
    }
}
