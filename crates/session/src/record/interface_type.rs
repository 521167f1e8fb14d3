//! 3GPP Interface Types (reference points), and the sides on which they can be.

use adit_rules::{DestinationInterface, SourceInterface};
use adit_types::InterfaceRole;

/// 3GPP Interface Type: the code point. Spec: TS 29.244 §8.2.118.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceType(pub u8);

/// Sides on which a reference point can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sides {
    /// Towards the UE.
    Access,
    /// Between user plane functions, in either direction.
    Between,
    /// Towards the other user plane functions.
    Core,
    /// Towards the data network.
    Network,
    /// Towards the control plane function.
    Cp,
    /// Unknown or not served.
    None,
}

impl InterfaceType {
    /// Returns the sides, in terms of source and destination interfaces: Access is the side of the
    /// UE.
    /// Spec: TS 29.244 §8.2.2, §8.2.24, §8.2.118.
    const fn sides(self) -> Sides {
        match self.0 {
            // S1-U, S4-U, S11-U, S12-U, S2a-U, S2b-U, eNodeB data forwarding.
            0 | 2 | 3 | 4 | 6 | 7 | 8 | 9 => Sides::Access,
            // N3 over each access and for data forwarding, Iu-U.
            11..=14 | 22 => Sides::Access,
            // S5/S8-U, Gn/Gp-U, SGW/UPF data forwarding, N9, S8-U, Gp-U, N9 for roaming, N9 data
            // forwarding, SGW/UPF uplink data forwarding.
            1 | 5 | 10 | 15 | 19 | 20 | 21 | 23 | 28 => Sides::Between,
            // SGi, N6.
            16 | 17 => Sides::Network,
            // N19.
            18 => Sides::Core,
            // Sxa-U, Sxb-U, Sxc-U, N4-U.
            24..=27 => Sides::Cp,
            _ => Sides::None,
        }
    }

    /// Returns the role of our interface at this reference point; `None` if it has no tunnels.
    pub(crate) const fn role(self) -> Option<InterfaceRole> {
        match self.sides() {
            Sides::Access => Some(InterfaceRole::N3),
            Sides::Between | Sides::Core => Some(InterfaceRole::N9),
            Sides::Cp => Some(InterfaceRole::N4u),
            Sides::Network | Sides::None => None,
        }
    }

    /// True if packets can arrive from the side `source` at this reference point.
    #[must_use]
    pub const fn fits_source(self, source: SourceInterface) -> bool {
        match self.sides() {
            Sides::Access => matches!(source, SourceInterface::Access),
            Sides::Between => matches!(source, SourceInterface::Access | SourceInterface::Core),
            Sides::Core => matches!(source, SourceInterface::Core),
            Sides::Network => {
                matches!(source, SourceInterface::Core | SourceInterface::SgiLanN6Lan)
            }
            Sides::Cp => matches!(source, SourceInterface::CpFunction),
            Sides::None => false,
        }
    }

    /// True if packets can leave to the side `destination` at this reference point.
    #[must_use]
    pub const fn fits_destination(self, destination: DestinationInterface) -> bool {
        self.fits_source(match destination {
            DestinationInterface::Access => SourceInterface::Access,
            DestinationInterface::Core => SourceInterface::Core,
            DestinationInterface::SgiLanN6Lan => SourceInterface::SgiLanN6Lan,
            DestinationInterface::CpFunction => SourceInterface::CpFunction,
            // Lawful interception has its own reference points.
            DestinationInterface::LiFunction => return false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_type_fits_the_sides_of_its_reference_point() {
        use SourceInterface::{Access, Core, CpFunction, SgiLanN6Lan};
        let fits = |code: u8| {
            [Access, Core, SgiLanN6Lan, CpFunction]
                .map(|side| InterfaceType(code).fits_source(side))
        };
        assert_eq!(fits(11), [true, false, false, false], "N3");
        assert_eq!(fits(15), [true, true, false, false], "N9");
        assert_eq!(fits(17), [false, true, true, false], "N6");
        assert_eq!(fits(18), [false, true, false, false], "N19");
        assert_eq!(fits(27), [false, false, false, true], "N4-U");
        assert_eq!(fits(40), [false; 4], "unknown");
        assert!(InterfaceType(17).fits_destination(DestinationInterface::Core));
        assert!(!InterfaceType(17).fits_destination(DestinationInterface::Access));
    }
}
