//! The blocks and areas of destinations that contain UEs. Only packets to these take the search for local
//! switching.
//!
//! An IPv4 block is a /16. An IPv6 area is one of 2^16 parts by a hash of the upper 48 bits. Destinations
//! that share a block or area with UEs take the search as well, which finds their route.

use core::net::Ipv6Addr;
use core::ops::RangeInclusive;

use adit_rules::rule::ue_ipv6_key;
use adit_rules::{NetworkPart, SessionKey};
use adit_types::{InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix};

use crate::area_bits::{AREAS, area};
use crate::routes::Routes;

/// The blocks or areas of a prefix of `len` bits, counted from its first one. `bits` bits of an address
/// distinguish them; the last 16 of these are enough to name all areas.
fn members(len: u8, bits: u8) -> RangeInclusive<u16> {
    let last = match bits.saturating_sub(len) {
        spare @ 0..16 => (1 << spare) - 1,
        _ => u16::MAX,
    };
    0..=last
}

/// The number of UE keys in each block and each area. The publisher owns it.
#[derive(Debug)]
pub(crate) struct UeAreas {
    v4: Vec<u32>,
    v6: Vec<u32>,
    /// Parts that were marked, or whose marks were removed, if they are noted for an offload.
    changed: Option<Vec<NetworkPart>>,
}

impl UeAreas {
    /// No UEs. With `notes_changes`, [`UeAreas::take_changed`] returns the parts whose marks changed.
    pub(crate) fn new(notes_changes: bool) -> Self {
        let changed = notes_changes.then(Vec::new);
        Self { v4: vec![0; AREAS], v6: vec![0; AREAS], changed }
    }

    /// A part whose mark changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Option<NetworkPart> {
        self.changed.as_mut()?.pop()
    }

    /// Adds a key of a domain with local switching, whose data network is behind `within`.
    pub(crate) fn add(&mut self, routes: &Routes, within: InterfaceSet, key: SessionKey) {
        let is_first = |count: &mut u32| {
            *count += 1;
            *count == 1
        };
        self.count(routes, within, key, is_first, true);
    }

    /// Removes a key that was added.
    pub(crate) fn remove(&mut self, routes: &Routes, within: InterfaceSet, key: SessionKey) {
        let was_last = |count: &mut u32| {
            *count = count.saturating_sub(1);
            *count == 0
        };
        self.count(routes, within, key, was_last, false);
    }

    /// Changes the counts of a key, and marks the blocks or areas for which `change` returns true.
    fn count(
        &mut self,
        routes: &Routes,
        within: InterfaceSet,
        key: SessionKey,
        change: impl Fn(&mut u32) -> bool,
        has_ues: bool,
    ) {
        let prefix = match key {
            SessionKey::Teid(_) => None,
            SessionKey::UeIpv4(_, addr) => Ipv4Prefix::containing(addr, 32).map(IpPrefix::V4),
            SessionKey::UeIpv6(_, key) => {
                let addr = Ipv6Addr::from_bits(u128::from(key) << 64);
                Ipv6Prefix::containing(addr, 64).map(IpPrefix::V6)
            }
            // While a route of the data network has the same prefix, it gets the packets, not the
            // network behind the UE.
            SessionKey::Framed(_, prefix) => {
                Some(prefix).filter(|prefix| !routes.has_network_route(within, *prefix))
            }
        };
        match prefix {
            Some(IpPrefix::V4(prefix)) => {
                let [high, low, ..] = prefix.addr().octets();
                for nth in members(prefix.len(), 16) {
                    let block = u16::from_be_bytes([high, low]).wrapping_add(nth);
                    if self.v4.get_mut(usize::from(block)).is_some_and(&change) {
                        routes.mark_v4(block, has_ues);
                        self.changed.iter_mut().for_each(|of| of.push(NetworkPart::V4(block)));
                    }
                }
            }
            Some(IpPrefix::V6(prefix)) => {
                let first = ue_ipv6_key(prefix.addr());
                for nth in members(prefix.len(), 48) {
                    let area = area(first.wrapping_add(u64::from(nth) << 16));
                    if self.v6.get_mut(usize::from(area)).is_some_and(&change) {
                        routes.mark_v6(area, has_ues);
                        self.changed.iter_mut().for_each(|of| of.push(NetworkPart::V6(area)));
                    }
                }
            }
            None => {}
        }
    }
}
