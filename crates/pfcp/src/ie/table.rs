//! The table of all IE types. Spec: TS 29.244 §8.1.2, table 8.1.2-1.
//!
//! A row is `number CONST "name" "clause" shape minimum-length status`. The minimum length does not
//! apply to length zero, by which members of presence `N` in `grouped/` are withdrawn. The decoder
//! skips IEs of status `raw`, which have no typed form here, and lists them in
//! [`Ignored`](crate::Ignored).

use core::fmt;

/// Type of an IE: the number in its first two octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct IeType(pub u16);

/// Whether an IE contains further IEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IeShape {
    /// Contains IEs.
    Grouped,
    /// Contains a value.
    Leaf,
}

/// To which form this crate decodes an IE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedForm {
    /// To a typed value.
    Full,
    /// To the octets of its value.
    Raw,
}

/// A row of the table of IE types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IeInfo {
    /// The number.
    pub ie_type: IeType,
    /// The name in the specification.
    pub name: &'static str,
    /// The clause of TS 29.244 that defines the contents.
    pub clause: &'static str,
    /// Whether the IE contains further IEs.
    pub shape: IeShape,
    /// Length of the shortest value, apart from a withdrawal by length zero. Unit: octets.
    pub min_len: u16,
    /// To which form this crate decodes the IE.
    pub status: DecodedForm,
}

macro_rules! ie_table {
    ($( $number:literal $const:ident $name:literal $clause:literal $shape:ident $min:literal $status:ident; )*) => {
        impl IeType {
            $(
                #[doc = $name]
                pub const $const: Self = Self($number);
            )*
        }

        /// Every IE type of Release 17, ascending.
        pub static IE_TABLE: &[IeInfo] = &[ $(
            IeInfo {
                ie_type: IeType($number),
                name: $name,
                clause: $clause,
                shape: ie_table!(@shape $shape),
                min_len: $min,
                status: ie_table!(@status $status),
            },
        )* ];
    };
    (@shape grouped) => { IeShape::Grouped };
    (@shape leaf) => { IeShape::Leaf };
    (@status full) => { DecodedForm::Full };
    (@status raw) => { DecodedForm::Raw };
}

ie_table! {
    1 CREATE_PDR "Create PDR" "7.5.2.2" grouped 0 full;
    2 PDI "PDI" "7.5.2.2" grouped 0 full;
    3 CREATE_FAR "Create FAR" "7.5.2.3" grouped 0 full;
    4 FORWARDING_PARAMETERS "Forwarding Parameters" "7.5.2.3" grouped 0 full;
    5 DUPLICATING_PARAMETERS "Duplicating Parameters" "7.5.2.3" grouped 0 full;
    6 CREATE_URR "Create URR" "7.5.2.4" grouped 0 full;
    7 CREATE_QER "Create QER" "7.5.2.5" grouped 0 full;
    8 CREATED_PDR "Created PDR" "7.5.3.2" grouped 0 full;
    9 UPDATE_PDR "Update PDR" "7.5.4.2" grouped 0 full;
    10 UPDATE_FAR "Update FAR" "7.5.4.3" grouped 0 full;
    11 UPDATE_FORWARDING_PARAMETERS "Update Forwarding Parameters" "7.5.4.3" grouped 0 full;
    12 UPDATE_BAR_SESSION_REPORT_RESPONSE "Update BAR (PFCP Session Report Response)" "7.5.9.2" grouped 0 full;
    13 UPDATE_URR "Update URR" "7.5.4.4" grouped 0 full;
    14 UPDATE_QER "Update QER" "7.5.4.5" grouped 0 full;
    15 REMOVE_PDR "Remove PDR" "7.5.4.6" grouped 0 full;
    16 REMOVE_FAR "Remove FAR" "7.5.4.7" grouped 0 full;
    17 REMOVE_URR "Remove URR" "7.5.4.8" grouped 0 full;
    18 REMOVE_QER "Remove QER" "7.5.4.9" grouped 0 full;
    19 CAUSE "Cause" "8.2.1" leaf 1 full;
    20 SOURCE_INTERFACE "Source Interface" "8.2.2" leaf 1 full;
    21 F_TEID "F-TEID" "8.2.3" leaf 1 full;
    22 NETWORK_INSTANCE "Network Instance" "8.2.4" leaf 0 full;
    23 SDF_FILTER "SDF Filter" "8.2.5" leaf 2 full;
    24 APPLICATION_ID "Application ID" "8.2.6" leaf 0 full;
    25 GATE_STATUS "Gate Status" "8.2.7" leaf 1 full;
    26 MBR "MBR" "8.2.8" leaf 10 full;
    27 GBR "GBR" "8.2.9" leaf 10 full;
    28 QER_CORRELATION_ID "QER Correlation ID" "8.2.10" leaf 4 full;
    29 PRECEDENCE "Precedence" "8.2.11" leaf 4 full;
    30 TRANSPORT_LEVEL_MARKING "Transport Level Marking" "8.2.12" leaf 2 full;
    31 VOLUME_THRESHOLD "Volume Threshold" "8.2.13" leaf 1 full;
    32 TIME_THRESHOLD "Time Threshold" "8.2.14" leaf 4 full;
    33 MONITORING_TIME "Monitoring Time" "8.2.15" leaf 4 full;
    34 SUBSEQUENT_VOLUME_THRESHOLD "Subsequent Volume Threshold" "8.2.16" leaf 1 full;
    35 SUBSEQUENT_TIME_THRESHOLD "Subsequent Time Threshold" "8.2.17" leaf 4 full;
    36 INACTIVITY_DETECTION_TIME "Inactivity Detection Time" "8.2.18" leaf 4 full;
    37 REPORTING_TRIGGERS "Reporting Triggers" "8.2.19" leaf 2 full;
    38 REDIRECT_INFORMATION "Redirect Information" "8.2.20" leaf 3 full;
    39 REPORT_TYPE "Report Type" "8.2.21" leaf 1 full;
    40 OFFENDING_IE "Offending IE" "8.2.22" leaf 2 full;
    41 FORWARDING_POLICY "Forwarding Policy" "8.2.23" leaf 1 full;
    42 DESTINATION_INTERFACE "Destination Interface" "8.2.24" leaf 1 full;
    43 UP_FUNCTION_FEATURES "UP Function Features" "8.2.25" leaf 2 full;
    44 APPLY_ACTION "Apply Action" "8.2.26" leaf 1 full;
    45 DOWNLINK_DATA_SERVICE_INFORMATION "Downlink Data Service Information" "8.2.27" leaf 1 full;
    46 DOWNLINK_DATA_NOTIFICATION_DELAY "Downlink Data Notification Delay" "8.2.28" leaf 1 full;
    47 DL_BUFFERING_DURATION "DL Buffering Duration" "8.2.29" leaf 1 full;
    48 DL_BUFFERING_SUGGESTED_PACKET_COUNT "DL Buffering Suggested Packet Count" "8.2.30" leaf 1 full;
    49 PFCPSMREQ_FLAGS "PFCPSMReq-Flags" "8.2.31" leaf 1 full;
    50 PFCPSRRSP_FLAGS "PFCPSRRsp-Flags" "8.2.32" leaf 1 full;
    51 LOAD_CONTROL_INFORMATION "Load Control Information" "7.5.3.3" grouped 0 full;
    52 SEQUENCE_NUMBER "Sequence Number" "8.2.33" leaf 4 full;
    53 METRIC "Metric" "8.2.34" leaf 1 full;
    54 OVERLOAD_CONTROL_INFORMATION "Overload Control Information" "7.5.3.4" grouped 0 full;
    55 TIMER "Timer" "8.2.35" leaf 1 full;
    56 PDR_ID "PDR ID" "8.2.36" leaf 2 full;
    57 F_SEID "F-SEID" "8.2.37" leaf 9 full;
    58 APPLICATION_IDS_PFDS "Application ID's PFDs" "7.4.3.1" grouped 0 full;
    59 PFD_CONTEXT "PFD context" "7.4.3.1" grouped 0 full;
    60 NODE_ID "Node ID" "8.2.38" leaf 1 full;
    61 PFD_CONTENTS "PFD contents" "8.2.39" leaf 2 full;
    62 MEASUREMENT_METHOD "Measurement Method" "8.2.40" leaf 1 full;
    63 USAGE_REPORT_TRIGGER "Usage Report Trigger" "8.2.41" leaf 2 full;
    64 MEASUREMENT_PERIOD "Measurement Period" "8.2.42" leaf 4 full;
    65 FQ_CSID "FQ-CSID" "8.2.43" leaf 1 full;
    66 VOLUME_MEASUREMENT "Volume Measurement" "8.2.44" leaf 1 full;
    67 DURATION_MEASUREMENT "Duration Measurement" "8.2.45" leaf 4 full;
    68 APPLICATION_DETECTION_INFORMATION "Application Detection Information" "7.5.8.3" grouped 0 full;
    69 TIME_OF_FIRST_PACKET "Time of First Packet" "8.2.46" leaf 4 full;
    70 TIME_OF_LAST_PACKET "Time of Last Packet" "8.2.47" leaf 4 full;
    71 QUOTA_HOLDING_TIME "Quota Holding Time" "8.2.48" leaf 4 full;
    72 DROPPED_DL_TRAFFIC_THRESHOLD "Dropped DL Traffic Threshold" "8.2.49" leaf 1 full;
    73 VOLUME_QUOTA "Volume Quota" "8.2.50" leaf 1 full;
    74 TIME_QUOTA "Time Quota" "8.2.51" leaf 4 full;
    75 START_TIME "Start Time" "8.2.52" leaf 4 full;
    76 END_TIME "End Time" "8.2.53" leaf 4 full;
    77 QUERY_URR "Query URR" "7.5.4.10" grouped 0 full;
    78 USAGE_REPORT_SESSION_MODIFICATION_RESPONSE "Usage Report (Session Modification Response)" "7.5.5.2" grouped 0 full;
    79 USAGE_REPORT_SESSION_DELETION_RESPONSE "Usage Report (Session Deletion Response)" "7.5.7.2" grouped 0 full;
    80 USAGE_REPORT_SESSION_REPORT_REQUEST "Usage Report (Session Report Request)" "7.5.8.3" grouped 0 full;
    81 URR_ID "URR ID" "8.2.54" leaf 4 full;
    82 LINKED_URR_ID "Linked URR ID" "8.2.55" leaf 4 full;
    83 DOWNLINK_DATA_REPORT "Downlink Data Report" "7.5.8.2" grouped 0 full;
    84 OUTER_HEADER_CREATION "Outer Header Creation" "8.2.56" leaf 2 full;
    85 CREATE_BAR "Create BAR" "7.5.2.6" grouped 0 full;
    86 UPDATE_BAR_SESSION_MODIFICATION_REQUEST "Update BAR (PFCP Session Modification Request)" "7.5.4.11" grouped 0 full;
    87 REMOVE_BAR "Remove BAR" "7.5.4.12" grouped 0 full;
    88 BAR_ID "BAR ID" "8.2.57" leaf 1 full;
    89 CP_FUNCTION_FEATURES "CP Function Features" "8.2.58" leaf 1 full;
    90 USAGE_INFORMATION "Usage Information" "8.2.59" leaf 1 full;
    91 APPLICATION_INSTANCE_ID "Application Instance ID" "8.2.60" leaf 0 full;
    92 FLOW_INFORMATION "Flow Information" "8.2.61" leaf 3 full;
    93 UE_IP_ADDRESS "UE IP Address" "8.2.62" leaf 1 full;
    94 PACKET_RATE "Packet Rate" "8.2.63" leaf 1 full;
    95 OUTER_HEADER_REMOVAL "Outer Header Removal" "8.2.64" leaf 1 full;
    96 RECOVERY_TIME_STAMP "Recovery Time Stamp" "8.2.65" leaf 4 full;
    97 DL_FLOW_LEVEL_MARKING "DL Flow Level Marking" "8.2.66" leaf 1 full;
    98 HEADER_ENRICHMENT "Header Enrichment" "8.2.67" leaf 3 full;
    99 ERROR_INDICATION_REPORT "Error Indication Report" "7.5.8.4" grouped 0 full;
    100 MEASUREMENT_INFORMATION "Measurement Information" "8.2.68" leaf 1 full;
    101 NODE_REPORT_TYPE "Node Report Type" "8.2.69" leaf 1 full;
    102 USER_PLANE_PATH_FAILURE_REPORT "User Plane Path Failure Report" "7.4.5.1.2" grouped 0 full;
    103 REMOTE_GTP_U_PEER "Remote GTP-U Peer" "8.2.70" leaf 1 full;
    104 UR_SEQN "UR-SEQN" "8.2.71" leaf 4 full;
    105 UPDATE_DUPLICATING_PARAMETERS "Update Duplicating Parameters" "7.5.4.3" grouped 0 full;
    106 ACTIVATE_PREDEFINED_RULES "Activate Predefined Rules" "8.2.72" leaf 0 full;
    107 DEACTIVATE_PREDEFINED_RULES "Deactivate Predefined Rules" "8.2.73" leaf 0 full;
    108 FAR_ID "FAR ID" "8.2.74" leaf 4 full;
    109 QER_ID "QER ID" "8.2.75" leaf 4 full;
    110 OCI_FLAGS "OCI Flags" "8.2.76" leaf 1 full;
    111 PFCP_ASSOCIATION_RELEASE_REQUEST "PFCP Association Release Request" "8.2.77" leaf 1 full;
    112 GRACEFUL_RELEASE_PERIOD "Graceful Release Period" "8.2.78" leaf 1 full;
    113 PDN_TYPE "PDN Type" "8.2.79" leaf 1 full;
    114 FAILED_RULE_ID "Failed Rule ID" "8.2.80" leaf 2 full;
    115 TIME_QUOTA_MECHANISM "Time Quota Mechanism" "8.2.81" leaf 5 full;
    116 USER_PLANE_IP_RESOURCE_INFORMATION "User Plane IP Resource Information" "8.2.82" leaf 1 full;
    117 USER_PLANE_INACTIVITY_TIMER "User Plane Inactivity Timer" "8.2.83" leaf 4 full;
    118 AGGREGATED_URRS "Aggregated URRs" "7.5.2.4" grouped 0 full;
    119 MULTIPLIER "Multiplier" "8.2.84" leaf 12 full;
    120 AGGREGATED_URR_ID "Aggregated URR ID" "8.2.85" leaf 4 full;
    121 SUBSEQUENT_VOLUME_QUOTA "Subsequent Volume Quota" "8.2.86" leaf 1 full;
    122 SUBSEQUENT_TIME_QUOTA "Subsequent Time Quota" "8.2.87" leaf 4 full;
    123 RQI "RQI" "8.2.88" leaf 1 full;
    124 QFI "QFI" "8.2.89" leaf 1 full;
    125 QUERY_URR_REFERENCE "Query URR Reference" "8.2.90" leaf 4 full;
    126 ADDITIONAL_USAGE_REPORTS_INFORMATION "Additional Usage Reports Information" "8.2.91" leaf 2 full;
    127 CREATE_TRAFFIC_ENDPOINT "Create Traffic Endpoint" "7.5.2.7" grouped 0 full;
    128 CREATED_TRAFFIC_ENDPOINT "Created Traffic Endpoint" "7.5.3.5" grouped 0 full;
    129 UPDATE_TRAFFIC_ENDPOINT "Update Traffic Endpoint" "7.5.4.13" grouped 0 full;
    130 REMOVE_TRAFFIC_ENDPOINT "Remove Traffic Endpoint" "7.5.4.14" grouped 0 full;
    131 TRAFFIC_ENDPOINT_ID "Traffic Endpoint ID" "8.2.92" leaf 1 full;
    132 ETHERNET_PACKET_FILTER "Ethernet Packet Filter" "7.5.2.2" grouped 0 full;
    133 MAC_ADDRESS "MAC address" "8.2.93" leaf 1 full;
    134 C_TAG "C-TAG" "8.2.94" leaf 3 full;
    135 S_TAG "S-TAG" "8.2.95" leaf 3 full;
    136 ETHERTYPE "Ethertype" "8.2.96" leaf 2 full;
    137 PROXYING "Proxying" "8.2.97" leaf 1 full;
    138 ETHERNET_FILTER_ID "Ethernet Filter ID" "8.2.98" leaf 4 full;
    139 ETHERNET_FILTER_PROPERTIES "Ethernet Filter Properties" "8.2.99" leaf 1 full;
    140 SUGGESTED_BUFFERING_PACKETS_COUNT "Suggested Buffering Packets Count" "8.2.100" leaf 1 full;
    141 USER_ID "User ID" "8.2.101" leaf 1 full;
    142 ETHERNET_PDU_SESSION_INFORMATION "Ethernet PDU Session Information" "8.2.102" leaf 1 full;
    143 ETHERNET_TRAFFIC_INFORMATION "Ethernet Traffic Information" "7.5.8.3" grouped 0 raw;
    144 MAC_ADDRESSES_DETECTED "MAC Addresses Detected" "8.2.103" leaf 1 raw;
    145 MAC_ADDRESSES_REMOVED "MAC Addresses Removed" "8.2.104" leaf 1 raw;
    146 ETHERNET_INACTIVITY_TIMER "Ethernet Inactivity Timer" "8.2.105" leaf 4 full;
    147 ADDITIONAL_MONITORING_TIME "Additional Monitoring Time" "7.5.2.4" grouped 0 full;
    148 EVENT_QUOTA "Event Quota" "8.2.112" leaf 4 full;
    149 EVENT_THRESHOLD "Event Threshold" "8.2.113" leaf 4 full;
    150 SUBSEQUENT_EVENT_QUOTA "Subsequent Event Quota" "8.2.106" leaf 4 full;
    151 SUBSEQUENT_EVENT_THRESHOLD "Subsequent Event Threshold" "8.2.107" leaf 4 full;
    152 TRACE_INFORMATION "Trace Information" "8.2.108" leaf 10 full;
    153 FRAMED_ROUTE "Framed-Route" "8.2.109" leaf 0 full;
    154 FRAMED_ROUTING "Framed-Routing" "8.2.110" leaf 4 full;
    155 FRAMED_IPV6_ROUTE "Framed-IPv6-Route" "8.2.111" leaf 0 full;
    156 TIME_STAMP "Time Stamp" "8.2.114" leaf 4 full;
    157 AVERAGING_WINDOW "Averaging Window" "8.2.115" leaf 4 full;
    158 PAGING_POLICY_INDICATOR "Paging Policy Indicator" "8.2.116" leaf 1 full;
    159 APN_DNN "APN/DNN" "8.2.117" leaf 0 full;
    160 TGPP_INTERFACE_TYPE "3GPP Interface Type" "8.2.118" leaf 1 full;
    161 PFCPSRREQ_FLAGS "PFCPSRReq-Flags" "8.2.119" leaf 1 full;
    162 PFCPAUREQ_FLAGS "PFCPAUReq-Flags" "8.2.120" leaf 1 full;
    163 ACTIVATION_TIME "Activation Time" "8.2.121" leaf 4 full;
    164 DEACTIVATION_TIME "Deactivation Time" "8.2.122" leaf 4 full;
    165 CREATE_MAR "Create MAR" "7.5.2.8" grouped 0 raw;
    166 ACCESS_FORWARDING_ACTION_INFORMATION_1 "Access Forwarding Action Information 1" "7.5.2.8" grouped 0 raw;
    167 ACCESS_FORWARDING_ACTION_INFORMATION_2 "Access Forwarding Action Information 2" "7.5.2.8" grouped 0 raw;
    168 REMOVE_MAR "Remove MAR" "7.5.4.15" grouped 0 raw;
    169 UPDATE_MAR "Update MAR" "7.5.4.16" grouped 0 raw;
    170 MAR_ID "MAR ID" "8.2.123" leaf 2 full;
    171 STEERING_FUNCTIONALITY "Steering Functionality" "8.2.124" leaf 1 raw;
    172 STEERING_MODE "Steering Mode" "8.2.125" leaf 1 raw;
    173 WEIGHT "Weight" "8.2.126" leaf 1 raw;
    174 PRIORITY "Priority" "8.2.127" leaf 1 raw;
    175 UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_1 "Update Access Forwarding Action Information 1" "7.5.4.16" grouped 0 raw;
    176 UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_2 "Update Access Forwarding Action Information 2" "7.5.4.16" grouped 0 raw;
    177 UE_IP_ADDRESS_POOL_IDENTITY "UE IP address Pool Identity" "8.2.128" leaf 2 full;
    178 ALTERNATIVE_SMF_IP_ADDRESS "Alternative SMF IP Address" "8.2.129" leaf 1 full;
    179 PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION "Packet Replication and Detection Carry-On Information" "8.2.130" leaf 1 raw;
    180 SMF_SET_ID "SMF Set ID" "8.2.131" leaf 2 full;
    181 QUOTA_VALIDITY_TIME "Quota Validity Time" "8.2.132" leaf 4 full;
    182 NUMBER_OF_REPORTS "Number of Reports" "8.2.133" leaf 2 full;
    183 PFCP_SESSION_RETENTION_INFORMATION "PFCP Session Retention Information" "7.4.4.1" grouped 0 full;
    184 PFCPASRSP_FLAGS "PFCPASRsp-Flags" "8.2.134" leaf 1 full;
    185 CP_PFCP_ENTITY_IP_ADDRESS "CP PFCP Entity IP Address" "8.2.135" leaf 1 full;
    186 PFCPSEREQ_FLAGS "PFCPSEReq-Flags" "8.2.136" leaf 1 full;
    187 USER_PLANE_PATH_RECOVERY_REPORT "User Plane Path Recovery Report" "7.4.5.1.3" grouped 0 full;
    188 IP_MULTICAST_ADDRESSING_INFO "IP Multicast Addressing Info" "7.5.2.2" grouped 0 raw;
    189 JOIN_IP_MULTICAST_INFORMATION "Join IP Multicast Information" "7.5.8.3" grouped 0 raw;
    190 LEAVE_IP_MULTICAST_INFORMATION "Leave IP Multicast Information" "7.5.8.3" grouped 0 raw;
    191 IP_MULTICAST_ADDRESS "IP Multicast Address" "8.2.137" leaf 1 raw;
    192 SOURCE_IP_ADDRESS "Source IP Address" "8.2.138" leaf 1 full;
    193 PACKET_RATE_STATUS "Packet Rate Status" "8.2.139" leaf 1 full;
    194 CREATE_BRIDGE_INFO_FOR_TSC "Create Bridge Info for TSC" "8.2.140" leaf 1 raw;
    195 CREATED_BRIDGE_INFO_FOR_TSC "Created Bridge Info for TSC" "7.5.3.6" grouped 0 raw;
    196 DS_TT_PORT_NUMBER "DS-TT Port Number" "8.2.141" leaf 0 raw;
    197 NW_TT_PORT_NUMBER "NW-TT Port Number" "8.2.142" leaf 0 raw;
    198 FIVEGS_USER_PLANE_NODE "5GS User Plane Node" "8.2.143" leaf 0 raw;
    199 TSC_MANAGEMENT_INFORMATION_MODIFICATION_REQUEST "TSC Management Information (PFCP Session Modification Request)" "7.5.4.18" grouped 0 raw;
    200 TSC_MANAGEMENT_INFORMATION_MODIFICATION_RESPONSE "TSC Management Information (PFCP Session Modification Response)" "7.5.5.3" grouped 0 raw;
    201 TSC_MANAGEMENT_INFORMATION_REPORT_REQUEST "TSC Management Information (PFCP Session Report Request)" "7.5.8.5" grouped 0 raw;
    202 PORT_MANAGEMENT_INFORMATION_CONTAINER "Port Management Information Container" "8.2.144" leaf 0 raw;
    203 CLOCK_DRIFT_CONTROL_INFORMATION "Clock Drift Control Information" "7.4.4.1" grouped 0 raw;
    204 REQUESTED_CLOCK_DRIFT_INFORMATION "Requested Clock Drift Information" "8.2.145" leaf 0 raw;
    205 CLOCK_DRIFT_REPORT "Clock Drift Report" "7.4.5.1.4" grouped 0 raw;
    206 TIME_DOMAIN_NUMBER "Time Domain Number" "8.2.146" leaf 0 raw;
    207 TIME_OFFSET_THRESHOLD "Time Offset Threshold" "8.2.147" leaf 0 raw;
    208 CUMULATIVE_RATERATIO_THRESHOLD "Cumulative rateRatio Threshold" "8.2.148" leaf 0 raw;
    209 TIME_OFFSET_MEASUREMENT "Time Offset Measurement" "8.2.149" leaf 0 raw;
    210 CUMULATIVE_RATERATIO_MEASUREMENT "Cumulative rateRatio Measurement" "8.2.150" leaf 0 raw;
    211 REMOVE_SRR "Remove SRR" "7.5.4.19" grouped 0 raw;
    212 CREATE_SRR "Create SRR" "7.5.2.9" grouped 0 raw;
    213 UPDATE_SRR "Update SRR" "7.5.4.20" grouped 0 raw;
    214 SESSION_REPORT "Session Report" "7.5.8.6" grouped 0 raw;
    215 SRR_ID "SRR ID" "8.2.151" leaf 1 full;
    216 ACCESS_AVAILABILITY_CONTROL_INFORMATION "Access Availability Control Information" "7.5.2.9" grouped 0 raw;
    217 REQUESTED_ACCESS_AVAILABILITY_INFORMATION "Requested Access Availability Information" "8.2.152" leaf 0 raw;
    218 ACCESS_AVAILABILITY_REPORT "Access Availability Report" "7.5.8.6" grouped 0 raw;
    219 ACCESS_AVAILABILITY_INFORMATION "Access Availability Information" "8.2.153" leaf 0 raw;
    220 PROVIDE_ATSSS_CONTROL_INFORMATION "Provide ATSSS Control Information" "7.5.2.10" grouped 0 raw;
    221 ATSSS_CONTROL_PARAMETERS "ATSSS Control Parameters" "7.5.3.7" grouped 0 raw;
    222 MPTCP_CONTROL_INFORMATION "MPTCP Control Information" "8.2.154" leaf 0 raw;
    223 ATSSS_LL_CONTROL_INFORMATION "ATSSS-LL Control Information" "8.2.155" leaf 0 raw;
    224 PMF_CONTROL_INFORMATION "PMF Control Information" "8.2.156" leaf 0 raw;
    225 MPTCP_PARAMETERS "MPTCP Parameters" "7.5.3.7" grouped 0 raw;
    226 ATSSS_LL_PARAMETERS "ATSSS-LL Parameters" "7.5.3.7" grouped 0 raw;
    227 PMF_PARAMETERS "PMF Parameters" "7.5.3.7" grouped 0 raw;
    228 MPTCP_ADDRESS_INFORMATION "MPTCP Address Information" "8.2.157" leaf 0 raw;
    229 UE_LINK_SPECIFIC_IP_ADDRESS "UE Link-Specific IP Address" "8.2.158" leaf 0 raw;
    230 PMF_ADDRESS_INFORMATION "PMF Address Information" "8.2.159" leaf 0 raw;
    231 ATSSS_LL_INFORMATION "ATSSS-LL Information" "8.2.160" leaf 0 raw;
    232 DATA_NETWORK_ACCESS_IDENTIFIER "Data Network Access Identifier" "8.2.161" leaf 0 full;
    233 UE_IP_ADDRESS_POOL_INFORMATION "UE IP address Pool Information" "7.4.4.1" grouped 0 full;
    234 AVERAGE_PACKET_DELAY "Average Packet Delay" "8.2.162" leaf 4 full;
    235 MINIMUM_PACKET_DELAY "Minimum Packet Delay" "8.2.163" leaf 4 full;
    236 MAXIMUM_PACKET_DELAY "Maximum Packet Delay" "8.2.164" leaf 4 full;
    237 QOS_REPORT_TRIGGER "QoS Report Trigger" "8.2.165" leaf 1 full;
    238 GTP_U_PATH_QOS_CONTROL_INFORMATION "GTP-U Path QoS Control Information" "7.4.4.1" grouped 0 full;
    239 GTP_U_PATH_QOS_REPORT "GTP-U Path QoS Report" "7.4.5.1.5" grouped 0 full;
    240 QOS_INFORMATION_IN_GTP_U_PATH_QOS_REPORT "QoS Information in GTP-U Path QoS Report" "7.4.5.1.5" grouped 0 full;
    241 GTP_U_PATH_INTERFACE_TYPE "GTP-U Path Interface Type" "8.2.166" leaf 1 full;
    242 QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION "QoS Monitoring per QoS flow Control Information" "7.5.2.9" grouped 0 raw;
    243 REQUESTED_QOS_MONITORING "Requested QoS Monitoring" "8.2.167" leaf 1 raw;
    244 REPORTING_FREQUENCY "Reporting Frequency" "8.2.168" leaf 1 raw;
    245 PACKET_DELAY_THRESHOLDS "Packet Delay Thresholds" "8.2.169" leaf 1 raw;
    246 MINIMUM_WAIT_TIME "Minimum Wait Time" "8.2.170" leaf 4 raw;
    247 QOS_MONITORING_REPORT "QoS Monitoring Report" "7.5.8.6" grouped 0 raw;
    248 QOS_MONITORING_MEASUREMENT "QoS Monitoring Measurement" "8.2.171" leaf 1 raw;
    249 MT_EDT_CONTROL_INFORMATION "MT-EDT Control Information" "8.2.172" leaf 1 full;
    250 DL_DATA_PACKETS_SIZE "DL Data Packets Size" "8.2.173" leaf 2 full;
    251 QER_CONTROL_INDICATIONS "QER Control Indications" "8.2.174" leaf 1 full;
    252 PACKET_RATE_STATUS_REPORT "Packet Rate Status Report" "7.5.7.1" grouped 0 full;
    253 NF_INSTANCE_ID "NF Instance ID" "8.2.175" leaf 16 full;
    254 ETHERNET_CONTEXT_INFORMATION "Ethernet Context Information" "7.5.4.21" grouped 0 raw;
    255 REDUNDANT_TRANSMISSION_DETECTION_PARAMETERS "Redundant Transmission Detection Parameters" "7.5.2.2" grouped 0 raw;
    256 UPDATED_PDR "Updated PDR" "7.5.9.3" grouped 0 full;
    257 S_NSSAI "S-NSSAI" "8.2.176" leaf 4 full;
    258 IP_VERSION "IP version" "8.2.177" leaf 1 full;
    259 PFCPASREQ_FLAGS "PFCPASReq-Flags" "8.2.178" leaf 1 full;
    260 DATA_STATUS "Data Status" "8.2.179" leaf 1 full;
    261 PROVIDE_RDS_CONFIGURATION_INFORMATION "Provide RDS Configuration Information" "7.5.2.11" grouped 0 raw;
    262 RDS_CONFIGURATION_INFORMATION "RDS Configuration Information" "8.2.180" leaf 1 raw;
    263 QUERY_PACKET_RATE_STATUS "Query Packet Rate Status" "7.5.4.22" grouped 0 full;
    264 PACKET_RATE_STATUS_REPORT_MODIFICATION_RESPONSE "Packet Rate Status Report (PFCP Session Modification Response)" "7.5.5.4" grouped 0 full;
    265 MPTCP_APPLICABLE_INDICATION "MPTCP Applicable Indication" "8.2.181" leaf 1 raw;
    266 USER_PLANE_NODE_MANAGEMENT_INFORMATION_CONTAINER "User Plane Node Management Information Container" "8.2.182" leaf 0 raw;
    267 UE_IP_ADDRESS_USAGE_INFORMATION "UE IP Address Usage Information" "7.4.4.3.1" grouped 0 full;
    268 NUMBER_OF_UE_IP_ADDRESSES "Number of UE IP Addresses" "8.2.183" leaf 1 full;
    269 VALIDITY_TIMER "Validity Timer" "8.2.184" leaf 2 full;
    270 REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS "Redundant Transmission Forwarding Parameters" "7.5.2.3" grouped 0 raw;
    271 TRANSPORT_DELAY_REPORTING "Transport Delay Reporting" "7.5.2.2" grouped 0 raw;
    272 PARTIAL_FAILURE_INFORMATION "Partial Failure Information" "7.5.3.1" grouped 0 full;
    273 PARTIAL_FAILURE_INFORMATION_MODIFICATION_RESPONSE "Partial Failure Information (PFCP Session Modification Response)" "7.5.5.1" grouped 0 raw;
    274 OFFENDING_IE_INFORMATION "Offending IE Information" "8.2.185" leaf 2 full;
    275 RAT_TYPE "RAT Type" "8.2.186" leaf 1 full;
    276 L2TP_TUNNEL_INFORMATION "L2TP Tunnel Information" "7.5.2.1" grouped 0 raw;
    277 L2TP_SESSION_INFORMATION_REQUEST "L2TP Session Information (PFCP Session Establishment Request)" "7.5.2.1" grouped 0 raw;
    278 L2TP_USER_AUTHENTICATION "L2TP User Authentication" "8.2.187" leaf 0 raw;
    279 L2TP_SESSION_INFORMATION_RESPONSE "L2TP Session Information (PFCP Session Establishment Response)" "7.5.3.1" grouped 0 raw;
    280 LNS_ADDRESS "LNS Address" "8.2.188" leaf 0 raw;
    281 TUNNEL_PREFERENCE "Tunnel Preference" "8.2.189" leaf 0 raw;
    282 CALLING_NUMBER "Calling Number" "8.2.190" leaf 0 raw;
    283 CALLED_NUMBER "Called Number" "8.2.191" leaf 0 raw;
    284 L2TP_SESSION_INDICATIONS "L2TP Session Indications" "8.2.192" leaf 0 raw;
    285 DNS_SERVER_ADDRESS "DNS Server Address" "8.2.193" leaf 0 raw;
    286 NBNS_SERVER_ADDRESS "NBNS Server Address" "8.2.194" leaf 0 raw;
    287 MAXIMUM_RECEIVE_UNIT "Maximum Receive Unit" "8.2.195" leaf 0 raw;
    288 THRESHOLDS "Thresholds" "8.2.196" leaf 0 raw;
    289 STEERING_MODE_INDICATOR "Steering Mode Indicator" "8.2.197" leaf 0 raw;
    290 PFCP_SESSION_CHANGE_INFO "PFCP Session Change Info" "7.4.7.1" grouped 0 full;
    291 GROUP_ID "Group ID" "8.2.198" leaf 0 full;
    292 CP_IP_ADDRESS "CP IP Address" "8.2.199" leaf 1 full;
    293 IP_ADDRESS_AND_PORT_NUMBER_REPLACEMENT "IP Address and Port Number Replacement" "8.2.200" leaf 0 raw;
    294 DNS_QUERY_FILTER "DNS Query Filter" "8.2.201" leaf 0 raw;
    295 DIRECT_REPORTING_INFORMATION "Direct Reporting Information" "7.5.2.9" grouped 0 raw;
    296 EVENT_NOTIFICATION_URI "Event Notification URI" "8.2.202" leaf 0 raw;
    297 NOTIFICATION_CORRELATION_ID "Notification Correlation ID" "8.2.203" leaf 0 raw;
    298 REPORTING_FLAGS "Reporting Flags" "8.2.204" leaf 0 raw;
    299 PREDEFINED_RULES_NAME "Predefined Rules Name" "8.2.205" leaf 0 raw;
    300 MBS_SESSION_N4MB_CONTROL_INFORMATION "MBS Session N4mb Control Information" "7.5.2.1" grouped 0 raw;
    301 MBS_MULTICAST_PARAMETERS "MBS Multicast Parameters" "7.5.2.3" grouped 0 raw;
    302 ADD_MBS_UNICAST_PARAMETERS "Add MBS Unicast Parameters" "7.5.2.3" grouped 0 raw;
    303 MBS_SESSION_N4MB_INFORMATION "MBS Session N4mb Information" "7.5.3.1" grouped 0 raw;
    304 REMOVE_MBS_UNICAST_PARAMETERS "Remove MBS Unicast Parameters" "7.5.4.3" grouped 0 raw;
    305 MBS_SESSION_IDENTIFIER "MBS Session Identifier" "8.2.206" leaf 0 raw;
    306 MULTICAST_TRANSPORT_INFORMATION "Multicast Transport Information" "8.2.207" leaf 0 raw;
    307 MBSN4MBREQ_FLAGS "MBSN4mbReq-Flags" "8.2.208" leaf 0 raw;
    308 LOCAL_INGRESS_TUNNEL "Local Ingress Tunnel" "8.2.209" leaf 0 raw;
    309 MBS_UNICAST_PARAMETERS_ID "MBS Unicast Parameters ID" "8.2.210" leaf 0 raw;
    310 MBS_SESSION_N4_CONTROL_INFORMATION "MBS Session N4 Control Information" "7.5.2.1" grouped 0 raw;
    311 MBS_SESSION_N4_INFORMATION "MBS Session N4 Information" "7.5.3.1" grouped 0 raw;
    312 MBSN4RESP_FLAGS "MBSN4Resp-Flags" "8.2.211" leaf 0 raw;
    313 TUNNEL_PASSWORD "Tunnel Password" "8.2.212" leaf 0 raw;
    314 AREA_SESSION_ID "Area Session ID" "8.2.213" leaf 0 raw;
    315 PEER_UP_RESTART_REPORT "Peer UP Restart Report" "7.4.5.1.6" grouped 0 full;
    316 DSCP_TO_PPI_CONTROL_INFORMATION "DSCP to PPI Control Information" "7.5.2.1" grouped 0 raw;
    317 DSCP_TO_PPI_MAPPING_INFORMATION "DSCP to PPI Mapping Information" "8.2.214" leaf 0 raw;
    318 PFCPSDRSP_FLAGS "PFCPSDRsp-Flags" "8.2.215" leaf 1 full;
    319 QER_INDICATIONS "QER Indications" "8.2.216" leaf 1 full;
    320 VENDOR_SPECIFIC_NODE_REPORT_TYPE "Vendor-Specific Node Report Type" "8.2.217" leaf 3 full;
}

impl IeType {
    /// Returns the row of the table, or `None` for a type that Release 17 does not define.
    #[must_use]
    pub fn info(self) -> Option<&'static IeInfo> {
        let row = IE_TABLE.binary_search_by_key(&self, |info| info.ie_type).ok()?;
        IE_TABLE.get(row)
    }

    /// Returns the name in the specification, or `"unknown"` outside the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().map_or("unknown", |info| info.name)
    }

    /// True for types that an enterprise defines (the top bit is set).
    #[must_use]
    pub const fn is_enterprise(self) -> bool {
        self.0 & 0x8000 != 0
    }
}

impl fmt::Display for IeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}
