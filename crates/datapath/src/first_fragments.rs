//! Remembers the ports of users' packets that arrive in fragments: only the first fragment has
//! them.
//! Spec: TS 29.244 §5.2.1A; RFC 791 §3.2; RFC 8200 §4.5.

use adit_types::{Nanos, SessionIndex};
use adit_wire::{FragmentPosition, IpAddrs, IpPacket, five_tuple};

/// Fields that filters compare and that only the first fragment of a packet contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstFragment {
    pub protocol: u8,
    pub ports: (u16, u16),
    /// Security parameter index, zero without one.
    pub spi: u32,
}

/// How many first fragments are remembered, and in how many positions (ways) one can be.
pub(crate) const FIRST_FRAGMENTS_MAX: usize = 1024;
const WAYS: usize = 4;

/// A first fragment is not used after this time: identifications repeat, and the fragments of one
/// packet follow each other closely.
const REMEMBERED_FOR: Nanos = Nanos::from_secs(5);

/// Identifies a packet whose fragments arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketKey {
    session: SessionIndex,
    addrs: IpAddrs,
    identification: u32,
    protocol: u8,
}

/// The latest first fragments. A new one replaces the oldest of its set.
pub(crate) struct FirstFragments(Box<[Option<RememberedFragment>; FIRST_FRAGMENTS_MAX]>);

/// A first fragment's packet, when the fragment came, and its fields.
pub(crate) type RememberedFragment = (PacketKey, Nanos, FirstFragment);

impl FirstFragments {
    /// Allocates all memory that will be used.
    pub(crate) fn new() -> Self {
        Self(Box::new([None; FIRST_FRAGMENTS_MAX]))
    }

    /// Remembers the fields of a first fragment; returns them for it and for later fragments of its
    /// packet. `None` for a later fragment that arrives before the first: it matches without ports.
    #[cold]
    pub(crate) fn remember_or_find(
        &mut self,
        now: Nanos,
        session: SessionIndex,
        packet: &[u8],
        ip: &IpPacket,
    ) -> Option<FirstFragment> {
        let FragmentPosition { identification, protocol, .. } = FragmentPosition::read(packet)?;
        let key = PacketKey { session, addrs: ip.addrs, identification, protocol };
        let ways = self.ways(&key)?;
        if !ip.is_first_fragment() {
            let (_, since, upper) = ways.iter().flatten().find(|(known, ..)| *known == key)?;
            return (now.since(*since) < REMEMBERED_FOR).then_some(*upper);
        }
        let tuple = five_tuple(packet, ip);
        let ports = (tuple.src_port, tuple.dst_port);
        let upper = FirstFragment { protocol: tuple.protocol, ports, spi: tuple.spi };
        *way_of(ways, &key)? = Some((key, now, upper));
        Some(upper)
    }

    /// Returns the positions at which the fragment of a packet can be.
    fn ways(&mut self, key: &PacketKey) -> Option<&mut [Option<RememberedFragment>]> {
        // The high bits of a product depend on all bits of its factors.
        let hash =
            key.session.0.wrapping_mul(0x85eb_ca6b) ^ key.identification.wrapping_mul(0x9e37_79b1);
        let set = (hash >> 16) as usize % (FIRST_FRAGMENTS_MAX / WAYS) * WAYS;
        self.0.get_mut(set..set + WAYS)
    }

    /// Copies the fragments of the sessions for which `is_moving` is true into `copied`.
    #[cold]
    pub(crate) fn copy_moving(
        &self,
        is_moving: &dyn Fn(SessionIndex) -> bool,
        copied: &mut Vec<RememberedFragment>,
    ) {
        copied.extend(self.0.iter().flatten().filter(|(key, ..)| is_moving(key.session)));
    }

    /// Adds fragments that another worker remembered. If this worker already has one of the same
    /// packet, because it owned the session before, the later of the two stays.
    #[cold]
    pub(crate) fn put(&mut self, copied: &mut Vec<RememberedFragment>) {
        for fragment in copied.drain(..) {
            let (key, since, _) = fragment;
            let Some(way) = self.ways(&key).and_then(|ways| way_of(ways, &key)) else { continue };
            if way.is_none_or(|(_, before, _)| before <= since) {
                *way = Some(fragment);
            }
        }
    }
}

/// Returns the position that has the packet, or else the one to replace.
fn way_of<'a>(
    ways: &'a mut [Option<RememberedFragment>],
    key: &PacketKey,
) -> Option<&'a mut Option<RememberedFragment>> {
    ways.iter_mut().min_by_key(|way| {
        let of_packet = way.is_some_and(|(known, ..)| known == *key);
        (!of_packet, way.map(|(_, since, _)| since))
    })
}

#[cfg(test)]
mod tests {
    use adit_wire::parse_ip;

    use super::*;

    const AT: Nanos = Nanos::from_secs(10);

    /// Returns the first fragment of a UDP packet, from the port `first_from`, or else the last
    /// one.
    fn fragment(identification: u16, first_from: Option<u16>) -> [u8; 28] {
        let mut packet = [0; 28];
        packet[..4].copy_from_slice(&[0x45, 0, 0, 28]);
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        // More fragments follow the first one.
        let position = if first_from.is_some() { [0x20, 0] } else { [0, 1] };
        packet[6..8].copy_from_slice(&position);
        packet[8..10].copy_from_slice(&[64, 17]);
        packet[12..20].copy_from_slice(&[10, 45, 0, 1, 10, 45, 0, 2]);
        packet[20..22].copy_from_slice(&first_from.unwrap_or(0).to_be_bytes());
        packet
    }

    /// Returns the source port that the table has for the packet of this fragment.
    fn port(table: &mut FirstFragments, now: Nanos, session: u32, packet: [u8; 28]) -> Option<u16> {
        let ip = parse_ip(&packet, false).unwrap();
        let upper = table.remember_or_find(now, SessionIndex(session), &packet, &ip);
        upper.map(|upper| upper.ports.0)
    }

    /// Copies the first fragments of a session to another worker.
    fn give(from: &FirstFragments, to: &mut FirstFragments, session: u32) {
        let mut copied = Vec::new();
        from.copy_moving(&|known| known == SessionIndex(session), &mut copied);
        to.put(&mut copied);
    }

    #[test]
    fn session_that_comes_back_takes_no_further_positions() {
        let (mut one, mut other) = (FirstFragments::new(), FirstFragments::new());
        assert_eq!(port(&mut one, AT, 1, fragment(7, Some(1000))), Some(1000));
        let (key, ..) = one.0.iter().flatten().next().copied().unwrap();
        let set = one.ways(&key).unwrap().as_ptr();
        let is_in_set = |identification: &u32| {
            let key =
                PacketKey { session: SessionIndex(2), identification: *identification, ..key };
            one.ways(&key).unwrap().as_ptr() == set
        };
        let identification = (0..=u32::from(u16::MAX)).find(is_in_set).unwrap();
        let identification = u16::try_from(identification).unwrap();
        port(&mut one, AT + Nanos(1), 2, fragment(identification, Some(2000)));
        for _ in 0..WAYS {
            give(&one, &mut other, 2);
            give(&other, &mut one, 2);
        }
        assert_eq!(port(&mut one, AT, 2, fragment(identification, None)), Some(2000));
        assert_eq!(port(&mut one, AT, 1, fragment(7, None)), Some(1000), "of another session");
    }

    #[test]
    fn latest_first_fragment_of_a_packet_stays_wherever_it_was_remembered() {
        let (mut one, mut other) = (FirstFragments::new(), FirstFragments::new());
        let later = AT + Nanos::from_secs(1);
        port(&mut one, AT, 1, fragment(7, Some(1000)));
        give(&one, &mut other, 1);
        port(&mut other, later, 1, fragment(7, Some(2000)));
        give(&one, &mut other, 1);
        assert_eq!(port(&mut other, later, 1, fragment(7, None)), Some(2000));
        give(&other, &mut one, 1);
        let expired = AT + REMEMBERED_FOR;
        assert_eq!(port(&mut one, expired, 1, fragment(7, None)), Some(2000));
    }
}
