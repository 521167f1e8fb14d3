//! Fragments that arrive: those of tunnel packets are put together before anything else is done with
//! them; those of users' packets are forwarded as they are, and later ones are matched by what the
//! first one said of ports.
//! Spec: TS 29.244 §5.2.1A; RFC 791 §3.2; RFC 8200 §4.5.

use adit_pktio::{Burst, PacketBuf};
use adit_rules::DropReason;
use adit_types::{InterfaceSet, Nanos, PortId, SessionIndex};
use adit_wire::{FragmentPosition, IpAddrs, IpPacket, five_tuple, parse_ip, protocol};

use crate::columns::BurstColumn;
use crate::handoff::Handoff;
use crate::reassembly::{DatagramKey, Reassembly, TunnelFragment, hash_of};
use crate::stage::s1_parse::verify_udp;
use crate::tally::StepTally;

/// A fragment of a tunnel packet, waiting for the end of its burst.
struct ArrivedFragment<B> {
    buf: B,
    interfaces: InterfaceSet,
    ip_offset: u16,
    addrs: IpAddrs,
    /// Its owner put it here; else the owner of the datagram is looked for.
    is_ours: bool,
}

/// What one worker knows of fragments.
pub(crate) struct Fragments<B> {
    arrived: BurstColumn<ArrivedFragment<B>>,
    /// Tunnel packets that wait for fragments.
    pub reassembly: Reassembly<B>,
    /// What first fragments of users' packets said.
    pub upper_layers: FirstFragments,
}

impl<B: PacketBuf> Fragments<B> {
    /// Nothing arrived. Reserves all memory that will be used.
    pub fn new() -> Self {
        let (reassembly, upper_layers) = (Reassembly::new(), FirstFragments::new());
        Self { arrived: BurstColumn::new(), reassembly, upper_layers }
    }

    /// True when fragments wait for the end of their burst.
    #[inline]
    pub fn any_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Takes the fragment of a tunnel packet out of the stages, until the end of the burst. The
    /// datagram of one that `is_ours` is put together here, whoever else received parts of it.
    #[cold]
    pub fn add(
        &mut self,
        buf: B,
        interfaces: InterfaceSet,
        (ip_offset, ip, is_ours): (u16, &IpPacket, bool),
        tally: &mut StepTally,
    ) {
        let arrived = ArrivedFragment { buf, interfaces, ip_offset, addrs: ip.addrs, is_ours };
        if self.arrived.try_push(arrived).is_err() {
            // A burst has no more packets than there is room for.
            tally.drop(DropReason::ReassemblyFull);
        }
    }

    /// Puts together what arrived in the burst; whole packets go into `whole`, those of other
    /// workers' datagrams over to them.
    #[cold]
    pub fn join(
        &mut self,
        now: Nanos,
        port: PortId,
        whole: &mut Burst<B>,
        handoff: &mut Handoff<B>,
        tally: &mut StepTally,
    ) {
        for ArrivedFragment { buf, interfaces, ip_offset, addrs, is_ours } in
            core::mem::take(&mut self.arrived)
        {
            let packet = buf.data().get(usize::from(ip_offset)..).unwrap_or_default();
            let Some(place) = FragmentPosition::read(packet) else {
                tally.drop(DropReason::ReassemblyMalformed);
                continue;
            };
            let FragmentPosition { identification, protocol, .. } = place;
            let key = DatagramKey { interfaces, addrs, identification, protocol };
            let owner = handoff.of_hash(hash_of(&key));
            if !is_ours && owner != handoff.worker() {
                handoff.hand_to(owner, port, buf, tally);
                continue;
            }
            let fragment = TunnelFragment { buf, ip_offset, place };
            let Some(buf) = self.reassembly.add(now, key, fragment, tally) else { continue };
            match verify(&buf, ip_offset) {
                Ok(()) => whole.push(buf),
                Err(reason) => tally.drop(reason),
            }
        }
    }
}

/// Verifies the UDP checksum of a joined datagram: IPv4 identifiers repeat, and nothing else detects
/// that fragments of different datagrams were mixed. Spec: RFC 4963 §5.
fn verify<B: PacketBuf>(buf: &B, ip_offset: u16) -> Result<(), DropReason> {
    let packet = buf.data().get(usize::from(ip_offset)..).unwrap_or_default();
    let ip = parse_ip(packet, false).map_err(|_| DropReason::ReassemblyMalformed)?;
    match ip.protocol {
        protocol::UDP => verify_udp(&ip, ip.payload(packet)),
        _ => Ok(()),
    }
}

/// What filters ask for that only the first fragment of a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstFragment {
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Security parameter index, zero without one.
    pub spi: u32,
}

/// First fragments that are remembered, and the places that one of them may have.
const REMEMBERED: usize = 1024;
const WAYS: usize = 4;

/// Fragments of one packet follow each other closely, and identifiers repeat.
const REMEMBERED_FOR: Nanos = Nanos::from_secs(5);

/// A packet whose fragments pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PacketKey {
    session: SessionIndex,
    addrs: IpAddrs,
    identification: u32,
    protocol: u8,
}

/// What the first fragments said that passed last. The oldest of a few is forgotten for a new one.
pub(crate) struct FirstFragments(Box<[Option<(PacketKey, Nanos, FirstFragment)>; REMEMBERED]>);

impl FirstFragments {
    fn new() -> Self {
        Self(Box::new([None; REMEMBERED]))
    }

    /// Remembers the ports of a first fragment, and returns them for later fragments of its packet. A
    /// later fragment that arrives before the first is matched without ports.
    #[cold]
    pub fn first_of(
        &mut self,
        now: Nanos,
        session: SessionIndex,
        packet: &[u8],
        ip: &IpPacket,
    ) -> Option<FirstFragment> {
        let FragmentPosition { identification, protocol, .. } = FragmentPosition::read(packet)?;
        let key = PacketKey { session, addrs: ip.addrs, identification, protocol };
        // Of a product the high bits depend on all of its factors.
        let hash = session.0.wrapping_mul(0x85eb_ca6b) ^ identification.wrapping_mul(0x9e37_79b1);
        let set = (hash >> 16) as usize % (REMEMBERED / WAYS) * WAYS;
        let ways = self.0.get_mut(set..set + WAYS)?;
        let known = ways.iter_mut().find(|way| way.is_some_and(|(known, ..)| known == key));
        if !ip.is_first_fragment() {
            let (_, since, upper) = (*known?)?;
            return (now.since(since) < REMEMBERED_FOR).then_some(upper);
        }
        let tuple = five_tuple(packet, ip);
        let ports = (tuple.src_port, tuple.dst_port);
        let upper = FirstFragment { protocol: tuple.protocol, ports, spi: tuple.spi };
        let way = match known {
            Some(known) => known,
            None => ways.iter_mut().min_by_key(|way| way.map(|(_, since, _)| since))?,
        };
        *way = Some((key, now, upper));
        Some(upper)
    }
}
