//! SDF filters that exclude nothing.
//!
//! Control planes put "permit out ip from any to assigned" into every session. It matches all
//! packets that meet the other conditions of its PDR, so the PDR needs neither matcher nor
//! comparison.

use super::matcher::own_prefix;
use crate::matcher::entry::of_filter;
use crate::rule::PdrEntry;
use crate::sdf::PacketFilter;

/// True if `pdr` has SDF filters and one of them matches every packet that meets its other
/// conditions. Not for filters that have a matcher of their own.
#[must_use]
pub fn has_idle_filters(pdr: &PdrEntry) -> bool {
    !pdr.sdf.is_compiled() && pdr.sdf.iter().any(|filter| matches_all_of(filter, pdr))
}

/// True if in each family of the UEs of `pdr` the filter leaves nothing to compare: its entries are
/// those of a filter that matches every packet.
fn matches_all_of(filter: &PacketFilter, pdr: &PdrEntry) -> bool {
    let any = PacketFilter::ANY;
    [false, true].into_iter().all(|is_v6| {
        own_prefix(pdr, is_v6)
            .is_none_or(|own| of_filter(filter, own, is_v6) == of_filter(&any, own, is_v6))
    })
}
