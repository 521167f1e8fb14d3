//! SDF filters that exclude nothing.
//!
//! Control planes put "permit out ip from any to assigned" into every session. It matches all
//! packets that meet the other conditions of its PDR, so the PDR needs neither matcher nor
//! comparison.

use super::matcher::own_prefix;
use crate::matcher::entry::of_filter;
use crate::rule::PdrEntry;
use crate::sdf::PacketFilter;

/// True if one of the SDF filters of `pdr` matches every packet that meets the PDR's other
/// conditions. Filters that are already compiled are not looked at.
#[must_use]
pub fn has_idle_filters(pdr: &PdrEntry) -> bool {
    !pdr.sdf.is_compiled() && pdr.sdf.iter().any(|filter| matches_all_of(filter, pdr))
}

/// True if `filter` compiles to the same entries as a filter for all packets, for each family in
/// which `pdr` has a UE address.
fn matches_all_of(filter: &PacketFilter, pdr: &PdrEntry) -> bool {
    let any = PacketFilter::ANY;
    [false, true].into_iter().all(|is_v6| {
        own_prefix(pdr, is_v6)
            .is_none_or(|own| of_filter(filter, own, is_v6) == of_filter(&any, own, is_v6))
    })
}
