//! The record that a packet carries from one stage to the next if an event scheduler is between
//! them.
//!
//! A record is in front of the packet, in the headroom that the outer header will need later, and
//! the packet's mark names the record's kind. Before the second stage the record names rules by
//! their positions; they are valid while the session's rules have the record's generation. After
//! the second stage the record has every value that later stages write into the packet. They do
//! not read the session's rules, which may change or be removed meanwhile.

use adit_pktio::PacketBuf;
use adit_rules::{DeltaId, DropReason, GtpuTunnel, HeaderCreation};
use adit_tables::TablesView;
use adit_types::{Direction, InterfaceId, InterfaceSet, MacAddr, Qfi, SessionIndex, Teid};
use adit_wire::encapsulate::{ServiceClass, gtpu_len};
use adit_wire::ipv4::Ipv4Header;
use adit_wire::ipv6::Ipv6Header;
use adit_wire::udp::UdpHeader;
use adit_wire::{PduSessionContainer, PduType};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::columns::{Matched, OuterHeader, PacketArrival};
use crate::flows::FLOWS_MAX;

/// Length of a record. Unit: octets.
pub(crate) const RECORD_LEN: usize = 40;

/// The state of a packet, in the top bits of its mark. Below are the flow that the packet had in
/// the Rx queue, and in the lowest bits its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// No record: a packet as it was received, or a frame that leaves without regard to order.
    None,
    /// The packet has a record of the first stage in front.
    Classified,
    /// The packet has a record of the second or third stage in front.
    Planned,
    /// The packet is a complete frame of a flow.
    Complete,
}

const KIND_SHIFT: u32 = 30;
const RX_SHIFT: u32 = 14;
const FLOW_MASK: u32 = (1 << RX_SHIFT) - 1;
const RX_MASK: u32 = (1 << (KIND_SHIFT - RX_SHIFT)) - 1;

const _: () = assert!(FLOWS_MAX <= 1 << RX_SHIFT);

impl Mark {
    /// Returns the state in the mark of a packet.
    #[inline]
    pub(crate) fn of<B: PacketBuf>(buf: &B) -> Self {
        match buf.mark() >> KIND_SHIFT {
            0 => Self::None,
            1 => Self::Classified,
            2 => Self::Planned,
            _ => Self::Complete,
        }
    }

    /// Writes this state and `flow` into the mark of a packet.
    #[inline]
    pub(crate) fn set<B: PacketBuf>(self, buf: &mut B, flow: u32) {
        buf.set_mark((self as u32) << KIND_SHIFT | flow & FLOW_MASK);
    }
}

/// Returns the flow in the mark of a packet.
#[inline]
pub(crate) fn flow_of_mark<B: PacketBuf>(buf: &B) -> u32 {
    buf.mark() & FLOW_MASK
}

/// Marks a packet that leaves the Rx queue: `flow` is its flow from now on, `rx_flow` the one that
/// it had in that queue.
#[inline]
pub(crate) fn mark_received<B: PacketBuf>(buf: &mut B, flow: u32, rx_flow: u32) {
    buf.set_mark(((rx_flow + 1) & RX_MASK) << RX_SHIFT | flow & FLOW_MASK);
}

/// Returns the flow that a packet had in the Rx queue, or `None` if it did not pass that queue.
#[inline]
pub(crate) fn rx_flow_of_mark<B: PacketBuf>(buf: &B) -> Option<u32> {
    (buf.mark() >> RX_SHIFT & RX_MASK).checked_sub(1)
}

/// Writes the fields of a record one after the other.
struct RecordWriter {
    octets: [u8; RECORD_LEN],
    at: usize,
}

impl RecordWriter {
    #[inline(always)]
    // PERF (adit-bench models): inlined, so that `at` is a constant in every call.
    fn new() -> Self {
        Self { octets: [0; RECORD_LEN], at: 0 }
    }

    #[inline(always)]
    // PERF (adit-bench models): inlined, so that `at` is a constant in every call.
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        if let Some(room) = self.octets.get_mut(self.at..self.at + N) {
            room.copy_from_slice(&field);
        }
        self.at += N;
    }

    /// Writes the record in front of the packet.
    ///
    /// # Errors
    /// `HeadroomShort` if the headroom is too short for the record.
    #[inline(always)]
    // PERF (adit-bench models): inlined, so that `at` is a constant in every call.
    fn attach<B: PacketBuf>(self, buf: &mut B) -> Result<(), DropReason> {
        let front = buf.prepend(RECORD_LEN).and_then(|data| data.first_chunk_mut());
        *front.ok_or(DropReason::HeadroomShort)? = self.octets;
        Ok(())
    }
}

/// Reads the fields of a record one after the other.
struct RecordReader<'r> {
    octets: &'r [u8; RECORD_LEN],
    at: usize,
}

impl<'r> RecordReader<'r> {
    #[inline(always)]
    // PERF (adit-bench models): inlined, so that `at` is a constant in every call.
    fn new<B: PacketBuf>(buf: &'r B) -> Option<Self> {
        Some(Self { octets: buf.data().first_chunk()?, at: 0 })
    }

    #[inline(always)]
    // PERF (adit-bench models): inlined, so that `at` is a constant in every call.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = self.octets.get(self.at..).and_then(|rest| rest.first_chunk());
        self.at += N;
        field.copied().unwrap_or([0; N])
    }
}

/// Encodes a container in three octets; the first one is zero if there is no container.
#[inline]
fn pack_container(container: Option<PduSessionContainer>) -> [u8; 3] {
    const IS_THERE: u8 = 1;
    const IS_UPLINK: u8 = 2;
    const HAS_RQI: u8 = 4;
    let Some(PduSessionContainer { pdu_type, qfi, rqi, ppi }) = container else { return [0; 3] };
    let flags = IS_THERE
        | if pdu_type == PduType::Uplink { IS_UPLINK } else { 0 }
        | if rqi { HAS_RQI } else { 0 };
    [flags, qfi.value(), ppi.map_or(0, |ppi| ppi + 1)]
}

#[inline]
fn unpack_container([flags, qfi, ppi]: [u8; 3]) -> Option<PduSessionContainer> {
    let qfi = Qfi::new(qfi).filter(|_| flags & 1 != 0)?;
    let pdu_type = if flags & 2 != 0 { PduType::Uplink } else { PduType::Downlink };
    Some(PduSessionContainer { pdu_type, qfi, rqi: flags & 4 != 0, ppi: ppi.checked_sub(1) })
}

const IS_COPIED: u8 = 1;
const IS_ON_LINK: u8 = 2;
const IS_DOWNLINK: u8 = 4;

/// Writes a record of the first stage in front of a packet of `flow`.
///
/// # Errors
/// `HeadroomShort` if the headroom is too short for the record.
#[inline]
pub(crate) fn attach_classified<B: PacketBuf>(
    buf: &mut B,
    flow: u32,
    session: SessionIndex,
    arrival: &PacketArrival,
    matched: &Matched<'_>,
) -> Result<(), DropReason> {
    let Matched { rules, pdr, far, direction, .. } = *matched;
    let at = |position: Option<usize>| position.and_then(|at| u16::try_from(at).ok());
    let pdr_at = rules.pdrs(direction).iter().position(|other| core::ptr::eq(other, pdr));
    let far_at = rules.fars.iter().position(|other| core::ptr::eq(other, far));
    let flags = if arrival.is_copied { IS_COPIED } else { 0 }
        | if arrival.is_on_link { IS_ON_LINK } else { 0 }
        | if direction == Direction::Downlink { IS_DOWNLINK } else { 0 };
    let mut record = RecordWriter::new();
    record.put(session.0.to_le_bytes());
    record.put(rules.generation.0.to_le_bytes());
    record.put(at(pdr_at).unwrap_or(u16::MAX).to_le_bytes());
    record.put(at(far_at).unwrap_or(u16::MAX).to_le_bytes());
    record.put(arrival.ip_offset.to_le_bytes());
    record.put(arrival.payload_len.to_le_bytes());
    record.put(arrival.interfaces.0.to_le_bytes());
    record.put(arrival.teid.0.to_le_bytes());
    record.put([arrival.outer as u8, arrival.outer_tos, flags]);
    record.put(pack_container(arrival.container));
    record.attach(buf)?;
    Mark::Classified.set(buf, flow);
    Ok(())
}

/// Removes a record of the first stage, and returns its contents with the rules that it names.
/// `None` if the session's rules have changed since.
#[inline]
pub(crate) fn detach_classified<'v, B: PacketBuf>(
    view: &TablesView<'v>,
    buf: &mut B,
) -> Option<(SessionIndex, PacketArrival, Matched<'v>)> {
    debug_assert!(Mark::of(buf) == Mark::Classified && buf.data().len() >= RECORD_LEN, "no record");
    let mut record = RecordReader::new(buf)?;
    let session = SessionIndex(u32::from_le_bytes(record.take()));
    let generation = DeltaId(u64::from_le_bytes(record.take()));
    let [pdr_at, far_at, ip_offset, payload_len] =
        [(); 4].map(|()| u16::from_le_bytes(record.take()));
    let interfaces = InterfaceSet(u32::from_le_bytes(record.take()));
    let teid = Teid(u32::from_le_bytes(record.take()));
    let [outer, outer_tos, flags] = record.take();
    let container = unpack_container(record.take());
    let arrival = PacketArrival {
        ip_offset,
        payload_len,
        outer: OuterHeader::of_number(outer),
        outer_tos,
        interfaces,
        teid,
        is_copied: flags & IS_COPIED != 0,
        is_on_link: flags & IS_ON_LINK != 0,
        container,
        upper: None,
    };
    let is_downlink = flags & IS_DOWNLINK != 0;
    let direction = if is_downlink { Direction::Downlink } else { Direction::Uplink };
    let is_whole = buf.trim_front(RECORD_LEN);
    let rules = view.rules(session).filter(|rules| is_whole && rules.generation == generation)?;
    let pdr = rules.pdrs(direction).get(usize::from(pdr_at))?;
    let far = rules.fars.get(usize::from(far_at))?;
    let matched = Matched { rules, pdr, far, direction, must_queue: false, is_guaranteed: false };
    Some((session, arrival, matched))
}

/// The fields of an outer header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CreatedHeader {
    /// The header to add, which also has the destination.
    pub header: HeaderCreation,
    /// Type of service or traffic class octet.
    pub tos: u8,
    /// PDU Session Container; `None` also if the header is not GTP-U.
    pub container: Option<PduSessionContainer>,
    /// Service Class Indicator; `None` also if the header is not GTP-U.
    pub service_class: Option<ServiceClass>,
}

impl CreatedHeader {
    /// Returns the header's length, without the link header. Unit: octets.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let ip = if self.header.addr().is_ipv4() { Ipv4Header::LEN } else { Ipv6Header::LEN };
        match self.header {
            HeaderCreation::Gtpu(_) => {
                ip + UdpHeader::LEN + gtpu_len(self.container, self.service_class)
            }
            HeaderCreation::Udp { .. } => ip + UdpHeader::LEN,
            HeaderCreation::Ip { .. } => ip,
        }
    }
}

/// How a packet is written and leaves: all values that the stages after the second one need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedFrame {
    /// Where the user's IP packet begins. Unit: octets.
    pub ip_offset: u16,
    /// The length of the user's IP packet. Unit: octets.
    pub total_len: u16,
    pub is_ipv4: bool,
    /// True if TTL or hop limit of the user's packet is decremented.
    pub is_routed: bool,
    pub direction: Direction,
    pub is_guaranteed: bool,
    /// The DSCP to write into the user's packet; `None` leaves it as it is.
    pub dscp: Option<u8>,
    /// The interface that the packet leaves through.
    pub interface: InterfaceId,
    /// The next hop's address.
    pub mac: MacAddr,
    pub outer: Option<CreatedHeader>,
}

const IS_IPV4: u8 = 1;
const IS_ROUTED: u8 = 2;
const IS_GUARANTEED: u8 = 8;
const HAS_DSCP: u8 = 16;

impl PlannedFrame {
    /// Writes the record in front of a packet, and keeps the flow in its mark.
    ///
    /// # Errors
    /// `HeadroomShort` if the headroom is too short for the record.
    #[inline]
    pub(crate) fn attach<B: PacketBuf>(&self, buf: &mut B) -> Result<(), DropReason> {
        let flags = if self.is_ipv4 { IS_IPV4 } else { 0 }
            | if self.is_routed { IS_ROUTED } else { 0 }
            | if self.direction == Direction::Downlink { IS_DOWNLINK } else { 0 }
            | if self.is_guaranteed { IS_GUARANTEED } else { 0 }
            | if self.dscp.is_some() { HAS_DSCP } else { 0 };
        let (kind, number, addr, tos) = match &self.outer {
            None => (0, 0, None, 0),
            Some(CreatedHeader { header, tos, .. }) => match *header {
                HeaderCreation::Gtpu(GtpuTunnel { teid, addr }) => (1, teid.0, Some(addr), *tos),
                HeaderCreation::Udp { addr, port } => (2, port.into(), Some(addr), *tos),
                HeaderCreation::Ip { addr } => (3, 0, Some(addr), *tos),
            },
        };
        let (is_v4, octets) = match addr {
            Some(IpAddr::V4(addr)) => (true, addr.to_ipv6_mapped().octets()),
            Some(IpAddr::V6(addr)) => (false, addr.octets()),
            None => (false, [0; 16]),
        };
        let mut record = RecordWriter::new();
        record.put(self.ip_offset.to_le_bytes());
        record.put(self.total_len.to_le_bytes());
        record.put([flags, self.dscp.unwrap_or(0), self.interface.0]);
        record.put(self.mac.0);
        record.put([kind, u8::from(is_v4), tos]);
        record.put(pack_container(self.outer.as_ref().and_then(|outer| outer.container)));
        record.put(u32::to_le_bytes(number));
        record.put(octets);
        record.attach(buf)?;
        let flow = flow_of_mark(buf);
        Mark::Planned.set(buf, flow);
        Ok(())
    }

    /// Removes the record in front of a packet, and returns it.
    #[inline]
    pub(crate) fn detach<B: PacketBuf>(buf: &mut B) -> Option<Self> {
        let mut record = RecordReader::new(buf)?;
        let [ip_offset, total_len] = [(); 2].map(|()| u16::from_le_bytes(record.take()));
        let [flags, dscp, interface] = record.take();
        let mac = MacAddr(record.take());
        let [kind, is_v4, tos] = record.take();
        let container = unpack_container(record.take());
        let number = u32::from_le_bytes(record.take());
        let octets: [u8; 16] = record.take();
        let addr = match (is_v4, octets.last_chunk::<4>()) {
            (1, Some(octets)) => IpAddr::V4(Ipv4Addr::from(*octets)),
            _ => IpAddr::V6(Ipv6Addr::from(octets)),
        };
        let header = match kind {
            0 => None,
            1 => Some(HeaderCreation::Gtpu(GtpuTunnel { teid: Teid(number), addr })),
            2 => Some(HeaderCreation::Udp { addr, port: u16::try_from(number).unwrap_or(0) }),
            _ => Some(HeaderCreation::Ip { addr }),
        };
        let is_downlink = flags & IS_DOWNLINK != 0;
        let planned = Self {
            ip_offset,
            total_len,
            is_ipv4: flags & IS_IPV4 != 0,
            is_routed: flags & IS_ROUTED != 0,
            direction: if is_downlink { Direction::Downlink } else { Direction::Uplink },
            is_guaranteed: flags & IS_GUARANTEED != 0,
            dscp: (flags & HAS_DSCP != 0).then_some(dscp),
            interface: InterfaceId(interface),
            mac,
            outer: header.map(|header| CreatedHeader {
                header,
                tos,
                container,
                service_class: None,
            }),
        };
        buf.trim_front(RECORD_LEN).then_some(planned)
    }
}

#[cfg(test)]
mod tests {
    use adit_pktio::mem::MemBuf;

    use super::*;

    #[test]
    fn planned_packet_carries_every_field() {
        let container = PduSessionContainer {
            ppi: Some(7),
            ..PduSessionContainer::downlink(Qfi::new(63).unwrap(), true)
        };
        let v6 = "2001:db8::1".parse().unwrap();
        let headers = [
            HeaderCreation::Gtpu(GtpuTunnel { teid: Teid(u32::MAX), addr: v6 }),
            HeaderCreation::Gtpu(GtpuTunnel { teid: Teid(1), addr: "10.0.0.1".parse().unwrap() }),
            HeaderCreation::Udp { addr: v6, port: 65535 },
            HeaderCreation::Ip { addr: "10.0.0.1".parse().unwrap() },
        ];
        let outers = headers.map(|header| {
            let container = matches!(header, HeaderCreation::Gtpu(_)).then_some(container);
            Some(CreatedHeader { header, tos: 0xb8, container, service_class: None })
        });
        for (at, outer) in outers.into_iter().chain([None]).enumerate() {
            let planned = PlannedFrame {
                ip_offset: 58,
                total_len: 1500,
                is_ipv4: at % 2 == 0,
                is_routed: at % 3 == 0,
                direction: if at == 1 { Direction::Uplink } else { Direction::Downlink },
                is_guaranteed: at == 2,
                dscp: (at == 3).then_some(63),
                interface: InterfaceId(31),
                mac: MacAddr([1, 2, 3, 4, 5, 6]),
                outer,
            };
            let mut buf = MemBuf::from_packet(&[1, 2, 3]);
            Mark::Complete.set(&mut buf, 511);
            planned.attach(&mut buf).unwrap();
            assert_eq!((Mark::of(&buf), flow_of_mark(&buf)), (Mark::Planned, 511));
            let read = PlannedFrame::detach(&mut buf).unwrap();
            assert_eq!(format!("{read:?}"), format!("{planned:?}"));
            assert_eq!(buf.data(), [1, 2, 3]);
        }
    }
}
