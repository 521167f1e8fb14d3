//! The one table of IE types. Spec: TS 29.244 §8.1.2, table 8.1.2-1.
//!
//! A row is `number CONST "name" shape minimum-length null status`. The minimum length is that of
//! a value which is not null; `nullable` IEs may have length zero where that withdraws a setting,
//! `maybe_empty` ones have no fixed part. `raw` IEs have no typed form here: they are skipped, and
//! visible in [`Ignored`](crate::Ignored).

use core::fmt;

/// Type of an IE: the first two octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct IeType(pub u16);

/// Whether an IE contains further IEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Contains IEs.
    Grouped,
    /// Contains a value.
    Leaf,
}

/// Whether an IE may have length zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullLength {
    /// Length zero withdraws a setting.
    Nullable,
    /// The value has no fixed part, so that length zero is a value like another.
    MaybeEmpty,
    /// Length zero is invalid.
    NeverEmpty,
}

/// How far this crate decodes an IE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// To a typed value.
    Full,
    /// To its octets.
    Raw,
}

/// What the table says about one IE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IeInfo {
    /// The number.
    pub ie_type: IeType,
    /// The name in the specification.
    pub name: &'static str,
    /// Whether it contains further IEs.
    pub shape: Shape,
    /// The least octets of a value that is not null.
    pub min_len: u16,
    /// Whether length zero is allowed.
    pub null_length: NullLength,
    /// How far it is decoded.
    pub status: Status,
}

macro_rules! ie_table {
    ($( $number:literal $const:ident $name:literal $shape:ident $min:literal $null:ident $status:ident; )*) => {
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
                shape: ie_table!(@shape $shape),
                min_len: $min,
                null_length: ie_table!(@null $null),
                status: ie_table!(@status $status),
            },
        )* ];
    };
    (@shape grouped) => { Shape::Grouped };
    (@shape leaf) => { Shape::Leaf };
    (@null nullable) => { NullLength::Nullable };
    (@null maybe_empty) => { NullLength::MaybeEmpty };
    (@null never_empty) => { NullLength::NeverEmpty };
    (@status full) => { Status::Full };
    (@status raw) => { Status::Raw };
}

ie_table! {
    1 CREATE_PDR "Create PDR" grouped 0 never_empty full;
    2 PDI "PDI" grouped 0 never_empty full;
    3 CREATE_FAR "Create FAR" grouped 0 never_empty full;
    4 FORWARDING_PARAMETERS "Forwarding Parameters" grouped 0 never_empty full;
    5 DUPLICATING_PARAMETERS "Duplicating Parameters" grouped 0 never_empty full;
    6 CREATE_URR "Create URR" grouped 0 never_empty full;
    7 CREATE_QER "Create QER" grouped 0 never_empty full;
    8 CREATED_PDR "Created PDR" grouped 0 never_empty full;
    9 UPDATE_PDR "Update PDR" grouped 0 never_empty full;
    10 UPDATE_FAR "Update FAR" grouped 0 never_empty full;
    11 UPDATE_FORWARDING_PARAMETERS "Update Forwarding Parameters" grouped 0 never_empty full;
    12 UPDATE_BAR_SESSION_REPORT_RESPONSE "Update BAR (PFCP Session Report Response)" grouped 0 never_empty full;
    13 UPDATE_URR "Update URR" grouped 0 never_empty full;
    14 UPDATE_QER "Update QER" grouped 0 never_empty full;
    15 REMOVE_PDR "Remove PDR" grouped 0 never_empty full;
    16 REMOVE_FAR "Remove FAR" grouped 0 never_empty full;
    17 REMOVE_URR "Remove URR" grouped 0 never_empty full;
    18 REMOVE_QER "Remove QER" grouped 0 never_empty full;
    19 CAUSE "Cause" leaf 1 never_empty full;
    20 SOURCE_INTERFACE "Source Interface" leaf 1 never_empty full;
    21 F_TEID "F-TEID" leaf 1 never_empty full;
    22 NETWORK_INSTANCE "Network Instance" leaf 0 nullable full;
    23 SDF_FILTER "SDF Filter" leaf 2 never_empty full;
    24 APPLICATION_ID "Application ID" leaf 0 maybe_empty full;
    25 GATE_STATUS "Gate Status" leaf 1 never_empty full;
    26 MBR "MBR" leaf 10 never_empty full;
    27 GBR "GBR" leaf 10 never_empty full;
    28 QER_CORRELATION_ID "QER Correlation ID" leaf 4 never_empty full;
    29 PRECEDENCE "Precedence" leaf 4 never_empty full;
    30 TRANSPORT_LEVEL_MARKING "Transport Level Marking" leaf 2 nullable full;
    31 VOLUME_THRESHOLD "Volume Threshold" leaf 1 never_empty full;
    32 TIME_THRESHOLD "Time Threshold" leaf 4 never_empty full;
    33 MONITORING_TIME "Monitoring Time" leaf 4 never_empty full;
    34 SUBSEQUENT_VOLUME_THRESHOLD "Subsequent Volume Threshold" leaf 1 never_empty full;
    35 SUBSEQUENT_TIME_THRESHOLD "Subsequent Time Threshold" leaf 4 never_empty full;
    36 INACTIVITY_DETECTION_TIME "Inactivity Detection Time" leaf 4 never_empty full;
    37 REPORTING_TRIGGERS "Reporting Triggers" leaf 2 never_empty full;
    38 REDIRECT_INFORMATION "Redirect Information" leaf 3 nullable full;
    39 REPORT_TYPE "Report Type" leaf 1 never_empty full;
    40 OFFENDING_IE "Offending IE" leaf 2 never_empty full;
    41 FORWARDING_POLICY "Forwarding Policy" leaf 1 nullable full;
    42 DESTINATION_INTERFACE "Destination Interface" leaf 1 never_empty full;
    43 UP_FUNCTION_FEATURES "UP Function Features" leaf 2 never_empty full;
    44 APPLY_ACTION "Apply Action" leaf 1 never_empty full;
    45 DOWNLINK_DATA_SERVICE_INFORMATION "Downlink Data Service Information" leaf 1 never_empty full;
    46 DOWNLINK_DATA_NOTIFICATION_DELAY "Downlink Data Notification Delay" leaf 1 never_empty full;
    47 DL_BUFFERING_DURATION "DL Buffering Duration" leaf 1 never_empty full;
    48 DL_BUFFERING_SUGGESTED_PACKET_COUNT "DL Buffering Suggested Packet Count" leaf 1 never_empty full;
    49 PFCPSMREQ_FLAGS "PFCPSMReq-Flags" leaf 1 never_empty full;
    50 PFCPSRRSP_FLAGS "PFCPSRRsp-Flags" leaf 1 never_empty full;
    51 LOAD_CONTROL_INFORMATION "Load Control Information" grouped 0 never_empty full;
    52 SEQUENCE_NUMBER "Sequence Number" leaf 4 never_empty full;
    53 METRIC "Metric" leaf 1 never_empty full;
    54 OVERLOAD_CONTROL_INFORMATION "Overload Control Information" grouped 0 never_empty full;
    55 TIMER "Timer" leaf 1 never_empty full;
    56 PDR_ID "PDR ID" leaf 2 never_empty full;
    57 F_SEID "F-SEID" leaf 9 never_empty full;
    58 APPLICATION_IDS_PFDS "Application ID's PFDs" grouped 0 never_empty full;
    59 PFD_CONTEXT "PFD context" grouped 0 never_empty full;
    60 NODE_ID "Node ID" leaf 1 never_empty full;
    61 PFD_CONTENTS "PFD contents" leaf 2 never_empty full;
    62 MEASUREMENT_METHOD "Measurement Method" leaf 1 never_empty full;
    63 USAGE_REPORT_TRIGGER "Usage Report Trigger" leaf 2 never_empty full;
    64 MEASUREMENT_PERIOD "Measurement Period" leaf 4 never_empty full;
    65 FQ_CSID "FQ-CSID" leaf 1 never_empty full;
    66 VOLUME_MEASUREMENT "Volume Measurement" leaf 1 never_empty full;
    67 DURATION_MEASUREMENT "Duration Measurement" leaf 4 never_empty full;
    68 APPLICATION_DETECTION_INFORMATION "Application Detection Information" grouped 0 never_empty full;
    69 TIME_OF_FIRST_PACKET "Time of First Packet" leaf 4 never_empty full;
    70 TIME_OF_LAST_PACKET "Time of Last Packet" leaf 4 never_empty full;
    71 QUOTA_HOLDING_TIME "Quota Holding Time" leaf 4 never_empty full;
    72 DROPPED_DL_TRAFFIC_THRESHOLD "Dropped DL Traffic Threshold" leaf 1 never_empty full;
    73 VOLUME_QUOTA "Volume Quota" leaf 1 never_empty full;
    74 TIME_QUOTA "Time Quota" leaf 4 never_empty full;
    75 START_TIME "Start Time" leaf 4 never_empty full;
    76 END_TIME "End Time" leaf 4 never_empty full;
    77 QUERY_URR "Query URR" grouped 0 never_empty full;
    78 USAGE_REPORT_SESSION_MODIFICATION_RESPONSE "Usage Report (Session Modification Response)" grouped 0 never_empty full;
    79 USAGE_REPORT_SESSION_DELETION_RESPONSE "Usage Report (Session Deletion Response)" grouped 0 never_empty full;
    80 USAGE_REPORT_SESSION_REPORT_REQUEST "Usage Report (Session Report Request)" grouped 0 never_empty full;
    81 URR_ID "URR ID" leaf 4 never_empty full;
    82 LINKED_URR_ID "Linked URR ID" leaf 4 never_empty full;
    83 DOWNLINK_DATA_REPORT "Downlink Data Report" grouped 0 never_empty full;
    84 OUTER_HEADER_CREATION "Outer Header Creation" leaf 2 nullable full;
    85 CREATE_BAR "Create BAR" grouped 0 never_empty full;
    86 UPDATE_BAR_SESSION_MODIFICATION_REQUEST "Update BAR (PFCP Session Modification Request)" grouped 0 never_empty full;
    87 REMOVE_BAR "Remove BAR" grouped 0 never_empty full;
    88 BAR_ID "BAR ID" leaf 1 never_empty full;
    89 CP_FUNCTION_FEATURES "CP Function Features" leaf 1 never_empty full;
    90 USAGE_INFORMATION "Usage Information" leaf 1 never_empty full;
    91 APPLICATION_INSTANCE_ID "Application Instance ID" leaf 0 maybe_empty full;
    92 FLOW_INFORMATION "Flow Information" leaf 3 never_empty full;
    93 UE_IP_ADDRESS "UE IP Address" leaf 1 never_empty full;
    94 PACKET_RATE "Packet Rate" leaf 1 never_empty full;
    95 OUTER_HEADER_REMOVAL "Outer Header Removal" leaf 1 never_empty full;
    96 RECOVERY_TIME_STAMP "Recovery Time Stamp" leaf 4 never_empty full;
    97 DL_FLOW_LEVEL_MARKING "DL Flow Level Marking" leaf 1 never_empty full;
    98 HEADER_ENRICHMENT "Header Enrichment" leaf 3 nullable full;
    99 ERROR_INDICATION_REPORT "Error Indication Report" grouped 0 never_empty full;
    100 MEASUREMENT_INFORMATION "Measurement Information" leaf 1 never_empty full;
    101 NODE_REPORT_TYPE "Node Report Type" leaf 1 never_empty full;
    102 USER_PLANE_PATH_FAILURE_REPORT "User Plane Path Failure Report" grouped 0 never_empty full;
    103 REMOTE_GTP_U_PEER "Remote GTP-U Peer" leaf 1 never_empty full;
    104 UR_SEQN "UR-SEQN" leaf 4 never_empty full;
    105 UPDATE_DUPLICATING_PARAMETERS "Update Duplicating Parameters" grouped 0 never_empty full;
    106 ACTIVATE_PREDEFINED_RULES "Activate Predefined Rules" leaf 0 maybe_empty full;
    107 DEACTIVATE_PREDEFINED_RULES "Deactivate Predefined Rules" leaf 0 maybe_empty full;
    108 FAR_ID "FAR ID" leaf 4 never_empty full;
    109 QER_ID "QER ID" leaf 4 never_empty full;
    110 OCI_FLAGS "OCI Flags" leaf 1 never_empty full;
    111 PFCP_ASSOCIATION_RELEASE_REQUEST "PFCP Association Release Request" leaf 1 never_empty full;
    112 GRACEFUL_RELEASE_PERIOD "Graceful Release Period" leaf 1 never_empty full;
    113 PDN_TYPE "PDN Type" leaf 1 never_empty full;
    114 FAILED_RULE_ID "Failed Rule ID" leaf 2 never_empty full;
    115 TIME_QUOTA_MECHANISM "Time Quota Mechanism" leaf 5 never_empty full;
    116 USER_PLANE_IP_RESOURCE_INFORMATION "User Plane IP Resource Information" leaf 1 never_empty full;
    117 USER_PLANE_INACTIVITY_TIMER "User Plane Inactivity Timer" leaf 4 never_empty full;
    118 AGGREGATED_URRS "Aggregated URRs" grouped 0 never_empty full;
    119 MULTIPLIER "Multiplier" leaf 12 never_empty full;
    120 AGGREGATED_URR_ID "Aggregated URR ID" leaf 4 never_empty full;
    121 SUBSEQUENT_VOLUME_QUOTA "Subsequent Volume Quota" leaf 1 never_empty full;
    122 SUBSEQUENT_TIME_QUOTA "Subsequent Time Quota" leaf 4 never_empty full;
    123 RQI "RQI" leaf 1 never_empty full;
    124 QFI "QFI" leaf 1 never_empty full;
    125 QUERY_URR_REFERENCE "Query URR Reference" leaf 4 never_empty full;
    126 ADDITIONAL_USAGE_REPORTS_INFORMATION "Additional Usage Reports Information" leaf 2 never_empty full;
    127 CREATE_TRAFFIC_ENDPOINT "Create Traffic Endpoint" grouped 0 never_empty full;
    128 CREATED_TRAFFIC_ENDPOINT "Created Traffic Endpoint" grouped 0 never_empty full;
    129 UPDATE_TRAFFIC_ENDPOINT "Update Traffic Endpoint" grouped 0 never_empty full;
    130 REMOVE_TRAFFIC_ENDPOINT "Remove Traffic Endpoint" grouped 0 never_empty full;
    131 TRAFFIC_ENDPOINT_ID "Traffic Endpoint ID" leaf 1 nullable full;
    132 ETHERNET_PACKET_FILTER "Ethernet Packet Filter" grouped 0 never_empty full;
    133 MAC_ADDRESS "MAC address" leaf 1 never_empty full;
    134 C_TAG "C-TAG" leaf 3 never_empty full;
    135 S_TAG "S-TAG" leaf 3 never_empty full;
    136 ETHERTYPE "Ethertype" leaf 2 never_empty full;
    137 PROXYING "Proxying" leaf 1 never_empty full;
    138 ETHERNET_FILTER_ID "Ethernet Filter ID" leaf 4 never_empty full;
    139 ETHERNET_FILTER_PROPERTIES "Ethernet Filter Properties" leaf 1 never_empty full;
    140 SUGGESTED_BUFFERING_PACKETS_COUNT "Suggested Buffering Packets Count" leaf 1 never_empty full;
    141 USER_ID "User ID" leaf 1 never_empty full;
    142 ETHERNET_PDU_SESSION_INFORMATION "Ethernet PDU Session Information" leaf 1 never_empty full;
    143 ETHERNET_TRAFFIC_INFORMATION "Ethernet Traffic Information" grouped 0 never_empty raw;
    144 MAC_ADDRESSES_DETECTED "MAC Addresses Detected" leaf 1 never_empty raw;
    145 MAC_ADDRESSES_REMOVED "MAC Addresses Removed" leaf 1 never_empty raw;
    146 ETHERNET_INACTIVITY_TIMER "Ethernet Inactivity Timer" leaf 4 never_empty full;
    147 ADDITIONAL_MONITORING_TIME "Additional Monitoring Time" grouped 0 never_empty full;
    148 EVENT_QUOTA "Event Quota" leaf 4 never_empty full;
    149 EVENT_THRESHOLD "Event Threshold" leaf 4 never_empty full;
    150 SUBSEQUENT_EVENT_QUOTA "Subsequent Event Quota" leaf 4 never_empty full;
    151 SUBSEQUENT_EVENT_THRESHOLD "Subsequent Event Threshold" leaf 4 never_empty full;
    152 TRACE_INFORMATION "Trace Information" leaf 0 maybe_empty full;
    153 FRAMED_ROUTE "Framed-Route" leaf 0 maybe_empty full;
    154 FRAMED_ROUTING "Framed-Routing" leaf 4 never_empty full;
    155 FRAMED_IPV6_ROUTE "Framed-IPv6-Route" leaf 0 maybe_empty full;
    156 TIME_STAMP "Time Stamp" leaf 4 never_empty full;
    157 AVERAGING_WINDOW "Averaging Window" leaf 4 never_empty full;
    158 PAGING_POLICY_INDICATOR "Paging Policy Indicator" leaf 1 never_empty full;
    159 APN_DNN "APN/DNN" leaf 0 maybe_empty full;
    160 TGPP_INTERFACE_TYPE "3GPP Interface Type" leaf 1 nullable full;
    161 PFCPSRREQ_FLAGS "PFCPSRReq-Flags" leaf 1 never_empty full;
    162 PFCPAUREQ_FLAGS "PFCPAUReq-Flags" leaf 1 never_empty full;
    163 ACTIVATION_TIME "Activation Time" leaf 4 never_empty full;
    164 DEACTIVATION_TIME "Deactivation Time" leaf 4 never_empty full;
    165 CREATE_MAR "Create MAR" grouped 0 never_empty raw;
    166 ACCESS_FORWARDING_ACTION_INFORMATION_1 "Access Forwarding Action Information 1" grouped 0 never_empty raw;
    167 ACCESS_FORWARDING_ACTION_INFORMATION_2 "Access Forwarding Action Information 2" grouped 0 never_empty raw;
    168 REMOVE_MAR "Remove MAR" grouped 0 never_empty raw;
    169 UPDATE_MAR "Update MAR" grouped 0 never_empty raw;
    170 MAR_ID "MAR ID" leaf 2 never_empty full;
    171 STEERING_FUNCTIONALITY "Steering Functionality" leaf 1 never_empty raw;
    172 STEERING_MODE "Steering Mode" leaf 1 never_empty raw;
    173 WEIGHT "Weight" leaf 1 never_empty raw;
    174 PRIORITY "Priority" leaf 1 never_empty raw;
    175 UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_1 "Update Access Forwarding Action Information 1" grouped 0 never_empty raw;
    176 UPDATE_ACCESS_FORWARDING_ACTION_INFORMATION_2 "Update Access Forwarding Action Information 2" grouped 0 never_empty raw;
    177 UE_IP_ADDRESS_POOL_IDENTITY "UE IP address Pool Identity" leaf 2 never_empty full;
    178 ALTERNATIVE_SMF_IP_ADDRESS "Alternative SMF IP Address" leaf 1 never_empty full;
    179 PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION "Packet Replication and Detection Carry-On Information" leaf 1 never_empty raw;
    180 SMF_SET_ID "SMF Set ID" leaf 2 never_empty full;
    181 QUOTA_VALIDITY_TIME "Quota Validity Time" leaf 4 never_empty full;
    182 NUMBER_OF_REPORTS "Number of Reports" leaf 2 never_empty full;
    183 PFCP_SESSION_RETENTION_INFORMATION "PFCP Session Retention Information" grouped 0 never_empty full;
    184 PFCPASRSP_FLAGS "PFCPASRsp-Flags" leaf 1 never_empty full;
    185 CP_PFCP_ENTITY_IP_ADDRESS "CP PFCP Entity IP Address" leaf 1 never_empty full;
    186 PFCPSEREQ_FLAGS "PFCPSEReq-Flags" leaf 1 never_empty full;
    187 USER_PLANE_PATH_RECOVERY_REPORT "User Plane Path Recovery Report" grouped 0 never_empty full;
    188 IP_MULTICAST_ADDRESSING_INFO "IP Multicast Addressing Info" grouped 0 never_empty raw;
    189 JOIN_IP_MULTICAST_INFORMATION "Join IP Multicast Information" grouped 0 never_empty raw;
    190 LEAVE_IP_MULTICAST_INFORMATION "Leave IP Multicast Information" grouped 0 never_empty raw;
    191 IP_MULTICAST_ADDRESS "IP Multicast Address" leaf 1 never_empty raw;
    192 SOURCE_IP_ADDRESS "Source IP Address" leaf 1 nullable full;
    193 PACKET_RATE_STATUS "Packet Rate Status" leaf 1 never_empty full;
    194 CREATE_BRIDGE_INFO_FOR_TSC "Create Bridge Info for TSC" grouped 0 never_empty raw;
    195 CREATED_BRIDGE_INFO_FOR_TSC "Created Bridge Info for TSC" grouped 0 never_empty raw;
    196 DS_TT_PORT_NUMBER "DS-TT Port Number" leaf 0 maybe_empty raw;
    197 NW_TT_PORT_NUMBER "NW-TT Port Number" leaf 0 maybe_empty raw;
    198 FIVEGS_USER_PLANE_NODE "5GS User Plane Node" leaf 0 maybe_empty raw;
    199 TSC_MANAGEMENT_INFORMATION_MODIFICATION_REQUEST "TSC Management Information (PFCP Session Modification Request)" grouped 0 never_empty raw;
    200 TSC_MANAGEMENT_INFORMATION_MODIFICATION_RESPONSE "TSC Management Information (PFCP Session Modification Response)" grouped 0 never_empty raw;
    201 TSC_MANAGEMENT_INFORMATION_REPORT_REQUEST "TSC Management Information (PFCP Session Report Request)" grouped 0 never_empty raw;
    202 PORT_MANAGEMENT_INFORMATION_CONTAINER "Port Management Information Container" leaf 0 maybe_empty raw;
    203 CLOCK_DRIFT_CONTROL_INFORMATION "Clock Drift Control Information" grouped 0 never_empty raw;
    204 REQUESTED_CLOCK_DRIFT_INFORMATION "Requested Clock Drift Information" leaf 0 maybe_empty raw;
    205 CLOCK_DRIFT_REPORT "Clock Drift Report" grouped 0 never_empty raw;
    206 TIME_DOMAIN_NUMBER "Time Domain Number" leaf 0 maybe_empty raw;
    207 TIME_OFFSET_THRESHOLD "Time Offset Threshold" leaf 0 maybe_empty raw;
    208 CUMULATIVE_RATERATIO_THRESHOLD "Cumulative rateRatio Threshold" leaf 0 maybe_empty raw;
    209 TIME_OFFSET_MEASUREMENT "Time Offset Measurement" leaf 0 maybe_empty raw;
    210 CUMULATIVE_RATERATIO_MEASUREMENT "Cumulative rateRatio Measurement" leaf 0 maybe_empty raw;
    211 REMOVE_SRR "Remove SRR" grouped 0 never_empty raw;
    212 CREATE_SRR "Create SRR" grouped 0 never_empty raw;
    213 UPDATE_SRR "Update SRR" grouped 0 never_empty raw;
    214 SESSION_REPORT "Session Report" grouped 0 never_empty raw;
    215 SRR_ID "SRR ID" leaf 1 never_empty full;
    216 ACCESS_AVAILABILITY_CONTROL_INFORMATION "Access Availability Control Information" grouped 0 never_empty raw;
    217 REQUESTED_ACCESS_AVAILABILITY_INFORMATION "Requested Access Availability Information" leaf 0 maybe_empty raw;
    218 ACCESS_AVAILABILITY_REPORT "Access Availability Report" grouped 0 never_empty raw;
    219 ACCESS_AVAILABILITY_INFORMATION "Access Availability Information" leaf 0 maybe_empty raw;
    220 PROVIDE_ATSSS_CONTROL_INFORMATION "Provide ATSSS Control Information" grouped 0 never_empty raw;
    221 ATSSS_CONTROL_PARAMETERS "ATSSS Control Parameters" grouped 0 never_empty raw;
    222 MPTCP_CONTROL_INFORMATION "MPTCP Control Information" leaf 0 maybe_empty raw;
    223 ATSSS_LL_CONTROL_INFORMATION "ATSSS-LL Control Information" leaf 0 maybe_empty raw;
    224 PMF_CONTROL_INFORMATION "PMF Control Information" leaf 0 maybe_empty raw;
    225 MPTCP_PARAMETERS "MPTCP Parameters" grouped 0 never_empty raw;
    226 ATSSS_LL_PARAMETERS "ATSSS-LL Parameters" grouped 0 never_empty raw;
    227 PMF_PARAMETERS "PMF Parameters" grouped 0 never_empty raw;
    228 MPTCP_ADDRESS_INFORMATION "MPTCP Address Information" leaf 0 maybe_empty raw;
    229 UE_LINK_SPECIFIC_IP_ADDRESS "UE Link-Specific IP Address" leaf 0 maybe_empty raw;
    230 PMF_ADDRESS_INFORMATION "PMF Address Information" leaf 0 maybe_empty raw;
    231 ATSSS_LL_INFORMATION "ATSSS-LL Information" leaf 0 maybe_empty raw;
    232 DATA_NETWORK_ACCESS_IDENTIFIER "Data Network Access Identifier" leaf 0 maybe_empty full;
    233 UE_IP_ADDRESS_POOL_INFORMATION "UE IP address Pool Information" grouped 0 never_empty full;
    234 AVERAGE_PACKET_DELAY "Average Packet Delay" leaf 0 maybe_empty raw;
    235 MINIMUM_PACKET_DELAY "Minimum Packet Delay" leaf 0 maybe_empty raw;
    236 MAXIMUM_PACKET_DELAY "Maximum Packet Delay" leaf 0 maybe_empty raw;
    237 QOS_REPORT_TRIGGER "QoS Report Trigger" leaf 0 maybe_empty raw;
    238 GTP_U_PATH_QOS_CONTROL_INFORMATION "GTP-U Path QoS Control Information" grouped 0 never_empty raw;
    239 GTP_U_PATH_QOS_REPORT "GTP-U Path QoS Report" grouped 0 never_empty raw;
    240 QOS_INFORMATION_IN_GTP_U_PATH_QOS_REPORT "QoS Information in GTP-U Path QoS Report" grouped 0 never_empty raw;
    241 GTP_U_PATH_INTERFACE_TYPE "GTP-U Path Interface Type" leaf 1 never_empty raw;
    242 QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION "QoS Monitoring per QoS flow Control Information" grouped 0 never_empty raw;
    243 REQUESTED_QOS_MONITORING "Requested QoS Monitoring" leaf 1 never_empty raw;
    244 REPORTING_FREQUENCY "Reporting Frequency" leaf 1 never_empty raw;
    245 PACKET_DELAY_THRESHOLDS "Packet Delay Thresholds" leaf 1 never_empty raw;
    246 MINIMUM_WAIT_TIME "Minimum Wait Time" leaf 4 never_empty raw;
    247 QOS_MONITORING_REPORT "QoS Monitoring Report" grouped 0 never_empty raw;
    248 QOS_MONITORING_MEASUREMENT "QoS Monitoring Measurement" leaf 1 never_empty raw;
    249 MT_EDT_CONTROL_INFORMATION "MT-EDT Control Information" leaf 1 never_empty full;
    250 DL_DATA_PACKETS_SIZE "DL Data Packets Size" leaf 2 never_empty full;
    251 QER_CONTROL_INDICATIONS "QER Control Indications" leaf 1 never_empty full;
    252 PACKET_RATE_STATUS_REPORT "Packet Rate Status Report" grouped 0 never_empty full;
    253 NF_INSTANCE_ID "NF Instance ID" leaf 16 never_empty full;
    255 REDUNDANT_TRANSMISSION_DETECTION_PARAMETERS "Redundant Transmission Detection Parameters" grouped 0 never_empty raw;
    256 UPDATED_PDR "Updated PDR" grouped 0 never_empty full;
    257 S_NSSAI "S-NSSAI" leaf 4 never_empty full;
    258 IP_VERSION "IP version" leaf 1 never_empty full;
    259 PFCPASREQ_FLAGS "PFCPASReq-Flags" leaf 1 never_empty full;
    260 DATA_STATUS "Data Status" leaf 1 never_empty full;
    261 PROVIDE_RDS_CONFIGURATION_INFORMATION "Provide RDS Configuration Information" grouped 0 never_empty raw;
    262 RDS_CONFIGURATION_INFORMATION "RDS Configuration Information" leaf 1 never_empty raw;
    263 QUERY_PACKET_RATE_STATUS "Query Packet Rate Status" grouped 0 never_empty raw;
    264 PACKET_RATE_STATUS_REPORT_MODIFICATION_RESPONSE "Packet Rate Status Report (PFCP Session Modification Response)" grouped 0 never_empty raw;
    265 MPTCP_APPLICABLE_INDICATION "MPTCP Applicable Indication" leaf 1 never_empty raw;
    266 USER_PLANE_NODE_MANAGEMENT_INFORMATION_CONTAINER "User Plane Node Management Information Container" leaf 0 maybe_empty raw;
    267 UE_IP_ADDRESS_USAGE_INFORMATION "UE IP Address Usage Information" grouped 0 never_empty raw;
    268 NUMBER_OF_UE_IP_ADDRESSES "Number of UE IP Addresses" leaf 1 never_empty raw;
    269 VALIDITY_TIMER "Validity Timer" leaf 2 never_empty full;
    270 REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS "Redundant Transmission Forwarding Parameters" grouped 0 never_empty raw;
    271 TRANSPORT_DELAY_REPORTING "Transport Delay Reporting" leaf 1 never_empty raw;
    272 PARTIAL_FAILURE_INFORMATION "Partial Failure Information" grouped 0 never_empty full;
    273 PARTIAL_FAILURE_INFORMATION_MODIFICATION_RESPONSE "Partial Failure Information (PFCP Session Modification Response)" grouped 0 never_empty raw;
    274 OFFENDING_IE_INFORMATION "Offending IE Information" grouped 0 never_empty raw;
    275 RAT_TYPE "RAT Type" leaf 1 never_empty full;
    276 L2TP_TUNNEL_INFORMATION "L2TP Tunnel Information" grouped 0 never_empty raw;
    277 L2TP_SESSION_INFORMATION_REQUEST "L2TP Session Information (PFCP Session Establishment Request)" grouped 0 never_empty raw;
    278 L2TP_USER_AUTHENTICATION "L2TP User Authentication" leaf 0 maybe_empty raw;
    279 L2TP_SESSION_INFORMATION_RESPONSE "L2TP Session Information (PFCP Session Establishment Response)" grouped 0 never_empty raw;
    280 LNS_ADDRESS "LNS Address" leaf 0 maybe_empty raw;
    281 TUNNEL_PREFERENCE "Tunnel Preference" leaf 0 maybe_empty raw;
    282 CALLING_NUMBER "Calling Number" leaf 0 maybe_empty raw;
    283 CALLED_NUMBER "Called Number" leaf 0 maybe_empty raw;
    284 L2TP_SESSION_INDICATIONS "L2TP Session Indications" leaf 0 maybe_empty raw;
    285 DNS_SERVER_ADDRESS "DNS Server Address" leaf 0 maybe_empty raw;
    286 NBNS_SERVER_ADDRESS "NBNS Server Address" leaf 0 maybe_empty raw;
    287 MAXIMUM_RECEIVE_UNIT "Maximum Receive Unit" leaf 0 maybe_empty raw;
    288 THRESHOLDS "Thresholds" leaf 0 maybe_empty raw;
    289 STEERING_MODE_INDICATOR "Steering Mode Indicator" leaf 0 maybe_empty raw;
    290 PFCP_SESSION_CHANGE_INFO "PFCP Session Change Info" grouped 0 never_empty full;
    291 GROUP_ID "Group ID" leaf 0 maybe_empty full;
    292 CP_IP_ADDRESS "CP IP Address" leaf 1 never_empty full;
    293 IP_ADDRESS_AND_PORT_NUMBER_REPLACEMENT "IP Address and Port Number Replacement" leaf 0 maybe_empty raw;
    294 DNS_QUERY_FILTER "DNS Query Filter" leaf 0 maybe_empty raw;
    295 DIRECT_REPORTING_INFORMATION "Direct Reporting Information" grouped 0 never_empty raw;
    296 EVENT_NOTIFICATION_URI "Event Notification URI" leaf 0 maybe_empty raw;
    297 NOTIFICATION_CORRELATION_ID "Notification Correlation ID" leaf 0 maybe_empty raw;
    298 REPORTING_FLAGS "Reporting Flags" leaf 0 maybe_empty raw;
    299 PREDEFINED_RULES_NAME "Predefined Rules Name" leaf 0 maybe_empty raw;
    300 MBS_SESSION_N4MB_CONTROL_INFORMATION "MBS Session N4mb Control Information" grouped 0 never_empty raw;
    301 MBS_MULTICAST_PARAMETERS "MBS Multicast Parameters" leaf 0 maybe_empty raw;
    302 ADD_MBS_UNICAST_PARAMETERS "Add MBS Unicast Parameters" grouped 0 never_empty raw;
    303 MBS_SESSION_N4MB_INFORMATION "MBS Session N4mb Information" grouped 0 never_empty raw;
    304 REMOVE_MBS_UNICAST_PARAMETERS "Remove MBS Unicast Parameters" grouped 0 never_empty raw;
    305 MBS_SESSION_IDENTIFIER "MBS Session Identifier" leaf 0 maybe_empty raw;
    306 MULTICAST_TRANSPORT_INFORMATION "Multicast Transport Information" leaf 0 maybe_empty raw;
    307 MBSN4MBREQ_FLAGS "MBSN4mbReq-Flags" leaf 0 maybe_empty raw;
    308 LOCAL_INGRESS_TUNNEL "Local Ingress Tunnel" leaf 0 maybe_empty raw;
    309 MBS_UNICAST_PARAMETERS_ID "MBS Unicast Parameters ID" leaf 0 maybe_empty raw;
    310 MBS_SESSION_N4_CONTROL_INFORMATION "MBS Session N4 Control Information" grouped 0 never_empty raw;
    311 MBS_SESSION_N4_INFORMATION "MBS Session N4 Information" grouped 0 never_empty raw;
    312 MBSN4RESP_FLAGS "MBSN4Resp-Flags" leaf 0 maybe_empty raw;
    313 TUNNEL_PASSWORD "Tunnel Password" leaf 0 maybe_empty raw;
    314 AREA_SESSION_ID "Area Session ID" leaf 0 maybe_empty raw;
    315 PEER_UP_RESTART_REPORT "Peer UP Restart Report" grouped 0 never_empty full;
    316 DSCP_TO_PPI_CONTROL_INFORMATION "DSCP to PPI Control Information" grouped 0 never_empty raw;
    317 DSCP_TO_PPI_MAPPING_INFORMATION "DSCP to PPI Mapping Information" leaf 0 maybe_empty raw;
    318 PFCPSDRSP_FLAGS "PFCPSDRsp-Flags" leaf 1 never_empty full;
    319 QER_INDICATIONS "QER Indications" leaf 1 never_empty full;
    320 VENDOR_SPECIFIC_NODE_REPORT_TYPE "Vendor-Specific Node Report Type" leaf 3 never_empty full;
}

impl IeType {
    /// What the table says, `None` for a type that Release 17 does not define.
    #[must_use]
    pub fn info(self) -> Option<&'static IeInfo> {
        let row = IE_TABLE.binary_search_by_key(&self, |info| info.ie_type).ok()?;
        IE_TABLE.get(row)
    }

    /// The name in the specification, `"unknown"` outside the table.
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
