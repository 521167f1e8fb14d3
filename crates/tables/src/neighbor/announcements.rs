//! Announcements of our own addresses, so that stations on the links update their neighbor caches.
//!
//! Each address is announced several times, since nobody acknowledges a gratuitous ARP or an
//! unsolicited Neighbor Advertisement. Spec: RFC 5227 §2.3, RFC 4861 §7.2.6.

use adit_rules::{NextHops, WorkerCommand};
use adit_types::{InterfaceId, Nanos};

/// How often an address is announced. Spec: RFC 4861 §10 (MAX_NEIGHBOR_ADVERTISEMENT).
const ANNOUNCEMENTS_PER_ADDRESS: u8 = 3;

/// Time between two announcements. Spec: RFC 4861 §10 (RETRANS_TIMER).
const ANNOUNCEMENT_INTERVAL: Nanos = Nanos::from_secs(1);

/// The announcements that are still to be sent.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    interfaces: Vec<InterfaceId>,
    left: u8,
    due: Nanos,
}

impl Announcements {
    /// Begins a series of announcements at `now`, on links with stations to resolve.
    pub(crate) fn new(now: Nanos, next_hops: &dyn NextHops) -> Self {
        let interfaces = next_hops.interface_ids().into_iter();
        let interfaces = interfaces.filter(|id| next_hops.only_station(*id).is_none());
        Self { interfaces: interfaces.collect(), left: ANNOUNCEMENTS_PER_ADDRESS, due: now }
    }

    /// Returns when the next announcements are due; `None` after the last ones.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        (self.left > 0 && !self.interfaces.is_empty()).then_some(self.due)
    }

    /// Returns the commands that are due at `now`.
    pub(crate) fn take_due(&mut self, now: Nanos) -> impl Iterator<Item = WorkerCommand> + '_ {
        let is_due = self.poll_timeout().is_some_and(|due| due <= now);
        if is_due {
            self.left -= 1;
            self.due = now + ANNOUNCEMENT_INTERVAL;
        }
        let interfaces = self.interfaces.iter().filter(move |_| is_due);
        interfaces.map(|&interface| WorkerCommand::Announce { interface })
    }
}
