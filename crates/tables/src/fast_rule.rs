//! Fast rules by session index: one cell per session and direction, and one for the tunnel in which
//! another UPF sends packets to the UE. For sessions without such a tunnel that cell is never
//! written. The first cache line of a cell has the usual rule and the counters of its packets. The
//! second line has what few rules need: further URRs, the far end of a rule from tunnel to tunnel,
//! words of a filter or selector, and a deferred charge of the rule's buckets.
//!
//! A change takes effect in this order:
//!
//! 1. The publisher clears the cells of the session: its packets take the stages.
//! 2. It publishes the new rules, and writes the fast rules that were compiled from them. Workers
//!    do not read them yet.
//! 3. Every worker passes a quiescent state. From then on it uses the new rules, and each earlier
//!    command, such as an End Marker, has run or is pending. While one is pending, no packet takes
//!    the fast path.
//! 4. The publisher activates the fast rules. From then on the control thread may reuse the usage
//!    slots and next hops that only the previous rules name.

use core::fmt;

use adit_rules::{OffloadCounts, OffloadUsage, PackedFastRule, share_per_part};
use adit_types::{Direction, Nanos, SessionIndex, Teid};

use crate::counters::{Counter, SessionTraffic};
use crate::fast_rule_cell::{FastRuleCell, FastRuleCellRef, WrittenRule};
use crate::large::LargeArray;
use crate::prefetch;

/// The cells of both directions of one session.
#[derive(Default)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[repr(C)]
struct FastRuleCells {
    uplink: FastRuleCell,
    downlink: FastRuleCell,
}

/// The fast rules of all sessions, and the traffic that they forwarded.
pub(crate) struct FastRuleTable {
    cells: LargeArray<FastRuleCells>,
    tunnels_to_ues: LargeArray<FastRuleCell>,
    /// An offload, which forwards packets by some of the rules before workers see these packets.
    offload: Option<std::sync::Arc<dyn OffloadUsage>>,
    /// By session: octets that an offload may forward although nobody has read its counters yet.
    /// Only an offload that chooses sessions sets them.
    reserves: LargeArray<Counter>,
}

impl FastRuleTable {
    pub(crate) fn new(sessions: usize, offload: Option<std::sync::Arc<dyn OffloadUsage>>) -> Self {
        let (cells, tunnels_to_ues) = (LargeArray::zeroed(sessions), LargeArray::zeroed(sessions));
        let reserves = LargeArray::zeroed(if offload.is_some() { sessions } else { 0 });
        Self { cells, tunnels_to_ues, offload, reserves }
    }

    /// Returns how many sessions the table has room for.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    pub(crate) fn cell(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<&FastRuleCell> {
        let cells = self.cells.get(session.0 as usize)?;
        Some(match direction {
            Direction::Uplink => &cells.uplink,
            Direction::Downlink => &cells.downlink,
        })
    }

    /// Replaces the fast rule of one direction; `None` clears the cell. Workers do not read the new
    /// rule before [`FastRuleTable::activate`] is called with the returned value. For the publisher
    /// only.
    pub(crate) fn set(
        &self,
        session: SessionIndex,
        direction: Direction,
        rule: Option<&PackedFastRule>,
    ) -> WrittenRule {
        self.cell(session, direction).map_or(WrittenRule::NONE, |cell| cell.set(rule))
    }

    /// Lets workers read the written rule, unless another rule was written since; returns whether
    /// it did. Packets count without checks up to octet `limit`. For the publisher only.
    pub(crate) fn activate(
        &self,
        session: SessionIndex,
        direction: Direction,
        written: WrittenRule,
        limit: u64,
    ) -> bool {
        let cell = self.cell(session, direction);
        cell.is_some_and(|cell| cell.activate(written, limit))
    }

    /// Replaces the fast rule of the tunnel in which another UPF sends packets to the UE; otherwise
    /// like [`FastRuleTable::set`].
    pub(crate) fn set_tunnel_to_ue(
        &self,
        session: SessionIndex,
        rule: Option<&PackedFastRule>,
    ) -> WrittenRule {
        let Some(cell) = self.tunnel_cell(session) else { return WrittenRule::NONE };
        // Leaves an empty cell unwritten, because an unwritten page takes no memory.
        if rule.is_none() && cell.is_empty() {
            return WrittenRule::NONE;
        }
        cell.set(rule)
    }

    /// Activates the rule that [`FastRuleTable::set_tunnel_to_ue`] wrote.
    pub(crate) fn activate_tunnel_to_ue(
        &self,
        session: SessionIndex,
        written: WrittenRule,
        limit: u64,
    ) {
        if let Some(cell) = self.tunnel_cell(session).filter(|_| written != WrittenRule::NONE) {
            cell.activate(written, limit);
        }
    }

    /// TEID of the rule that [`FastRuleTable::set_tunnel_to_ue`] wrote. For the publisher only.
    pub(crate) fn tunnel_to_ue(&self, session: SessionIndex) -> Option<Teid> {
        self.tunnel_cell(session)?.written_relay().map(|rule| rule.relayed_teid())
    }

    fn tunnel_cell(&self, session: SessionIndex) -> Option<&FastRuleCell> {
        self.tunnels_to_ues.get(session.0 as usize)
    }

    /// Returns the cell of the tunnel in which another UPF sends packets to the UE.
    #[inline]
    pub(crate) fn tunnel_cell_ref(&self, session: SessionIndex) -> Option<FastRuleCellRef<'_>> {
        self.tunnel_cell(session).map(FastRuleCellRef)
    }

    /// Returns the fast rule of one direction; `None` if there is none, or if it is being written.
    #[cfg(test)]
    fn get(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<crate::FastRuleSnapshot<'_>> {
        self.cell_ref(session, direction)?.read()
    }

    /// Returns the cell of one direction of a session.
    #[inline]
    pub(crate) fn cell_ref(
        &self,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<FastRuleCellRef<'_>> {
        self.cell(session, direction).map(FastRuleCellRef)
    }

    #[inline]
    pub(crate) fn prefetch(&self, session: SessionIndex, direction: Direction) {
        if let Some(cell) = self.cell(session, direction) {
            prefetch::read(cell);
        }
    }

    /// Returns the counts of a session's cells and offload entries, and its last packet's arrival.
    #[inline]
    pub(crate) fn counted(&self, session: SessionIndex) -> (SessionTraffic, Option<Nanos>) {
        let Some(FastRuleCells { uplink, downlink }) = self.cells.get(session.0 as usize) else {
            return (SessionTraffic::default(), None);
        };
        let of_tunnel = |counter: fn(&FastRuleCell) -> &Counter| {
            self.tunnel_cell(session).map_or(0, |cell| counter(cell).load())
        };
        let traffic = SessionTraffic {
            ul_pkts: uplink.pkts.load(),
            ul_bytes: uplink.bytes.load(),
            dl_pkts: downlink.pkts.load().wrapping_add(of_tunnel(|cell| &cell.pkts)),
            dl_bytes: downlink.bytes.load().wrapping_add(of_tunnel(|cell| &cell.bytes)),
        };
        let last = uplink.last.load().max(downlink.last.load()).max(of_tunnel(|cell| &cell.last));
        let last = Some(last).filter(|ns| *ns != 0).map(Nanos);
        let Some(offload) = &self.offload else { return (traffic, last) };
        let OffloadCounts { ul_pkts, ul_bytes, dl_pkts, dl_bytes, last: offloaded } =
            offload.counted(session);
        let traffic = traffic.plus(SessionTraffic { ul_pkts, ul_bytes, dl_pkts, dl_bytes });
        (traffic, last.max(offloaded))
    }

    /// Revokes the volume that an offload may count of a session without checks: until
    /// [`FastRuleTable::allow_unchecked`] is called, only the worker counts packets of the session.
    /// For the worker that owns the session only.
    #[inline]
    pub(crate) fn take_back(&self, session: SessionIndex) {
        if let Some(offload) = &self.offload {
            offload.take_back(session);
        }
    }

    /// Reserves `bytes` octets of a session for its offload entries: from the next division on, its
    /// cells may count that much less without checks. For the publisher only.
    pub(crate) fn reserve(&self, session: SessionIndex, bytes: u64) {
        self.reserves.get(session.0 as usize).inspect(|reserve| reserve.set(bytes));
    }

    /// Makes the worker check the next packet of a session, and then divide the volume again. For
    /// the publisher, at any time: if the worker divides at the same moment, either write may win.
    pub(crate) fn check_next(&self, session: SessionIndex) {
        let cells = self.cells.get(session.0 as usize);
        let cells = cells.into_iter().flat_map(|both| [&both.uplink, &both.downlink]);
        let tunnel = self.tunnel_cell(session).filter(|cell| !cell.is_empty());
        cells.chain(tunnel).for_each(FastRuleCell::check_next);
    }

    /// Returns how many more octets the cells of a session may count together without checks.
    pub(crate) fn unchecked_bytes(&self, session: SessionIndex) -> u64 {
        let cells = self.cells.get(session.0 as usize);
        let cells = cells.into_iter().flat_map(|both| [&both.uplink, &both.downlink]);
        let tunnel = self.tunnel_cell(session).filter(|cell| !cell.is_empty());
        cells.chain(tunnel).fold(0, |sum, cell| sum.saturating_add(cell.unchecked_bytes()))
    }

    /// Sets how many more octets count without checks: in all cells of a session together, and in
    /// its offload entries. For the worker that owns the session only.
    pub(crate) fn allow_unchecked(&self, session: SessionIndex, more: u64) {
        let Some(FastRuleCells { uplink, downlink }) = self.cells.get(session.0 as usize) else {
            return;
        };
        // An empty cell gets its limit when a rule in it is activated.
        let tunnel = self.tunnel_cell(session).filter(|cell| !cell.is_empty());
        let reserve = self.reserves.get(session.0 as usize).map_or(0, Counter::load);
        let more = if more == u64::MAX { more } else { more.saturating_sub(reserve) };
        let cells = if tunnel.is_some() { 3 } else { 2 };
        let share = match &self.offload {
            Some(offload) => offload.divide(session, more, cells),
            None => share_per_part(more, cells),
        };
        [Some(uplink), Some(downlink), tunnel]
            .into_iter()
            .flatten()
            .for_each(|cell| cell.allow_unchecked(share));
    }
}

impl fmt::Debug for FastRuleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastRuleTable").field("sessions", &self.cells.len()).finish()
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise fails")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use core::net::Ipv4Addr;

    use adit_rules::{
        FastRule, FastRuleForwarding, FastRulePeer, FastRuleTunnel, FastRuleUe, OuterTos,
    };
    use adit_types::{GtpuPeerIndex, InterfaceSet, NextHopIndex, SliceId};

    use super::*;
    use crate::fast_rule_cell::{CellFlags, CellWords, FastRuleSnapshot};

    const SESSION: SessionIndex = SessionIndex(1);

    fn downlink(seed: u32) -> PackedFastRule {
        PackedFastRule::from(&unpacked(seed))
    }

    fn unpacked(seed: u32) -> FastRule {
        FastRule {
            arrival: InterfaceSet(seed),
            ue_v4: FastRuleUe::Only(Ipv4Addr::from_bits(seed)),
            ue_v6: FastRuleUe::Only(u64::from(seed) << 32 | 7),
            forwarding: FastRuleForwarding::Downlink {
                teid: Teid(seed),
                peer: FastRulePeer::V4(Ipv4Addr::from_bits(seed)),
                next_hop: NextHopIndex(seed),
                tos: OuterTos::from_octet(0xff),
                marking: None,
            },
            meters: [false, true],
            slice: SliceId(15),
            guaranteed: true,
            usage: Default::default(),
        }
    }

    /// An offload without entries.
    #[derive(Debug)]
    struct CellsOnly;

    impl OffloadUsage for CellsOnly {
        fn counted(&self, _: SessionIndex) -> adit_rules::OffloadCounts {
            adit_rules::OffloadCounts::default()
        }

        fn take_back(&self, _: SessionIndex) {}

        fn divide(&self, _: SessionIndex, more: u64, others: u64) -> u64 {
            share_per_part(more, others)
        }
    }

    fn put(table: &FastRuleTable, direction: Direction, rule: &PackedFastRule) {
        let written = table.set(SESSION, direction, Some(rule));
        table.activate(SESSION, direction, written, u64::MAX);
    }

    #[test]
    fn flags_name_buckets_and_references_of_any_cell() {
        let table = FastRuleTable::new(2, None);
        let cell = table.cell_ref(SESSION, Direction::Downlink).unwrap();
        let is_found = || (cell.read().is_some(), cell.read_plain().is_some());
        assert_eq!((is_found(), cell.flags().is_rule()), ((false, false), false));
        let mut any = CellFlags::default();
        for (meters, is_metered) in [
            ([false, false], false),
            ([true, false], true),
            ([false, true], true),
            ([true; 2], true),
        ] {
            let rule = FastRule { meters, ..unpacked(1) };
            put(&table, Direction::Downlink, &PackedFastRule::from(&rule));
            assert_eq!(is_found(), (true, !is_metered), "{meters:?}");
            assert!(cell.flags().is_rule() && !cell.flags().may_refer());
            assert_eq!(cell.flags().may_be_metered(), is_metered, "{meters:?}");
            assert_eq!(cell.flags().is_plain_rule(), !is_metered, "{meters:?}");
            any |= cell.flags();
            assert_eq!(any.may_be_metered(), is_metered, "one of those so far: {meters:?}");
        }
        let written = cell.0.write_reference(0, CellWords::EMPTY);
        table.activate(SESSION, Direction::Downlink, written, u64::MAX);
        assert!(cell.flags().may_refer());
        assert_eq!((is_found(), cell.flags().is_rule()), ((false, false), false));
        any |= cell.flags();
        assert!(any.may_refer() && any.may_be_metered());
    }

    #[test]
    fn limit_is_divided_among_the_cells_that_have_rules_less_the_reserve() {
        for offload in [None, Some(Arc::new(CellsOnly) as Arc<dyn OffloadUsage>)] {
            let has_reserve = offload.is_some();
            let table = FastRuleTable::new(2, offload);
            put(&table, Direction::Downlink, &downlink(1));
            put(&table, Direction::Uplink, &downlink(2));
            table.allow_unchecked(SESSION, 1000);
            assert_eq!(table.unchecked_bytes(SESSION), 1000);
            table.reserve(SESSION, 100);
            table.allow_unchecked(SESSION, 1000);
            assert_eq!(table.unchecked_bytes(SESSION), if has_reserve { 900 } else { 1000 });
            table.allow_unchecked(SESSION, u64::MAX);
            assert_eq!(table.unchecked_bytes(SESSION), u64::MAX, "no limit has no reserve");
        }
    }

    #[test]
    fn session_without_a_fast_rule_has_none() {
        let table = FastRuleTable::new(2, None);
        put(&table, Direction::Downlink, &downlink(1));
        assert!(table.get(SESSION, Direction::Uplink).is_none());
        assert!(table.get(SessionIndex(0), Direction::Downlink).is_none());
        assert!(table.get(SessionIndex::NONE, Direction::Downlink).is_none());
        table.set(SESSION, Direction::Downlink, None);
        assert!(table.get(SESSION, Direction::Downlink).is_none());
    }

    #[test]
    fn fast_rule_is_read_once_it_is_active_and_never_after_another_one() {
        let table = FastRuleTable::new(2, None);
        let get = || table.get(SESSION, Direction::Downlink).map(|rule| rule.next_hop().0);
        let first = table.set(SESSION, Direction::Downlink, Some(&downlink(1)));
        assert_eq!(get(), None);
        let second = table.set(SESSION, Direction::Downlink, Some(&downlink(2)));
        table.activate(SESSION, Direction::Downlink, first, u64::MAX);
        assert_eq!(get(), None);
        table.activate(SESSION, Direction::Downlink, second, u64::MAX);
        assert_eq!(get(), Some(2));
        let gone = table.set(SESSION, Direction::Downlink, None);
        table.activate(SESSION, Direction::Downlink, second, u64::MAX);
        table.activate(SESSION, Direction::Downlink, gone, u64::MAX);
        assert_eq!(get(), None);
    }

    #[test]
    fn rule_from_tunnel_to_tunnel_is_read_only_by_who_expects_it_and_counts_downlink() {
        let table = FastRuleTable::new(2, None);
        let onward = FastRuleTunnel {
            teid: Teid(3),
            addr: Ipv4Addr::LOCALHOST,
            next_hop: NextHopIndex(4),
            tos: OuterTos::default(),
        };
        let forwarding = FastRuleForwarding::Relay {
            teid: Teid(9),
            qfis: Default::default(),
            onward,
            marking: None,
            keeps_container: true,
        };
        let rule = FastRule { forwarding, meters: [false; 2], ..unpacked(1) };
        let rule = PackedFastRule::from(&rule);
        let cell = table.tunnel_cell_ref(SESSION).unwrap();
        assert_eq!(table.set_tunnel_to_ue(SESSION, None), WrittenRule::NONE);
        assert!(cell.0.is_empty(), "an empty line stays untouched");
        let written = table.set_tunnel_to_ue(SESSION, Some(&rule));
        assert_eq!(table.tunnel_to_ue(SESSION), Some(Teid(9)));
        assert!(cell.read_any().is_none());
        table.activate_tunnel_to_ue(SESSION, written, u64::MAX);
        assert!(cell.read().is_none() && cell.read_plain().is_none());
        assert_eq!(cell.read_any_plain().unwrap().onward(), onward);
        assert!(cell.flags().is_any_rule() && cell.flags().may_relay() && !cell.flags().is_rule());
        cell.read_any().unwrap().count(50, Nanos(7));
        let expected = SessionTraffic { dl_pkts: 1, dl_bytes: 50, ..SessionTraffic::default() };
        assert_eq!(table.counted(SESSION), (expected, Some(Nanos(7))));
        table.set_tunnel_to_ue(SESSION, None);
        table.activate_tunnel_to_ue(SESSION, written, u64::MAX);
        assert!(cell.read_any().is_none() && table.tunnel_to_ue(SESSION).is_none());
    }

    #[test]
    fn rule_into_a_tunnel_over_ipv6_is_read_only_by_who_expects_it() {
        let table = FastRuleTable::new(2, None);
        let mut rule = FastRule { meters: [false; 2], ..unpacked(1) };
        if let FastRuleForwarding::Downlink { peer, .. } = &mut rule.forwarding {
            *peer = FastRulePeer::V6(GtpuPeerIndex(6));
        }
        put(&table, Direction::Downlink, &PackedFastRule::from(&rule));
        let cell = table.cell_ref(SESSION, Direction::Downlink).unwrap();
        assert!(cell.read().is_none() && cell.read_plain().is_none());
        assert!(!cell.flags().is_rule() && cell.flags().may_relay());
        assert_eq!(cell.peer(), GtpuPeerIndex(6));
        let found = cell.read_any_plain().unwrap();
        assert_eq!((found.leads_into_v6(), found.tunnel_over_v6().1), (true, cell.peer()));
    }

    #[test]
    fn reader_never_sees_a_mixture_of_two() {
        const WRITES: u32 = if cfg!(miri) { 20 } else { 20_000 };
        let table = FastRuleTable::new(2, None);
        let done = AtomicBool::new(false);
        let is_whole = |rule: &FastRuleSnapshot<'_>| {
            let NextHopIndex(seed) = rule.next_hop();
            let expected = downlink(seed);
            let flags = rule.flags() & !PackedFastRule::PUBLISHER_FLAGS;
            (flags, rule.words()) == (expected.flags(), expected.words())
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for seed in 1..=WRITES {
                    put(&table, Direction::Downlink, &downlink(seed));
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                if let Some(seen) = table.get(SESSION, Direction::Downlink) {
                    assert!(is_whole(&seen), "{seen:?}");
                }
            }
        });
        let last = table.get(SESSION, Direction::Downlink).unwrap();
        assert!(is_whole(&last) && last.next_hop() == NextHopIndex(WRITES));
    }
}
