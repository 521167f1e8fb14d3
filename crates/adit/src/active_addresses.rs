//! Addresses of this host while adit is active: taken, announced and prolonged by the control thread.

use std::time::Duration;

use adit_kernel::{DeviceAddress, HostAddresses};
use adit_types::Nanos;
use tracing::warn;

/// How long the kernel keeps the addresses of an adit that was killed.
const LIFETIME: Duration = Duration::from_secs(5);

/// Time between two prolongations, and between two announcements.
const INTERVAL: Nanos = Nanos::from_secs(1);

/// How often they are announced. Spec: RFC 4861 §10 (MAX_NEIGHBOR_ADVERTISEMENT).
const ANNOUNCEMENTS: u8 = 3;

/// The addresses. Drop gives them back.
#[derive(Debug)]
pub(crate) struct ActiveAddresses {
    addresses: HostAddresses,
    /// When they are prolonged next.
    due: Nanos,
    /// Announcements to come.
    left: u8,
}

impl ActiveAddresses {
    /// Takes the addresses.
    ///
    /// # Errors
    /// A device does not exist, or cannot have its address.
    pub(crate) fn take(wanted: &[DeviceAddress]) -> anyhow::Result<Self> {
        let addresses = HostAddresses::add(wanted, LIFETIME)?;
        Ok(Self { addresses, due: Nanos(0), left: ANNOUNCEMENTS })
    }

    /// Announces and prolongs them when it is time.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) {
        if now < self.due {
            return;
        }
        self.due = now + INTERVAL;
        if let Err(error) = self.addresses.prolong(LIFETIME) {
            warn!(%error, "an address of standby.addresses is lost");
        }
        if self.left > 0 {
            self.left -= 1;
            if let Err(error) = self.addresses.announce() {
                warn!(%error, "stations on the link may send to the former active adit for a while");
            }
        }
    }
}
