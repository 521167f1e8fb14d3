//! Counts UEs by block and area of destinations. Only packets to a block or area with UEs are
//! searched for local switching.
//!
//! An IPv4 block is a /16. An IPv6 area has the addresses whose first three 16-bit groups XOR to
//! one value. Packets to other destinations in a block or area with UEs are searched as well, and
//! the search finds their route. A *part* is a block or an area.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use adit_rules::rule::ue_ipv6_key;
use adit_rules::{NetworkPart, SessionKey};
use adit_types::{InterfaceSet, IpPrefix};

use crate::area_bits::{AREA_COUNT, area};
use crate::routes::Routes;

/// Returns the positions of the blocks or areas of a prefix of `len` bits, from its first one on.
/// `bits` bits of an address distinguish them; the last 16 of these cover all areas.
fn members(len: u8, bits: u8) -> RangeInclusive<u16> {
    let last = match bits.saturating_sub(len) {
        spare @ 0..16 => (1 << spare) - 1,
        _ => u16::MAX,
    };
    0..=last
}

/// How many UE keys are in each block and each area. The publisher owns it.
#[derive(Debug)]
pub(crate) struct UeAreas {
    v4: Vec<u32>,
    v6: Vec<u32>,
    /// Framed routes, each with the interfaces of its data network, and whether it is counted in
    /// its parts: it is not if a route has the same prefix.
    framed: BTreeMap<SessionKey, (InterfaceSet, bool)>,
    /// Blocks and areas that got their first UE or lost their last one, and that
    /// [`UeAreas::take_changed`] has not returned yet; `None` without an offload.
    changed: Option<Vec<NetworkPart>>,
}

impl UeAreas {
    /// Creates counts of zero. Only with `notes_changes` does [`UeAreas::take_changed`] return
    /// parts.
    pub(crate) fn new(notes_changes: bool) -> Self {
        let changed = notes_changes.then(Vec::new);
        Self { v4: vec![0; AREA_COUNT], v6: vec![0; AREA_COUNT], framed: BTreeMap::new(), changed }
    }

    /// Returns a part whose mark has changed and that was not returned since.
    pub(crate) fn take_changed(&mut self) -> Option<NetworkPart> {
        self.changed.as_mut()?.pop()
    }

    /// Adds a key of a domain with local switching, whose data network is behind `within`.
    pub(crate) fn add(&mut self, routes: &Routes, within: InterfaceSet, key: SessionKey) {
        let Some(prefix) = key.prefix() else { return };
        if let SessionKey::Framed(..) = key {
            // If a route to the data network has the same prefix, packets go to the data network,
            // not to the network behind the UE.
            let is_counted = !routes.has_network_route(within, prefix);
            self.framed.insert(key, (within, is_counted));
            if !is_counted {
                return;
            }
        }
        self.count(prefix, true, |part| mark(routes, part, true));
    }

    /// Removes a key that [`UeAreas::add`] added.
    pub(crate) fn remove(&mut self, routes: &Routes, _: InterfaceSet, key: SessionKey) {
        let Some(prefix) = key.prefix() else { return };
        let is_counted = match key {
            SessionKey::Framed(..) => self.framed.remove(&key).is_some_and(|(_, counted)| counted),
            _ => true,
        };
        if is_counted {
            self.count(prefix, false, |part| mark(routes, part, false));
        }
    }

    /// Counts framed routes again by `routes`, which are about to replace others, and marks in them
    /// the parts with UEs. No reader may have `routes` yet.
    pub(crate) fn move_to(&mut self, routes: &Routes) {
        let mut framed = core::mem::take(&mut self.framed);
        for (key, (within, is_counted)) in &mut framed {
            let Some(prefix) = SessionKey::prefix(*key) else { continue };
            let was_counted =
                core::mem::replace(is_counted, !routes.has_network_route(*within, prefix));
            if was_counted != *is_counted {
                self.count(prefix, *is_counted, |_| ());
            }
        }
        self.framed = framed;
        let with_ues = |counts: &[u32]| -> Vec<u16> {
            let all = (0..=u16::MAX).zip(counts);
            all.filter(|(_, count)| **count > 0).map(|(at, _)| at).collect()
        };
        with_ues(&self.v4).into_iter().for_each(|block| routes.mark_v4(block, true));
        with_ues(&self.v6).into_iter().for_each(|area| routes.mark_v6(area, true));
    }

    /// Counts one prefix more (`is_more`) or less in each of its parts. Calls `on_change` for each
    /// part whose count becomes one or zero by that.
    fn count(&mut self, prefix: IpPrefix, is_more: bool, mut on_change: impl FnMut(NetworkPart)) {
        for part in parts(prefix) {
            let count = match part {
                NetworkPart::V4(block) => self.v4.get_mut(usize::from(block)),
                NetworkPart::V6(area) => self.v6.get_mut(usize::from(area)),
            };
            let Some(count) = count else { continue };
            *count = if is_more { *count + 1 } else { count.saturating_sub(1) };
            if *count == u32::from(is_more) {
                on_change(part);
                self.changed.iter_mut().for_each(|of| of.push(part));
            }
        }
    }
}

/// Returns the blocks or areas of a prefix.
fn parts(prefix: IpPrefix) -> impl Iterator<Item = NetworkPart> {
    let (first, len) = match prefix {
        IpPrefix::V4(prefix) => (u64::from(prefix.addr().to_bits() >> 16), prefix.len()),
        IpPrefix::V6(prefix) => (ue_ipv6_key(prefix.addr()), prefix.len()),
    };
    let is_v4 = matches!(prefix, IpPrefix::V4(_));
    members(len, if is_v4 { 16 } else { 48 }).map(move |nth| match is_v4 {
        true => NetworkPart::V4(u16::try_from(first).unwrap_or(0).wrapping_add(nth)),
        false => NetworkPart::V6(area(first.wrapping_add(u64::from(nth) << 16))),
    })
}

/// Marks a part that contains UEs, or removes the mark.
fn mark(routes: &Routes, part: NetworkPart, has_ues: bool) {
    match part {
        NetworkPart::V4(block) => routes.mark_v4(block, has_ues),
        NetworkPart::V6(area) => routes.mark_v6(area, has_ues),
    }
}
