//! The fast path: all stages in one, for the usual packet, which needs only the fast rule of its
//! session.
//!
//! A packet whose layout is recognized (`adit_wire::usual`) and that meets the conditions of its
//! session's fast rule (`adit_rules::FastRule`) is rewritten, counted, and sent or queued for its
//! rate. Every other packet stays in the burst and takes the stages. Later packets of the same
//! session in the burst then take the stages, too, so that their order is kept. If only the stages
//! can find the session of a packet, the whole burst takes them. Only the stages apply rules that
//! drop, answer, buffer or report; the fast path loses a packet only if a queue or a hand-off ring
//! is full.
//!
//! The passes over a burst: recognize; look up sessions; hand off packets of other workers;
//! prefetch usage counters and buckets; find queues, if packets may have to join one; select rules
//! by SDF filters; rewrite; send.

mod burst;
mod depart;
mod direction;
mod family;
mod packet;
mod rates;
mod recognize;
mod relay;
mod select;
mod send;
mod ticket;
pub(crate) mod trial;
mod trial_packet;
mod unusual;

use core::mem;
use core::net::IpAddr;

use adit_pktio::{Burst, PacketBuf};
use adit_rules::LeaveReason;
use adit_tables::{CellFlags, FastRuleSnapshot, TablesView, UeTable};
use adit_types::{Direction, InterfaceId, PortId, SessionIndex};
use adit_wire::usual_dst;
use adit_wire::vlan::VlanTag;

use self::burst::{BurstContext, KnownHops};
use self::depart::{PacketTraits, RuledPacket};
use self::direction::{
    Decapsulation, Encapsulation, FastDirection, FastDownlink, FastRewrite, FastUplink,
    find_other_tunnels,
};
use self::family::{FamilyMix, FamilyOrder, Mixed, OnlyV4, OnlyV6};
use self::packet::FastPacket;
use self::rates::{
    BucketsAndUrrs, BucketsOnly, BurstRates, EveryRate, NoRates, RateChecks, RelayEveryRate,
    RelayNoRates, find_first_queues,
};
use self::recognize::{
    PacketMix, expects_over_v6, recognize_all, recognize_links, recognize_mixed,
};
use self::relay::Relayed;
use self::select::select_rules;
use self::send::{SentFrames, send_all, send_some};
use self::ticket::QueueTicket;
use self::trial_packet::leave;
use crate::columns::BurstColumn;
use crate::context::StepContext;
use crate::departures::Departures;
use crate::handoff::Handoff;
use crate::interfaces::{TxLink, UsualPort};
use crate::shaping::{Shaping, ShapingQueues};
use crate::tally::StepTally;
use crate::worker_state::WorkerState;

/// The packets of a burst, one entry per buffer.
type FastPackets<'v> = BurstColumn<FastPacket<'v>>;

/// The port that a burst arrived on.
#[derive(Clone, Copy)]
struct BurstOrigin<'l> {
    id: PortId,
    port: &'l UsualPort,
}

/// A burst whose packets were recognized.
struct FastBurst<'b, 'v, B> {
    origin: BurstOrigin<'b>,
    counts: BurstCounts,
    packets: &'b mut FastPackets<'v>,
    /// The buffers of `packets`.
    rx: &'b mut Burst<B>,
}

/// Packet counts of a burst, taken before packets of other workers are handed off.
#[derive(Clone, Copy)]
struct BurstCounts {
    all: usize,
    /// Usual packets.
    usual: usize,
    /// Packets with [`FastPacket::is_v6`].
    v6: usize,
    /// Usual packets that arrived in tunnels over IPv6.
    over_v6: usize,
}

/// Forwards the usual packets of a burst. The others stay in `rx`, in order within each direction.
///
/// Shape:   removes from `rx` every packet that it sends, queues for its rate or hands off; the
///          others stay for the stages. n ≤ BURST_MAX.
/// Cost:    per packet, one cache line of the key table, one of the fast rule and the session's
///          counters, and one per URR. With rates, one line of their deferred charge, or the
///          buckets. With SDF filters, the lines of the matcher and of the selected rule. While
///          packets wait, the lines of the queue, its index and its counters. Earlier passes
///          prefetch these lines, except the buckets of a rule that a matcher selected, and index
///          and counters of queues. A next hop is looked up when it changes, but for each uplink
///          packet if a network block has several gateways. No allocation, no clock.
/// Errors:  none; frames that a port does not accept are queued or dropped as
///          `DropReason::TxQueueFull`; packets without room in a queue are dropped as
///          `ShapingQueueFull`, in a hand-off ring as `HandoffFull`.
pub(crate) fn forward_usual<Io: Departures>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let Some(usual_port) = ctx.interfaces.usual_port(port) else { return };
    let origin = BurstOrigin { id: port, port: usual_port };
    let packets = &mut FastPackets::new();
    let mix = recognize_burst(&ctx.view, usual_port, state.are_families_mixed, rx, packets);
    let [usual, uplink, v6, unknown, over_v6] = mix.counts();
    state.are_families_mixed = v6 != 0 && v6 != rx.len();
    // The session of an unknown packet may have later packets, which must not overtake it.
    if usual == 0 || unknown != 0 {
        return;
    }
    let counts = BurstCounts { all: packets.len(), usual, v6, over_v6 };
    let burst = FastBurst { origin, counts, packets, rx };
    match uplink {
        0 => forward_direction::<Io, FastDownlink>(ctx, io, burst, state),
        _ if uplink == counts.all => forward_direction::<Io, FastUplink>(ctx, io, burst, state),
        _ => forward_both(ctx, io, burst, state),
    }
}

/// Recognizes the packets of a burst. `are_mixed`: the burst is expected to have both IP versions.
#[inline(always)]
// PERF (adit-bench datapath --burst 1): inlined to save a call per burst.
fn recognize_burst<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    port: &UsualPort,
    are_mixed: bool,
    rx: &Burst<B>,
    packets: &mut FastPackets<'v>,
) -> PacketMix {
    match (port.links.as_slice(), are_mixed) {
        ([link], _) if expects_over_v6(link, rx) => match link.is_untagged() {
            true => recognize_all::<_, 0, true>(view, link, rx, packets),
            false => recognize_all::<_, { VlanTag::LEN }, true>(view, link, rx, packets),
        },
        ([link], false) if link.is_untagged() => {
            recognize_all::<_, 0, false>(view, link, rx, packets)
        }
        ([link], true) if link.is_untagged() => recognize_mixed::<_, 0>(view, link, rx, packets),
        ([link], false) => recognize_all::<_, { VlanTag::LEN }, false>(view, link, rx, packets),
        ([link], true) => recognize_mixed::<_, { VlanTag::LEN }>(view, link, rx, packets),
        (links, _) => recognize_links(view, links, rx, packets),
    }
}

/// Splits a burst of both directions, and forwards each direction separately.
#[inline(never)]
fn forward_both<'v, Io: Departures>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    FastBurst { origin, packets, rx, .. }: FastBurst<'_, 'v, Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let [mut tunneled, mut plain] = [Burst::new(), Burst::new()];
    let [mut uplink, mut downlink] = [FastPackets::new(), FastPackets::new()];
    for (buf, packet) in rx.drain(..).zip(&*packets) {
        let (bufs, packets) = match packet.direction {
            Direction::Uplink => (&mut tunneled, &mut uplink),
            Direction::Downlink => (&mut plain, &mut downlink),
        };
        bufs.push(buf);
        packets.push(*packet);
    }
    let counts = |packets: &FastPackets<'_>| BurstCounts {
        all: packets.len(),
        usual: packets.iter().filter(|packet| packet.is_usual).count(),
        v6: packets.iter().filter(|packet| packet.is_v6).count(),
        over_v6: packets.iter().filter(|packet| packet.is_over_v6()).count(),
    };
    let counts_up = counts(&uplink);
    let up = FastBurst { origin, counts: counts_up, packets: &mut uplink, rx: &mut tunneled };
    forward_direction::<Io, FastUplink>(ctx, io, up, state);
    let counts_down = counts(&downlink);
    let down = FastBurst { origin, counts: counts_down, packets: &mut downlink, rx: &mut plain };
    forward_direction::<Io, FastDownlink>(ctx, io, down, state);
    rx.extend(tunneled);
    rx.extend(plain);
}

/// Forwards a burst of one direction, in the loop for its IP versions. A burst without a usual
/// packet takes the stages.
fn forward_direction<'v, Io: Departures, D: FastDirection>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    burst: FastBurst<'_, 'v, Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    match burst.counts {
        BurstCounts { usual: 0, .. } => {}
        BurstCounts { v6: 0, .. } => forward_families::<Io, D, OnlyV4>(ctx, io, burst, state),
        BurstCounts { v6, all, .. } if v6 == all => {
            forward_families::<Io, D, OnlyV6>(ctx, io, burst, state);
        }
        _ => forward_families::<Io, D, Mixed>(ctx, io, burst, state),
    }
}

/// Performs all passes after recognition on a burst of one direction. Compiled once for each
/// direction and mix of IP versions.
#[inline(never)]
fn forward_families<'v, Io: Departures, D: FastDirection, F: FamilyMix>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    mut burst: FastBurst<'_, 'v, Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let to_ues = find_all_sessions::<_, _, D, F>(ctx, &state.handoff, &mut burst);
    if !state.handoff.is_alone() {
        hand_off_foreign(&mut state.handoff, &mut burst, &mut state.books.tally);
    }
    let prepared = prepare::<_, _, D, F>(ctx, to_ues, &mut burst, &state.queues.shaping);
    let FastBurst { counts, packets, rx, .. } = burst;
    let rewrite_all = rewrite_loop::<_, _, D, F>(ctx.interfaces.have_tags(), counts, prepared);
    let rewritten = rewrite_all(ctx, counts.usual == counts.all, packets, rx, state);
    let direction = prepared.relays.map_or(Some(D::DIRECTION), TunnelDirections::only);
    match rewritten.only_link.zip(direction) {
        Some((link, direction)) => {
            let bytes = rewritten.sent_bytes;
            send_all(io, SentFrames { link, direction, bytes }, rx, packets, state);
        }
        None => send_some(ctx, io, packets, rx, state),
    }
}

/// An instance of [`rewrite_all`], compiled for one kind of burst.
type RewriteLoop<B, Q> = for<'v> fn(
    &StepContext<'v>,
    bool,
    &mut FastPackets<'v>,
    &mut Burst<B>,
    &mut WorkerState<Q>,
) -> RewrittenBurst<'v>;

/// Returns the loop for a burst of one direction.
#[inline(always)]
// PERF (adit-bench datapath --burst 1): inlined to save a call per burst.
fn rewrite_loop<B: PacketBuf, Q: PacketBuf, D: FastDirection, F: FamilyMix>(
    have_tags: bool,
    counts: BurstCounts,
    PreparedBurst { rates, relays }: PreparedBurst,
) -> RewriteLoop<B, Q> {
    match (D::DIRECTION, relays) {
        (Direction::Uplink, _) if counts.over_v6 != 0 => {
            loop_from_v6::<_, _, F>(have_tags || counts.over_v6 != counts.usual, rates)
        }
        (Direction::Uplink, Some(_)) => loop_of_relays::<_, _, F>(have_tags, rates),
        (Direction::Downlink, Some(_)) => loop_into_v6::<_, _, F>(have_tags, rates),
        (_, None) => loop_of_direction::<_, _, D, F>(have_tags, rates),
    }
}

// Each arm of the four functions below is a copy of the loop, compiled for each direction and mix
// of IP versions. A comment states the gain of a copy: without it, another loop (`over …`) would
// have to serve its bursts, and a packet would cost this many more instructions, uplink / downlink.
// A copy that gains less than 2 % (6 instructions of the usual packet) is not worth its code.
// Figures: docs/benchmarks/fast-path.md.

/// Returns the loop for a burst of one direction whose packets leave to data networks, or in
/// tunnels over IPv4.
fn loop_of_direction<B: PacketBuf, Q: PacketBuf, D: FastDirection, F: FamilyMix>(
    have_tags: bool,
    rates: BurstRates,
) -> RewriteLoop<B, Q> {
    match (have_tags, rates) {
        // Gain over both families: IPv4 28 / 21, IPv6 33 / 20. Over tags: 52 / 36.
        (false, BurstRates::None) => rewrite_all::<_, _, D, F, NoRates, false>,
        // Gain over both families: IPv4 25 / 21, IPv6 32 / 21. Over other URRs: 12 / 12.
        (false, BurstRates::Buckets) => rewrite_all::<_, _, D, F, BucketsOnly, false>,
        // Gain over every rate: 37 / 27, without buckets 16 / 5. Over both families: IPv4 29 / 22.
        (false, BurstRates::BucketsAndUrrs) => {
            rewrite_all::<_, _, D, F::Merged, BucketsAndUrrs, false>
        }
        // Gain over both families: IPv4 20 / 24.
        (false, BurstRates::Every) => rewrite_all::<_, _, D, F::Merged, EveryRate, false>,
        // Gain over every rate: IPv4 17 / 34, both families 11 / 37.
        (true, BurstRates::None) => rewrite_all::<_, _, D, F::Merged, NoRates, true>,
        // Gain over every rate: 35 / 39. Over both families: IPv4 21 / 19.
        (true, BurstRates::Buckets) => rewrite_all::<_, _, D, F::Merged, BucketsOnly, true>,
        (true, _) => rewrite_all::<_, _, D, Mixed, EveryRate, true>,
    }
}

/// Returns the loop for a burst from tunnels in which packets leave in tunnels (N9).
fn loop_of_relays<B: PacketBuf, Q: PacketBuf, F: FamilyMix>(
    have_tags: bool,
    rates: BurstRates,
) -> RewriteLoop<B, Q> {
    match (have_tags, rates) {
        // Gain over every rate: 46 / 35, and over both families more.
        (false, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, _, Relayed, OnlyV4, RelayNoRates, false>
        }
        // Gain over every rate: 72 / 76.
        (true, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, _, Relayed, OnlyV4, RelayNoRates, true>
        }
        // Gain over tags and both families: 54 / 44. Over both families: IPv4 23 / 5.
        (false, _) => rewrite_all::<_, _, Relayed, F::Merged, RelayEveryRate, false>,
        (true, _) => rewrite_all::<_, _, Relayed, Mixed, RelayEveryRate, true>,
    }
}

/// Returns the loop for a burst in which packets arrived in tunnels over IPv6. `are_some`: only
/// some packets did, or a link has a tag. Packets that leave in another tunnel take the stages.
fn loop_from_v6<B: PacketBuf, Q: PacketBuf, F: FamilyMix>(
    are_some: bool,
    rates: BurstRates,
) -> RewriteLoop<B, Q> {
    match (are_some, rates) {
        // Gain over tags and both families: 78, and over every rate more.
        (false, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, _, Decapsulation<true>, OnlyV4, NoRates, false>
        }
        _ => rewrite_all::<_, _, Decapsulation<true>, Mixed, EveryRate, true>,
    }
}

/// Returns the loop for a burst in which packets leave in tunnels over IPv6.
fn loop_into_v6<B: PacketBuf, Q: PacketBuf, F: FamilyMix>(
    have_tags: bool,
    rates: BurstRates,
) -> RewriteLoop<B, Q> {
    match (have_tags, rates) {
        // Gain over tags and both families: 62, and over every rate more.
        (false, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, _, Encapsulation<true>, OnlyV4, RelayNoRates, false>
        }
        _ => rewrite_all::<_, _, Encapsulation<true>, Mixed, RelayEveryRate, true>,
    }
}

/// Results of the passes before the rewrite.
#[derive(Clone, Copy)]
struct PreparedBurst {
    /// The rates that the packets may have to pass.
    rates: BurstRates,
    /// The directions of the packets, if any packet needs the loop of relays or the one into
    /// tunnels over IPv6; else `None`.
    relays: Option<TunnelDirections>,
}

/// The directions of the packets of a burst.
#[derive(Clone, Copy)]
enum TunnelDirections {
    /// All packets come from the RAN in tunnels.
    Uplink,
    /// All packets go to UEs, from another UPF in tunnels, or from data networks.
    Downlink,
    Both,
}

impl TunnelDirections {
    /// Returns the directions of `all` packets in tunnels, of which `to_ues` come from another UPF.
    const fn of(to_ues: usize, all: usize) -> Self {
        match to_ues {
            0 => Self::Uplink,
            _ if to_ues == all => Self::Downlink,
            _ => Self::Both,
        }
    }

    /// Returns the direction if all packets have the same.
    const fn only(self) -> Option<Direction> {
        match self {
            Self::Uplink => Some(Direction::Uplink),
            Self::Downlink => Some(Direction::Downlink),
            Self::Both => None,
        }
    }
}

/// Consecutive packets of a burst that arrived on one interface and took the fast path.
struct ArrivalRun {
    interface: InterfaceId,
    pkts: usize,
    /// Octets of the received frames.
    bytes: usize,
}

impl ArrivalRun {
    const fn of(interface: InterfaceId) -> Self {
        Self { interface, pkts: 0, bytes: 0 }
    }

    /// Adds a packet of `bytes` octets. If the packet begins another run, counts the previous one.
    #[inline(always)]
    // PERF (adit-bench datapath): inlined, runs for every packet.
    fn add<B: PacketBuf, const HAS_TAGS: bool>(
        &mut self,
        interface: InterfaceId,
        bytes: usize,
        tally: &mut StepTally,
    ) {
        if HAS_TAGS && interface != self.interface {
            self.count::<B>(tally);
            *self = Self::of(interface);
        }
        self.pkts += usize::from(HAS_TAGS);
        self.bytes += bytes;
    }

    #[inline]
    fn count<B: PacketBuf>(&self, tally: &mut StepTally) {
        if !B::IS_TRIAL {
            tally.receive_fast(self.interface, self.pkts, self.bytes);
        }
    }
}

/// The result of [`rewrite_all`] on a burst.
struct RewrittenBurst<'v> {
    /// Octets of the frames that leave, also of those that wait in a queue.
    sent_bytes: usize,
    /// The link that the whole burst leaves through; `None` if there are several links, or if any
    /// packet is queued or takes the stages.
    only_link: Option<&'v TxLink>,
}

/// Charges, rewrites and counts the packets that the fast path forwards, and writes their egress
/// interfaces and tickets. Marks the others as not usual: those that fail a condition or that a
/// rate stops, and later packets of their sessions.
///
/// `are_usual`: every packet is usual. `HAS_TAGS`: the links of any interfaces have tags; if not,
/// all usual packets arrived on one interface. `Q`: the buffer type of waiting packets, which is
/// `B` except in trials. Compiled for each direction, mix of IP versions and kind of rates, and
/// again for trials.
#[inline(never)]
// PERF (adit-bench datapath): a separate function has registers for its loop; one call per burst.
fn rewrite_all<
    'v,
    B: PacketBuf,
    Q: PacketBuf,
    D: FastRewrite,
    F: FamilyMix,
    R: RateChecks,
    const HAS_TAGS: bool,
>(
    ctx: &StepContext<'v>,
    are_usual: bool,
    packets: &mut FastPackets<'v>,
    rx: &mut Burst<B>,
    state: &mut WorkerState<Q>,
) -> RewrittenBurst<'v> {
    let WorkerState { queues: waiting, books, kept_hops, .. } = state;
    let first = packets.iter().find(|packet| packet.is_usual);
    let arrival = first.map(|packet| packet.interface).unwrap_or_default();
    let must_check_queues = R::RATES == BurstRates::Every && waiting.shaping.must_check_queues();
    let Shaping { queues, leases, .. } = &mut waiting.shaping;
    let queue_room = queues.room();
    let hops = KnownHops::new(ctx, kept_hops.of(D::HOPS), waiting.unresolved.stations());
    let mut burst = BurstContext::new(ctx, arrival, hops, leases, queues.contended());
    let has_aggregates = R::RATES == BurstRates::Every && !ctx.view.aggregates().is_empty();
    let mut left_to_stages = BurstColumn::<SessionIndex>::new();
    // False while every packet is usual, none was left to the stages, and no packet is buffered.
    let mut check_each = !are_usual || !waiting.buffering.is_empty();
    let (mut run, mut sent_bytes) = (ArrivalRun::of(arrival), 0);
    for (buf, packet) in rx.iter_mut().zip(packets.iter_mut()) {
        let takes_stages = check_each
            && (!packet.is_usual
                || left_to_stages.contains(&packet.session)
                || waiting.buffering.has_packets_of(packet.session));
        let rule = match takes_stages {
            false => R::rule(packet).or_else(|| leave(buf, LeaveReason::RuleChanging)),
            true => leave(buf, LeaveReason::PacketsBuffered),
        };
        let rewritten = rule.and_then(|rule| {
            if must_check_queues
                && (rule.meters() != 0 || has_aggregates)
                && !assign_ticket(queues, queue_room, &rule, packet)
            {
                return leave(buf, LeaveReason::QueueFull);
            }
            let traits = PacketTraits { is_v6: F::is_v6(packet), rates: R::RATES };
            let ruled = RuledPacket { rule: &rule, packet, traits };
            D::rewrite::<_, HAS_TAGS>(ctx, ruled, &mut burst, buf)
        });
        let Some(rewritten) = rewritten else {
            // Cannot overflow: at most one push per packet of the burst.
            left_to_stages.push(packet.session);
            packet.is_usual = false;
            check_each = true;
            continue;
        };
        run.add::<B, HAS_TAGS>(packet.interface, rewritten.received_len, &mut books.tally);
        packet.interface = rewritten.tx_link.id;
        sent_bytes += rewritten.frame_len;
    }
    let link = burst.hops.keep(kept_hops.of(D::HOPS), packets);
    let only_link = link.filter(|_| !burst.is_any_queued && left_to_stages.is_empty());
    // PERF (adit-bench datapath): without tags there is only one run, whose packets are counted
    // here instead of one by one.
    if !HAS_TAGS {
        run.pkts = packets.len() - left_to_stages.len();
    }
    run.count::<B>(&mut books.tally);
    RewrittenBurst { sent_bytes, only_link }
}

/// Writes the packet's ticket if its queue exists; `send_some` enqueues the packet unless the
/// stages take it. Returns false if the queue has no room for the packet: then the stages send it
/// at once, or drop and count it. `room`: the result of [`ShapingQueues::room`].
#[inline(never)]
// PERF (adit-bench datapath --rates shared): a call, so that the packet loop has registers; in most
// bursts with aggregates no packet waits.
fn assign_ticket<B: PacketBuf>(
    queues: &ShapingQueues<B>,
    room: u32,
    rule: &FastRuleSnapshot<'_>,
    packet: &mut FastPacket<'_>,
) -> bool {
    let ticket = QueueTicket::of(rule);
    let Some(queue) = queues.find_from(packet.first_queue, ticket.buckets(), ticket.tag()) else {
        return room > 0;
    };
    packet.ticket = ticket.with_queue(queue);
    queues.flow_len_at(queue) < room
}

/// Finds the session of each packet. Returns how many packets are in tunnels from other UPFs.
#[inline(always)]
// PERF (adit-bench datapath): inlined to save a call per burst.
fn find_all_sessions<'v, B: PacketBuf, Q: PacketBuf, D: FastDirection, F: FamilyMix>(
    ctx: &StepContext<'v>,
    handoff: &Handoff<Q>,
    FastBurst { origin, packets, .. }: &mut FastBurst<'_, 'v, B>,
) -> usize {
    let view = &ctx.view;
    match origin.port.domain {
        Some(domain) => {
            let ues = view.ues(domain);
            find_sessions::<_, D, F>(view, |_| ues, handoff, packets)
        }
        None => {
            let domain_of = |id| ctx.interfaces.get(id).map(|of| of.domain).unwrap_or_default();
            let ues_of = |packet: &FastPacket<'_>| view.ues(domain_of(packet.interface));
            find_sessions::<_, D, F>(view, ues_of, handoff, packets)
        }
    }
}

/// Finds the fast rule of each packet, and prefetches the cache lines that the rewrite reads.
/// `to_ues`: how many packets are in tunnels from other UPFs, including those that were handed off.
#[inline(always)]
// PERF (adit-bench datapath): inlined to save a call per burst.
fn prepare<'v, B: PacketBuf, Q: PacketBuf, D: FastDirection, F: FamilyMix>(
    ctx: &StepContext<'v>,
    to_ues: usize,
    FastBurst { counts, packets, rx, .. }: &mut FastBurst<'_, 'v, B>,
    shaping: &Shaping<Q>,
) -> PreparedBurst {
    let view = &ctx.view;
    let may_wait = || shaping.must_check_queues() || !view.aggregates().is_empty();
    let mut cells = prefetch_usage::<D>(view, may_wait, packets);
    if D::DIRECTION == Direction::Uplink && view.has_route_tables() {
        prefetch_routes(view, rx, packets);
    }
    let rates = BurstRates::of(view, shaping, cells);
    if rates == BurstRates::Every && shaping.must_check_queues() {
        find_first_queues(view, shaping, packets);
    }
    if cells.may_refer() {
        cells |= select_rules::<_, D, F::Merged>(view, rx, packets);
    }
    let relays = cells.may_relay().then(|| match D::DIRECTION {
        Direction::Uplink => TunnelDirections::of(to_ues, counts.all),
        Direction::Downlink => TunnelDirections::Downlink,
    });
    PreparedBurst { rates, relays }
}

/// Prefetches the routes of packets to data networks whose block has several.
#[cold]
#[inline(never)]
fn prefetch_routes<B: PacketBuf>(view: &TablesView<'_>, rx: &Burst<B>, packets: &FastPackets<'_>) {
    let searched = |packet: &FastPacket<'_>| packet.is_tunneled() && packet.network_block == 0;
    for (packet, buf) in packets.iter().zip(rx.iter()).filter(|(packet, _)| searched(packet)) {
        let user_packet = buf.data().get(usize::from(packet.offset)..).unwrap_or_default();
        if let Some(IpAddr::V4(dst)) = usual_dst(user_packet, packet.is_v6) {
            view.prefetch_route_v4(dst.to_bits());
        }
    }
}

/// Finds the session of every packet, and prefetches the fast rules of this worker's sessions. Does
/// not read the fast rules of other workers' sessions: their cache lines stay with the owner, which
/// writes them. `ues_of`: returns the UEs of the routing domain that a packet came from. Returns
/// how many packets are in tunnels from other UPFs.
#[inline(always)]
// PERF (adit-bench datapath): one caller; inlined to save a call per burst.
fn find_sessions<'v, B: PacketBuf, D: FastDirection, F: FamilyMix>(
    view: &TablesView<'v>,
    ues_of: impl Fn(&FastPacket<'v>) -> &'v UeTable,
    handoff: &Handoff<B>,
    packets: &mut FastPackets<'v>,
) -> usize {
    // PERF (adit-bench datapath): the loop of the only worker looks up no owners.
    let has_others = match handoff.is_alone() {
        true => find_own_sessions::<D, F>(view, ues_of, |_| true, packets),
        false => find_own_sessions::<D, F>(view, ues_of, |of| handoff.owns(of), packets),
    };
    if has_others { find_other_tunnels(view, handoff, packets) } else { 0 }
}

/// Finds sessions like [`find_sessions`], but only in the tables of usual sessions. `owns`: returns
/// whether this worker owns a session. Returns whether [`find_other_tunnels`] has to find others.
#[inline(always)]
// PERF (adit-bench datapath): inlined to save a call per burst.
fn find_own_sessions<'v, D: FastDirection, F: FamilyMix>(
    view: &TablesView<'v>,
    ues_of: impl Fn(&FastPacket<'v>) -> &'v UeTable,
    owns: impl Fn(SessionIndex) -> bool,
    packets: &mut FastPackets<'v>,
) -> bool {
    let mut has_others = false;
    let mut find = |packet: &mut FastPacket<'v>| {
        packet.session = D::session(view, ues_of(packet), packet, F::is_v6(packet));
        if D::DIRECTION == Direction::Uplink && !packet.session.is_some() {
            set_flag(&mut has_others);
        } else if owns(packet.session) {
            packet.cell = view.fast_rule_cell(packet.session, D::DIRECTION);
            packet.cell.inspect(|cell| cell.prefetch());
        }
    };
    // Uplink looks up TEIDs, which do not depend on the IP version.
    if F::ARE_MIXED && D::DIRECTION == Direction::Downlink {
        for family in FamilyOrder::of(packets).families() {
            family.iter().for_each(|at| {
                packets.get_mut(usize::from(*at)).map(&mut find);
            });
        }
    } else {
        packets.iter_mut().for_each(find);
    }
    has_others
}

/// Sets `flag`.
// PERF (adit-bench datapath): a flag that a call writes occupies no register of the loop.
#[cold]
#[inline(never)]
const fn set_flag(flag: &mut bool) {
    *flag = true;
}

/// Hands off the packets whose sessions another worker owns, before any data of these sessions is
/// read.
#[inline(never)]
fn hand_off_foreign<B: PacketBuf>(
    handoff: &mut Handoff<B>,
    FastBurst { origin, packets, rx, .. }: &mut FastBurst<'_, '_, B>,
    tally: &mut StepTally,
) {
    if packets.iter().all(|packet| handoff.owns(packet.session)) {
        return;
    }
    for (buf, packet) in mem::take(*rx).into_iter().zip(mem::take(*packets)) {
        if handoff.owns(packet.session) {
            packets.push(packet);
            rx.push(buf);
        } else {
            tally.receive(buf.data().len());
            tally.receive_on(packet.interface, buf.data().len());
            handoff.hand_off(packet.session, origin.id, buf, tally);
        }
    }
}

/// Prefetches usage counters and buckets of the fast rules in the cells, and returns the flags of
/// the cells. Stops at the first cell whose fast rule SDF filters select; `select_rules` prefetches
/// then. `may_wait`: returns whether packets may wait, or aggregates exist.
#[inline(always)]
// PERF (adit-bench datapath): one caller; inlined to save a call per burst.
fn prefetch_usage<'v, D: FastDirection>(
    view: &TablesView<'v>,
    may_wait: impl FnOnce() -> bool,
    packets: &FastPackets<'v>,
) -> CellFlags {
    // PERF (adit-bench datapath): most bursts have only plain rules, which need no more than their
    // own line, and end here.
    let is_plain =
        |packet: &FastPacket<'v>| packet.cell.is_none_or(|cell| cell.flags().is_plain_rule());
    let Some(plain) = packets.iter().position(|packet| !is_plain(packet)) else {
        return CellFlags::default();
    };
    let others = packets.get(plain..).unwrap_or_default();
    // PERF (adit-bench datapath --rates police): the same for bursts of rules with buckets.
    let mut any = CellFlags::default();
    let mut is_rule = |packet: &FastPacket<'v>| match packet.cell {
        Some(cell) => {
            let flags = cell.prefetch_second_line_of_rule();
            any |= flags.unwrap_or_default();
            flags.is_some()
        }
        None => true,
    };
    let rules = match may_wait() {
        false => others.iter().position(|packet| !is_rule(packet)).unwrap_or(others.len()),
        true => 0,
    };
    let (rules, rest) = others.split_at(rules);
    if any.has_urrs() {
        let cells = rules.iter().filter_map(|packet| packet.cell);
        cells.for_each(|cell| view.prefetch_usage_elsewhere(cell));
    }
    if !rest.is_empty() {
        any |= prefetch_other_usage::<D>(view, rest);
        if any.may_refer() || any.may_relay() {
            // The loops of these cells read the buckets themselves, so prefetch those left out
            // above.
            rules.iter().for_each(|packet| view.prefetch_meters(packet.session, D::DIRECTION));
        }
    }
    any
}

/// Does the work of [`prefetch_usage`] for cells of any kind.
#[inline(never)]
fn prefetch_other_usage<'v, D: FastDirection>(
    view: &TablesView<'v>,
    packets: &[FastPacket<'v>],
) -> CellFlags {
    let mut any = CellFlags::default();
    for packet in packets {
        any |= prefetch_rule::<D>(view, packet);
        if any.may_refer() {
            break;
        }
    }
    any
}

/// Prefetches the cache lines, other than the first one of its cell, that the rewrite of a packet
/// reads. Returns the flags of the cell.
#[inline(always)]
// PERF (adit-bench datapath --n9): once per packet of most bursts whose rules are not plain.
fn prefetch_rule<'v, D: FastDirection>(
    view: &TablesView<'v>,
    packet: &FastPacket<'v>,
) -> CellFlags {
    let Some(cell) = packet.cell else { return CellFlags::default() };
    match D::DIRECTION {
        // A packet in a tunnel may go to the UE: its own direction counts.
        Direction::Uplink => view.prefetch_rule(cell, packet.session, packet.direction, true),
        Direction::Downlink => view.prefetch_rule(cell, packet.session, D::DIRECTION, false),
    }
}
