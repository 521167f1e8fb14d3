//! Reassembly of datagrams in one buffer, with limits of number, memory and time.
//!
//! A fragment waits in the buffer that it arrived in, and counts as buffered. When the last missing
//! fragment arrives, the data of all is appended to the first fragment, which becomes the whole
//! packet; the others are counted as punted (`reassembled`). An overlapping fragment discards its
//! datagram; in IPv6 also the fragments that arrive later. If there is no room, another datagram is
//! evicted in turn, so that hosts that send first fragments only cannot block others.
//! Spec: RFC 791 §3.2; RFC 8200 §4.5; RFC 5722; RFC 6864 §4; RFC 4963.

use core::hash::{BuildHasher, Hash, Hasher};
use std::hash::RandomState;

use adit_pktio::PacketBuf;
use adit_rules::{DropReason, PuntReason};
use adit_types::limits::{
    REASSEMBLY_DATAGRAMS_MAX, REASSEMBLY_FRAGMENTS_MAX, REASSEMBLY_FRAGMENTS_PER_DATAGRAM_MAX,
};
use adit_types::{InterfaceSet, Nanos};
use adit_wire::{FragmentPosition, IpAddrs, restore_header};
use arrayvec::ArrayVec;

use crate::tally::StepTally;

/// Longest wait for the rest of a datagram. Fragments of one datagram follow each other within
/// milliseconds. IPv4 identifications repeat after 65,536 datagrams: during a longer wait,
/// fragments of a new datagram could join those of a lost one. Spec: RFC 4963 §4.
pub(crate) const WAIT_MAX: Nanos = Nanos::from_secs(2);

/// Interval of the check for datagrams that waited too long.
const EXPIRE_INTERVAL: Nanos = Nanos::from_millis(10);

/// Number of places that a datagram can be in: the hash of its key selects a set of this many.
const WAYS: usize = 8;

const SETS: usize = REASSEMBLY_DATAGRAMS_MAX / WAYS;
const _: () = assert!(SETS.is_power_of_two() && SETS * WAYS == REASSEMBLY_DATAGRAMS_MAX);

/// Fields that all fragments of one datagram share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DatagramKey {
    /// The interface that the fragments arrived on.
    pub interfaces: InterfaceSet,
    pub addrs: IpAddrs,
    /// Identification of the IPv4 header or the fragment header.
    pub identification: u32,
    /// The protocol of the IPv4 header; zero in IPv6.
    pub protocol: u8,
}

/// A fragment of a tunnel packet that arrived.
pub(crate) struct TunnelFragment<B> {
    pub buf: B,
    /// Where the IP packet begins in the frame.
    pub ip_offset: u16,
    /// The fragment's position in the datagram.
    pub place: FragmentPosition,
}

impl<B: PacketBuf> TunnelFragment<B> {
    const fn start(&self) -> usize {
        self.place.offset as usize
    }

    const fn end(&self) -> usize {
        self.place.offset as usize + self.place.data_len as usize
    }

    /// Where the fragment's data begins in the frame.
    const fn data_at(&self) -> usize {
        self.ip_offset as usize + self.place.data_offset as usize
    }

    fn data(&self) -> &[u8] {
        let at = self.data_at();
        self.buf.data().get(at..at + usize::from(self.place.data_len)).unwrap_or_default()
    }

    /// True if `other` has the same position and data: the network duplicated a fragment.
    fn is_copy_of(&self, other: &Self) -> bool {
        self.place == other.place && self.data() == other.data()
    }

    const fn overlaps(&self, other: &Self) -> bool {
        self.start() < other.end() && other.start() < self.end()
    }
}

/// A datagram that waits for fragments.
struct PartialDatagram<B> {
    key: DatagramKey,
    since: Nanos,
    /// Length of the datagram's data, known from the last fragment. Unit: octets.
    total_len: Option<usize>,
    /// Length of the data that arrived. Unit: octets.
    len: usize,
    fragments: ArrayVec<TunnelFragment<B>, REASSEMBLY_FRAGMENTS_PER_DATAGRAM_MAX>,
    /// Why the datagram was discarded: fragments that arrive later are dropped for that reason,
    /// too.
    discarded: Option<DropReason>,
}

/// The datagrams of one worker that wait for fragments.
pub(crate) struct Reassembly<B> {
    places: Box<[Option<PartialDatagram<B>>]>,
    /// Number of fragments that wait.
    held: usize,
    /// Number of places in use.
    used: usize,
    /// Where the search for a datagram to evict continues.
    cursor: usize,
    /// No datagram expires before this time.
    expire_at: Nanos,
    hasher: RandomState,
}

impl<B: PacketBuf> Reassembly<B> {
    /// Allocates all memory that will be used.
    pub(crate) fn new() -> Self {
        let mut places = Vec::new();
        places.resize_with(REASSEMBLY_DATAGRAMS_MAX, || None);
        let (held, used, cursor, expire_at) = (0, 0, 0, Nanos(0));
        Self { places: places.into(), held, used, cursor, expire_at, hasher: RandomState::new() }
    }

    /// Returns how many fragments wait.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.held
    }

    /// Adds a fragment. Returns the frame of the whole packet if this was the last missing
    /// fragment. A fragment that is neither kept nor completes a packet is dropped with its reason.
    ///
    /// Cost: reads eight places and the fragments of one datagram; copies a whole datagram.
    pub(crate) fn add(
        &mut self,
        now: Nanos,
        key: DatagramKey,
        fragment: TunnelFragment<B>,
        tally: &mut StepTally,
    ) -> Option<B> {
        if let Err(reason) = check_fragment(&fragment) {
            tally.drop(reason);
            return None;
        }
        let at = self.slot_of(now, key, tally);
        if self.held >= REASSEMBLY_FRAGMENTS_MAX {
            self.evict_other(at, tally);
        }
        let datagram = self.places.get_mut(at)?.get_or_insert_with(|| PartialDatagram {
            key,
            since: now,
            total_len: None,
            len: 0,
            fragments: ArrayVec::new(),
            discarded: None,
        });
        match datagram.take(fragment) {
            FragmentOutcome::Waits => {
                self.held += 1;
                None
            }
            FragmentOutcome::Completes => {
                self.held += 1;
                self.join(at, tally)
            }
            FragmentOutcome::Refused(reason) => {
                tally.drop(reason);
                None
            }
            FragmentOutcome::Discards(reason) => {
                tally.drop(reason);
                let is_ipv6 = !key.addrs.is_ipv4();
                self.discard(at, reason, tally);
                if is_ipv6 && reason == DropReason::ReassemblyOverlap {
                    self.remember_discarded(at, key, now, reason);
                }
                None
            }
        }
    }

    /// Drops datagrams that waited too long. Returns whether there were any.
    #[inline]
    pub(crate) fn expire(&mut self, now: Nanos, tally: &mut StepTally) -> bool {
        self.used > 0 && now >= self.expire_at && self.expire_some(now, tally)
    }

    #[cold]
    fn expire_some(&mut self, now: Nanos, tally: &mut StepTally) -> bool {
        let before = self.used;
        let mut first = Nanos(u64::MAX);
        for at in 0..self.places.len() {
            match self.since(at) {
                Some(since) if now.since(since) >= WAIT_MAX => {
                    self.discard(at, DropReason::ReassemblyTimeout, tally);
                }
                Some(since) => first = first.min(since),
                None => {}
            }
        }
        self.expire_at = (now + EXPIRE_INTERVAL).max(Nanos(first.0.saturating_add(WAIT_MAX.0)));
        self.used != before
    }

    /// Drops all fragments that wait.
    pub(crate) fn drain(&mut self, tally: &mut StepTally) {
        for at in 0..self.places.len() {
            self.discard(at, DropReason::ReassemblyTimeout, tally);
        }
    }

    /// Returns when the datagram at a place began to wait.
    fn since(&self, at: usize) -> Option<Nanos> {
        self.places.get(at)?.as_ref().map(|datagram| datagram.since)
    }

    /// Returns the place for a datagram: the one it is in, a free one, or one that is evicted.
    fn slot_of(&mut self, now: Nanos, key: DatagramKey, tally: &mut StepTally) -> usize {
        let set = usize::try_from(self.hasher.hash_one(key)).unwrap_or_default() % SETS * WAYS;
        let ways = set..set + WAYS;
        let is_it = |at: &usize| {
            let known = self.places.get(*at).and_then(Option::as_ref);
            known.is_some_and(|known| known.key == key)
        };
        if let Some(at) = ways.clone().find(is_it) {
            if self.since(at).is_none_or(|since| now.since(since) < WAIT_MAX) {
                return at;
            }
            self.discard(at, DropReason::ReassemblyTimeout, tally);
        }
        // Free places (`None`) sort first.
        let at = ways.min_by_key(|at| self.since(*at)).unwrap_or(set);
        self.discard(at, DropReason::ReassemblyFull, tally);
        if self.used == 0 {
            self.expire_at = now + WAIT_MAX;
        }
        self.used += 1;
        at
    }

    /// Evicts the next datagram with fragments, except the one at the place `kept`.
    fn evict_other(&mut self, kept: usize, tally: &mut StepTally) {
        for _ in 0..self.places.len() {
            self.cursor = (self.cursor + 1) % self.places.len();
            let datagram = self.places.get(self.cursor).and_then(Option::as_ref);
            let holds = datagram.is_some_and(|datagram| !datagram.fragments.is_empty());
            if holds && self.cursor != kept {
                self.discard(self.cursor, DropReason::ReassemblyFull, tally);
                return;
            }
        }
    }

    /// Drops the fragments at a place, and frees the place.
    fn discard(&mut self, at: usize, reason: DropReason, tally: &mut StepTally) {
        let Some(datagram) = self.places.get_mut(at).and_then(Option::take) else { return };
        self.used -= 1;
        self.held -= datagram.fragments.len();
        let drop = |held: &TunnelFragment<B>| tally.drop_waiting(reason, held.buf.data());
        datagram.fragments.iter().for_each(drop);
    }

    /// Remembers in a free place that a datagram was discarded.
    fn remember_discarded(
        &mut self,
        at: usize,
        key: DatagramKey,
        since: Nanos,
        reason: DropReason,
    ) {
        let (fragments, discarded) = (ArrayVec::new(), Some(reason));
        if let Some(place) = self.places.get_mut(at) {
            *place =
                Some(PartialDatagram { key, since, total_len: None, len: 0, fragments, discarded });
            self.used += 1;
        }
    }

    /// Joins the fragments of a complete datagram. `None` if the buffer is too short for them.
    fn join(&mut self, at: usize, tally: &mut StepTally) -> Option<B> {
        let PartialDatagram { mut fragments, len, .. } =
            self.places.get_mut(at).and_then(Option::take)?;
        let count = fragments.len();
        self.used -= 1;
        self.held -= count;
        fragments.sort_unstable_by_key(|fragment| fragment.place.offset);
        let mut fragments = fragments.into_iter();
        let whole = fragments.next().and_then(|first| {
            let (ip_offset, data_at) = (usize::from(first.ip_offset), first.data_at());
            let mut buf = first.buf;
            // Padding of the link may follow the first fragment's data.
            let mut end = data_at + usize::from(first.place.data_len);
            let is_cut = buf.truncate(end);
            for fragment in fragments {
                let data = fragment.data();
                let room = buf.append(data.len())?.get_mut(end..)?;
                room.copy_from_slice(data);
                end += data.len();
            }
            let cut = restore_header(buf.data_mut(), ip_offset, len)?;
            (is_cut && buf.trim_front(cut)).then_some(buf)
        });
        match &whole {
            Some(_) => (1..count).for_each(|_| tally.punt(PuntReason::Reassembled)),
            None => (0..count).for_each(|_| tally.drop(DropReason::ReassemblyTooLong)),
        }
        whole
    }
}

/// The outcome of adding a fragment to its datagram.
enum FragmentOutcome {
    Waits,
    Completes,
    /// Only this fragment is dropped.
    Refused(DropReason),
    /// The fragment and its whole datagram are dropped.
    Discards(DropReason),
}

impl<B: PacketBuf> PartialDatagram<B> {
    fn take(&mut self, fragment: TunnelFragment<B>) -> FragmentOutcome {
        if let Some(reason) = self.discarded {
            return FragmentOutcome::Refused(reason);
        }
        if self.fragments.iter().any(|known| fragment.is_copy_of(known)) {
            return FragmentOutcome::Refused(DropReason::ReassemblyDuplicate);
        }
        if self.fragments.iter().any(|known| fragment.overlaps(known)) {
            return FragmentOutcome::Discards(DropReason::ReassemblyOverlap);
        }
        let end = fragment.end();
        let furthest = self.fragments.iter().map(TunnelFragment::end).max().unwrap_or(0);
        let fits = match (self.total_len, fragment.place.is_more) {
            (None, true) => true,
            (None, false) => furthest <= end,
            (Some(total), true) => end < total,
            (Some(_), false) => false,
        };
        if !fits {
            return FragmentOutcome::Discards(DropReason::ReassemblyMalformed);
        }
        let len = usize::from(fragment.place.data_len);
        if !fragment.place.is_more {
            self.total_len = Some(end);
        }
        if self.fragments.try_push(fragment).is_err() {
            return FragmentOutcome::Discards(DropReason::ReassemblyTooMany);
        }
        self.len += len;
        // Fragments do not overlap, so if they are as long as the datagram they are complete.
        if self.total_len == Some(self.len) {
            FragmentOutcome::Completes
        } else {
            FragmentOutcome::Waits
        }
    }
}

/// Checks a fragment by itself.
///
/// # Errors
/// `ReassemblyMalformed` if it has no data, or if more fragments follow and its length is no
/// multiple of eight octets; `ReassemblyTooLong` if the datagram would exceed its length field.
fn check_fragment<B: PacketBuf>(fragment: &TunnelFragment<B>) -> Result<(), DropReason> {
    let FragmentPosition { is_more, data_len, .. } = fragment.place;
    if data_len == 0 || is_more && !data_len.is_multiple_of(8) {
        return Err(DropReason::ReassemblyMalformed);
    }
    match fragment.end() <= usize::from(u16::MAX) {
        true => Ok(()),
        false => Err(DropReason::ReassemblyTooLong),
    }
}

/// Returns a hash that is the same for all fragments of a datagram, on every worker. It selects the
/// worker that reassembles them.
pub(crate) fn hash_of_datagram(key: &DatagramKey) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use adit_pktio::mem::MemBuf;
    use adit_types::InterfaceSet;
    use proptest::prelude::*;

    use super::*;

    const HEADERS: usize = 14 + 20;

    /// Builds the frame of a fragment of the datagram `identification`, whose octet `n` is `n * 7`.
    fn part(
        identification: u16,
        start: usize,
        len: usize,
        is_more: bool,
    ) -> (MemBuf, FragmentPosition) {
        let total = u16::try_from(20 + len).unwrap();
        let place = u16::from(is_more) << 13 | u16::try_from(start / 8).unwrap();
        let mut frame = vec![0xee; 14];
        frame.extend_from_slice(&[0x45, 0]);
        for word in [total, identification, place, 0x4011, 0] {
            frame.extend_from_slice(&word.to_be_bytes());
        }
        frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend((start..start + len).map(|n| u8::try_from(n * 7 % 256).unwrap()));
        let place = FragmentPosition::read(&frame[14..]).unwrap();
        (MemBuf::from_packet(&frame), place)
    }

    fn key(identification: u16) -> DatagramKey {
        let addrs = IpAddrs::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
        let interfaces = InterfaceSet::ALL;
        DatagramKey { interfaces, addrs, identification: identification.into(), protocol: 17 }
    }

    #[derive(Debug, Clone)]
    enum ReassemblyStep {
        /// A fragment: identification, start and length in 8 octets, more fragments.
        Arrives(u16, usize, usize, bool),
        Passes(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<ReassemblyStep>> {
        let arrives = (0_u16..400, 0_usize..12, 1_usize..12, any::<bool>()).prop_map(
            |(id, start, len, is_more)| {
                ReassemblyStep::Arrives(id, start, len, is_more || start == 0)
            },
        );
        let few = (0_u16..3, 0_usize..4, 1_usize..3, any::<bool>()).prop_map(
            |(id, start, len, is_more)| {
                ReassemblyStep::Arrives(id, start, len, is_more || start == 0)
            },
        );
        let passes = (1_u64..700).prop_map(ReassemblyStep::Passes);
        prop::collection::vec(prop_oneof![8 => arrives, 8 => few, 1 => passes], 1..1500)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

        #[test]
        fn fragments_of_any_kind_stay_within_bounds_and_have_one_outcome(steps in steps()) {
            let (mut reassembly, mut tally) = (Reassembly::new(), StepTally::new());
            let mut now = Nanos::from_secs(1);
            for step in steps {
                match step {
                    ReassemblyStep::Passes(millis) => {
                        now += Nanos::from_millis(millis);
                        reassembly.expire(now, &mut tally);
                    }
                    ReassemblyStep::Arrives(identification, start, len, is_more) => {
                        let (buf, place) = part(identification, start * 8, len * 8, is_more);
                        tally.receive(buf.data().len());
                        let fragment = TunnelFragment { buf, ip_offset: 14, place };
                        if let Some(buf) = reassembly.add(now, key(identification), fragment, &mut tally) {
                            let data = &buf.data()[HEADERS..];
                            let right = |(n, octet): (usize, &u8)| usize::from(*octet) == n * 7 % 256;
                            prop_assert!(data.iter().enumerate().all(right));
                            let ip = adit_wire::parse_ip(&buf.data()[14..], true).unwrap();
                            prop_assert_eq!(usize::from(ip.payload_len()), data.len());
                            tally.punt(PuntReason::LinkControl);
                        }
                    }
                }
                prop_assert!(reassembly.len() <= REASSEMBLY_FRAGMENTS_MAX);
                prop_assert!(reassembly.used <= REASSEMBLY_DATAGRAMS_MAX);
                prop_assert!(tally.identity_holds(0, reassembly.len()));
            }
            now += WAIT_MAX;
            reassembly.expire(now, &mut tally);
            now += EXPIRE_INTERVAL;
            reassembly.expire(now, &mut tally);
            prop_assert_eq!((reassembly.len(), reassembly.used), (0, 0), "nothing stays");
            prop_assert!(reassembly.places.iter().all(Option::is_none));
            prop_assert!(tally.identity_holds(0, 0));
        }

        #[test]
        fn parts_in_any_order_make_the_whole(
            cuts in prop::collection::hash_set(1_usize..150, 1..15),
            order in any::<u64>(),
            copies in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            const LEN: usize = 1205;
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut * 8).collect();
            ends.sort_unstable();
            ends.push(LEN);
            let mut parts: Vec<(usize, usize)> = Vec::new();
            let mut start = 0;
            for end in ends {
                parts.push((start, end));
                start = end;
            }
            let hash = |part: &(usize, usize)| (part.0 as u64 + 1).wrapping_mul(order | 1);
            parts.sort_by_key(hash);
            let last = parts.pop().unwrap();
            if !parts.is_empty() {
                let again: Vec<_> = copies.iter().map(|at| *at.get(&parts)).collect();
                parts.extend(again);
            }
            let distinct: HashSet<_> = parts.iter().collect();
            let (distinct, held) = (distinct.len(), parts.len());
            let (mut reassembly, mut tally) = (Reassembly::new(), StepTally::new());
            let mut add = |(start, end): (usize, usize), reassembly: &mut Reassembly<MemBuf>| {
                let (buf, place) = part(9, start, end - start, end < LEN);
                tally.receive(buf.data().len());
                let fragment = TunnelFragment { buf, ip_offset: 14, place };
                reassembly.add(Nanos(5), key(9), fragment, &mut tally)
            };
            for part in parts {
                prop_assert!(add(part, &mut reassembly).is_none());
            }
            prop_assert!(reassembly.len() == distinct && distinct <= held);
            let buf = add(last, &mut reassembly).unwrap();
            prop_assert_eq!(buf.data().len(), HEADERS + LEN);
            prop_assert_eq!(reassembly.len(), 0);
        }
    }
}
