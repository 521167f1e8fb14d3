//! The fast path: all stages in one for the usual packet, which needs nothing but its session's
//! fast rule.
//!
//! A packet whose layout is recognized (`adit_wire::usual`) and that meets the conditions of its
//! session's fast rule (`adit_rules::FastRule`) is rewritten, counted, and sent or queued for its
//! rate. Every other packet stays in the burst and takes the stages. Later packets of the same
//! session in the burst follow it there, so their order is kept. If only the stages can find the
//! session of a packet, the whole burst takes them. Only the stages apply rules that drop, answer,
//! buffer or report; the fast path itself loses a packet only if a queue or a hand-off ring is
//! full.
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

use core::mem;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_tables::{CellFlags, FastRuleSnapshot, TablesView, UeTable};
use adit_types::{Direction, InterfaceId, PortId, SessionIndex};
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
use self::recognize::{expects_over_v6, recognize_all, recognize_links, recognize_mixed};
use self::relay::Relayed;
use self::select::select_rules;
use self::send::{SentFrames, send_all, send_some};
use self::ticket::QueueTicket;
use crate::columns::BurstColumn;
use crate::context::StepContext;
use crate::handoff::Handoff;
use crate::interfaces::{TxLink, UsualPort};
use crate::shaping::{Shaping, ShapingQueues};
use crate::tally::StepTally;
use crate::worker_state::WorkerState;

/// The packets of a burst, one entry per buffer.
type FastPackets<'v> = BurstColumn<FastPacket<'v>>;

/// Where a burst arrived.
#[derive(Clone, Copy)]
struct BurstOrigin<'l> {
    id: PortId,
    port: &'l UsualPort,
}

/// Packet counts of a burst.
#[derive(Clone, Copy)]
struct BurstCounts {
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
///          rest stay for the stages. n ≤ BURST_MAX.
/// Cost:    per packet one cache line of the key table, one of the fast rule and the session's
///          counters, and one per URR; with rates, one of their charge or the buckets; with SDF
///          filters, those of the matcher and of the rule that it selects; while packets wait,
///          those of the queue, its index and its counters. Earlier passes prefetch these lines,
///          except the buckets of a rule that a matcher selected, and index and counters of queues.
///          A next hop is looked up when it changes; in uplink without one gateway for a whole
///          block, for each packet. No allocation, no clock.
/// Errors:  none; frames that a port does not take are queued or become `DropReason::TxQueueFull`,
///          packets without room in a queue `ShapingQueueFull`, in a hand-off ring `HandoffFull`.
pub(crate) fn forward_usual<Io: PacketIo>(
    ctx: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let Some(usual_port) = ctx.interfaces.usual(port) else { return };
    let origin = BurstOrigin { id: port, port: usual_port };
    let (view, packets) = (&ctx.view, &mut FastPackets::new());
    let mix = match (usual_port.links.as_slice(), state.are_families_mixed) {
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
    };
    let [usual, uplink, v6, unknown, over_v6] = mix.counts();
    state.are_families_mixed = v6 != 0 && v6 != rx.len();
    // A packet that is unknown may precede others of its session.
    if usual == 0 || unknown != 0 {
        return;
    }
    let counts = BurstCounts { usual, v6, over_v6 };
    match (uplink == packets.len(), uplink == 0) {
        (true, _) => {
            forward_direction::<Io, FastUplink>(ctx, io, origin, counts, packets, rx, state)
        }
        (_, true) => {
            forward_direction::<Io, FastDownlink>(ctx, io, origin, counts, packets, rx, state);
        }
        _ => forward_both(ctx, io, origin, packets, rx, state),
    }
}

/// Splits a burst of both directions, and forwards each direction on its own.
#[inline(never)]
fn forward_both<'v, Io: PacketIo>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    origin: BurstOrigin<'_>,
    packets: &FastPackets<'v>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    let [mut tunneled, mut plain] = [Burst::new(), Burst::new()];
    let [mut uplink, mut downlink] = [FastPackets::new(), FastPackets::new()];
    for (buf, packet) in rx.drain(..).zip(packets) {
        let (bufs, packets) = match packet.direction {
            Direction::Uplink => (&mut tunneled, &mut uplink),
            Direction::Downlink => (&mut plain, &mut downlink),
        };
        bufs.push(buf);
        packets.push(*packet);
    }
    let counts = |packets: &FastPackets<'_>| BurstCounts {
        usual: packets.iter().filter(|packet| packet.is_usual).count(),
        v6: packets.iter().filter(|packet| packet.is_v6).count(),
        over_v6: packets.iter().filter(|packet| packet.is_over_v6()).count(),
    };
    let (up, down) = (counts(&uplink), counts(&downlink));
    forward_direction::<Io, FastUplink>(ctx, io, origin, up, &mut uplink, &mut tunneled, state);
    forward_direction::<Io, FastDownlink>(ctx, io, origin, down, &mut downlink, &mut plain, state);
    rx.extend(tunneled);
    rx.extend(plain);
}

/// Forwards a burst of one direction, in the loop for the address families that occur in it. A
/// burst without a usual packet takes the stages.
fn forward_direction<'v, Io: PacketIo, D: FastDirection>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    origin: BurstOrigin<'_>,
    counts: BurstCounts,
    packets: &mut FastPackets<'v>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    if counts.usual == 0 {
        return;
    }
    if counts.v6 == 0 {
        forward_families::<Io, D, OnlyV4>(ctx, io, origin, counts, packets, rx, state);
    } else if counts.v6 == packets.len() {
        forward_families::<Io, D, OnlyV6>(ctx, io, origin, counts, packets, rx, state);
    } else {
        forward_families::<Io, D, Mixed>(ctx, io, origin, counts, packets, rx, state);
    }
}

/// Takes a burst of one direction through the passes after recognition. Compiled once for each
/// direction and family mix.
#[inline(never)]
fn forward_families<'v, Io: PacketIo, D: FastDirection, F: FamilyMix>(
    ctx: &StepContext<'v>,
    io: &mut Io,
    origin: BurstOrigin<'_>,
    counts: BurstCounts,
    packets: &mut FastPackets<'v>,
    rx: &mut Burst<Io::Buf>,
    state: &mut WorkerState<Io::Buf>,
) {
    // Before packets of other workers leave the burst.
    let are_usual = counts.usual == packets.len();
    let PreparedBurst { rates, relays } = prepare::<_, D, F>(ctx, origin, packets, rx, state);
    let have_tags = ctx.interfaces.have_tags();
    let rewrite_all = match (D::DIRECTION, relays) {
        (Direction::Uplink, _) if counts.over_v6 != 0 => {
            loop_from_v6::<_, F>(have_tags || counts.over_v6 != counts.usual, rates)
        }
        (Direction::Uplink, Some(_)) => loop_of_relays::<_, F>(have_tags, rates),
        (Direction::Downlink, Some(_)) => loop_into_v6::<_, F>(have_tags, rates),
        (_, None) => loop_of_direction::<_, D, F>(have_tags, rates),
    };
    let rewritten = rewrite_all(ctx, are_usual, packets, rx, state);
    let direction = relays.map_or(Some(D::DIRECTION), TunnelDirections::only);
    match rewritten.only_link.zip(direction) {
        Some((link, direction)) => {
            let bytes = rewritten.sent_bytes;
            send_all(io, SentFrames { link, direction, bytes }, rx, packets, state);
        }
        None => send_some(ctx, io, packets, rx, state),
    }
}

/// [`rewrite_all`] as compiled for one kind of burst.
type RewriteLoop<B> = for<'v> fn(
    &StepContext<'v>,
    bool,
    &mut FastPackets<'v>,
    &mut Burst<B>,
    &mut WorkerState<B>,
) -> RewrittenBurst<'v>;

// Each arm of the functions below is a copy of the loop, compiled for each direction and family
// mix. Its gain: how many instructions more a packet, uplink / downlink, would take in the loop
// that had to take its burst instead. A copy that gains less than 2 % (6 of the usual packet) is
// not worth its text. Figures: docs/benchmarks/fast-path.md.

/// The loop for a burst of one direction whose packets leave to data networks, or in tunnels over
/// IPv4.
fn loop_of_direction<B: PacketBuf, D: FastDirection, F: FamilyMix>(
    have_tags: bool,
    rates: BurstRates,
) -> RewriteLoop<B> {
    match (have_tags, rates) {
        // Gain over both families: IPv4 28 / 21, IPv6 33 / 20. Over tags: 52 / 36.
        (false, BurstRates::None) => rewrite_all::<_, D, F, NoRates, false>,
        // Gain over both families: IPv4 25 / 21, IPv6 32 / 21. Over other URRs: 12 / 12.
        (false, BurstRates::Buckets) => rewrite_all::<_, D, F, BucketsOnly, false>,
        // Gain over every rate: 37 / 27, without buckets 16 / 5. Over both families: IPv4 29 / 22.
        (false, BurstRates::BucketsAndUrrs) => {
            rewrite_all::<_, D, F::Merged, BucketsAndUrrs, false>
        }
        // Gain over both families: IPv4 20 / 24.
        (false, BurstRates::Every) => rewrite_all::<_, D, F::Merged, EveryRate, false>,
        // Gain over every rate: IPv4 17 / 34, both families 11 / 37.
        (true, BurstRates::None) => rewrite_all::<_, D, F::Merged, NoRates, true>,
        // Gain over every rate: 35 / 39. Over both families: IPv4 21 / 19.
        (true, BurstRates::Buckets) => rewrite_all::<_, D, F::Merged, BucketsOnly, true>,
        (true, _) => rewrite_all::<_, D, Mixed, EveryRate, true>,
    }
}

/// The loop for a burst from tunnels of which packets leave in tunnels (N9), in either direction.
fn loop_of_relays<B: PacketBuf, F: FamilyMix>(
    have_tags: bool,
    rates: BurstRates,
) -> RewriteLoop<B> {
    match (have_tags, rates) {
        // Gain over every rate: 46 / 35, and over both families more.
        (false, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, Relayed, OnlyV4, RelayNoRates, false>
        }
        // Gain over every rate: 72 / 76.
        (true, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, Relayed, OnlyV4, RelayNoRates, true>
        }
        // Gain over tags and both families: 54 / 44. Over both families: IPv4 23 / 5.
        (false, _) => rewrite_all::<_, Relayed, F::Merged, RelayEveryRate, false>,
        (true, _) => rewrite_all::<_, Relayed, Mixed, RelayEveryRate, true>,
    }
}

/// The loop for a burst of which packets arrived in tunnels over IPv6. `are_some`: only some of
/// them, or on a link with a tag. Packets that leave in another tunnel take the stages.
fn loop_from_v6<B: PacketBuf, F: FamilyMix>(are_some: bool, rates: BurstRates) -> RewriteLoop<B> {
    match (are_some, rates) {
        // Gain over tags and both families: 78, and over every rate more.
        (false, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, Decapsulation<true>, OnlyV4, NoRates, false>
        }
        _ => rewrite_all::<_, Decapsulation<true>, Mixed, EveryRate, true>,
    }
}

/// The loop for a burst of which packets leave in tunnels over IPv6.
fn loop_into_v6<B: PacketBuf, F: FamilyMix>(have_tags: bool, rates: BurstRates) -> RewriteLoop<B> {
    match (have_tags, rates) {
        // Gain over tags and both families: 62, and over every rate more.
        (false, BurstRates::None) if F::IS_V4 => {
            rewrite_all::<_, Encapsulation<true>, OnlyV4, RelayNoRates, false>
        }
        _ => rewrite_all::<_, Encapsulation<true>, Mixed, RelayEveryRate, true>,
    }
}

/// Results of the passes before the rewrite.
struct PreparedBurst {
    /// The rates that the packets may have to pass.
    rates: BurstRates,
    /// Set if a packet needs the loop from tunnel to tunnel or the one into tunnels over IPv6: the
    /// directions of the burst.
    relays: Option<TunnelDirections>,
}

/// The directions of the packets of a burst.
#[derive(Clone, Copy)]
enum TunnelDirections {
    /// All come from the RAN in tunnels.
    Uplink,
    /// All go to UEs, from another UPF in tunnels, or from data networks.
    Downlink,
    Both,
}

impl TunnelDirections {
    /// Those of `all` packets, of which `to_ues` come from another UPF.
    const fn of(to_ues: usize, all: usize) -> Self {
        match to_ues {
            0 => Self::Uplink,
            _ if to_ues == all => Self::Downlink,
            _ => Self::Both,
        }
    }

    /// The direction, if there is one.
    const fn only(self) -> Option<Direction> {
        match self {
            Self::Uplink => Some(Direction::Uplink),
            Self::Downlink => Some(Direction::Downlink),
            Self::Both => None,
        }
    }
}

/// Packets of a burst that arrived on one interface, one after the other, and took the fast path.
struct ArrivalRun {
    interface: InterfaceId,
    pkts: usize,
    /// Unit: octets.
    bytes: usize,
}

impl ArrivalRun {
    const fn of(interface: InterfaceId) -> Self {
        Self { interface, pkts: 0, bytes: 0 }
    }

    #[inline]
    fn count(&self, tally: &mut StepTally) {
        tally.receive_fast(self.interface, self.pkts, self.bytes);
    }
}

/// The result of [`rewrite_all`] on a burst.
struct RewrittenBurst<'v> {
    /// Octets of the frames that leave.
    sent_bytes: usize,
    /// The link of the whole burst, if all its packets leave at once through one link.
    only_link: Option<&'v TxLink>,
}

/// Charges, rewrites and counts the packets that the fast path forwards, and writes their links and
/// tickets. Marks the others as not usual: those that fail a condition or that a rate stops, and
/// later packets of their sessions. `are_usual`: every packet is usual. `HAS_TAGS`: the links of
/// some interfaces have tags; without tags, all usual packets arrived on one interface. Compiled
/// for each direction, family mix and kind of rates.
#[inline(never)]
// PERF (adit-bench datapath): a function of its own has registers for its loop; a call per burst.
fn rewrite_all<
    'v,
    B: PacketBuf,
    D: FastRewrite,
    F: FamilyMix,
    R: RateChecks,
    const HAS_TAGS: bool,
>(
    ctx: &StepContext<'v>,
    are_usual: bool,
    packets: &mut FastPackets<'v>,
    rx: &mut Burst<B>,
    state: &mut WorkerState<B>,
) -> RewrittenBurst<'v> {
    let WorkerState { buffering, shaping, unresolved, tally, kept_hops, .. } = state;
    let first = packets.iter().find(|packet| packet.is_usual);
    let arrival = first.map(|packet| packet.interface).unwrap_or_default();
    let must_check_queues = R::RATES == BurstRates::Every && shaping.must_check_queues();
    let Shaping { queues, leases, .. } = shaping;
    let queue_room = queues.room();
    let hops = KnownHops::new(ctx, kept_hops.of(D::HOPS), unresolved.stations());
    let mut burst = BurstContext::new(ctx, arrival, hops, leases, queues.contended());
    let has_aggregates = R::RATES == BurstRates::Every && !ctx.view.aggregates().is_empty();
    let mut left_to_stages = BurstColumn::<SessionIndex>::new();
    // False while every packet is usual, none was left to the stages, and none is buffered.
    let mut check_each = !are_usual || !buffering.is_empty();
    let (mut run, mut sent_bytes) = (ArrivalRun::of(arrival), 0);
    for (buf, packet) in rx.iter_mut().zip(packets.iter_mut()) {
        let takes_stages = check_each
            && (!packet.is_usual
                || left_to_stages.contains(&packet.session)
                || buffering.has_packets_of(packet.session));
        let rule = if takes_stages { None } else { R::rule(packet) };
        let rewritten = rule.and_then(|rule| {
            if must_check_queues
                && (rule.meters() != 0 || has_aggregates)
                && !assign_ticket(queues, queue_room, &rule, packet)
            {
                return None;
            }
            let traits = PacketTraits { is_v6: F::is_v6(packet), rates: R::RATES };
            let ruled = RuledPacket { rule: &rule, packet, traits };
            D::rewrite::<_, HAS_TAGS>(ctx, ruled, &mut burst, buf)
        });
        let Some(rewritten) = rewritten else {
            // Never overflows: at most one push per packet of the burst.
            left_to_stages.push(packet.session);
            packet.is_usual = false;
            check_each = true;
            continue;
        };
        if HAS_TAGS && packet.interface != run.interface {
            run.count(tally);
            run = ArrivalRun::of(packet.interface);
        }
        packet.interface = rewritten.tx_link.id;
        run.pkts += usize::from(HAS_TAGS);
        run.bytes += rewritten.received_len;
        sent_bytes += rewritten.frame_len;
    }
    let link = burst.hops.keep(kept_hops.of(D::HOPS), packets);
    let only_link = link.filter(|_| !burst.is_any_queued && left_to_stages.is_empty());
    // PERF (adit-bench datapath): without tags there is one run, counted here instead of per
    // packet.
    if !HAS_TAGS {
        run.pkts = packets.len() - left_to_stages.len();
    }
    run.count(tally);
    RewrittenBurst { sent_bytes, only_link }
}

/// Writes the packet's ticket if its queue exists; `send_some` enqueues the packet unless the
/// stages take it. Returns false if a queue has no room for the packet: the stages then send it at
/// once, or drop and count it. `room`: that of the queues ([`ShapingQueues::room`]).
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
    queues.len_of(queue) < room
}

/// Finds the session and the fast rule of each packet, hands off packets of other workers'
/// sessions, and prefetches the lines that the rewrite reads.
#[inline(always)]
// PERF (adit-bench datapath): one caller; no call per burst.
fn prepare<'v, B: PacketBuf, D: FastDirection, F: FamilyMix>(
    ctx: &StepContext<'v>,
    origin: BurstOrigin<'_>,
    packets: &mut FastPackets<'v>,
    rx: &mut Burst<B>,
    state: &mut WorkerState<B>,
) -> PreparedBurst {
    let view = &ctx.view;
    let WorkerState { shaping, handoff, tally, .. } = state;
    let all = packets.len();
    let to_ues = match origin.port.domain {
        Some(domain) => {
            let ues = view.ues(domain);
            find_sessions::<_, D, F>(view, |_| ues, handoff, packets)
        }
        None => {
            let domain_of = |id| ctx.interfaces.get(id).map(|of| of.domain).unwrap_or_default();
            let ues_of = |packet: &FastPacket<'_>| view.ues(domain_of(packet.interface));
            find_sessions::<_, D, F>(view, ues_of, handoff, packets)
        }
    };
    if !handoff.is_alone() {
        hand_off_foreign(handoff, origin.id, packets, rx, tally);
    }
    let may_wait = || shaping.must_check_queues() || !view.aggregates().is_empty();
    let mut cells = prefetch_usage::<D>(view, may_wait, packets);
    let rates = BurstRates::of(view, shaping, cells);
    if rates == BurstRates::Every && shaping.must_check_queues() {
        find_first_queues(view, shaping, packets);
    }
    if cells.may_refer() {
        cells |= select_rules::<_, D, F::Merged>(view, rx, packets);
    }
    let relays = cells.may_relay().then(|| match D::DIRECTION {
        Direction::Uplink => TunnelDirections::of(to_ues, all),
        Direction::Downlink => TunnelDirections::Downlink,
    });
    PreparedBurst { rates, relays }
}

/// Finds the session of every packet, and prefetches the fast rules of this worker's sessions.
/// Those of other workers' sessions are not read: their cache lines stay with the owner, which
/// writes them. `ues_of`: the UEs of the routing domain that a packet came from. Returns the number
/// of packets in tunnels from other UPFs.
#[inline(always)]
// PERF (adit-bench datapath): one caller; no call per burst.
fn find_sessions<'v, B: PacketBuf, D: FastDirection, F: FamilyMix>(
    view: &TablesView<'v>,
    ues_of: impl Fn(&FastPacket<'v>) -> &'v UeTable,
    handoff: &Handoff<B>,
    packets: &mut FastPackets<'v>,
) -> usize {
    // PERF (adit-bench datapath): the loop of a worker that is alone looks up no owners.
    let has_others = match handoff.is_alone() {
        true => find_own_sessions::<D, F>(view, ues_of, |_| true, packets),
        false => find_own_sessions::<D, F>(view, ues_of, |of| handoff.owns(of), packets),
    };
    if has_others { find_other_tunnels(view, handoff, packets) } else { 0 }
}

/// [`find_sessions`] by the tables of usual sessions. `owns`: whether this worker owns a session.
/// Returns whether [`find_other_tunnels`] has to find the sessions of some packets.
#[inline(always)]
// PERF (adit-bench datapath): no call per burst.
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
            note(&mut has_others);
        } else if owns(packet.session) {
            packet.cell = view.fast_rule_cell(packet.session, D::DIRECTION);
            packet.cell.inspect(|cell| cell.prefetch());
        }
    };
    // Uplink looks up TEIDs, which have no family.
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
// PERF (adit-bench datapath): a flag that is written out of line occupies no register of the loop.
#[cold]
#[inline(never)]
const fn note(flag: &mut bool) {
    *flag = true;
}

/// Hands off the packets whose sessions another worker owns, before anything of these sessions is
/// read.
#[inline(never)]
fn hand_off_foreign<B: PacketBuf>(
    handoff: &mut Handoff<B>,
    port: PortId,
    packets: &mut FastPackets<'_>,
    rx: &mut Burst<B>,
    tally: &mut StepTally,
) {
    if packets.iter().all(|packet| handoff.owns(packet.session)) {
        return;
    }
    for (buf, packet) in mem::take(rx).into_iter().zip(mem::take(packets)) {
        if handoff.owns(packet.session) {
            packets.push(packet);
            rx.push(buf);
        } else {
            tally.receive(buf.data().len());
            tally.receive_on(packet.interface, buf.data().len());
            handoff.hand_off(packet.session, port, buf, tally);
        }
    }
}

/// Prefetches usage counters and buckets of the fast rules in the cells, and returns the flags of
/// the cells. Ends at the first cell by which SDF filters select the fast rule of a packet;
/// `select_rules` prefetches then. `may_wait`: whether packets may wait, or there are aggregates.
#[inline(always)]
// PERF (adit-bench datapath): one caller; no call per burst.
fn prefetch_usage<'v, D: FastDirection>(
    view: &TablesView<'v>,
    may_wait: impl FnOnce() -> bool,
    packets: &FastPackets<'v>,
) -> CellFlags {
    // PERF (adit-bench datapath): most bursts end in a loop of their own, which looks for nothing
    // else. Plain rules need nothing but their line.
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
            // Their loops read the buckets themselves.
            rules.iter().for_each(|packet| view.prefetch_meters(packet.session, D::DIRECTION));
        }
    }
    any
}

/// [`prefetch_usage`] for cells of any kind.
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

/// Prefetches the lines that the rewrite of a packet reads besides the first one of its cell.
/// Returns the flags of the cell.
#[inline(always)]
// PERF (adit-bench datapath --n9): once per packet of most bursts whose rules are not plain.
fn prefetch_rule<'v, D: FastDirection>(
    view: &TablesView<'v>,
    packet: &FastPacket<'v>,
) -> CellFlags {
    let Some(cell) = packet.cell else { return CellFlags::default() };
    match D::DIRECTION {
        // A packet in a tunnel may be one to the UE.
        Direction::Uplink => view.prefetch_rule(cell, packet.session, packet.direction, true),
        Direction::Downlink => view.prefetch_rule(cell, packet.session, D::DIRECTION, false),
    }
}
