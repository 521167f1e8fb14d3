//! SDF filters of PDRs.

use adit_rules::PacketFilter;

/// An SDF filter as requested. With an identifier and nothing else it refers to a bidirectional
/// filter of another PDR of the session. Spec: TS 29.244 §8.2.5.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SdfSpec {
    /// Flow description: an IPFilterRule text.
    pub flow_description: Option<Box<str>>,
    /// Type of service or traffic class: value and mask.
    pub tos: Option<(u8, u8)>,
    /// Security parameter index.
    pub spi: Option<u32>,
    /// IPv6 flow label, 20 bits; a larger value is refused.
    pub flow_label: Option<u32>,
    /// Identifier, unique among the session's filters.
    pub filter_id: Option<u32>,
    /// Other PDRs may refer to this filter by its identifier (BID flag).
    pub bidirectional: bool,
}

/// An SDF filter: as provided, and what it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdf {
    /// As the control plane provided it.
    pub spec: SdfSpec,
    /// What it matches; of a reference, what the filter referred to matches.
    pub filter: PacketFilter,
}

impl Sdf {
    /// The identifier of the filter of another PDR that this one stands for.
    #[must_use]
    pub const fn reference(&self) -> Option<u32> {
        let spec = &self.spec;
        let has_condition = spec.flow_description.is_some()
            || spec.tos.is_some()
            || spec.spi.is_some()
            || spec.flow_label.is_some();
        if has_condition { None } else { spec.filter_id }
    }
}
