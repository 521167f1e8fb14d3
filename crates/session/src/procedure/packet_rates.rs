//! The packet rates of a session.

use adit_rules::PacketRateMeter;
use adit_types::{QerId, Seid};

use crate::index::QerPacketRate;
use crate::store::SessionStore;

impl SessionStore {
    /// Returns the packet rates of the session `up_seid`. Workers keep updating them.
    #[must_use]
    pub fn packet_rates(&self, up_seid: Seid) -> Vec<QerPacketRate> {
        let Some(session) = self.session(up_seid) else { return Vec::new() };
        let rates = self.packet_rates.of(session.index());
        if rates.is_empty() {
            return Vec::new();
        }
        let records = session.records();
        let reported = |id| records.qers.iter().any(|qer| qer.id == id && qer.reports_packets);
        let of = |(qer, rate): &(QerId, PacketRateMeter)| QerPacketRate {
            qer: *qer,
            reported_at_end: reported(*qer),
            rate: rate.clone(),
        };
        rates.iter().map(of).collect()
    }
}
