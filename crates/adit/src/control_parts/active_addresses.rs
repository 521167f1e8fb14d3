//! Addresses that this host has while adit is active. The control thread takes, announces and
//! prolongs them.

use std::time::Duration;

use adit_kernel::{DeviceAddress, HostAddresses};
use adit_types::Nanos;
use tracing::warn;

use crate::config::{Config, StoreKind};

/// Time between two announcements.
const ANNOUNCEMENT_INTERVAL: Nanos = Nanos::from_secs(1);

/// How often new addresses are announced, besides the last time, when a previous holder has lost
/// them. Spec: RFC 4861 §10 (MAX_NEIGHBOR_ADVERTISEMENT).
const ANNOUNCEMENT_COUNT: u8 = 3;

/// The addresses that the host of an active adit has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedAddresses<'a> {
    pub addresses: &'a [DeviceAddress],
    /// How long another adit waits before it takes the addresses.
    pub lease: Duration,
}

/// Returns the addresses of the configuration; `None` without `[standby]`.
pub(crate) fn wanted(config: &Config) -> Option<WantedAddresses<'_>> {
    let StoreKind::Shared(shared) = &config.store.kind else { return None };
    let standby = config.standby.as_ref()?;
    Some(WantedAddresses { addresses: &standby.addresses, lease: shared.lease })
}

/// The addresses that this host has taken. Dropping removes them from the host.
#[derive(Debug)]
pub(crate) struct ActiveAddresses {
    addresses: HostAddresses,
    schedule: AddressSchedule,
}

/// When the addresses are prolonged and announced.
#[derive(Debug)]
struct AddressSchedule {
    /// How long the kernel keeps the addresses without a renewal.
    lifetime: Duration,
    prolong_at: Nanos,
    announce_at: Nanos,
    /// How many announcements are to come, the last one included.
    left: u8,
    /// When the kernel has removed the addresses from the host of a previous holder that died;
    /// `None` before the first announcement.
    last_at: Option<Nanos>,
}

/// Which actions are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AddressDue {
    prolong: bool,
    announce: bool,
}

impl ActiveAddresses {
    /// Adds the addresses to this host.
    ///
    /// # Errors
    /// A device does not exist, or cannot have its address.
    pub(crate) fn take(wanted: WantedAddresses<'_>) -> anyhow::Result<Self> {
        let schedule = AddressSchedule::new(wanted.lease);
        let addresses = HostAddresses::add(wanted.addresses, schedule.lifetime)?;
        Ok(Self { addresses, schedule })
    }

    /// Announces and prolongs the addresses when it is time.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) {
        let due = self.schedule.take_due(now);
        if due.prolong
            && let Err(error) = self.addresses.prolong(self.schedule.lifetime)
        {
            warn!(%error, "an address of standby.addresses is lost");
        }
        if due.announce
            && let Err(error) = self.addresses.announce()
        {
            warn!(%error, "stations on the link may send to the former active adit for a while");
        }
    }
}

impl AddressSchedule {
    /// Makes a schedule in which the addresses of a process that dies vanish after `lease` at the
    /// latest, which is when another adit takes them. The kernel counts seconds, so this is rounded
    /// up.
    fn new(lease: Duration) -> Self {
        let seconds = lease.as_millis().div_ceil(1000).max(1);
        let lifetime = Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX));
        let (prolong_at, announce_at) = (Nanos(0), Nanos(0));
        Self { lifetime, prolong_at, announce_at, left: ANNOUNCEMENT_COUNT + 1, last_at: None }
    }

    fn take_due(&mut self, now: Nanos) -> AddressDue {
        let lifetime = Nanos(u64::try_from(self.lifetime.as_nanos()).unwrap_or(u64::MAX));
        let last_at = *self.last_at.get_or_insert(now + lifetime + ANNOUNCEMENT_INTERVAL);
        let prolong = now >= self.prolong_at;
        if prolong {
            self.prolong_at = now + Nanos(lifetime.0 / 4);
        }
        let announce = self.left > 0 && now >= self.announce_at;
        if announce {
            self.left -= 1;
            self.announce_at = match self.left {
                // The last announcement waits until a previous holder has lost the addresses: a
                // host that sent a request while both holders answered may have kept the previous
                // one.
                1 => last_at.max(now + ANNOUNCEMENT_INTERVAL),
                _ => now + ANNOUNCEMENT_INTERVAL,
            };
        }
        AddressDue { prolong, announce }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_is_that_of_the_lease_in_whole_seconds() {
        let lifetime = |lease_ms| AddressSchedule::new(Duration::from_millis(lease_ms)).lifetime;
        assert_eq!(lifetime(300), Duration::from_secs(1));
        assert_eq!(lifetime(2000), Duration::from_secs(2));
        assert_eq!(lifetime(2001), Duration::from_secs(3));
    }

    #[test]
    fn addresses_are_announced_again_after_the_former_holder_has_lost_them() {
        let mut schedule = AddressSchedule::new(Duration::from_secs(4));
        let begin = Nanos::from_secs(100);
        let announced: Vec<u64> = (0..200)
            .map(|tenth| begin + Nanos::from_millis(100 * tenth))
            .filter(|now| schedule.take_due(*now).announce)
            .map(|now| now.since(begin).0 / 1_000_000)
            .collect();
        assert_eq!(announced, [0, 1000, 2000, 5000]);
    }

    #[test]
    fn addresses_are_prolonged_several_times_in_their_lifetime() {
        let mut schedule = AddressSchedule::new(Duration::from_secs(2));
        let due = |at_ms: &u64| schedule.take_due(Nanos::from_millis(1000 + *at_ms)).prolong;
        let prolonged = (0..2000).step_by(10).filter(due).count();
        assert_eq!(prolonged, 4);
    }
}
