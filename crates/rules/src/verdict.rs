//! Why a packet leaves the pipeline: one table of variants, counter names and explanations.

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $( $variant:ident, $counter:literal, $text:literal; )* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $( #[doc = $text] $variant, )* }

        impl $name {
            /// All reasons, in the order of their indices.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns the index in [`Self::ALL`], and in counter blocks if the reason is counted.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// Returns the name of the reason: if it is counted, that of its counter in `adit show
            /// counters` and in metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $counter, )* }
            }

            /// Returns one sentence for the operator.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
        }
    };
}

pub(crate) use reasons;

reasons! {
    /// Why a packet was dropped. Every drop increments exactly one of these.
    DropReason {
        FrameMalformed, "frame_malformed", "The Ethernet frame or its VLAN tag is truncated.";
        FrameNotForUs, "frame_not_for_us", "The frame is addressed to another station.";
        FrameSegmented, "frame_segmented", "The frame is longer than a packet buffer: the other end of the port has a larger MTU, or joins segments. Raise mtu_bytes of the port, or lower that MTU.";
        FrameCut, "frame_cut", "The frame is longer than the port's MTU and ends before its packet does: the port cut it, not the sender.";
        VlanUnknown, "vlan_unknown", "No interface is configured for this VLAN on this port.";
        EtherTypeUnknown, "ether_type_unknown", "The frame carries neither IPv4, IPv6 nor ARP.";
        IpMalformed, "ip_malformed", "The outer or only IP header has a wrong version or length.";
        IpChecksumWrong, "ip_checksum_wrong", "The checksum of the outer or only IPv4 header is wrong.";
        IpAddressInvalid, "ip_address_invalid", "The source or destination address of the user's packet (in a tunnel, the inner one) cannot be forwarded: multicast, loopback, unspecified or link-local.";
        IpProtocolUnknown, "ip_protocol_unknown", "A packet to our own address carries a protocol that Adit does not serve.";
        OuterFragment, "outer_fragment", "An IP fragment to our own address is not part of a GTP-U packet on N3.";
        ReassemblyMalformed, "reassembly_malformed", "A fragment of a tunnel packet is empty, has a length that is not a multiple of 8, or extends beyond the end of its datagram.";
        ReassemblyDuplicate, "reassembly_duplicate", "A fragment of a tunnel packet arrived twice.";
        ReassemblyOverlap, "reassembly_overlap", "Fragments of a tunnel packet overlap; Adit discards the whole datagram.";
        ReassemblyTooMany, "reassembly_too_many", "A tunnel packet arrived in more than 16 fragments.";
        ReassemblyTooLong, "reassembly_too_long", "The reassembled tunnel packet does not fit one buffer; raise dpdk.mbuf_bytes.";
        ReassemblyFull, "reassembly_full", "Too many tunnel packets wait for fragments; Adit discards the oldest.";
        ReassemblyTimeout, "reassembly_timeout", "The missing fragments of a tunnel packet did not arrive within two seconds.";
        UdpMalformed, "udp_malformed", "The outer or only UDP length does not match the length of the packet.";
        UdpChecksumWrong, "udp_checksum_wrong", "The outer UDP checksum of a tunnel packet is wrong.";
        UdpPortUnknown, "udp_port_unknown", "A UDP packet to our own address names a port that Adit does not serve.";
        IcmpQuoteUnknown, "icmp_quote_unknown", "An ICMP message about an MTU quotes a packet that Adit cannot have sent, or too little of it to know the tunnel.";
        IcmpUnhandled, "icmp_unhandled", "An ICMP message to our own address is malformed or of a type that Adit does not serve.";
        ArpMalformed, "arp_malformed", "The ARP packet is malformed or not for IPv4 over Ethernet.";
        NeighborMalformed, "neighbour_malformed", "The IPv6 neighbor discovery message is malformed.";
        GtpuMalformed, "gtpu_malformed", "The GTP-U header has a wrong version, protocol type or length.";
        GtpuExtensionMalformed, "gtpu_extension_malformed", "The GTP-U extension header chain is malformed or too long.";
        GtpuExtensionUnknown, "gtpu_extension_unknown", "A GTP-U extension header that requires comprehension is unknown.";
        GtpuMessageUnknown, "gtpu_message_unknown", "A UPF does not handle this GTP-U message type.";
        GtpuNotOnN3, "gtpu_not_on_n3", "GTP-U arrived on an interface that does not serve it.";
        InnerMalformed, "inner_malformed", "The packet inside the tunnel is not a valid IPv4 or IPv6 packet.";
        TeidUnknown, "teid_unknown", "No PFCP session owns this TEID.";
        UeUnknown, "ue_unknown", "No PFCP session owns the UE address that the packet, or the one inside the tunnel, goes to.";
        UeSourceSpoofed, "ue_source_spoofed", "The inner source address does not belong to the PFCP session's UE.";
        UeToOwnAddress, "ue_to_own_address", "A UE sent to an address of this UPF (N3, N6 or N4), which serves no UE.";
        PdrUnmatched, "pdr_unmatched", "No PDR of the PFCP session matches the packet.";
        GateClosed, "gate_closed", "A QER of the matched PDR has its gate closed.";
        RateExceeded, "rate_exceeded", "The packet exceeds the maximum bit rate of a QER of the matched PDR.";
        PacketRateExceeded, "packet_rate_exceeded", "The packet rate of a QER of the matched PDR is used up for this interval.";
        AggregateExceeded, "aggregate_exceeded", "The packet exceeds the rate of its slice or of all sessions together.";
        ShapingQueueFull, "shaping_queue_full", "The shaping queue of the flow, or the room for all shaped packets, is full; see qos.queue_pkts_max.";
        QuotaExhausted, "quota_exhausted", "A URR of the matched PDR has used up its quota.";
        FarDrop, "far_drop", "The FAR of the matched PDR drops.";
        TunnelUnknown, "tunnel_unknown", "The FAR of the matched PDR forwards to the access network, but the control plane has not sent the tunnel endpoint yet.";
        BufferFull, "buffer_full", "The FAR buffers, but the limit of its BAR or sessions.buffer_pkts_max is reached.";
        BufferDiscarded, "buffer_discarded", "A buffered packet was discarded: its rules now drop it or are gone, the control plane requested it, or it waited too long.";
        OuterHeaderMismatch, "outer_header_mismatch", "The PDR removes an outer header that the packet does not have.";
        InnerNotEct, "inner_not_ect", "A router met congestion and marked the outer header (CE), but the packet inside is not ECN-capable, so only its loss tells its sender.";
        RedirectUnmatched, "redirect_unmatched", "The FAR redirects, but this packet cannot be redirected: wrong address family, or, for a URL, not a valid TCP segment to port 80.";
        RedirectLimited, "redirect_limited", "A worker received more packets to redirect to a URL than it answers per second.";
        TtlExceeded, "ttl_exceeded", "The TTL or hop limit of the user's packet expired.";
        RouteUnknown, "route_unknown", "No route leads to the destination of the user's packet, or of its outer header.";
        RouteBlackhole, "route_blackhole", "The route to the destination of the user's packet, or of its outer header, is a blackhole route.";
        RouteUnreachable, "route_unreachable", "The route to the destination of the user's packet, or of its outer header, says that it is unreachable.";
        NeighborUnresolved, "neighbour_unresolved", "The next hop's link-layer address could not be resolved in time.";
        NeighborQueueFull, "neighbour_queue_full", "Too many packets wait for a link-layer address.";
        PacketTooBig, "packet_too_big", "The packet exceeds the outgoing MTU and must not be fragmented; an ICMP message tells the sender the MTU.";
        FragmentNoBuffer, "fragment_no_buffer", "The packet exceeds the outgoing MTU, and the buffer pool has no buffers for its fragments; raise dpdk.mempool_mbufs.";
        HeadroomShort, "headroom_short", "The packet buffer has no headroom for the outer headers.";
        SlowQueueFull, "slow_queue_full", "More slow-path packets arrived than one step handles.";
        KernelRateLimited, "kernel_rate_limited", "More frames of a class arrived for the kernel twin than it gets per second.";
        KernelRingFull, "kernel_ring_full", "The ring of a class to the kernel twin was full.";
        HandoffFull, "handoff_full", "The ring to the worker that owns the packet's session is full, or that worker has stopped.";
        SignalingFull, "signaling_full", "The ring to the signaling worker is full: more packets to the UPF itself arrive than it answers, or it has stopped.";
        SchedulerFull, "scheduler_full", "The event scheduler has too many packets in flight: the workers are slower than the ports, or one of them has stopped.";
        TxQueueFull, "tx_queue_full", "The transmit queue of the outgoing port is full. Guaranteed packets wait, up to 256 per port and worker, unless the port accepts none for 100 ms.";
    }
}

reasons! {
    /// Why a packet was consumed by the slow path instead of being forwarded.
    PuntReason {
        Arp, "arp", "An ARP request or reply.";
        NeighborDiscovery, "neighbour_discovery", "An IPv6 neighbor solicitation or advertisement.";
        PathMtu, "path_mtu", "An ICMP message of a router that packets to a GTP-U peer exceed an MTU on their way.";
        IcmpLocal, "icmp_local", "An ICMP or ICMPv6 echo to our own address.";
        GtpuEchoRequest, "gtpu_echo_request", "A GTP-U Echo Request.";
        GtpuEchoResponse, "gtpu_echo_response", "A GTP-U Echo Response.";
        GtpuErrorIndication, "gtpu_error_indication", "A GTP-U Error Indication from a peer.";
        GtpuEndMarker, "gtpu_end_marker", "A GTP-U End Marker of a tunnel that ends here; others are forwarded.";
        GtpuExtensionNotification, "gtpu_extension_notification", "A GTP-U Supported Extension Headers Notification.";
        HttpRedirect, "http_redirect", "A TCP segment of a UE that is redirected to a URL; Adit answers in place of the server.";
        Reassembled, "reassembled", "A fragment of a tunnel packet; its data continues in the reassembled packet.";
        KernelTwin, "kernel_twin", "A frame to our own address that went to the kernel twin of its interface.";
        LinkControl, "link_control", "Link housekeeping that needs no answer: router advertisements, multicast listener reports, LLDP, spanning tree.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn reason_names_are_unique_and_indices_dense() {
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        assert!(DropReason::ALL.iter().enumerate().all(|(i, r)| r.index() == i));
        assert!(PuntReason::ALL.iter().enumerate().all(|(i, r)| r.index() == i));
    }
}
