//! Before all stages: the usual packet, which needs nothing but its session's express.
//!
//! All stages in one: what is recognized by its layout, finds its session, and meets the conditions
//! of the session's express (`adit_rules::Express`) leaves at once. Everything else stays in the
//! burst and takes the stages, which alone drop, answer, buffer and tell. Packets of a session that
//! left one packet to the stages follow it there, so that order within a burst is kept.

mod choice;
mod rates;
mod recognize;

use core::hint::select_unpredictable;
use core::mem;
use core::net::IpAddr;

use adit_pktio::{Burst, PacketBuf, PacketIo};
use adit_rules::{EXPRESS_URRS_MAX, ExpressUe};
use adit_shaper::RateSet;
use adit_tables::{Chosen, ClearUsage, ExpressHome, ExpressLine, Leases, Ues, View};
use adit_types::{
    Direction, InterfaceId, InterfaceSet, MacAddr, NextHopIndex, PortId, Qfi, SessionIndex, Teid,
};
use adit_wire::{EtherType, UsualTunnel, age_usual};

use self::choice::choose;
use self::rates::{expect, flow, may_wait, pass_rates, waits_for};
use self::recognize::{Order, is_forwardable, recognize_all, recognize_mixed, v4};
use crate::columns::Column;
use crate::handoff::Handoff;
use crate::interfaces::{Door, UsualLink};
use crate::outbound::{Origin, Outbound};
use crate::shaping::{self, Ready};
use crate::stage::egress::Env;
use crate::tally::Tally;

/// Octets of an Ethernet header without a tag.
const ETHERNET_LEN: u8 = 14;

/// One packet of the burst.
///
/// PERF: written field by field into its column and read by reference; moved as a whole, it goes
/// through the stack in pieces that its reader waits for.
#[derive(Debug, Clone, Copy)]
struct Row<'v> {
    direction: Direction,
    /// The packet may leave, or left; otherwise it takes the stages, and its session's with it.
    usual: bool,
    /// The lookup key is that of an IPv6 UE.
    is_v6: bool,
    /// QoS flow of the container in uplink.
    qfi: Option<Qfi>,
    /// Where the user's packet begins. Unit: octets.
    offset: u8,
    /// The block of its destination in uplink ([`View::network_block_v4`]).
    block: u8,
    /// The interface that it leaves through; written once it is forwarded.
    door: InterfaceId,
    /// Length of the user's packet. Unit: octets.
    len: u16,
    /// The tunnel that it came in, in uplink.
    teid: Teid,
    /// The session; written once it is looked up.
    session: SessionIndex,
    /// The UE's address in the user's packet, as a key.
    ue: u64,
    /// What it waits for before it leaves ([`rates`]); written once it is forwarded.
    waits_for: u64,
    /// Where its session's express is; written once the session is looked up.
    home: Option<ExpressHome<'v>>,
    /// Its express, where SDF filters told which.
    chosen: Option<Chosen<'v>>,
}

/// The interface of a packet that does not leave.
const NO_DOOR: InterfaceId = InterfaceId(u8::MAX);

/// One direction; chosen outside the packet loops.
trait Course {
    const DIRECTION: Direction;

    /// The session of a packet; `ues` are those of the domain that its burst came from.
    fn session(view: &View<'_>, ues: &Ues, row: &Row<'_>, is_v6: bool) -> SessionIndex;

    /// The interface that packets arrive on.
    fn arrival(link: &UsualLink) -> Option<InterfaceId>;

    /// Rewrites one packet and counts it for its session and URRs, or leaves it as it is. `is`: of
    /// IPv6, and without rates to pass.
    ///
    /// PERF: nothing branches on the family where it is no constant: nothing predicts it.
    fn forward<'v, B: PacketBuf>(
        env: &Env<'v>,
        line: &ExpressLine<'v>,
        row: &Row<'v>,
        is: (bool, bool),
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<Left<'v>>;
}

struct Uplink;
struct Downlink;

/// The families of a burst's packets; chosen outside the packet loops.
trait Families {
    /// There may be both.
    const ARE_MIXED: bool = false;

    /// That of one packet.
    fn is_v6(row: &Row<'_>) -> bool;
}

struct OnlyV4;
struct OnlyV6;
struct Mixed;

impl Families for OnlyV4 {
    #[inline(always)]
    fn is_v6(_: &Row<'_>) -> bool {
        false
    }
}

impl Families for OnlyV6 {
    #[inline(always)]
    fn is_v6(_: &Row<'_>) -> bool {
        true
    }
}

impl Families for Mixed {
    const ARE_MIXED: bool = true;

    #[inline(always)]
    fn is_v6(row: &Row<'_>) -> bool {
        row.is_v6
    }
}

/// A station that packets leave to, and the way there.
#[derive(Clone, Copy)]
struct Exit<'v> {
    mac: MacAddr,
    door: &'v Door,
}

/// A frame that is ready to leave.
struct Left<'v> {
    door: &'v Door,
    /// Before it was rewritten. Unit: octets.
    received_len: usize,
    /// Unit: octets.
    frame_len: usize,
    /// As of [`Row::waits_for`].
    waits_for: u64,
}

/// What packets of one direction of a burst share.
struct At<'v, 'l> {
    /// The interface that they arrived on.
    arrival: InterfaceSet,
    /// The last exit of each family, by what led there: most packets share it.
    exits: [(u64, Option<Exit<'v>>); 2],
    /// The door of the last exit.
    door: Option<&'v Door>,
    /// All exits had that door.
    is_one_door: bool,
    /// What was taken of shared rates, and those that flows wait for.
    leases: &'l mut Leases,
    crowded: RateSet,
}

/// Forwards the usual packets of a burst; the others are left in `rx`, in the order of their
/// direction.
///
/// Shape:   takes from `rx` what it forwards. n ≤ BURST_MAX.
/// Cost:    one line each of the key table, the express with the session's counters, each URR's
///          usage and the next hop; each is asked for a pass ahead. No allocation, no clock.
/// Spec:    as of the stages.
/// Errors:  none; frames that a port does not take wait or become `DropReason::TxQueueFull`.
pub(crate) fn express<Io: PacketIo>(
    env: &Env<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
) {
    let Some(link) = env.interfaces.usual(port) else { return };
    let mut rows = Column::new();
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
        (true, _) => run::<Io, Uplink>(env, io, on, (usual, v6), &mut rows, rx, out),
        (_, true) => run::<Io, Downlink>(env, io, on, (usual, v6), &mut rows, rx, out),
        _ => run_both(env, io, on, &rows, rx, out),
    }
}

/// The same for a burst of both directions, each on its own.
#[inline(never)]
fn run_both<'v, Io: PacketIo>(
    env: &Env<'v>,
    io: &mut Io,
    on: (PortId, &UsualLink),
    rows: &Column<Row<'v>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
) {
    let [mut tunneled, mut plain] = [Burst::new(), Burst::new()];
    let [mut uplink, mut downlink] = [Column::new(), Column::new()];
    for (buf, row) in rx.drain(..).zip(rows) {
        let (bufs, rows) = match row.direction {
            Direction::Uplink => (&mut tunneled, &mut uplink),
            Direction::Downlink => (&mut plain, &mut downlink),
        };
        bufs.push(buf);
        rows.push(*row);
    }
    let counts = |rows: &Column<Row<'_>>| {
        let usual = rows.iter().filter(|row| row.usual).count();
        (usual, rows.iter().filter(|row| row.is_v6).count())
    };
    run::<Io, Uplink>(env, io, on, counts(&uplink), &mut uplink, &mut tunneled, out);
    run::<Io, Downlink>(env, io, on, counts(&downlink), &mut downlink, &mut plain, out);
    rx.extend(tunneled);
    rx.extend(plain);
}

/// Forwards what meets the conditions of its session's express, in a loop for the families that
/// there are: so many of the rows are usual, and of IPv6.
fn run<'v, Io: PacketIo, C: Course>(
    env: &Env<'v>,
    io: &mut Io,
    on: (PortId, &UsualLink),
    (usual, v6): (usize, usize),
    rows: &mut Column<Row<'v>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
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
fn run_families<'v, Io: PacketIo, C: Course, F: Families>(
    env: &Env<'v>,
    io: &mut Io,
    (port, link): (PortId, &UsualLink),
    are_usual: bool,
    rows: &mut Column<Row<'v>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
) {
    let Some(arrival) = C::arrival(link) else { return };
    let view = &env.view;
    let ues = view.ues(link.domain);
    let Outbound { buffering, shaping, leases, handoff, tally, .. } = out;
    // Without room nothing waits, and only the stages know that before they count a packet.
    let is_shaping = !shaping.is_empty() || !shaping.has_room(0);
    let is_alone = handoff.is_alone();
    let locate = |row: &mut Row<'v>| {
        row.session = C::session(view, ues, row, F::is_v6(row));
        // What another worker writes is not fetched away from it.
        if is_alone || handoff.is_ours(row.session) {
            row.home = view.express_home(row.session, C::DIRECTION);
            row.home.inspect(|home| home.prefetch());
        }
    };
    if F::ARE_MIXED && C::DIRECTION == Direction::Downlink {
        for part in Order::of_rows(rows).parts() {
            part.iter().for_each(|place| {
                rows.get_mut(usize::from(*place)).map(locate);
            });
        }
    } else {
        rows.iter_mut().for_each(locate);
    }
    if !is_alone {
        steer(handoff, (port, arrival), rows, rx, tally);
    }
    let mut choices = false;
    for row in rows.iter() {
        let Some(home) = row.home else { continue };
        let is_v6 = F::is_v6(row);
        choices |= view.prefetch_express_usage(home, row.session, C::DIRECTION, is_v6);
    }
    if is_shaping {
        expect(view, C::DIRECTION, shaping, rows);
    }
    if choices {
        choose::<_, F>(C::DIRECTION, view, rx, rows);
    }
    let (arrivals, crowded) = (InterfaceSet::only(arrival), shaping.crowded());
    let exits = [(NO_EXIT, None); 2];
    let (door, is_one_door) = (None, true);
    let mut at = At { arrival: arrivals, exits, door, is_one_door, leases, crowded };
    let is_shared = !view.aggregates().is_empty();
    let mut left = Column::<SessionIndex>::new();
    // Some packets are not usual, or packets of their sessions wait or were left to the stages.
    let mut is_watched = !are_usual || !buffering.is_empty();
    let mut any_waits = false;
    let [mut bytes, mut bytes_out] = [0, 0];
    for (buf, row) in rx.iter_mut().zip(rows.iter_mut()) {
        let stays = is_watched
            && (!row.usual || left.contains(&row.session) || buffering.waits(row.session));
        let line = match (stays, row.chosen) {
            (true, _) => None,
            (false, None) => row.home.and_then(ExpressHome::read),
            (false, Some(chosen)) => Some(chosen.express()),
        };
        let ready = line.and_then(|line| {
            let is_free = line.meters() == 0 && !is_shared;
            if is_shaping && !is_free && !may_wait::<_, C>(shaping, waits_for(&line), row) {
                return None;
            }
            C::forward(env, &line, row, (F::is_v6(row), is_free), &mut at, buf)
        });
        let Some(ready) = ready else {
            // As many are pushed as there are packets.
            left.push(row.session);
            row.usual = false;
            is_watched = true;
            continue;
        };
        row.door = ready.door.id;
        if ready.waits_for != 0 {
            row.waits_for = ready.waits_for;
            any_waits = true;
        }
        bytes += ready.received_len;
        bytes_out += ready.frame_len;
    }
    tally.receive_express(arrival, rows.len() - left.len(), bytes);
    let At { door, is_one_door, .. } = at;
    match door {
        Some(door) if is_one_door && !any_waits && left.is_empty() => {
            transmit::<Io, C>(io, door, (rx, bytes_out), rows, out);
        }
        _ => part::<Io, C>(env, io, rows, rx, out),
    }
}

/// Hands over the packets whose sessions another worker owns, before anything of these is looked at.
#[inline(never)]
fn steer<B: PacketBuf>(
    handoff: &mut Handoff<B>,
    (port, arrival): (PortId, InterfaceId),
    rows: &mut Column<Row<'_>>,
    rx: &mut Burst<B>,
    tally: &mut Tally,
) {
    if rows.iter().all(|row| handoff.is_ours(row.session)) {
        return;
    }
    for (buf, row) in mem::take(rx).into_iter().zip(mem::take(rows)) {
        if handoff.is_ours(row.session) {
            rows.push(row);
            rx.push(buf);
        } else {
            tally.receive(buf.data().len());
            tally.receive_on(arrival, buf.data().len());
            handoff.give(row.session, port, buf, tally);
        }
    }
}

/// Transmits the rewritten packets of a burst, of which some stay, wait for their rates, or leave
/// elsewhere than others.
#[inline(never)]
fn part<Io: PacketIo, C: Course>(
    env: &Env<'_>,
    io: &mut Io,
    rows: &Column<Row<'_>>,
    rx: &mut Burst<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
) {
    let [mut staying, mut leaving] = [Burst::<Io::Buf>::new(), Burst::new()];
    let mut last: Option<&Door> = None;
    let mut bytes = 0;
    for (at, (buf, row)) in rx.drain(..).zip(rows).enumerate() {
        let door = env.interfaces.door(row.door).filter(|_| row.usual);
        let Some(door) = door else {
            staying.push(buf);
            continue;
        };
        if row.waits_for != 0 {
            let flow = flow(row.session, C::DIRECTION, row.waits_for);
            let packet = Ready::new(buf, (door.port, door.id));
            let Outbound { shaping, leases, tally, .. } = &mut *out;
            shaping::hold(env, (shaping, leases, tally), flow, packet, row.len);
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
fn transmit<Io: PacketIo, C: Course>(
    io: &mut Io,
    door: &Door,
    (frames, bytes): (&mut Burst<Io::Buf>, usize),
    rows: &[Row<'_>],
    out: &mut Outbound<Io::Buf>,
) {
    let queued = frames.len();
    if !out.queues.backlog.blocks(door.port) {
        io.tx_burst(door.port, frames);
    }
    let sent = queued.saturating_sub(frames.len());
    let mut sent_bytes = bytes;
    if !frames.is_empty() {
        sent_bytes = sent_bytes.saturating_sub(refuse::<_, C>(door, frames, rows, out));
    }
    out.tally.transmit_many(door.id, C::DIRECTION, sent, sent_bytes);
}

/// Takes the frames back that a port did not take, the last ones that leave through `door`. Returns
/// how many octets they have.
#[cold]
fn refuse<B: PacketBuf, C: Course>(
    door: &Door,
    frames: &mut Burst<B>,
    rows: &[Row<'_>],
    out: &mut Outbound<B>,
) -> usize {
    let leaves = |row: &&Row<'_>| row.usual && row.door == door.id && row.waits_for == 0;
    let sent = rows.iter().filter(leaves).count().saturating_sub(frames.len());
    let mut bytes = 0;
    for (buf, row) in frames.drain(..).zip(rows.iter().filter(leaves).skip(sent)) {
        bytes += buf.data().len();
        let origin = Origin::user(C::DIRECTION, is_guaranteed(row));
        out.queues.backlog.take((door.port, door.id), (buf, origin), &mut out.tally);
    }
    bytes
}

/// True when all of the rate of a packet's express is guaranteed.
fn is_guaranteed(row: &Row<'_>) -> bool {
    let line = match row.chosen {
        Some(chosen) => Some(chosen.express()),
        None => row.home.and_then(ExpressHome::read),
    };
    line.is_some_and(|line| line.is_guaranteed())
}

impl Course for Uplink {
    const DIRECTION: Direction = Direction::Uplink;

    #[inline(always)]
    fn session(view: &View<'_>, _: &Ues, row: &Row<'_>, _: bool) -> SessionIndex {
        view.session_of_teid(row.teid)
    }

    #[inline]
    fn arrival(link: &UsualLink) -> Option<InterfaceId> {
        link.n3.as_ref().map(|n3| n3.id)
    }

    /// Takes a packet out of its tunnel.
    // PERF: once per packet.
    #[inline(always)]
    fn forward<'v, B: PacketBuf>(
        env: &Env<'v>,
        line: &ExpressLine<'v>,
        row: &Row<'v>,
        (is_v6, is_free): (bool, bool),
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<Left<'v>> {
        let is_ue = is_source(line.source(is_v6), is_v6, row.ue);
        if !is_ue || !line.takes_uplink(at.arrival, row.teid, row.qfi) {
            return None;
        }
        let exit = at.exit_to_block(env, line.exit(), row, is_v6, buf)?;
        let usage = clear_usage(env, line, row)?;
        if row.len > exit.door.mtu_bytes {
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
        header[6..12].copy_from_slice(&exit.door.mac.0);
        header[12..].copy_from_slice(&ether_type.to_be_bytes());
        age_usual(packet, is_v6);
        count(env, Self::DIRECTION, line, usage, row);
        Some(Left { door: exit.door, received_len, frame_len, waits_for })
    }
}

impl Course for Downlink {
    const DIRECTION: Direction = Direction::Downlink;

    #[inline(always)]
    fn session(_: &View<'_>, ues: &Ues, row: &Row<'_>, is_v6: bool) -> SessionIndex {
        match is_v6 {
            false => ues.session_v4(v4(row.ue).to_bits()),
            true => ues.session_v6(row.ue),
        }
    }

    #[inline]
    fn arrival(link: &UsualLink) -> Option<InterfaceId> {
        link.n6.as_ref().map(|(id, _)| *id)
    }

    /// Puts a packet into its tunnel.
    // PERF: once per packet.
    #[inline(always)]
    fn forward<'v, B: PacketBuf>(
        env: &Env<'v>,
        line: &ExpressLine<'v>,
        row: &Row<'v>,
        (is_v6, is_free): (bool, bool),
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<Left<'v>> {
        if !line.takes_downlink(at.arrival, row.ue, is_v6) {
            return None;
        }
        let exit = at.exit_to_station(env, line.next_hop())?;
        let outer = exit.door.outer.as_ref()?;
        let usage = clear_usage(env, line, row)?;
        let (teid, dst) = line.tunnel();
        let tunnel =
            UsualTunnel { dst_mac: exit.mac, dst, tos: line.tos(), teid, marking: line.marking() };
        if tunnel.ip_len(row.len)? > exit.door.mtu_bytes {
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
        age_usual(frame.get_mut(headers_len..)?, is_v6);
        count(env, Self::DIRECTION, line, usage, row);
        Some(Left { door: exit.door, received_len, frame_len, waits_for })
    }
}

/// True when `source`, a key, is the UE's.
#[inline(always)]
fn is_source(ue: ExpressUe<u64>, is_v6: bool, source: u64) -> bool {
    match ue {
        ExpressUe::Only(only) => only == source,
        ExpressUe::Any => is_forwardable(is_v6, source),
        ExpressUe::None => false,
    }
}

/// The counters of the URRs, while none stops the packet and none has anything to tell of it.
#[inline(always)]
fn clear_usage<'v>(
    env: &Env<'v>,
    line: &ExpressLine<'_>,
    row: &Row<'_>,
) -> Option<[Option<ClearUsage<'v>>; EXPRESS_URRS_MAX]> {
    let mut clear = [None; EXPRESS_URRS_MAX];
    for (clear, urr) in clear.iter_mut().zip(line.urrs()) {
        let Some(urr) = urr else { break };
        *clear = Some(env.view.usage().clear(&urr, u64::from(row.len))?);
    }
    Some(clear)
}

/// Counts a packet for its URRs and its session.
#[inline(always)]
fn count(
    env: &Env<'_>,
    direction: Direction,
    line: &ExpressLine<'_>,
    usage: [Option<ClearUsage<'_>>; EXPRESS_URRS_MAX],
    row: &Row<'_>,
) {
    let bytes = u64::from(row.len);
    for usage in usage {
        let Some(usage) = usage else { break };
        usage.count(direction, bytes, env.now);
    }
    line.count(bytes);
}

/// What leads to no exit.
const NO_EXIT: u64 = u64::MAX;

impl<'v> At<'v, '_> {
    /// The way towards the data network.
    // PERF: once per packet.
    #[inline(always)]
    fn exit_to_block<B: PacketBuf>(
        &mut self,
        env: &Env<'v>,
        within: InterfaceSet,
        row: &Row<'v>,
        is_v6: bool,
        buf: &B,
    ) -> Option<Exit<'v>> {
        let way = u64::from(row.block) << 32 | u64::from(within.0);
        match self.exits[usize::from(is_v6)] {
            (known, Some(exit)) if known == way => Some(exit),
            _ => self.find_exit(env, (within, way), row, buf.data()),
        }
    }

    /// Looks the way of a packet in `frame` up. Other packets of its block share it, where a gateway
    /// leads to the whole. What is for another UE is left to the stages, which have it turn round.
    #[cold]
    #[inline(never)]
    fn find_exit(
        &mut self,
        env: &Env<'v>,
        (within, way): (InterfaceSet, u64),
        row: &Row<'v>,
        frame: &[u8],
    ) -> Option<Exit<'v>> {
        let gateway = env.view.block_gateway(within, row.block);
        let (known, station) = match gateway {
            Some(gateway) => (way, gateway),
            None => {
                let packet = frame.get(usize::from(row.offset)..)?;
                let dst = match row.is_v6 {
                    false => IpAddr::from(*packet.get(16..)?.first_chunk::<4>()?),
                    true => IpAddr::from(*packet.get(24..)?.first_chunk::<16>()?),
                };
                if env.view.turning_point(within, dst).is_some() {
                    return None;
                }
                (NO_EXIT, env.view.station_towards(within, dst)?)
            }
        };
        let exit = self.resolve(env, station)?;
        self.exits[usize::from(row.is_v6)] = (known, Some(exit));
        Some(exit)
    }

    /// The way to `station`.
    // PERF: once per packet of downlink.
    #[inline(always)]
    fn exit_to_station(&mut self, env: &Env<'v>, station: NextHopIndex) -> Option<Exit<'v>> {
        let way = u64::from(station.0);
        match self.exits[0] {
            (known, Some(exit)) if known == way => Some(exit),
            _ => {
                let exit = self.resolve(env, station)?;
                self.exits[0] = (way, Some(exit));
                Some(exit)
            }
        }
    }

    /// The way to a station, if its link-layer address is known and fresh.
    #[inline]
    fn resolve(&mut self, env: &Env<'v>, station: NextHopIndex) -> Option<Exit<'v>> {
        let (interface, mac) = env.view.exit(station)?;
        let door = env.interfaces.door(interface)?;
        self.is_one_door &= self.door.is_none_or(|last| last.id == door.id);
        self.door = Some(door);
        Some(Exit { mac, door })
    }
}
