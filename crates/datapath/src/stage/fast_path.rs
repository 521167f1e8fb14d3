//! Before all stages: the usual packet, which needs nothing but its session's express.
//!
//! All stages in one: what is recognized by its layout, finds its session, and meets the conditions
//! of the session's express (`adit_rules::FastRule`) leaves at once. Everything else stays in the
//! burst and takes the stages, which alone drop, answer, buffer and tell. Packets of a session that
//! left one packet to the stages follow it there, so that order within a burst is kept.

mod choice;
mod rates;
mod recognize;

use core::hint::select_unpredictable;
use core::mem;
use core::net::IpAddr;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::{FAST_RULE_URRS_MAX, FastRuleUe};
use adit_shaper::RateSet;
use adit_tables::{
    CountableUsage, FastRuleLine, FastRuleSlot, Leases, SelectedFastRule, TablesView, UeTable,
};
use adit_types::{
    Direction, InterfaceId, InterfaceSet, MacAddr, NextHopIndex, PortId, Qfi, SessionIndex, Teid,
};
use adit_wire::{EtherType, UsualTunnel, decrement_usual_hops};

use self::choice::choose;
use self::rates::{flow, join_queue, pass_rates, prefetch_queues, waits_for};
use self::recognize::{FamilyOrder, is_forwardable, recognize_all, recognize_mixed, v4};
use crate::columns::BurstColumn;
use crate::handoff::Handoff;
use crate::interfaces::{TxLink, UsualLink};
use crate::shaping::{self, ReadyFrame};
use crate::stage::egress::StepContext;
use crate::tally::StepTally;
use crate::worker_state::{Origin, WorkerState};

/// Octets of an Ethernet header without a tag.
const ETHERNET_LEN: u8 = 14;

/// One packet of the burst.
///
/// PERF: written field by field into its column and read by reference; moved as a whole, it goes
/// through the stack in pieces that its reader waits for.
#[derive(Debug, Clone, Copy)]
struct FastPacket<'v> {
    direction: Direction,
    /// The packet may leave, or left; otherwise it takes the stages, and its session's with it.
    is_usual: bool,
    /// The lookup key is that of an IPv6 UE.
    is_v6: bool,
    /// QoS flow of the container in uplink.
    qfi: Option<Qfi>,
    /// Where the user's packet begins. Unit: octets.
    offset: u8,
    /// The block of its destination in uplink ([`View::network_block_v4`]).
    network_block: u8,
    /// The interface that it leaves through; written once it is forwarded.
    tx_link: InterfaceId,
    /// Length of the user's packet. Unit: octets.
    len: u16,
    /// The tunnel that it came in, in uplink.
    teid: Teid,
    /// The session; written once it is looked up.
    session: SessionIndex,
    /// The UE's address in the user's packet, as a key.
    ue_key: u64,
    /// What it waits for before it leaves ([`rates`]); written once it is forwarded.
    waits_for: u64,
    /// Where its session's express is; written once the session is looked up.
    slot: Option<FastRuleSlot<'v>>,
    /// Its express, where SDF filters told which.
    chosen_rule: Option<SelectedFastRule<'v>>,
}

/// The interface of a packet that does not leave.
const NO_TX_LINK: InterfaceId = InterfaceId(u8::MAX);

/// One direction; chosen outside the packet loops.
trait FastDirection {
    const DIRECTION: Direction;

    /// The session of a packet; `ues` are those of the domain that its burst came from.
    fn session(
        view: &TablesView<'_>,
        ues: &UeTable,
        row: &FastPacket<'_>,
        is_v6: bool,
    ) -> SessionIndex;

    /// The interface that packets arrive on.
    fn arrival(link: &UsualLink) -> Option<InterfaceId>;

    /// Rewrites one packet and counts it for its session and URRs, or leaves it as it is. `is`: of
    /// IPv6, and without rates to pass.
    ///
    /// PERF: nothing branches on the family where it is no constant: nothing predicts it.
    fn rewrite<'v, B: PacketBuf>(
        env: &StepContext<'v>,
        line: &FastRuleLine<'v>,
        row: &FastPacket<'v>,
        is: (bool, bool),
        at: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>>;
}

struct FastUplink;
struct FastDownlink;

/// The families of a burst's packets; chosen outside the packet loops.
trait FamilyMix {
    /// There may be both.
    const ARE_MIXED: bool = false;

    /// That of one packet.
    fn is_v6(row: &FastPacket<'_>) -> bool;
}

struct OnlyV4;
struct OnlyV6;
struct Mixed;

impl FamilyMix for OnlyV4 {
    #[inline(always)]
    fn is_v6(_: &FastPacket<'_>) -> bool {
        false
    }
}

impl FamilyMix for OnlyV6 {
    #[inline(always)]
    fn is_v6(_: &FastPacket<'_>) -> bool {
        true
    }
}

impl FamilyMix for Mixed {
    const ARE_MIXED: bool = true;

    #[inline(always)]
    fn is_v6(row: &FastPacket<'_>) -> bool {
        row.is_v6
    }
}

/// A station that packets leave to, and the way there.
#[derive(Clone, Copy)]
struct ResolvedHop<'v> {
    mac: MacAddr,
    tx_link: &'v TxLink,
}

/// A frame that is ready to leave.
struct Rewritten<'v> {
    tx_link: &'v TxLink,
    /// Before it was rewritten. Unit: octets.
    received_len: usize,
    /// Unit: octets.
    frame_len: usize,
    /// As of [`Row::waits_for`].
    waits_for: u64,
}

/// What packets of one direction of a burst share.
struct BurstContext<'v, 'l> {
    /// The interface that they arrived on.
    arrival: InterfaceSet,
    /// The last exit of each family, by what led there: most packets share it.
    hops: [(u64, Option<ResolvedHop<'v>>); 2],
    /// The door of the last exit.
    tx_link: Option<&'v TxLink>,
    /// All exits had that door.
    is_one_tx_link: bool,
    /// What was taken of shared rates, and those that flows wait for.
    leases: &'l mut Leases,
    contended: RateSet,
}

/// Forwards the usual packets of a burst; the others are left in `rx`, in the order of their
/// direction.
///
/// Shape:   takes from `rx` what it forwards. n ≤ BURST_MAX.
/// Cost:    one line each of the key table, the express with the session's counters, each URR's
///          usage and the next hop; each is asked for a pass ahead. No allocation, no clock.
/// Spec:    as of the stages.
/// Errors:  none; frames that a port does not take wait or become `DropReason::TxQueueFull`.
pub(crate) fn forward_usual<Io: PacketIo>(
    env: &StepContext<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    let Some(link) = env.interfaces.usual(port) else { return };
    let mut rows = BurstColumn::new();
    let seen = match out.are_families_mixed {
        false => recognize_all(&env.view, link, rx, &mut rows),
        true => recognize_mixed(&env.view, link, rx, &mut rows),
    };
    let [usual, uplink, v6, unknown] = seen.counts();
    out.are_families_mixed = v6 != 0 && v6 != rx.len();
    if usual == 0 || unknown != 0 {
        return;
    }
    let on = (port, link);
    match (uplink == rows.len(), uplink == 0) {
        (true, _) => run::<Io, FastUplink>(env, io, on, (usual, v6), &mut rows, rx, out),
        (_, true) => run::<Io, FastDownlink>(env, io, on, (usual, v6), &mut rows, rx, out),
        _ => run_both(env, io, on, &rows, rx, out),
    }
}

/// The same for a burst of both directions, each on its own.
#[inline(never)]
fn run_both<'v, Io: PacketIo>(
    env: &StepContext<'v>,
    io: &mut Io,
    on: (PortId, &UsualLink),
    rows: &BurstColumn<FastPacket<'v>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    let [mut tunneled, mut plain] = [Burst::new(), Burst::new()];
    let [mut uplink, mut downlink] = [BurstColumn::new(), BurstColumn::new()];
    for (buf, row) in rx.drain(..).zip(rows) {
        let (bufs, rows) = match row.direction {
            Direction::Uplink => (&mut tunneled, &mut uplink),
            Direction::Downlink => (&mut plain, &mut downlink),
        };
        bufs.push(buf);
        rows.push(*row);
    }
    let counts = |rows: &BurstColumn<FastPacket<'_>>| {
        let usual = rows.iter().filter(|row| row.is_usual).count();
        (usual, rows.iter().filter(|row| row.is_v6).count())
    };
    run::<Io, FastUplink>(env, io, on, counts(&uplink), &mut uplink, &mut tunneled, out);
    run::<Io, FastDownlink>(env, io, on, counts(&downlink), &mut downlink, &mut plain, out);
    rx.extend(tunneled);
    rx.extend(plain);
}

/// Forwards what meets the conditions of its session's express, in a loop for the families that
/// there are: so many of the rows are usual, and of IPv6.
fn run<'v, Io: PacketIo, C: FastDirection>(
    env: &StepContext<'v>,
    io: &mut Io,
    on: (PortId, &UsualLink),
    (usual, v6): (usize, usize),
    rows: &mut BurstColumn<FastPacket<'v>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    let are_usual = usual == rows.len();
    if v6 == 0 {
        run_families::<Io, C, OnlyV4>(env, io, on, are_usual, rows, rx, out);
    } else if v6 == rows.len() {
        run_families::<Io, C, OnlyV6>(env, io, on, are_usual, rows, rx, out);
    } else {
        run_families::<Io, C, Mixed>(env, io, on, are_usual, rows, rx, out);
    }
}

#[inline(never)]
fn run_families<'v, Io: PacketIo, C: FastDirection, F: FamilyMix>(
    env: &StepContext<'v>,
    io: &mut Io,
    (port, link): (PortId, &UsualLink),
    are_usual: bool,
    rows: &mut BurstColumn<FastPacket<'v>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    let Some(arrival) = C::arrival(link) else { return };
    let view = &env.view;
    let ues = view.ues(link.domain);
    let WorkerState { buffering, shaping, leases, handoff, tally, .. } = out;
    // Without room nothing waits, and only the stages know that before they count a packet.
    let is_shaping = !shaping.is_empty() || !shaping.has_room(0);
    let is_alone = handoff.is_alone();
    let locate = |row: &mut FastPacket<'v>| {
        row.session = C::session(view, ues, row, F::is_v6(row));
        // What another worker writes is not fetched away from it.
        if is_alone || handoff.owns(row.session) {
            row.slot = view.fast_rule_slot(row.session, C::DIRECTION);
            row.slot.inspect(|home| home.prefetch());
        }
    };
    if F::ARE_MIXED && C::DIRECTION == Direction::Downlink {
        for part in FamilyOrder::of_rows(rows).parts() {
            part.iter().for_each(|place| {
                rows.get_mut(usize::from(*place)).map(locate);
            });
        }
    } else {
        rows.iter_mut().for_each(locate);
    }
    if !is_alone {
        hand_off_foreign(handoff, (port, arrival), rows, rx, tally);
    }
    let mut choices = false;
    for row in rows.iter() {
        let Some(home) = row.slot else { continue };
        let is_v6 = F::is_v6(row);
        choices |= view.prefetch_fast_rule_usage(home, row.session, C::DIRECTION, is_v6);
    }
    if is_shaping {
        prefetch_queues(view, C::DIRECTION, shaping, rows);
    }
    if choices {
        choose::<_, F>(C::DIRECTION, view, rx, rows);
    }
    let (arrivals, crowded) = (InterfaceSet::only(arrival), shaping.contended());
    let exits = [(NO_HOP, None); 2];
    let (door, is_one_door) = (None, true);
    let mut at = BurstContext {
        arrival: arrivals,
        hops: exits,
        tx_link: door,
        is_one_tx_link: is_one_door,
        leases,
        contended: crowded,
    };
    let is_shared = !view.aggregates().is_empty();
    let mut left = BurstColumn::<SessionIndex>::new();
    // Some packets are not usual, or packets of their sessions wait or were left to the stages.
    let mut is_watched = !are_usual || !buffering.is_empty();
    let mut any_waits = false;
    let [mut bytes, mut bytes_out] = [0, 0];
    for (buf, row) in rx.iter_mut().zip(rows.iter_mut()) {
        let stays = is_watched
            && (!row.is_usual
                || left.contains(&row.session)
                || buffering.has_packets_of(row.session));
        let line = match (stays, row.chosen_rule) {
            (true, _) => None,
            (false, None) => row.slot.and_then(FastRuleSlot::read),
            (false, Some(chosen)) => Some(chosen.fast_rule()),
        };
        let ready = line.and_then(|line| {
            let is_free = line.meters() == 0 && !is_shared;
            if is_shaping && !is_free && !join_queue::<_, C>(shaping, waits_for(&line), row) {
                return None;
            }
            C::rewrite(env, &line, row, (F::is_v6(row), is_free), &mut at, buf)
        });
        let Some(ready) = ready else {
            // As many are pushed as there are packets.
            left.push(row.session);
            row.is_usual = false;
            is_watched = true;
            continue;
        };
        row.tx_link = ready.tx_link.id;
        if ready.waits_for != 0 {
            row.waits_for = ready.waits_for;
            any_waits = true;
        }
        bytes += ready.received_len;
        bytes_out += ready.frame_len;
    }
    tally.receive_fast(arrival, rows.len() - left.len(), bytes);
    let BurstContext { tx_link: door, is_one_tx_link: is_one_door, .. } = at;
    match door {
        Some(door) if is_one_door && !any_waits && left.is_empty() => {
            transmit::<Io, C>(io, door, (rx, bytes_out), rows, out);
        }
        _ => send_some::<Io, C>(env, io, rows, rx, out),
    }
}

/// Hands over the packets whose sessions another worker owns, before anything of these is looked at.
#[inline(never)]
fn hand_off_foreign<B: PacketBuf>(
    handoff: &mut Handoff<B>,
    (port, arrival): (PortId, InterfaceId),
    rows: &mut BurstColumn<FastPacket<'_>>,
    rx: &mut Burst<B>,
    tally: &mut StepTally,
) {
    if rows.iter().all(|row| handoff.owns(row.session)) {
        return;
    }
    for (buf, row) in mem::take(rx).into_iter().zip(mem::take(rows)) {
        if handoff.owns(row.session) {
            rows.push(row);
            rx.push(buf);
        } else {
            tally.receive(buf.data().len());
            tally.receive_on(arrival, buf.data().len());
            handoff.hand_off(row.session, port, buf, tally);
        }
    }
}

/// Transmits the rewritten packets of a burst, of which some stay, wait for their rates, or leave
/// elsewhere than others.
#[inline(never)]
fn send_some<Io: PacketIo, C: FastDirection>(
    env: &StepContext<'_>,
    io: &mut Io,
    rows: &BurstColumn<FastPacket<'_>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut WorkerState<Io::Buf>,
) {
    let [mut staying, mut leaving] = [Burst::<Io::Buf>::new(), Burst::new()];
    let mut last: Option<&TxLink> = None;
    let mut bytes = 0;
    for (at, (buf, row)) in rx.drain(..).zip(rows).enumerate() {
        let door = env.interfaces.tx_link(row.tx_link).filter(|_| row.is_usual);
        let Some(door) = door else {
            staying.push(buf);
            continue;
        };
        if row.waits_for != 0 {
            let flow = flow(row.session, C::DIRECTION, row.waits_for);
            let packet = ReadyFrame::new(buf, (door.port, door.id));
            let WorkerState { shaping, leases, tally, .. } = &mut *out;
            shaping::enqueue(env, (shaping, leases, tally), flow, packet, row.len);
            continue;
        }
        if let Some(last) = last.filter(|last| last.id != door.id) {
            let frames = (&mut leaving, mem::take(&mut bytes));
            let rows = rows.get(..at).unwrap_or_default();
            transmit::<Io, C>(io, last, frames, rows, out);
        }
        last = Some(door);
        bytes += buf.data().len();
        leaving.push(buf);
    }
    if let Some(door) = last {
        transmit::<Io, C>(io, door, (&mut leaving, bytes), rows, out);
    }
    rx.extend(staying);
}

/// Hands `frames` of `bytes` octets together to their port; what it does not take waits or is dropped.
/// The frames are those of the last of `rows` that leave through `door`.
fn transmit<Io: PacketIo, C: FastDirection>(
    io: &mut Io,
    door: &TxLink,
    (frames, bytes): (&mut Burst<Io::Buf>, usize),
    rows: &[FastPacket<'_>],
    out: &mut WorkerState<Io::Buf>,
) {
    let queued = frames.len();
    if !out.queues.backlog.blocks(door.port) {
        io.tx_burst(door.port, frames);
    }
    let sent = queued.saturating_sub(frames.len());
    let mut sent_bytes = bytes;
    if !frames.is_empty() {
        sent_bytes = sent_bytes.saturating_sub(take_back::<_, C>(door, frames, rows, out));
    }
    out.tally.transmit_many(door.id, C::DIRECTION, sent, sent_bytes);
}

/// Takes the frames back that a port did not take, the last ones that leave through `door`. Returns
/// how many octets they have.
#[cold]
fn take_back<B: PacketBuf, C: FastDirection>(
    door: &TxLink,
    frames: &mut Burst<B>,
    rows: &[FastPacket<'_>],
    out: &mut WorkerState<B>,
) -> usize {
    let leaves =
        |row: &&FastPacket<'_>| row.is_usual && row.tx_link == door.id && row.waits_for == 0;
    let sent = rows.iter().filter(leaves).count().saturating_sub(frames.len());
    let mut bytes = 0;
    for (buf, row) in frames.drain(..).zip(rows.iter().filter(leaves).skip(sent)) {
        bytes += buf.data().len();
        let origin = Origin::user(C::DIRECTION, is_guaranteed(row));
        out.queues.backlog.queue_or_drop((door.port, door.id), (buf, origin), &mut out.tally);
    }
    bytes
}

/// True when all of the rate of a packet's express is guaranteed.
fn is_guaranteed(row: &FastPacket<'_>) -> bool {
    let line = match row.chosen_rule {
        Some(chosen) => Some(chosen.fast_rule()),
        None => row.slot.and_then(FastRuleSlot::read),
    };
    line.is_some_and(|line| line.is_guaranteed())
}

impl FastDirection for FastUplink {
    const DIRECTION: Direction = Direction::Uplink;

    #[inline(always)]
    fn session(view: &TablesView<'_>, _: &UeTable, row: &FastPacket<'_>, _: bool) -> SessionIndex {
        view.session_of_teid(row.teid)
    }

    #[inline]
    fn arrival(link: &UsualLink) -> Option<InterfaceId> {
        link.n3.as_ref().map(|n3| n3.id)
    }

    /// Takes a packet out of its tunnel.
    // PERF: once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf>(
        env: &StepContext<'v>,
        line: &FastRuleLine<'v>,
        row: &FastPacket<'v>,
        (is_v6, is_free): (bool, bool),
        at: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        let is_ue = is_ue_source(line.source(is_v6), is_v6, row.ue_key);
        if !is_ue || !line.matches_uplink(at.arrival, row.teid, row.qfi) {
            return None;
        }
        let exit = at.hop_to_block(env, line.egress(), row, is_v6, buf)?;
        let usage = countable_usage(env, line, row)?;
        if row.len > exit.tx_link.mtu_bytes {
            return None;
        }
        let waits_for = if is_free { 0 } else { pass_rates(env, Self::DIRECTION, line, row, at)? };
        let received_len = buf.data_len();
        let (cut, keep) = (usize::from(row.offset), usize::from(row.len));
        let frame = buf.replace_front(cut, usize::from(ETHERNET_LEN), keep)?;
        let frame_len = frame.len();
        let (header, packet) = frame.split_first_chunk_mut::<{ ETHERNET_LEN as usize }>()?;
        let ether_type = select_unpredictable(is_v6, EtherType::IPV6.0, EtherType::IPV4.0);
        header[..6].copy_from_slice(&exit.mac.0);
        header[6..12].copy_from_slice(&exit.tx_link.mac.0);
        header[12..].copy_from_slice(&ether_type.to_be_bytes());
        decrement_usual_hops(packet, is_v6);
        count_packet(env, Self::DIRECTION, line, usage, row);
        Some(Rewritten { tx_link: exit.tx_link, received_len, frame_len, waits_for })
    }
}

impl FastDirection for FastDownlink {
    const DIRECTION: Direction = Direction::Downlink;

    #[inline(always)]
    fn session(
        _: &TablesView<'_>,
        ues: &UeTable,
        row: &FastPacket<'_>,
        is_v6: bool,
    ) -> SessionIndex {
        match is_v6 {
            false => ues.session_v4(v4(row.ue_key).to_bits()),
            true => ues.session_v6(row.ue_key),
        }
    }

    #[inline]
    fn arrival(link: &UsualLink) -> Option<InterfaceId> {
        link.n6.as_ref().map(|(id, _)| *id)
    }

    /// Puts a packet into its tunnel.
    // PERF: once per packet.
    #[inline(always)]
    fn rewrite<'v, B: PacketBuf>(
        env: &StepContext<'v>,
        line: &FastRuleLine<'v>,
        row: &FastPacket<'v>,
        (is_v6, is_free): (bool, bool),
        at: &mut BurstContext<'v, '_>,
        buf: &mut B,
    ) -> Option<Rewritten<'v>> {
        if !line.matches_downlink(at.arrival, row.ue_key, is_v6) {
            return None;
        }
        let exit = at.hop_to_station(env, line.next_hop())?;
        let outer = exit.tx_link.outer.as_ref()?;
        let usage = countable_usage(env, line, row)?;
        let (teid, dst) = line.tunnel();
        let tunnel =
            UsualTunnel { dst_mac: exit.mac, dst, tos: line.tos(), teid, marking: line.marking() };
        if tunnel.ip_len(row.len)? > exit.tx_link.mtu_bytes {
            return None;
        }
        let waits_for = if is_free { 0 } else { pass_rates(env, Self::DIRECTION, line, row, at)? };
        let received_len = buf.data_len();
        let headers_len = tunnel.headers_len();
        let frame =
            buf.replace_front(usize::from(row.offset), headers_len, usize::from(row.len))?;
        let frame_len = frame.len();
        // Neither fails: there is room for the headers, and their length fields hold the length.
        outer.emit(&tunnel, row.len, frame)?;
        decrement_usual_hops(frame.get_mut(headers_len..)?, is_v6);
        count_packet(env, Self::DIRECTION, line, usage, row);
        Some(Rewritten { tx_link: exit.tx_link, received_len, frame_len, waits_for })
    }
}

/// True when `source`, a key, is the UE's.
#[inline(always)]
fn is_ue_source(ue: FastRuleUe<u64>, is_v6: bool, source: u64) -> bool {
    match ue {
        FastRuleUe::Only(only) => only == source,
        FastRuleUe::Any => is_forwardable(is_v6, source),
        FastRuleUe::None => false,
    }
}

/// The counters of the URRs, while none stops the packet and none has anything to tell of it.
#[inline(always)]
fn countable_usage<'v>(
    env: &StepContext<'v>,
    line: &FastRuleLine<'_>,
    row: &FastPacket<'_>,
) -> Option<[Option<CountableUsage<'v>>; FAST_RULE_URRS_MAX]> {
    let mut clear = [None; FAST_RULE_URRS_MAX];
    for (clear, urr) in clear.iter_mut().zip(line.urrs()) {
        let Some(urr) = urr else { break };
        *clear = Some(env.view.usage().countable(&urr, u64::from(row.len))?);
    }
    Some(clear)
}

/// Counts a packet for its URRs and its session.
#[inline(always)]
fn count_packet(
    env: &StepContext<'_>,
    direction: Direction,
    line: &FastRuleLine<'_>,
    usage: [Option<CountableUsage<'_>>; FAST_RULE_URRS_MAX],
    row: &FastPacket<'_>,
) {
    let bytes = u64::from(row.len);
    for usage in usage {
        let Some(usage) = usage else { break };
        usage.count(direction, bytes, env.now);
    }
    line.count(bytes);
}

/// What leads to no exit.
const NO_HOP: u64 = u64::MAX;

impl<'v> BurstContext<'v, '_> {
    /// The way towards the data network.
    // PERF: once per packet.
    #[inline(always)]
    fn hop_to_block<B: PacketBuf>(
        &mut self,
        env: &StepContext<'v>,
        within: InterfaceSet,
        row: &FastPacket<'v>,
        is_v6: bool,
        buf: &B,
    ) -> Option<ResolvedHop<'v>> {
        let way = u64::from(row.network_block) << 32 | u64::from(within.0);
        match self.hops[usize::from(is_v6)] {
            (known, Some(exit)) if known == way => Some(exit),
            _ => self.find_hop(env, (within, way), row, buf.data()),
        }
    }

    /// Looks the way of a packet in `frame` up. Other packets of its block share it, where a gateway
    /// leads to the whole. What is for another UE is left to the stages, which have it turn round.
    #[cold]
    #[inline(never)]
    fn find_hop(
        &mut self,
        env: &StepContext<'v>,
        (within, way): (InterfaceSet, u64),
        row: &FastPacket<'v>,
        frame: &[u8],
    ) -> Option<ResolvedHop<'v>> {
        let gateway = env.view.block_gateway(within, row.network_block);
        let (known, station) = match gateway {
            Some(gateway) => (way, gateway),
            None => {
                let packet = frame.get(usize::from(row.offset)..)?;
                let dst = match row.is_v6 {
                    false => IpAddr::from(*packet.get(16..)?.first_chunk::<4>()?),
                    true => IpAddr::from(*packet.get(24..)?.first_chunk::<16>()?),
                };
                if env.view.local_switching_interface(within, dst).is_some() {
                    return None;
                }
                (NO_HOP, env.view.next_hop_towards(within, dst)?)
            }
        };
        let exit = self.resolve(env, station)?;
        self.hops[usize::from(row.is_v6)] = (known, Some(exit));
        Some(exit)
    }

    /// The way to `station`.
    // PERF: once per packet of downlink.
    #[inline(always)]
    fn hop_to_station(
        &mut self,
        env: &StepContext<'v>,
        station: NextHopIndex,
    ) -> Option<ResolvedHop<'v>> {
        let way = u64::from(station.0);
        match self.hops[0] {
            (known, Some(exit)) if known == way => Some(exit),
            _ => {
                let exit = self.resolve(env, station)?;
                self.hops[0] = (way, Some(exit));
                Some(exit)
            }
        }
    }

    /// The way to a station, if its link-layer address is known and fresh.
    #[inline]
    fn resolve(&mut self, env: &StepContext<'v>, station: NextHopIndex) -> Option<ResolvedHop<'v>> {
        let (interface, mac) = env.view.resolved_hop(station)?;
        let door = env.interfaces.tx_link(interface)?;
        self.is_one_tx_link &= self.tx_link.is_none_or(|last| last.id == door.id);
        self.tx_link = Some(door);
        Some(ResolvedHop { mac, tx_link: door })
    }
}
