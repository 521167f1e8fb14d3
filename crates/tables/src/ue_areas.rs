//! The blocks and areas of destinations that contain UEs. Only packets to these take the search for
//! local switching.
//!
//! An IPv4 block is a /16. An IPv6 area is one of 2^16 parts by a hash of the upper 48 bits.
//! Destinations that share a block or area with UEs take the search as well, which finds their
//! route.

use core::net::Ipv6Addr;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use adit_rules::rule::ue_ipv6_key;
use adit_rules::{NetworkPart, SessionKey};
use adit_types::{InterfaceSet, IpPrefix, Ipv4Prefix, Ipv6Prefix};

use crate::area_bits::{AREAS, area};
use crate::routes::Routes;

/// The blocks or areas of a prefix of `len` bits, counted from its first one. `bits` bits of an
/// address distinguish them; the last 16 of these are enough to name all areas.
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
    /// Framed routes, the interfaces of their data networks, and whether their parts are counted:
    /// routes decide that.
    framed: BTreeMap<SessionKey, (InterfaceSet, bool)>,
    /// Parts that were marked, or whose marks were removed, if they are noted for an offload.
    changed: Option<Vec<NetworkPart>>,
}

impl UeAreas {
    /// No UEs. With `notes_changes`, [`UeAreas::take_changed`] returns the parts whose marks
    /// changed.
    pub(crate) fn new(notes_changes: bool) -> Self {
        let changed = notes_changes.then(Vec::new);
        Self { v4: vec![0; AREAS], v6: vec![0; AREAS], framed: BTreeMap::new(), changed }
    }

    /// A part whose mark changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Option<NetworkPart> {
        self.changed.as_mut()?.pop()
    }

    /// Adds a key of a domain with local switching, whose data network is behind `within`.
    pub(crate) fn add(&mut self, routes: &Routes, within: InterfaceSet, key: SessionKey) {
        let Some(prefix) = prefix_of(key) else { return };
        if let SessionKey::Framed(..) = key {
            // While a route of the data network has the same prefix, it gets the packets, not the
            // network behind the UE.
            let is_counted = !routes.has_network_route(within, prefix);
            self.framed.insert(key, (within, is_counted));
            if !is_counted {
                return;
            }
        }
        self.count(prefix, true, |part| mark(routes, part, true));
    }

    /// Removes a key that was added.
    pub(crate) fn remove(&mut self, routes: &Routes, _: InterfaceSet, key: SessionKey) {
        let Some(prefix) = prefix_of(key) else { return };
        let is_counted = match key {
            SessionKey::Framed(..) => self.framed.remove(&key).is_some_and(|(_, counted)| counted),
            _ => true,
        };
        if is_counted {
            self.count(prefix, false, |part| mark(routes, part, false));
        }
    }

    /// Counts framed routes by `routes`, which take the place of others, and marks their parts with
    /// UEs. For routes that no reader has yet.
    pub(crate) fn move_to(&mut self, routes: &Routes) {
        let mut framed = core::mem::take(&mut self.framed);
        for (key, (within, is_counted)) in &mut framed {
            let Some(prefix) = prefix_of(*key) else { continue };
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

    /// Counts one prefix more or fewer in each of its parts, and calls `on_change` for the parts
    /// that get their first one or lose their last one.
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

/// The addresses of a key of a UE or of a network behind it.
fn prefix_of(key: SessionKey) -> Option<IpPrefix> {
    match key {
        SessionKey::Teid(_) => None,
        SessionKey::UeIpv4(_, addr) => Ipv4Prefix::containing(addr, 32).map(IpPrefix::V4),
        SessionKey::UeIpv6(_, key) => {
            let addr = Ipv6Addr::from_bits(u128::from(key) << 64);
            Ipv6Prefix::containing(addr, 64).map(IpPrefix::V6)
        }
        SessionKey::Framed(_, prefix) => Some(prefix),
    }
}

/// The blocks or areas of a prefix.
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
