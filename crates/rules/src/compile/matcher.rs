//! Compiles matchers from the PDRs of a session.

use core::net::IpAddr;

use adit_types::Direction;

use crate::matcher::entry::{FilterEntry, Prefix, of_filter, prefix};
use crate::matcher::{MATCHER_PDRS_MAX, Matcher, Matchers};
use crate::rule::PdrEntry;
use crate::sdf::PacketFilter;

impl Matcher {
    /// Compiles the filters of the usual PDRs of `direction` ([`PdrEntry::is_usual`]) among `pdrs`,
    /// which are sorted by precedence. A PDR without filters matches every packet. `None` if a walk
    /// through the PDRs does as well (no filter), or if there are more than [`MATCHER_PDRS_MAX`]
    /// PDRs.
    #[must_use]
    pub fn compile(direction: Direction, pdrs: &[PdrEntry]) -> Option<Self> {
        let has_filters = |pdr: &PdrEntry| !pdr.sdf.is_empty() && pdr.is_usual(direction);
        if !pdrs.iter().any(has_filters) || pdrs.len() > MATCHER_PDRS_MAX {
            return None;
        }
        let [v4, v6] = [false, true].map(|is_v6| of_pdrs(direction, pdrs, is_v6));
        Self::of(&v4, &v6)
    }
}

impl Matchers {
    /// Compiles the matchers of both directions of a session; `None` if it has no SDF filter.
    #[must_use]
    pub fn compile(uplink: &[PdrEntry], downlink: &[PdrEntry]) -> Option<Self> {
        let matchers = [(Direction::Uplink, uplink), (Direction::Downlink, downlink)];
        let matchers = matchers.map(|(direction, pdrs)| Matcher::compile(direction, pdrs));
        matchers.iter().any(Option::is_some).then_some(Self(matchers))
    }
}

/// Returns the filters of the usual PDRs for one address family, in the order of the PDRs.
pub(super) fn of_pdrs(direction: Direction, pdrs: &[PdrEntry], is_v6: bool) -> Vec<FilterEntry> {
    let mut entries = Vec::new();
    let usual = || (0_u16..).zip(pdrs).filter(|(_, pdr)| pdr.is_usual(direction));
    let first = usual().next();
    for (number, pdr) in usual() {
        let Some(own) = own_prefix(pdr, is_v6) else { continue };
        let conditions = match first {
            Some((_, first)) if has_same_conditions(pdr, first) => 0,
            _ => number,
        };
        let any = [PacketFilter::ANY];
        let is_whole = pdr.sdf.is_empty() || pdr.sdf.is_compiled();
        let filters = if is_whole { &any[..] } else { &pdr.sdf };
        let of_pdr = filters.iter().flat_map(|filter| of_filter(filter, own, is_v6));
        entries.extend(of_pdr.map(|entry| {
            let is_unsure = entry.is_unsure || pdr.sdf.is_compiled();
            FilterEntry { pdr: number, conditions, is_unsure, ..entry }
        }));
    }
    entries
}

fn has_same_conditions(a: &PdrEntry, b: &PdrEntry) -> bool {
    let conditions = |pdr: &PdrEntry| (pdr.source, pdr.interfaces, pdr.teid, pdr.ue);
    conditions(a) == conditions(b) && a.qfis == b.qfis && a.ue_networks == b.ue_networks
}

/// Returns the UE addresses that packets of one family must have to match a PDR. `None` if the PDR
/// matches no packet of the family.
pub(super) fn own_prefix(pdr: &PdrEntry, is_v6: bool) -> Option<Prefix> {
    if pdr.ue.is_empty() || !pdr.ue_networks.is_empty() {
        return Some(Prefix::ANY);
    }
    match is_v6 {
        false => pdr.ue.v4.map(|addr| prefix(IpAddr::V4(addr), 32)),
        true => pdr.ue.v6.map(|own| prefix(IpAddr::V6(own.addr()), own.len())),
    }
}
