//! Why a packet takes the stages instead of the fast path, for traces: the compiler's reasons and
//! the worker's.

use crate::verdict::reasons;

reasons! {
    /// Why the compiler has no fast rule for the packets of a PDR.
    NoFastRule {
        NoPdr, "no_pdr", "no PDR is about usual packets of this direction";
        OtherPdrFirst, "other_pdr_first", "another PDR of the tunnel precedes";
        SdfFilter, "sdf_filter", "SDF filters select the PDR, and their compiled form leads to no fast rule";
        PdrsTooMany, "pdrs_too_many", "the PDR is not among the first 16 of its direction, or these need more than 15 fast rules";
        RuleMissing, "rule_missing", "the PDR names a rule that the session does not have";
        GateClosed, "gate_closed", "a gate of the PDR's QERs is closed";
        PagingPolicy, "paging_policy", "a QER demands a paging policy indicator";
        FlowMarking, "flow_marking", "a QER marks the flow level or the service class";
        PacketRate, "packet_rate", "a QER limits packets per time";
        PartGuaranteed, "part_guaranteed", "a QER guarantees less than its maximum bit rate";
        RateZero, "rate_zero", "the maximum bit rate of a QER is zero";
        RateCorrelated, "rate_correlated", "a QER shares its rate with other sessions";
        RatesTooMany, "rates_too_many", "the session limits more than two rates, and the PDR has one of the others";
        TunnelMissing, "tunnel_missing", "the PDR names no local tunnel, or one from another side";
        HeaderKept, "header_kept", "the PDR does not remove the GTP-U header that packets arrive with";
        TeidComplement, "teid_complement", "a PDR of the session has the complement of the TEID";
        QfisTooMany, "qfis_too_many", "the PDR names too many QoS flows";
        NotPlain, "not_plain", "the PDR is not just about plain packets from a data network";
        UeAddresses, "ue_addresses", "the PDR is about networks behind the UE, or several addresses";
        ActionOther, "action_other", "the FAR does anything but forward";
        DestinationOther, "destination_other", "the FAR sends to another side, as to the CP function";
        OuterHeaderOther, "outer_header_other", "the FAR creates another outer header, or lacks one";
        SteeringOrMarking, "steering_or_marking", "the FAR steers, redirects or marks packets";
        Duplicates, "duplicates", "the FAR duplicates packets";
        InterfaceMissing, "interface_missing", "no interface leads to the data network of the FAR";
        NextHopMissing, "next_hop_missing", "there is no next hop to the far end of the FAR's tunnel";
        UrrStopped, "urr_stopped", "the quota of a URR is used up";
        CreditPool, "credit_pool", "a URR belongs to a credit pool";
        UrrsTooMany, "urrs_too_many", "the PDR has too many URRs";
    }
}

reasons! {
    /// Why the fast path leaves a packet to the stages.
    LeaveReason {
        Unnamed, "unnamed", "for a reason that has no name: report this";
        Joined, "joined", "it was joined from fragments of a tunnel packet";
        CommandPending, "command_pending", "the worker has yet to run a command, such as an End Marker";
        PortUnused, "port_unused", "no interface is on its port";
        Segmented, "segmented", "the frame has several segments, or is longer than any port's";
        VlanUnknown, "vlan_unknown", "no interface is on its VLAN";
        PriorityTag, "priority_tag", "the frame has a priority tag";
        NotIp, "not_ip", "the frame is not for us, or carries no IP";
        Malformed, "malformed", "a header is malformed, or its checksum wrong";
        OuterOptions, "outer_options", "its outer IP header has options or extension headers";
        OuterFragment, "outer_fragment", "it is a fragment of a tunnel packet";
        OuterMarked, "outer_marked", "its outer header is marked CE or ECT(1)";
        NotGPdu, "not_g_pdu", "it is neither a G-PDU to the UPF nor from a data network";
        GtpuExtensions, "gtpu_extensions", "it has other GTP-U extension headers than one short PDU Session Container";
        IpOptions, "ip_options", "the user's packet has IPv4 options";
        IpExtensions, "ip_extensions", "the user's packet is IPv6 with extension headers, or neither TCP, UDP nor ICMPv6";
        TtlUsedUp, "ttl_used_up", "the TTL or hop limit of the user's packet is used up";
        AddressInvalid, "address_invalid", "an address of the user's packet cannot be forwarded";
        OwnAddress, "own_address", "it goes to an address of the UPF";
        TcpSyn, "tcp_syn", "it is a SYN, and the data network has a setting for the TCP MSS";
        NoSession, "no_session", "no session has its TEID or UE address";
        OtherWorker, "other_worker", "another worker owns its session";
        RuleChanging, "rule_changing", "the fast rule of its session is being replaced, or not active yet";
        Fragment, "fragment", "SDF filters select its rule, and it is a fragment, or has no ports";
        NoFilterMatches, "no_filter_matches", "none of the SDF filters that have fast rules matches";
        FilterUndecided, "filter_undecided", "an SDF filter needs the whole packet, such as an SPI or a flow label";
        OtherUeAddress, "other_ue_address", "the address on the UE's side is not that of the fast rule";
        OtherTunnel, "other_tunnel", "interface, tunnel, QoS flow or address are not those of the fast rule";
        PacketsBuffered, "packets_buffered", "earlier packets of the session are buffered";
        QueueFull, "queue_full", "the queues of packets that wait for their rates are full";
        OtherUe, "other_ue", "it goes to another UE of this UPF";
        NoRoute, "no_route", "no route leads to its destination";
        NextHopUnresolved, "next_hop_unresolved", "the link-layer address of its next hop is unknown or stale, or packets wait for it";
        LinkWithoutTunnels, "link_without_tunnels", "the egress interface or peer has no address of the tunnel's family";
        TooLong, "too_long", "it is longer than the MTU of the egress interface";
        UsageCheck, "usage_check", "a URR is near a limit, or starts to measure: the stages check it";
        RateClosed, "rate_closed", "a rate that drops is used up, or has debt from a former limit";
        NoHeadroom, "no_headroom", "its buffer has no room for the new headers";
    }
}
