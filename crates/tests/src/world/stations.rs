//! Stations whose hardware addresses can be resolved.

use core::net::IpAddr;

use adit_rules::NextHops;
use adit_tables::Publisher;
use adit_types::{InterfaceId, MacAddr};

use super::World;

impl World {
    /// Packets that wait for a station that is not resolved.
    #[must_use]
    pub fn unresolved_stations(&self) -> Vec<(usize, IpAddr)> {
        self.awaiting_neighbor.iter().map(|held| (held.interface, held.station)).collect()
    }
}

/// Resolves the two stations of [`crate::scenario::plain_layout`]: the gNB at interface 0, the
/// gateway at interface 1.
///
/// # Panics
/// Their next hops find no room.
#[allow(clippy::unwrap_used, reason = "a test")]
pub fn resolve_stations(publisher: &mut Publisher) {
    for (interface, addr) in [(0, [10, 0, 3, 1]), (1, [10, 0, 6, 1])] {
        let addr = IpAddr::from(addr);
        let index = publisher.ensure_next_hop(InterfaceId(interface), addr).unwrap();
        publisher.set_mac(index, MacAddr(station_mac(addr)), false);
    }
}

/// The hardware address of a station, derived from its IP address.
#[must_use]
pub fn station_mac(addr: IpAddr) -> [u8; 6] {
    match addr {
        IpAddr::V4(addr) => {
            let [a, b, c, d] = addr.octets();
            [2, 4, a, b, c, d]
        }
        IpAddr::V6(addr) => {
            let octets = addr.octets();
            [2, 6, octets[4], octets[5], octets[14], octets[15]]
        }
    }
}
