//! Before all stages: the usual packet, which needs nothing but its session's express.
//!
//! All stages in one: what is recognized by its layout, finds its session, and meets the conditions
//! of the session's express (`adit_rules::Express`) leaves at once. Everything else stays in the
//! burst and takes the stages, which alone drop, answer, buffer and tell. Packets of a session that
//! left one packet to the stages follow it there, so that order within a burst is kept.

mod choice;
mod rates;

use core::mem;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_pktio::{Burst, PacketBuf, PacketIo, RxChecksum};
use adit_rules::{DropReason, EXPRESS_URRS_MAX, ExpressUe};
use adit_shaper::RateSet;
use adit_tables::{ClearUsage, ExpressLine, Leases, View};
use adit_types::limits::BURST_MAX;
use adit_types::{
    Direction, InterfaceId, InterfaceSet, MacAddr, NextHopIndex, PortId, Qfi, SessionIndex, Teid,
    is_forwardable_v4, is_forwardable_v6,
};
use adit_wire::{
    EtherType, Glance, UsualGPdu, UsualTunnel, glance, ipv4, ipv6, usual_g_pdu, usual_ip,
};

use self::choice::choose;
use self::rates::{flow, may_wait, pass_rates};
use crate::columns::Column;
use crate::handoff::Handoff;
use crate::interfaces::{Door, UsualLink};
use crate::outbound::Outbound;
use crate::shaping::{self, Ready, Shaping};
use crate::stage::egress::Env;
use crate::tally::Tally;

/// Octets of an Ethernet header without a tag.
const ETHERNET_LEN: u8 = 14;

/// One packet of the burst.
///
/// PERF: written field by field into its column and read by reference; moved as a whole, it goes
/// through the stack in pieces that its reader waits for.
#[derive(Debug, Clone, Copy)]
struct Row {
    direction: Direction,
    /// The packet may leave, or left; otherwise it takes the stages, and its session's with it.
    usual: bool,
    /// The lookup key is that of an IPv6 UE.
    is_v6: bool,
    /// QoS flow of the container in uplink.
    qfi: Option<Qfi>,
    /// Where the user's packet begins. Unit: octets.
    offset: u8,
    /// Length of the user's packet. Unit: octets.
    len: u16,
    /// Length of the frame. Unit: octets.
    frame_len: u32,
    /// The session; written once it is looked up.
    session: SessionIndex,
    /// TEID in uplink, key of the UE's address in downlink.
    key: u64,
    /// The interface that it leaves through; written once it is forwarded.
    door: InterfaceId,
    /// What it waits for before it leaves ([`rates`]); written once it is forwarded.
    waits_for: u64,
    /// Source of the user's packet in uplink, as a key.
    src: u64,
    /// Destination of the user's packet, as a key.
    dst: u64,
}

/// The key of a frame that no session has.
const NO_KEY: u64 = u64::MAX;

/// The interface of a packet that does not leave.
const NO_DOOR: InterfaceId = InterfaceId(u8::MAX);

/// One direction; chosen outside the packet loops.
trait Course {
    const DIRECTION: Direction;

    /// The session of a packet.
    fn session(view: &View<'_>, row: &Row) -> SessionIndex;

    /// The interface that packets arrive on.
    fn arrival(link: &UsualLink) -> Option<InterfaceId>;

    /// Rewrites one packet and counts it for its session and URRs, or leaves it as it is.
    fn forward<'v, B: PacketBuf, const V6: bool>(
        env: &Env<'v>,
        line: &ExpressLine<'v>,
        row: &Row,
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<Left<'v>>;
}

struct Uplink;
struct Downlink;

/// A station that packets leave to, and the way there.
#[derive(Clone, Copy)]
struct Exit<'v> {
    station: NextHopIndex,
    mac: MacAddr,
    door: &'v Door,
}

/// A frame that is ready to leave.
struct Left<'v> {
    door: &'v Door,
    /// Unit: octets.
    frame_len: usize,
    /// As of [`Row::waits_for`].
    waits_for: u64,
}

/// No block of destinations.
const NO_BLOCK: (u8, InterfaceSet) = (0, InterfaceSet::NONE);

/// What packets of one direction of a burst share.
struct At<'v, 'l> {
    /// The interface that they arrived on.
    arrival: InterfaceSet,
    /// The last exit that was looked up: most packets share it.
    exit: Option<Exit<'v>>,
    /// The routes that led there: a block of destinations, and the interfaces that were looked at.
    block: (u8, InterfaceSet),
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
/// Errors:  none; frames that a port does not take become `DropReason::TxQueueFull`.
pub(crate) fn express<Io: PacketIo>(
    env: &Env<'_>,
    io: &mut Io,
    port: PortId,
    rx: &mut Burst<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
) {
    let Some(link) = env.interfaces.usual(port) else { return };
    let mut rows = Column::new();
    let (mut usual, mut uplink) = (0, 0);
    for buf in rx.iter() {
        match recognize(&env.view, link, buf, &mut rows) {
            Seen::Usual(direction) => {
                usual += 1;
                uplink += usize::from(direction == Direction::Uplink);
            }
            Seen::Stranger(direction) => uplink += usize::from(direction == Direction::Uplink),
            Seen::Unknown => return,
        }
    }
    if usual == 0 {
        return;
    }
    if uplink == rows.len() {
        run::<Io, Uplink>(env, io, (port, link), &mut rows, rx, out);
    } else if uplink == 0 {
        run::<Io, Downlink>(env, io, (port, link), &mut rows, rx, out);
    } else {
        run_both(env, io, (port, link), &rows, rx, out);
    }
}

/// The same for a burst of both directions, each on its own.
#[inline(never)]
fn run_both<Io: PacketIo>(
    env: &Env<'_>,
    io: &mut Io,
    on: (PortId, &UsualLink),
    rows: &Column<Row>,
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
    run::<Io, Uplink>(env, io, on, &mut uplink, &mut tunneled, out);
    run::<Io, Downlink>(env, io, on, &mut downlink, &mut plain, out);
    rx.extend(tunneled);
    rx.extend(plain);
}

/// What was seen of a packet.
enum Seen {
    /// It was recognized.
    Usual(Direction),
    /// It may belong to a session.
    Stranger(Direction),
    /// Only the stages can tell which session it belongs to.
    Unknown,
}

/// Tells what one packet is, and asks for the line where its session is found.
// PERF: a call would pass what was recognized through memory.
#[inline(always)]
fn recognize<B: PacketBuf>(
    view: &View<'_>,
    link: &UsualLink,
    buf: &B,
    rows: &mut Column<Row>,
) -> Seen {
    let checksum = buf.rx_checksum();
    let verify = checksum == RxChecksum::Unknown;
    let frame = buf.data();
    // Frames have at most 65535 octets.
    let frame_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let session = SessionIndex::NONE;
    if buf.is_contiguous() && checksum != RxChecksum::Bad {
        if let Some(n3) = &link.n3
            && let Some(UsualGPdu { teid, qfi, inner_offset, inner }) =
                usual_g_pdu(frame, &n3.pattern, verify)
            && is_forwardable(inner.is_v6, inner.dst)
        {
            view.prefetch_teid(teid);
            rows.push(Row {
                direction: Direction::Uplink,
                usual: true,
                is_v6: inner.is_v6,
                qfi,
                offset: inner_offset,
                len: inner.total_len,
                frame_len,
                session,
                door: NO_DOOR,
                waits_for: 0,
                key: u64::from(teid.0),
                src: inner.src,
                dst: inner.dst,
            });
            return Seen::Usual(Direction::Uplink);
        }
        if let Some((_, pattern)) = &link.n6
            && let Some(ip) = usual_ip(frame, pattern, verify)
            && is_forwardable(ip.is_v6, ip.src)
            && !link.is_own(&ip)
        {
            match ip.is_v6 {
                false => view.prefetch_ue_v4(v4(ip.dst).to_bits()),
                true => view.prefetch_ue_v6(ip.dst),
            }
            rows.push(Row {
                direction: Direction::Downlink,
                usual: true,
                is_v6: ip.is_v6,
                qfi: None,
                offset: ETHERNET_LEN,
                len: ip.total_len,
                frame_len,
                session,
                door: NO_DOOR,
                waits_for: 0,
                key: ip.dst,
                src: ip.src,
                dst: ip.dst,
            });
            return Seen::Usual(Direction::Downlink);
        }
    }
    let Some(row) = stranger(frame, link.n3.as_ref().map(|n3| n3.addr)) else {
        return Seen::Unknown;
    };
    rows.push(row);
    Seen::Stranger(row.direction)
}

/// The row of a packet that is not usual.
#[cold]
fn stranger(frame: &[u8], tunnels: Option<Ipv4Addr>) -> Option<Row> {
    let (direction, is_v6, key) = match glance(frame, tunnels) {
        Glance::Nothing => (Direction::Downlink, true, NO_KEY),
        Glance::Tunneled(teid) => (Direction::Uplink, false, u64::from(teid.0)),
        Glance::PlainV4(dst) => (Direction::Downlink, false, u64::from(dst.to_bits())),
        Glance::PlainV6(key) => (Direction::Downlink, true, key),
        Glance::Unknown => return None,
    };
    Some(Row {
        direction,
        usual: false,
        is_v6,
        qfi: None,
        offset: 0,
        len: 0,
        frame_len: 0,
        session: SessionIndex::NONE,
        door: NO_DOOR,
        waits_for: 0,
        key,
        src: 0,
        dst: 0,
    })
}

/// True unless a router keeps packets from or to the address of a key. Prefixes that hold the
/// unspecified and the loopback address count as such.
#[inline]
fn is_forwardable(is_v6: bool, key: u64) -> bool {
    match is_v6 {
        true => is_forwardable_v6(Ipv6Addr::from_bits(u128::from(key) << 64)),
        false => is_forwardable_v4(v4(key)),
    }
}

/// The IPv4 address of a key.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
const fn v4(key: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(key as u32)
}

/// Forwards what meets the conditions of its session's express.
fn run<Io: PacketIo, C: Course>(
    env: &Env<'_>,
    io: &mut Io,
    (port, link): (PortId, &UsualLink),
    rows: &mut Column<Row>,
    rx: &mut Burst<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
) {
    let Some(arrival) = C::arrival(link) else { return };
    let view = &env.view;
    let Outbound { buffering, shaping, leases, handoff, tally, .. } = out;
    let is_alone = handoff.is_alone();
    for row in rows.iter_mut() {
        row.session = C::session(view, row);
        // What another worker writes is not fetched away from it.
        if is_alone || handoff.is_ours(row.session) {
            view.prefetch_express(row.session, C::DIRECTION);
        }
    }
    if !is_alone {
        steer(handoff, (port, arrival), rows, rx, tally);
    }
    let mut choices = false;
    for row in rows.iter() {
        choices |= view.prefetch_express_usage(row.session, C::DIRECTION, row.is_v6);
    }
    let mut chosen = [None; BURST_MAX];
    if choices {
        choose(C::DIRECTION, view, rx, rows, &mut chosen);
    }
    let (arrivals, crowded) = (InterfaceSet::only(arrival), shaping.crowded());
    let mut at = At { arrival: arrivals, exit: None, block: NO_BLOCK, leases, crowded };
    let is_shared = !view.aggregates().is_empty();
    let is_buffering = !buffering.is_empty();
    let mut left = Column::<SessionIndex>::new();
    let mut way = Way { door: None, is_one: true };
    let [mut bytes, mut bytes_out] = [0, 0];
    for ((buf, row), chosen) in rx.iter_mut().zip(rows.iter_mut()).zip(&chosen) {
        let may_leave = row.usual
            && (left.is_empty() || !left.contains(&row.session))
            && !(is_buffering && buffering.waits(row.session));
        let line = match chosen {
            None => view.express(row.session, C::DIRECTION),
            Some(chosen) => Some(chosen.express()),
        };
        let line = line.filter(|_| may_leave);
        let line = line.filter(|line| {
            line.meters() == 0 && !is_shared || may_wait::<_, C>(shaping, line, row)
        });
        let ready = match (line, row.is_v6) {
            (None, _) => None,
            (Some(line), false) => C::forward::<_, false>(env, &line, row, &mut at, buf),
            (Some(line), true) => C::forward::<_, true>(env, &line, row, &mut at, buf),
        };
        let Some(Left { door, frame_len, waits_for }) = ready else {
            // As many are pushed as there are packets.
            left.push(row.session);
            row.usual = false;
            continue;
        };
        (row.door, row.waits_for) = (door.id, waits_for);
        way.add(door);
        way.is_one &= waits_for == 0;
        bytes += row.frame_len as usize;
        bytes_out += frame_len;
    }
    tally.receive_express(arrival, rows.len() - left.len(), bytes);
    match way.door {
        Some(door) if way.is_one && left.is_empty() => {
            transmit::<Io, C>(io, door, rx, bytes_out, tally);
        }
        _ => part::<Io, C>(env, io, rows, rx, (shaping, leases, tally)),
    }
}

/// Hands over the packets whose sessions another worker owns, before anything of these is looked at.
#[inline(never)]
fn steer<B: PacketBuf>(
    handoff: &mut Handoff<B>,
    (port, arrival): (PortId, InterfaceId),
    rows: &mut Column<Row>,
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
    rows: &Column<Row>,
    rx: &mut Burst<Io::Buf>,
    (shaping, leases, tally): (&mut Shaping<Io::Buf>, &mut Leases, &mut Tally),
) {
    let [mut staying, mut leaving] = [Burst::<Io::Buf>::new(), Burst::new()];
    let mut last: Option<&Door> = None;
    let mut bytes = 0;
    for (buf, row) in rx.drain(..).zip(rows) {
        let door = env.interfaces.door(row.door).filter(|_| row.usual);
        let Some(door) = door else {
            staying.push(buf);
            continue;
        };
        if row.waits_for != 0 {
            let key = flow(row.session, C::DIRECTION, row.waits_for);
            let packet = Ready { buf, exit: (door.port, door.id) };
            shaping::hold(env, (shaping, leases, tally), key, packet, row.len);
            continue;
        }
        if let Some(last) = last.filter(|last| last.id != door.id) {
            transmit::<Io, C>(io, last, &mut leaving, mem::take(&mut bytes), tally);
        }
        last = Some(door);
        bytes += buf.data().len();
        leaving.push(buf);
    }
    if let Some(door) = last {
        transmit::<Io, C>(io, door, &mut leaving, bytes, tally);
    }
    rx.extend(staying);
}

/// Hands `frames` of `bytes` octets together to their port; what it does not take is dropped.
fn transmit<Io: PacketIo, C: Course>(
    io: &mut Io,
    door: &Door,
    frames: &mut Burst<Io::Buf>,
    bytes: usize,
    tally: &mut Tally,
) {
    let queued = frames.len();
    io.tx_burst(door.port, frames);
    let mut sent_bytes = bytes;
    for refused in frames.iter() {
        sent_bytes = sent_bytes.saturating_sub(refused.data().len());
        tally.drop(DropReason::TxQueueFull);
    }
    let sent = queued.saturating_sub(frames.len());
    tally.transmit_many(door.id, C::DIRECTION, sent, sent_bytes);
    frames.clear();
}

/// The door that packets of a burst leave by.
struct Way<'v> {
    /// That of the last packet that left.
    door: Option<&'v Door>,
    /// All packets that left so far took it.
    is_one: bool,
}

impl<'v> Way<'v> {
    #[inline]
    fn add(&mut self, door: &'v Door) {
        self.is_one &= self.door.is_none_or(|last| last.id == door.id);
        self.door = Some(door);
    }
}

impl Course for Uplink {
    const DIRECTION: Direction = Direction::Uplink;

    #[inline]
    fn session(view: &View<'_>, row: &Row) -> SessionIndex {
        view.session_of_teid(teid(row))
    }

    #[inline]
    fn arrival(link: &UsualLink) -> Option<InterfaceId> {
        link.n3.as_ref().map(|n3| n3.id)
    }

    /// Takes a packet out of its tunnel.
    // PERF: once per packet.
    #[inline(always)]
    fn forward<'v, B: PacketBuf, const V6: bool>(
        env: &Env<'v>,
        line: &ExpressLine<'v>,
        row: &Row,
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<Left<'v>> {
        let is_ue = match V6 {
            false => is_source(line.source_v4(), v4(row.src).to_bits(), V6, row.src),
            true => is_source(line.source_v6(), row.src, V6, row.src),
        };
        if !is_ue || !line.takes_uplink(at.arrival, teid(row), row.qfi) {
            return None;
        }
        let exit = match V6 {
            false => at.find_v4(env, line.exit(), v4(row.dst))?,
            true => at.find_v6(env, line.exit(), row, buf.data())?,
        };
        let usage = clear_usage(env, line, row)?;
        if row.len > exit.door.mtu_bytes {
            return None;
        }
        let waits_for = pass_rates(env, Self::DIRECTION, line, row, at)?;
        let (cut, keep) = (usize::from(row.offset), usize::from(row.len));
        let frame = buf.replace_front(cut, usize::from(ETHERNET_LEN), keep)?;
        let frame_len = frame.len();
        let (header, packet) = frame.split_first_chunk_mut::<{ ETHERNET_LEN as usize }>()?;
        let ether_type = if V6 { EtherType::IPV6 } else { EtherType::IPV4 };
        header[..6].copy_from_slice(&exit.mac.0);
        header[6..12].copy_from_slice(&exit.door.mac.0);
        header[12..].copy_from_slice(&ether_type.0.to_be_bytes());
        age::<V6>(packet);
        count(env, Self::DIRECTION, line, usage, row);
        Some(Left { door: exit.door, frame_len, waits_for })
    }
}

impl Course for Downlink {
    const DIRECTION: Direction = Direction::Downlink;

    #[inline]
    fn session(view: &View<'_>, row: &Row) -> SessionIndex {
        match row.is_v6 {
            false => view.session_of_ue_v4(v4(row.key).to_bits()),
            true => view.session_of_ue_v6(row.key),
        }
    }

    #[inline]
    fn arrival(link: &UsualLink) -> Option<InterfaceId> {
        link.n6.as_ref().map(|(id, _)| *id)
    }

    /// Puts a packet into its tunnel.
    // PERF: once per packet.
    #[inline(always)]
    fn forward<'v, B: PacketBuf, const V6: bool>(
        env: &Env<'v>,
        line: &ExpressLine<'v>,
        row: &Row,
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<Left<'v>> {
        let is_fit = match V6 {
            false => line.takes_downlink_v4(at.arrival, v4(row.dst).to_bits()),
            true => line.takes_downlink_v6(at.arrival, row.dst),
        };
        if !is_fit {
            return None;
        }
        let exit = at.find(env, line.next_hop())?;
        let outer = exit.door.outer.as_ref()?;
        let usage = clear_usage(env, line, row)?;
        let (teid, dst) = line.tunnel();
        let tunnel =
            UsualTunnel { dst_mac: exit.mac, dst, tos: line.tos(), teid, marking: line.marking() };
        if tunnel.ip_len(row.len)? > exit.door.mtu_bytes {
            return None;
        }
        let waits_for = pass_rates(env, Self::DIRECTION, line, row, at)?;
        let headers_len = tunnel.headers_len();
        let frame =
            buf.replace_front(usize::from(row.offset), headers_len, usize::from(row.len))?;
        let frame_len = frame.len();
        // Neither fails: there is room for the headers, and their length fields hold the length.
        outer.emit(&tunnel, row.len, frame)?;
        age::<V6>(frame.get_mut(headers_len..)?);
        count(env, Self::DIRECTION, line, usage, row);
        Some(Left { door: exit.door, frame_len, waits_for })
    }
}

/// True when `source` is the UE's. `key` is the same as a key.
#[inline]
fn is_source<A: PartialEq>(ue: ExpressUe<A>, source: A, is_v6: bool, key: u64) -> bool {
    match ue {
        ExpressUe::Only(only) => only == source,
        ExpressUe::Any => is_forwardable(is_v6, key),
        ExpressUe::None => false,
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the key of uplink is a TEID")]
const fn teid(row: &Row) -> Teid {
    Teid(row.key as u32)
}

/// The counters of the URRs, while none stops the packet and none has anything to tell of it.
#[inline(always)]
fn clear_usage<'v>(
    env: &Env<'v>,
    line: &ExpressLine<'_>,
    row: &Row,
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
    row: &Row,
) {
    let bytes = u64::from(row.len);
    for usage in usage {
        let Some(usage) = usage else { break };
        usage.count(direction, bytes, env.now);
    }
    line.count(bytes);
}

/// Makes the user's packet one hop older; it was seen to have one left.
#[inline(always)]
fn age<const V6: bool>(packet: &mut [u8]) {
    let _left = match V6 {
        true => ipv6::decrement_hop_limit(packet),
        false => ipv4::decrement_ttl(packet),
    };
}

impl<'v> At<'v, '_> {
    /// Finds the way towards an IPv4 address by the routes of data networks.
    // PERF: once per packet.
    #[inline(always)]
    fn find_v4(&mut self, env: &Env<'v>, within: InterfaceSet, dst: Ipv4Addr) -> Option<Exit<'v>> {
        let block = (env.view.network_block(dst), within);
        if self.block == block
            && let Some(exit) = self.exit
        {
            return Some(exit);
        }
        self.find_by_route(env, within, block.0, IpAddr::V4(dst))
    }

    /// The same for an IPv6 packet in `frame`.
    fn find_v6(
        &mut self,
        env: &Env<'v>,
        within: InterfaceSet,
        row: &Row,
        frame: &[u8],
    ) -> Option<Exit<'v>> {
        let octets = frame.get(usize::from(row.offset) + 24..)?.first_chunk()?;
        self.find_by_route(env, within, 0, IpAddr::V6(Ipv6Addr::from_octets(*octets)))
    }

    /// Looks the way to `dst` up. Other destinations of `block` share it, unless that is zero.
    #[cold]
    fn find_by_route(
        &mut self,
        env: &Env<'v>,
        within: InterfaceSet,
        block: u8,
        dst: IpAddr,
    ) -> Option<Exit<'v>> {
        let exit = self.find(env, env.view.station_towards(within, dst)?)?;
        self.block = if block == 0 { NO_BLOCK } else { (block, within) };
        Some(exit)
    }

    /// The way to `station`, if its link-layer address is known and fresh.
    // PERF: once per packet of downlink.
    #[inline(always)]
    fn find(&mut self, env: &Env<'v>, station: NextHopIndex) -> Option<Exit<'v>> {
        if let Some(exit) = self.exit
            && exit.station == station
        {
            return Some(exit);
        }
        self.block = NO_BLOCK;
        let (interface, mac) = env.view.exit(station)?;
        self.exit = Some(Exit { station, mac, door: env.interfaces.door(interface)? });
        self.exit
    }
}
