//! Before all stages: the usual packet, which needs nothing but its session's express.
//!
//! All stages in one: what is recognized by its layout, finds its session, and meets the conditions
//! of the session's express (`adit_rules::Express`) leaves at once. Everything else stays in the
//! burst and takes the stages, which alone drop, answer, buffer and tell. Packets of a session that
//! left one packet to the stages follow it there, so that order within a burst is kept.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use adit_pktio::{Burst, PacketBuf, PacketIo, RxChecksum};
use adit_rules::{DropReason, WorkerCommand};
use adit_tables::{ExpressLine, View};
use adit_types::{
    Direction, InterfaceId, MacAddr, NextHopIndex, PortId, Qfi, SessionIndex, Teid,
    is_forwardable_v4, is_forwardable_v6,
};
use adit_wire::{
    EtherType, Glance, UsualGPdu, UsualIp, UsualTunnel, glance, ipv4, ipv6, usual_g_pdu, usual_ip,
};

use rtrb::Consumer;

use crate::columns::Column;
use crate::handoff::Handoff;
use crate::interfaces::{Door, UsualLink};
use crate::outbound::Outbound;
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
    /// What was recognized; without it the packet takes the stages, and its session's with it.
    usual: bool,
    /// The lookup key is that of an IPv6 UE.
    is_v6: bool,
    /// QoS flow of the container in uplink.
    qfi: Option<Qfi>,
    /// Where the user's packet begins. Unit: octets.
    offset: u8,
    /// Length of the user's packet. Unit: octets.
    len: u16,
    /// TEID in uplink, key of the UE's address in downlink.
    key: u64,
    /// Source of the user's packet in uplink, as a key.
    src: u64,
    /// Destination of the user's packet, as a key.
    dst: u64,
}

/// The key of a frame that no session has.
const NO_KEY: u64 = u64::MAX;

/// One direction; chosen outside the packet loops.
trait Course {
    const DIRECTION: Direction;

    /// Asks for the line where the session of a packet is found.
    fn prefetch(view: &View<'_>, row: &Row);

    /// The session of a packet.
    fn session(view: &View<'_>, row: &Row) -> SessionIndex;

    /// The interface that packets arrive on.
    fn arrival(link: &UsualLink) -> Option<InterfaceId>;

    /// Rewrites one packet and counts it for its session and URRs, or leaves it as it is.
    fn forward<'v, B: PacketBuf>(
        env: &Env<'v>,
        session: SessionIndex,
        row: &Row,
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<&'v Door>;
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

/// What packets of one direction of a burst share.
struct At<'v, 'c> {
    /// The interface that they arrived on.
    arrival: InterfaceId,
    /// What the control thread asked for.
    commands: &'c Consumer<WorkerCommand>,
    /// The last exit that was looked up: most packets share it.
    exit: Option<Exit<'v>>,
}

/// Frames that leave through one interface.
struct Leaving<B> {
    frames: Burst<B>,
    door: Option<(PortId, InterfaceId)>,
    bytes: usize,
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
        if !recognize(link, buf, &mut rows) {
            return;
        }
        let Some(row) = rows.last() else { return };
        usual += usize::from(row.usual);
        uplink += usize::from(row.direction == Direction::Uplink);
    }
    if usual == 0 {
        return;
    }
    if uplink == rows.len() {
        run::<Io, Uplink>(env, io, (port, link), &mut rows, rx, out);
    } else if uplink == 0 {
        run::<Io, Downlink>(env, io, (port, link), &mut rows, rx, out);
    } else {
        let mut downlink = Burst::new();
        let mut downlink_rows = Column::new();
        let mut tunneled = Burst::new();
        let mut tunneled_rows = Column::new();
        for (buf, row) in rx.drain(..).zip(&rows) {
            match row.direction {
                Direction::Uplink => {
                    tunneled.push(buf);
                    tunneled_rows.push(*row);
                }
                Direction::Downlink => {
                    downlink.push(buf);
                    downlink_rows.push(*row);
                }
            }
        }
        run::<Io, Uplink>(env, io, (port, link), &mut tunneled_rows, &mut tunneled, out);
        run::<Io, Downlink>(env, io, (port, link), &mut downlink_rows, &mut downlink, out);
        rx.extend(tunneled);
        rx.extend(downlink);
    }
}

/// Tells what one packet is; false when only the stages can tell which session it belongs to.
// PERF: a call would pass what was recognized through memory.
#[inline(always)]
fn recognize<B: PacketBuf>(link: &UsualLink, buf: &B, rows: &mut Column<Row>) -> bool {
    let checksum = buf.rx_checksum();
    let verify = checksum == RxChecksum::Unknown;
    let frame = buf.data();
    if buf.is_contiguous() && checksum != RxChecksum::Bad {
        if let Some(n3) = &link.n3
            && let Some(UsualGPdu { teid, qfi, inner_offset, inner }) =
                usual_g_pdu(frame, &n3.pattern, verify)
            && is_forwardable(&inner)
        {
            rows.push(Row {
                direction: Direction::Uplink,
                usual: true,
                is_v6: inner.is_v6,
                qfi,
                offset: inner_offset,
                len: inner.total_len,
                key: u64::from(teid.0),
                src: inner.src,
                dst: inner.dst,
            });
            return true;
        }
        if let Some((_, pattern)) = &link.n6
            && let Some(ip) = usual_ip(frame, pattern, verify)
            && is_forwardable(&ip)
            && !link.is_own(&ip)
        {
            rows.push(Row {
                direction: Direction::Downlink,
                usual: true,
                is_v6: ip.is_v6,
                qfi: None,
                offset: ETHERNET_LEN,
                len: ip.total_len,
                key: ip.dst,
                src: ip.src,
                dst: ip.dst,
            });
            return true;
        }
    }
    let Some(row) = stranger(frame, link.n3.as_ref().map(|n3| n3.addr)) else { return false };
    rows.push(row);
    true
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
    Some(Row { direction, usual: false, is_v6, qfi: None, offset: 0, len: 0, key, src: 0, dst: 0 })
}

/// True when neither address keeps a router from forwarding the packet. Prefixes that hold the
/// unspecified and the loopback address count as such.
#[inline]
fn is_forwardable(ip: &UsualIp) -> bool {
    if ip.is_v6 {
        let whole = |key: u64| Ipv6Addr::from_bits(u128::from(key) << 64);
        return is_forwardable_v6(whole(ip.src)) && is_forwardable_v6(whole(ip.dst));
    }
    is_forwardable_v4(v4(ip.src)) && is_forwardable_v4(v4(ip.dst))
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
    for row in rows.iter() {
        C::prefetch(view, row);
    }
    let Outbound { commands, buffering, handoff, tally, .. } = out;
    let is_alone = handoff.is_alone();
    let mut sessions = Column::new();
    for row in rows.iter() {
        let session = C::session(view, row);
        if is_alone || handoff.is_ours(session) {
            view.prefetch_express(session, C::DIRECTION);
        }
        sessions.push(session);
    }
    if !is_alone {
        steer(handoff, (port, arrival), rows, &mut sessions, rx, tally);
    }
    for session in &sessions {
        view.prefetch_express_needs(*session, C::DIRECTION);
    }
    let mut at = At { arrival, commands, exit: None };
    let mut leaving = Leaving::new();
    let (mut pkts, mut bytes) = (0, 0);
    let mut staying = Burst::<Io::Buf>::new();
    let mut left = Column::<SessionIndex>::new();
    for ((mut buf, row), session) in rx.drain(..).zip(&*rows).zip(&sessions) {
        let len = buf.data().len();
        let may_leave =
            row.usual && (left.is_empty() || !left.contains(session)) && !buffering.waits(*session);
        let door = match may_leave {
            true => C::forward(env, *session, row, &mut at, &mut buf),
            false => None,
        };
        let Some(door) = door else {
            // As many are pushed as there are packets.
            left.push(*session);
            staying.push(buf);
            continue;
        };
        pkts += 1;
        bytes += len;
        leaving.push::<Io, C>(io, door, buf, tally);
    }
    tally.receive_express(arrival, pkts, bytes);
    leaving.transmit::<Io, C>(io, tally);
    rx.extend(staying);
}

/// Hands over the packets whose sessions another worker owns, before anything of these is looked at.
fn steer<B: PacketBuf>(
    handoff: &mut Handoff<B>,
    (port, arrival): (PortId, InterfaceId),
    rows: &mut Column<Row>,
    sessions: &mut Column<SessionIndex>,
    rx: &mut Burst<B>,
    tally: &mut Tally,
) {
    if sessions.iter().all(|session| handoff.is_ours(*session)) {
        return;
    }
    let (all_rows, all_sessions) = (core::mem::take(rows), core::mem::take(sessions));
    let packets = core::mem::take(rx).into_iter().zip(all_rows).zip(all_sessions);
    for ((buf, row), session) in packets {
        if handoff.is_ours(session) {
            rows.push(row);
            sessions.push(session);
            rx.push(buf);
        } else {
            tally.receive(buf.data().len());
            tally.receive_on(arrival, buf.data().len());
            handoff.give(session, port, buf, tally);
        }
    }
}

impl Course for Uplink {
    const DIRECTION: Direction = Direction::Uplink;

    #[inline]
    fn prefetch(view: &View<'_>, row: &Row) {
        view.prefetch_teid(teid(row));
    }

    #[inline]
    fn session(view: &View<'_>, row: &Row) -> SessionIndex {
        view.session_of_teid(teid(row))
    }

    #[inline]
    fn arrival(link: &UsualLink) -> Option<InterfaceId> {
        link.n3.as_ref().map(|n3| n3.id)
    }

    /// Takes a packet out of its tunnel.
    #[inline]
    fn forward<'v, B: PacketBuf>(
        env: &Env<'v>,
        session: SessionIndex,
        row: &Row,
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<&'v Door> {
        let line = at.express(env, session, Self::DIRECTION)?;
        if !line.takes_uplink(at.arrival, teid(row), row.qfi, row.is_v6, row.src) {
            return None;
        }
        let station = match row.is_v6 {
            false => env.view.station_towards(line.exit(), IpAddr::V4(v4(row.dst)))?,
            true => env.view.station_towards(line.exit(), destination(row, buf.data())?)?,
        };
        let exit = at.exit(env, station)?;
        if row.len > exit.door.mtu_bytes || !is_clear(env, &line, row) {
            return None;
        }
        let (cut, keep) = (usize::from(row.offset), usize::from(row.len));
        let frame = buf.replace_front(cut, usize::from(ETHERNET_LEN), keep)?;
        let (header, packet) = frame.split_first_chunk_mut::<{ ETHERNET_LEN as usize }>()?;
        let ether_type = if row.is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        header[..6].copy_from_slice(&exit.mac.0);
        header[6..12].copy_from_slice(&exit.door.mac.0);
        header[12..].copy_from_slice(&ether_type.0.to_be_bytes());
        age(row, packet);
        count(env, session, Self::DIRECTION, &line, row);
        Some(exit.door)
    }
}

impl Course for Downlink {
    const DIRECTION: Direction = Direction::Downlink;

    #[inline]
    fn prefetch(view: &View<'_>, row: &Row) {
        match row.is_v6 {
            false => view.prefetch_ue_v4(v4(row.key).to_bits()),
            true => view.prefetch_ue_v6(row.key),
        }
    }

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
    #[inline]
    fn forward<'v, B: PacketBuf>(
        env: &Env<'v>,
        session: SessionIndex,
        row: &Row,
        at: &mut At<'v, '_>,
        buf: &mut B,
    ) -> Option<&'v Door> {
        let line = at.express(env, session, Self::DIRECTION)?;
        if !line.takes_downlink(at.arrival, row.is_v6, row.dst) {
            return None;
        }
        let exit = at.exit(env, line.next_hop())?;
        let outer = exit.door.outer.as_ref()?;
        let (teid, dst) = line.tunnel();
        let tunnel =
            UsualTunnel { dst_mac: exit.mac, dst, tos: line.tos(), teid, marking: line.marking() };
        let is_small = tunnel.ip_len(row.len)? <= exit.door.mtu_bytes;
        if !is_small || !is_clear(env, &line, row) {
            return None;
        }
        let headers_len = tunnel.headers_len();
        let frame =
            buf.replace_front(usize::from(row.offset), headers_len, usize::from(row.len))?;
        // Neither fails: there is room for the headers, and their length fields hold the length.
        outer.emit(&tunnel, row.len, frame)?;
        age(row, frame.get_mut(headers_len..)?);
        count(env, session, Self::DIRECTION, &line, row);
        Some(exit.door)
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the key of uplink is a TEID")]
const fn teid(row: &Row) -> Teid {
    Teid(row.key as u32)
}

/// The destination of an IPv6 packet in `frame`.
#[cold]
fn destination(row: &Row, frame: &[u8]) -> Option<IpAddr> {
    let octets = frame.get(usize::from(row.offset) + 24..)?.first_chunk()?;
    Some(IpAddr::V6(Ipv6Addr::from_octets(*octets)))
}

/// True while no URR stops the packet and none has anything to tell of it.
#[inline]
fn is_clear(env: &Env<'_>, line: &ExpressLine, row: &Row) -> bool {
    let usage = env.view.usage();
    line.urrs().all(|urr| usage.is_clear(&urr, u64::from(row.len)))
}

/// Counts a packet for its URRs and its session.
#[inline]
fn count(
    env: &Env<'_>,
    session: SessionIndex,
    direction: Direction,
    line: &ExpressLine,
    row: &Row,
) {
    let bytes = u64::from(row.len);
    for urr in line.urrs() {
        env.view.usage().add_clear(&urr, direction, bytes, env.now);
    }
    env.view.count_session(session, direction, 1, bytes);
}

/// Makes the user's packet one hop older; it was seen to have one left.
#[inline]
fn age(row: &Row, packet: &mut [u8]) {
    let _left = match row.is_v6 {
        true => ipv6::decrement_hop_limit(packet),
        false => ipv4::decrement_ttl(packet),
    };
}

impl<'v> At<'v, '_> {
    /// The express of a session. While there is a command there is none: what came with the
    /// express, an End Marker above all, is carried out by the stages.
    #[inline]
    fn express(
        &self,
        env: &Env<'v>,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<ExpressLine> {
        let line = env.view.express(session, direction)?;
        self.commands.is_empty().then_some(line)
    }

    /// The way to `station`, if its link-layer address is known and fresh.
    #[inline]
    fn exit(&mut self, env: &Env<'v>, station: NextHopIndex) -> Option<Exit<'v>> {
        if let Some(exit) = self.exit.filter(|exit| exit.station == station) {
            return Some(exit);
        }
        let (interface, mac) = env.view.exit(station)?;
        self.exit = Some(Exit { station, mac, door: env.interfaces.door(interface)? });
        self.exit
    }
}

impl<B: PacketBuf> Leaving<B> {
    fn new() -> Self {
        Self { frames: Burst::new(), door: None, bytes: 0 }
    }

    /// Adds a frame; those for another interface are handed over before.
    #[inline]
    fn push<Io: PacketIo<Buf = B>, C: Course>(
        &mut self,
        io: &mut Io,
        door: &Door,
        buf: B,
        tally: &mut Tally,
    ) {
        let door = Some((door.port, door.id));
        if self.door != door {
            self.transmit::<Io, C>(io, tally);
            self.door = door;
        }
        self.bytes += buf.data().len();
        self.frames.push(buf);
    }

    /// Hands the frames to their port; what it does not take is dropped.
    fn transmit<Io: PacketIo<Buf = B>, C: Course>(&mut self, io: &mut Io, tally: &mut Tally) {
        let Some((port, interface)) = self.door.take() else { return };
        let queued = self.frames.len();
        io.tx_burst(port, &mut self.frames);
        let mut bytes = core::mem::take(&mut self.bytes);
        for refused in &self.frames {
            bytes = bytes.saturating_sub(refused.data().len());
            tally.drop(DropReason::TxQueueFull);
        }
        let sent = queued.saturating_sub(self.frames.len());
        tally.transmit_many(interface, C::DIRECTION, sent, bytes);
        self.frames.clear();
    }
}
