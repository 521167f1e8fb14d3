//! Before all stages: the usual packet, which needs nothing but its session's express.
//!
//! All stages in one: what is recognized by its layout, finds its session, and meets the conditions
//! of the session's [`Express`] leaves at once. Everything else stays in the burst and takes the
//! stages, which alone drop, answer, buffer and tell. Packets of a session that left one packet to
//! the stages follow it there, so that order within a burst is kept.

use core::net::{IpAddr, Ipv4Addr};

use adit_pktio::{Burst, PacketBuf, PacketIo, RxChecksum};
use adit_rules::{DropReason, Express, ExpressWay};
use adit_tables::Interface;
use adit_types::limits::BURST_MAX;
use adit_types::{
    Direction, InterfaceId, InterfaceRole, InterfaceSet, MacAddr, PortId, Qfi, SessionIndex, Teid,
    VlanId,
};
use adit_wire::{EtherType, Glance, UsualIpv4, UsualOuter, glance, ipv4, usual_g_pdu, usual_ipv4};

use crate::columns::Column;
use crate::interfaces::UsualLink;
use crate::outbound::Outbound;
use crate::reason::is_forwardable_v4;
use crate::stage::egress::{Env, prepend_link};
use crate::tally::Tally;

/// Octets of an Ethernet header without a tag.
const ETHERNET_LEN: u8 = 14;

/// A packet that a session is looked up for.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Its place in the burst.
    place: u8,
    /// What was recognized; without it the packet takes the stages, and its session's with it.
    usual: Option<Usual>,
}

/// What was recognized of one packet.
#[derive(Debug, Clone, Copy)]
struct Usual {
    /// Where the user's packet begins. Unit: octets.
    offset: u8,
    qfi: Option<Qfi>,
    ip: UsualIpv4,
}

/// The packets of one direction, with what their sessions are found by.
struct Rows<K> {
    keys: Column<K>,
    rows: Column<Row>,
}

impl<K> Rows<K> {
    fn new() -> Self {
        Self { keys: Column::new(), rows: Column::new() }
    }

    #[inline]
    fn push(&mut self, key: K, place: u8, usual: Option<Usual>) {
        self.keys.push(key);
        self.rows.push(Row { place, usual });
    }
}

/// The packets of a burst.
struct Recognized {
    uplink: Rows<Teid>,
    downlink: Rows<u32>,
    /// Packets that are usual.
    usual: usize,
}

impl Recognized {
    fn new() -> Self {
        Self { uplink: Rows::new(), downlink: Rows::new(), usual: 0 }
    }
}

/// The packets of a burst while some of them leave.
struct Places<B> {
    /// By place; empty where a packet left.
    bufs: [Option<B>; BURST_MAX],
    /// Sessions that left a packet to the stages.
    left: Column<SessionIndex>,
}

/// Where a packet leaves.
struct Exit<'v> {
    interface: &'v Interface,
    mac: MacAddr,
}

/// Frames that leave through one interface in one direction.
struct Leaving<B> {
    frames: Burst<B>,
    exit: Option<(PortId, InterfaceId)>,
    bytes: usize,
}

/// Forwards the usual packets of a burst; the others are left in `rx`, in their order.
///
/// Shape:   takes from `rx` what it forwards. n ≤ BURST_MAX.
/// Cost:    one line each of the key table, the express, the session's counters, each URR's usage
///          and the next hop; each is asked for a pass ahead. No allocation, no clock.
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
    let mut recognized = Recognized::new();
    for (place, buf) in (0_u8..).zip(rx.iter()) {
        if !recognize(link, place, buf, &mut recognized) {
            return;
        }
    }
    let Recognized { uplink, downlink, usual } = recognized;
    if usual == 0 {
        return;
    }
    let mut places = Places { bufs: [const { None }; BURST_MAX], left: Column::new() };
    for (slot, buf) in places.bufs.iter_mut().zip(rx.drain(..)) {
        *slot = Some(buf);
    }
    let mut sessions = [SessionIndex::NONE; BURST_MAX];
    if let (Some((id, _)), false) = (link.n3, uplink.rows.is_empty()) {
        let found = &mut sessions[..uplink.keys.len()];
        env.view.lookup_teids(&uplink.keys, found);
        run::<Io, Uplink>(env, io, id, &uplink, found, &mut places, out);
    }
    if let (Some(id), false) = (link.n6, downlink.rows.is_empty()) {
        let found = &mut sessions[..downlink.keys.len()];
        env.view.lookup_ues_v4(&downlink.keys, found);
        run::<Io, Downlink>(env, io, id, &downlink, found, &mut places, out);
    }
    rx.extend(places.bufs.into_iter().flatten());
}

/// Tells what one packet is; false when only the stages can tell which session it belongs to.
#[inline]
fn recognize<B: PacketBuf>(
    link: &UsualLink,
    place: u8,
    buf: &B,
    recognized: &mut Recognized,
) -> bool {
    let verify = buf.rx_checksum() == RxChecksum::Unknown;
    let is_sound = buf.is_contiguous() && buf.rx_checksum() != RxChecksum::Bad;
    let frame = buf.data();
    let tunnels = link.n3.map(|(_, addr)| addr);
    if let Some(packet) =
        tunnels.filter(|_| is_sound).and_then(|addr| usual_g_pdu(frame, link.mac, addr, verify))
    {
        let usual = Usual { offset: packet.inner_offset, qfi: packet.qfi, ip: packet.inner };
        recognized.usual += 1;
        recognized.uplink.push(packet.teid, place, Some(usual));
        return true;
    }
    if let Some(ip) = link.n6.filter(|_| is_sound).and_then(|_| usual_ipv4(frame, link.mac, verify))
        && !link.own.contains(&ip.dst)
    {
        recognized.usual += 1;
        let usual = Usual { offset: ETHERNET_LEN, qfi: None, ip };
        recognized.downlink.push(ip.dst.to_bits(), place, Some(usual));
        return true;
    }
    match glance(frame, tunnels) {
        Glance::Nothing => {}
        Glance::Tunneled(teid) => recognized.uplink.push(teid, place, None),
        Glance::Plain(dst) => recognized.downlink.push(dst.to_bits(), place, None),
        Glance::Unknown => return false,
    }
    true
}

/// One direction; chosen outside the packet loops.
trait Course {
    const DIRECTION: Direction;
    type Key: Copy;

    /// The UE's address of a packet.
    fn ue(ip: &UsualIpv4) -> Ipv4Addr;

    /// True when the packet that was found by `key` came in the tunnel that the express is about.
    fn is_tunnel(key: Self::Key, way: &ExpressWay) -> bool;
}

struct Uplink;
struct Downlink;

impl Course for Uplink {
    const DIRECTION: Direction = Direction::Uplink;
    type Key = Teid;

    #[inline]
    fn ue(ip: &UsualIpv4) -> Ipv4Addr {
        ip.src
    }

    #[inline]
    fn is_tunnel(key: Teid, way: &ExpressWay) -> bool {
        matches!(way, ExpressWay::Uplink { teid, .. } if *teid == key)
    }
}

impl Course for Downlink {
    const DIRECTION: Direction = Direction::Downlink;
    type Key = u32;

    #[inline]
    fn ue(ip: &UsualIpv4) -> Ipv4Addr {
        ip.dst
    }

    #[inline]
    fn is_tunnel(_: u32, way: &ExpressWay) -> bool {
        matches!(way, ExpressWay::Downlink { .. })
    }
}

fn run<Io: PacketIo, C: Course>(
    env: &Env<'_>,
    io: &mut Io,
    arrived_on: InterfaceId,
    lane: &Rows<C::Key>,
    sessions: &[SessionIndex],
    places: &mut Places<Io::Buf>,
    out: &mut Outbound<Io::Buf>,
) {
    let view = &env.view;
    for session in sessions {
        view.prefetch_express(*session, C::DIRECTION);
        view.session_counters().prefetch(*session);
    }
    for session in sessions {
        view.prefetch_express_needs(*session, C::DIRECTION);
    }
    let mut leaving = Leaving { frames: Burst::new(), exit: None, bytes: 0 };
    let mut received_bytes = 0;
    let mut received = 0;
    let Rows { keys, rows } = lane;
    let Places { bufs, left } = places;
    for ((row, key), session) in rows.iter().zip(keys).zip(sessions) {
        let slot = &mut bufs[usize::from(row.place)];
        let is_free =
            (left.is_empty() || !left.contains(session)) && !out.buffering.waits(*session);
        let taken = row.usual.filter(|_| is_free).zip(slot.as_mut()).and_then(|(usual, buf)| {
            let express = view.express(*session, C::DIRECTION)?;
            // What came with this express, an End Marker above all, is carried out by the stages.
            if out.has_commands() {
                return None;
            }
            let len = buf.data().len();
            let is_fit = C::is_tunnel(*key, &express.way)
                && express.arrival.intersects(InterfaceSet::only(arrived_on));
            let exit = is_fit.then(|| forward::<_, C>(env, *session, &usual, &express, buf))?;
            Some((exit?, len))
        });
        let Some((exit, len)) = taken else {
            // As many are pushed as there are packets.
            left.push(*session);
            continue;
        };
        received += 1;
        received_bytes += len;
        if let Some(buf) = slot.take() {
            leave(io, &exit, buf, C::DIRECTION, &mut leaving, &mut out.tally);
        }
    }
    out.tally.receive_express(arrived_on, received, received_bytes);
    transmit(io, C::DIRECTION, &mut leaving, &mut out.tally);
}

/// Rewrites one packet and counts it for its session and URRs, or leaves it as it is.
#[inline]
fn forward<'v, B: PacketBuf, C: Course>(
    env: &Env<'v>,
    session: SessionIndex,
    usual: &Usual,
    express: &Express,
    buf: &mut B,
) -> Option<Exit<'v>> {
    let ip = &usual.ip;
    let bytes = u64::from(ip.total_len);
    let usage = env.view.usage();
    let is_fit = express.ue.is_none_or(|ue| ue == C::ue(ip))
        && ip.ttl > 1
        && is_forwardable_v4(ip.src)
        && is_forwardable_v4(ip.dst)
        && express.urrs.iter().all(|urr| usage.is_clear(urr, bytes));
    if !is_fit {
        return None;
    }
    let (interface, mac) = match express.way {
        ExpressWay::Uplink { qfis, exit, .. } => {
            let is_flow = usual.qfi.map_or(qfis == u64::MAX, |qfi| qfis >> qfi.value() & 1 != 0);
            if !is_flow {
                return None;
            }
            env.view.exit_towards(InterfaceRole::N6, exit, IpAddr::V4(ip.dst))?
        }
        ExpressWay::Downlink { next_hop, .. } => env.view.exit(next_hop)?,
    };
    let exit = Exit { interface: env.interfaces.get(interface)?, mac };
    rewrite(usual, express, &exit, buf)?;
    for urr in &express.urrs {
        usage.add_clear(urr, C::DIRECTION, bytes, env.now);
    }
    env.view.session_counters().add(session, C::DIRECTION, 1, bytes);
    Some(exit)
}

/// Puts the headers of the way in front of the user's packet. Checks before it changes anything.
#[inline]
fn rewrite<B: PacketBuf>(
    usual: &Usual,
    express: &Express,
    exit: &Exit<'_>,
    buf: &mut B,
) -> Option<()> {
    let interface = exit.interface;
    let inner_len = usual.ip.total_len;
    match express.way {
        ExpressWay::Uplink { .. } => {
            if inner_len > interface.mtu_bytes {
                return None;
            }
            strip(buf, usual.offset, inner_len)?;
            prepend_link(buf, interface, exit.mac, EtherType::IPV4).ok()
        }
        ExpressWay::Downlink { teid, addr, tos, marking, .. } => {
            let outer = UsualOuter {
                dst_mac: exit.mac,
                src_mac: interface.mac,
                src: interface.v4?.0,
                dst: addr,
                tos,
                teid,
                marking,
                inner_len,
            };
            let is_usual = interface.vlan == VlanId::UNTAGGED;
            if !is_usual || outer.ip_len()? > interface.mtu_bytes {
                return None;
            }
            cut_padding(buf, usual.offset, inner_len)?;
            // The link header makes room for a part of the new ones. Without headroom for the rest
            // the packet is as it came.
            let more = outer.headers_len().checked_sub(usize::from(usual.offset))?;
            let frame = buf.prepend(more)?;
            ipv4::decrement_ttl(frame.get_mut(outer.headers_len()..)?)?;
            outer.emit(frame)
        }
    }
}

/// Cuts off what is behind the user's packet, which changes nothing for whoever looks at it again.
#[inline]
fn cut_padding<B: PacketBuf>(buf: &mut B, offset: u8, len: u16) -> Option<()> {
    buf.truncate(usize::from(offset) + usize::from(len)).then_some(())
}

/// Leaves the user's packet alone, one hop older.
#[inline]
fn strip<B: PacketBuf>(buf: &mut B, offset: u8, len: u16) -> Option<()> {
    cut_padding(buf, offset, len)?;
    if !buf.trim_front(usize::from(offset)) {
        return None;
    }
    ipv4::decrement_ttl(buf.data_mut()).map(|_| ())
}

#[inline]
fn leave<Io: PacketIo>(
    io: &mut Io,
    exit: &Exit<'_>,
    buf: Io::Buf,
    direction: Direction,
    leaving: &mut Leaving<Io::Buf>,
    tally: &mut Tally,
) {
    let exit = (exit.interface.port, exit.interface.id);
    if leaving.exit != Some(exit) {
        transmit(io, direction, leaving, tally);
        leaving.exit = Some(exit);
    }
    leaving.bytes += buf.data().len();
    leaving.frames.push(buf);
}

/// Hands the frames to their port; what it does not take is dropped.
fn transmit<Io: PacketIo>(
    io: &mut Io,
    direction: Direction,
    leaving: &mut Leaving<Io::Buf>,
    tally: &mut Tally,
) {
    let Some((port, interface)) = leaving.exit.take() else { return };
    let queued = leaving.frames.len();
    io.tx_burst(port, &mut leaving.frames);
    let mut bytes = core::mem::take(&mut leaving.bytes);
    for refused in &leaving.frames {
        bytes = bytes.saturating_sub(refused.data().len());
        tally.drop(DropReason::TxQueueFull);
    }
    let sent = queued.saturating_sub(leaving.frames.len());
    tally.transmit_many(interface, direction, sent, bytes);
    leaving.frames.clear();
}
