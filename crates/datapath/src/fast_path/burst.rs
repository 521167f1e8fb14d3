//! What the packets of a burst share: their arrival, next hops and aggregates.
//!
//! Most packets share a next hop, so the last one is kept: in uplink one per family of the user's packet,
//! in downlink one for both families.

use adit_pktio::PacketBuf;
use adit_shaper::RateSet;
use adit_tables::{Leases, MeterPairs};
use adit_types::{InterfaceId, InterfaceSet, MacAddr, NextHopIndex};
use adit_wire::usual_dst;

use super::packet::FastPacket;
use crate::context::StepContext;
use crate::interfaces::TxLink;
use crate::neighbor_queue::{UnresolvedStation, is_waited_for};

/// A next hop whose link-layer address is known.
#[derive(Clone, Copy)]
pub(super) struct ResolvedHop<'v> {
    pub mac: MacAddr,
    pub tx_link: &'v TxLink,
}

/// Set in the keys of hops of packets that leave a tunnel for another one: packets to data networks may be in the
/// same burst.
const ONWARD: u64 = 1 << 48;

/// A key that no packet has: the hop stored with it is never reused.
const NEVER_REUSED: u64 = u64::MAX;

/// What the packets of one direction of a burst share.
pub(super) struct BurstContext<'v, 'l> {
    /// The interface that all usual packets arrived on, if no interface has a tag.
    arrival: InterfaceSet,
    /// The last hop and the key that it was found by. To data networks: of each family, by block and
    /// interfaces. Into tunnels: both families use the first entry, by next-hop index.
    hops: [(u64, Option<ResolvedHop<'v>>); 2],
    /// The link of the last hop.
    tx_link: Option<&'v TxLink>,
    /// All hops had that link.
    is_one_link: bool,
    /// A packet has to join a queue.
    pub is_any_queued: bool,
    /// The buckets of all sessions.
    pub meters: MeterPairs<'v>,
    /// Octets leased from aggregates.
    pub leases: &'l mut Leases,
    /// Aggregates that packets wait for.
    pub contended: RateSet,
    /// Neighbors that packets wait for. Later packets for them take the stages, which queue them behind.
    unresolved: &'l [UnresolvedStation],
}

impl<'v, 'l> BurstContext<'v, 'l> {
    /// A burst whose usual packets arrived on `arrival`, if no interface has a tag.
    #[inline(always)]
    // PERF (adit bench datapath): once per burst, in place.
    pub(super) fn new(
        ctx: &StepContext<'v>,
        arrival: InterfaceId,
        leases: &'l mut Leases,
        contended: RateSet,
        unresolved: &'l [UnresolvedStation],
    ) -> Self {
        Self {
            arrival: InterfaceSet::only(arrival),
            hops: [(NEVER_REUSED, None); 2],
            tx_link: None,
            is_one_link: true,
            is_any_queued: false,
            meters: ctx.view.meter_pairs(),
            leases,
            contended,
            unresolved,
        }
    }

    /// The interface that a usual packet arrived on.
    #[inline(always)]
    // PERF (adit bench datapath): one value per burst without tags.
    pub(super) fn arrival_of<const HAS_TAGS: bool>(&self, packet: &FastPacket<'_>) -> InterfaceSet {
        match HAS_TAGS {
            false => self.arrival,
            true => InterfaceSet::only(packet.interface),
        }
    }

    /// The link of all hops, if it was the same one.
    #[inline]
    pub(super) fn only_link(&self) -> Option<&'v TxLink> {
        self.tx_link.filter(|_| self.is_one_link)
    }

    /// The hop of an uplink packet to a data network through one of the interfaces `within`; see
    /// [`BurstContext::find_hop`].
    // PERF (adit bench datapath): once per uplink packet.
    #[inline(always)]
    pub(super) fn hop_to_network<B: PacketBuf>(
        &mut self,
        ctx: &StepContext<'v>,
        within: InterfaceSet,
        packet: &FastPacket<'v>,
        is_v6: bool,
        buf: &B,
    ) -> Option<ResolvedHop<'v>> {
        let key = u64::from(packet.network_block) << 32 | u64::from(within.0);
        match self.hops[usize::from(is_v6)] {
            (known, Some(hop)) if known == key => Some(hop),
            _ => self.find_hop(ctx, within, packet, buf.data()),
        }
    }

    /// Looks up the hop of the uplink packet in `frame`. If one gateway leads to the whole block of its
    /// destination, later packets to the block reuse the hop. `None` if the stages have to decide: the
    /// packet goes to another UE, there is no route, or [`BurstContext::resolve`] finds no hop.
    #[cold]
    #[inline(never)]
    fn find_hop(
        &mut self,
        ctx: &StepContext<'v>,
        within: InterfaceSet,
        packet: &FastPacket<'v>,
        frame: &[u8],
    ) -> Option<ResolvedHop<'v>> {
        let (key, next_hop) = match ctx.view.block_gateway(within, packet.network_block) {
            Some(gateway) => (u64::from(packet.network_block) << 32 | u64::from(within.0), gateway),
            None => {
                let dst = usual_dst(frame.get(usize::from(packet.offset)..)?, packet.is_v6)?;
                if ctx.view.local_switching_interface(within, dst).is_some() {
                    return None;
                }
                (NEVER_REUSED, ctx.view.next_hop_towards(within, dst)?)
            }
        };
        let hop = self.resolve(ctx, next_hop)?;
        self.hops[usize::from(packet.is_v6)] = (key, Some(hop));
        Some(hop)
    }

    /// The hop `index` of a downlink packet; see [`BurstContext::resolve`].
    // PERF (adit bench datapath): once per downlink packet.
    #[inline(always)]
    pub(super) fn hop_to(
        &mut self,
        ctx: &StepContext<'v>,
        index: NextHopIndex,
    ) -> Option<ResolvedHop<'v>> {
        let key = u64::from(index.0);
        match self.hops[0] {
            (known, Some(hop)) if known == key => Some(hop),
            _ => {
                let hop = self.resolve(ctx, index)?;
                self.hops[0] = (key, Some(hop));
                Some(hop)
            }
        }
    }

    /// The hop `index` of a packet that leaves a tunnel for another one; see [`BurstContext::resolve`].
    // PERF (adit bench datapath --n9): once per packet.
    #[inline(always)]
    pub(super) fn hop_onward(
        &mut self,
        ctx: &StepContext<'v>,
        index: NextHopIndex,
    ) -> Option<ResolvedHop<'v>> {
        let key = ONWARD | u64::from(index.0);
        match self.hops[0] {
            (known, Some(hop)) if known == key => Some(hop),
            _ => {
                let hop = self.resolve(ctx, index)?;
                self.hops[0] = (key, Some(hop));
                Some(hop)
            }
        }
    }

    /// The hop `index`, if its link-layer address is known and fresh and no packet waits for it. Notes
    /// whether all hops have one link.
    #[inline]
    fn resolve(&mut self, ctx: &StepContext<'v>, index: NextHopIndex) -> Option<ResolvedHop<'v>> {
        let (interface, mac) = ctx.view.resolved_hop(index)?;
        if !self.unresolved.is_empty()
            && is_waited_for(self.unresolved, interface, ctx.view.next_hop(index)?.addr)
        {
            return None;
        }
        let tx_link = ctx.interfaces.tx_link(interface)?;
        self.is_one_link &= self.tx_link.is_none_or(|last| last.id == tx_link.id);
        self.tx_link = Some(tx_link);
        Some(ResolvedHop { mac, tx_link })
    }
}
