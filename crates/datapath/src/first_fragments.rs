//! Ports of users' packets that arrive in fragments: only the first fragment has them.
//! Spec: TS 29.244 §5.2.1A; RFC 791 §3.2; RFC 8200 §4.5.

use adit_types::{Nanos, SessionIndex};
use adit_wire::{FragmentPosition, IpAddrs, IpPacket, five_tuple};

/// What filters need of a packet and only its first fragment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstFragment {
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Security parameter index, zero without one.
    pub spi: u32,
}

/// First fragments that are remembered, and the positions that one of them may have.
pub(crate) const FIRST_FRAGMENTS_MAX: usize = 1024;
const WAYS: usize = 4;

/// Fragments of one packet follow each other closely, and identifiers repeat.
const REMEMBERED_FOR: Nanos = Nanos::from_secs(5);

/// A packet whose fragments pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketKey {
    session: SessionIndex,
    addrs: IpAddrs,
    identification: u32,
    protocol: u8,
}

/// The latest first fragments. A new one replaces the oldest of its set.
pub(crate) struct FirstFragments(Box<[Option<RememberedFragment>; FIRST_FRAGMENTS_MAX]>);

/// A first fragment, and when it came.
pub(crate) type RememberedFragment = (PacketKey, Nanos, FirstFragment);

impl FirstFragments {
    /// No packet. Reserves all memory that will be used.
    pub(crate) fn new() -> Self {
        Self(Box::new([None; FIRST_FRAGMENTS_MAX]))
    }

    /// Remembers the ports of a first fragment, and returns them for later fragments of its packet. A
    /// later fragment that arrives before the first is matched without ports.
    #[cold]
    pub(crate) fn first_of(
        &mut self,
        now: Nanos,
        session: SessionIndex,
        packet: &[u8],
        ip: &IpPacket,
    ) -> Option<FirstFragment> {
        let FragmentPosition { identification, protocol, .. } = FragmentPosition::read(packet)?;
        let key = PacketKey { session, addrs: ip.addrs, identification, protocol };
        let ways = self.ways(&key)?;
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

    /// The positions that a packet may have.
    fn ways(&mut self, key: &PacketKey) -> Option<&mut [Option<RememberedFragment>]> {
        // The high bits of a product depend on all bits of its factors.
        let hash =
            key.session.0.wrapping_mul(0x85eb_ca6b) ^ key.identification.wrapping_mul(0x9e37_79b1);
        let set = (hash >> 16) as usize % (FIRST_FRAGMENTS_MAX / WAYS) * WAYS;
        self.0.get_mut(set..set + WAYS)
    }

    /// Copies those of the sessions that `is_moving` says into `copied`.
    #[cold]
    pub(crate) fn copy_of(
        &self,
        is_moving: &dyn Fn(SessionIndex) -> bool,
        copied: &mut Vec<RememberedFragment>,
    ) {
        copied.extend(self.0.iter().flatten().filter(|(key, ..)| is_moving(key.session)));
    }

    /// Remembers those that another worker remembered.
    #[cold]
    pub(crate) fn put(&mut self, copied: &mut Vec<RememberedFragment>) {
        for fragment in copied.drain(..) {
            let Some(ways) = self.ways(&fragment.0) else { continue };
            if let Some(way) = ways.iter_mut().min_by_key(|way| way.map(|(_, since, _)| since)) {
                *way = Some(fragment);
            }
        }
    }
}
