//! SDF filters of PDRs: as requested, as compared with packets, and as packed.
//!
//! No other file in `session` reads the fields of a filter.

use adit_rules::PacketFilter;
use adit_rules::sdf::{AddrMatch, PortRange};

use crate::pack::{Pack, packed};
use crate::sdf_text::{self, SdfTextError};

/// Flow labels have 20 bits. Spec: RFC 8200 §3.
const FLOW_LABEL_MAX: u32 = 0xf_ffff;

packed! {
    /// An SDF filter as requested. If it has only an identifier, it refers to a bidirectional
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
        /// True if other PDRs may refer to this filter by its identifier (BID flag).
        pub bidirectional: bool,
    }

    /// An SDF filter: as requested, and as compared with packets.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Sdf {
        /// The filter as the control plane requested it.
        pub spec: SdfSpec,
        /// The conditions on packets; for a reference, those of the filter to which it refers.
        pub filter: PacketFilter,
    }
}

/// Why a filter cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SdfError {
    /// The filter is bidirectional and has no identifier.
    WithoutId,
    /// The flow label has this value, of more than 20 bits.
    FlowLabel(u32),
    /// The flow description is invalid.
    Text(SdfTextError),
}

impl SdfSpec {
    /// Makes the filter from its own conditions; it may be a reference ([`Sdf::reference`]).
    ///
    /// INTEROP: a filter without any field matches every packet; some control planes send it for
    /// rules without a flow description.
    pub(crate) fn provide(self) -> Result<Sdf, SdfError> {
        if self.bidirectional && self.filter_id.is_none() {
            return Err(SdfError::WithoutId);
        }
        if let Some(flow_label) = self.flow_label.filter(|&label| label > FLOW_LABEL_MAX) {
            return Err(SdfError::FlowLabel(flow_label));
        }
        let described = self.flow_description.as_deref().map(sdf_text::parse).transpose();
        let described = described.map_err(SdfError::Text)?.unwrap_or(PacketFilter::ANY);
        let Self { tos, spi, flow_label, .. } = self;
        Ok(Sdf { spec: self, filter: PacketFilter { tos, spi, flow_label, ..described } })
    }

    /// Returns the filter for traffic that a URR exempts from a quota; `None` if it describes none.
    ///
    /// A reference describes none, because a URR has no PDR whose filter it could mean. A filter
    /// without any field would exempt all traffic.
    pub(crate) fn exempted(&self) -> Option<PacketFilter> {
        if *self == Self::default() {
            return None;
        }
        let sdf = self.clone().provide().ok()?;
        sdf.reference().is_none().then_some(sdf.filter)
    }
}

impl Sdf {
    /// Returns the identifier of the filter of another PDR to which this filter refers; `None` if
    /// it has its own conditions.
    #[must_use]
    pub const fn reference(&self) -> Option<u32> {
        let spec = &self.spec;
        let has_condition = spec.flow_description.is_some()
            || spec.tos.is_some()
            || spec.spi.is_some()
            || spec.flow_label.is_some();
        if has_condition { None } else { spec.filter_id }
    }

    /// Returns the identifier by which filters of other PDRs may refer to this one.
    pub(crate) const fn definition(&self) -> Option<u32> {
        let Self { spec, .. } = self;
        let is_definition = spec.bidirectional && self.reference().is_none();
        if is_definition { spec.filter_id } else { None }
    }
}

packed!(PacketFilter { protocol, remote, remote_ports, local, local_ports, tos, spi, flow_label });
packed!(PortRange { first, last });

impl Pack for AddrMatch {
    fn absent() -> Self {
        Self::Any
    }

    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Self::Any => out.push(0),
            Self::V4(prefix) => {
                out.push(1);
                prefix.pack(out);
            }
            Self::V6(prefix) => {
                out.push(2);
                prefix.pack(out);
            }
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        match u8::unpack(from)? {
            0 => Some(Self::Any),
            1 => Pack::unpack(from).map(Self::V4),
            _ => Pack::unpack(from).map(Self::V6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::repacked;

    #[test]
    fn filters_of_every_kind_come_back() {
        let sides = [
            AddrMatch::Any,
            AddrMatch::V4("203.0.113.0/24".parse().unwrap()),
            AddrMatch::V6("2001:db8::/61".parse().unwrap()),
        ];
        for (remote, local) in sides.iter().flat_map(|a| sides.iter().map(move |b| (*a, *b))) {
            let filter = PacketFilter {
                protocol: Some(0),
                remote,
                remote_ports: vec![PortRange { first: 0, last: 0 }],
                local,
                local_ports: vec![PortRange { first: 1, last: 2 }, PortRange { first: 9, last: 9 }],
                tos: Some((0, 0xfc)),
                spi: Some(0),
                flow_label: Some(0xf_ffff),
            };
            assert_eq!(repacked(&filter), filter);
        }
    }

    #[test]
    fn filter_that_cannot_be_used_is_refused_by_kind() {
        let refused = |spec: SdfSpec| spec.provide().unwrap_err();
        let spec = || SdfSpec::default();
        let text = |text: &str| Some(Box::from(text));
        let mixed = text("permit out ip from 10.0.0.1 to ::1");
        assert_eq!(refused(SdfSpec { bidirectional: true, ..spec() }), SdfError::WithoutId);
        let large = FLOW_LABEL_MAX + 1;
        let flow_label = Some(large);
        assert_eq!(refused(SdfSpec { flow_label, ..spec() }), SdfError::FlowLabel(large));
        assert_eq!(
            refused(SdfSpec { flow_description: mixed, ..spec() }),
            SdfError::Text(SdfTextError::FamilyMismatch)
        );
        assert_eq!(spec().provide().unwrap().filter, PacketFilter::ANY);
        let reference = SdfSpec { filter_id: Some(7), ..spec() }.provide().unwrap();
        assert_eq!(reference.reference(), Some(7));
    }
}
