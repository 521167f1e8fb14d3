//! UE addresses that packets must have.

use adit_rules::UeAddresses;

use crate::pack::packed;

packed! {
    /// UE IP Address as a condition on packets. Spec: TS 29.244 §8.2.62.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct UeMatch {
        /// The addresses; an IPv6 prefix has 64 bits or more.
        pub addresses: UeAddresses,
        /// The S/D flag, which is only checked: the direction of the PDR decides which address of a
        /// packet is compared. INTEROP: a PDR towards the UE may carry `Source`, since some control
        /// planes leave the flag zero; `Destination` in a PDR from the UE is refused.
        pub side: UeSide,
    }
}

/// Whether the source or the destination of a packet is the UE (S/D flag).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UeSide {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
}
