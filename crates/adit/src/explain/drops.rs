//! Advice for packets that are dropped.

use adit_rules::DropReason;

/// Drop reasons with the same advice, and the advice.
type Advice = (&'static [DropReason], &'static str);

const ADVICE: &[Advice] = &[
    (
        &[
            DropReason::FrameMalformed,
            DropReason::FrameNotForUs,
            DropReason::EtherTypeUnknown,
            DropReason::IpMalformed,
            DropReason::IpChecksumWrong,
            DropReason::UdpMalformed,
            DropReason::UdpChecksumWrong,
            DropReason::ArpMalformed,
            DropReason::NeighborMalformed,
        ],
        "what the link carries (a capture on the neighbor's side), and errors of the port (adit show ports). A few \
        are usual on a shared link.",
    ),
    (
        &[DropReason::FrameSegmented],
        "the other end of the port (the machine or program behind a memif or virtio device): its MTU is beyond mtu_bytes of \
        the port, or it joins segments (tso=1 of net_vhost). Packet buffers follow mtu_bytes unless dpdk.mbuf_bytes is set.",
    ),
    (
        &[DropReason::FrameCut],
        "the driver of the port. net_af_packet cuts what a kernel has joined (offloads of a veth device or of a card: \
        TSO, GRO, UDP segmentation): take device = \"kernel:packet,iface=NAME\". Packets beyond mtu_bytes need a larger \
        one; slots follow it unless the device has framesz=.",
    ),
    (
        &[DropReason::VlanUnknown],
        "the vlan keys of [[interface]] and the VLANs of the switch port.",
    ),
    (
        &[DropReason::IpAddressInvalid],
        "which host sends it. Multicast and link-local traffic of UEs is usual and not forwarded.",
    ),
    (
        &[DropReason::IcmpQuoteUnknown],
        "who sends it: a forgery, or a router that quotes less than the GTP-U header. A path that such a router narrows loses \
        full packets: raise its MTU, or lower mtu_bytes of the port. adit show paths has what is believed.",
    ),
    (
        &[DropReason::IpProtocolUnknown, DropReason::UdpPortUnknown, DropReason::IcmpUnhandled],
        "who sends to the addresses of adit: monitoring or a scan. adit serves GTP-U, ARP, neighbor discovery and \
        ICMP echo there.",
    ),
    (
        &[
            DropReason::OuterFragment,
            DropReason::ReassemblyMalformed,
            DropReason::ReassemblyDuplicate,
            DropReason::ReassemblyOverlap,
            DropReason::ReassemblyTooMany,
            DropReason::ReassemblyTooLong,
            DropReason::ReassemblyFull,
            DropReason::ReassemblyTimeout,
        ],
        "the MTU between gNB and UPF: fragments of tunnel packets appear where it is below the UE's MTU plus 44 \
        octets (64 over IPv6). Raise the transport's MTU, or lower that of UEs.",
    ),
    (
        &[
            DropReason::GtpuMalformed,
            DropReason::GtpuExtensionMalformed,
            DropReason::GtpuExtensionUnknown,
            DropReason::GtpuMessageUnknown,
            DropReason::InnerMalformed,
        ],
        "the gNB that sends it (a capture on N3): its software, or a host that is no gNB.",
    ),
    (&[DropReason::GtpuNotOnN3], "role of the [[interface]] on which GTP-U arrives."),
    (
        &[DropReason::TeidUnknown],
        "whether the session ended (adit show sessions --teid TEID) while the gNB goes on sending. adit answers \
        with an Error Indication. Many after a restart: the store (adit show store) did not keep sessions.",
    ),
    (
        &[DropReason::UeUnknown],
        "the destination (adit show sessions --ue ADDRESS): traffic for a UE that left, or a route of N6 to adit \
        that is wider than its pools.",
    ),
    (
        &[DropReason::UeSourceSpoofed],
        "the UE of the session: it sends from an address that is not its own. Networks behind a UE need framed \
        routes.",
    ),
    (&[DropReason::UeToOwnAddress], "which UE it is: it reaches for the UPF itself."),
    (
        &[DropReason::PdrUnmatched],
        "the PDRs of the session (adit show sessions --json): SDF filters, QFI and precedence leave this packet out.",
    ),
    (
        &[DropReason::GateClosed],
        "the gates of the session's QERs (adit show sessions --json): the SMF closes them, or never opened them.",
    ),
    (
        &[DropReason::RateExceeded, DropReason::PacketRateExceeded],
        "the limits and what passed (adit show qos SESSION). Dropping is what a maximum rate means; \"wait\" in \
        [qos.uplink] and [qos.downlink] queues instead.",
    ),
    (&[DropReason::AggregateExceeded], "shared rates (adit show qos) and mbps_max in [qos]."),
    (
        &[DropReason::ShapingQueueFull],
        "qos.queue_pkts_max, and which flows offer far more than their rate (adit show qos).",
    ),
    (
        &[DropReason::QuotaExhausted],
        "the quota of the session's URR (adit show sessions --json): the SMF or charging system grants no more.",
    ),
    (
        &[DropReason::FarDrop],
        "the FAR of the session (adit show sessions --json): the SMF wants it dropped.",
    ),
    (
        &[DropReason::TunnelUnknown],
        "whether the gNB answered the SMF: the session waits for the tunnel of the downlink.",
    ),
    (
        &[DropReason::BufferFull, DropReason::BufferDiscarded],
        "sessions.buffer_pkts_max, and how long UEs take to answer paging.",
    ),
    (&[DropReason::OuterHeaderMismatch], "the Outer Header Removal of the PDR that the SMF sends."),
    (
        &[DropReason::InnerNotEct],
        "congestion on N3 or N9 (queues of its routers), and who sends outer headers with ECT around packets without: \
        RFC 6040 has no such sender.",
    ),
    (
        &[DropReason::RedirectUnmatched, DropReason::RedirectLimited],
        "the redirection of the FAR (adit show sessions --json), and how many UEs are redirected at once.",
    ),
    (&[DropReason::TtlExceeded], "a routing loop on N6, or traceroute of a UE."),
    (
        &[DropReason::RouteUnknown],
        "the [[route]] sections, and the network instance that the FAR names (adit show sessions --json).",
    ),
    (
        &[DropReason::RouteBlackhole, DropReason::RouteUnreachable],
        "the routes of the kernel that Adit follows (ip route show type blackhole, type unreachable): a routing \
        daemon or an operator set one on purpose.",
    ),
    (
        &[DropReason::NeighborUnresolved, DropReason::NeighborQueueFull],
        "the next hop (adit show neighbours): does it answer ARP or neighbor solicitations on that link?",
    ),
    (
        &[DropReason::PacketTooBig],
        "mtu_bytes of the port, and whether hosts see the ICMP message that names the MTU; tcp_mss spares TCP that.",
    ),
    (
        &[DropReason::FragmentNoBuffer],
        "dpdk.mempool_mbufs and the metric adit_mempool_free_buffers.",
    ),
    (
        &[DropReason::HeadroomShort],
        "the driver of the port: adit reserves 128 octets before each frame.",
    ),
    (
        &[DropReason::SlowQueueFull],
        "a flood of ARP, Echo Requests or ICMP (adit show counters, punts), and where it comes from.",
    ),
    (
        &[DropReason::KernelRateLimited, DropReason::KernelRingFull],
        "adit show kernel: the interface and the class of the frames, and who sends so many of them to adit's own \
        addresses; users' packets and other classes are not affected.",
    ),
    (
        &[DropReason::HandoffFull],
        "load of the workers (adit show workers): the owner of the sessions is slower than the worker that \
        receives; steering of the port (adit show ports) avoids the hand-off.",
    ),
    (
        &[DropReason::SignalingFull],
        "load of the signaling worker (adit show workers) and who sends to the UPF itself.",
    ),
    (
        &[DropReason::SchedulerFull],
        "load of the workers (adit show workers): give the model more of them.",
    ),
    (
        &[DropReason::TxQueueFull],
        "the link of the outgoing port (adit show ports): down, slower than the traffic, or its peer does not read; \
        dpdk.tx_descriptors for bursts.",
    ),
];

/// Returns the next step for an operator. A test checks that each reason has one.
pub(super) fn advice(reason: DropReason) -> Option<&'static str> {
    ADVICE.iter().find(|(reasons, _)| reasons.contains(&reason)).map(|(_, advice)| *advice)
}
