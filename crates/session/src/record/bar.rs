//! Buffering action rules.

use adit_types::BarId;

use crate::rule::rule;

rule! {
    /// A BAR. Spec: TS 29.244 §7.5.2.6.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Bar, BarUpdate {
        /// Identifier, unique within the session.
        pub id: BarId,
        /// Time between the first buffered packet and the report of it. Unit: 50 ms. Spec: §8.2.28.
        pub notification_delay: u8,
        /// Maximum of buffered packets; `None`: `limits::BUFFER_PKTS_DEFAULT`. Spec: §8.2.100.
        pub suggested_pkts: Option<u16>,
    }
}
