//! Events from workers to the control thread, and commands from it to them.

use core::net::IpAddr;

use crate::delta_id::DeltaId;
use crate::rule::GtpuTunnel;
use crate::tap::{TapId, TapRequest};
use adit_types::{
    InterfaceId, InterfaceSet, MacAddr, Nanos, PdrId, Qfi, Seid, SessionIndex, Teid, UsageSlot,
};

/// Worker → control thread, over a bounded ring. A worker counts an event as lost if the ring is
/// full; it never waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEvent {
    /// A packet waits for the link-layer address of this on-link destination.
    NeighborUnresolved {
        /// The interface on whose link the destination is.
        interface: InterfaceId,
        /// The destination or gateway.
        addr: IpAddr,
    },
    /// A neighbor announced its link-layer address, or sent it in an answer.
    NeighborLearned {
        /// The interface on whose link the neighbor is.
        interface: InterfaceId,
        /// The neighbor's address.
        addr: IpAddr,
        /// The neighbor's link-layer address.
        mac: MacAddr,
        /// True if the neighbor answered our solicitation.
        solicited: bool,
        /// How to treat a known link-layer address that differs from `mac`.
        conflict: AddressConflict,
    },
    /// Another station uses an address of ours. Spec: RFC 5227 §2.4.
    OwnAddressUsed {
        /// The interface that has the address.
        interface: InterfaceId,
        /// The address.
        addr: IpAddr,
        /// The link-layer address of the other station.
        mac: MacAddr,
    },
    /// A GTP-U peer reports that it does not have the TEID to which we send. Spec: TS 29.281
    /// §7.3.1.
    ErrorIndication {
        /// The peer.
        peer: IpAddr,
        /// The TEID that the peer does not have.
        teid: Teid,
    },
    /// Counters of a URR reached a limit of its entry. Sent once per limit, generation and worker;
    /// the control thread reads the counters to see which limits are reached.
    UsageLimit {
        /// Our SEID of the session.
        session: Seid,
        /// The URR's counters.
        slot: UsageSlot,
        /// The generation of the entry.
        generation: u32,
    },
    /// A URR counted the first packet of a generation, and its entry requests a report of it.
    TrafficStarted {
        /// Our SEID of the session.
        session: Seid,
        /// The URR's counters.
        slot: UsageSlot,
        /// The generation of the entry.
        generation: u32,
        /// When the packet arrived.
        at: Nanos,
        /// The PDR that the packet matched.
        pdr: PdrId,
    },
    /// A router reports that a packet into a tunnel exceeds the MTU of a link behind it. Spec: RFC
    /// 1191 §3; RFC 4443 §3.2.
    PathNarrowed {
        /// The GTP-U peer to which the packet went.
        peer: IpAddr,
        /// The TEID of the tunnel, which the peer assigned.
        teid: Teid,
        /// The router.
        router: IpAddr,
        /// The MTU that the router reports. Unit: octets of the outer IP packet.
        mtu_bytes: u16,
    },
    /// A GTP-U peer announced the end of a tunnel's traffic. Spec: TS 29.281 §7.3.2.
    EndMarker {
        /// The session to which the tunnel leads.
        session: SessionIndex,
    },
    /// A GTP-U peer answered an Echo Request. Spec: TS 29.281 §7.2.2.
    EchoResponse {
        /// The peer.
        peer: IpAddr,
        /// Sequence number of the request.
        sequence: u16,
        /// When the peer started, if the response says so. Unit: seconds since 1900-01-01 00:00
        /// UTC.
        recovery: Option<u32>,
        /// When the response arrived.
        at: Nanos,
    },
    /// A GTP-U peer sent an Echo Request that says when it started. Spec: TS 29.281 §7.2.1.
    EchoRequest {
        /// The peer.
        peer: IpAddr,
        /// When the peer started. Unit: seconds since 1900-01-01 00:00 UTC.
        recovery: u32,
    },
    /// An Echo Request left.
    EchoSent {
        /// The peer.
        peer: IpAddr,
        /// Sequence number of the request.
        sequence: u16,
        /// When it left.
        at: Nanos,
    },
    /// A downlink packet arrived whose FAR does not forward it, but requests a report. Spec: TS
    /// 29.244 §8.2.26 (NOCP, BDPN, DDPN).
    DownlinkData {
        /// Our SEID of the session, which is never reused.
        session: Seid,
        /// The PDR that matched.
        pdr: PdrId,
        /// Differentiated services code point of the packet: the Paging Policy Indication.
        dscp: Option<u8>,
        /// QoS flow that the packet belongs to.
        qfi: Option<Qfi>,
        /// The fate of the packet; `None` for a plain notification (NOCP).
        delivery: Option<DataDelivery>,
    },
}

/// The fate of the first downlink packet. Spec: TS 29.244 §8.2.180.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataDelivery {
    /// The packet was buffered.
    Buffered,
    /// The packet was discarded.
    Discarded,
}

/// How to treat the known link-layer address of a neighbor when a station sends another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressConflict {
    /// The address is replaced: a Neighbor Advertisement with the Override flag. Spec: RFC 4861
    /// §7.2.5 (II).
    Replace,
    /// The address is replaced if the station with the known address no longer answers: ARP, and
    /// the source of a Neighbor Solicitation.
    Verify,
    /// The address becomes stale: a Neighbor Advertisement without the Override flag. Spec: RFC
    /// 4861 §7.2.5 (I).
    Doubt,
}

/// Control thread → worker, over a bounded ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCommand {
    /// Solicit the link-layer address of `addr`: ARP request or neighbor solicitation.
    Solicit {
        /// The interface to send on.
        interface: InterfaceId,
        /// The neighbor.
        addr: IpAddr,
        /// Send to this station only (a probe of a known neighbor) instead of all.
        unicast: Option<MacAddr>,
    },
    /// Send an End Marker into a tunnel. The command arrives before the change is published. The
    /// worker executes it in the first step that sees the change: after its last packet on the old
    /// path, before its first packet on the new path. Spec: TS 29.281 §7.3.2.
    SendEndMarker {
        /// The tunnel.
        tunnel: GtpuTunnel,
        /// The interfaces that lead there.
        interfaces: InterfaceSet,
        /// The QoS flow that leaves the tunnel, if the session's rules name one.
        qfi: Option<Qfi>,
        /// The session whose traffic leaves the tunnel.
        session: SessionIndex,
        /// The change by which the session's traffic leaves the tunnel.
        change: DeltaId,
    },
    /// Send an Echo Request to a GTP-U peer. Spec: TS 29.281 §7.2.1.
    SendEchoRequest {
        /// The peer.
        peer: IpAddr,
        /// The interfaces that lead there.
        interfaces: InterfaceSet,
        /// Sequence number, repeated in the response.
        sequence: u16,
        /// ToS or Traffic Class of the packet.
        tos: u8,
    },
    /// Announce our own addresses on `interface`: gratuitous ARP, unsolicited advertisement.
    Announce {
        /// The interface to announce on.
        interface: InterfaceId,
    },
    /// Report packets to a tap. Every worker gets this command.
    StartTap(TapId, TapRequest),
    /// Stop reporting packets to a tap; the worker confirms it.
    StopTap(TapId),
}
