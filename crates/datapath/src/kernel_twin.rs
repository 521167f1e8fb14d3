//! Frames between workers and kernel twins: network devices that give the kernel the interfaces of
//! ports that Adit alone has.
//!
//! A worker copies frames for the kernel into bounded rings of octets, one for each class, and a
//! thread outside of the packet path writes them to the devices. Each class has a rate of its own,
//! so a flood of one costs no other class its frames. Frames of the kernel come in one ring to one
//! worker.
//!
//! A record of a ring is the number of the interface, the length of the frame, and the frame
//! without a VLAN tag.

use std::sync::Arc;

use adit_rules::{DropReason, PuntReason};
use adit_tables::Counter;
use adit_types::limits::{
    FROM_KERNEL_RING_BYTES, INTERFACES_MAX, KERNEL_BURST_PKTS, KERNEL_PPS_MAX, KERNEL_RING_BYTES,
};
use adit_types::{InterfaceId, Nanos};
use adit_wire::usual::tag_len;
use adit_wire::{EtherType, FiveTuple, Frame, IpPacket, five_tuple, protocol};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::limits::{RefillRate, TokenBucket};

/// Octets of a record in front of its frame.
const HEAD: usize = 4;

/// Octets of the longest frame in a ring.
pub const KERNEL_FRAME_BYTES_MAX: usize = u16::MAX as usize;

/// Octets of the addresses in front of a tag.
const ADDRESSES: usize = 12;

/// UDP ports of BFD. Spec: RFC 5881, 5883, 7130.
const BFD_PORTS: [u16; 4] = [3784, 3785, 4784, 6784];
/// TCP port of BGP. Spec: RFC 4271 §8.2.1.
const BGP_PORT: u16 = 179;
/// IP protocols: OSPF, PIM, VRRP.
const OSPF: u8 = 89;
const PIM: u8 = 103;
const VRRP: u8 = 112;

/// Kinds of frames for the kernel. Each has a ring and a rate of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelClass {
    /// PFCP to the port of `n4.listen`.
    N4,
    /// BFD, BGP, OSPF, VRRP, PIM, and the groups of IS-IS, LACP and LLDP.
    Routing,
    /// Copies of ARP and neighbor discovery; router advertisements; multicast listeners.
    Neighbor,
    /// All others, and fragments.
    Other,
}

impl KernelClass {
    /// Number of classes.
    pub const COUNT: usize = 4;

    /// All classes, in the order in which the kernel gets their frames.
    pub const ALL: [Self; Self::COUNT] = [Self::N4, Self::Routing, Self::Neighbor, Self::Other];

    /// Its position among all.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name for operators.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::N4 => "n4",
            Self::Routing => "routing",
            Self::Neighbor => "neighbor",
            Self::Other => "other",
        }
    }

    fn rate(self) -> RefillRate {
        RefillRate::per_second(KERNEL_PPS_MAX[self.index()], KERNEL_BURST_PKTS[self.index()])
    }
}

/// A protocol whose frames to groups on the link the kernel may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelProtocol {
    /// OSPF. Spec: RFC 2328, 5340.
    Ospf,
    /// IS-IS. Spec: ISO/IEC 10589; RFC 1195.
    IsIs,
    /// PIM. Spec: RFC 7761.
    Pim,
    /// VRRP. Spec: RFC 9568.
    Vrrp,
    /// LACP. Spec: IEEE 802.1AX.
    Lacp,
    /// LLDP. Spec: IEEE 802.1AB.
    Lldp,
}

impl KernelProtocol {
    /// All protocols with their names in the configuration.
    pub const ALL: [(&'static str, Self); 6] = [
        ("ospf", Self::Ospf),
        ("isis", Self::IsIs),
        ("pim", Self::Pim),
        ("vrrp", Self::Vrrp),
        ("lacp", Self::Lacp),
        ("lldp", Self::Lldp),
    ];

    /// The protocol of a frame to a group address, other than of IP.
    fn of_link(frame: &Frame) -> Option<Self> {
        const LACP: EtherType = EtherType(0x8809);
        const LLDP: EtherType = EtherType(0x88cc);
        /// AllL1ISs, AllL2ISs, AllISs.
        const ISIS: [[u8; 6]; 3] = [
            [0x01, 0x80, 0xc2, 0x00, 0x00, 0x14],
            [0x01, 0x80, 0xc2, 0x00, 0x00, 0x15],
            [0x09, 0x00, 0x2b, 0x00, 0x00, 0x05],
        ];
        // Frames of IEEE 802.3 have their length in place of the EtherType.
        let is_length = frame.ether_type.0 < 1536;
        match frame.ether_type {
            LACP => Some(Self::Lacp),
            LLDP => Some(Self::Lldp),
            _ if is_length && ISIS.contains(&frame.dst.0) => Some(Self::IsIs),
            _ => None,
        }
    }

    /// The protocol of an IP packet to a group address.
    const fn of_ip(protocol: u8) -> Option<Self> {
        match protocol {
            OSPF => Some(Self::Ospf),
            PIM => Some(Self::Pim),
            VRRP => Some(Self::Vrrp),
            _ => None,
        }
    }
}

/// An interface with a kernel twin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTwin {
    /// The interface.
    pub interface: InterfaceId,
    /// Protocols whose frames to groups the kernel gets as well.
    pub protocols: Vec<KernelProtocol>,
}

/// Counts of one class on one interface. One worker writes them.
#[derive(Debug, Default)]
pub struct KernelClassCounts {
    /// Frames given to the kernel, with copies.
    pub pkts: Counter,
    /// Frames without room in the ring.
    pub ring_full: Counter,
    /// Frames beyond the rate.
    pub rate_limited: Counter,
}

/// Counts of one worker on one interface with a twin.
#[derive(Debug, Default)]
pub struct KernelInterfaceCounts {
    /// By [`KernelClass::index`].
    pub classes: [KernelClassCounts; KernelClass::COUNT],
    /// Frames of the kernel that the worker took to send; those that a port did not take are also
    /// in `originated_lost_pkts`.
    pub from_pkts: Counter,
    /// Frames of the kernel that are longer than the MTU, tagged, or without a header.
    pub from_refused: Counter,
}

/// Counts of one worker, by `InterfaceId`.
pub type KernelCounts = Arc<[KernelInterfaceCounts]>;

/// A worker's ends of the rings to and from the kernel twins.
pub struct KernelTwins {
    rings: [Producer<u8>; KernelClass::COUNT],
    limits: [TokenBucket; KernelClass::COUNT],
    /// By `InterfaceId`; `None` without a twin.
    twins: Vec<Option<KernelTwin>>,
    n4_port: u16,
    counts: KernelCounts,
    from: Option<FromRing>,
}

/// The ring of frames that the kernel sends, and room for one.
struct FromRing {
    ring: Consumer<u8>,
    frame: Box<[u8]>,
}

impl core::fmt::Debug for KernelTwins {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KernelTwins").field("twins", &self.twins).finish_non_exhaustive()
    }
}

/// The other ends of one worker's rings to the kernel.
#[derive(Debug)]
pub struct ToKernel {
    rings: [Consumer<u8>; KernelClass::COUNT],
}

impl ToKernel {
    /// Copies the next frame of a class into `frame`. Returns its interface and its length; `None`
    /// without a frame. `frame` has room for [`KERNEL_FRAME_BYTES_MAX`] octets.
    pub fn next(&mut self, class: KernelClass, frame: &mut [u8]) -> Option<(InterfaceId, usize)> {
        next_record(&mut self.rings[class.index()], frame)
    }
}

/// The way of the kernel's frames to the worker that sends them.
#[derive(Debug)]
pub struct FromKernel {
    ring: Producer<u8>,
}

impl FromKernel {
    /// True if a frame of any length has room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.ring.slots() >= HEAD + KERNEL_FRAME_BYTES_MAX
    }

    /// Gives the worker a frame to send through `interface`. Returns false without room.
    pub fn push(&mut self, interface: InterfaceId, frame: &[u8]) -> bool {
        push_record(&mut self.ring, interface, [frame, &[]])
    }
}

/// Connects workers with the thread that serves the twins.
#[derive(Debug)]
pub struct KernelLinks {
    /// The workers' ends, in their order.
    pub workers: Vec<KernelTwins>,
    /// The thread's ends, in the order of the workers.
    pub to_kernel: Vec<ToKernel>,
    /// The way to the worker that sends the kernel's frames.
    pub from_kernel: FromKernel,
    /// The counts of each worker.
    pub counts: Vec<KernelCounts>,
}

/// Makes the rings of `workers` workers, of which number `sender` sends the kernel's frames. N4
/// listens at UDP port `n4_port`. Allocates all memory that the rings will use.
#[must_use]
pub fn connect_kernel(
    twins: &[KernelTwin],
    n4_port: u16,
    workers: usize,
    sender: usize,
) -> KernelLinks {
    let by_id = |id: usize| twins.iter().find(|twin| usize::from(twin.interface.0) == id).cloned();
    let by_id: Vec<Option<KernelTwin>> = (0..INTERFACES_MAX).map(by_id).collect();
    let (ring, from) = RingBuffer::new(FROM_KERNEL_RING_BYTES);
    let frame = vec![0; KERNEL_FRAME_BYTES_MAX].into_boxed_slice();
    let mut from = Some(FromRing { ring: from, frame });
    let mut links = KernelLinks {
        workers: Vec::new(),
        to_kernel: Vec::new(),
        from_kernel: FromKernel { ring },
        counts: Vec::new(),
    };
    for worker in 0..workers {
        let counts: KernelCounts = (0..INTERFACES_MAX).map(|_| Default::default()).collect();
        let [(a, e), (b, f), (c, g), (d, h)] = KERNEL_RING_BYTES.map(RingBuffer::new);
        links.to_kernel.push(ToKernel { rings: [e, f, g, h] });
        links.counts.push(Arc::clone(&counts));
        links.workers.push(KernelTwins {
            rings: [a, b, c, d],
            limits: [const { TokenBucket::new() }; KernelClass::COUNT],
            twins: by_id.clone(),
            n4_port,
            counts,
            from: if worker == sender { from.take() } else { None },
        });
    }
    links
}

impl KernelTwins {
    /// True if the interface has a twin.
    pub(crate) fn has(&self, interface: InterfaceId) -> bool {
        self.twin(interface).is_some()
    }

    fn twin(&self, interface: InterfaceId) -> Option<&KernelTwin> {
        self.twins.get(usize::from(interface.0))?.as_ref()
    }

    /// The class of an IP packet to one of our addresses on `interface`; `None` without a twin.
    /// `packet` begins with its header.
    pub(crate) fn class_of(
        &self,
        interface: InterfaceId,
        ip: &IpPacket,
        packet: &[u8],
    ) -> Option<KernelClass> {
        self.twin(interface)?;
        let FiveTuple { src_port, dst_port, .. } = five_tuple(packet, ip);
        Some(match ip.protocol {
            _ if ip.is_fragment() => KernelClass::Other,
            protocol::UDP if dst_port == self.n4_port => KernelClass::N4,
            protocol::UDP if BFD_PORTS.contains(&dst_port) => KernelClass::Routing,
            protocol::TCP if [src_port, dst_port].contains(&BGP_PORT) => KernelClass::Routing,
            OSPF | PIM | VRRP => KernelClass::Routing,
            _ => KernelClass::Other,
        })
    }

    /// The class of a frame to a group address that is not IP; `None` if the kernel does not get
    /// it.
    pub(crate) fn class_of_group_frame(
        &self,
        interface: InterfaceId,
        frame: &Frame,
    ) -> Option<KernelClass> {
        let twin = self.twin(interface)?;
        let protocol = KernelProtocol::of_link(frame)?;
        twin.protocols.contains(&protocol).then_some(KernelClass::Routing)
    }

    /// The class of an IP packet to a group address; `None` if the kernel does not get it. With any
    /// of the protocols the kernel gets IGMP as well: it answers the queries of switches for the
    /// groups that it has joined.
    pub(crate) fn class_of_group_packet(
        &self,
        interface: InterfaceId,
        ip: &IpPacket,
    ) -> Option<KernelClass> {
        let twin = self.twin(interface)?;
        if ip.protocol == protocol::IGMP && !twin.protocols.is_empty() {
            return Some(KernelClass::Neighbor);
        }
        let protocol = KernelProtocol::of_ip(ip.protocol)?;
        twin.protocols.contains(&protocol).then_some(KernelClass::Routing)
    }

    /// Copies a received frame without its tag into the ring of its class.
    ///
    /// # Errors
    /// `KernelRateLimited` beyond the rate of the class; `KernelRingFull` without room.
    #[cold]
    pub(crate) fn deliver(
        &mut self,
        now: Nanos,
        frame: &[u8],
        interface: InterfaceId,
        class: KernelClass,
    ) -> Result<PuntReason, DropReason> {
        let Some(counts) = self.counts.get(usize::from(interface.0)) else {
            return Err(DropReason::KernelRingFull);
        };
        let (at, counts) = (class.index(), &counts.classes[class.index()]);
        if !self.limits[at].take(now, class.rate()) {
            counts.rate_limited.add(1);
            return Err(DropReason::KernelRateLimited);
        }
        if !push_record(&mut self.rings[at], interface, without_tag(frame)) {
            counts.ring_full.add(1);
            return Err(DropReason::KernelRingFull);
        }
        counts.pkts.add(1);
        Ok(PuntReason::KernelTwin)
    }

    /// True if a frame of the kernel waits to be sent.
    #[inline]
    pub(crate) fn has_frames(&self) -> bool {
        self.from.as_ref().is_some_and(|from| !from.ring.is_empty())
    }

    /// The next frame of the kernel, and its interface.
    pub(crate) fn next_frame(&mut self) -> Option<(InterfaceId, &[u8])> {
        let from = self.from.as_mut()?;
        let (interface, len) = next_record(&mut from.ring, &mut from.frame)?;
        Some((interface, from.frame.get(..len)?))
    }

    /// Counts a frame of the kernel.
    pub(crate) fn count_from(&self, interface: InterfaceId, is_refused: bool) {
        if let Some(counts) = self.counts.get(usize::from(interface.0)) {
            let counter = if is_refused { &counts.from_refused } else { &counts.from_pkts };
            counter.add(1);
        }
    }
}

/// The frame without its VLAN tag, in two parts.
fn without_tag(frame: &[u8]) -> [&[u8]; 2] {
    let (addresses, rest) = frame.split_at(ADDRESSES.min(frame.len()));
    [addresses, rest.get(tag_len(frame)..).unwrap_or_default()]
}

/// Appends a record. Returns false without room for all of it.
fn push_record(ring: &mut Producer<u8>, interface: InterfaceId, parts: [&[u8]; 2]) -> bool {
    let len = parts[0].len() + parts[1].len();
    let Ok(short) = u16::try_from(len) else { return false };
    if ring.slots() < HEAD + len {
        return false;
    }
    let [high, low] = short.to_be_bytes();
    // The reader may see one part before the next: it waits until the record is whole.
    [&[interface.0, 0, high, low], parts[0], parts[1]]
        .iter()
        .all(|part| ring.push_entire_slice(part).is_ok())
}

/// Takes a record off the ring, once it is whole.
fn next_record(ring: &mut Consumer<u8>, frame: &mut [u8]) -> Option<(InterfaceId, usize)> {
    let chunk = ring.read_chunk(HEAD).ok()?;
    let (first, second) = chunk.as_slices();
    let mut head = first.iter().chain(second).copied();
    let (interface, _) = (head.next()?, head.next()?);
    let len = usize::from(u16::from_be_bytes([head.next()?, head.next()?]));
    if ring.slots() < HEAD + len {
        return None;
    }
    let room = frame.get_mut(..len)?;
    ring.pop_entire_slice(&mut [0; HEAD]).ok()?;
    ring.pop_entire_slice(room).ok()?;
    Some((InterfaceId(interface), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_pass_the_ring_whole_and_in_order_across_its_end() {
        let (mut writer, mut reader) = RingBuffer::new(100);
        let mut room = vec![0; KERNEL_FRAME_BYTES_MAX];
        for turn in 0..50_u8 {
            let frame = vec![turn; usize::from(turn % 40)];
            assert!(push_record(
                &mut writer,
                InterfaceId(turn % 8),
                [&frame[..frame.len() / 2], &frame[frame.len() / 2..]]
            ));
            let (interface, len) = next_record(&mut reader, &mut room).unwrap();
            assert_eq!((interface, &room[..len]), (InterfaceId(turn % 8), &frame[..]));
            assert_eq!(next_record(&mut reader, &mut room), None);
        }
        assert!(!push_record(&mut writer, InterfaceId(0), [&[0; 97], &[]]));
        assert!(push_record(&mut writer, InterfaceId(0), [&[0; 96], &[]]));
    }

    #[test]
    fn tag_is_left_out_and_nothing_else() {
        let tagged: Vec<u8> = (0..12).chain([0x81, 0, 0, 6]).chain([8, 0, 99]).collect();
        let plain: Vec<u8> = (0..12).chain([8, 0, 99]).collect();
        assert_eq!(without_tag(&tagged).concat(), plain);
        assert_eq!(without_tag(&plain).concat(), plain);
        assert_eq!(without_tag(&[1, 2]).concat(), [1, 2]);
    }
}
