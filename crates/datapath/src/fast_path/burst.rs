//! State that the packets of a burst share: arrival interface, next hops and aggregates.
//!
//! Most packets share a next hop, so the last one is kept for each IP version that packets leave
//! with, also from one burst to the next.

use crate::shaper::RateSet;
use adit_pktio::PacketBuf;
use adit_tables::{Leases, MeterPairs};
use adit_types::{InterfaceId, InterfaceSet, NextHopIndex};
use adit_wire::{UsualLinkHeader, flow_hash, usual_dst};

use super::packet::FastPacket;
use crate::context::StepContext;
use crate::interfaces::TxLink;
use crate::kept_hops::{BurstHops, NEVER_REUSED};
use crate::neighbor_queue::{UnresolvedStation, is_waited_for};

/// A next hop with known link-layer address, the last one that was looked up.
#[derive(Clone, Copy)]
struct KnownHop<'v> {
    /// The key of the lookup: [`block_key`] to data networks, the next-hop index into tunnels.
    key: u64,
    tx_link: Option<&'v TxLink>,
    /// The link header of frames to the hop.
    header: UsualLinkHeader,
}

impl KnownHop<'_> {
    const NONE: Self = Self { key: NEVER_REUSED, tx_link: None, header: UsualLinkHeader::NONE };
}

/// State that the packets of one direction of a burst share.
pub(super) struct BurstContext<'v, 'l> {
    /// The interface that all usual packets arrived on; valid if no interface has a tag.
    arrival: InterfaceSet,
    /// The next hops of the packets.
    pub hops: KnownHops<'v, 'l>,
    /// True if at least one packet has to join a queue.
    pub is_any_queued: bool,
    /// The buckets of all sessions.
    pub meters: MeterPairs<'v>,
    /// Octets that are leased from aggregates.
    pub leases: &'l mut Leases,
    /// The aggregates that packets wait for.
    pub contended: RateSet,
}

impl<'v, 'l> BurstContext<'v, 'l> {
    /// Creates the context of a burst; `arrival` is valid if no interface has a tag.
    #[inline(always)]
    // PERF (adit-bench datapath): inlined, so that the context is built in place.
    pub(super) fn new(
        ctx: &StepContext<'v>,
        arrival: InterfaceId,
        hops: KnownHops<'v, 'l>,
        leases: &'l mut Leases,
        contended: RateSet,
    ) -> Self {
        Self {
            arrival: InterfaceSet::only(arrival),
            hops,
            is_any_queued: false,
            meters: ctx.view.meter_pairs(),
            leases,
            contended,
        }
    }

    /// Returns the interface that a usual packet arrived on.
    #[inline(always)]
    // PERF (adit-bench datapath): one value per burst if there are no tags.
    pub(super) fn arrival_of<const HAS_TAGS: bool>(&self, packet: &FastPacket<'_>) -> InterfaceSet {
        match HAS_TAGS {
            false => self.arrival,
            true => InterfaceSet::only(packet.interface),
        }
    }
}

/// The last next hops of the packets of one direction of a burst.
// PERF (adit-bench datapath): a separate structure, so that functions that look up hops do not
// force the rest of the burst's shared state into memory.
pub(super) struct KnownHops<'v, 'l> {
    /// The last hop for each IP version that packets leave with: to data networks that of the
    /// users' packets, into tunnels that of the outer headers.
    hops: [KnownHop<'v>; 2],
    /// The link of the hop that was used last.
    tx_link: Option<&'v TxLink>,
    /// True if [`KnownHops::resolve`] found a hop. If false, all packets left through `tx_link`.
    has_new: bool,
    /// `TablesView::next_hop_version` before the hops were read.
    changes: u64,
    /// Neighbors that packets wait for. Later packets for them take the stages, which queue them
    /// behind the waiting ones.
    unresolved: &'l [UnresolvedStation],
}

impl<'v, 'l> KnownHops<'v, 'l> {
    /// Takes the hops `kept` from the last burst of the direction, or none if any next hop has
    /// changed since or packets wait for a neighbor.
    #[inline(always)]
    // PERF (adit-bench datapath --burst 1): inlined, so that the hops are built in place.
    pub(super) fn new(
        ctx: &StepContext<'v>,
        kept: &BurstHops,
        unresolved: &'l [UnresolvedStation],
    ) -> Self {
        let changes = ctx.view.next_hop_version();
        let (mut hops, mut tx_link) = ([KnownHop::NONE; 2], None);
        if kept.changes == changes && unresolved.is_empty() {
            tx_link = ctx.interfaces.tx_link(kept.interface);
            hops = kept.hops.map(|(key, header)| KnownHop { key, tx_link, header });
        }
        Self { hops, tx_link, has_new: false, changes, unresolved }
    }

    /// Keeps the last hops for the next burst of the direction. Returns the link of all `packets`,
    /// whose interfaces are already those that they leave by; `None` if they leave by several.
    #[inline(always)]
    // PERF (adit-bench datapath --burst 1): most bursts have no new hop to keep.
    pub(super) fn keep(
        &self,
        kept: &mut BurstHops,
        packets: &[FastPacket<'_>],
    ) -> Option<&'v TxLink> {
        if self.has_new { self.keep_new(kept, packets) } else { self.tx_link }
    }

    #[cold]
    #[inline(never)]
    fn keep_new(&self, kept: &mut BurstHops, packets: &[FastPacket<'_>]) -> Option<&'v TxLink> {
        let tx_link = self.tx_link?;
        let hops = self.hops.map(|hop| match hop.tx_link {
            Some(of) if of.id == tx_link.id => (hop.key, hop.header),
            _ => (NEVER_REUSED, UsualLinkHeader::NONE),
        });
        *kept = BurstHops { changes: self.changes, hops, interface: tx_link.id };
        packets.iter().all(|packet| packet.interface == tx_link.id).then_some(tx_link)
    }

    /// Returns the link of the next hop of an uplink packet to a data network through one of the
    /// interfaces `within`. `None` under the conditions of [`KnownHops::find_hop`].
    // PERF (adit-bench datapath): once per uplink packet.
    #[inline(always)]
    pub(super) fn hop_to_network<B: PacketBuf>(
        &mut self,
        ctx: &StepContext<'v>,
        within: InterfaceSet,
        packet: &FastPacket<'v>,
        is_v6: bool,
        buf: &B,
    ) -> Option<&'v TxLink> {
        let hop = &self.hops[usize::from(is_v6)];
        if hop.key == block_key(packet.network_block, within) {
            return hop.tx_link;
        }
        self.find_hop(ctx, within, packet, buf.data())
    }

    /// Looks up the hop of the uplink packet in `frame`. If one gateway serves all destinations of
    /// the packet's network block, later packets to the block reuse the hop. `None` if the stages
    /// have to decide: the packet goes to another UE, there is no route, or [`KnownHops::resolve`]
    /// returns no hop.
    // PERF (adit-bench routes): a call, so that the packet loops keep their registers.
    #[inline(never)]
    fn find_hop(
        &mut self,
        ctx: &StepContext<'v>,
        within: InterfaceSet,
        packet: &FastPacket<'v>,
        frame: &[u8],
    ) -> Option<&'v TxLink> {
        let (key, next_hop) = match ctx.view.block_gateway(within, packet.network_block) {
            Some(gateway) => (block_key(packet.network_block, within), gateway),
            None => {
                let user_packet = frame.get(usize::from(packet.offset)..)?;
                let dst = usual_dst(user_packet, packet.is_v6)?;
                if ctx.view.local_switching_interface(within, dst).is_some() {
                    return None;
                }
                let hash = || flow_hash(user_packet);
                (NEVER_REUSED, ctx.view.next_hop_towards(within, dst, hash)?)
            }
        };
        self.resolve(ctx, next_hop, key, packet.is_v6)
    }

    /// Returns the link of the hop `index` of a packet that leaves in a tunnel, over IPv6 if
    /// `OVER_V6`. `None` under the conditions of [`KnownHops::resolve`].
    // PERF (adit-bench datapath): once per packet into a tunnel; the last hop is found without a
    // call.
    #[inline(always)]
    pub(super) fn hop_into_tunnel<const OVER_V6: bool>(
        &mut self,
        ctx: &StepContext<'v>,
        index: NextHopIndex,
    ) -> Option<&'v TxLink> {
        let hop = &self.hops[usize::from(OVER_V6)];
        match hop.key == u64::from(index.0) {
            true => hop.tx_link,
            false => self.resolve_tunnel::<OVER_V6>(ctx, index),
        }
    }

    /// Calls [`KnownHops::resolve`] for a packet that leaves in a tunnel.
    // PERF (adit-bench datapath): a call, so that the packet loops keep their registers.
    #[inline(never)]
    fn resolve_tunnel<const OVER_V6: bool>(
        &mut self,
        ctx: &StepContext<'v>,
        index: NextHopIndex,
    ) -> Option<&'v TxLink> {
        self.resolve(ctx, index, u64::from(index.0), OVER_V6)
    }

    /// Returns the link header of frames to the last hop of packets that leave with this IP
    /// version.
    #[inline(always)]
    // PERF (adit-bench datapath): read only when it is written, so that the loop has registers.
    pub(super) const fn link_header(&self, is_v6: bool) -> &UsualLinkHeader {
        &self.hops[is_v6 as usize].header
    }

    /// Returns the link of the hop `index`; the hop becomes the last one of the IP version. `None`
    /// if its link-layer address is unknown or stale, or packets wait for the neighbor.
    #[inline(always)]
    // PERF (adit-bench datapath --gnbs 256): two callers; for tunnels the IP version is constant.
    fn resolve(
        &mut self,
        ctx: &StepContext<'v>,
        index: NextHopIndex,
        key: u64,
        is_v6: bool,
    ) -> Option<&'v TxLink> {
        let (interface, mac) = ctx.view.resolved_hop(index)?;
        if !self.unresolved.is_empty()
            && is_waited_for(self.unresolved, interface, ctx.view.next_hop(index)?.addr)
        {
            return None;
        }
        let tx_link = ctx.interfaces.tx_link(interface)?;
        self.tx_link = Some(tx_link);
        self.has_new = true;
        let hop = &mut self.hops[usize::from(is_v6)];
        (hop.key, hop.tx_link) = (key, Some(tx_link));
        hop.header = UsualLinkHeader::new(mac, tx_link.mac, is_v6);
        Some(tx_link)
    }
}

/// Returns the key of a hop to data networks. It differs from the keys of hops into tunnels, which
/// may be in the same burst: `within` is never empty, as each fast rule names an interface.
#[inline(always)]
const fn block_key(network_block: u8, within: InterfaceSet) -> u64 {
    (within.0 as u64) << 32 | network_block as u64
}
