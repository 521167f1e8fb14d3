//! Packets that wait for the link-layer address of their next hop.
//!
//! A packet waits as a complete frame; its destination MAC address is written when it leaves.
//! Packets for one neighbor leave in the order in which they came. No packet waits longer than
//! [`WAIT_MAX`]. An End Marker of our own waits, too, behind the packets of its tunnel.
//!
//! An address may become known in the middle of a step. Further packets for the neighbor then still
//! wait behind the earlier ones; all of them leave at the beginning of the next step. Spec: RFC
//! 1122 §2.3.2.2; RFC 4861 §7.2.2.

use core::net::IpAddr;
use std::collections::VecDeque;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, TapSet, TapWait, WorkerEvent};
use adit_types::limits::{NEIGHBOR_PENDING_PER_HOP_MAX, NEIGHBOR_PENDING_PKTS_MAX};
use adit_types::{InterfaceId, InterfaceSet, MacAddr, Nanos, NextHopIndex};

use crate::books::Books;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::egress::{Egress, egress_by_route, egress_to_hop};
use crate::interfaces::TxTarget;
use crate::late_packets::{EndedWait, WaitEnd};
use crate::origin::Origin;
use crate::tally::StepTally;
use crate::tx_queues::{TxFrame, TxQueues};

/// Longest wait of a packet: three solicitations, one second apart. Spec: RFC 4861 §10
/// (MAX_MULTICAST_SOLICIT × RETRANS_TIMER).
pub(crate) const WAIT_MAX: Nanos = Nanos::from_secs(3);

/// A worker requests the address of one neighbor at most once in this time.
/// Spec: RFC 1122 §2.3.2.1.
pub(crate) const REQUEST_INTERVAL: Nanos = Nanos::from_secs(1);

/// Maximum of neighbors that packets wait for at a time. Each is checked once per step, so an
/// address scan costs at most 64 next-hop lines per step.
const STATIONS_MAX: usize = 64;

/// A neighbor that packets wait for.
#[derive(Debug)]
pub(crate) struct UnresolvedStation {
    interface: InterfaceId,
    addr: IpAddr,
    index: NextHopIndex,
    waiting: usize,
    asked_at: Nanos,
    /// The link-layer address, set in the step in which it became known.
    mac: Option<MacAddr>,
}

impl UnresolvedStation {
    fn is(&self, interface: InterfaceId, addr: IpAddr) -> bool {
        self.interface == interface && self.addr == addr
    }
}

/// True if packets wait for the neighbor `addr` on the link of `interface`. `stations` are the
/// neighbors that packets wait for.
#[inline]
pub(crate) fn is_waited_for(
    stations: &[UnresolvedStation],
    interface: InterfaceId,
    addr: IpAddr,
) -> bool {
    stations.iter().any(|station| station.is(interface, addr))
}

struct UnresolvedFrame<B> {
    buf: B,
    interface: InterfaceId,
    addr: IpAddr,
    origin: Origin,
    since: Nanos,
    /// The taps that selected the packet.
    taps: TapSet,
}

/// The packets of one worker that wait for neighbors.
pub(crate) struct NeighborQueue<B> {
    stations: Vec<UnresolvedStation>,
    packets: VecDeque<UnresolvedFrame<B>>,
    /// How many of `packets` are End Markers of our own.
    end_markers: usize,
}

impl<B: PacketBuf> NeighborQueue<B> {
    /// Allocates all memory that will be used.
    pub(crate) fn new() -> Self {
        Self {
            stations: Vec::with_capacity(STATIONS_MAX),
            packets: VecDeque::with_capacity(NEIGHBOR_PENDING_PKTS_MAX),
            end_markers: 0,
        }
    }

    /// Returns how many packets wait, without End Markers of our own.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.packets.len() - self.end_markers
    }

    /// Returns how many End Markers of our own wait.
    #[inline]
    pub(crate) const fn end_markers(&self) -> usize {
        self.end_markers
    }

    /// Returns the neighbors that packets wait for.
    #[inline]
    pub(crate) fn stations(&self) -> &[UnresolvedStation] {
        &self.stations
    }

    /// True if a frame to the neighbor of `egress` can leave at once: the neighbor's address is
    /// known, and no frames wait for it.
    #[inline]
    pub(crate) fn is_resolved(&self, egress: &Egress<'_>) -> bool {
        egress.mac.is_some() && !is_waited_for(&self.stations, egress.interface.id, egress.station)
    }

    /// True if there is room for a frame that waits for the neighbor of `egress`.
    pub(crate) fn has_room(&self, egress: &Egress<'_>) -> bool {
        self.packets.len() < NEIGHBOR_PENDING_PKTS_MAX
            && match self.find(egress.interface.id, egress.station) {
                Some(at) => self.stations[at].waiting < NEIGHBOR_PENDING_PER_HOP_MAX,
                None => self.stations.len() < STATIONS_MAX,
            }
    }

    /// Queues a frame for the neighbor of `egress`, and requests the address if no frame waited for
    /// that neighbor. Without room the packet is dropped as `NeighborQueueFull`.
    #[cold]
    pub(crate) fn hold(
        &mut self,
        now: Nanos,
        TxFrame { buf, origin, .. }: TxFrame<B>,
        egress: &Egress<'_>,
        books: &mut Books,
    ) {
        let (interface, addr) = (egress.interface.id, egress.station);
        let is_own = origin == Origin::EndMarker;
        match (self.has_room(egress), is_own) {
            (true, _) => {}
            (false, true) => return books.tally.lose_originated(),
            (false, false) => {
                return books.tally.drop_waiting(DropReason::NeighborQueueFull, buf.data());
            }
        }
        match self.find(interface, addr) {
            Some(at) => self.stations[at].waiting += 1,
            None => {
                let index = egress.index;
                let station = UnresolvedStation {
                    interface,
                    addr,
                    index,
                    waiting: 1,
                    asked_at: now,
                    mac: None,
                };
                self.stations.push(station);
                books.report(WorkerEvent::NeighborUnresolved { interface, addr });
            }
        }
        let taps = if is_own { TapSet::NONE } else { books.tally.taps_of_current_packet() };
        self.end_markers += usize::from(is_own);
        self.packets.push_back(UnresolvedFrame { buf, interface, addr, origin, since: now, taps });
    }

    fn find(&self, interface: InterfaceId, addr: IpAddr) -> Option<usize> {
        self.stations.iter().position(|station| station.is(interface, addr))
    }

    /// Sends packets whose neighbor's address is known, drops those that waited too long, and
    /// requests the other addresses again.
    ///
    /// Cost: one next-hop line per neighbor; packets are read only if any of them leaves.
    #[cold]
    pub(crate) fn release<Io: Departures<Buf = B>>(
        &mut self,
        ctx: &StepContext<'_>,
        io: &mut Io,
        queues: &mut TxQueues<B>,
        books: &mut Books,
    ) {
        let mut is_some_known = false;
        for station in &mut self.stations {
            station.mac = resolve(ctx, station);
            is_some_known |= station.mac.is_some();
            if station.mac.is_none() && ctx.now.since(station.asked_at) >= REQUEST_INTERVAL {
                station.asked_at = ctx.now;
                let (interface, addr) = (station.interface, station.addr);
                books.report(WorkerEvent::NeighborUnresolved { interface, addr });
            }
        }
        let is_late = |since: Nanos| ctx.now.since(since) >= WAIT_MAX;
        let is_some_late = self.packets.front().is_some_and(|oldest| is_late(oldest.since));
        if !is_some_known && !is_some_late {
            return;
        }
        for _ in 0..self.packets.len() {
            let Some(mut packet) = self.packets.pop_front() else { break };
            let at = self.find(packet.interface, packet.addr);
            let mac = at.and_then(|at| self.stations[at].mac);
            if mac.is_none() && !is_late(packet.since) {
                self.packets.push_back(packet);
                continue;
            }
            if let Some(at) = at {
                self.stations[at].waiting -= 1;
            }
            self.end_markers -= usize::from(packet.origin == Origin::EndMarker);
            let (taps, time) = (packet.taps, ctx.now.since(packet.since));
            let waited = EndedWait { taps, wait: TapWait::Neighbor, time };
            match mac.zip(ctx.interfaces.get(packet.interface)) {
                Some((mac, interface)) => {
                    fill_destination(&mut packet.buf, mac);
                    let UnresolvedFrame { buf, origin, .. } = packet;
                    let (bytes, target) = (buf.data().len(), TxTarget::of(interface));
                    books.tally.end_wait(WaitEnd::Leaves(target), waited, buf.data());
                    queues.push(io, &mut books.tally, target, TxFrame { buf, bytes, origin });
                }
                None if packet.origin == Origin::EndMarker => books.tally.lose_originated(),
                None => {
                    let reason = DropReason::NeighborUnresolved;
                    books.tally.drop_waited(reason, waited, packet.buf.data());
                }
            }
        }
        self.stations.retain(|station| station.waiting > 0);
    }

    /// Drops all packets that wait.
    pub(crate) fn drain(&mut self, tally: &mut StepTally) {
        for packet in self.packets.drain(..) {
            match packet.origin {
                Origin::EndMarker => tally.lose_originated(),
                _ => tally.drop(DropReason::NeighborUnresolved),
            }
        }
        self.end_markers = 0;
        self.stations.clear();
    }
}

/// Returns the link-layer address of a neighbor, if it is known by now. Since the last call the
/// neighbor's index may have been reused for another one, or a neighbor without index got one.
fn resolve(ctx: &StepContext<'_>, station: &mut UnresolvedStation) -> Option<MacAddr> {
    let is_it = |egress: &Egress<'_>| {
        egress.interface.id == station.interface && egress.station == station.addr
    };
    if let Some(egress) = egress_to_hop(ctx, station.index).filter(is_it) {
        return egress.mac;
    }
    let role = ctx.interfaces.get(station.interface)?.role;
    let within = InterfaceSet::only(station.interface);
    let egress = egress_by_route(ctx, role, within, station.addr, || 0);
    let egress = egress.filter(is_it)?;
    station.index = egress.index;
    egress.mac
}

/// Writes the destination address into a finished frame.
fn fill_destination<B: PacketBuf>(buf: &mut B, mac: MacAddr) {
    if let Some(destination) = buf.data_mut().first_chunk_mut::<6>() {
        *destination = mac.0;
    }
}
