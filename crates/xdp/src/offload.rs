//! Writes the program's maps: entries, keys, next hops, gateways.

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use adit_rules::{
    NetworkPart, Offload, OffloadBatch, OffloadInterfaceTotals, OffloadNotice, OffloadRefusal,
    OffloadRule, OffloadTotals, OffloadUsage, SessionKey,
};
use adit_types::{
    Direction, DomainId, InterfaceId, InterfaceSet, MacAddr, NextHopIndex, SessionIndex, Teid,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::batches::Batches;
use crate::entry::pack_rule;
use crate::layout::{
    COUNTER_ROWS, COUNTER_WORDS, EGRESS_SETS_MAX, GATEWAYS, HOP_INTERFACE_SHIFT, HOP_RESOLVED,
    INTERFACE_WORDS, MAPPED_INTERFACES_MAX, NETWORKS, head, word,
};
use crate::mapped::MappedArray;
use crate::program::XdpProgram;
use crate::usage::XdpUsage;

/// A pool of UE addresses, and the index of its first address in the array for all pools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MappedPool {
    pub(crate) domain: DomainId,
    pub(crate) first: u32,
    pub(crate) len: u32,
    pub(crate) offset: u32,
}

/// The program's maps. Only the control thread writes through this.
#[derive(Debug)]
pub struct XdpOffload {
    pub(crate) usage: Arc<XdpUsage>,
    pub(crate) batches: Batches,
    pub(crate) teids: MappedArray,
    pub(crate) teid_mask: u32,
    /// For each index of a TEID: how many TEIDs beyond the first its session has there.
    pub(crate) same_place: BTreeMap<u32, u32>,
    pub(crate) ue_pools: MappedArray,
    pub(crate) pools: Vec<MappedPool>,
    pub(crate) ues: MapHandle,
    pub(crate) next_hops: MappedArray,
    pub(crate) networks: MappedArray,
    pub(crate) gateways: MappedArray,
    pub(crate) egress_sets: Vec<InterfaceSet>,
    pub(crate) counters: MappedArray,
    pub(crate) interfaces: MappedArray,
    /// The links with tunnels, and their own MTUs.
    pub(crate) tunnel_mtus: Vec<(InterfaceId, u16)>,
    pub(crate) programs: Vec<XdpProgram>,
}

/// Builds the key of a UE in the hash table: its IPv4 address or upper half of its IPv6 address,
/// then routing domain and IP version.
fn ue_key(domain: DomainId, addr: u64, version: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let kind = u64::from(domain.0) | version << 8;
    key[..8].copy_from_slice(&addr.to_ne_bytes());
    key[8..].copy_from_slice(&kind.to_ne_bytes());
    key
}

impl XdpOffload {
    /// Keeps programs attached while the offload lives.
    pub fn keep_attached(&mut self, programs: Vec<XdpProgram>) {
        self.programs.extend(programs);
    }

    /// Returns the index of a TEID: its low bits.
    const fn place_of(&self, teid: Teid) -> u32 {
        teid.0 & self.teid_mask
    }

    /// Returns the slot for the session of a TEID.
    fn teid_place(&self, teid: Teid) -> Option<&core::sync::atomic::AtomicU32> {
        self.teids.halves().get(self.place_of(teid) as usize)
    }

    /// Returns the slot for the session of a UE's IPv4 address, if the address is in a pool.
    fn pool_place(&self, domain: DomainId, addr: u32) -> Option<&core::sync::atomic::AtomicU32> {
        let at = self.pools.iter().find_map(|pool| {
            let at = addr.wrapping_sub(pool.first);
            (pool.domain == domain && at < pool.len).then(|| at + pool.offset)
        })?;
        self.ue_pools.halves().get(at as usize)
    }

    fn egress_set(&self, within: InterfaceSet) -> Option<u32> {
        let at = self.egress_sets.iter().position(|set| *set == within)?;
        u32::try_from(at).ok()
    }
}

const fn direction_index(direction: Direction) -> usize {
    match direction {
        Direction::Uplink => 0,
        Direction::Downlink => 1,
    }
}

impl Offload for XdpOffload {
    fn put(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        rule: &OffloadRule<'_>,
    ) -> Result<(), OffloadRefusal> {
        let words = pack_rule(rule, |within| self.egress_set(within))?;
        let Some(entry) = self.usage.entry(session, direction_index(direction)) else {
            return Err(OffloadRefusal("there is no room for the session".into()));
        };
        let number = (entry[word::HEAD].load(Ordering::Relaxed) & head::NUMBER) + 1;
        let number = if number >= head::NUMBERS_END { 1 } else { number };
        for at in word::HEAD + 1..word::BUDGET {
            entry[at].store(words[at], Ordering::Relaxed);
        }
        entry[word::HEAD].store(words[word::HEAD] | number | head::ACTIVE, Ordering::Release);
        Ok(())
    }

    fn remove(&mut self, session: SessionIndex, direction: Direction) {
        if let Some(entry) = self.usage.entry(session, direction_index(direction)) {
            let number = entry[word::HEAD].load(Ordering::Relaxed) & head::NUMBER;
            entry[word::HEAD].store(number, Ordering::Release);
        }
    }

    fn add_key(&mut self, key: SessionKey, session: SessionIndex) {
        let value = session.0.wrapping_add(1);
        let insert = |key: [u8; 16]| {
            // If the table is full, the UE's packets find no entry and take a worker.
            let _ = self.ues.update(&key, &value.to_ne_bytes(), MapFlags::ANY);
        };
        match key {
            SessionKey::Teid(teid) => {
                let Some(place) = self.teid_place(teid) else { return };
                match place.load(Ordering::Relaxed) {
                    0 => place.store(value, Ordering::Release),
                    known if known == value => {
                        *self.same_place.entry(self.place_of(teid)).or_default() += 1
                    }
                    // If the TEIDs of two sessions have one index, the first session keeps it.
                    _ => {}
                }
            }
            SessionKey::UeIpv4(domain, addr) => match self.pool_place(domain, addr.to_bits()) {
                Some(place) => place.store(value, Ordering::Release),
                None => insert(ue_key(domain, addr.to_bits().into(), 4)),
            },
            SessionKey::UeIpv6(domain, upper) => insert(ue_key(domain, upper, 6)),
            SessionKey::Framed(..) => {}
        }
    }

    fn remove_key(&mut self, key: SessionKey, session: SessionIndex) {
        let value = session.0.wrapping_add(1);
        let remove = |key: [u8; 16]| {
            if let Ok(Some(known)) = self.ues.lookup(&key, MapFlags::ANY)
                && known == value.to_ne_bytes()
            {
                let _ = self.ues.delete(&key);
            }
        };
        let clear = |place: &core::sync::atomic::AtomicU32| {
            if place.load(Ordering::Relaxed) == value {
                place.store(0, Ordering::Release);
            }
        };
        match key {
            SessionKey::Teid(teid) => {
                let at = self.place_of(teid);
                let Some(place) = self.teids.halves().get(at as usize) else { return };
                let is_kept = place.load(Ordering::Relaxed) == value;
                match self.same_place.get_mut(&at).filter(|_| is_kept) {
                    None => clear(place),
                    Some(further) if *further > 1 => *further -= 1,
                    Some(_) => drop(self.same_place.remove(&at)),
                }
            }
            SessionKey::UeIpv4(domain, addr) => match self.pool_place(domain, addr.to_bits()) {
                Some(place) => clear(place),
                None => remove(ue_key(domain, addr.to_bits().into(), 4)),
            },
            SessionKey::UeIpv6(domain, upper) => remove(ue_key(domain, upper, 6)),
            SessionKey::Framed(..) => {}
        }
    }

    fn limit_tunnels(&mut self, mtu_bytes: u16) {
        for (id, link) in &self.tunnel_mtus {
            // The MTU follows the six octets of the address in memory.
            if let Some(word) = self.interfaces.words().get(usize::from(id.0) * INTERFACE_WORDS) {
                let mut octets = word.load(Ordering::Relaxed).to_ne_bytes();
                octets[6..].copy_from_slice(&(*link).min(mtu_bytes).to_ne_bytes());
                word.store(u64::from_ne_bytes(octets), Ordering::Relaxed);
            }
        }
    }

    fn set_next_hop(&mut self, index: NextHopIndex, hop: Option<(InterfaceId, MacAddr)>) {
        let Some(cell) = self.next_hops.words().get(index.0 as usize) else { return };
        let value = hop.map_or(0, |(interface, MacAddr([a, b, c, d, e, f]))| {
            HOP_RESOLVED
                | u64::from(interface.0) << HOP_INTERFACE_SHIFT
                | u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
        });
        cell.store(value, Ordering::Release);
    }

    fn set_networks(&mut self, part: NetworkPart, gateway: u8) {
        let at = match part {
            NetworkPart::V4(part) => usize::from(part),
            NetworkPart::V6(part) => NETWORKS + usize::from(part),
        };
        if let Some(cell) = self.networks.octets().get(at)
            && cell.load(Ordering::Relaxed) != gateway
        {
            cell.store(gateway, Ordering::Release);
        }
    }

    fn set_gateway(&mut self, within: InterfaceSet, gateway: u8, next_hop: Option<NextHopIndex>) {
        let at = match self.egress_set(within) {
            Some(at) => at as usize,
            None if self.egress_sets.len() < EGRESS_SETS_MAX => {
                self.egress_sets.push(within);
                self.egress_sets.len() - 1
            }
            None => return,
        };
        let cell = self.gateways.halves().get(at * GATEWAYS + usize::from(gateway));
        let value = next_hop.map_or(0, |index| index.0.wrapping_add(1));
        cell.inspect(|cell| cell.store(value, Ordering::Release));
    }

    fn close(&mut self) -> OffloadBatch {
        self.batches.close()
    }

    fn passed(&self) -> OffloadBatch {
        self.batches.passed()
    }

    fn usage(&self) -> Arc<dyn OffloadUsage> {
        let usage: Arc<XdpUsage> = Arc::clone(&self.usage);
        usage
    }

    fn take_notice(&mut self) -> Option<OffloadNotice> {
        let words = self.batches.take_refusal()?;
        let words = format!("changes wait for the kernel: {words}");
        Some(OffloadNotice::Refused(OffloadRefusal(words.into())))
    }

    fn name(&self) -> &'static str {
        "xdp"
    }

    fn totals(&self) -> OffloadTotals {
        let (rows, _) = self.counters.words().as_chunks::<COUNTER_WORDS>();
        let mut totals = OffloadTotals {
            interfaces: vec![Default::default(); MAPPED_INTERFACES_MAX],
            passed_pkts: 0,
        };
        for of_processor in rows.chunks(COUNTER_ROWS) {
            for (at, row) in of_processor.iter().enumerate() {
                let [rx_pkts, rx_bytes, ul_pkts, ul_bytes, dl_pkts, dl_bytes, _, _] =
                    row.each_ref().map(|cell| cell.load(Ordering::Relaxed));
                let Some(sum) = totals.interfaces.get_mut(at) else {
                    totals.passed_pkts += rx_pkts;
                    continue;
                };
                let OffloadInterfaceTotals {
                    rx_pkts: a,
                    rx_bytes: b,
                    ul_pkts: c,
                    ul_bytes: d,
                    dl_pkts: e,
                    dl_bytes: f,
                } = sum;
                let counts = [rx_pkts, rx_bytes, ul_pkts, ul_bytes, dl_pkts, dl_bytes];
                for (sum, count) in [a, b, c, d, e, f].into_iter().zip(counts) {
                    *sum = sum.wrapping_add(count);
                }
            }
        }
        totals
    }
}
