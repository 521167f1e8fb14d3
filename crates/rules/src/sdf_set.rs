//! The SDF filters of a PDR or of an application, shared by all rules that name them.

use core::hash::{Hash, Hasher};
use core::ops::Deref;
use std::sync::Arc;

use adit_types::Direction;
use adit_types::limits::SDF_FILTERS_PER_PDR_MAX;

use crate::matcher::{Candidate, FlowKey, Matcher};
use crate::sdf::{FlowSelector, PacketFilter};

/// A set of SDF filters, of which one must match. Clones share them.
///
/// A set with more filters than a PDR can carry, such as that of an application, has one matcher,
/// which all sessions share. The filters of a smaller set become part of each session's matcher.
#[derive(Clone, Default)]
pub struct SdfSet(Option<Arc<SdfSetContents>>);

struct SdfSetContents {
    /// Filters, at least one.
    filters: Box<[PacketFilter]>,
    matcher: Option<Matcher>,
}

impl SdfSet {
    /// True if the set has its own matcher.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        self.matcher().is_some()
    }

    /// True if a filter matches; false for an empty set.
    #[must_use]
    pub fn matches(&self, direction: Direction, flow: &FlowSelector) -> bool {
        let Some(matcher) = self.matcher() else {
            return self.iter().any(|filter| filter.matches(direction, flow));
        };
        let fits =
            |at| self.get(at).is_some_and(|filter: &PacketFilter| filter.matches(direction, flow));
        let key = FlowKey::new(direction, flow);
        matcher.view().find(&key, |found| !found.needs_check || fits(found.pdr)).is_some()
    }

    fn matcher(&self) -> Option<&Matcher> {
        self.0.as_ref()?.matcher.as_ref()
    }
}

impl Candidate {
    /// True if the match is certain, or one of `sdf`, the filters of the PDR, matches.
    #[inline]
    #[must_use]
    pub fn is_confirmed(self, sdf: &SdfSet, direction: Direction, flow: &FlowSelector) -> bool {
        !self.needs_check || sdf.matches(direction, flow)
    }
}

impl Deref for SdfSet {
    type Target = [PacketFilter];

    fn deref(&self) -> &[PacketFilter] {
        self.0.as_ref().map_or(&[], |shared| &shared.filters)
    }
}

impl From<Vec<PacketFilter>> for SdfSet {
    fn from(filters: Vec<PacketFilter>) -> Self {
        if filters.is_empty() {
            return Self(None);
        }
        let is_large = filters.len() > SDF_FILTERS_PER_PDR_MAX;
        let matcher = if is_large { Matcher::of_filters(&filters) } else { None };
        Self(Some(Arc::new(SdfSetContents { filters: filters.into_boxed_slice(), matcher })))
    }
}

impl FromIterator<PacketFilter> for SdfSet {
    fn from_iter<I: IntoIterator<Item = PacketFilter>>(filters: I) -> Self {
        Vec::from_iter(filters).into()
    }
}

impl PartialEq for SdfSet {
    fn eq(&self, other: &Self) -> bool {
        let shares = |(own, other): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(own, other);
        self.0.as_ref().zip(other.0.as_ref()).is_some_and(shares) || **self == **other
    }
}

impl Eq for SdfSet {}

/// Hashes only the number of filters and the first one: an application may have thousands.
impl Hash for SdfSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.first().hash(state);
    }
}

impl PartialEq<[PacketFilter]> for SdfSet {
    fn eq(&self, other: &[PacketFilter]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<[PacketFilter; N]> for SdfSet {
    fn eq(&self, other: &[PacketFilter; N]) -> bool {
        **self == *other
    }
}

impl PartialEq<Vec<PacketFilter>> for SdfSet {
    fn eq(&self, other: &Vec<PacketFilter>) -> bool {
        **self == **other
    }
}

impl core::fmt::Debug for SdfSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
