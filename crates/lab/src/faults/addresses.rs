//! Addresses and names of the hosts in a run.

use std::net::Ipv4Addr;

use adit_types::MacAddr;

/// Addresses of the UPF, and of its peers.
pub(crate) const N3: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
pub(crate) const N4: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 2);
pub(crate) const N6: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 2);
pub(crate) const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
pub(crate) const SMF: Ipv4Addr = Ipv4Addr::new(10, 0, 4, 1);
pub(crate) const DATA_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);

/// Number of the network between adits and servers of the store.
pub(crate) const STORE_NETWORK: u8 = 9;
/// Names of the two adits' hosts.
pub(crate) const UPFS: [&str; 2] = ["a", "b"];
/// Name of the host of SMF, gNB, data network and observer.
pub(crate) const WORLD: &str = "world";
/// The fourth octet of the link-layer addresses of adits' devices.
pub(crate) const UPF_DEVICE: u8 = 1;

/// Returns the address of an adit on the store's network.
pub(crate) fn upf_address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, STORE_NETWORK, 2 + u8::try_from(at).unwrap_or(0))
}

/// Returns the address of a server of the store.
pub(crate) fn server_address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, STORE_NETWORK, 11 + u8::try_from(at).unwrap_or(0))
}

/// Returns which adit has this link-layer address; 0 is `a`. `None` if it is no adit's.
pub(crate) fn upf_of_mac(mac: MacAddr) -> Option<usize> {
    let MacAddr([2, 0, 0, UPF_DEVICE, host, _]) = mac else { return None };
    usize::from(host).checked_sub(1).filter(|host| *host < UPFS.len())
}

/// Returns the name of a host's port on the switch.
pub(crate) fn port(host: &str, network: u8) -> String {
    format!("{host}-n{network}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adits_are_known_by_their_devices() {
        assert_eq!(upf_of_mac(MacAddr([2, 0, 0, 1, 1, 4])), Some(0));
        assert_eq!(upf_of_mac(MacAddr([2, 0, 0, 1, 2, 3])), Some(1));
        assert_eq!(upf_of_mac(MacAddr([2, 0, 0, 2, 1, 3])), None);
        assert_eq!(upf_of_mac(MacAddr([2, 0, 0, 1, 3, 3])), None);
    }
}
