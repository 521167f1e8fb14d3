//! Local tunnel endpoints.

use core::net::{Ipv4Addr, Ipv6Addr};

use adit_types::Teid;

use crate::pack::packed;

packed! {
    /// A local tunnel endpoint. Spec: TS 29.244 §8.2.3.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LocalFTeid {
        /// Tunnel endpoint identifier, never zero.
        pub teid: Teid,
        /// Our IPv4 address.
        pub v4: Option<Ipv4Addr>,
        /// Our IPv6 address.
        pub v6: Option<Ipv6Addr>,
    }

    /// A TEID that we chose, and the CHOOSE ID for which we chose it. Spec: TS 29.244 §8.2.3.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub struct ChosenFTeid {
        /// The CHOOSE ID; `None` for a TEID that was restored, until a PDR names it by a CHOOSE ID.
        pub choose_id: Option<u8>,
        /// The TEID.
        pub teid: Teid,
    }
}
